"""Bits in words on the host: column c is bit ``c % 64`` of word ``c // 64``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from portable.errors import DataError

Words = NDArray[np.uint64]

WORD: Final = 64
_DENSE_BYTES: Final = 1 << 26
"""How much of a matrix is held with a byte for each bit at a time."""


def word_count(columns: int) -> int:
    """Words that a row of so many columns takes."""
    return -(-columns // WORD)


def pack(dense: NDArray[Any]) -> Words:
    """The words of a matrix of zeros and others, shape (m, n), padded with zero bits."""
    m, n = dense.shape
    words = np.zeros((m, word_count(n)), "<u8")
    packed = np.packbits(dense != 0, axis=1, bitorder="little")
    words.view(np.uint8)[:, : packed.shape[1]] = packed
    return words.astype(np.uint64, copy=False)


def unpack(words: Words, columns: int) -> NDArray[np.bool_]:
    """The matrix of bools, shape (m, columns)."""
    held = np.ascontiguousarray(words).astype("<u8", copy=False).view(np.uint8)
    return np.unpackbits(held, axis=1, count=columns, bitorder="little").view(np.bool_)


def pack_columns(rows: Sequence[Sequence[int]], columns: int) -> Words:
    """The words of rows that are given by their columns, in any order.

    Raises
    ------
    DataError
        For a column out of range or given twice in a row; it names the row, from 0.
    """
    words = np.empty((len(rows), word_count(columns)), np.uint64)
    for start, stop in _blocks(len(rows), columns):
        dense = np.zeros((stop - start, columns), np.bool_)
        for i in range(start, stop):
            dense[i - start, _checked(rows[i], columns, i)] = True
        words[start:stop] = pack(dense)
    return words


def _checked(row: Sequence[int], columns: int, number: int) -> NDArray[np.int64]:
    places = np.asarray(row, np.int64)
    outside = places[(places < 0) | (places >= columns)]
    if outside.size:
        raise DataError(
            f"row {number} has column {outside[0]}; there are columns 0 to {columns - 1}"
        )
    if np.unique(places).size != places.size:
        raise DataError(f"row {number} has a column twice; give each column once")
    return places


def columns_of(words: Words, columns: int) -> Iterator[NDArray[np.int64]]:
    """The columns of each row, in ascending order."""
    for start, stop in _blocks(words.shape[0], columns):
        rows, places = np.nonzero(unpack(words[start:stop], columns))
        ends = np.searchsorted(rows, np.arange(1, stop - start))
        yield from np.split(places, ends)


def _blocks(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    """Blocks of rows that fit into memory with a byte for each bit."""
    step = max(_DENSE_BYTES // max(columns, 1), 1)
    for start in range(0, rows, step):
        yield start, min(start + step, rows)
