"""Compiles checks into a kernel: of every index, and of the author's own assertions.

Loads, stores and atomics outside their arrays are not carried out, loads giving zero. What a
workgroup does together (copies of tiles, matrix fragments) goes to the array's beginning instead,
since all of its work-items have to take part. The first failure of a launch to claim the report
writes down who, where and what; the others are counted.

The report is an array of 32-bit words, a parameter behind all others: the count of failures, the
number of the failure's `Site`, and what `Site.words` says.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from portable.dtypes import bool_, int32
from portable.errors import Location
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.facts import Facts
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.nodes import both, constant
from portable.lang.ir.types import Array, ValueType, lanes_of
from portable.lang.ir.walks import map_block, map_regions

_DIMS: Final = 3
_HEAD: Final = 2
_MOST_DIMS: Final = 64
REPORT_WORDS: Final = _HEAD + 2 * (_DIMS + 2 * _MOST_DIMS)
"""Words of a report, for arrays of so many dimensions and 64-bit indices."""


@dataclass(frozen=True, slots=True)
class Site:
    """A place in a kernel at which something is checked.

    Attributes
    ----------
    kernel : str
        The kernel's name.
    workgroup : (int, int, int)
        Its local size.
    loc : Location
        Where.
    message : str
        What `kl.check` was given.
    array, space : str
        Name and space of the array that is indexed; empty for `kl.check`.
    ndim : int
        Its dimensions.
    wide : bool
        Whether numbers are two words each, the low one first.
    """

    kernel: str
    workgroup: tuple[int, int, int]
    loc: Location
    message: str = ""
    array: str = ""
    space: str = ""
    ndim: int = 0
    wide: bool = False

    @property
    def number(self) -> int:
        """What stands for it in reports: the same in every process, so that programs are kept."""
        return zlib.crc32(repr(self).encode()) & 0x7FFFFFFF

    def words(self, report: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """The work-item's global id, and index and shape of the array, from a report."""
        step = 2 if self.wide else 1
        lengths = (_DIMS, self.ndim, self.ndim)
        at, numbers = _HEAD, []
        for length in lengths:
            part = report[at : at + step * length]
            numbers.append(tuple(_number(part[i : i + step]) for i in range(0, len(part), step)))
            at += step * length
        return tuple(numbers)


def _number(words: Sequence[int]) -> int:
    if len(words) == 1:
        return int(words[0])
    return int(words[0]) % 2**32 + int(words[1]) * 2**32


def checked(kernel: Kernel) -> tuple[Kernel, tuple[Site, ...]]:
    """The kernel with checks, and its sites; its last parameter is the report."""
    checks = _Checks(kernel)
    body = map_block(kernel.body, checks.statement)
    made = replace(
        kernel,
        body=body,
        parameters=(*kernel.parameters, checks.report),
        variables=(*kernel.variables, *checks.variables),
    )
    return made, tuple(checks.sites)


