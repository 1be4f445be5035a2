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
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from portable.errors import DataError, ShapeError
from portable.gf2 import packed_file
from portable.gf2.elimination import Progress
from portable.system.files import writing_whole

_PIECE: Final = 1 << 24
_COUNTED: Final = 1024
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
    start : int
        Where in the file the first one begins.
    """

    text: NDArray[np.uint8]
    file: str
    start: int

    def wrong(self, offset: int, what: str) -> DataError:
        """The error of something at a place in the text."""
        return DataError(f"{self.file}, line {_line(self.file, self.start + offset)}: {what}")


def _line(file: str, offset: int) -> int:
    """The number of the line, from 1, that a place in a file is in."""
    line = 1
    with Path(file).open("rb") as opened:
        while offset > 0 and (block := opened.read(min(offset, _PIECE))):
            line += block.count(b"\n")
            offset -= len(block)
    return line


def read_text(
    path: str | os.PathLike[str],
    *,
    columns: int | None = None,
    share: tuple[int, int] = (0, 1),
    progress: Progress | None = None,
) -> tuple[packed_file.Words, int]:
    """The words of a matrix and the number of its columns.

    Parameters
    ----------
    path : path
        The file.
    columns : int, optional
        The number of columns; one more than the highest column if left out.
    share : (int, int)
        Number and count of equal shares of the file, to read the lines that begin in one.
    progress : callable, optional
        Called with the part that has been read.

    Raises
    ------
    DataError
        Naming file and line, for text that is no number, columns that do not descend or are out of
        range, and a last line without end, as files have that were cut short.
    """
    parts, highest = [], -1
    for piece in _pieces(path, share, progress):
        words, last = _packed(piece, columns)
        parts.append(words)
        highest = max(highest, last)
    count = highest + 1 if columns is None else columns
    width = packed_file.word_count(count)
    out = np.zeros((sum(len(part) for part in parts), width), np.uint64)
    start = 0
    for part in parts:
        out[start : start + len(part), : part.shape[1]] = part[:, :width]
        start += len(part)
    return out, count


def text_shape(path: str | os.PathLike[str]) -> tuple[int, int]:
    """The rows and columns of a matrix, by the first number of each line, which is its highest.

    What else is wrong in the text is left to those who read it all.

    Raises
    ------
    DataError
        For a first number that is out of range, and a last line without end.
    """
    rows, highest = 0, -1
    for piece in _pieces(path, (0, 1), None):
        line_ends = np.flatnonzero(piece.text == _NEWLINE)
        first = _numbers(piece, *_first_numbers(piece.text, line_ends))
        rows, highest = rows + line_ends.size, max(highest, int(first.max(initial=-1)))
    return rows, highest + 1


def _first_numbers(
    text: NDArray[np.uint8], line_ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the first number of each line that begins with one starts and ends.

    Only the beginnings of lines are looked at, which takes a fraction of the time of reading all.
    """
    starts = np.append(0, line_ends[:-1] + 1)
    while (blank := (text[starts] == _BLANK) | (text[starts] == _TAB)).any():
        starts = starts + blank
    ends = starts.copy()
    while (digit := (text[ends] >= _ZERO) & (text[ends] <= _NINE)).any():
        ends = ends + digit
    nonempty = ends > starts
    return starts[nonempty], ends[nonempty]


