"""The special elimination of matrices larger than memory, in batches of columns.

Files of packed words are memory-mapped. For each batch its columns are read, the pivots of all
earlier batches are applied to them, pivots of its own are chosen, and its columns of the result are
written. Beside the result lies, until all is done, a folder with the pivots so far and what says
how many batches are finished; from there an elimination that was ended goes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from portable.errors import ShapeError
from portable.gf2.eliminate import leading_columns, one_lead_each
from portable.gf2.elimination import Progress
from portable.gf2.layout import Order
from portable.gf2.matrix import BitMatrix
from portable.gf2.packed_file import SUFFIX, Words, is_packed, map_packed, require_clear_padding
from portable.gf2.shared_out import Share, Shares, run_stripes, shape_for_all
from portable.gf2.text import Files, Name, read_rows, shape_of, text_bytes, widened, write_lines
from portable.gf2.tuning import Shape
from portable.gf2.unfinished import (
    Copies,
    Unfinished,
    clear_folder,
    is_begun,
    stamp,
    unfinished_folder,
)
from portable.parallel.member import Member
from portable.system.files import locked_folder, put_in_place, writing_whole

# How work from file to file reports its progress.

Stages = Callable[[str, float], None]
"""Called with a stage ("eliminators", "rows", "elimination", "result") and the part done."""


def stage(stages: Stages | None, name: str) -> Progress | None:
    """What is called with the part of one stage that is done."""
    return None if stages is None else lambda done: stages(name, done)


# -- batches ---------------------------------------------------------------------------------------

_PIECE: Final = 1 << 28


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
        Called with a stage and the part of it that is done.

    Returns
    -------
    array of bool
        Which rows were promoted.
    """
    folder = unfinished_folder(files.out)
    with ExitStack() as stack:
        with member.agreeing():
            if member.rank == 0:
                busy = "another elimination into this file is at work; wait, or name another `out`"
                stack.enter_context(locked_folder(folder, busy))
                stack.callback(_clear_unless_begun, folder)
        return _in_batches(files, folder, memory, member, stages)


def _clear_unless_begun(folder: Path) -> None:
    if not is_begun(folder):
        clear_folder(folder)


def _in_batches(
    files: Files, folder: Path, memory: int, member: Member, stages: Stages | None
) -> NDArray[np.bool_]:
    given = files.eliminators, files.rows
    with member.agreeing():
        stamps = [stamp(path) for path in given]  # as they are before they are read
        names = _packed_inputs(files, Copies(folder), stamps, member.rank == 0, stages)
    work = _Work.of(names, folder, memory, member)
    with member.agreeing():
        leads = work.leads()
        one_lead_each(leads, lambda i: f"{os.fspath(files.eliminators)}, line {i + 1}")
        if member.rank == 0:
            work.prepare(stamps)
    promoted = work.run(leads, stamps, stage(stages, "elimination"))
    with member.agreeing():
        if member.rank == 0:
            _finish(work, Path(files.out))
    return promoted


# -- inputs ---------------------------------------------------------------------------------------


def _packed_inputs(
    files: Files, copies: Copies, stamps: list[Any], packs: bool, stages: Stages | None
) -> tuple[Path, Path]:
    """The files, or packed copies of those that are text or of fewer columns.

    Copies are written, and files looked through, by the member that `packs`.
    """
    given = files.eliminators, files.rows
    shapes = [shape_of(path, files.columns) for path in given]
    columns = max(shape[1] for shape in shapes)
    names = []
    for path, (rows, word), name, source in zip(
        given, shapes, ("eliminators", "rows"), stamps, strict=True
    ):
        if is_packed(path) and word == columns:
            names.append(Path(path))
            if packs:
                require_clear_padding(path, map_packed(path)[0], word)
            continue
        names.append(copies.path(name))
        if packs and not copies.has(name, source, (rows, columns)):
            pieces = partial(_pieces, path, (rows, columns), stage(stages, name))
            copies.make(name, source, (rows, columns), pieces)
    return names[0], names[1]


