"""Matrices in files, packed or as text, and elimination from file to file."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, cast
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from portable import registry
from portable.backend import Device
from portable.gf2 import text
from portable.gf2.batches import Stages, eliminate_in_batches, stage
from portable.gf2.eliminate import checked_leads, eliminate, leading_columns, one_lead_each
from portable.gf2.elimination import Progress
from portable.gf2.layout import Order
from portable.gf2.matrix import BitMatrix
from portable.gf2.packed_file import SUFFIX, Words, packed_bytes, packed_header, write_packed
from portable.gf2.shared_out import Shares, eliminated_together, shape_for_all
from portable.parallel import Group, Member
from portable.parallel import group as group_of
from portable.system.files import put_in_place, require_room, target_of

# Elimination from file to file by several processes, each reading and writing a part.


def eliminate_files_together(
    files: text.Files, member: Member, stages: Stages | None = None
) -> NDArray[np.bool_]:
    """`eliminate_file` by the members of a group; errors are raised in all of them alike.

    Parameters
    ----------
    files : Files
        What is read and written.
    member : Member
        One of the group.
    stages : callable, optional
        Called with a stage and the part of it that is done.

    Returns
    -------
    array of bool
        Which rows were promoted.
    """
    part = member.rank, member.size
    with member.agreeing():
        (held, wide), (given, width) = (
            text.read_rows(path, files.columns, share=part, progress=stage(stages, name))
            for path, name in ((files.eliminators, "eliminators"), (files.rows, "rows"))
        )
    columns = max(member.exchange(max(wide, width)))
    held, given = (text.widened(x, columns) for x in (held, given))
    leads_here = leading_columns(BitMatrix.from_words(held, columns, device=member.device))
    leads = np.concatenate(member.exchange(leads_here))
    with member.agreeing():
        one_lead_each(leads, lambda i: f"{os.fspath(files.eliminators)}, line {i + 1}")
    shape = shape_for_all(member)
    shares = Shares.whole(Order(columns, backward=True), shape.width, member.size)
    counts = np.cumsum([0, *member.exchange(len(given))])
    words, promoted = eliminated_together(
        _by_columns(held, shares, member),
        _by_columns(given, shares, member),
        leads,
        shares,
        member,
        shape=shape,
        progress=stage(stages, "elimination"),
    )
    parts = member.all_to_all([words[a:b] for a, b in pairwise(counts)])
    _write_together(files.out, shares.joined(parts), columns, member)
    return promoted


def _by_columns(words: Words, shares: Shares, member: Member) -> Words:
    """From some rows of all columns to all rows of some columns."""
    parts = [np.ascontiguousarray(words[:, shares.words(rank)]) for rank in range(member.size)]
    return np.concatenate(member.all_to_all(parts))


def _write_together(out: text.Name, words: Words, columns: int, member: Member) -> None:
    """Each process writes its rows where they belong; then the file takes its name."""
    write, size = _content(out, words, columns)
    sizes = member.exchange(size)
    rows = sum(member.exchange(len(words)))
    head = packed_header(rows, columns) if _packs(out) else b""
    target = target_of(out)
    unfinished = Path(member.exchange(str(target.with_name(f".{target.name}.{uuid4().hex}")))[0])
    try:
        with member.agreeing():
            if member.rank == 0:
                require_room(target.parent, len(head) + sum(sizes))
                unfinished.write_bytes(head)
                os.truncate(unfinished, len(head) + sum(sizes))
        with member.agreeing(), unfinished.open("r+b") as file:
            file.seek(len(head) + sum(sizes[: member.rank]))
            write(file)
        with member.agreeing():
            if member.rank == 0:
                put_in_place(unfinished, target)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def _packs(out: text.Name) -> bool:
    return Path(out).suffix == SUFFIX


def _content(out: text.Name, words: Words, columns: int) -> tuple[Callable[[Any], Any], int]:
    """What writes the rows to an open file, and how many bytes it writes."""
    if _packs(out):
        data = np.ascontiguousarray(words).astype("<u8", copy=False)
        return lambda file: file.write(data.data), data.nbytes
    return lambda file: text.write_lines(file, words, columns), text.text_bytes(words, columns)


# -- files -----------------------------------------------------------------------------------------

_SHARE: Final = 0.7
"""Of a device's memory, for columns in words and in stripes."""


