"""Matrices in files, packed or as text, and elimination from file to file."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from portable import registry
from portable.backend import Device
from portable.errors import ShapeError
from portable.gf2.batches import eliminate_in_batches
from portable.gf2.eliminate import checked_leads, eliminate
from portable.gf2.elimination import Progress
from portable.gf2.matrix import BitMatrix
from portable.gf2.packed_file import SUFFIX, is_packed, read_packed, write_packed
from portable.gf2.packing import Words, word_count
from portable.gf2.shared_files import eliminate_files_together
from portable.gf2.stages import Stages, stage
from portable.gf2.text import read_text, write_text
from portable.parallel import Group, Member
from portable.parallel import group as group_of

__all__ = ["eliminate_file", "read_matrix", "write_matrix"]

_SHARE: Final = 0.7
"""Of a device's memory, for columns in words and in stripes."""


def read_matrix(
    path: str | os.PathLike[str],
    *,
    columns: int | None = None,
    device: str | Device | None = None,
    progress: Progress | None = None,
) -> BitMatrix:
    """A matrix from a file of packed words (`BitMatrix.save`) or of text.

    Parameters
    ----------
    path : path
        Text has a row a line, the columns of its ones in descending order and separated by blanks.
    columns : int, optional
        The number of columns; for text one more than the highest if left out.
    device : str or Device, optional
        Where it goes.
    progress : callable, optional
        Is told the part of text that has been read.

    Raises
    ------
    DataError
        Naming file and line, for text that is not in this form.
    ShapeError
        For a packed file with another number of columns.
    """
    words, found = _read(path, columns, progress)
    return BitMatrix.from_words(words, found, device=device)


def write_matrix(
    path: str | os.PathLike[str], matrix: BitMatrix, *, progress: Progress | None = None
) -> None:
    """Writes a matrix, packed if the name ends in ``.gf2``, else as text; whole or not at all."""
    if Path(path).suffix == SUFFIX:
        write_packed(path, matrix.to_words(), matrix.shape[1])
    else:
        write_text(path, matrix.to_words(), matrix.shape[1], progress=progress)


def eliminate_file(
    eliminators: str | os.PathLike[str],
    rows: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    device: str | Device | None = None,
    stages: Stages | None = None,
    group: Group | None = None,
    comm: Any = None,
    memory: int | None = None,
) -> NDArray[np.bool_]:
    """`eliminate` from files to a file.

    Parameters
    ----------
    eliminators, rows : path
        As `read_matrix` takes them; the number of columns is that of the wider one.
    out : path
        The reduced rows, packed if the name ends in ``.gf2``, else as text. It may be `rows`.
    device : str or Device, optional
        Where to work; the device in use if left out.
    stages : callable, optional
        Is told how far each stage is.
    group : portable.parallel.Group, optional
        Its members share the work out: each reads, holds and writes a part, on its device. All
        processes call this with the same files.
    comm : mpi4py.MPI.Comm, optional
        Its processes are such a group, each on `device`, or on a GPU of its own where there are.
    memory : int, optional
        Bytes of columns to hold at a time: the work is done in batches, through a folder
        ``<out>.unfinished``, and goes on from the last finished one when it was ended. If left out,
        packed files are taken in batches where the device has no room for them.

    Returns
    -------
    array of bool
        Which rows were promoted.

    Raises
    ------
    DataError
        Naming file and line, for what is wrong in a file.
    OSError
        If a file cannot be read or written; nothing half-written is left.
    ValueError
        If `group` is given along with `device` or `comm`.
    """
    if group is not None and (comm is not None or device is not None):
        raise ValueError("eliminate_file takes one of group=, comm= with or without device=")
    if group is None:
        group = group_of([registry.device(device)] if comm is None else comm, device=device)
    names = _Names(eliminators, rows, out)

    def work(member: Member) -> NDArray[np.bool_]:
        tell = stages if member.rank == 0 else None
        part = partial(_eliminate_files, names, memory, member, tell)
        return cast(NDArray[np.bool_], member.together(part))

    return cast(NDArray[np.bool_], group.run(work)[0])


class _Names(NamedTuple):
    """Of files."""

    eliminators: str | os.PathLike[str]
    rows: str | os.PathLike[str]
    out: str | os.PathLike[str]


def _eliminate_files(
    names: _Names, memory: int | None, member: Member, stages: Stages | None
) -> NDArray[np.bool_]:
    """What each member of a group does."""
    room = memory or _room(names, member)
    if room:
        return eliminate_in_batches(*names, room, member, stages)
    if member.size > 1:
        return eliminate_files_together(*names, member, stages)
    held, wide = _read(names.eliminators, None, stage(stages, "eliminators"))
    words, columns = _read(names.rows, None, stage(stages, "rows"))
    count = max(wide, columns)
    known, given = (
        BitMatrix.from_words(_widened(x, count), count, device=member.device) for x in (held, words)
    )
    name = os.fspath(names.eliminators)
    checked_leads(known, lambda i: f"{name}, line {i + 1}")
    done = eliminate(known, given, progress=stage(stages, "elimination"))
    write_matrix(names.out, done.rows, progress=stage(stages, "result"))
    return done.promoted


def _room(names: _Names, member: Member) -> int:
    """How much to hold at a time of files that the device has no room for; 0 where it has."""
    room = min(member.exchange(int(_SHARE * member.device.capabilities.global_memory)))
    given = names.eliminators, names.rows
    if not room or not all(map(is_packed, given)):
        return 0
    size = sum(Path(path).stat().st_size for path in given)
    return room if 2 * size > room * member.size else 0


def _read(
    path: str | os.PathLike[str], columns: int | None, progress: Progress | None
) -> tuple[Words, int]:
    if not is_packed(path):
        return read_text(path, columns=columns, progress=progress)
    words, found = read_packed(path)
    if columns is not None and found != columns:
        raise ShapeError(f"{os.fspath(path)} has {found} columns, not {columns}")
    return words, found


def _widened(words: Words, columns: int) -> Words:
    """The same rows with words for so many columns."""
    missing = word_count(columns) - words.shape[1]
    return np.pad(words, ((0, 0), (0, missing))) if missing else words
