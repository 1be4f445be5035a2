"""What is true in a mask, written without gaps: by work-items alone, or by a workgroup together.

One kernel for both would cost one of them: work-items that are alone skip 64 elements at a time and
write eight places without looking at bits, which in a workgroup would all go to the same memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import unravelled
from portable.primitives.masks.mask_kernels import (
    Section,
    before_group,
    before_section,
    bits_of,
    element_if,
    long_bits_of,
    lowest_bit,
    pack_words,
    split_word,
)

__all__ = ["Mask", "Results", "compact", "compact_by_workgroup"]


class Mask(NamedTuple):
    """A mask in one dimension, and what is known of it.

    Attributes
    ----------
    flags : array
        What is true, or not zero.
    words : array or None
        The same as integers that hold several: of 64 bits, or for workgroups 32.
    bits : array or None
        Its bits in words of 64, or for workgroups as `pack_by_workgroup` leaves them. Without them
        there is one section.
    counts : array or None
        How many are true in each section, or for workgroups up to each section's end.
    """

    flags: Any
    words: Any
    bits: Any
    counts: Any


class Results(NamedTuple):
    """What is kept: the elements of an array, or where they are.

    Attributes
    ----------
    x : array or None
        What to take from, in one dimension; None for indices.
    like : array or None
        What these are indices of.
    out : array
        The result, the parts of indices behind each other.
    step : int
        How far apart these are.
    """

    x: Any
    like: Any
    out: Any
    step: Any

    @function
    def put(self, k: Any, at: Any) -> None:
        """Writes the `k`-th of what is kept, which is at a place of the mask."""
        if self.x is not None:
            self.out[k] = self.x[at]
        else:
            self.put_index(k, unravelled(at, self.like.shape))

    @function
    def put_index(self, k: Any, index: Any) -> None:
        """Writes the `k`-th index."""
        for d in kl.static_range(len(index)):
            self.out[d * self.step + k] = kl.cast(index[d], kl.i64)

    @function
    def put_eight(self, k: Any, row: Any, column: Any, places: Any, byte: Any) -> None:
        """Writes the indices of those of eight elements whose bit in `byte` is set.

        Always stores eight, so that no branch depends on the bits: those behind the set ones are
        garbage, which the next call overwrites. `row` and `column` are those of the first element;
        ``places[byte]`` lists the positions of the byte's set bits.
        """
        last = self.like.ndim - 1
        ahead = kl.cast(kl.vload(places, byte, 0, lanes=8), kl.i64) + kl.cast(column, kl.i64)
        if last == 0:
            kl.vstore(self.out, k, ahead)
        else:
            lead, extent = self.like.shape[:last], kl.cast(self.like.shape[last], kl.i64)
            over = ahead >= extent
            kl.vstore(self.out, last * self.step + k, kl.where(over, ahead - extent, ahead))
            rows = zip(unravelled(row, lead), unravelled(row + 1, lead), strict=True)
            for d, (here, below) in enumerate(rows):
                first, second = (kl.splat(kl.cast(x, kl.i64), 8) for x in (here, below))
                kl.vstore(self.out, d * self.step + k, kl.where(over, second, first))

    @function
    def put_many(self, k: Any, first: Any, word: Any, places: Any) -> None:
        """Writes what is kept of 64 elements without a branch on the bits.

        Up to eight places behind the last one kept get garbage, which later calls overwrite.
        """
        if self.x is not None:
            for place in kl.static_range(64):
                self.out[k] = self.x[first + place]
                k = k + kl.cast((word >> place) & 1, kl.i32)
        else:
            extent = self.like.shape[self.like.ndim - 1]
            row, column = kl.cast(0, first.dtype), first
            if self.like.ndim > 1:
                row, column = first // extent, first % extent
            for part in kl.static_range(8):
                byte = kl.cast((word >> (8 * part)) & 255, kl.i32)
                self.put_eight(k, row, column, places, byte)
                k = k + kl.cast(kl.popcount(byte), kl.i32)
                column = column + 8
                if self.like.ndim > 1 and column >= extent:
                    row, column = row + 1, column - extent


@kernel
def compact(mask: Any, results: Any, places: Any, found: Any, *, SECTION: int, FEW: int) -> None:
    """Writes what is kept where a mask is true.

    A work-item does `SECTION` elements. If there is one section only, `found` becomes how many are
    kept, and the result has room for 64 more. ``places[b]`` are those of the bits in a byte `b`.
    Where more than `FEW` of 64 are true they are not looked for one by one.
    """
    s = kl.global_id(0)
    size = mask.flags.shape[0]
    if s * SECTION < size:
        k = kl.cast(0, s.dtype)
        if mask.counts is None:
            end = k + size + 64
        else:
            k = before_section(mask.counts, s)
            end = k + mask.counts[s]
        for i in range(s * SECTION, kl.minimum(s * SECTION + SECTION, size), 64):
            if mask.bits is None:
                word = long_bits_of(mask.flags, mask.words, i)
            else:
                word = mask.bits[i // 64]
            count = kl.cast(kl.popcount(word), kl.i32)
            if count > FEW and k + 64 <= end and (results.x is None or i + 64 <= size):
                results.put_many(k, i, word, places)
                k = k + count
                word = kl.u64(0)
            while word != 0:
                results.put(k, i + lowest_bit(word))
                k = k + 1
                word = word & (word - 1)
        if found is not None:
            found[0] = kl.cast(k, kl.i64)


@dataclass(frozen=True)
class Start:
    """Where a section of `size` elements begins; of indices also in which row and column.

    The rows behind the first are counted by a multiplication with the `inverse` of their length:
    ``floor((n + 1) * floor((2**32 - 1) / d) / 2**32)`` is ``n // d`` where ``(n + 1) * d`` is below
    2**32.
    """

    begin: Any
    size: Any
    row: Any
    column: Any
    inverse: Any

    @function
    def index(self, e: Any, like: Any) -> Any:
        """The index in `like` of element `e` of the section."""
        ahead = self.column + e
        if like.ndim == 1:
            return (ahead,)
        extent = like.shape[like.ndim - 1]
        rows = kl.cast(kl.mulhi(kl.cast(ahead + 1, kl.u32), self.inverse), ahead.dtype)
        if extent >= self.size:
            rows = kl.cast(ahead >= extent, ahead.dtype)
        lead = like.shape[: like.ndim - 1]
        return (*unravelled(self.row + rows, lead), ahead - rows * extent)


@function
def start_at(begin: Any, like: Any, WIDTH: Any) -> Any:
    """The section of a workgroup that begins with an element."""
    if like is None or like.ndim == 1:
        return Start(begin, WIDTH * 32, 0, begin, 0)
    extent = like.shape[like.ndim - 1]
    inverse = kl.cast(0xFFFFFFFF, kl.u32) // kl.cast(extent, kl.u32)
    return Start(begin, WIDTH * 32, begin // extent, begin % extent, inverse)


@dataclass(frozen=True)
class _Taken:
    """What is done to elements that a section keeps: `Section.sweep`'s body."""

    results: Results
    start: Start
    width: int

    @function
    def take(self, e: Any, chosen: Any, places: Any) -> None:
        """Writes those that are chosen, which are read before the first is written."""
        x, first = self.results.x, self.start.begin + e
        values = (
            ()
            if x is None
            else [element_if(there, x, first + u * self.width) for u, there in enumerate(chosen)]
        )
        for u in kl.static_range(len(chosen)):
            if chosen[u]:
                if x is None:
                    index = self.start.index(e + u * self.width, self.results.like)
                    self.results.put_index(places[u], index)
                else:
                    self.results.out[places[u]] = values[u]


