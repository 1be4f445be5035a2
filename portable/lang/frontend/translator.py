"""Translating Python statements: bindings, branches, loops and calls of helper functions.

Names are bound to what they stand for as the walk goes along, so that constants stay constants and
a branch on them is decided at once. Only a name that is assigned again under a run-time branch or
loop becomes a variable of the generated program.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

from portable.dtypes import DType
from portable.errors import KernelError
from portable.lang.arguments.parameters import binder_of
from portable.lang.frontend import variables
from portable.lang.frontend.builder import Builder
from portable.lang.frontend.conversion import as_bool, cast, constant, constant_truth
from portable.lang.frontend.frames import Call, Closure, Frame
from portable.lang.frontend.loops import End, LoopTranslator
from portable.lang.frontend.source import FunctionSource
from portable.lang.frontend.structs import load, store
from portable.lang.frontend.syntax import REFUSED, assigned, has_return
from portable.lang.frontend.values import Value, describe, known_in
from portable.lang.frontend.variables import Unassigned
from portable.lang.function import Function
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.words.word import word_of

_MAX_DEPTH: Final = 64


class Translator(LoopTranslator):
    """Walks one kernel with everything that it inlines."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self._outer: dict[FunctionSource, Mapping[str, Any]] = {}
        builder.inline = self.call_function
        builder.call = lambda function, args: self.call(function, args, {})

    def run(self) -> None:
        """Translates the body of the kernel."""
        self._block(self.frame.source.tree.body)

    # -- blocks ----------------------------------------------------------------------------

    def _block(self, statements: Sequence[ast.stmt]) -> End:
        for position, node in enumerate(statements):
            self.builder.node = node
            if isinstance(node, ast.If):
                end = self._if(node, statements[position + 1 :])
                if end is None:
                    continue
                return end
            end = self._statement(node)
            if end is not End.THROUGH:
                return end
        return End.THROUGH

    def _statement(self, node: ast.stmt) -> End:
        method = getattr(self, f"do_{type(node).__name__.lower()}", None)
        if method is None:
            hint = REFUSED.get(type(node), "")
            self.builder.fail(f"{type(node).__name__} is not in the kernel language", hint)
        end = method(node)
        return end if isinstance(end, End) else End.THROUGH

    def do_pass(self, node: ast.Pass) -> None:
        """Nothing."""

    def do_expr(self, node: ast.Expr) -> None:
        """A call for its effect, or a docstring."""
        value = self.visit(node.value)
        if isinstance(node.value, ast.Call | ast.Constant):
            return
        self.builder.node = node
        word = word_of(value)
        if word:
            self.builder.fail(f"kl.{word.name} is not called", f"write kl.{word.name}(...)")
        self.builder.fail("this expression has no effect", "assign it to a name, or remove it")

    def do_assert(self, node: ast.Assert) -> None:
        """A compile-time check."""
        condition = self.visit(node.test)
        self.builder.node = node
        if isinstance(condition, Value):
            self.builder.fail(
                "assert takes compile-time conditions",
                "write kl.check(condition, message), or a flag to an array",
            )
        if not constant_truth(self.builder, condition):
            message = self.visit(node.msg) if node.msg else ""
            self.builder.node = node
            self.builder.fail(f"assertion failed{': ' if message else ''}{message}")

    # -- assignment ------------------------------------------------------------------------

    def do_assign(self, node: ast.Assign) -> None:
        """``x = ...``, ``a[i] = ...``, ``x, y = ...``."""
        first = node.targets[0]
        makes = isinstance(node.value, ast.Call | ast.IfExp)
        self.builder.hint = first.id if isinstance(first, ast.Name) and makes else ""
        value = self.visit(node.value)
        self.builder.node = node
        if len(node.targets) > 1 or isinstance(node.targets[0], ast.Tuple):
            value = self._snapshot("t", value)
        for target in node.targets:
            self._assign(target, value)

    def do_annassign(self, node: ast.AnnAssign) -> None:
        """``x: kl.f64 = 0`` fixes the type of the value."""
        if node.value is None or not isinstance(node.target, ast.Name):
            self.builder.fail("an annotation needs a name and a value", "such as x: kl.f64 = 0")
        dtype = self.visit(node.annotation)
        if not isinstance(dtype, DType):
            self.builder.fail(
                f"annotations in kernels are dtypes, not {describe(dtype)}",
                "such as x: kl.i32 = 0; most need none",
            )
        self._assign(node.target, cast(self.builder, self.visit(node.value), dtype))

    def do_augassign(self, node: ast.AugAssign) -> None:
        """``x += ...``, ``a[i] += ...``."""
        if isinstance(node.target, ast.Name):
            name = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
            held = self.visit(name)
            value = self.operate(node.op, held, self.visit(node.value), in_place=True)
            self._assign(node.target, value)
            return
        if not isinstance(node.target, ast.Subscript):
            self.builder.fail("only names and array elements can be assigned")
        view, index = self._element(node.target)
        held = load(self.builder, view, index)
        operand = self.visit(node.value)
        self.builder.node = node
        store(self.builder, view, index, self.operate(node.op, held, operand))

    # -- branches --------------------------------------------------------------------------

    def _if(self, node: ast.If, rest: Sequence[ast.stmt]) -> End | None:
        """None: go on with the next statement; else the block is done, `rest` included."""
        condition = self.condition(node.test)
        self.builder.node = node
        absorbs = not self.frame.is_kernel and has_return(node)
        tail = list(rest) if absorbs else []
        if not isinstance(condition, Value):
            chosen = node.body if constant_truth(self.builder, condition) else node.orelse
            end = self._block([*chosen, *tail])
            return end if absorbs or end is not End.THROUGH else None
        test = as_bool(self.builder, condition)
        branches = ([*node.body, *tail], [*node.orelse, *tail])
        end = self._branches(test, branches, node)
        return end if absorbs or end is not End.THROUGH else None

    def _branches(
        self, test: e.Expression, branches: tuple[list[ast.stmt], list[ast.stmt]], node: ast.If
    ) -> End:
        here = self.builder.location
        self._promote({x for x in assigned(*branches) if not self._is_struct(x)})
        before = dict(self.frame.env)
        blocks, envs, ends = [], [], []
        self.frame.depth += 1
        for branch in branches:
            self.frame.env = dict(before)
            with self.builder.block() as block:
                ends.append(self._block(branch))
            blocks.append(block)
            envs.append(self.frame.env)
        self.frame.depth -= 1
        self.builder.node = node
        live = [i for i in (0, 1) if ends[i] is End.THROUGH or "return" in envs[i]]
        self.frame.env = self._merged(before, [(envs[i], blocks[i]) for i in live])
        self.builder.emit(s.If(test, tuple(blocks[0]), tuple(blocks[1]), here))
        return End.THROUGH if End.THROUGH in ends else End.LEFT

    # -- functions -------------------------------------------------------------------------

    def do_return(self, node: ast.Return) -> End:
        """``return``: ends the work-item in a kernel, gives the value in a helper function."""
        if self.frame.is_kernel:
            if node.value is not None:
                self.builder.fail("kernels return nothing", "write results to an array argument")
            self.builder.emit(s.Return(self.builder.location))
            return End.LEFT
        if any(kind != "static" for kind, _ in self.frame.loops):
            self.builder.fail(
                "return inside a run-time loop of a helper function",
                "break out of the loop and return after it",
            )
        if any(self.frame.depth > depth for _, depth in self.frame.loops):
            self.builder.fail(
                "return out of a loop that is repeated at compile time depends on a run-time "
                "condition",
                "assign the result to a name and return it after the loop",
            )
        value = None if node.value is None else self.visit(node.value)
        self.frame.env["return"] = self._snapshot("result", value)
        return End.LEFT

    def call_function(self, function: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Inlines a helper function."""
        try:
            binder = binder_of(function.python)
            given, left_out = binder.bind(args, kwargs)
        except TypeError as error:
            self.builder.fail(f"{function.label}: {error}")
        given |= {name: constant(self.builder, default) for name, default in left_out.items()}
        given = {name: given[name] for name in binder.names}
        source = self._source(function)
        with self._inlining(function, given, source, self._outer_names(source)):
            self._block(source.tree.body)
            result = self.frame.env.get("return")
            if isinstance(result, Unassigned):
                self.builder.fail(f"{function.label} returns a value on some paths only")
            return variables.read(self.builder, result)

    def call_closure(self, function: Closure, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Inlines a lambda of a kernel's own."""
        try:
            bound = function.signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            self.builder.fail(f"{function.label}: {error}")
        home = function.frame
        given = {**function.defaults, **bound}
        with self._inlining(function, given, home.source, home.outer, home.env):
            return self._snapshot("value", self.visit(function.node.body))

    @contextmanager
    def _inlining(
        self,
        function: Function | Closure,
        given: dict[str, Any],
        source: FunctionSource,
        outer: Mapping[str, Any],
        around: Mapping[str, Any] = MappingProxyType({}),
    ) -> Iterator[None]:
        """In a frame of its own, with the names of the function that it stands in, if any."""
        caller, node, here = self.frame, self.builder.node, self.builder.location
        call = Call(function, tuple(given.values()))
        self._refuse_recursion(call)
        caller.calls += 1
        path = (*caller.path, (function.__name__, here.line, here.column, caller.calls))
        env = {**around, **{name: self._snapshot(name, x) for name, x in given.items()}}
        active = (*caller.active, call)
        self.builder.frame = Frame(source, path, env, outer, False, here, active)
        try:
            yield
        finally:
            self.builder.frame, self.builder.node = caller, node

    def _source(self, function: Function) -> FunctionSource:
        try:
            return function.source
        except KernelError as error:
            self.builder.fail(f"{error.reason}, as {self.frame.source.name} calls it", error.hint)

    def _outer_names(self, source: FunctionSource) -> Mapping[str, Any]:
        """What a helper's free names stand for, the same in all calls of one kernel."""
        names = self._outer.get(source)
        if names is None:
            names = self._outer[source] = source.outer_names()
        return names

    def _refuse_recursion(self, call: Call) -> None:
        """A helper that calls itself needs constants that change, and an end that they reach."""
        active = self.frame.active
        alike = (one for one in active if one.function is call.function)
        again = any(known_in(one) == known_in(call) for one in alike)
        if again or len(active) > _MAX_DEPTH:
            first = next(i for i, one in enumerate(active) if one.function is call.function)
            names = [one.function.label for one in (*active[first:], call)]
            self.builder.fail(
                f"{call.function.label} calls itself without end: {' -> '.join(names)}",
                "helpers are inlined; let a compile-time constant end the recursion, or write a "
                "loop",
            )
