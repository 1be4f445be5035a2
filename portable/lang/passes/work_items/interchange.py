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

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import prod
from typing import ClassVar, Final

from portable.dtypes import DType, bool_
from portable.errors import Location
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir import walks
from portable.lang.ir.expressions import BINDS, READS
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array, Scope, Vector, lanes_of, scalar_of
from portable.lang.passes.work_items.uniform import (
    WHOLE,
    is_choice,
    leaves,
    meets,
    returns,
    same_for_all,
)

# Guards of an ndrange's padding and edges, ``if i < n``, that most workgroups pass as a whole.
#
# A workgroup whose last work-item passes, and the first one at the other edge, needs none: loops
# then have no branches and no masks, and those inside the guard may be moved out of the loop over
# work-items. At the edges the guard goes into the loops, so that these are moved out as well.


_MIRRORED: Final[dict[str, e.CompareOp]] = {"gt": "lt", "ge": "le"}
_OPPOSITE: Final[dict[str, e.CompareOp]] = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}


def without_guards(kernel: Kernel, varying: set[str]) -> Kernel:
    """The kernel with choices between statements without guards, and as they are.

    Parameters
    ----------
    kernel : Kernel
        Each of whose bindings has a name of its own. In what comes out, some have the same.
    varying : set of str
        The names whose values differ among work-items.
    """
    kernel = replace(kernel, body=_early_ends_as_guards(kernel.body))
    return replace(kernel, body=_Choosing(kernel, varying).block(kernel.body))


class _Choosing:
    def __init__(self, kernel: Kernel, varying: set[str]) -> None:
        self._workgroup = kernel.workgroup
        self._varying = varying
        statements = walks.all_statements(kernel.body)
        self._values = {x.var.name: x.value for x in statements if isinstance(x, s.Let)}
        self._reads = _counted_reads(kernel.body)
        self._assigned = frozenset(v.name for v in kernel.variables)
        self._count = 0

    def block(self, block: s.Block) -> s.Block:
        """A block that all work-items go through together."""
        out: list[s.Statement] = []
        alone: list[s.Statement] = []
        for x in block:
            if not meets((x,)):
                alone.append(x)
                continue
            out += self._chosen(tuple(alone))
            alone.clear()
            out.append(walks.map_blocks(x, self.block))
        return *out, *self._chosen(tuple(alone))

    def _chosen(self, block: s.Block) -> s.Block:
        """What work-items do between two places where all meet."""
        start = next((n for n, x in enumerate(block) if not isinstance(x, s.Let)), len(block))
        guarded = block[start:]
        bare, needed = self._without(guarded)
        if not needed or leaves(guarded) or returns(guarded) or self._read_elsewhere(guarded):
            return block
        conditions = self._known_before(guarded, needed)
        if conditions is None:
            return block
        self._count += 1
        whole = e.Variable(f"{WHOLE}{self._count}", bool_)
        condition, loc = conditions[0], guarded[0].loc
        for x in conditions[1:]:
            condition = e.Binary("and", condition, x)
        rest: list[s.Statement] = []
        for y in guarded:
            inwards = self._inwards(y) if isinstance(y, s.If) else None
            rest += (y,) if inwards is None else inwards
        choice = s.If(whole, bare, tuple(rest), loc)
        return *block[:start], s.Let(whole, condition, loc), choice

    def _known_before(
        self, block: s.Block, conditions: list[e.Expression]
    ) -> list[e.Expression] | None:
        """Conditions in words that have their values before a block; None if it sets some."""
        bound = {v.name for x in walks.all_statements(block) for v in x.binds()}
        changed = {v.name for x in walks.all_statements(block) for v in x.sets()}
        values = {name: x for name, x in self._values.items() if name in bound}
        out: list[e.Expression] = []
        for x in conditions:
            x = walks.resolved(x, values)
            if not walks.names_in(x).isdisjoint(bound | changed):
                return None
            out.append(x)
        return out

    def _inwards(self, x: s.If) -> s.Block | None:
        """A guard around loops as one in each, so that these may be moved out; None if that fails.

        Bindings that work-items behind the guard alone can work out stay behind it.
        """
        condition, block, bindings = x.condition, x.then, list[s.Statement]()
        while (inner := _only_guard(block)) is not None:
            bindings += block[:-1]
            condition, block = e.Binary("and", condition, inner.condition), inner.then
        loops = [y for y in block if isinstance(y, s.For)]
        if x.orelse or not loops or self._of_all(condition) is None:
            return None
        self._count += 1
        inwards = _Inwards(e.Variable(f"guard@{self._count}", bool_), self._assigned)
        made = inwards.block(block)
        return None if made is None else (*bindings, s.Let(inwards.guard, condition, x.loc), *made)

    def _read_elsewhere(self, block: s.Block) -> bool:
        """Whether names are read behind a block that it binds."""
        inside = _counted_reads(block)
        names = (v.name for x in block for v in x.binds())
        return any(self._reads[name] > inside[name] for name in names)

    def _without(self, block: s.Block) -> tuple[s.Block, list[e.Expression]]:
        """A block without its guards, and what has to hold for that: none where it has none."""
        out: list[s.Statement] = []
        needed: list[e.Expression] = []
        for x in block:
            condition = self._of_all(x.condition) if isinstance(x, s.If) else None
            if condition is None or not isinstance(x, s.If) or not _touches(x.then):
                out.append(x)
                continue
            inner, more = self._without(x.then)
            needed += [condition, *more]
            out += inner
        return tuple(out), needed

    def _of_all(self, x: e.Expression) -> e.Expression | None:
        """What holds if and only if a condition holds for all work-items; None if unknown."""
        match x:
            case e.Binary(op="and") if x.type is bool_:
                both = self._of_all(x.x), self._of_all(x.y)
                if both[0] is None or both[1] is None:
                    return None
                return e.Binary("and", both[0], both[1])
            case e.Unary(op="not", x=e.Compare() as inner):
                other = _opposite(inner)
                return self._of_all(other) if isinstance(other, e.Compare) else None
            case e.Compare(op="gt" | "ge"):
                return self._of_all(e.Compare(_MIRRORED[x.op], x.y, x.x))
            case e.Compare(op="lt" | "le") if same_for_all((x.y,), self._varying):
                last = self._place(x.x, last=True)
                return None if last is None else e.Compare(x.op, last, x.y)
            case e.Compare(op="lt" | "le") if same_for_all((x.x,), self._varying):
                first = self._place(x.y, last=False)
                return None if first is None else e.Compare(x.op, x.x, first)
            case e.Variable() if x.name in self._varying and x.name in self._values:
                return self._of_all(self._values[x.name])
            case _:
                return None

    def _place(self, x: e.Expression, *, last: bool) -> e.Expression | None:
        """A work-item's place, as the last work-item of the workgroup has it, or the first."""
        match x:
            case e.Variable() if x.name in self._varying and x.name in self._values:
                return self._place(self._values[x.name], last=last)
            case e.Cast() if _is_wider(x.x.type, x.type):
                inner = self._place(x.x, last=last)
                return None if inner is None else e.Cast(inner, x.type)
            case e.WorkItem(word="local_id"):
                return e.Const(self._workgroup[x.dim] - 1 if last else 0, x.type)
            case e.WorkItem(word="global_id"):
                size = e.Const(self._workgroup[x.dim], x.type)
                first = e.Binary("mul", e.WorkItem("group_id", x.dim, x.type), size)
                by = e.Const(self._workgroup[x.dim] - 1, x.type)
                return e.Binary("add", first, by) if last else first
            case _:
                return None


