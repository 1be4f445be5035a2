"""Elements as unsigned numbers that order as they do, and the digits of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function

__all__ = ["DIGIT_BITS", "RADIX", "Order", "digit_in", "key_at"]

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


@dataclass(frozen=True)
class Order:
    """How elements become keys; a constant of kernels.

    Attributes
    ----------
    kind : str
        Of their dtype; complex numbers have two keys, that of the imaginary part below the other.
    bits : int
        Of a key.
    descending : bool
        Whether the greatest come first.
    """

    kind: str
    bits: int
    descending: bool

    @function
    def key(self, x: Any) -> Any:
        """The highest key of an element, by which it is compared first."""
        return self.part(x, 1)

    @function
    def part(self, x: Any, which: Any) -> Any:
        """Of complex numbers the key of the imaginary part, 0, or of the real one, 1."""
        key = key_at(x, which * self.bits, self.kind, self.bits)
        if self.descending:
            top = top_bit(key, self.bits)
            return (top | (top - 1)) - key
        return key

    @function
    def digit(self, x: Any, shift: Any) -> Any:
        """The `DIGIT_BITS` bits of an element's keys from bit `shift` of all of them on."""
        key = key_at(x, shift, self.kind, self.bits)
        return digit_in(key, shift, DIGIT_BITS, self.bits, self.descending)
