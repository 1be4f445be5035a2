"""Matrices over GF(2) as text: a row a line, the columns of its ones in descending order.

Columns are separated by blanks, lines may be of any length, an empty line is an empty row. Text is
read and written in pieces, so that beside the packed matrix little memory is needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from portable.errors import DataError
from portable.files import writing_whole
from portable.gf2.elimination import Progress
from portable.gf2.packing import Words, columns_of, word_count

__all__ = ["read_text", "text_bytes", "write_text"]

_PIECE: Final = 1 << 24
_MOST_DIGITS: Final = 9
_NEWLINE, _BLANK, _TAB, _RETURN, _ZERO, _NINE = (ord(c) for c in "\n \t\r09")
_WORD: Final = 64


@dataclass(frozen=True, slots=True)
class _Piece:
    """Whole lines of a file.

    Attributes
    ----------
    text : array of uint8
        Their bytes.
    file : str
        The file's name.
    line : int
        The number of the first one, from 1.
    """

    text: NDArray[np.uint8]
    file: str
    line: int

    def wrong(self, place: int, what: str) -> DataError:
        """The error of something at a place in the text."""
        line = self.line + int(np.count_nonzero(self.text[:place] == _NEWLINE))
        return DataError(f"{self.file}, line {line}: {what}")


def read_text(
    path: str | os.PathLike[str], *, columns: int | None = None, progress: Progress | None = None
) -> tuple[Words, int]:
    """The words of a matrix and the number of its columns.

    Parameters
    ----------
    path : path
        The file.
    columns : int, optional
        The number of columns; one more than the highest column if left out.
    progress : callable, optional
        Is told how much has been read.

    Raises
    ------
    DataError
        Naming file and line, for text that is no number, columns that do not descend or are out of
        range, and a last line without end, as files have that were cut short.
    """
    parts, highest = [], -1
    for piece in _pieces(path, progress):
        words, last = _packed(piece, columns)
        parts.append(words)
        highest = max(highest, last)
    count = highest + 1 if columns is None else columns
    width = word_count(count)
    out = np.zeros((sum(len(part) for part in parts), width), np.uint64)
    start = 0
    for part in parts:
        out[start : start + len(part), : part.shape[1]] = part[:, :width]
        start += len(part)
    return out, count


def _pieces(path: str | os.PathLike[str], progress: Progress | None) -> Iterator[_Piece]:
    size, done, line, rest = Path(path).stat().st_size, 0, 1, b""
    name = os.fspath(path)
    with Path(path).open("rb") as file:
        while block := file.read(_PIECE):
            done += len(block)
            end = block.rfind(b"\n") + 1
            if end:
                piece = _Piece(np.frombuffer(rest + block[:end], np.uint8), name, line)
                line += int(np.count_nonzero(piece.text == _NEWLINE))
                yield piece
                rest = block[end:]
            else:
                rest += block
            if progress is not None:
                progress(done / size)
    if rest:
        raise DataError(
            f"{name}, line {line}: the last line has no end; the file was cut short (if it is "
            "whole, end it with a line feed)"
        )


def _packed(piece: _Piece, columns: int | None) -> tuple[Words, int]:
    """The words of some lines, and their highest column."""
    text = piece.text
    digit = (text >= _ZERO) & (text <= _NINE)
    _refuse_characters(piece, digit)
    edges = np.flatnonzero(np.diff(digit.view(np.int8), prepend=0, append=0))
    starts, ends = edges[::2], edges[1::2]
    places = _numbers(piece, starts, ends)
    line_ends = np.flatnonzero(text == _NEWLINE)
    rows = np.searchsorted(line_ends, starts)
    _refuse_order(piece, starts, rows, places)
    highest = int(places.max(initial=-1))
    if columns is not None and highest >= columns:
        at = int(np.argmax(places >= columns))
        raise piece.wrong(starts[at], f"column {places[at]}; there are columns 0 to {columns - 1}")
    return _joined(rows, places, line_ends.size, word_count(highest + 1)), highest


def _refuse_characters(piece: _Piece, digit: NDArray[np.bool_]) -> None:
    text = piece.text
    known = digit | (text == _BLANK) | (text == _NEWLINE) | (text == _TAB) | (text == _RETURN)
    if not known.all():
        at = int(np.argmin(known))
        word = bytes(text[at : at + 20]).split()[0].decode(errors="replace")
        raise piece.wrong(at, f"{word!r} is no column; expected whole numbers and blanks")


def _numbers(
    piece: _Piece, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.int64]:
    lengths = ends - starts
    longest = int(lengths.max(initial=0))
    if longest > _MOST_DIGITS:
        at = int(np.argmax(lengths))
        number = bytes(piece.text[starts[at] : ends[at]]).decode()
        raise piece.wrong(starts[at], f"column {number} is out of range; up to 999999999 are taken")
    values = np.zeros(starts.size, np.int64)
    for k in range(longest):
        more = lengths > k
        digits = piece.text[np.where(more, starts + k, 0)].astype(np.int64) - _ZERO
        values = np.where(more, values * 10 + digits, values)
    return values


def _refuse_order(
    piece: _Piece, starts: NDArray[np.int64], rows: NDArray[np.int64], places: NDArray[np.int64]
) -> None:
    wrong = (rows[1:] == rows[:-1]) & (places[1:] >= places[:-1])
    if wrong.any():
        at = int(np.argmax(wrong))
        raise piece.wrong(
            starts[at + 1],
            f"column {places[at + 1]} follows column {places[at]}; columns have to descend",
        )


def _joined(rows: NDArray[np.int64], places: NDArray[np.int64], count: int, width: int) -> Words:
    """Words of columns in descending order: those of one word are neighbours."""
    out = np.zeros((count, width), np.uint64)
    if places.size:
        keys = rows * width + places // _WORD
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        bits = np.uint64(1) << (places % _WORD).astype(np.uint64)
        out.reshape(-1)[keys[first]] = np.bitwise_or.reduceat(bits, first)
    return out


# -- writing --------------------------------------------------------------------------------------


def write_text(
    path: str | os.PathLike[str], words: Words, columns: int, *, progress: Progress | None = None
) -> None:
    """Writes rows as text, each number followed by a blank; the file is whole or not there.

    Raises
    ------
    OSError
        If that fails, or, before anything is written, if there is not room enough.
    """
    with writing_whole(path, size=text_bytes(words)) as file:
        step = max(_PIECE // max(columns, 1), 1)
        for start in range(0, len(words), step):
            _write_rows(file, words[start : start + step], columns)
            if progress is not None:
                progress(min(start + step, len(words)) / len(words))


def text_bytes(words: Words) -> int:
    """About how many bytes the text takes: each number as long as the highest of its word."""
    ones = np.zeros(words.shape[1], np.int64)
    for start in range(0, len(words), 1024):
        ones += np.bitwise_count(words[start : start + 1024]).sum(0, dtype=np.int64)
    digits = [len(str(_WORD * i + _WORD - 1)) for i in range(words.shape[1])]
    return len(words) + int(ones @ (np.array(digits, np.int64) + 1))


def _write_rows(file: BinaryIO, words: Words, columns: int) -> None:
    names, lengths = _names(columns)
    for places in columns_of(words, columns):
        descending = places[::-1]
        text = names[descending]
        file.write(text[np.arange(names.shape[1]) < lengths[descending, None]].tobytes())
        file.write(b"\n")


@lru_cache(maxsize=2)
def _names(columns: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Each column as text with a blank, padded, and its length."""
    texts = np.char.add(np.arange(columns).astype("S10"), b" ")
    return _bytes_of(texts), np.char.str_len(texts)


def _bytes_of(texts: Any) -> NDArray[np.uint8]:
    return np.ascontiguousarray(texts).view(np.uint8).reshape(len(texts), texts.dtype.itemsize)
