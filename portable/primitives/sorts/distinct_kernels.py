"""What differs from the element before it, in a sorted line: by work-items alone, or together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.masks.mask_kernels import (
    Section,
    before_group,
    before_section,
    pack_words,
)

__all__ = [
    "Groups",
    "count_distinct",
    "distinct",
    "distinct_by_workgroup",
    "pack_distinct",
    "sizes_of",
]


@function
def begins(x: Any, i: Any) -> Any:
    """Whether an element is the first, or another than that before it; each NaN is."""
    new = i == 0
    if i > 0:
        new = x[i] != x[i - 1]
    return new


@function
def size_of(starts: Any, k: Any, count: Any, end: Any) -> Any:
    """How many elements are in the `k`-th of so many groups."""
    stop = kl.cast(end, kl.i64)
    if k + 1 < count:
        stop = starts[k + 1]
    return stop - starts[k]


class Groups(NamedTuple):
    """The groups of equal elements in a sorted line; what is None is left out.

    Attributes
    ----------
    x : array
        The line.
    order : array or None
        Where each element was before it was sorted.
    values : array
        Of which element each group is.
    starts : array or None
        Where it begins.
    firsts : array or None
        Where the first of it was.
    inverse : array or None
        The group of the element that was at each place.
    sizes : array or None
        How many elements each has.
    """

    x: Any
    order: Any
    values: Any
    starts: Any
    firsts: Any
    inverse: Any
    sizes: Any

    @function
    def note(self, i: Any, k: Any, new: Any) -> Any:
        """Writes what is asked for of element `i`, before which `k` groups begin.

        Returns how many do with it, which begins one if it is `new`.
        """
        if new:
            self.values[k] = self.x[i]
            if self.starts is not None:
                self.starts[k] = kl.cast(i, kl.i64)
            if self.firsts is not None:
                self.firsts[k] = self.order[i]
            k = k + 1
        return k

    @function
    def place(self, i: Any, k: Any) -> None:
        """Writes in which group element `i` is, up to which `k` begin."""
        self.inverse[self.order[i]] = kl.cast(k - 1, kl.i64)


@kernel
def count_distinct(x: Any, counts: Any, *, SECTION: int) -> None:
    """How many groups begin in each section; a work-item does one."""
    s = kl.global_id(0)
    if s < counts.shape[0]:
        count = kl.cast(0, counts.dtype)
        for i in range(s * SECTION, kl.minimum(s * SECTION + SECTION, x.shape[0])):
            count = count + kl.cast(begins(x, i), counts.dtype)
        counts[s] = count


@kernel
def distinct(groups: Any, counts: Any, found: Any, *, SECTION: int) -> None:
    """Writes the groups of a sorted line.

    Work-items do sections, `counts` being how many groups begin in each. Without them there is one
    section, and ``found[0]`` becomes how many groups there are; else sizes are not written.
    """
    s = kl.global_id(0)
    size = groups.x.shape[0]
    if s * SECTION < size:
        k = kl.cast(0, s.dtype)
        if counts is not None:
            k = before_section(counts, s)
        for i in range(s * SECTION, kl.minimum(s * SECTION + SECTION, size)):
            k = groups.note(i, k, begins(groups.x, i))
            if groups.inverse is not None:
                groups.place(i, k)
        if counts is None:
            found[0] = kl.cast(k, kl.i64)
            if groups.sizes is not None:
                for group in range(k):
                    groups.sizes[group] = size_of(groups.starts, group, k, size)


@kernel
def sizes_of(starts: Any, sizes: Any, end: Any) -> None:
    """How many elements are in each group, the last of which ends at `end`."""
    k = kl.global_id(0)
    if k < sizes.shape[0]:
        sizes[k] = size_of(starts, k, sizes.shape[0], end)


@function
def begins_packed(x: Any, first: Any) -> Any:
    """Which of 32 elements begin a group; none are beyond the end."""
    word = kl.u32(0)
    for place in range(kl.minimum(32, x.shape[0] - first)):
        word = word | (kl.cast(begins(x, first + place), kl.u32) << kl.cast(place, kl.u32))
    return word


@kernel
def pack_distinct(x: Any, bits: Any, counts: Any, *, WIDTH: int) -> None:
    """As `mask_kernels.pack_by_workgroup`, a bit being whether a group begins."""
    at = kl.group_id(0) * WIDTH + kl.local_id(0)
    pack_words(begins_packed(x, at * 32), at, bits, counts, WIDTH)


@dataclass(frozen=True)
class _Noted:
    """What is done to the elements of a section: `Section.sweep`'s body."""

    groups: Groups
    begin: Any
    width: int

    @function
    def take(self, e: Any, chosen: Any, places: Any) -> None:
        """Writes what is asked for of a few elements, of which those chosen begin a group."""
        for u in kl.static_range(len(chosen)):
            i = self.begin + e + u * self.width
            k = self.groups.note(i, places[u], chosen[u])
            if self.groups.inverse is not None and i < self.groups.x.shape[0]:
                self.groups.place(i, k)


@kernel
def distinct_by_workgroup(
    groups: Any, bits: Any, counts_upto: Any, found: Any, *, WIDTH: int, AHEAD: int
) -> None:
    """As `distinct`, a workgroup of `WIDTH` doing a section together, 32 elements a work-item.

    `bits` are as `pack_distinct` leaves them, `counts_upto` how many groups begin up to each
    section's end. Without them there is one section.
    """
    item = kl.local_id(0)
    group = kl.group_id(0)
    begin = group * (WIDTH * 32)
    size = groups.x.shape[0]
    body = _Noted(groups, begin, WIDTH)
    if bits is None:
        words = kl.local((WIDTH,), kl.u64)
        count = kl.local((1,), kl.i32)
        upto = pack_words(begins_packed(groups.x, item * 32), item, words, found, WIDTH)
        if item == WIDTH - 1:
            count[0] = upto
        kl.barrier()
        Section(words, item // 32, 0, begin, size).sweep(body, WIDTH, AHEAD)
        if groups.sizes is not None:
            kl.barrier()
            for k in range(item, count[0], WIDTH):
                groups.sizes[k] = size_of(groups.starts, k, count[0], size)
    else:
        own = item // 32 + group * WIDTH
        Section(bits, own, before_group(counts_upto), begin, size).sweep(body, WIDTH, AHEAD)
