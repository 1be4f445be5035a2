"""Elements as unsigned numbers that order as they do, and the digits of these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.dtypes import DType, int32, int64, uint8, uint16, uint32, uint64
from portable.lang.function import function
from portable.primitives.base.recipe import Recipe
from portable.primitives.reductions.merging import Merge
from portable.primitives.scans.scanning import scanned

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


# What sorting by digits takes on every device: keys, what passes read and write, their starts.

_WORDS: Final = {1: uint8, 2: uint16, 4: uint32, 8: uint64}


def digits_of(kind: DType) -> int:
    """How many passes a dtype takes."""
    return 8 * kind.itemsize // DIGIT_BITS


def in_words(x: Any) -> Any:
    """The same bits as unsigned numbers; None and complex numbers stay as they are."""
    if x is None or x.dtype.is_complex:
        return x
    return x.viewed(x.shape, x.strides, dtype=_WORDS[x.dtype.itemsize])


def order_of(kind: DType, descending: bool) -> Order:
    """As kernels take it how elements become keys; complex numbers have two."""
    return Order(kind.kind, 8 * kind.itemsize // (2 if kind.is_complex else 1), descending)


def place_for(length: int) -> DType:
    """What counts the elements of a row."""
    return int32 if length < 2**31 else int64


def begins_of(recipe: Recipe, counts: Any, position: DType) -> Any:
    """Where each digit's elements begin in each section, ``counts[..., d, s]`` being how many.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    counts : Storage
        Counts, of shape (..., digits, sections).
    position : DType
        Of the positions.
    """
    *lead, digits, sections = counts.shape
    line = counts.viewed((*lead, digits * sections), (*counts.strides[:-2], counts.strides[-1]))
    starts = recipe.empty((*lead, digits * sections + 1), position)
    scanned(recipe, line, starts, Merge(kl.add, position, 0), 1)
    size = position.itemsize
    return starts.viewed(counts.shape, (*starts.strides[:-1], sections * size, size))


class Pass(NamedTuple):
    """What a pass reads and writes; positions not needed are None.

    Attributes
    ----------
    digit : int
        Which it orders by.
    source, order : Array or None
        Elements, and where they were at first.
    out, new_order : Array or None
        The same after the pass.
    """

    digit: int
    source: Any
    order: Any
    out: Any
    new_order: Any


def buffers_for(recipe: Recipe, x: Any, *, values: bool, order: bool) -> list[tuple[Any, Any]]:
    """Elements and positions that the last pass writes, and those that passes write in between.

    What no pass writes is None.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    x : Storage
        What is sorted.
    values, order : bool
        Whether elements in order, and where they were, are wanted.
    """
    digits = digits_of(x.dtype)
    out = recipe.empty(x.shape, x.dtype) if values or digits > 2 else None
    spare = recipe.empty(x.shape, x.dtype) if digits > 1 else None
    places = recipe.empty(x.shape, int64) if order else None
    spare_places = recipe.empty(x.shape, place_for(x.shape[-1])) if order and digits > 1 else None
    return [(out, places), (spare, spare_places)]


def passes(x: Any, buffers: list[tuple[Any, Any]], *, values: bool) -> Iterator[Pass]:
    """The passes over `x`, elements taken as words.

    Parameters
    ----------
    x : Storage
        What is sorted.
    buffers : list of (Storage, Storage)
        What `buffers_for` gives.
    values : bool
        Whether the elements in order are wanted.
    """
    digits = digits_of(x.dtype)
    source, order = in_words(x), None
    for digit in range(digits):
        out, new_order = buffers[(digits - 1 - digit) % 2]
        out = in_words(out) if values or digit < digits - 1 else None
        yield Pass(digit, source, order, out, new_order)
        source, order = out, new_order