@function
def few_kept(
    pair: Any, here: Any, done: Any, results: Any, begin: Any, WIDTH: Any, FEW: Any
) -> None:
    """Writes what a section keeps, no more than `FEW`: their places go through local memory."""
    item = kl.local_id(0)
    places = kl.local((FEW,), kl.u16)
    word, place = split_word(pair)
    while word != 0:
        places[place] = kl.cast(item * 32 + lowest_bit(word), kl.u32)
        place = place + 1
        word = word & (word - 1)
    kl.barrier()
    start = start_at(begin, results.like, WIDTH)
    for k in range(item, here, WIDTH):
        e = kl.cast(places[k], kl.i32)
        if results.x is None:
            results.put_index(done + k, start.index(e, results.like))
        else:
            results.out[done + k] = results.x[begin + e]


@kernel
def compact_by_workgroup(
    mask: Any, results: Any, found: Any, *, WIDTH: int, AHEAD: int, FEW: int
) -> None:
    """As `compact`, a workgroup of `WIDTH` doing a section together, 32 elements a work-item."""
    item = kl.local_id(0)
    group = kl.group_id(0)
    begin = group * (WIDTH * 32)
    size = mask.flags.shape[0]
    if mask.bits is None:
        words = kl.local((WIDTH,), kl.u64)
        pack_words(bits_of(mask.flags, mask.words, item), item, words, found, WIDTH)
        kl.barrier()
        body = _Taken(results, start_at(begin, results.like, WIDTH), WIDTH)
        Section(words, item // 32, 0, begin, size).sweep(body, WIDTH, AHEAD)
    else:
        done = before_group(mask.counts)
        here = kl.assume_uniform(kl.cast(mask.counts[group] - done, kl.i32))
        if here <= FEW:
            pair = mask.bits[group * WIDTH + item]
            few_kept(pair, here, done, results, begin, WIDTH, FEW)
        else:
            body = _Taken(results, start_at(begin, results.like, WIDTH), WIDTH)
            own = item // 32 + group * WIDTH
            Section(mask.bits, own, done, begin, size).sweep(body, WIDTH, AHEAD)
