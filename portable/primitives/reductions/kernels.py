"""Kernels that reduce: workgroups, columns, strips, segments and moments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.library.collectives import arrived_last
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.reductions.merging import CHAIN, CHAINS, LEVELS, Line, Walk, next_stop

# Reductions along the last axis in which the work-items of a workgroup share the work.
#
# Neighbouring work-items read neighbouring vectors, and combine what they found.


@kernel
def reduce_by_workgroup(arrays: Any, outs: Any, *, FOLD: Any, CUT: Any) -> None:
    """Reduces sections of the last axis.

    Parameters
    ----------
    arrays : tuple
        What is read, the first of them an array of rows; with what `FOLD` needs to know of it.
    outs : tuple
        What `FOLD` writes totals to.
    FOLD : Merge, Best or Spread
        What is done: it makes two totals one, ``FOLD.nothing`` being neutral, ``FOLD.of_section``
        is what a work-item's own elements come to, and ``FOLD.put`` writes a total.
    CUT : Sections
        How rows are cut, and shared.
    """
    shape = arrays[0].shape
    lead, length = shape[: len(shape) - 1], shape[len(shape) - 1]
    if CUT.rows == 1:
        reduce_section(arrays, outs, CUT.own(lead, length), FOLD, CUT)
    else:
        for turn in range(CUT.rows):
            reduce_section(arrays, outs, CUT.own(lead, length, turn), FOLD, CUT)


@function
def reduce_section(arrays: Any, outs: Any, section: Any, FOLD: Any, CUT: Any) -> None:
    """Reduces one section for each row of a workgroup."""
    total = FOLD.nothing()
    if section.inside:
        total = FOLD.of_section(arrays, section, CUT.width)
    total = kl.workgroup_reduce(FOLD, total, width=CUT.width)
    if section.inside and kl.local_id(0) % CUT.width == 0:
        FOLD.put(outs, section, total)


@kernel
def reduce_at_once(
    x: kl.Array,
    parts: kl.Array,
    counts: kl.Array,
    out: kl.Array,
    *,
    MERGE: Any,
    WIDTH: int,
    AHEAD: int,
) -> None:
    """Merges the last axis: each workgroup a part, the last one of a row to come all of them.

    Nobody waits.

    Parameters
    ----------
    x : array
        What is read.
    parts : array
        What the parts of each row come to: whole tiles, of `AHEAD` vectors for each work-item.
    counts : array
        A place for each row; all are 0, and are left so.
    out : array
        What rows come to.
    MERGE : Merge
        What is done.
    WIDTH, AHEAD : int
        Work-items of a workgroup, and vectors that each reads before it merges them.
    """
    lead = x.shape[: x.ndim - 1]
    sections = parts.shape[parts.ndim - 1]
    item = kl.local_id(0)
    group = kl.group_id(0)
    s, row = group % sections, group // sections
    outer = unravelled(row, lead)
    length, tile = x.shape[x.ndim - 1], AHEAD * WIDTH * MERGE.lanes
    section = kl.cdiv(kl.cdiv(length, tile), sections) * tile
    begin = s * section
    stop = begin + kl.minimum(section, length - begin)
    total = MERGE.along(Line(x, outer), begin, stop, tile, WIDTH, AHEAD, LEVELS)
    total = kl.workgroup_reduce(MERGE, total)
    if item == 0:
        parts[*outer, s] = total
    if arrived_last(counts, row, sections):
        rest = MERGE.nothing()
        if WIDTH == 1:
            # Work-items that are alone have many sections, since each adds up a short one.
            jump, merge = CHAINS * MERGE.lanes, MERGE.taking(MERGE.lanes)
            rest = merge.along(Line(parts, outer), 0, sections, jump, 1, CHAINS, LEVELS)
        else:
            for q in range(item, sections, WIDTH):
                rest = MERGE(rest, parts[*outer, q])
        rest = kl.workgroup_reduce(MERGE, rest)
        if item == 0:
            out[*outer] = rest


# Reductions of columns by work-items that do not share a strip of them.

_AHEAD = 8
"""Rows whose vectors a work-item takes before it goes on to the next ones of each."""


@function
def vectors_of(lead: tuple[kl.Scalar, ...], lanes: int) -> Any:
    """How many vectors the neighbours along the last of some axes are."""
    return product_of(lead[: len(lead) - 1]) * kl.cdiv(lead[len(lead) - 1], lanes)


@function
def vector_at(number: kl.Scalar, lead: tuple[kl.Scalar, ...], lanes: int) -> Any:
    """Where a vector begins, and where it would if the last ones of rows did not end with them."""
    along = lead[len(lead) - 1]
    each = kl.cdiv(along, lanes)
    begin = number % each * lanes if len(lead) > 1 else number * lanes
    outer = unravelled(number // each, lead[: len(lead) - 1]) if len(lead) > 1 else ()
    return (*outer, begin if lanes == 1 else kl.minimum(begin, along - lanes)), begin


@function
def keep_lanes(
    out: kl.Array, number: kl.Scalar, s: kl.Scalar, value: kl.Scalar, lanes: int
) -> None:
    """Writes what belongs to section `s` of a vector of neighbours.

    Where that begins before the one before it ends, this has written the neighbours that both have.
    """
    last = out.ndim - 2
    at, begin = vector_at(number, out.shape[: out.ndim - 1], lanes)
    if at[last] == begin:
        kl.vstore(out, *at, s, kl.cast(value, out.dtype), axis=last)
    else:
        for lane in kl.static_range(lanes):
            if at[last] + lane >= begin:
                out[*at[:last], at[last] + lane, s] = kl.cast(value[lane], out.dtype)


@kernel
def reduce_columns(
    x: kl.Array, outs: tuple[kl.Array, ...], *, FOLD: Any, STRIP: int, SECTION: int
) -> None:
    """Reduces sections of the last axis, neighbours lying along the one before.

    A work-item does `STRIP` vectors of neighbours side by side, a few elements of each in turn.

    Parameters
    ----------
    x : array
        What is read.
    outs : tuple of array
        What totals are made of, in the order of `FOLD.held`: ``outs[n][..., s]`` of section `s`.
    FOLD : Merge, Best or Spread
        What is done: the totals ``FOLD.started`` begins with, the types that hold them, and how
        ``FOLD.further`` goes on from such.
    STRIP, SECTION : int
        Vectors of a work-item, and elements of a section.
    """
    lead = x.shape[: x.ndim - 1]
    vectors = vectors_of(lead, FOLD.lanes)
    strips = kl.cdiv(vectors, STRIP)
    item = kl.global_id(0)
    s = item // strips
    begin = item % strips * STRIP
    if s < outs[0].shape[x.ndim - 1]:
        strip = kl.private((STRIP,), FOLD.held, lanes=FOLD.lanes)
        count = 1 if STRIP == 1 else kl.minimum(vectors - begin, STRIP)
        first = s * SECTION
        stop = kl.minimum(first + SECTION, x.shape[x.ndim - 1])
        for k in range(count):
            outer, _ = vector_at(begin + k, lead, FOLD.lanes)
            strip[k] = FOLD.started(Line(x, outer), first)
        for r, ahead in kl.vector_range(first, stop, lanes=_AHEAD):
            for k in range(count):
                outer, _ = vector_at(begin + k, lead, FOLD.lanes)
                strip[k] = FOLD.further(Line(x, outer), r, r - first, strip[k], ahead)
        for k in range(count):
            for n in kl.static_range(len(outs)):
                keep_lanes(outs[n], begin + k, s, strip[k][n], FOLD.lanes)


# Reductions of columns in which the work-items of a workgroup share a strip of neighbours.


@function
def merged_down(shared: kl.Array, value: kl.Scalar, MERGE: Any, WIDTH: int, TALL: int) -> Any:
    """What the vectors of the `TALL` rows of work-items come to; the first row is told.

    Before `shared` is written again a barrier is to come.
    """
    across = kl.local_id(0) % WIDTH * MERGE.lanes
    row = kl.local_id(0) // WIDTH
    kl.vstore(shared, row, across, value)
    kl.barrier()
    merged = value
    if row == 0:
        for k in kl.static_range(1, TALL):
            merged = MERGE(merged, kl.vload(shared, k, across, lanes=MERGE.lanes))
    return merged


@kernel
def reduce_strips(
    x: kl.Array,
    parts: kl.Array,
    counts: kl.Array | None,
    out: kl.Array | None,
    *,
    MERGE: Any,
    WIDTH: int,
    TALL: int,
) -> None:
    """Merges the last axis, neighbours lying along another.

    The workgroups of a strip of neighbours take turns at rows, and the last one to come merges what
    they found: nobody waits.

    Parameters
    ----------
    x : array
        What is read.
    parts : array, shape (workgroups of a strip, neighbours)
        What the rows of each workgroup come to.
    counts : array or None
        A place for each strip; all are 0, and are left so. With None no parts are merged.
    out : array or None
        What the parts come to, a number for each neighbour.
    MERGE : Merge
        What is done.
    WIDTH, TALL : int
        Work-items of a workgroup along neighbours, each with a vector of them, and rows of them.
    """
    lead = x.shape[: x.ndim - 1]
    columns = product_of(lead)
    strips = kl.cdiv(columns, MERGE.lanes * WIDTH)
    sections = parts.shape[0]
    strip, s = kl.group_id(0) % strips, kl.group_id(0) // strips
    row = kl.local_id(0) // WIDTH
    column = (strip * WIDTH + kl.local_id(0) % WIDTH) * MERGE.lanes
    inside = column < columns
    shared = kl.local((TALL, WIDTH * MERGE.lanes), MERGE.kind)
    merged = MERGE.spread(MERGE.nothing())
    outer = unravelled(column, lead)
    if inside:
        first, step = s * TALL + row, sections * TALL
        walk = Walk(Line(x, outer), first, x.shape[x.ndim - 1] - first, step, _AHEAD * step)
        merged, _, _ = MERGE.vectors(walk, x.ndim - 2, _AHEAD)
    merged = merged_down(shared, merged, MERGE, WIDTH, TALL)
    if inside and row == 0:
        kl.vstore(parts, s, column, merged)
    if counts is not None and arrived_last(counts, strip, sections):
        rest = MERGE.spread(MERGE.nothing())
        if inside:
            for q in kl.range(row, sections, TALL, unroll=4):
                rest = MERGE(rest, kl.vload(parts, q, column, lanes=MERGE.lanes))
        rest = merged_down(shared, rest, MERGE, WIDTH, TALL)
        if inside and row == 0:
            kl.vstore(out, column, rest)


# Kernels that combine the elements of segments of a vector.

_CHAIN: Final = 64
"""Elements that are combined in a row, before that goes into another chain."""


@function
def segment_total(x: kl.Array, start: kl.Scalar, stop: kl.Scalar, step: int, MERGE: Any) -> Any:
    """Every `step`th element of a segment combined, in chains, so that sums do not drift."""
    total = MERGE.nothing()
    for begin in range(start, stop, _CHAIN * step):
        chain = MERGE.nothing()
        for k in range(begin, kl.minimum(begin + _CHAIN * step, stop), step):
            chain = MERGE(chain, MERGE.one(Line(x, ()), k))
        total = MERGE(total, chain)
    return total


@kernel
def segments_by_item(
    x: kl.Array, offsets: kl.Array, out: kl.Array, each: kl.Scalar, *, MERGE: Any
) -> None:
    """A work-item for `each` segments that follow each other."""
    first = kl.global_id(0) * each
    for s in range(first, kl.minimum(first + each, out.shape[0])):
        start, stop = kl.cast(offsets[s], kl.i64), kl.cast(offsets[s + 1], kl.i64)
        out[s] = segment_total(x, start, stop, 1, MERGE)


@kernel
def segments_by_workgroup(x: kl.Array, offsets: kl.Array, out: kl.Array, *, MERGE: Any) -> None:
    """A workgroup for each segment."""
    s = kl.group_id(0)
    start = kl.cast(offsets[s], kl.i64) + kl.local_id(0)
    stop = kl.cast(offsets[s + 1], kl.i64)
    total = segment_total(x, start, stop, kl.local_size(0), MERGE)
    total = kl.workgroup_reduce(MERGE, total)
    if kl.local_id(0) == 0:
        out[s] = total


# Means and sums of squared deviations in one read, merged in pairs.
#
# T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing
# sample variances", COMPSTAT 1982. A few elements at a time are held in registers for the
# deviations from their own mean; such parts, then lanes, then work-items are merged. The row's
# first element is taken off beforehand, so that means are about as precise as the deviations.

_HELD = 8


@function
def share(part: kl.Scalar, whole: kl.Scalar, KIND: Any) -> Any:
    """``part / whole``, of nothing 0."""
    return kl.cast(part, KIND) / kl.cast(kl.maximum(whole, 1), KIND)


@dataclass(frozen=True)
class Moments:
    """The mean of numbers, or of each lane of vectors, their squared deviations, and how many.

    Neither is of any numbers where `count` is 0.
    """

    mean: Any
    squares: Any
    count: Any

    def __add__(self, more: Moments) -> Any:
        """Those of the numbers of both together."""
        kind = self.mean.dtype
        total = self.count + more.count
        part = share(more.count, total, kind)
        gap = more.mean - self.mean
        apart = gap * gap * (part * kl.cast(self.count, kind))
        return Moments(self.mean + gap * part, self.squares + more.squares + apart, total)


@function
def of_one(value: kl.Scalar) -> Any:
    """The moments of one number, or of one in each lane."""
    return Moments(value, value * 0, 1)


@dataclass(frozen=True)
class Spread:
    """How moments are found; a constant of `reduce_by_workgroup` and `reduce_columns`.

    The former writes means, which count from the row's first element, and squared deviations; or
    for None instead of means, the latter over a divisor that is given behind them.

    Attributes
    ----------
    merge : Merge
        In which type to compute, and how many neighbours are a vector.
    place : DType
        In which type to count.
    root : bool
        Whether the roots of variances are wanted.
    """

    merge: Any
    place: Any
    root: bool = False

    @property
    def lanes(self) -> int:
        """How many neighbours are a vector."""
        return int(self.merge.lanes)

    def __call__(self, x: Moments, y: Moments) -> Any:
        """The moments of the numbers of both together."""
        return x + y

    def nothing(self) -> Any:
        """The moments of no numbers."""
        zero = self.merge.nothing()
        return Moments(zero, zero, kl.cast(0, self.place))

    def of_few(self, line: Line, first: kl.Scalar, step: int, origin: kl.Scalar, AXIS: int) -> Any:
        """The moments in each lane of `_HELD` elements from `first` on."""
        held = [
            self.merge.read(line, first + k * step, AXIS) - origin for k in kl.static_range(_HELD)
        ]
        centre = sum(held) * (1 / _HELD)
        return Moments(centre, sum([(v - centre) * (v - centre) for v in held]), _HELD)

    def of_section(self, arrays: tuple[kl.Array, ...], section: Any, WIDTH: int) -> Any:
        """The moments of this work-item's elements of a section."""
        x, lanes, step = arrays[0], self.lanes, WIDTH * self.lanes
        line = Line(x, section.outer)
        origin = self.merge.one(line, 0)
        full = kl.minimum(section.stop, x.shape[x.ndim - 1] - (lanes - 1))
        zero = self.merge.spread(self.merge.nothing())
        each = Moments(zero, zero, kl.cast(0, self.place))
        r = section.first + kl.local_id(0) % WIDTH * lanes
        while r + (_HELD - 1) * step < full:
            # In chains of bounded length, as sums are: see `merging`.
            part, done = Moments(zero, zero, kl.cast(0, self.place)), 0
            while (r + (_HELD - 1) * step < full) & (done < CHAIN):
                part = part + self.of_few(line, r, step, origin, -1)
                r = r + _HELD * step
                done = done + 1
            each = each + part
        while r < full:
            each = each + of_one(self.merge.read(line, r) - origin)
            r = r + step
        total = self.nothing()
        for lane in kl.static_range(lanes):
            total = total + Moments(each.mean[lane], each.squares[lane], each.count)
        if lanes > 1:
            for q in range(r, kl.minimum(r + lanes, section.stop)):
                total = total + of_one(self.merge.one(line, q) - origin)
        return total

    def put(self, outs: Any, section: Any, moments: Moments) -> None:
        """Writes moments, or a variance or its root."""
        means, squares, divisor = outs
        if means is not None:
            means[*section.outer, section.number] = moments.mean
            squares[*section.outer, section.number] = moments.squares
        else:
            result = moments.squares / kl.cast(divisor, self.merge.kind)
            squares[*section.outer, section.number] = kl.sqrt(result) if self.root else result

    # -- of columns -----------------------------------------------------------------------------

    @property
    def held(self) -> Any:
        """The types of means and squared deviations."""
        return (self.merge.kind, self.merge.kind)

    def started(self, line: Line, r: kl.Scalar) -> Any:
        """Those of no numbers."""
        zero = self.merge.spread(self.merge.nothing())
        return zero, zero

    def further(self, line: Line, r: kl.Scalar, done: kl.Scalar, totals: Any, COUNT: int) -> Any:
        """Those of `done` elements, and of some more along the last axis."""
        axis = line.x.ndim - 2
        origin = self.merge.read(line, 0, axis)
        if COUNT == _HELD:
            more = self.of_few(line, r, 1, origin, axis)
        else:
            more = of_one(self.merge.read(line, r, axis) - origin)
        mean, squares = totals
        total = Moments(mean, squares, done) + more
        return total.mean, total.squares


@dataclass(frozen=True)
class SpreadOfParts(Spread):
    """The same of the moments of sections of rows, which are read with the length of a row.

    Attributes
    ----------
    part : int
        Elements of a section.
    """

    part: int = 1

    def of_section(self, arrays: Any, section: Any, WIDTH: int) -> Any:
        """The moments of all numbers in this work-item's sections."""
        means, squares, length = arrays
        total = self.nothing()
        for first in range(section.first + kl.local_id(0) % WIDTH, section.stop, CHAIN * WIDTH):
            part = self.nothing()
            for s in range(first, next_stop(first, section.stop, WIDTH), WIDTH):
                count = kl.cast(kl.minimum(self.part, length - s * self.part), self.place)
                part = part + Moments(means[*section.outer, s], squares[*section.outer, s], count)
            total = total + part
        return total
