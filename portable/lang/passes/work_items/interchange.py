"""Moves loops of work-items out of the loops over work-items, where compilers then take vectors.

LLVM's vectoriser takes innermost loops only. A loop of a work-item, as that of a sum, is not
vectorised where its rounds follow from each other; one over work-items is. A loop is moved out

- if all go the same rounds, or start alike and count by one (then those that have ended stand by);
- if nothing leaves it early, and no loop in it does what its work-items do not do together;
- if neighbouring work-items read or write neighbouring elements of memory, or all the same one;
- if what work-items keep from round to round fits in half of the first cache;
- unless it has so few rounds that they are done at once.

A few rounds are then done at once, so that what is kept is loaded and stored once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import prod
from typing import ClassVar, Final

from portable.dtypes import DType
from portable.errors import Location
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir import walks
from portable.lang.ir.expressions import BINDS, READS
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array, Scope, Vector, lanes_of, scalar_of
from portable.lang.passes.joins import meets
from portable.lang.passes.work_items.parts import is_choice, leaves, returns
from portable.lang.passes.work_items.uniform import same_for_all

_STEPS: Final = ("local_id", "global_id", "sub_group_id")


class Neighbours:
    """By how much integers grow from one work-item to the next along dimension 0.

    Parameters
    ----------
    kernel : Kernel
        Each of whose bindings has a name of its own.
    varying : set of str
        The names whose values differ among work-items.
    """

    def __init__(self, kernel: Kernel, varying: set[str]) -> None:
        self._varying = varying
        self._values: dict[str, e.Expression] = {}
        for x in walks.all_statements(kernel.body):
            if isinstance(x, s.Let):
                self._values[x.var.name] = x.value
            elif isinstance(x, s.For):
                self._values[x.var.name] = e.Binary("add", x.start, x.step)

    def growth(self, x: e.Expression) -> int | None:
        """By how much a value grows from one work-item to the next; None where nobody knows."""
        match x:
            case e.Const() | e.Extent() | e.AssumeUniform():
                return 0
            case e.WorkItem():
                return int(x.dim == 0 and x.word in _STEPS)
            case e.Variable() if x.name not in self._varying:
                return 0
            case e.Variable():
                value = self._values.get(x.name)
                return None if value is None else self.growth(value)
            case e.Cast():
                return self.growth(x.x)
            case e.Binary(op="add" | "sub" | "mul" | "shl"):
                return self._binary(x)
            case _:
                return 0 if all(self.growth(y) == 0 for y in walks.children(x)) else None

    def _binary(self, x: e.Binary) -> int | None:
        a, b = self.growth(x.x), self.growth(x.y)
        if a is None or b is None:
            return None
        match x.op:
            case "add":
                return a + b
            case "sub":
                return a - b
            case _ if a == b == 0:
                return 0
            case "mul" if isinstance(x.x, e.Const) or isinstance(x.y, e.Const):
                factor, growth = (x.x, b) if isinstance(x.x, e.Const) else (x.y, a)
                return int(factor.value) * growth if isinstance(factor, e.Const) else None
            case "shl" if isinstance(x.y, e.Const):
                return a << int(x.y.value)
            case _:
                return None

    def steps(self, block: s.Block) -> Iterable[int | None]:
        """Elements between what neighbours read or write, of each load and store of a block."""
        for x in walks.all_statements(block):
            if isinstance(x, s.Load | s.Store) and x.array.space != "private":
                kind = x.var.type if isinstance(x, s.Load) else x.value.type
                yield None if isinstance(kind, Vector) else self._step(x.array, x.index)

    def _step(self, array: Array, index: tuple[e.Expression, ...]) -> int | None:
        total = 0
        for dim, at in enumerate(index):
            growth = self.growth(at)
            if growth is None:
                return None
            stride = _stride(array, dim)
            if stride is None and growth != 0:
                return None
            total += growth * (stride or 0)
        return total


def _stride(array: Array, dim: int) -> int | None:
    """The elements between neighbours along a dimension, where it is known."""
    if array.layout is not None:
        return None if array.layout.swizzle else array.layout.strides[dim]
    return {"unit": 1, "zero": 0}.get(array.strides[dim])


_NEIGHBOURS: Final = 8
"""Work-items along dimension 0 that make a vector worth it."""

_KEPT_BYTES: Final = 16 * 1024
_UNROLLED: Final = 64
"""Statements up to which compilers are taken to unroll a loop of a constant number of rounds."""

_AT_ONCE: Final = 8
"""The most rounds that are done at once."""


@dataclass(frozen=True, slots=True)
class Reach(s.Statement):
    """Binds the least and the most of `value` among the work-items; only in this package."""

    reached_by: ClassVar[Scope] = "workgroup"

    least: e.Variable = field(metadata=BINDS)
    most: e.Variable = field(metadata=BINDS)
    value: e.Variable = field(metadata=READS)
    loc: Location


def interchanged(kernel: Kernel, varying: set[str]) -> tuple[Kernel, frozenset[str]]:
    """The kernel with loops made ready, and the names of the variables of those to be moved out.

    Parameters
    ----------
    kernel : Kernel
        Each of whose bindings has a name of its own. In what comes out, some have the same.
    varying : set of str
        The names whose values differ among work-items.
    """
    if kernel.workgroup[0] < _NEIGHBOURS:
        return kernel, frozenset()
    moving = _Moving(kernel, varying)
    body = moving.block(kernel.body)
    return replace(kernel, body=body), frozenset(moving.moved)


class _Moving:
    def __init__(self, kernel: Kernel, varying: set[str]) -> None:
        self._kernel = kernel
        self._varying = varying
        self._neighbours = Neighbours(kernel, varying)
        self.moved: set[str] = set()

    def block(self, block: s.Block) -> s.Block:
        """A block that all work-items go through together."""
        out: list[s.Statement] = []
        for x in block:
            if isinstance(x, s.For) and not meets((x,)) and self._pays(x):
                out += self._made(x)
            elif (isinstance(x, s.If) and is_choice(x)) or meets((x,)):
                out.append(walks.map_blocks(x, self.block))
            else:
                out.append(x)
        return tuple(out)

    # -- whether it pays -----------------------------------------------------------------------

    def _pays(self, x: s.For) -> bool:
        return (
            self._starts_alike(x)
            and not leaves(x.body)
            and not returns(x.body)
            and not self._unrolled(x)
            and self._together_inside(x.body)
            and _vectorised(self._neighbours.steps(x.body))
            and self._kept_bytes(x) <= _KEPT_BYTES
        )

    def _starts_alike(self, x: s.For) -> bool:
        """Whether the rounds are the same for all, or the first ones are and later ones fewer."""
        if not same_for_all((x.start, x.step), self._varying):
            return False
        return same_for_all((x.stop,), self._varying) or _counts_by_one(x)

    def _unrolled(self, x: s.For) -> bool:
        rounds = _rounds(x)
        return rounds is not None and rounds <= _AT_ONCE and rounds * _size(x.body) <= _UNROLLED

    def _together_inside(self, body: s.Block) -> bool:
        """Whether a compiler sees no loop inside, and nothing that is done one by one."""
        for x in walks.all_statements(body):
            if isinstance(x, s.For):
                if not self._unrolled(x):
                    return False
            elif not isinstance(x, s.Let | s.Assign | s.Load | s.Store | s.If | s.Check):
                return False
        return True

    def _kept_bytes(self, x: s.For) -> int:
        statements = list(walks.all_statements((x,)))
        kinds = {v for y in statements for v in y.sets()}
        size = sum(scalar_of(v.type).itemsize * lanes_of(v.type) for v in kinds)
        arrays = {a for y in statements for a in y.touched() if isinstance(a, Array)}
        for array in arrays:
            if array.space == "private" and array.layout is not None:
                size += array.layout.size * array.dtype.itemsize * array.lanes
        return size * prod(self._kernel.workgroup)

    # -- what it becomes -----------------------------------------------------------------------

    def _made(self, x: s.For) -> s.Block:
        if same_for_all((x.stop,), self._varying):
            return self._in_steps(x)
        kind = x.var.type
        least, most = (e.Variable(f"{x.var.name}@{word}", kind) for word in ("least", "most"))
        stop = e.Variable(f"{x.var.name}@stop", kind)
        first = e.Variable(f"{x.var.name}@first", kind)
        going_on = s.If(e.Compare("lt", x.var, stop), x.body, (), x.loc)
        after = e.Variable(f"{x.var.name}@after", kind)
        body = (s.Let(x.var, after, x.loc), going_on)
        self.moved.add(after.name)
        return (
            s.Let(stop, x.stop, x.loc),
            Reach(least, most, stop, x.loc),
            s.Let(first, e.Binary("max", x.start, least), x.loc),
            *self._in_steps(replace(x, stop=least)),
            s.For(after, first, most, x.step, body, x.loc, 1),
        )

    def _in_steps(self, x: s.For) -> s.Block:
        """A loop that all go through alike: so many rounds at once, and then the rest."""
        count, kind = _at_once(x), x.var.type
        if count == 1 or not isinstance(kind, DType) or not _counts_by_one(x):
            self.moved.add(x.var.name)
            return (x,)
        number, by = e.Const(count, kind), e.Const(1, kind)
        base, step = (e.Variable(f"{x.var.name}@{word}", kind) for word in ("base", "step"))
        rest, end = (e.Variable(f"{x.var.name}@{word}", kind) for word in ("rest", "whole"))
        gap = e.Select(
            e.Compare("lt", x.start, x.stop), e.Binary("sub", x.stop, x.start), e.Const(0, kind)
        )
        whole = e.Binary("sub", gap, e.Binary("and", gap, e.Const(count - 1, kind)))
        at = s.Let(x.var, e.Binary("add", base, step), x.loc)
        few = s.For(step, e.Const(0, kind), number, by, (at, *x.body), x.loc, -1)
        last = (s.Let(x.var, rest, x.loc), *x.body)
        self.moved |= {base.name, rest.name}
        first = s.Let(end, e.Binary("add", x.start, whole), x.loc)
        many = s.For(base, x.start, end, number, (few,), x.loc, 1)
        known = _rounds(x)
        if known is not None and known % count == 0:
            return first, many
        return first, many, s.For(rest, end, x.stop, by, last, x.loc, 1)


def _counts_by_one(x: s.For) -> bool:
    return isinstance(x.step, e.Const) and x.step.value == 1


def _rounds(x: s.For) -> int | None:
    """How many rounds a loop has, where that is a constant."""
    bounds = (x.start, x.stop, x.step)
    start, stop, step = (int(y.value) if isinstance(y, e.Const) else None for y in bounds)
    if start is None or stop is None or not step:
        return None
    return len(range(start, stop, step))


def _size(body: s.Block) -> int:
    """Statements that are executed in a round, loops in it being unrolled."""
    total = 0
    for x in body:
        inner = sum(map(_size, x.blocks()))
        total += 1 + inner * ((_rounds(x) or 1) if isinstance(x, s.For) else 1)
    return total


def _at_once(x: s.For) -> int:
    most = min(_AT_ONCE, _UNROLLED // max(1, _size(x.body)), _rounds(x) or _AT_ONCE)
    return 1 << (most.bit_length() - 1) if most > 1 else 1


def _vectorised(steps: Iterable[int | None]) -> bool:
    """Whether neighbours in memory are taken at once, and nothing is taken one by one."""
    return set(steps) in ({1}, {0, 1})