class _Checks:
    """The checks of one kernel.

    Names with a blank cannot be those of the author.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._index_type = kernel.index_type
        self._facts = Facts(kernel)
        self._count = 0
        self.report = Array("check report", int32, "global", 1, strides=("unit",), restrict=True)
        self.variables: list[e.Variable] = []
        self.sites: list[Site] = []

    def statement(self, x: s.Statement) -> s.Block:
        """What takes a statement's place."""
        match x:
            case s.Check():
                return self._reporting(x.condition, self._site(x.loc, x.message), (), ())
            case s.Load():
                lanes = 1 if x.array.lanes > 1 else lanes_of(x.var.type)
                return self._guarded(x, x.var, self._inside(x, lanes))
            case s.Store():
                lanes = 1 if x.array.lanes > 1 else lanes_of(x.value.type)
                return self._guarded(x, None, self._inside(x, lanes))
            case s.Atomic():
                return self._guarded(x, x.var, self._bounds(x.array, x.index))
            case s.BulkCopy():
                return self._bulk(x)
            case _:
                return self._regions(x)

    # -- conditions -------------------------------------------------------------------------

    def _inside(self, x: s.Load | s.Store, lanes: int) -> e.Expression | None:
        """Whether a load or store stays inside its array; None where that is certain."""
        if x.runs_on:
            return self._run(x.array, x.index, self._const(lanes))
        spans = [1] * x.array.ndim
        if spans:
            spans[x.axis % x.array.ndim] = lanes
        return self._bounds(x.array, x.index, spans)

    def _bounds(
        self, array: Array, index: Sequence[e.Expression], spans: Sequence[int] = ()
    ) -> e.Expression | None:
        """Whether so many elements from an index on along each dimension are inside."""
        spans = spans or [1] * array.ndim
        conditions: list[e.Expression] = []
        for dim, (x, span) in enumerate(zip(index, spans, strict=True)):
            i, known = self._index(x), self._facts.bounds(x)
            if known.low < 0:
                conditions.append(e.Compare("ge", i, self._const(0)))
            if array.shape and known.high + span <= array.shape[dim]:
                continue
            last = e.Binary("sub", self._extent(array, dim), self._const(span))
            conditions.append(e.Compare("le", i, last))
        return both(*conditions)

    def _run(
        self, array: Array, index: Sequence[e.Expression], count: e.Expression
    ) -> e.Expression | None:
        """Whether `count` elements that follow each other in memory from an index on are inside."""
        if not index:
            return None
        *lead, last = index
        inside: list[e.Expression] = [self._bounds_of(array, dim, x) for dim, x in enumerate(lead)]
        offset: e.Expression = self._const(0)
        size: e.Expression = self._const(1)
        for dim, x in enumerate(index):
            extent = self._extent(array, dim)
            offset = e.Binary("add", e.Binary("mul", offset, extent), self._index(x))
            size = e.Binary("mul", size, extent)
        none = self._const(0)
        inside.append(e.Compare("ge", self._index(last), none))
        inside.append(e.Compare("ge", count, none))
        inside.append(e.Compare("le", count, e.Binary("sub", size, offset)))
        return both(*inside)

    def _bounds_of(self, array: Array, dim: int, x: e.Expression) -> e.Expression:
        i = self._index(x)
        above = e.Compare("lt", i, self._extent(array, dim))
        return e.Binary("and", e.Compare("ge", i, self._const(0)), above)

    def _extent(self, array: Array, dim: int) -> e.Expression:
        if array.space == "global":
            return e.Extent(array, dim, self._index_type)
        return self._const(array.shape[dim])

    def _index(self, x: e.Expression) -> e.Expression:
        return x if x.type is self._index_type else e.Cast(x, self._index_type)

    def _const(self, value: int) -> e.Const:
        return e.Const(value, self._index_type)

    # -- statements -------------------------------------------------------------------------

    def _guarded(
        self,
        x: s.Load | s.Store | s.Atomic,
        var: e.Variable | None,
        condition: e.Expression | None,
    ) -> s.Block:
        """The access where its condition holds, else a report; what it binds is then zero."""
        if condition is None:
            return (x,)
        failed = self._failed(self._site(x.loc, array=x.array), x.index, x.array)
        if var is None:
            return (s.If(condition, (x,), failed, x.loc),)
        held, inner = self._named(var.name, var.type), self._named(var.name, var.type)
        self.variables.append(held)
        assert not isinstance(x, s.Store)
        access = replace(x, var=inner)
        return (
            s.Assign(held, constant(0, var.type), x.loc),
            s.If(condition, (access, s.Assign(held, inner, x.loc)), failed, x.loc),
            s.Let(var, held, x.loc),
        )

    def _bulk(self, x: s.BulkCopy) -> s.Block:
        """A copy of what follows in memory: nothing is copied where it would leave an array."""
        count = self._index(x.count)
        out: list[s.Statement] = []
        for array, index in ((x.target, x.target_index), (x.source, x.source_index)):
            condition = self._run(array, index, count)
            if condition is not None:
                fits = self._named("fits", bool_)
                out.append(s.Let(fits, condition, x.loc))
                out += self._reporting(fits, self._site(x.loc, array=array), index, (array,))
                count = e.Select(fits, count, self._const(0))
        return (*out, replace(x, count=count))

    def _regions(self, x: s.Statement) -> s.Block:
        """What is done with parts of local arrays; of global ones, what is outside is left out."""
        before: list[s.Statement] = []

        def kept(part: e.Region) -> e.Region:
            local = part.array.space == "local"
            return self._moved(part, x.loc, before) if local else part

        moved = map_regions(x, kept)
        return (*before, moved)

    def _moved(self, part: e.Region, loc: Location, before: list[s.Statement]) -> e.Region:
        """The region, or one at the beginning of its array where that is the only one inside."""
        starts = part.starts
        spans = [part.span(dim) for dim in range(len(part.extents))]
        condition = self._bounds(part.array, starts, spans)
        if condition is None:
            return part
        fits = self._named("fits", bool_)
        before.append(s.Let(fits, condition, loc))
        before += self._reporting(fits, self._site(loc, array=part.array), starts, (part.array,))
        return replace(part, starts=tuple(self._kept(fits, start) for start in starts))

    def _kept(self, fits: e.Expression, start: e.Expression) -> e.Expression:
        return e.Select(fits, self._index(start), self._const(0))

    # -- reports ----------------------------------------------------------------------------

    def _reporting(
        self,
        condition: e.Expression,
        site: Site,
        index: Sequence[e.Expression],
        arrays: Sequence[Array],
    ) -> s.Block:
        """A report where a condition does not hold."""
        failed = self._failed(site, index, *arrays)
        return (s.If(e.Unary("not", condition), failed, (), site.loc),)

    def _failed(self, site: Site, index: Sequence[e.Expression], *arrays: Array) -> s.Block:
        """Counts a failure, and writes the first one down."""
        self.sites.append(site)
        before = self._named("failures", int32)
        first = e.Compare("eq", before, e.Const(0, int32))
        numbers = [e.WorkItem("global_id", dim, self._index_type) for dim in range(_DIMS)]
        shape = [self._extent(array, dim) for array in arrays for dim in range(array.ndim)]
        words = [e.Const(site.number, int32), *self._words([*numbers, *index, *shape])]
        stores = tuple(
            s.Store(self.report, (self._const(i),), word, site.loc)
            for i, word in enumerate(words, start=1)
        )
        claim = s.Atomic(
            before, "add", self.report, (self._const(0),), e.Const(1, int32), None, "relaxed",
            "device", site.loc,
        )  # fmt: skip
        return (claim, s.If(first, stores, (), site.loc))

    def _words(self, numbers: Sequence[e.Expression]) -> Iterator[e.Expression]:
        for x in map(self._index, numbers):
            if self._index_type is int32:
                yield x
            else:
                yield e.Cast(x, int32)
                yield e.Cast(e.Binary("shr", x, self._const(32)), int32)

    def _site(self, loc: Location, message: str = "", array: Array | None = None) -> Site:
        kernel = self._kernel
        wide = self._index_type is not int32
        if array is None:
            return Site(kernel.name, kernel.workgroup, loc, message, wide=wide)
        return Site(
            kernel.name, kernel.workgroup, loc, "", array.name, array.space, array.ndim, wide
        )

    def _named(self, name: str, kind: ValueType) -> e.Variable:
        self._count += 1
        return e.Variable(f"{name} checked {self._count}", kind)
