"""Sorting where each work-item has a core to itself: into buckets, and each in its core's caches.

Splitters are drawn from the elements, so that buckets are about alike however those are spread.
What a core then holds it orders by the highest bits in which its keys differ, the lower half of
them first, and what these leave out of order by insertion: few elements, unless keys crowd
together, where all bits are gone through; more of the highest bits at once where most of them tell
exponents. All steps keep equal elements in order.

A search tree of splitters (M. Axtmann, S. Witt, D. Ferizovic, P. Sanders, "Engineering in-place
sorting algorithms", ACM TOPC 9, 2022) was no faster where lanes go one by one: two busy cores of a
Zen 5 took 1.34 (`float32`), 1.95 (`int64`) and 1.02 (`complex64`) times as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.reductions.axis import section_at
from portable.primitives.reductions.merging import folded
from portable.primitives.sorts.keys import Line, Order

# Division into buckets by halves: where an instruction brings chosen lanes together, of vectors.
#
# Sections are halved by splitters as quicksort does, each vector's lanes going to one side or the
# other (J. Wassenberg, M. Blacher, J. Giesen, P. Sanders, "Vectorized and performance-portable
# quicksort", 2022; here equal elements keep their order, by way of room for the upper side). What
# many elements are equal to has a bucket of its own.


@dataclass(frozen=True)
class Halving:
    """How elements are divided into buckets; a constant of kernels.

    Attributes
    ----------
    order : Order
        Of the elements.
    count : int
        Buckets, a power of two.
    lanes : int
        Neighbours that go to one side or the other at a time.
    """

    order: Order
    count: int
    lanes: int

    def bound(self, samples: kl.Array, outer: tuple[kl.Scalar, ...], bucket: kl.Scalar) -> Any:
        """The greatest key below a bucket; of samples alike the first is above, the others not.

        So what many elements are equal to has a bucket of its own, which is in order as it is.
        """
        every = samples.shape[samples.ndim - 1] // self.count
        last = self.count - 1
        key = self.order.key(samples[*outer, bucket * every])
        before = self.order.key(samples[*outer, kl.maximum(bucket - 1, 1) * every])
        after = self.order.key(samples[*outer, kl.minimum(bucket + 1, last) * every])
        again = (bucket > 1) & (before == key)
        first = (bucket < last) & (after == key) & ~again & (key > 0)
        return self.order.beyond(key - kl.cast(first, key.dtype))

    def split(
        self,
        source: Line,
        low: Line,
        high: Line,
        first: kl.Scalar,
        stop: kl.Scalar,
        bound: kl.Scalar,
    ) -> Any:
        """Moves a range's elements up to a key to the front of it in `low`, and others behind.

        These go by way of the front of `high`. All keep their order; gives where the others begin.
        """
        below, above = first, kl.cast(0, first.dtype)
        for i, together in kl.vector_range(first, stop, lanes=self.lanes):
            elements, was = source.some(i, together), source.was(i, together)
            fits = self.order.up_to(elements, bound)
            if together > 1:
                low.put_chosen(below, elements, was, fits)
                high.put_chosen(above, elements, was, ~fits)
                fitting = kl.cast(kl.count(fits), first.dtype)
            else:
                low.put(below, elements, was)
                high.put(above, elements, was)
                fitting = kl.cast(fits, first.dtype)
            below, above = below + fitting, above + (together - fitting)
        low.copy(below, high, kl.cast(0, first.dtype), above, self.lanes)
        return below


class Divided(NamedTuple):
    """Sections whose elements are in the order of buckets.

    Attributes
    ----------
    line : Line
        The elements.
    counts, edges : array
        ``[..., b, s]``: how many elements of section `s` are of bucket `b`, and where in the row
        they begin.
    """

    line: Line
    counts: Any
    edges: Any

    def collect(self, bucket: kl.Scalar, starts: kl.Array, target: Line, lanes: int) -> None:
        """Moves the elements of a bucket of a row to `starts`, so many at a time.

        Of a row of `target`; what `starts` holds is as `counts` has it.
        """
        line = self.line.row(target.outer)
        for number in range(self.counts.shape[self.counts.ndim - 1]):
            target_index = *target.outer, bucket, number
            first = self.edges[*target_index]
            target.copy(
                starts[*target_index], line, first, first + self.counts[*target_index], lanes
            )


@kernel
def divide(
    x: kl.Array, samples: kl.Array, divided: Divided, spare: Line, *, HALVING: Halving, SECTION: int
) -> None:
    """Brings each section of the last axis in the order of buckets, and counts their elements.

    Parameters
    ----------
    x : array
        The elements, as `Order` takes them.
    samples : array
        Some of them for each row, sorted.
    divided : Divided
        The result.
    spare : Line
        Room for a section, for each work-item.
    HALVING : Halving
        What divides them.
    SECTION : int
        Elements of a section, few enough for a core's caches.
    """
    item, COUNT = kl.global_id(0), HALVING.count
    if item < spare.elements.shape[0]:
        *lead, length = x.shape
        rest = spare.row((item,))
        ends = kl.private(COUNT + 1, item.dtype)
        sections = product_of(lead) * kl.cdiv(length, SECTION)
        for number in range(item, sections, spare.elements.shape[0]):
            section = section_at(x, SECTION, number)
            outer, to = section.outer, divided.line.row(section.outer)
            ends[0], ends[COUNT] = section.first, section.stop
            wide = kl.cast(COUNT // 2, kl.i32)
            bound = HALVING.bound(samples, outer, wide)
            source = Line(x, None, outer)
            ends[wide] = HALVING.split(source, to, rest, section.first, section.stop, bound)
            while wide > 1:
                half = wide // 2
                for b in range(half, COUNT, wide):
                    bound = HALVING.bound(samples, outer, b)
                    ends[b] = HALVING.split(to, to, rest, ends[b - half], ends[b + half], bound)
                wide = half
            for b in range(COUNT):
                divided.edges[*outer, b, section.number] = ends[b]
                divided.counts[*outer, b, section.number] = ends[b + 1] - ends[b]


# -- bucket kernels --------------------------------------------------------------------------------

_MOST_MOVES = 4
"""Moves for each element after which insertion gives up."""


@function
def mixed(k: kl.Scalar) -> Any:
    """Bits that look drawn by chance."""
    x = (kl.cast(k, kl.u32) + 1) * 0x9E3779B1
    x = (x ^ (x >> 15)) * 0x85EBCA77
    return x ^ (x >> 13)


@kernel
def draw_samples(x: kl.Array, out: kl.Array) -> None:
    """Elements of the rows of `x`, one from each of as many parts as those of `out` are long."""
    k = kl.global_id(0)
    if k < product_of(out.shape):
        at = unravelled(k, out.shape)
        part = x.shape[x.ndim - 1] // out.shape[out.ndim - 1]
        n = at[out.ndim - 1]
        here = n * part + kl.cast(mixed(k) % kl.cast(part, kl.u32), n.dtype)
        out[*at] = x[*at[: out.ndim - 1], here]


@dataclass(frozen=True)
class Sorting:
    """How a work-item sorts a part of a row; a constant of kernels.

    Attributes
    ----------
    order : Order
        Of the elements.
    digit : int
        Bits by which it moves elements at a time.
    lanes : int
        Neighbours whose keys it works out at a time.
    """

    order: Order
    digit: int
    lanes: int

    def digits_of(self, elements: kl.Scalar, lowest: kl.Scalar, shift: kl.Scalar) -> Any:
        """Two digits of how far keys are above another, from bit `shift` on.

        The second one's follow the greatest of the first.
        """
        above = (self.order.key(elements) - lowest) >> shift
        mask = (1 << self.digit) - 1
        high = above >> kl.cast(self.digit, lowest.dtype)
        return kl.cast(above & mask, kl.i32), kl.cast(high & mask, kl.i32) + (1 << self.digit)

    def by_two_digits(
        self,
        source: Line,
        spare: Line,
        out: Line,
        first: kl.Scalar,
        stop: kl.Scalar,
        key: tuple[kl.Scalar, ...],
    ) -> None:
        """Brings a part in the order of two digits; `key` says of what, as in `digits_of`."""
        RADIX = 1 << self.digit
        places = kl.private(2 * RADIX, first.dtype, fill=0)
        for i, lanes in kl.vector_range(first, stop, lanes=self.lanes):
            both = self.digits_of(source.some(i, lanes), *key)
            for lane in kl.static_range(lanes):
                for digits in both:
                    places[digits[lane]] += 1
        below, below_high = first, first
        for d in range(RADIX):
            count, count_high = places[d], places[RADIX + d]
            places[d], places[RADIX + d] = below, below_high
            below, below_high = below + count, below_high + count_high
        for HIGH in kl.static_range(2):
            line, to = (spare, out) if HIGH else (source, spare)
            for i, lanes in kl.vector_range(first, stop, lanes=self.lanes):
                elements = line.some(i, lanes)
                digits = self.digits_of(elements, *key)[HIGH]
                for lane in kl.static_range(lanes):
                    position = places[digits[lane]]
                    places[digits[lane]] = position + 1
                    to.put(position, elements[lane], line.was(i + lane))

    def ordered_from(self, line: Line, i: kl.Scalar, stop: kl.Scalar) -> Any:
        """From `i` on the first vector that is not in order, or that ends beyond `stop`."""
        ahead = i
        fine = ahead + self.lanes <= stop
        while fine:
            keys = self.order.key(line.some(ahead, self.lanes))
            fallen = kl.where(self.order.key(line.some(ahead - 1, self.lanes)) > keys, 1, 0)
            if folded(fallen, self.lanes, kl.add) > 0:
                fine = False
            else:
                ahead = ahead + self.lanes
                fine = ahead + self.lanes <= stop
        return ahead

    def by_insertion(self, line: Line, first: kl.Scalar, stop: kl.Scalar) -> Any:
        """Moves elements to their places among those before; False if that takes many moves."""
        left = (stop - first) * _MOST_MOVES
        i = first + 1
        while (i < stop) & (left > 0):
            i = self.ordered_from(line, i, stop)
            for n in range(i, kl.minimum(i + self.lanes, stop)):
                element, was, j = line.some(n), line.was(n), n
                key = self.order.key(element)
                above = self.order.key(line.some(n - 1))
                while above > key:
                    line.put(j, line.some(j - 1), line.was(j - 1))
                    j = j - 1
                    above = key
                    if j > first:
                        above = self.order.key(line.some(j - 1))
                if j < n:
                    line.put(j, element, was)
                    left = left - (n - j)
            i = i + self.lanes
        return left > 0

    def range_of(self, line: Line, first: kl.Scalar, stop: kl.Scalar) -> Any:
        """The least and the greatest key."""
        lowest = self.order.key(line.some(first))
        highest = lowest
        whole = first + (stop - first) // self.lanes * self.lanes
        least, most = kl.splat(lowest, self.lanes), kl.splat(lowest, self.lanes)
        for i in range(first, whole, self.lanes):
            keys = self.order.key(line.some(i, self.lanes))
            least, most = kl.minimum(least, keys), kl.maximum(most, keys)
        for i in range(whole, stop):
            key = self.order.key(line.some(i))
            lowest, highest = kl.minimum(lowest, key), kl.maximum(highest, key)
        lowest = kl.minimum(lowest, folded(least, self.lanes, kl.minimum))
        return lowest, kl.maximum(highest, folded(most, self.lanes, kl.maximum))

    def whole(
        self, source: Line, spare: Line, out: Line, first: kl.Scalar, stop: kl.Scalar
    ) -> None:
        """Sorts by all bits."""
        zero = self.order.key(source.some(first)) * 0
        for shift in kl.static_range(0, 8 * zero.dtype.itemsize, 2 * self.digit):
            key = (zero, kl.cast(shift, zero.dtype))
            self.by_two_digits(out if shift > 0 else source, spare, out, first, stop, key)


@kernel
def sort_parts(
    x: kl.Array | None,
    starts: kl.Array | None,
    divided: Divided | None,
    out: Line,
    spare: Line,
    least: kl.Scalar,
    longest: kl.Scalar,
    *,
    SORTING: Sorting,
) -> None:
    """Sorts rows of `x` into those of `out`, or without `x` the buckets of those of `out`.

    Parameters
    ----------
    x : array or None
        What is sorted.
    starts : array or None
        ``starts[..., b, s]``: where the elements of section `s` begin in bucket `b`; None for whole
        rows.
    divided : Divided or None
        Where the elements of buckets are still to be taken from, by launches with `longest`; None
        for whole rows.
    out, spare : Line
        The result, and room, one row of it.
    least, longest : int
        Sorts parts of at least so many elements; and where `longest` is not 0, of at most so many,
        each work-item having its own room for as many. Else there is room for all.
    SORTING : Sorting
        How a part is sorted.
    """
    *lead, length = out.elements.shape
    buckets = 1 if starts is None else starts.shape[starts.ndim - 2]
    item = kl.global_id(0)
    for part in range(item, product_of(lead) * buckets, kl.global_size(0)):
        outer = unravelled(part // buckets, lead)
        target = out.row(outer)
        source = target if x is None else Line(x, None, outer)
        first, stop = kl.cast(0, item.dtype), kl.cast(length, item.dtype)
        if starts is not None and divided is not None:
            bucket = part % buckets
            first = kl.cast(starts[*outer, bucket, 0], item.dtype)
            if bucket + 1 < starts.shape[starts.ndim - 2]:
                stop = kl.cast(starts[*outer, bucket + 1, 0], item.dtype)
            if longest > 0:
                divided.collect(bucket, starts, target, SORTING.lanes)
        if (first < stop) & (stop - first >= least) & ((longest == 0) | (stop - first <= longest)):
            start = item * longest - first if longest > 0 else part // buckets * length
            between = spare.shifted(kl.cast(start, item.dtype))
            lowest, highest = SORTING.range_of(source, first, stop)
            bits = 8 * lowest.dtype.itemsize - kl.cast(kl.clz(highest - lowest), kl.i32)
            left = kl.maximum(bits - 2 * SORTING.digit, 0)
            key = (lowest, kl.cast(left, lowest.dtype))
            if SORTING.order.crowds(bits):
                below = (lowest, kl.cast(left - 2 * SORTING.digit, lowest.dtype))
                SORTING.by_two_digits(source, between, target, first, stop, below)
                SORTING.by_two_digits(target, between, target, first, stop, key)
            elif (bits > 0) | (x is not None):
                SORTING.by_two_digits(source, between, target, first, stop, key)
            if left > 0 and not SORTING.by_insertion(target, first, stop):
                SORTING.whole(target, between, target, first, stop)
