"""Division into buckets by halves, where an instruction brings chosen lanes of vectors together.

Sections are halved by splitters as quicksort does, each vector's lanes going to one side or the
other (J. Wassenberg, M. Blacher, J. Giesen, P. Sanders, "Vectorized and performance-portable
quicksort", 2022; here equal elements keep their order, by way of room for the upper side). What
many elements are equal to has a bucket of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from portable import lang as kl
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of
from portable.primitives.reductions.sections import section_at
from portable.primitives.sorts.keys import Order
from portable.primitives.sorts.lines import Line


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
