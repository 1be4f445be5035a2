"""What is true in a mask, written without gaps: by work-items alone, or by a workgroup together."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.array.elementwise_kernel import unravelled
from portable.array.mask_kernels import bits_of, long_bits_of, lowest_bit
from portable.array.reduction_kernels import total
from portable.array.scan_kernels import add_up
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["bit_at", "compact", "compact_together", "section_added_up"]


@function
def kept(out: Any, k: Any, step: Any, at: Any, x: Any, like: Any) -> None:
    """Writes the `k`-th of what is kept: an element of `x`, or its indices `step` apart."""
    if x is not None:
        out[k] = x[at]
    else:
        index = unravelled(at, like.shape)
        for d in kl.static_range(like.ndim):
            out[d * step + k] = kl.cast(index[d], kl.i64)


@function
def eight_kept(
    out: Any, k: Any, step: Any, row: Any, column: Any, places: Any, byte: Any, like: Any
) -> None:
    """Writes the indices of what `byte` says of eight elements, and what is to be overwritten.

    `row` and `column` are those of the first, `places` those of the bits in the byte.
    """
    ahead = kl.vload(places, byte, 0, lanes=8)
    last = kl.cast(ahead, kl.i64) + kl.cast(column, kl.i64)
    if like.ndim == 1:
        kl.vstore(out, k, last)
    else:
        extent = kl.cast(like.shape[like.ndim - 1], kl.i64)
        over = last >= extent
        kl.vstore(out, (like.ndim - 1) * step + k, kl.where(over, last - extent, last))
        here = unravelled(row, like.shape[: like.ndim - 1])
        below = unravelled(row + 1, like.shape[: like.ndim - 1])
        for d in kl.static_range(like.ndim - 1):
            first, second = kl.cast(here[d], kl.i64), kl.cast(below[d], kl.i64)
            kl.vstore(out, d * step + k, kl.where(over, kl.splat(second, 8), kl.splat(first, 8)))


@function
def many_kept(
    out: Any, k: Any, step: Any, first: Any, word: Any, places: Any, x: Any, like: Any
) -> None:
    """Writes what is kept of 64 elements, and up to eight more that are to be overwritten.

    Without a branch on the bits.
    """
    if x is not None:
        for place in kl.static_range(64):
            out[k] = x[first + place]
            k = k + kl.cast((word >> place) & 1, kl.i32)
    else:
        extent = like.shape[like.ndim - 1]
        row, column = first - first, first
        if like.ndim > 1:
            row, column = first // extent, first % extent
        for part in kl.static_range(8):
            byte = kl.cast((word >> (8 * part)) & 255, kl.i32)
            eight_kept(out, k, step, row, column, places, byte, like)
            k = k + kl.cast(kl.popcount(byte), kl.i32)
            column = column + 8
            if like.ndim > 1 and column >= extent:
                row, column = row + 1, column - extent


@kernel
def compact(
    mask: Any,
    octets: Any,
    bits: Any,
    counts: Any,
    places: Any,
    x: Any,
    like: Any,
    out: Any,
    step: Any,
    found: Any,
    *,
    SECTION: int,
    FEW: int,
) -> None:
    """The elements of `x` where a mask is true, or if it is None their indices in `like`.

    A work-item does `SECTION` elements, `counts` being how many are true in each section. `bits`
    are those of the mask in words of 64. Without them there is one section, `found` becomes how
    many there are, and `out` has room for 64 more. `places[b]` are those of the bits in a byte `b`.
    Where more than `FEW` of 64 are true they are not looked for one by one.
    """
    s = kl.global_id(0)
    size = mask.shape[0]
    if s * SECTION < size:
        k = s - s
        if counts is None:
            end = k + size + 64
        else:
            for before in range(s):
                k = k + counts[before]
            end = k + counts[s]
        for i in range(s * SECTION, kl.minimum(s * SECTION + SECTION, size), 64):
            word = long_bits_of(mask, octets, i) if bits is None else bits[i // 64]
            count = kl.cast(kl.popcount(word), kl.i32)
            if count > FEW and k + 64 <= end and (x is None or i + 64 <= size):
                many_kept(out, k, step, i, word, places, x, like)
                k = k + count
                word = kl.u64(0)
            while word != 0:
                kept(out, k, step, i + lowest_bit(word), x, like)
                k = k + 1
                word = word & (word - 1)
        if found is not None:
            found[0] = kl.cast(k, kl.i64)


@function
def section_added_up(own: Any, words: Any, sums: Any, WIDTH: Any) -> None:
    """Shares the words of a workgroup, and leaves in `sums` how many are true up to each's end."""
    words[kl.local_id(0)] = own
    sums[kl.local_id(0)] = kl.cast(kl.popcount(own), kl.i32)
    add_up(sums, total, WIDTH)


@function
def bit_at(words: Any, sums: Any, e: Any) -> Any:
    """Whether element `e` of a section is true, and if so how many before it are."""
    rest = words[e // 32] >> (e % 32)
    return (rest & 1) != 0, sums[e // 32] - kl.cast(kl.popcount(rest), kl.i32)


@function
def elements_read(
    x: Any, words: Any, sums: Any, begin: Any, first: Any, WIDTH: Any, AHEAD: Any
) -> Any:
    """What this work-item keeps of `x` in a few steps from `first` on; nothing else is read."""
    values = ()
    for u in kl.static_range(AHEAD):
        e = first + u * WIDTH
        chosen, _ = bit_at(words, sums, e)
        value = kl.cast(0, x.dtype)
        if chosen:
            value = x[begin + e]
        values = (*values, value)  # type: ignore[assignment]
    return values


@kernel
def compact_together(
    mask: Any,
    quads: Any,
    bits: Any,
    ends: Any,
    x: Any,
    like: Any,
    out: Any,
    step: Any,
    found: Any,
    *,
    WIDTH: int,
    AHEAD: int,
    FEW: int,
) -> None:
    """As `compact`, a workgroup of `WIDTH` doing a section together, 32 elements a work-item.

    `ends` are how many are true up to each section's end. Neighbouring work-items take neighbours,
    `AHEAD` steps at a time. Where fewer than `FEW` are true each takes those of its own word.
    """
    item = kl.local_id(0)
    begin = kl.group_id(0) * (WIDTH * 32)
    words = kl.local((WIDTH,), kl.u32)
    sums = kl.local((WIDTH,), kl.i32)
    own = (
        bits_of(mask, quads, begin + item * 32)
        if bits is None
        else bits[kl.group_id(0) * WIDTH + item]
    )
    section_added_up(own, words, sums, WIDTH)
    done = begin - begin
    if ends is not None and begin > 0:
        done = ends[kl.group_id(0) - 1]
    here = sums[WIDTH - 1]
    if found is not None and item == 0:
        found[0] = kl.cast(here, kl.i64)
    if here < FEW:
        k = done + sums[item] - kl.cast(kl.popcount(own), kl.i32)
        while own != 0:
            kept(out, k, step, begin + item * 32 + lowest_bit(own), x, like)
            k = k + 1
            own = own & (own - 1)
    else:
        for first in range(item, kl.minimum(WIDTH * 32, mask.shape[0] - begin), WIDTH * AHEAD):
            values = () if x is None else elements_read(x, words, sums, begin, first, WIDTH, AHEAD)
            for u in kl.static_range(AHEAD):
                e = first + u * WIDTH
                chosen, before = bit_at(words, sums, e)
                if chosen:
                    at = done + before
                    if x is None:
                        kept(out, at, step, begin + e, None, like)
                    else:
                        out[at] = values[u]
