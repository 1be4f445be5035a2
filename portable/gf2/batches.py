"""The special elimination of matrices larger than memory, in batches of columns.

Files of packed words are memory-mapped. For each batch its columns are read, the pivots of all
earlier batches are applied to them, pivots of its own are chosen, and its columns of the result are
written. Beside the result lies, until all is done, a folder with the pivots so far and what says
how many batches are finished; from there an elimination that was ended goes on.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from portable.errors import ShapeError
from portable.files import require_room, write_whole, writing_whole
from portable.gf2.eliminate import leading_columns, one_lead_each
from portable.gf2.elimination import Progress
from portable.gf2.inputs import Files, Name, read_rows, shape_of, widened
from portable.gf2.layout import WORD, Order
from portable.gf2.matrix import BitMatrix
from portable.gf2.packed_file import (
    SUFFIX,
    is_packed,
    map_packed,
    packed_bytes,
    packed_header,
)
from portable.gf2.packing import Words
from portable.gf2.schedule import run_stripes
from portable.gf2.shared_out import Share, Shares, shape_for_all
from portable.gf2.stages import Stages, stage
from portable.gf2.text import text_bytes, write_lines
from portable.gf2.tuning import Shape
from portable.parallel.member import Member

__all__ = ["eliminate_in_batches", "unfinished_folder"]

_FINISHED: Final = "finished.json"
_PIECE: Final = 1 << 28


def unfinished_folder(out: Name) -> Path:
    """Where an elimination into `out` keeps what it needs to go on."""
    target = Path(out).absolute()
    return target.with_name(f"{target.name}.unfinished")


def eliminate_in_batches(
    files: Files, memory: int, member: Member, stages: Stages | None = None
) -> NDArray[np.bool_]:
    """`portable.gf2.eliminate_file` in batches of columns.

    Parameters
    ----------
    files : Files
        What is read and written.
    memory : int
        About how many bytes of columns a member holds at a time.
    member : Member
        One of those who share each batch out; all of them see the same folder.
    stages : callable, optional
        Is told how far each stage is.

    Returns
    -------
    array of bool
        Which rows were promoted.
    """
    folder = unfinished_folder(files.out)
    with member.agreeing():
        if member.rank == 0:
            folder.mkdir(exist_ok=True)
    try:
        return _in_batches(files, folder, memory, member, stages)
    finally:
        if member.rank == 0 and folder.exists() and not (folder / _FINISHED).exists():
            shutil.rmtree(folder)


def _in_batches(
    files: Files, folder: Path, memory: int, member: Member, stages: Stages | None
) -> NDArray[np.bool_]:
    with member.agreeing():
        names = _packed_inputs(files, folder, member.rank == 0, stages)
    work = _Work.of(names, folder, memory, member)
    with member.agreeing():
        leads = work.leads()
        one_lead_each(leads, lambda i: f"{os.fspath(files.eliminators)}, line {i + 1}")
        if member.rank == 0:
            work.prepare((files.eliminators, files.rows))
    promoted = work.run(leads, stage(stages, "elimination"))
    with member.agreeing():
        if member.rank == 0:
            _finish(work, Path(files.out))
    return promoted


# -- inputs ---------------------------------------------------------------------------------------


def _packed_inputs(
    files: Files, folder: Path, packs: bool, stages: Stages | None
) -> tuple[Path, Path]:
    """The files, or packed copies of those that are text or of fewer columns.

    Copies are written by the member that `packs`.
    """
    given = files.eliminators, files.rows
    shapes = [shape_of(path, files.columns) for path in given]
    columns = max(shape[1] for shape in shapes)
    found = []
    for path, shape, name in zip(given, shapes, ("eliminators", "rows"), strict=True):
        target = folder / f"{name[0]}{SUFFIX}"
        if is_packed(path) and shape[1] == columns:
            target = Path(path)
        elif packs and not _is_copy(target, Path(path), (shape[0], columns)):
            _pack_into(target, path, (shape[0], columns), stage(stages, name))
        found.append(target)
    return found[0], found[1]


def _is_copy(target: Path, source: Path, shape: tuple[int, int]) -> bool:
    """Whether a copy was made since the file was written, and in this shape."""
    if not target.exists() or target.stat().st_mtime_ns <= source.stat().st_mtime_ns:
        return False
    return shape_of(target) == shape


def _pack_into(target: Path, path: Name, shape: tuple[int, int], progress: Progress | None) -> None:
    """Copies a file in pieces, as packed words of rows of so many columns."""
    count = -(-Path(path).stat().st_size // _PIECE) or 1
    columns = None if is_packed(path) else shape[1]
    with writing_whole(target, size=packed_bytes(*shape)) as file:
        file.write(packed_header(*shape))
        for number in range(count):
            words, _ = read_rows(path, columns, share=(number, count))
            file.write(widened(words, shape[1]).astype("<u8", copy=False).data)
            if progress is not None:
                progress((number + 1) / count)


# -- batches --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Work:
    """An elimination in batches.

    Attributes
    ----------
    eliminators, rows : array of uint64
        Mapped to memory.
    columns : int
        Of both.
    folder : Path
        Of what is unfinished.
    stripes : int
        Stripes of a batch.
    shape : Shape
        How stripes are laid out.
    member : Member
        One of those who share batches out.
    """

    eliminators: Any
    rows: Any
    columns: int
    folder: Path
    stripes: int
    shape: Shape
    member: Member

    @classmethod
    def of(cls, names: tuple[Path, Path], folder: Path, memory: int, member: Member) -> _Work:
        """With batches of as many stripes as `memory` holds twice: as words and as stripes."""
        (known, wide), (given, columns) = (map_packed(name) for name in names)
        if wide != columns:
            raise ShapeError(f"{names[0]} has {wide} columns, {names[1]} has {columns}")
        shape = shape_for_all(member)
        each = 2 * 8 * shape.width * max(len(known) + len(given), 1)
        stripes = min(member.exchange(max(memory // each, 1))) * member.size
        return cls(known, given, columns, folder, stripes, shape, member)

    @property
    def order(self) -> Order:
        """Of the columns, from the highest."""
        return Order(self.columns, backward=True)

    @property
    def width(self) -> int:
        """Words of a stripe."""
        return self.shape.width

    def leads(self) -> NDArray[np.int64]:
        """The leading columns of the eliminators, looked for in pieces."""
        step = max(_PIECE // (8 * max(self.order.words, 1)), 1)
        found = [np.empty(0, np.int64)]
        for first in range(0, len(self.eliminators), step):
            words = np.array(self.eliminators[first : first + step], np.uint64)
            found.append(
                leading_columns(
                    BitMatrix.from_words(words, self.columns, device=self.member.device)
                )
            )
        return np.concatenate(found)

    def prepare(self, given: tuple[Name, Name]) -> None:
        """Goes on where an elimination of the same files ended, or begins anew."""
        stamps = [
            [str(Path(p).absolute()), Path(p).stat().st_size, Path(p).stat().st_mtime_ns]
            for p in given
        ]
        about = {
            "files": stamps,
            "columns": self.columns,
            "stripes": self.stripes,
            "width": self.width,
        }
        if self._said().get("about") == about:
            return
        for path in [*self.folder.glob("pivots-*"), self.folder / _FINISHED, self.result]:
            path.unlink(missing_ok=True)
        size = packed_bytes(len(self.rows), self.columns)
        require_room(self.folder, size + 8 * self.order.words * (WORD + len(self.rows)))
        with self.result.open("wb") as file:
            file.write(packed_header(len(self.rows), self.columns))
            file.truncate(size)
        self._say(about, 0)

    @property
    def result(self) -> Path:
        """The result so far."""
        return self.folder / f"result{SUFFIX}"

    def _said(self) -> dict[str, Any]:
        try:
            found = json.loads((self.folder / _FINISHED).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) and self.result.exists() else {}

    def _say(self, about: Any, batches: int) -> None:
        text = json.dumps({"about": about, "batches": batches})
        write_whole(self.folder / _FINISHED, text.encode())

    def run(self, leads: NDArray[np.int64], progress: Progress | None) -> NDArray[np.bool_]:
        """All batches that are left; which rows were promoted."""
        said = self._said()
        stripes = -(-self.order.words // self.width)
        for batch in range(said["batches"], -(-stripes // self.stripes)):
            first = batch * self.stripes
            last = min(first + self.stripes, stripes)
            shares = Shares(self.order, self.width, self.member.size, first, last)
            self._run_batch(shares, leads, progress)
            self.member.barrier()
            if self.member.rank == 0:
                self._say(said["about"], batch + 1)
            self.member.barrier()
        promoted = _Kept(self.folder, len(self.rows)).promoted(stripes)
        # The first process removes the folder next, which the others have to have read by then.
        self.member.barrier()
        return promoted

    def _run_batch(
        self, shares: Shares, leads: NDArray[np.int64], progress: Progress | None
    ) -> None:
        if not len(self.rows):
            return
        own = shares.words(self.member.rank)
        held, given = (np.array(x[:, own], np.uint64) for x in (self.eliminators, self.rows))
        share = Share(given, held, leads, shares, self.member, self.shape)
        del held, given
        follow = None if progress is None else partial(_overall, progress, self.order, self.width)
        kept = _Kept(self.folder, len(self.rows))
        run_stripes(share.work, self.member, share.told, shares.first, shares.last, kept, follow)
        if own.size:
            out = np.memmap(self.result, "<u8", "r+", *_words_at(len(self.rows), self.order.words))
            out[:, own] = share.words()
            out.flush()


def _overall(progress: Progress, order: Order, width: int, stripes: int) -> None:
    progress(min(stripes * width / order.words, 1.0))


def _words_at(rows: int, words: int) -> tuple[int, tuple[int, int]]:
    """Where the words of a packed file are, and their shape."""
    return packed_bytes(0, 0), (rows, words)


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is told of stripes' pivots, a file each."""

    folder: Path
    rows: int

    def _path(self, stripe: int) -> Path:
        return self.folder / f"pivots-{stripe:06d}"

    def read(self, stripe: int) -> Words:
        """That of a stripe, a row for each panel."""
        return np.fromfile(self._path(stripe), np.uint64).reshape(-1, WORD + self.rows)

    def write(self, stripe: int, told: Words) -> None:
        """Keeps that of a stripe."""
        with writing_whole(self._path(stripe)) as file:
            file.write(np.ascontiguousarray(told).data)

    def promoted(self, stripes: int) -> NDArray[np.bool_]:
        """Which rows are pivots of one of so many stripes."""
        found = np.zeros(self.rows, np.bool_)
        for stripe in range(stripes if self.rows else 0):
            told = np.memmap(self._path(stripe), np.int64, "r").reshape(-1, WORD + self.rows)
            sources = told[:, :WORD]
            found[sources[sources >= 0]] = True
        return found


def _finish(work: _Work, out: Path) -> None:
    """The result takes its name, and what was needed for it goes."""
    if out.suffix == SUFFIX:
        work.result.replace(out)
    else:
        words: Words = map_packed(work.result)[0]
        with writing_whole(out, size=text_bytes(words, work.columns)) as file:
            write_lines(file, words, work.columns)
    shutil.rmtree(work.folder)
