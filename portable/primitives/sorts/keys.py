"""Elements as unsigned numbers that order as they do, and the digits of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function

DIGIT_BITS = 8
RADIX = 1 << DIGIT_BITS
"""How many digits there are."""


@function
def top_bit(word: kl.Scalar, BITS: int) -> Any:
    """The highest of `BITS` bits, in the type of `word`."""
    return kl.cast(1, word.dtype) << (BITS - 1)


@function
def float_key(word: kl.Scalar, BITS: int) -> Any:
    """Orders as floats of these bits do: zeros of both signs alike, NaN after everything."""
    exponent = 5 if BITS == 16 else 8 if BITS == 32 else 11
    infinity = ((1 << exponent) - 1) << (BITS - 1 - exponent)
    top = top_bit(word, BITS)
    ones = top | (top - 1)
    size = word & (top - 1)
    key = kl.where((word & top) != 0, word ^ ones, word | top)
    return kl.where(size == 0, top, kl.where(size > infinity, ones, key))


@dataclass(frozen=True)
class Order:
    """How elements become keys, unsigned numbers that order as they do; a constant of kernels.

    Elements are given as unsigned numbers of the same bits, but for complex ones, which have a key
    for each part, that of the imaginary part below the other.

    Attributes
    ----------
    kind : str
        Of their dtype.
    bits : int
        Of a key.
    descending : bool
        Whether the greatest come first.
    """

    kind: str
    bits: int
    descending: bool

    def key(self, x: kl.Scalar) -> Any:
        """The highest key of an element, by which it is compared first."""
        return self.part(x, 1)

    def beyond(self, bound: kl.Scalar) -> Any:
        """A key as `up_to` takes it: of floats as they are compared by processors."""
        if self.kind != "f" or self.bits == 16:
            return bound
        key = (bound * 0 - 1) - bound if self.descending else bound
        exponent = 8 if self.bits == 32 else 11
        infinity = ((1 << exponent + 1) - 1) << (self.bits - 1 - exponent)
        key = kl.minimum(key, infinity)  # with NaN nothing compares
        top = top_bit(key, self.bits)
        word = kl.where((key & top) != 0, key ^ top, (top | (top - 1)) - key)
        return kl.bitcast(word, kl.f64 if self.bits == 64 else kl.f32)

    def up_to(self, x: kl.Scalar, bound: kl.Scalar) -> Any:
        """Whether the key of an element is at most another, where NaN may be on either side."""
        if self.kind != "f" or self.bits == 16:
            return self.key(x) <= bound
        number = kl.bitcast(x, kl.f64 if self.bits == 64 else kl.f32)
        return ~(number < bound) if self.descending else number <= bound

    def part(self, x: kl.Scalar, which: int) -> Any:
        """Of complex numbers the key of the imaginary part, 0, or of the real one, 1."""
        key = self.ascending(x, which * self.bits)
        if self.descending:
            top = top_bit(key, self.bits)
            return (top | (top - 1)) - key
        return key

    def comes_first(self, x: kl.Scalar, y: kl.Scalar, tied: kl.Scalar) -> Any:
        """Whether `x` comes before `y`; `tied` where their keys are equal."""
        first, second = self.key(x), self.key(y)
        if self.kind == "c":
            low, high = self.part(x, 0), self.part(y, 0)
            tied = (low < high) | (tied & (low == high))
        return (first < second) | (tied & (first == second))

    def ascending(self, x: kl.Scalar, shift: kl.Scalar) -> Any:
        """The key in which bit `shift` of all of an element's keys lies, the least first."""
        if self.kind == "c":
            part = x.imag if shift < self.bits else x.real
            return float_key(kl.bitcast(part, kl.u64 if self.bits == 64 else kl.u32), self.bits)
        if self.kind == "f":
            return float_key(x, self.bits)
        return x ^ top_bit(x, self.bits) if self.kind == "i" else x

    def digit(self, x: kl.Scalar, shift: kl.Scalar) -> Any:
        """The `DIGIT_BITS` bits of an element's keys from bit `shift` of all of them on."""
        key = self.ascending(x, shift)
        digit = kl.cast((key >> kl.cast(shift & (self.bits - 1), key.dtype)) & (RADIX - 1), kl.i32)
        return RADIX - 1 - digit if self.descending else digit
