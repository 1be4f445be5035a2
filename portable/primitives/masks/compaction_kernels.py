"""What is true in a mask, written without gaps: by work-items alone, or by a workgroup together."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import unravelled
from portable.primitives.masks.mask_kernels import (
    bits_of,
    joined,
    long_bits_of,
    lowest_bit,
    split_word,
    words_added_up,
)

__all__ = ["compact", "compact_by_workgroup", "places_before"]


@function
def index_kept(out: Any, k: Any, step: Any, index: Any) -> None:
    """Writes the `k`-th index, its parts `step` apart."""
    for d in kl.static_range(len(index)):
        out[d * step + k] = kl.cast(index[d], kl.i64)


@function
def kept(out: Any, k: Any, step: Any, at: Any, x: Any, like: Any) -> None:
    """Writes the `k`-th of what is kept: an element of `x`, or its indices `step` apart."""
    if x is not None:
        out[k] = x[at]
    else:
        index_kept(out, k, step, unravelled(at, like.shape))


@function
def eight_kept(
    out: Any, k: Any, step: Any, row: Any, column: Any, places: Any, byte: Any, like: Any
) -> None:
    """Writes the indices of those of eight elements whose bit in `byte` is set.

    Always stores eight, so that no branch depends on the bits: those behind the set ones are
    garbage, which the next call overwrites. `row` and `column` are those of the first element;
    ``places[byte]`` lists the positions of the byte's set bits.
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
    """Writes what is kept of 64 elements without a branch on the bits.

    Up to eight places of `out` behind the last one kept get garbage, which later calls overwrite.
    """
    if x is not None:
        for place in kl.static_range(64):
            out[k] = x[first + place]
            k = k + kl.cast((word >> place) & 1, kl.i32)
    else:
        extent = like.shape[like.ndim - 1]
        row, column = kl.cast(0, first.dtype), first
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
    by_eight: Any,
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
        k = kl.cast(0, s.dtype)
        if counts is None:
            end = k + size + 64
        else:
            for before in range(s):
                k = k + counts[before]
            end = k + counts[s]
        for i in range(s * SECTION, kl.minimum(s * SECTION + SECTION, size), 64):
            word = long_bits_of(mask, by_eight, i) if bits is None else bits[i // 64]
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
def index_at(e: Any, start: Any, like: Any, SECTION: Any) -> Any:
    """The index in `like` of element `e` of a section, `start` being what `start_in` gives.

    The rows behind the first are counted by a multiplication: ``floor((n + 1) * floor((2**32 - 1)
    / d) / 2**32)`` is ``n // d`` where ``(n + 1) * d`` is below 2**32.
    """
    row, column, inverse = start
    extent = like.shape[like.ndim - 1]
    ahead = column + e
    if like.ndim == 1:
        return (ahead,)
    rows = kl.cast(kl.mulhi(kl.cast(ahead + 1, kl.u32), inverse), ahead.dtype)
    if extent >= SECTION:
        rows = kl.cast(ahead >= extent, ahead.dtype)
    return (*unravelled(row + rows, like.shape[: like.ndim - 1]), ahead - rows * extent)


@function
def start_in(like: Any, begin: Any) -> Any:
    """In which row of `like`, and in which column of it, a section begins; a row's inverse."""
    if like.ndim == 1:
        return (0, begin, 0)
    extent = like.shape[like.ndim - 1]
    inverse = kl.cast(0xFFFFFFFF, kl.u32) // kl.cast(extent, kl.u32)
    return (begin // extent, begin % extent, inverse)


@function
def places_before(words: Any, first: Any, AHEAD: Any, WIDTH: Any) -> Any:
    """Whether elements are true, and how many are before them in the section: two tuples.

    They are the work-item's own in words from `first` on, one for each 32 of `WIDTH`.
    """
    bit = kl.u32(1) << kl.cast(kl.local_id(0) % 32, kl.u32)
    chosen, before = (), ()
    for u in kl.static_range(AHEAD):
        word, count = split_word(words[first + u * (WIDTH // 32)])
        chosen = (*chosen, (word & bit) != 0)  # type: ignore[assignment]
        before = (*before, count + kl.cast(kl.popcount(word & (bit - 1)), kl.i32))  # type: ignore[assignment]
    return chosen, before


@function
def elements_read(x: Any, begin: Any, chosen: Any, WIDTH: Any) -> Any:
    """A few elements of `x` from `begin` on, `WIDTH` apart, but only those that are chosen."""
    values = ()
    for u in kl.static_range(len(chosen)):
        value = kl.cast(0, x.dtype)
        if chosen[u]:
            value = x[begin + u * WIDTH]
        values = (*values, value)  # type: ignore[assignment]
    return values


@function
def section_kept(
    words: Any,
    own: Any,
    done: Any,
    begin: Any,
    size: Any,
    x: Any,
    like: Any,
    out: Any,
    step: Any,
    WIDTH: Any,
    AHEAD: Any,
) -> None:
    """Writes what a section keeps; neighbouring work-items take neighbours, `AHEAD` of them each.

    `own` is where in `words` the first is, in which the work-item has a bit.
    """
    if x is None:
        start = start_in(like, begin)
    for turn in range(kl.cdiv(kl.minimum(WIDTH * 32, size - begin), WIDTH * AHEAD)):
        chosen, before = places_before(words, own + turn * (WIDTH * AHEAD // 32), AHEAD, WIDTH)
        e = turn * (WIDTH * AHEAD) + kl.local_id(0)
        values = () if x is None else elements_read(x, begin + e, chosen, WIDTH)
        for u in kl.static_range(AHEAD):
            if chosen[u]:
                if x is None:
                    index = index_at(e + u * WIDTH, start, like, WIDTH * 32)
                    index_kept(out, done + before[u], step, index)
                else:
                    out[done + before[u]] = values[u]


@function
def few_kept(
    pair: Any,
    here: Any,
    done: Any,
    begin: Any,
    x: Any,
    like: Any,
    out: Any,
    step: Any,
    WIDTH: Any,
    FEW: Any,
) -> None:
    """The same where no more than `FEW` are true: where they are goes through local memory."""
    item = kl.local_id(0)
    places = kl.local((FEW,), kl.u16)
    word, place = split_word(pair)
    while word != 0:
        places[place] = kl.cast(item * 32 + lowest_bit(word), kl.u32)
        place = place + 1
        word = word & (word - 1)
    kl.barrier()
    if x is None:
        start = start_in(like, begin)
    for k in range(item, here, WIDTH):
        e = kl.cast(places[k], kl.i32)
        if x is None:
            index_kept(out, done + k, step, index_at(e, start, like, WIDTH * 32))
        else:
            out[done + k] = x[begin + e]


@kernel
def compact_by_workgroup(
    mask: Any,
    by_four: Any,
    bits: Any,
    counts_upto: Any,
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

    `bits` are as `pack_by_workgroup` leaves them, `counts_upto` how many are true up to each
    section's end.
    """
    item = kl.local_id(0)
    group = kl.group_id(0)
    begin = group * (WIDTH * 32)
    size = mask.shape[0]
    own = item // 32
    if bits is None:
        words = kl.local((WIDTH,), kl.u64)
        word = bits_of(mask, by_four, item)
        before, upto = words_added_up(word, WIDTH)
        words[item] = joined(word, before)
        if item == WIDTH - 1:
            found[0] = kl.cast(upto, kl.i64)
        kl.barrier()
        section_kept(words, own, 0, begin, size, x, like, out, step, WIDTH, AHEAD)
    else:
        done = kl.cast(0, counts_upto.dtype)
        if group > 0:
            done = counts_upto[group - 1]
        here = kl.assume_uniform(kl.cast(counts_upto[group] - done, kl.i32))
        if here <= FEW:
            pair = bits[group * WIDTH + item]
            few_kept(pair, here, done, begin, x, like, out, step, WIDTH, FEW)
        else:
            own = own + group * WIDTH
            section_kept(bits, own, done, begin, size, x, like, out, step, WIDTH, AHEAD)
