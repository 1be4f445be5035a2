"""Assignment to what is true in a mask: only that is written, and nothing of the array is read."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.masks.compaction_kernels import places_before
from portable.primitives.masks.mask_kernels import lowest_bit

__all__ = ["expand", "expand_by_workgroup", "fill"]


@function
def flags_read(mask: Any, outer: Any, first: Any, stop: Any, WIDTH: Any, AHEAD: Any) -> Any:
    """A few elements of a row of a mask from `first` on, `WIDTH` apart; none is true at `stop`."""
    flags = ()
    for u in kl.static_range(AHEAD):
        flag = first + u * WIDTH < stop
        if flag:
            flag = mask[*outer, first + u * WIDTH]
        flags = (*flags, flag)  # type: ignore[assignment]
    return flags


@function
def filled_in_eights(mask: Any, by_eight: Any, value: Any, x: Any, start: Any, stop: Any) -> None:
    """Writes `value` where the mask is true, skipping 64 elements at a time where it is all false.

    The array has one dimension; `by_eight` is the mask read as integers of 64 bits, each of eight
    bools.
    """
    whole = start + (stop - start) // 64 * 64
    for first in range(start, whole, 64):
        some = by_eight[first // 8]
        for other in kl.static_range(1, 8):
            some = some | by_eight[first // 8 + other]
        if some != 0:
            for j in range(first, first + 64):
                if mask[j]:
                    x[j] = value
    for j in range(whole, stop):
        if mask[j]:
            x[j] = value


@kernel
def fill(
    mask: Any,
    by_eight: Any,
    value: Any,
    x: Any,
    *,
    NUMBER: bool,
    ROW: bool,
    WIDTH: int,
    AHEAD: int,
    CHUNK: int,
    ROWS: int,
) -> None:
    """``x[mask] = value``, `value` being a number or an array without dimensions.

    With `ROW` the mask lacks the last dimension of `x`, along which it is the same. `WIDTH`
    work-items do `CHUNK` neighbours of `ROWS` rows each, `AHEAD` elements of the mask being read
    before the first of `x` is written. `by_eight` is a mask of one dimension as integers of 64
    bits, or None.
    """
    inner = x.shape[x.ndim - 1]
    lead = x.shape[: x.ndim - 1]
    begin = kl.group_id(0) * CHUNK
    own = begin + kl.local_id(0)
    stop = kl.minimum(begin + CHUNK, inner)
    first = kl.global_id(1) * ROWS
    given = value if NUMBER else value[()]
    for row in range(first, kl.minimum(first + ROWS, product_of(lead))):
        outer = unravelled(row, lead)
        if by_eight is not None:
            filled_in_eights(mask, by_eight, given, x, begin, stop)
        elif ROW:
            if mask[*outer]:
                for j in range(own, stop, WIDTH):
                    x[*outer, j] = given
        elif AHEAD == 1:
            for j in range(own, stop, WIDTH):
                if mask[*outer, j]:
                    x[*outer, j] = given
        else:
            for j in range(own, stop, WIDTH * AHEAD):
                chosen = flags_read(mask, outer, j, stop, WIDTH, AHEAD)
                for u in kl.static_range(AHEAD):
                    if chosen[u]:
                        x[*outer, j + u * WIDTH] = given


@function
def put(x: Any, at: Any, value: Any) -> None:
    """Writes the element of `x` that comes `at`-th in C order."""
    x[*unravelled(at, x.shape)] = value


@kernel
def expand(x: Any, bits: Any, counts: Any, values: Any, *, SECTION: int) -> None:
    """``x[mask] = values``, `values` having one dimension.

    A work-item does `SECTION` elements, `counts` being how many are true in each. `bits` are those
    of the mask in words of 64.
    """
    s = kl.global_id(0)
    if s < counts.shape[0]:
        k = kl.cast(0, s.dtype)
        for before in range(s):
            k = k + counts[before]
        for w in range(s * (SECTION // 64), kl.minimum((s + 1) * (SECTION // 64), bits.shape[0])):
            word = bits[w]
            while word != 0:
                put(x, w * 64 + lowest_bit(word), values[k])
                k = k + 1
                word = word & (word - 1)


@kernel
def expand_by_workgroup(
    x: Any, bits: Any, counts_upto: Any, values: Any, *, WIDTH: int, AHEAD: int
) -> None:
    """As `expand`, a workgroup of `WIDTH` doing a section together, 32 elements a work-item.

    `counts_upto` are how many are true up to each section's end. Neighbouring work-items take
    neighbours, `AHEAD` of `values` being read before the first of `x` is written.
    """
    group = kl.group_id(0)
    begin = group * (WIDTH * 32)
    own = group * WIDTH + kl.local_id(0) // 32
    done = kl.cast(0, counts_upto.dtype)
    if group > 0:
        done = counts_upto[group - 1]
    size = product_of(x.shape) - begin
    for turn in range(kl.cdiv(kl.minimum(WIDTH * 32, size), WIDTH * AHEAD)):
        chosen, before = places_before(bits, own + turn * (WIDTH * AHEAD // 32), AHEAD, WIDTH)
        e = begin + turn * (WIDTH * AHEAD) + kl.local_id(0)
        read = ()
        for u in kl.static_range(AHEAD):
            value = kl.cast(0, values.dtype)
            if chosen[u]:
                value = values[done + before[u]]
            read = (*read, value)  # type: ignore[assignment]
        for u in kl.static_range(AHEAD):
            if chosen[u]:
                put(x, e + u * WIDTH, read[u])
