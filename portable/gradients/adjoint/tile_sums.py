"""Sums over a workgroup's work-items instead of atomic additions to a tile.

In a product by tiles all work-items of a row read the same elements of one tile, those of a column
those of the other; their adjoints would be added one by one. Where a loop of such additions says
which work-items and rounds lead to which element, each element is worked out by one work-item: it
goes through them and does for each what it would have added. Of what they alone know, they leave a
copy in local memory before. The same sum comes out in each run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import prod
from typing import Final

from portable.dtypes import DType
from portable.gradients.adjoint.cells import jumps
from portable.gradients.adjoint.memory import unravelled
from portable.gradients.adjoint.names import Names, is_float, zero
from portable.gradients.adjoint.own_elements import Term, linear, resolved
from portable.lang.ir import expressions as e
from portable.lang.ir import nodes, walks
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel, linear_local_id
from portable.lang.ir.types import Array, Layout, Vector

_FEWEST: Final = 4
"""Work-items that add to the same element, from which on it is worth the exchange."""

_MOST_COPIED: Final = 4
_UNIFORM: Final = frozenset({"group_id", "num_groups", "global_size", "local_size"})


@dataclass(frozen=True)
class _Counter:
    """A loop with constant bounds."""

    var: e.Variable
    start: int
    stop: int


@dataclass
class _Addition:
    """An atomic addition in a loop, and what leads to it.

    Attributes
    ----------
    atomic : Atomic
    counters : tuple of _Counter
        Of the loops around it, from the outermost.
    parts : list of (term or None, sign, offset)
        What each index is: a term with a sign and a number added.
    steps : tuple of Statement
        What its value is worked out by, inside of the loops.
    copied : dict
        The names from outside that each work-item has for itself.
    """

    atomic: s.Atomic
    counters: tuple[_Counter, ...]
    parts: list[tuple[Term | None, int, int]]
    steps: tuple[s.Let | s.Load, ...]
    copied: dict[str, e.Variable]


class TileSums:
    """Puts such sums into the body of an adjoint.

    Parameters
    ----------
    kernel : Kernel
        The flat program that it is the adjoint of.
    tiles : sequence of Array
        The local arrays of adjoints.
    names : Names

    Attributes
    ----------
    arrays : list of Array
        Local memory for what is copied.
    cells : list of Variable
        Variables that sum up.
    again : dict
        The names that steps bound before, by those that they bind in sums.
    """

    def __init__(self, kernel: Kernel, tiles: Sequence[Array], names: Names) -> None:
        self.arrays: list[Array] = []
        self.cells: list[e.Variable] = []
        self.again: dict[str, str] = {}
        self._kernel: Final = kernel
        self._kind: Final = kernel.index_type
        self._names: Final = names
        self._tiles: Final = (
            set() if kernel.flat else {x for x in tiles if x.space == "local" and x.lanes == 1}
        )
        self._values: dict[str, e.Expression] = {}
        self._uniform: set[str] = set()
        self._written: set[object] = set()
        self._chosen: dict[int, dict[Array, list[_Addition]]] = {}
        self._before: list[s.Statement] = []

    def put(self, body: s.Block) -> s.Block:
        """The body with sums for the additions to those tiles of which all can be replaced."""
        self._values = {
            x.var.name: x.value for x in walks.all_statements(body) if isinstance(x, s.Let)
        }
        self._uniform = {x.name for x in self._kernel.parameters if isinstance(x, e.Variable)}
        self._written = {y for x in walks.all_statements(body) for y in x.written()}
        result: dict[int, list[_Addition]] = {}
        self._look(body, result)
        all_of = [x for x in walks.all_statements(body) if isinstance(x, s.Atomic)]
        known = {id(x.atomic) for several in result.values() for x in several}
        left = {x.array for x in all_of if id(x) not in known}
        for loop, several in result.items():
            for x in several:
                if x.atomic.array not in left:
                    by_tile = self._chosen.setdefault(loop, {})
                    by_tile.setdefault(x.atomic.array, []).append(x)
        return self._turned(self._replaced(body)) if self._chosen else body

    # -- what can be replaced ----------------------------------------------------------------

    def _look(self, block: s.Block, by_loop: dict[int, list[_Addition]]) -> None:
        """Finds additions in loops beside a barrier, which all work-items of a workgroup reach."""
        together = any(isinstance(x, s.Barrier) for x in block)
        leaves = any(isinstance(x, s.If) and jumps(x) for x in block)
        for x in block:
            if not isinstance(x, s.For):
                continue
            if together and not leaves and self._is_plain(x):
                additions = self._additions(x)
                if additions:
                    by_loop[id(x)] = additions
                    continue
            if isinstance(x.start, e.Const):
                self._uniform.add(x.var.name)
            self._look(x.body, by_loop)

    def _is_plain(self, x: s.Statement) -> bool:
        """Whether a loop holds nothing but loads, steps and additions."""
        return all(
            isinstance(y, s.Let | s.Load | s.For) or _is_addition(y)
            for y in walks.all_statements((x,))
        )

    def _additions(self, loop: s.For) -> list[_Addition]:
        """Those in a loop that can be replaced."""
        out: list[_Addition] = []
        for atomic, loops in _with_loops(loop, ()):
            if atomic.array not in self._tiles:
                continue
            made = self._addition(atomic, loops, loop)
            if made is not None:
                out.append(made)
        return out

    def _addition(
        self, atomic: s.Atomic, loops: tuple[s.For, ...], outer: s.For
    ) -> _Addition | None:
        counters = [self._counter(x) for x in loops]
        known = [x for x in counters if x is not None]
        if len(known) < len(counters):
            return None
        inside = {x.var.name for x in known}
        parts = [self._part(i, inside) for i in atomic.index]
        plain = [p for p in parts if p is not None]
        terms = [p[0] for p in plain if p[0] is not None]
        if len(plain) < len(parts) or len(set(terms)) < len(terms):
            return None
        shared = prod(
            w for dim, w in enumerate(self._kernel.workgroup) if ("local_id", dim) not in terms
        )
        if shared < _FEWEST or atomic.value is None or isinstance(atomic.value.type, Vector):
            return None
        steps = _leading_to(atomic.value, outer)
        copied = self._copied(atomic.value, steps, inside, outer)
        if copied is None or len(copied) > _MOST_COPIED:
            return None
        return _Addition(atomic, tuple(known), plain, steps, copied)

    def _counter(self, x: s.For) -> _Counter | None:
        bounds = [self._number(y) for y in (x.start, x.stop, x.step)]
        if None in bounds or bounds[2] != 1:
            return None
        return _Counter(x.var, int(bounds[0] or 0), int(bounds[1] or 0))

    def _number(self, x: e.Expression) -> float | None:
        return nodes.constant_of(resolved(x, self._values))

    def _part(self, x: e.Expression, inside: set[str]) -> tuple[Term | None, int, int] | None:
        """The term that an index is, its sign and what is added."""
        sums = linear(resolved(x, self._values))
        if sums is None:
            return None
        offset = sums.pop(None, 0)
        if not sums:
            return None, 1, offset
        ((term, sign),) = sums.items() if len(sums) == 1 else ((None, 0),)
        fits = term[0] == "local_id" if isinstance(term, tuple) else term in inside
        return (term, sign, offset) if fits and sign in (1, -1) else None

    def _copied(
        self,
        value: e.Expression,
        steps: Sequence[s.Let | s.Load],
        inside: set[str],
        outer: s.For,
    ) -> dict[str, e.Variable] | None:
        """The names that work-items leave a copy of; None where something cannot be worked out."""
        bound = {x.var.name for x in steps} | inside
        copies: dict[str, e.Variable] = {}
        asked = [value, *(y for step in steps for y in walks.reads(step))]
        if not all(self._can_move(y, bound, copies) for y in asked):
            return None
        for x in steps:
            if isinstance(x, s.Load) and (x.array.space == "private" or x.runs_on):
                return None
            if isinstance(x, s.Load) and self._changes(x.array, outer):
                return None
        return copies

    def _changes(self, array: Array, outer: s.For) -> bool:
        """Whether something else than the work-item itself may change an array in the meantime."""
        if array.space == "global":
            return array in self._written
        return any(array in x.written() for x in walks.all_statements((outer,)))

    def _can_move(self, x: e.Expression, bound: set[str], copied: dict[str, e.Variable]) -> bool:
        """Whether another work-item can work an expression out; notes what it needs a copy of."""
        if isinstance(x, e.Variable):
            if x.name in bound or x.name in self._uniform:
                return True
            if is_float(x.type):
                copied[x.name] = x
                return isinstance(x.type, DType)
            resolved = self._values.get(x.name)
            return resolved is not None and self._can_move(resolved, bound, copied)
        if isinstance(x, e.WorkItem):
            return x.word in _UNIFORM or x.word in ("local_id", "global_id")
        return all(self._can_move(y, bound, copied) for y in walks.children(x))

    # -- what replaces it --------------------------------------------------------------------

    def _replaced(self, block: s.Block, around: s.For | None = None) -> s.Block:
        out: list[s.Statement] = []
        for x in block:
            chosen = self._chosen.get(id(x))
            if chosen is not None and isinstance(x, s.For):
                out += self._sums(x, chosen, around)
            elif isinstance(x, s.For):
                made = replace(x, body=self._replaced(x.body, x))
                if self._before:
                    out += [*self._before, s.Barrier(x.loc)]
                    self._before.clear()
                out.append(made)
            else:
                out.append(x)
        return tuple(out)

    def _sums(
        self, loop: s.For, chosen: Mapping[Array, list[_Addition]], around: s.For | None
    ) -> s.Block:
        """The loop without the additions, copies of what is needed, and the sums.

        What the loop around it does not change is copied before that one.
        """
        additions = [x for several in chosen.values() for x in several]
        copies: dict[str, Array] = {}
        out: list[s.Statement] = []
        item = linear_local_id(self._kernel.workgroup, self._kind)
        for name, var in {n: v for x in additions for n, v in x.copied.items()}.items():
            copies[name] = self._room(name, var.type)
            store = s.Store(copies[name], (item,), var, loop.loc)
            fixed = around is not None and name not in _changed_in(around)
            (self._before if fixed else out).append(store)
        out += [s.Barrier(loop.loc), _without(loop, {id(x.atomic) for x in additions})]
        for tile, several in chosen.items():
            out += self._elements(tile, several, copies, loop)
        return (*out, s.Barrier(loop.loc))

    def _room(self, name: str, kind: object) -> Array:
        assert isinstance(kind, DType)
        shape = (prod(self._kernel.workgroup),)
        made = Array(
            self._names.fresh(f"{name}_of"), kind, "local", 1, shape, Layout.row_major(shape)
        )
        self.arrays.append(made)
        return made

    def _elements(
        self, tile: Array, several: list[_Addition], copies: Mapping[str, Array], loop: s.For
    ) -> s.Block:
        """Each work-item's elements of a tile, one after the other; often it is just one."""
        kind, loc, wide = self._kind, loop.loc, self._kernel.workgroup
        item = linear_local_id(wide, kind)
        if tuple(x for x in tile.shape if x > 1) == tuple(x for x in wide[::-1] if x > 1):
            dims = iter(d for d in (2, 1, 0) if wide[d] > 1)
            ids = [
                e.WorkItem("local_id", next(dims), kind) if x > 1 else zero(kind)
                for x in tile.shape
            ]
            return self._of_element(several, ids, copies)
        if prod(tile.shape) == prod(wide):
            return self._of_element(several, unravelled(item, tile.shape), copies)
        element = self._names.variable("element", kind)
        body = self._of_element(several, unravelled(element, tile.shape), copies)
        step, stop = e.Const(prod(wide), kind), e.Const(prod(tile.shape), kind)
        return (s.For(element, item, stop, step, body, loc),)

    def _of_element(
        self,
        several: list[_Addition],
        index: Sequence[e.Expression],
        copies: Mapping[str, Array],
    ) -> s.Block:
        """What is added to an element."""
        loc = several[0].atomic.loc
        named = [self._names.variable("at", self._kind) for _ in index]
        out: list[s.Statement] = [
            s.Let(var, value, loc) for var, value in zip(named, index, strict=True)
        ]
        for x in several:
            out += self._sum(x, named, copies)
        return tuple(out)

    def _sum(
        self, x: _Addition, index: Sequence[e.Expression], copies: Mapping[str, Array]
    ) -> s.Block:
        """Adds to an element what all that lead to it would add."""
        loc, tile = x.atomic.loc, x.atomic.array
        values: dict[Term, e.Expression] = {}
        inside: e.Expression | None = None
        extents: dict[Term, tuple[int, int]] = {
            ("local_id", d): (0, w) for d, w in enumerate(self._kernel.workgroup)
        }
        ranges = extents | {c.var.name: (c.start, c.stop) for c in x.counters}
        for (term, sign, offset), at, extent in zip(x.parts, index, tile.shape, strict=True):
            number = e.Const(offset, self._kind)
            if term is None:
                inside = _both(inside, e.Compare("eq", at, number))
                continue
            value = e.Binary("sub", at, number) if sign > 0 else e.Binary("sub", number, at)
            values[term] = value if offset or sign < 0 else at
            ends = sorted(sign * (y - offset) for y in (0, extent - 1))
            low, high = ranges[term]
            if ends[0] < low:
                least = e.Compare("ge", values[term], e.Const(low, self._kind))
                inside = _both(inside, least)
            if ends[1] >= high:
                most = e.Compare("lt", values[term], e.Const(high, self._kind))
                inside = _both(inside, most)
        made = self._through(x, values, ranges, index, copies)
        return made if inside is None else (s.If(inside, made, (), loc),)

    def _through(
        self,
        x: _Addition,
        values: dict[Term, e.Expression],
        ranges: Mapping[Term, tuple[int, int]],
        index: Sequence[e.Expression],
        copies: Mapping[str, Array],
    ) -> s.Block:
        """Goes through what is not told by the element."""
        loc, tile, kind = x.atomic.loc, x.atomic.array, self._kind
        total = self._names.variable("sum", tile.dtype.register)
        self.cells.append(total)
        loops: list[tuple[e.Variable, int, int]] = []
        for term, (low, high) in ranges.items():
            if term in values:
                continue
            if high - low == 1:
                values[term] = e.Const(low, kind)
                continue
            var = self._names.variable("other", kind)
            loops.append((var, low, high))
            values[term] = var
        steps, value = self._moved(x, values, copies)
        body: s.Block = (*steps, s.Assign(total, e.Binary("add", total, value), loc))
        for var, low, high in reversed(loops):
            start, stop, step = (e.Const(y, kind) for y in (low, high, 1))
            body = (s.For(var, start, stop, step, body, loc),)
        old = self._names.variable("sum", total.type)
        at = tuple(index)
        return (
            s.Assign(total, zero(total.type), loc),
            *body,
            s.Load(old, tile, at, loc),
            s.Store(tile, at, e.Binary("add", old, total), loc),
        )

    def _moved(
        self, x: _Addition, values: Mapping[Term, e.Expression], copies: Mapping[str, Array]
    ) -> tuple[list[s.Statement], e.Expression]:
        """What another work-item would add, and what it is worked out by."""
        kind, wide = self._kind, self._kernel.workgroup
        fresh: dict[str, e.Expression] = {}
        for counter in x.counters:
            fresh[counter.var.name] = _as(values[counter.var.name], counter.var.type)

        def place(y: e.Expression) -> e.Expression:
            if not isinstance(y, e.WorkItem) or y.word not in ("local_id", "global_id"):
                return y
            number = values[("local_id", y.dim)]
            if y.word == "global_id":
                group = e.WorkItem("group_id", y.dim, kind)
                start = e.Binary("mul", group, e.Const(wide[y.dim], kind))
                number = e.Binary("add", start, number)
            return _as(number, y.type)

        def change(y: e.Expression) -> e.Expression:
            if not isinstance(y, e.Variable):
                return place(y)
            if y.name in fresh:
                return fresh[y.name]
            if y.name in self._uniform or is_float(y.type):
                return y
            return walks.map_expression(self._values[y.name], change)

        out: list[s.Statement] = []
        number: e.Expression = e.Const(0, kind)
        for dim in (2, 1, 0):
            if wide[dim] > 1:
                scaled = e.Binary("mul", number, e.Const(wide[dim], kind))
                number = e.Binary("add", scaled, values[("local_id", dim)])
        for name, var in x.copied.items():
            copy = self._names.variable(name, var.type)
            out.append(s.Load(copy, copies[name], (number,), x.atomic.loc))
            fresh[name] = copy
        for step in x.steps:
            made = self._names.variable(step.var.name, step.var.type)

            bound = {step.var.name: made}
            out.append(
                walks.map_operands(
                    step,
                    lambda y, bound=bound: (  # type: ignore[misc]
                        bound[y.name]
                        if isinstance(y, e.Variable) and y.name in bound
                        else walks.map_expression(y, change)
                    ),
                )
            )
            fresh[step.var.name] = made
            self.again[made.name] = step.var.name
        assert x.atomic.value is not None
        return out, walks.map_expression(x.atomic.value, change)

    def _turned(self, body: s.Block) -> s.Block:
        """The body with tiles column by column that neighbours read along columns.

        A thread that runs all work-items takes neighbours at once, if what they read lies so; many
        threads read from as many banks of local memory. An H200 took 5.2 ms for a product of 2048
        by tiles of 16 or 32 so, 7.8 and 11.6 without.
        """
        wanted: dict[Array, set[bool]] = {}
        by_tile = [several for tiles in self._chosen.values() for several in tiles.values()]
        for x in chain.from_iterable(by_tile):
            lane = x.parts[-1][0]
            for step in x.steps:
                if isinstance(step, s.Load) and (layout := step.array.layout) is not None:
                    now, then = (
                        abs(self._address(step, strides).get(lane, 0))
                        for strides in (layout.strides, layout.strides[::-1])
                    )
                    wanted.setdefault(step.array, set()).add(then == 1 != now)
        turned: dict[Array, Array] = {}
        for array, columns in wanted.items():
            square = len(array.shape) == 2 and array.shape[0] == array.shape[1]
            if square and array.layout is not None and columns == {True} and array.lanes == 1:
                layout = replace(array.layout, strides=array.layout.strides[::-1])
                turned[array] = replace(array, layout=layout)
        self.arrays += turned.values()
        return walks.map_block(body, lambda x: (walks.map_memory(x, lambda y: turned.get(y, y)),))

    def _address(self, x: s.Load, strides: Sequence[int]) -> Mapping[Term | None, int]:
        """By how much a load's address grows with each term."""
        total: dict[Term | None, int] = {}
        for part, stride in zip(x.index, strides, strict=True):
            for term, factor in (linear(resolved(part, self._values)) or {}).items():
                total[term] = total.get(term, 0) + factor * stride
        return total


