"""Assignment to what is true in a mask: only that is written, and nothing of the array is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.masks.mask_kernels import (
    Section,
    before_group,
    before_section,
    element_if,
    lowest_bit,
)

__all__ = ["expand", "expand_by_workgroup", "fill"]


@function
def flag_read(mask: Any, outer: Any, at: Any, stop: Any) -> Any:
    """An element of a row of a mask; none is true from `stop` on."""
    flag = at < stop
    if flag:
        flag = mask[*outer, at]
    return flag


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
                chosen = [flag_read(mask, outer, j + u * WIDTH, stop) for u in range(AHEAD)]
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
        k = before_section(counts, s)
        for w in range(s * (SECTION // 64), kl.minimum((s + 1) * (SECTION // 64), bits.shape[0])):
            word = bits[w]
            while word != 0:
                put(x, w * 64 + lowest_bit(word), values[k])
                k = k + 1
                word = word & (word - 1)


@dataclass(frozen=True)
class _Assigned:
    """What is done to elements of a section that get a value: `Section.sweep`'s body."""

    x: Any
    values: Any
    begin: Any
    width: int

    @function
    def take(self, e: Any, chosen: Any, places: Any) -> None:
        """Writes those that are chosen; all values are read before."""
        values = [element_if(c, self.values, k) for c, k in zip(chosen, places, strict=True)]
        for u in kl.static_range(len(chosen)):
            if chosen[u]:
                put(self.x, self.begin + e + u * self.width, values[u])


@kernel
def expand_by_workgroup(
    x: Any, bits: Any, counts_upto: Any, values: Any, *, WIDTH: int, AHEAD: int
) -> None:
    """As `expand`, a workgroup of `WIDTH` doing a section together, 32 elements a work-item.

    `counts_upto` are how many are true up to each section's end. `AHEAD` of `values` are read
    before the first of `x` is written.
    """
    group = kl.group_id(0)
    begin = group * (WIDTH * 32)
    own = group * WIDTH + kl.local_id(0) // 32
    section = Section(bits, own, before_group(counts_upto), begin, product_of(x.shape))
    section.sweep(_Assigned(x, values, begin, WIDTH), WIDTH, AHEAD)
