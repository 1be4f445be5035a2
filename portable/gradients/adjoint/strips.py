"""Workgroups that run many others in turn, and add to copies of gradients that are theirs alone.

Atomic additions between threads cost a processor ten times as much as others do, and a GPU many
times if all workgroups add to the same elements. As many workgroups are then launched as run side
by side. Each goes through a strip of the kernel's own ones and adds to its copy of an array of
gradients; the copies are added up later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from portable.dtypes import DType
from portable.gradients.adjoint.gathers import within
from portable.gradients.adjoint.names import Names
from portable.gradients.adjoint.own_elements import own_in_workgroup
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir import walks
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array

_ROUNDS: Final = 8
"""What a loop whose rounds nobody knows is taken to have."""


def additions(kernel: Kernel, arrays: Sequence[Array], *, any_element: bool) -> dict[Array, int]:
    """The arrays to which an adjoint only adds atomically, and how often each work-item may.

    Parameters
    ----------
    kernel : Kernel
        The adjoint.
    arrays : sequence of Array
        Those of gradients.
    any_element : bool
        Whether work-items of one workgroup may add to the same element.
    """
    counts = counted(kernel, arrays, lambda _: True)
    if any_element:
        return counts
    own = own_in_workgroup(kernel)
    return {x: n for x, n in counts.items() if x in own}


def counted(
    kernel: Kernel, arrays: Sequence[Array], counts: Callable[[s.Atomic], bool]
) -> dict[Array, int]:
    """How many additions that count each work-item makes, about, to arrays that are only added to.

    Parameters
    ----------
    kernel : Kernel
        The adjoint.
    arrays : sequence of Array
        Those asked about. One without such an addition, or touched otherwise, is left out.
    counts : callable
        Whether an addition counts.
    """
    other = {
        y for x in walks.all_statements(kernel.body) if not _is_addition(x) for y in x.touched()
    }
    numbers = {x: 0 for x in arrays if x not in other}
    for x, times in _rounds_of(kernel.body):
        if isinstance(x, s.Atomic) and x.array in numbers and counts(x):
            numbers[x.array] += times
    return {x: n for x, n in numbers.items() if n}


def _is_addition(x: s.Statement) -> bool:
    return isinstance(x, s.Atomic) and x.op == "add" and x.var is None and x.order == "relaxed"


def _rounds_of(body: s.Block, times: int = 1) -> Iterator[tuple[s.Statement, int]]:
    """Every statement of a body, and how often a work-item gets there, about."""
    for x in body:
        yield x, times
        inner = times * (_ROUNDS if isinstance(x, s.For | s.Loop) else 1)
        for part in x.blocks():
            yield from _rounds_of(part, inner)


@dataclass
class Turns:
    """An adjoint's body, gone through for each workgroup of a strip in turn.

    Attributes
    ----------
    kernel : Kernel
        The adjoint, with the body that a workgroup goes through.
    dims : int
        How many dimensions the ndrange has.
    sizes : sequence of Variable
        Of the ndrange that is asked for.
    copies : mapping
        By the arrays of gradients: arrays of a row of elements for each strip.
    names : Names
    one_thread : bool
        Whether a thread runs a workgroup. It adds plainly, by vectors where work-items add to
        elements of their own; many had better not wait for what they load.
    """

    kernel: Kernel
    dims: int
    sizes: Sequence[e.Variable]
    copies: Mapping[Array, Array]
    names: Names
    one_thread: bool
    _made: list[s.Statement] = field(default_factory=list)
    _words: dict[tuple[str, int], e.Expression] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._kind = self.kernel.index_type
        self._own = own_in_workgroup(self.kernel) if self.one_thread else frozenset[Array]()

    def body(self) -> s.Block:
        """The loop over workgroups, and how often it goes round."""
        loc, number = self.kernel.loc, self.names.variable("workgroup", self._kind)
        counts = [
            self._let("groups", self._rounded_up(size, e.Const(wide, self._kind)))
            for size, wide in zip(self.sizes, self.kernel.workgroup, strict=True)
        ]
        area = self._let("groups", e.Binary("mul", counts[0], counts[1]))
        total = self._let("groups", e.Binary("mul", area, counts[2]))
        strips = e.WorkItem("num_groups", 0, self._kind)
        length = self._let("strip", self._rounded_up(total, strips))
        start = self._let("start", e.Binary("mul", self._strip(), length))
        stop = self._let("stop", e.Binary("min", e.Binary("add", start, length), total))
        before = self._taken()
        one = e.Const(1, self._kind)
        loop = s.For(number, start, stop, one, self._round(number, counts, area), loc)
        return (*before, loop)

    def _round(self, number: e.Variable, counts: Sequence[e.Variable], area: e.Variable) -> s.Block:
        """One workgroup of the kernel's."""
        loc = self.kernel.loc
        rest = self._let("rest", self._divided("mod", number, area))
        places = (
            self._divided("mod", rest, counts[0]),
            self._divided("floordiv", rest, counts[0]),
            self._divided("floordiv", number, area),
        )
        points: list[e.Expression] = []
        for dim, place in enumerate(places):
            wide = e.Const(self.kernel.workgroup[dim], self._kind)
            group = self._let("group", place)
            first = self._let("first", e.Binary("mul", group, wide))
            local = e.WorkItem("local_id", dim, self._kind)
            points.append(e.Binary("add", first, local))
            padded = e.Binary("mul", counts[dim], wide)
            size = self.sizes[dim] if self.kernel.exact else padded
            named = {"group_id": group, "num_groups": counts[dim], "global_size": size}
            self._words |= {(word, dim): value for word, value in named.items()}
            self._words["global_id", dim] = points[dim]
        before = self._taken()
        body = walks.map_block(self.kernel.body, self._moved)
        if self.kernel.exact:
            inside = within(points[: self.dims], self.sizes[: self.dims])
            body = (s.If(inside, body, (), loc),)
        return (s.Barrier(loc), *before, *body)

    def _moved(self, x: s.Statement) -> s.Block:
        """A statement of the kernel, at the place of the workgroup whose turn it is."""

        def place(y: e.Expression) -> e.Expression:
            return self._words.get((y.word, y.dim), y) if isinstance(y, e.WorkItem) else y

        made = walks.map_operands(x, lambda y: walks.map_expression(y, place))
        if isinstance(made, s.Atomic) and made.array in self.copies:
            return self._added(made)
        return (made,)

    def _added(self, x: s.Atomic) -> s.Block:
        """An addition to a copy, a plain one to elements of the work-item's own."""
        array, index = self.copies[x.array], (self._strip(), self._number(x))
        if x.array not in self._own:
            return (replace(x, array=array, index=index, scope="workgroup"),)
        assert x.value is not None
        before = self.names.variable("sum", x.value.type)
        total = e.Binary("add", before, x.value)
        return s.Load(before, array, index, x.loc), s.Store(array, index, total, x.loc)

    def _number(self, x: s.Atomic) -> e.Expression:
        return number_of(x.array, x.index, self._kind)

    def _strip(self) -> e.Expression:
        return e.WorkItem("group_id", 0, self._kind)

    def _divided(self, op: e.BinaryOp, x: e.Expression, y: e.Expression) -> e.Expression:
        return e.Binary(op, x, y, nonnegative=True)

    def _rounded_up(self, x: e.Expression, y: e.Expression) -> e.Expression:
        more = e.Binary("add", x, e.Binary("sub", y, e.Const(1, self._kind)))
        return self._divided("floordiv", more, y)

    def _let(self, like: str, value: e.Expression) -> e.Variable:
        made = self.names.variable(like, self._kind)
        self._made.append(s.Let(made, value, self.kernel.loc))
        return made

    def _taken(self) -> s.Block:
        made, self._made = tuple(self._made), []
        return made


def number_of(array: Array, index: Sequence[e.Expression], kind: DType) -> e.Expression:
    """The number of an element in C order; of a row, where the last indices are left out."""
    total: e.Expression = e.Const(0, kind)
    for axis, at in enumerate(index):
        extent = e.Extent(array, axis, kind)
        total = at if axis == 0 else e.Binary("add", e.Binary("mul", total, extent), at)
    return total
