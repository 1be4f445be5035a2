"""What sorting by digits takes on every device: keys, what passes read and write, their starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.dtypes import DType, int32, int64, uint8, uint16, uint32, uint64
from portable.primitives.base.recipe import Recipe
from portable.primitives.reductions.merging import Merge
from portable.primitives.scans.scanning import scanned
from portable.primitives.sorts.keys import DIGIT_BITS, Order

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
