"""Translating Python statements: bindings, branches, loops and calls of helper functions.

Names are bound to what they stand for as the walk goes along, so that constants stay constants and
a branch on them is decided at once. Only a name that is assigned again under a run-time branch or
loop becomes a variable of the generated program.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from enum import Enum, auto
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from portable.dtypes import DType
from portable.errors import KernelError
from portable.lang.arguments.parameters import binder_of
from portable.lang.frontend import structs, variables
from portable.lang.frontend.arithmetic import binary
from portable.lang.frontend.bindings import BindingTranslator
from portable.lang.frontend.builder import Builder, Seam
from portable.lang.frontend.conversion import (
    as_bool,
    as_type,
    cast,
    constant,
    constant_truth,
    unify,
)
from portable.lang.frontend.handlers.matrices import element_variables, partner_value
from portable.lang.frontend.source import FunctionSource
from portable.lang.frontend.structs import load, store
from portable.lang.frontend.syntax import (
    REFUSED,
    Given,
    apart,
    assigned,
    counted,
    has_break,
    has_return,
    is_left,
)
from portable.lang.frontend.values import (
    Call,
    Closure,
    Elements,
    Frame,
    LoopKind,
    Product,
    Range,
    Value,
    VectorRange,
    View,
    describe,
    sequence,
)
from portable.lang.frontend.variables import Unassigned
from portable.lang.function import Function, arity
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.facts import Interval
from portable.lang.ir.types import Fragment
from portable.lang.words.word import word_of

_MAX_DEPTH: Final = 64


class _End(Enum):
    """How a block ended: at its last statement, or by leaving earlier."""

    THROUGH = auto()
    LEFT = auto()
    BREAK = auto()
    CONTINUE = auto()


class Translator(BindingTranslator):
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

    def _block(self, statements: Sequence[ast.stmt]) -> _End:
        for position, node in enumerate(statements):
            self.builder.node = node
            if isinstance(node, ast.If):
                end = self._if(node, statements[position + 1 :])
                if end is None:
                    continue
                return end
            end = self._statement(node)
            if end is not _End.THROUGH:
                return end
        return _End.THROUGH

    def _statement(self, node: ast.stmt) -> _End:
        method = getattr(self, f"do_{type(node).__name__.lower()}", None)
        if method is None:
            hint = REFUSED.get(type(node), "")
            self.builder.fail(f"{type(node).__name__} is not in the kernel language", hint)
        end = method(node)
        return end if isinstance(end, _End) else _End.THROUGH

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
            self.builder.fail(f"annotations in kernels are dtypes, not {describe(dtype)}")
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

    def _if(self, node: ast.If, rest: Sequence[ast.stmt]) -> _End | None:
        """None: go on with the next statement; else the block is done, `rest` included."""
        condition = self.condition(node.test)
        self.builder.node = node
        absorbs = not self.frame.is_kernel and has_return(node)
        tail = list(rest) if absorbs else []
        if not isinstance(condition, Value):
            chosen = node.body if constant_truth(self.builder, condition) else node.orelse
            end = self._block([*chosen, *tail])
            return end if absorbs or end is not _End.THROUGH else None
        test = as_bool(self.builder, condition)
        branches = ([*node.body, *tail], [*node.orelse, *tail])
        end = self._branches(test, branches, node)
        return end if absorbs or end is not _End.THROUGH else None

    def _branches(
        self, test: e.Expression, branches: tuple[list[ast.stmt], list[ast.stmt]], node: ast.If
    ) -> _End:
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
        live = [i for i in (0, 1) if ends[i] is _End.THROUGH or "return" in envs[i]]
        self.frame.env = self._merged(before, [(envs[i], blocks[i]) for i in live])
        self.builder.emit(s.If(test, tuple(blocks[0]), tuple(blocks[1]), here))
        return _End.THROUGH if _End.THROUGH in ends else _End.LEFT

    # -- loops -----------------------------------------------------------------------------

    def do_for(self, node: ast.For) -> _End | None:
        """Loops over ranges, tuples of constants and the elements of a matrix."""
        if node.orelse:
            self.builder.fail("for ... else is not in the kernel language", "use a flag")
        over = self.visit(node.iter)
        self.builder.node = node
        if isinstance(over, Range) and not over.static:
            if not isinstance(node.target, ast.Name):
                self.builder.fail("a loop over a range has one name")
            self._run_time_loop(node, over, node.target.id)
            return None
        if isinstance(over, VectorRange):
            self._vector_loop(node, over)
            return None
        if isinstance(over, Range):
            return self._repeat(node, self.constants(over))
        if isinstance(over, Elements):
            self._elements(node, over.fragment)
            return None
        if isinstance(over, Product):
            return self._nested_loops(node, self._snapshot("part", over))
        items = sequence(over)
        if items is not None:
            # A round may assign the variables of which a later round's item is made.
            return self._repeat(node, self._snapshot("item", tuple(items)))
        self.builder.fail(
            f"a loop runs over range(...), not {describe(over)}",
            "write for i in range(x.shape[0]): and take x[i]" if isinstance(over, View) else "",
        )

    def _nested_loops(self, node: ast.For, over: Product) -> _End | None:
        """``for x, y in product(...)`` as a loop for each part, the last one innermost."""
        names = node.target.elts if isinstance(node.target, ast.Tuple) else []
        if len(names) != len(over.parts):
            self.builder.fail(f"a loop over a product of {len(over.parts)} has as many names")
        if has_break(node.body):
            self.builder.fail(
                "break in a loop over product(...), which becomes loops within each other",
                "write the loops out",
            )
        targets, body = apart(names, node.body)
        for target, part in zip(reversed(targets), reversed(over.parts), strict=True):
            given = Given(part, isinstance(part, Range) and not part.static)
            loop = ast.For(target, ast.copy_location(given, node.iter), body, [])
            body = [ast.copy_location(loop, node)]
        return self.do_for(loop)

    def _repeat(self, node: ast.For, items: Iterable[Any]) -> _End | None:
        """The body once per item, at compile time."""
        self.frame.loops.append(("static", self.frame.depth))
        try:
            for item in items:
                self.count_repetition()
                self._assign(node.target, item)
                end = self._block(node.body)
                if end is _End.BREAK:
                    break
                if end is _End.LEFT:
                    return end
        finally:
            self.frame.loops.pop()
        return None

    def _run_time_loop(
        self,
        node: ast.For,
        over: Range,
        name: str,
        kind: LoopKind = "dynamic",
        constants: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """One loop of the program: `name` counts, others stand for constants."""
        here = self.builder.location
        start, stop, step = self._bounds(over)
        names = {name, *constants}
        self._promote_in_loop(assigned(node.body) - names, counted(node.body))
        var = self.builder.bind(name, start.type)
        self._remember_loop(var, start.expr, stop.expr, step.expr)
        before = dict(self.frame.env)
        self.frame.env = {**before, name: Value(var), **constants}
        with self.builder.block() as body:
            self._loop_body(node.body, kind)
        self._after_loop(before, here.line, names)
        self.builder.emit(
            s.For(var, start.expr, stop.expr, step.expr, tuple(body), here, over.unroll)
        )

    def _vector_loop(self, node: ast.For, over: VectorRange) -> None:
        """A loop over whole vectors, and one over what is left, of the same body."""
        name, lanes = self._names(node, 2, "kl.vector_range gives two names: for i, lanes in ...")
        start, stop, _ = self._bounds(over.whole)
        middle, unroll = start, over.whole.unroll
        seam = Seam(over.lanes, tuple(self.frame.env))
        self.builder.seams.append(seam)
        if over.lanes > 1:
            middle = self._after_vectors(start, stop, over.lanes)
            vectors = Range(start, middle, over.lanes, unroll)
            self._run_time_loop(node, vectors, name, "vectors", {lanes: over.lanes})
            self.builder.node = node
            seam.cross()
        rest = Range(middle, stop, 1, unroll if over.lanes == 1 else s.FEW)
        self._run_time_loop(node, rest, name, "vectors", {lanes: 1})
        self.builder.seams.pop()

    def _names(self, node: ast.For, count: int, refusal: str) -> list[str]:
        """The names of a loop that gives several things."""
        targets = node.target.elts if isinstance(node.target, ast.Tuple) else []
        names = [x.id for x in targets if isinstance(x, ast.Name)]
        if not len(names) == len(targets) == count:
            self.builder.fail(refusal)
        return names

    def _after_vectors(self, start: Value, stop: Value, lanes: int) -> Value:
        """Where what no longer fills a vector begins: at the start, if the stop lies before it."""
        arithmetic = partial(binary, self.builder)
        length = arithmetic("sub", stop, start)
        if self.builder.bounds(length.expr).low < 0 or stop.dtype.kind == "u":
            length = arithmetic("sub", stop, arithmetic("min", start, stop))
        vectors = arithmetic("floordiv", length, lanes)
        middle = self._named("middle", arithmetic("add", start, arithmetic("mul", vectors, lanes)))
        if isinstance(middle.expr, e.Variable):
            first, last = self.builder.bounds(start.expr), self.builder.bounds(stop.expr)
            self.builder.intervals[middle.expr] = Interval(first.low, max(first.high, last.high))
        return middle

    def _bounds(self, over: Range) -> tuple[Value, ...]:
        values = unify(self.builder, over.start, over.stop, over.step)
        dtype = values[0].dtype
        names = ("start", "stop", "step")
        typed = (as_type(self.builder, x, dtype) for x in values)
        return tuple(self._named(n, x) for n, x in zip(names, typed, strict=True))

    def _remember_loop(
        self, var: e.Variable, start: e.Expression, stop: e.Expression, step: e.Expression
    ) -> None:
        known = self.builder.intervals
        first, last = self.builder.bounds(start), self.builder.bounds(stop)
        if isinstance(step, e.Const) and step.value > 0:
            known[var] = Interval(first.low, max(first.low, last.high - 1))
        elif isinstance(step, e.Const):
            known[var] = Interval(min(first.high, last.low + 1), first.high)

    def _loop_body(self, body: Sequence[ast.stmt], kind: LoopKind = "dynamic") -> None:
        self.frame.loops.append((kind, self.frame.depth))
        self.frame.depth += 1
        self.builder.scratch_used = True  # what a later round begins with
        self._block(body)
        self.frame.depth -= 1
        self.frame.loops.pop()

    def _after_loop(
        self, before: dict[str, Any], line: int, bound: AbstractSet[str] = frozenset()
    ) -> None:
        """Names first bound in a loop's body are gone after it, and the loop's own names."""
        inside, here = self.frame.env, self.builder.location
        why = f"it is first assigned inside the loop at line {line}, which may not run"
        self.frame.env = before
        for name in inside:
            if name in bound:
                self.frame.env[name] = Unassigned(
                    here,
                    f"it belongs to the loop at line {line}",
                    f"in the loop assign {name} to another name, one with a value before the loop",
                )
            elif name not in before or inside[name] is not before[name]:
                self.frame.env[name] = Unassigned(here, why)

    def do_while(self, node: ast.While) -> None:
        """``while``: a loop that breaks at its top."""
        if node.orelse:
            self.builder.fail("while ... else is not in the kernel language", "use a flag")
        here = self.builder.location
        self._promote_in_loop(assigned(node.body), counted(node.body))
        before = dict(self.frame.env)
        self.frame.env = dict(before)
        with self.builder.block() as body:
            condition = self.condition(node.test)
            goes_on = isinstance(condition, Value) or constant_truth(self.builder, condition)
            if goes_on and isinstance(condition, Value):
                stop = e.Unary("not", as_bool(self.builder, condition))
                self.builder.emit(s.If(stop, (s.Break(here),), (), here))
            if goes_on:
                self._loop_body(node.body)
        if not goes_on:  # what finding that out has done remains
            for statement in body:
                self.builder.emit(statement)
            return
        if not isinstance(condition, Value) and not is_left(tuple(body)):
            self.builder.node = node
            self.builder.fail("this loop never ends", "leave it by break, or give it a condition")
        self._after_loop(before, here.line)
        self.builder.emit(s.Loop(tuple(body), here))

    def do_break(self, node: ast.Break) -> _End:
        """``break``."""
        return self._leave(s.Break(self.builder.location), _End.BREAK, "break")

    def do_continue(self, node: ast.Continue) -> _End:
        """``continue``."""
        return self._leave(s.Continue(self.builder.location), _End.CONTINUE, "continue")

    def _leave(self, statement: s.Statement, end: _End, word: str) -> _End:
        kind, depth = self.frame.loops[-1]
        if kind == "elements":
            self.builder.fail(
                f"{word} in a loop over the elements of a matrix, which come in no set order",
                "put the rest of the body under an if",
            )
        if kind == "vectors" and word == "break":
            self.builder.fail(
                "break in a loop over kl.vector_range, which becomes two loops",
                "write two loops over kl.range(...), or put the rest of the body under an if",
            )
        if kind in ("dynamic", "vectors"):
            self.builder.emit(statement)
            return _End.LEFT
        if self.frame.depth > depth:
            self.builder.fail(
                f"{word} out of a loop that is repeated at compile time depends on a run-time "
                "condition",
                "write range(...) instead of kl.static_range",
            )
        return end

    def _elements(self, node: ast.For, fragment: Fragment) -> None:
        wanted = "kl.elements gives three names: for row, column, value in ..."
        names = self._names(node, 3, wanted)
        here = self.builder.location
        self._promote_in_loop(assigned(node.body), counted(node.body))
        row, column, value = element_variables(self.builder, fragment)
        before = dict(self.frame.env)
        bound = dict(zip(names, map(Value, (row, column, value)), strict=True))
        self.frame.env = {**before, **bound}
        with self.builder.block() as body:
            self._loop_body(node.body, "elements")
        self._after_loop(before, here.line, set(bound))
        self.builder.emit(s.ForElements(fragment, row, column, value, tuple(body), False, here))

    def map_fragment(self, fragment: Fragment, function: Any, *more: Any) -> None:
        """``matrix.map(function, *more)``."""
        if not structs.is_callable(function):
            self.builder.fail(f"map takes a function, not {describe(function)}")
        here = self.builder.location
        row, column, value = element_variables(self.builder, fragment)
        places = [Value(row), Value(column)]
        if arity(function) == 1 + len(more):
            places = []
        others = [x for x in more if isinstance(x, Fragment)]
        partners = {x: partner_value(self.builder, fragment, x) for x in others}
        given = [Value(partners[x]) if isinstance(x, Fragment) else x for x in more]
        with self.builder.block() as body:
            result = self.call(function, [Value(value), *places, *given], {})
            converted = as_type(self.builder, result, fragment.dtype.register)
            self.builder.emit(s.Assign(value, converted.expr, here))
        beside = tuple(partners), tuple(partners.values())
        whole = fragment, row, column, value, tuple(body), True, here
        self.builder.emit(s.ForElements(*whole, *beside))

    # -- functions -------------------------------------------------------------------------

    def do_return(self, node: ast.Return) -> _End:
        """``return``: ends the work-item in a kernel, gives the value in a helper function."""
        if self.frame.is_kernel:
            if node.value is not None:
                self.builder.fail("kernels return nothing", "write results to an array argument")
            self.builder.emit(s.Return(self.builder.location))
            return _End.LEFT
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
        return _End.LEFT

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
        again = any(one.function is call.function and one.known == call.known for one in active)
        if again or len(active) > _MAX_DEPTH:
            first = next(i for i, one in enumerate(active) if one.function is call.function)
            names = [one.function.label for one in (*active[first:], call)]
            self.builder.fail(
                f"{call.function.label} calls itself without end: {' -> '.join(names)}",
                "helpers are inlined; let a compile-time constant end the recursion, or write a "
                "loop",
            )