def _pieces(path: Name, shape: tuple[int, int], progress: Progress | None) -> Iterator[Any]:
    """A file's rows in pieces, as packed words for so many columns."""
    count = -(-Path(path).stat().st_size // _PIECE) or 1
    columns = None if is_packed(path) else shape[1]
    for number in range(count):
        words, _ = read_rows(path, columns, share=(number, count))
        yield widened(words, shape[1]).astype("<u8", copy=False).data
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
        leads = [np.empty(0, np.int64)]
        for first in range(0, len(self.eliminators), step):
            words = np.array(self.eliminators[first : first + step], np.uint64)
            leads.append(
                leading_columns(
                    BitMatrix.from_words(words, self.columns, device=self.member.device)
                )
            )
        return np.concatenate(leads)

    @property
    def kept(self) -> Unfinished:
        """What is kept on disk."""
        return Unfinished(self.folder, len(self.rows), self.columns)

    def about(self, stamps: list[Any]) -> dict[str, Any]:
        """What an elimination has to share with an earlier one that it goes on from."""
        return {
            "files": stamps,
            "columns": self.columns,
            "stripes": self.stripes,
            "width": self.width,
        }

    def batches(self) -> list[Shares]:
        """Who has what, batch by batch."""
        count = -(-self.order.words // self.width)
        return [
            Shares(
                self.order, self.width, self.member.size, first, min(first + self.stripes, count)
            )
            for first in range(0, count, self.stripes)
        ]

    def prepare(self, stamps: list[Any]) -> None:
        """Goes on where an elimination of the same files ended, or begins anew."""
        if not self.kept.goes_on(self.about(stamps)):
            self.kept.begin(self.about(stamps))
            return
        batches = self.batches()
        ended = min(self.kept.batches(), len(batches))
        stripes = batches[ended - 1].last if ended else 0
        self.kept.require_intact([_words_of(shares) for shares in batches], stripes)

    def run(
        self, leads: NDArray[np.int64], stamps: list[Any], progress: Progress | None
    ) -> NDArray[np.bool_]:
        """All batches that are left; which rows were promoted."""
        batches = self.batches()
        for shares in batches[self.kept.batches() :]:
            self._run_batch(shares, leads, progress)
            self.member.barrier()
            if self.member.rank == 0:
                self.kept.finish_batch(self.about(stamps), _words_of(shares))
            self.member.barrier()
        promoted = self.kept.promoted(batches[-1].last if batches else 0)
        # The first process removes the folder next, which the others have to have read by then.
        self.member.barrier()
        return promoted

    def _run_batch(
        self, shares: Shares, leads: NDArray[np.int64], progress: Progress | None
    ) -> None:
        if not len(self.rows):
            return
        share_here = shares.words(self.member.rank)
        held, given = (np.array(x[:, share_here], np.uint64) for x in (self.eliminators, self.rows))
        share = Share(given, held, leads, shares, self.member, self.shape)
        del held, given
        follow = None if progress is None else partial(_overall, progress, self.order, self.width)
        given_to = share.work, self.member, share.told
        run_stripes(*given_to, shares.first, shares.last, self.kept, follow)
        if share_here.size:
            out = self.kept.mapped("r+")
            out[:, share_here] = share.words()
            out.flush()


def _overall(progress: Progress, order: Order, width: int, stripes: int) -> None:
    progress(min(stripes * width / order.words, 1.0))


def _words_of(shares: Shares) -> slice:
    """The words of a row that a batch is; columns are taken from the highest."""
    words = shares.order.words
    return slice(
        words - min(shares.last * shares.width, words), words - shares.first * shares.width
    )


def _finish(work: _Work, out: Path) -> None:
    """The result takes its name, and what was needed for it goes."""
    if out.suffix == SUFFIX:
        put_in_place(work.kept.result, out)
    else:
        words: Words = map_packed(work.kept.result)[0]
        with writing_whole(out, size=text_bytes(words, work.columns)) as file:
            write_lines(file, words, work.columns)
    clear_folder(work.folder)
