"""Elimination from file to file by several processes, each reading and writing a part."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from portable.gf2.eliminate import leading_columns, one_lead_each
from portable.gf2.inputs import Files, Name, read_rows, widened
from portable.gf2.layout import Order
from portable.gf2.matrix import BitMatrix
from portable.gf2.packed_file import SUFFIX, packed_header
from portable.gf2.packing import Words
from portable.gf2.shared_out import Shares, eliminated_together, shape_for_all
from portable.gf2.stages import Stages, stage
from portable.gf2.text import text_bytes, write_lines
from portable.parallel import Member
from portable.system.files import put_in_place, require_room, target_of


def eliminate_files_together(
    files: Files, member: Member, stages: Stages | None = None
) -> NDArray[np.bool_]:
    """`eliminate_file` by the members of a group; errors are raised in all of them alike.

    Parameters
    ----------
    files : Files
        What is read and written.
    member : Member
        One of the group.
    stages : callable, optional
        Is told how far each stage is.

    Returns
    -------
    array of bool
        Which rows were promoted.
    """
    part = member.rank, member.size
    with member.agreeing():
        (held, wide), (given, width) = (
            read_rows(path, files.columns, share=part, progress=stage(stages, name))
            for path, name in ((files.eliminators, "eliminators"), (files.rows, "rows"))
        )
    columns = max(member.exchange(max(wide, width)))
    held, given = (widened(x, columns) for x in (held, given))
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


def _write_together(out: Name, words: Words, columns: int, member: Member) -> None:
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


def _packs(out: Name) -> bool:
    return Path(out).suffix == SUFFIX


def _content(out: Name, words: Words, columns: int) -> tuple[Callable[[Any], Any], int]:
    """What writes the rows to an open file, and how many bytes it writes."""
    if _packs(out):
        data = np.ascontiguousarray(words).astype("<u8", copy=False)
        return lambda file: file.write(data.data), data.nbytes
    return lambda file: write_lines(file, words, columns), text_bytes(words, columns)
