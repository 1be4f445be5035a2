"""Bools merged four at a time, read as integers of 32 bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from portable.dtypes import DType, bool_, uint32
from portable.primitives.reductions.axis import (
    TRUE_WORD,
    all_true,
    how_many_true,
    is_true,
)
from portable.primitives.reductions.merging import Merge

_SIZE: Final = uint32.itemsize


def counted_in_words(x: Any, axes: tuple[int, ...], merge: Merge) -> tuple[Any, Merge]:
    """How the true ones of `x` are added up along `axes`: as what, and how.

    Parameters
    ----------
    x : Storage
        Bools.
    axes : tuple of int
        Along which, counted from the front.
    merge : Merge
        How numbers of true ones are added up.
    """
    for axis in axes:
        if _falls_in_words(x, axis):
            return _words(x, axis), replace(merge, first=how_many_true)
    return x, merge


def in_words(x: Any, axes: tuple[int, ...], merge: Merge) -> tuple[Any, Merge, DType]:
    """How `x` is merged by ``|`` or ``&`` along `axes`: as what, how, and in which dtype.

    Where bools lie side by side along one of the axes, whether four of them are true is one
    comparison; where they do along the last of the other axes, four are merged at once and the
    result is in words as well. It stays with bools where they lie otherwise.

    Parameters
    ----------
    x : Storage
        Bools.
    axes : tuple of int
        Along which, counted from the front.
    merge : Merge
        How bools are merged.
    """
    kept = [a for a in range(x.ndim) if a not in axes]
    neutral = bool(merge.initial)
    for axis in axes:
        if _falls_in_words(x, axis):
            words = replace(merge, first=all_true if neutral else is_true)
            return _words(x, axis), words, bool_
    if kept and _falls_in_words(x, kept[-1]):
        initial = TRUE_WORD if neutral else 0
        return _words(x, kept[-1]), replace(merge, kind=uint32, initial=initial), uint32
    return x, merge, bool_


def _falls_in_words(x: Any, axis: int) -> bool:
    others = (*x.strides[:axis], *x.strides[axis + 1 :])
    whole = x.strides[axis] == 1 and x.shape[axis] % _SIZE == 0
    return whole and not any(step % _SIZE for step in (x.offset, *others))


def _words(x: Any, axis: int) -> Any:
    shape = (*x.shape[:axis], x.shape[axis] // _SIZE, *x.shape[axis + 1 :])
    strides = (*x.strides[:axis], _SIZE, *x.strides[axis + 1 :])
    return x.viewed(shape, strides, dtype=uint32)
