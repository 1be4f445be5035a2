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

from portable.backend import Device
from portable.files import require_room
from portable.gf2.eliminate import leading_columns, one_lead_each
from portable.gf2.elimination import Order
from portable.gf2.matrix import BitMatrix
from portable.gf2.packed_file import SUFFIX, is_packed, map_packed, packed_header
from portable.gf2.packing import Words, word_count
from portable.gf2.shared_out import Shares, eliminated_together
from portable.gf2.stages import Stages, stage
from portable.gf2.team import Team
from portable.gf2.text import read_text, text_bytes, write_lines
from portable.gf2.tuning import shape_for

__all__ = ["eliminate_files_together"]

Name = str | os.PathLike[str]


def eliminate_files_together(
    eliminators: Name, rows: Name, out: Name, device: Device, team: Team, stages: Stages | None
) -> NDArray[np.bool_]:
    """`eliminate_file` by the processes of a team; errors are raised in all of them alike."""
    with team.agreeing():
        held, wide = _read_share(eliminators, team, stages, "eliminators")
        given, found = _read_share(rows, team, stages, "rows")
    columns = max(team.gather(max(wide, found)))
    held, given = (_widened(x, columns) for x in (held, given))
    own = leading_columns(BitMatrix.from_words(held, columns, device=device))
    leads = np.concatenate(team.gather(own))
    with team.agreeing():
        one_lead_each(leads, lambda i: f"{os.fspath(eliminators)}, line {i + 1}")
    width = min(team.gather(shape_for(device.capabilities).width))
    shares = Shares.whole(Order(columns, backward=True), width, team.size)
    counts = np.cumsum([0, *team.gather(len(given))])
    words, promoted = eliminated_together(
        _by_columns(held, shares, team),
        _by_columns(given, shares, team),
        leads,
        shares,
        device,
        team,
        progress=stage(stages, "elimination"),
    )
    parts = team.exchange([words[a:b] for a, b in pairwise(counts)])
    _write_together(out, shares.joined(parts), columns, team)
    return promoted


def _read_share(path: Name, team: Team, stages: Stages | None, name: str) -> tuple[Words, int]:
    """A process' part of the rows of a file."""
    if is_packed(path):
        mapped, columns = map_packed(path)
        first, last = (len(mapped) * i // team.size for i in (team.rank, team.rank + 1))
        return np.array(mapped[first:last], np.uint64), columns
    return read_text(path, share=(team.rank, team.size), progress=stage(stages, name))


def _widened(words: Words, columns: int) -> Words:
    return np.pad(words, ((0, 0), (0, word_count(columns) - words.shape[1])))


def _by_columns(words: Words, shares: Shares, team: Team) -> Words:
    """From some rows of all columns to all rows of some columns."""
    parts = [np.ascontiguousarray(words[:, shares.words(rank)]) for rank in range(team.size)]
    return np.concatenate(team.exchange(parts))


def _write_together(out: Name, words: Words, columns: int, team: Team) -> None:
    """Each process writes its rows where they belong; then the file takes its name."""
    write, size = _content(out, words, columns)
    sizes = team.gather(size)
    rows = sum(team.gather(len(words)))
    head = packed_header(rows, columns) if _packs(out) else b""
    target = Path(out).absolute()
    unfinished = Path(team.gather(str(target.with_name(f".{target.name}.{uuid4().hex}")))[0])
    try:
        with team.agreeing():
            if team.rank == 0:
                require_room(target.parent, len(head) + sum(sizes))
                unfinished.write_bytes(head)
                os.truncate(unfinished, len(head) + sum(sizes))
        with team.agreeing(), unfinished.open("r+b") as file:
            file.seek(len(head) + sum(sizes[: team.rank]))
            write(file)
        with team.agreeing():
            if team.rank == 0:
                unfinished.replace(target)
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