def read_matrix(
    path: text.Name,
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
        Called with the part of the text that has been read.

    Raises
    ------
    DataError
        Naming file and line, for text that is not in this form.
    ShapeError
        For a packed file with another number of columns.
    """
    words, width = text.read_rows(path, columns, progress=progress)
    return BitMatrix.from_words(words, width, device=device)


def write_matrix(path: text.Name, matrix: BitMatrix, *, progress: Progress | None = None) -> None:
    """Writes a matrix to a file, whole or not at all.

    Parameters
    ----------
    path : path
        Of packed words if the name ends in ``.gf2``, else of text.
    matrix : BitMatrix
        On any device.
    progress : callable, optional
        Called with the part of the text that has been written.

    Raises
    ------
    OSError
        If that fails, or, before anything is written, if there is not room enough.
    """
    if Path(path).suffix == SUFFIX:
        write_packed(path, matrix.to_words(), matrix.shape[1])
    else:
        text.write_text(path, matrix.to_words(), matrix.shape[1], progress=progress)


def eliminate_file(
    eliminators: text.Name,
    rows: text.Name,
    out: text.Name,
    *,
    columns: int | None = None,
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
        As `read_matrix` takes them.
    out : path
        The reduced rows, packed if the name ends in ``.gf2``, else as text. It may be `rows`.
    columns : int, optional
        Of both; the number of the wider one if left out.
    device : str or Device, optional
        Where to work; the device in use if left out.
    stages : callable, optional
        Called with a stage and the part of it that is done.
    group : portable.parallel.Group, optional
        Its members share the work out: each reads, holds and writes a part, on its device. All
        processes call this with the same files.
    comm : mpi4py.MPI.Comm, optional
        Its processes are such a group, each on `device`, or on a GPU of its own where there are.
    memory : int, optional
        Bytes of columns to hold at a time: the work is done in batches, through a folder
        ``<out>.unfinished``, and goes on from the last finished one when it was ended. If left out,
        that is done where the device has no room for all of them.

    Returns
    -------
    array of bool
        Which rows were promoted.

    Raises
    ------
    DataError
        Naming file and line, for what is wrong in a file.
    ShapeError
        For a packed file of another number of columns than `columns`.
    OSError
        If a file cannot be read or written; nothing half-written is left.
    ValueError
        If `group` is given along with `device` or `comm`.
    """
    if group is not None and (comm is not None or device is not None):
        raise ValueError("eliminate_file takes one of group=, comm= with or without device=")
    if group is None:
        group = group_of([registry.device(device)] if comm is None else comm, device=device)
    files = text.Files(eliminators, rows, out, columns)

    def work(member: Member) -> NDArray[np.bool_]:
        tell = stages if member.rank == 0 else None
        return _eliminate_files(files, memory, member, tell)

    return cast(NDArray[np.bool_], group.run(work)[0])


def _eliminate_files(
    files: text.Files, memory: int | None, member: Member, stages: Stages | None
) -> NDArray[np.bool_]:
    """What each member of a group does."""
    with member.agreeing():
        shapes = [text.shape_of(path, files.columns) for path in (files.eliminators, files.rows)]
        columns = max(shape[1] for shape in shapes)
        _require_place(files.out, shapes[1][0], columns)
    room = memory or _room(sum(packed_bytes(rows, columns) for rows, _ in shapes), member)
    if room:
        return eliminate_in_batches(files, room, member, stages)
    if member.size > 1:
        return eliminate_files_together(files, member, stages)
    known, rows = (
        _read_to(member.device, path, columns, files, stage(stages, name))
        for path, name in ((files.eliminators, "eliminators"), (files.rows, "rows"))
    )
    checked_leads(known, lambda i: f"{os.fspath(files.eliminators)}, line {i + 1}")
    done = eliminate(known, rows, progress=stage(stages, "elimination"))
    write_matrix(files.out, done.rows, progress=stage(stages, "result"))
    return done.promoted


def _read_to(
    device: Device, path: text.Name, columns: int, files: text.Files, progress: Progress | None
) -> BitMatrix:
    """A file's rows with so many columns, which it may have fewer of unless `files` says them."""
    words, _ = text.read_rows(path, files.columns, progress=progress)
    return BitMatrix.from_words(text.widened(words, columns), columns, device=device)


def _require_place(out: text.Name, rows: int, columns: int) -> None:
    """Refuses to begin what could not be written; how long text will be is not known yet."""
    folder = target_of(out).parent
    if not folder.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, "there is no such folder to write the result to", os.fspath(folder)
        )
    require_room(folder, packed_bytes(rows, columns) if Path(out).suffix == SUFFIX else rows)


def _room(size: int, member: Member) -> int:
    """How much to hold at a time of so much that devices have no room for; 0 where they have."""
    room = min(member.exchange(int(_SHARE * member.device.capabilities.global_memory)))
    return room if room and 2 * size > room * member.size else 0