def _pieces(
    path: str | os.PathLike[str], share: tuple[int, int], progress: Progress | None
) -> Iterator[_Piece]:
    """The lines that begin within a share of the file."""
    size, name, rest = Path(path).stat().st_size, os.fspath(path), b""
    start, stop = (size * part // share[1] for part in (share[0], share[0] + 1))
    with Path(path).open("rb") as file:
        at = _begin(file, start)
        first = at
        while at < stop and (block := file.read(_PIECE)):
            end = _end(block, at + len(rest), stop)
            if end:
                yield _Piece(np.frombuffer(rest + block[:end], np.uint8), name, at)
                at += len(rest) + end
                rest = block[end:]
            else:
                rest += block
            if progress is not None:
                progress(min((at - first) / max(stop - first, 1), 1.0))
    if rest and at < stop:
        raise DataError(
            f"{name}, line {_line(name, at)}: the last line has no end; the file was cut short "
            "(if it is whole, end it with a line feed)"
        )


def _begin(file: BinaryIO, offset: int) -> int:
    """Goes to the first line that begins at a place or after it."""
    if offset:
        file.seek(offset - 1)
        file.readline()
    return file.tell()


def _end(block: bytes, at: int, stop: int) -> int:
    """The end of the last whole line of a block that begins before `stop`; 0 if none ends in it."""
    if at + len(block) <= stop:
        return block.rfind(b"\n") + 1
    return block.find(b"\n", max(stop - at - 1, 0)) + 1 or block.rfind(b"\n") + 1


def _packed(piece: _Piece, columns: int | None) -> tuple[packed_file.Words, int]:
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
    return _joined(rows, places, line_ends.size, packed_file.word_count(highest + 1)), highest


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


def _joined(
    rows: NDArray[np.int64], places: NDArray[np.int64], count: int, width: int
) -> packed_file.Words:
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
    path: str | os.PathLike[str],
    words: packed_file.Words,
    columns: int,
    *,
    progress: Progress | None = None,
) -> None:
    """Writes rows as text, each number followed by a blank; the file is whole or not there.

    Parameters
    ----------
    path : path
        The file.
    words : array of uint64, shape (rows, words of a row)
    columns : int
        Of the matrix.
    progress : callable, optional
        Called with the part that has been written.

    Raises
    ------
    OSError
        If that fails, or, before anything is written, if there is not room enough.
    """
    with writing_whole(path, size=text_bytes(words, columns)) as file:
        write_lines(file, words, columns, progress=progress)


def text_bytes(words: packed_file.Words, columns: int) -> int:
    """How many bytes the text takes."""
    total = len(words)
    for digits in range(1, len(str(max(columns - 1, 0))) + 1):
        first = 10 ** (digits - 1) if digits > 1 else 0
        named = np.zeros((1, columns), np.bool_)
        named[0, first : 10**digits] = True
        mask = packed_file.pack(named)[0]
        for start in range(0, len(words), _COUNTED):
            ones = np.bitwise_count(words[start : start + _COUNTED] & mask)
            total += (digits + 1) * int(ones.sum(dtype=np.int64))
    return total


def write_lines(
    file: BinaryIO, words: packed_file.Words, columns: int, *, progress: Progress | None = None
) -> None:
    """Writes rows to an open file, as `write_text` does.

    Parameters
    ----------
    file : binary file
    words : array of uint64, shape (rows, words)
        The bits of each row, packed.
    columns : int
        How many bits of a row count.
    progress : callable, optional
        Told the part that is written, from 0 to 1.
    """
    step = max(_PIECE // max(columns, 1), 1)
    for start in range(0, len(words), step):
        _write_rows(file, words[start : start + step], columns)
        if progress is not None:
            progress(min(start + step, len(words)) / len(words))


def _write_rows(file: BinaryIO, words: packed_file.Words, columns: int) -> None:
    names, lengths = _names(columns)
    for places in packed_file.columns_of(words, columns):
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


# The files of an elimination, of text or packed words, and how their rows are read.

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
) -> tuple[packed_file.Words, int]:
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
        Called with the part of the text that has been read.

    Raises
    ------
    DataError
        Naming file and line, for text that is not in its form, or for packed words with bits
        beyond their columns.
    ShapeError
        For a packed file with another number of columns.
    """
    if not packed_file.is_packed(path):
        return read_text(path, columns=columns, share=share, progress=progress)
    mapped, width = packed_file.map_packed(path)
    _require_columns(path, width, columns)
    first, last = (len(mapped) * part // share[1] for part in (share[0], share[0] + 1))
    words = np.array(mapped[first:last], np.uint64)
    packed_file.require_clear_padding(path, words, width, first=first)
    return words, width


def shape_of(path: Name, columns: int | None = None) -> tuple[int, int]:
    """Rows and columns of a file, without holding its rows; as `read_rows` would find them."""
    if not packed_file.is_packed(path):
        rows, width = text_shape(path)
        return rows, width if columns is None else columns
    mapped, width = packed_file.map_packed(path)
    _require_columns(path, width, columns)
    return len(mapped), width


def _require_columns(path: Name, width: int, columns: int | None) -> None:
    if columns is not None and width != columns:
        raise ShapeError(f"{os.fspath(path)} has {width} columns, not {columns}")


def widened(words: packed_file.Words, columns: int) -> packed_file.Words:
    """The same rows with words for so many columns."""
    missing = packed_file.word_count(columns) - words.shape[1]
    return np.pad(words, ((0, 0), (0, missing))) if missing else words
