"""A stable radix sort: a pass over memory for each digit of the keys, the lowest first.

Each work-item counts and places a section of its own in order, so that equal digits stay in order.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.array.elementwise_kernel import product_of, unravelled
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["RADIX", "count_digits", "place_digits", "sort_rows"]

DIGIT_BITS = 8
RADIX = 1 << DIGIT_BITS
"""How many digits there are."""


@function
def float_key(x: Any) -> Any:
    """Bits that order as numbers do: zeros of both signs alike, NaN after everything."""
    if x.dtype == kl.f64:
        bits = kl.bitcast(x, kl.u64)
        top = kl.u64(1) << 63
    else:
        bits = kl.bitcast(x, kl.u32)
        top = kl.u32(1) << 31
    key = kl.where((bits & top) != 0, ~bits, bits | top)
    return kl.where(x == 0, top, kl.where(x != x, ~(top - top), key))


@function
def key_of(x: Any, KIND: Any, BITS: Any) -> Any:
    """An unsigned number whose lowest `BITS` order as elements of a kind do."""
    if KIND == "f":
        return float_key(x)
    if KIND == "b":
        return kl.cast(x, kl.u32)
    if BITS == 64:
        key = kl.cast(x, kl.u64)
        sign = kl.u64(1) << 63
    else:
        key = kl.cast(x, kl.u32)
        sign = kl.u32(1) << (BITS - 1)
    return key ^ sign if KIND == "i" else key


@function
def digit_of(x: Any, DIGIT: Any, KIND: Any, BITS: Any, DESCENDING: Any) -> Any:
    """The digit of an element; complex numbers have those of the imaginary part first."""
    if KIND == "c":
        part = x.imag if DIGIT * DIGIT_BITS < BITS else x.real
        key = key_of(part, "f", BITS)
    else:
        key = key_of(x, KIND, BITS)
    digit = kl.cast((key >> (DIGIT * DIGIT_BITS % BITS)) & (RADIX - 1), kl.i32)
    return RADIX - 1 - digit if DESCENDING else digit


@function
def counted(
    x: Any,
    outer: Any,
    first: Any,
    stop: Any,
    counts: Any,
    DIGIT: Any,
    KIND: Any,
    BITS: Any,
    DESCENDING: Any,
) -> None:
    """Counts the digits from `first` to `stop` of a row."""
    for d in range(RADIX):
        counts[d] = 0
    for i in range(first, stop):
        digit = digit_of(x[*outer, i], DIGIT, KIND, BITS, DESCENDING)
        counts[digit] = counts[digit] + 1


@function
def placed(
    x: Any,
    order: Any,
    outer: Any,
    first: Any,
    stop: Any,
    places: Any,
    out: Any,
    new_order: Any,
    DIGIT: Any,
    KIND: Any,
    BITS: Any,
    DESCENDING: Any,
) -> None:
    """Moves the elements from `first` to `stop` of a row to where each digit's next one belongs."""
    for i in range(first, stop):
        value = x[*outer, i]
        digit = digit_of(value, DIGIT, KIND, BITS, DESCENDING)
        place = places[digit]
        places[digit] = place + 1
        if out is not None:
            out[*outer, place] = value
        if new_order is not None:
            was = i if order is None else order[*outer, i]
            new_order[*outer, place] = kl.cast(was, new_order.dtype)


@kernel
def count_digits(
    x: Any, out: Any, *, SECTION: int, DIGIT: int, KIND: str, BITS: int, DESCENDING: bool
) -> None:
    """``out[..., d, s]``: how many elements of section `s` of the last axis have the digit `d`."""
    lead = x.shape[: x.ndim - 1]
    length = x.shape[x.ndim - 1]
    sections = kl.cdiv(length, SECTION)
    item = kl.global_id(0)
    if item < product_of(lead) * sections:
        outer = unravelled(item // sections, lead)
        s = item % sections
        stop = kl.minimum(s * SECTION + SECTION, length)
        counts = kl.private((RADIX,), out.dtype)
        counted(x, outer, s * SECTION, stop, counts, DIGIT, KIND, BITS, DESCENDING)
        for d in range(RADIX):
            out[*outer, d, s] = counts[d]


@kernel
def place_digits(
    x: Any,
    order: Any,
    starts: Any,
    out: Any,
    new_order: Any,
    *,
    SECTION: int,
    DIGIT: int,
    KIND: str,
    BITS: int,
    DESCENDING: bool,
) -> None:
    """Brings the last axis in the order of one digit, `starts` being where each section's begin.

    `out`, `order` and `new_order` may be None.
    """
    lead = x.shape[: x.ndim - 1]
    length = x.shape[x.ndim - 1]
    sections = kl.cdiv(length, SECTION)
    item = kl.global_id(0)
    if item < product_of(lead) * sections:
        outer = unravelled(item // sections, lead)
        s = item % sections
        stop = kl.minimum(s * SECTION + SECTION, length)
        places = kl.private((RADIX,), starts.dtype)
        for d in range(RADIX):
            places[d] = starts[*outer, d, s]
        how = (DIGIT, KIND, BITS, DESCENDING)
        placed(x, order, outer, s * SECTION, stop, places, out, new_order, *how)


@kernel
def sort_rows(
    x: Any,
    out: Any,
    spare: Any,
    order: Any,
    spare_order: Any,
    *,
    VALUES: bool,
    DIGITS: int,
    KIND: str,
    BITS: int,
    DESCENDING: bool,
) -> None:
    """Sorts the last axis, a work-item a row.

    `out` holds the elements in the end if `VALUES`; `order` and its spare may be None.
    """
    lead = x.shape[: x.ndim - 1]
    length = x.shape[x.ndim - 1]
    item = kl.global_id(0)
    if item < product_of(lead):
        outer = unravelled(item, lead)
        places = kl.private((RADIX,), kl.i32)
        for digit in kl.static_range(DIGITS):
            source, was = spare, spare_order
            target, becomes = out, order
            if (DIGITS - digit) % 2 == 0:
                source, was, target, becomes = out, order, spare, spare_order
            if digit == 0:
                source, was = x, None
            if digit == DIGITS - 1 and not VALUES:
                target = None
            how = (digit, KIND, BITS, DESCENDING)
            counted(source, outer, 0, length, places, *how)
            below = 0
            for d in range(RADIX):
                count = places[d]
                places[d] = below
                below = below + count
            placed(source, was, outer, 0, length, places, target, becomes, *how)