def _changed_in(loop: s.For) -> set[str]:
    """The names that a loop binds or sets."""
    inner = walks.all_statements((loop,))
    return {v.name for x in inner for v in (*x.binds(), *x.sets())}


def _is_addition(x: s.Statement) -> bool:
    return isinstance(x, s.Atomic) and x.op == "add" and x.var is None


def _with_loops(
    x: s.Statement, loops: tuple[s.For, ...]
) -> Iterator[tuple[s.Atomic, tuple[s.For, ...]]]:
    """The atomic operations in a loop, each with the loops around it."""
    if isinstance(x, s.Atomic):
        yield x, loops
    if isinstance(x, s.For):
        for y in x.body:
            yield from _with_loops(y, (*loops, x))


def _leading_to(value: e.Expression, outer: s.For) -> tuple[s.Let | s.Load, ...]:
    """The steps in a loop by which a value is worked out, in order."""
    steps = [x for x in walks.all_statements((outer,)) if isinstance(x, s.Let | s.Load)]
    needed = walks.names_in(value)
    out: list[s.Let | s.Load] = []
    for x in reversed(steps):
        if x.var.name in needed:
            out.append(x)
            for y in walks.reads(x):
                needed |= walks.names_in(y)
    return tuple(reversed(out))


def _without(x: s.For, dropped: set[int]) -> s.For:
    """A loop without some of its statements."""
    body = tuple(
        _without(y, dropped) if isinstance(y, s.For) else y for y in x.body if id(y) not in dropped
    )
    return replace(x, body=body)


def _both(x: e.Expression | None, y: e.Expression) -> e.Expression:
    return y if x is None else e.Binary("and", x, y)


def _as(x: e.Expression, kind: object) -> e.Expression:
    assert isinstance(kind, DType)
    return x if x.type is kind else e.Cast(x, kind)
