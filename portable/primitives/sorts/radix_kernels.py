"""A stable radix sort: a pass over memory for each digit of the keys, the lowest first.

Each work-item counts and places a section of its own in order, so that equal digits stay in order.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled

__all__ = [
    "DIGIT_BITS",
    "RADIX",
    "count_digits",
    "digit_in",
    "digit_of",
    "key_at",
    "place_digits",
    "sort_rows",
]

DIGIT_BITS = 8
RADIX = 1 << DIGIT_BITS
"""How many digits there are."""


@function
def top_bit(word: Any, BITS: Any) -> Any:
    """The highest of `BITS` bits, in the type of `word`."""
    return kl.cast(1, word.dtype) << (BITS - 1)


@function
def infinity(word: Any, BITS: Any) -> Any:
    """The bits of a float that is infinite, in the type of `word`."""
    if BITS == 16:
        return kl.cast(0x1F, word.dtype) << 10
    if BITS == 32:
        return kl.cast(0xFF, word.dtype) << 23
    return kl.cast(0x7FF, word.dtype) << 52


@function
def float_key(word: Any, BITS: Any) -> Any:
    """Orders as floats of these bits do: zeros of both signs alike, NaN after everything."""
    top = top_bit(word, BITS)
    ones = top | (top - 1)
    size = word & (top - 1)
    key = kl.where((word & top) != 0, word ^ ones, word | top)
    return kl.where(size == 0, top, kl.where(size > infinity(word, BITS), ones, key))


@function
def key_of(word: Any, KIND: Any, BITS: Any) -> Any:
    """An unsigned number whose lowest `BITS` order as elements of a kind with these bits do."""
    if KIND == "f":
        return float_key(word, BITS)
    return word ^ top_bit(word, BITS) if KIND == "i" else word


@function
def key_at(x: Any, shift: Any, KIND: Any, BITS: Any) -> Any:
    """The key of an element in which bit `shift` of all its keys lies.

    Elements are given as unsigned numbers of the same bits, but for complex ones, which have a key
    for each part; that of the imaginary part comes first.
    """
    if KIND == "c":
        part = x.imag if shift < BITS else x.real
        return float_key(kl.bitcast(part, kl.u64 if BITS == 64 else kl.u32), BITS)
    return key_of(x, KIND, BITS)


@function
def digit_in(key: Any, shift: Any, COUNT: Any, BITS: Any, DESCENDING: Any) -> Any:
    """The `COUNT` bits of a key from bit `shift` of all an element's keys on."""
    mask = (1 << COUNT) - 1
    digit = kl.cast((key >> kl.cast(shift & (BITS - 1), key.dtype)) & mask, kl.i32)
    return mask - digit if DESCENDING else digit


@function
def digit_of(x: Any, shift: Any, COUNT: Any, KIND: Any, BITS: Any, DESCENDING: Any) -> Any:
    """The `COUNT` bits of an element's keys from bit `shift` on."""
    return digit_in(key_at(x, shift, KIND, BITS), shift, COUNT, BITS, DESCENDING)


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
        digit = digit_of(x[*outer, i], DIGIT * DIGIT_BITS, DIGIT_BITS, KIND, BITS, DESCENDING)
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
        digit = digit_of(value, DIGIT * DIGIT_BITS, DIGIT_BITS, KIND, BITS, DESCENDING)
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
