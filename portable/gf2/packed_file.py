"""Matrices over GF(2) in files of packed words, which can be memory-mapped.

A header of 64 bytes (`_MAGIC`, then version, rows and columns as little-endian 64-bit integers,
then zeros) and the words of `portable.gf2.packed_file` row by row, little-endian.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from portable.errors import DataError
from portable.system.files import writing_whole

# Bits in words on the host: column c is bit ``c % 64`` of word ``c // 64``.

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


# -- packed file -----------------------------------------------------------------------------------

SUFFIX: Final = ".gf2"
"""What names of such files end in."""

_HEADER_BYTES: Final = 64
_MAGIC: Final = b"portable gf2 bits\n"
_VERSION: Final = 1
_NUMBERS_AT: Final = 32
_MOST: Final = 1 << 48
"""Rows or columns, though there be none of the other; what has more is no matrix."""


def packed_bytes(rows: int, columns: int) -> int:
    """The size of the file of such a matrix."""
    return _HEADER_BYTES + 8 * rows * word_count(columns)


def packed_header(rows: int, columns: int) -> bytes:
    """The beginning of the file of such a matrix."""
    numbers = np.array([_VERSION, rows, columns], "<u8").tobytes()
    return (_MAGIC.ljust(_NUMBERS_AT, b"\0") + numbers).ljust(_HEADER_BYTES, b"\0")


def write_packed(path: str | os.PathLike[str], words: Words, columns: int) -> None:
    """Writes the file whole or not at all.

    Parameters
    ----------
    path : path
    words : array of uint64, shape (rows, words)
        The bits of each row, packed.
    columns : int
        How many bits of a row count.
    """
    data = np.ascontiguousarray(words).astype("<u8", copy=False)
    with writing_whole(path, size=data.nbytes) as file:
        file.write(packed_header(words.shape[0], columns))
        file.write(data.data)


def is_packed(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins like one of packed words."""
    with Path(path).open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def read_packed(path: str | os.PathLike[str]) -> tuple[Words, int]:
    """Words and columns.

    Raises
    ------
    DataError
        If the file is of another format, cut short, or has bits beyond its columns.
    """
    mapped, columns = map_packed(path)
    require_clear_padding(path, mapped, columns)
    return np.array(mapped, np.uint64), columns


def require_clear_padding(
    path: str | os.PathLike[str], words: Any, columns: int, *, first: int = 0
) -> None:
    """Refuses words of a file that have bits set beyond its columns, which would count as ones.

    Parameters
    ----------
    path : path
        The file, for the message.
    words : array of uint64, shape (rows, words of a row)
        Some of its rows.
    columns : int
    first : int
        The number in the file of the first of these rows.

    Raises
    ------
    DataError
        Naming file and row.
    """
    used = columns % WORD
    if not used:
        return
    beyond = np.flatnonzero(np.asarray(words[:, -1]) >> np.uint64(used))
    if beyond.size:
        raise DataError(
            f"{os.fspath(path)}, row {first + int(beyond[0])}: bits are set beyond the last of its "
            f"{columns} columns; it was changed, or not written by BitMatrix.save"
        )


def map_packed(path: str | os.PathLike[str]) -> tuple[Any, int]:
    """As `read_packed`, the words staying in the file until they are read."""
    rows, columns = _shape_of(path)
    if max(rows, columns) > _MOST:
        raise DataError(f"the header of {os.fspath(path)} says {rows}x{columns}: it was changed")
    shape = (rows, word_count(columns))
    wanted = packed_bytes(rows, columns)
    size = Path(path).stat().st_size
    if size != wanted:
        raise DataError(
            f"{os.fspath(path)} has {size} bytes; its header says {rows}x{columns}, which takes "
            f"{wanted}: it was cut short or changed"
        )
    if 0 in shape:
        return np.zeros(shape, np.uint64), columns
    return np.memmap(path, "<u8", "r", _HEADER_BYTES, shape), columns


def _shape_of(path: str | os.PathLike[str]) -> tuple[int, int]:
    with Path(path).open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise DataError(f"{os.fspath(path)} is no file of packed bits, as BitMatrix.save writes")
    version, rows, columns = (int(x) for x in np.frombuffer(header, "<u8", 3, _NUMBERS_AT))
    if version != _VERSION:
        raise DataError(f"{os.fspath(path)} is of version {version}; this reads version {_VERSION}")
    return rows, columns
