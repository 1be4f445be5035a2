"""Translating loops: over ranges, vectors, products, tuples, and the elements of matrices."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum, auto
from functools import partial
from types import MappingProxyType
from typing import Any

from portable.lang.frontend import structs
from portable.lang.frontend.arithmetic import binary
from portable.lang.frontend.bindings import BindingTranslator
from portable.lang.frontend.builder import Seam
from portable.lang.frontend.conversion import as_bool, as_type, constant_truth, unify
from portable.lang.frontend.frames import LoopKind
from portable.lang.frontend.handlers.matrices import element_variables, partner_value
from portable.lang.frontend.syntax import Given, apart, assigned, counted, has_break, is_left
from portable.lang.frontend.values import (
    Elements,
    Product,
    Range,
    Value,
    VectorRange,
    View,
    describe,
    sequence,
)
from portable.lang.frontend.variables import Unassigned
from portable.lang.function import arity
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.facts import Interval
from portable.lang.ir.types import Fragment


class End(Enum):
    """How a block ended: at its last statement, or by leaving earlier."""

    THROUGH = auto()
    LEFT = auto()
    BREAK = auto()
    CONTINUE = auto()


class LoopTranslator(BindingTranslator):
    """Turns loops into those of the program, or into copies of their bodies."""

    @abstractmethod
    def _block(self, statements: Sequence[ast.stmt]) -> End:
        """Translates statements; tells how they end."""

    def do_for(self, node: ast.For) -> End | None:
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

    def _nested_loops(self, node: ast.For, over: Product) -> End | None:
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

    def _repeat(self, node: ast.For, items: Iterable[Any]) -> End | None:
        """The body once per item, at compile time."""
        self.frame.loops.append(("static", self.frame.depth))
        try:
            for item in items:
                self.count_repetition()
                self._assign(node.target, item)
                end = self._block(node.body)
                if end is End.BREAK:
                    break
                if end is End.LEFT:
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
        body = self._rounds(node.body, {name: Value(var), **constants}, kind)
        bounds = start.expr, stop.expr, step.expr
        self.builder.emit(s.For(var, *bounds, body, here, over.unroll))

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

    def _rounds(
        self, body: Sequence[ast.stmt], bound: Mapping[str, Any], kind: LoopKind
    ) -> s.Block:
        """A loop's body, in which names of the loop's own stand for these things."""
        before, line = dict(self.frame.env), self.builder.location.line
        self.frame.env = {**before, **bound}
        with self.builder.block() as out:
            self._loop_body(body, kind)
        self._after_loop(before, line, bound.keys())
        return tuple(out)

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

    def do_break(self, node: ast.Break) -> End:
        """``break``."""
        return self._leave(s.Break(self.builder.location), End.BREAK, "break")

    def do_continue(self, node: ast.Continue) -> End:
        """``continue``."""
        return self._leave(s.Continue(self.builder.location), End.CONTINUE, "continue")

    def _leave(self, statement: s.Statement, end: End, word: str) -> End:
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
            return End.LEFT
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
        bound = dict(zip(names, map(Value, (row, column, value)), strict=True))
        body = self._rounds(node.body, bound, "elements")
        self.builder.emit(s.ForElements(fragment, row, column, value, body, False, here))

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
