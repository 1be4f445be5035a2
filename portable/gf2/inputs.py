"""The files of an elimination, of text or packed words, and how their rows are read."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np

from portable.errors import ShapeError
from portable.gf2.elimination import Progress
from portable.gf2.packed_file import is_packed, map_packed, require_clear_padding
from portable.gf2.packing import Words, word_count
from portable.gf2.text import read_text, text_shape

Name = str | os.PathLike[str]


class Files(NamedTuple):
    """What an elimination reads and writes.

    Attributes
    ----------
    eliminators, rows, out : path
        Packed if they are named so, else text.
    columns : int, optional
        Of all; those of the wider one of the two that are read, if None.
    """

    eliminators: Name
    rows: Name
    out: Name
    columns: int | None = None


def read_rows(
    path: Name,
    columns: int | None = None,
    *,
    share: tuple[int, int] = (0, 1),
    progress: Progress | None = None,
) -> tuple[Words, int]:
    """The words of rows of a file, and the number of columns.

    Parameters
    ----------
    path : path
        Of text or packed words.
    columns : int, optional
        The number of columns; for text one more than the highest that is read if None.
    share : (int, int)
        Number and count of shares of the file, to read the rows of one.
    progress : callable, optional
        Is told the part of text that has been read.

    Raises
    ------
    DataError
        Naming file and line, for text that is not in its form, or for packed words with bits
        beyond their columns.
    ShapeError
        For a packed file with another number of columns.
    """
    if not is_packed(path):
        return read_text(path, columns=columns, share=share, progress=progress)
    mapped, width = map_packed(path)
    _require_columns(path, width, columns)
    first, last = (len(mapped) * part // share[1] for part in (share[0], share[0] + 1))
    words = np.array(mapped[first:last], np.uint64)
    require_clear_padding(path, words, width, first=first)
    return words, width


def shape_of(path: Name, columns: int | None = None) -> tuple[int, int]:
    """Rows and columns of a file, without holding its rows; as `read_rows` would find them."""
    if not is_packed(path):
        rows, width = text_shape(path)
        return rows, width if columns is None else columns
    mapped, width = map_packed(path)
    _require_columns(path, width, columns)
    return len(mapped), width


def _require_columns(path: Name, width: int, columns: int | None) -> None:
    if columns is not None and width != columns:
        raise ShapeError(f"{os.fspath(path)} has {width} columns, not {columns}")


def widened(words: Words, columns: int) -> Words:
    """The same rows with words for so many columns."""
    missing = word_count(columns) - words.shape[1]
    return np.pad(words, ((0, 0), (0, missing))) if missing else words