class _Inwards:
    """Puts a guard around what stands between loops, and into the loops."""

    def __init__(self, guard: e.Variable, assigned: frozenset[str]) -> None:
        self.guard = guard
        self._behind = set(assigned)

    def block(self, block: s.Block) -> s.Block | None:
        """A block's statements; None where some need what others bind behind the guard."""
        out: list[s.Statement] = []
        guarded: list[s.Statement] = []
        segments: list[s.Block] = []

        def end_segment() -> None:
            if guarded:
                segments.append(tuple(guarded))
                out.append(s.If(self.guard, segments[-1], (), guarded[0].loc))
                guarded.clear()

        for x in block:
            if isinstance(x, s.Let) and self._is_free((x.value,)):
                out.append(x)
            elif isinstance(x, s.For) and self._is_free((x.start, x.stop, x.step)):
                end_segment()
                out.append(replace(x, body=(s.If(self.guard, x.body, (), x.loc),)))
            else:
                guarded.append(x)
                self._behind.update(v.name for v in x.binds())
        end_segment()
        every = _counted_reads(block)
        for segment in segments:
            inside = _counted_reads(segment)
            if any(every[v.name] > inside[v.name] for x in segment for v in x.binds()):
                return None
        return tuple(out)

    def _is_free(self, values: tuple[e.Expression, ...]) -> bool:
        """Whether values need nothing from behind the guard."""
        return self._behind.isdisjoint(walks.names_in(*values))


def _counted_reads(block: s.Block) -> Counter[str]:
    """How often each name is read."""
    values = (
        y
        for x in walks.all_statements(block)
        for value in walks.reads(x)
        for y in walks.subexpressions(value)
    )
    return Counter(y.name for y in values if isinstance(y, e.Variable))


def _is_wider(old: object, new: object) -> bool:
    """Whether an integer type holds all places that another one does."""
    if not isinstance(old, DType) or not isinstance(new, DType):
        return False
    return old.is_integer and new.is_integer and new.bits >= old.bits


def _touches(block: s.Block) -> bool:
    return any(isinstance(x, s.Load | s.Store) for x in walks.all_statements(block))


def _early_ends_as_guards(body: s.Block) -> s.Block:
    """A kernel's body in which ``if i >= n: return`` is a guard of what follows, as far as it is.

    What follows must not meet, since all have to get there.
    """
    for number, x in enumerate(body):
        if isinstance(x, s.If) and not x.orelse and x.then and isinstance(x.then[0], s.Return):
            rest = body[number + 1 :]
            if all(y.together() == "work_item" for y in walks.all_statements(rest)):
                rest = _early_ends_as_guards(rest)
                return *body[:number], s.If(_opposite(x.condition), rest, (), x.loc)
    return body


def _only_guard(block: s.Block) -> s.If | None:
    """The guard around all of a block but bindings before it, if there is one."""
    if not block or not all(isinstance(x, s.Let) for x in block[:-1]):
        return None
    last = block[-1]
    return last if isinstance(last, s.If) and not last.orelse else None


def _opposite(x: e.Expression) -> e.Expression:
    """The condition that holds where another one does not."""
    if isinstance(x, e.Compare) and x.op in _OPPOSITE:
        kind = x.x.type
        if isinstance(kind, DType) and kind.is_integer:
            return e.Compare(_OPPOSITE[x.op], x.x, x.y)
    if isinstance(x, e.Binary) and x.op == "or" and x.type is bool_:
        return e.Binary("and", _opposite(x.x), _opposite(x.y))
    return e.Unary("not", x)


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
    order = list(steps)
    return 1 in order and all(step in (0, 1) for step in order)
