"""The special elimination of matrices larger than memory, in batches of columns.

Files of packed words are memory-mapped. For each batch its columns are read, the pivots of all
earlier batches are applied to them, pivots of its own are chosen, and its columns of the result are
written. Beside the result lies, until all is done, a folder with the pivots so far and what says
how many batches are finished; from there an elimination that was ended goes on.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from portable.errors import DataError, ShapeError
from portable.gf2 import packed_file
from portable.gf2.eliminate import leading_columns, one_lead_each
from portable.gf2.elimination import Progress
from portable.gf2.layout import WORD, Order
from portable.gf2.matrix import BitMatrix
from portable.gf2.shared_out import Share, Shares, run_stripes, shape_for_all
from portable.gf2.text import Files, Name, read_rows, shape_of, text_bytes, widened, write_lines
from portable.gf2.tuning import Shape
from portable.parallel.member import Member
from portable.system.files import put_in_place, require_room, target_of, write_whole, writing_whole
from portable.system.locks import locked_folder

# The folder of an elimination in batches that is not finished, and whether it is intact.
#
# Whatever is in it has a checksum: a process may be killed and a disk be full at any time, and what
# goes on from damaged pivots would give another result without a word.

_FORMAT: Final = 2
_SUMMED: Final = 1 << 26


def unfinished_folder(out: Name) -> Path:
    """Where an elimination into `out` keeps what it needs to go on: beside what is written."""
    target = target_of(out)
    return target.with_name(f"{target.name}.unfinished")


def stamp(path: Name) -> list[Any]:
    """What identifies a file, and what it holds by now."""
    status = Path(path).stat()
    return [str(Path(path).absolute()), status.st_ino, status.st_size, status.st_mtime_ns]


@dataclass(frozen=True, slots=True)
class Copies:
    """Packed copies of inputs, each with the stamp of what it was made of."""

    folder: Path

    def path(self, name: str) -> Path:
        """That of an input."""
        return self.folder / f"{name[0]}{packed_file.SUFFIX}"

    def has(self, name: str, source: list[Any], shape: tuple[int, int]) -> bool:
        """Whether there is an intact copy of a file that has not changed, in this shape."""
        said = _read_json(self._list).get(name)
        if not isinstance(said, dict) or not self.path(name).is_file():
            return False
        same = said.get("source") == source and said.get("shape") == list(shape)
        return same and said.get("sum") == _sum_of_file(self.path(name))

    def make(
        self,
        name: str,
        source: list[Any],
        shape: tuple[int, int],
        pieces: Callable[[], Iterator[Any]],
    ) -> None:
        """Writes a copy, from bytes that `pieces` gives in turn."""
        total = 0
        with writing_whole(self.path(name), size=packed_file.packed_bytes(*shape)) as file:
            for piece in (packed_file.packed_header(*shape), *pieces()):
                file.write(piece)
                total = zlib.crc32(piece, total)
        made = _read_json(self._list)
        made[name] = {"source": source, "shape": shape, "sum": total}
        write_whole(self._list, json.dumps(made).encode())

    @property
    def _list(self) -> Path:
        return self.folder / "copies.json"


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Pivots and the result so far.

    Attributes
    ----------
    folder : Path
    rows, columns : int
        Of the result.
    """

    folder: Path
    rows: int
    columns: int

    @property
    def result(self) -> Path:
        """The result so far."""
        return self.folder / f"result{packed_file.SUFFIX}"

    def begin(self, about: Any) -> None:
        """Begins anew."""
        for path in [*self.folder.glob("pivots-*"), _finished(self.folder), self.result]:
            path.unlink(missing_ok=True)
        size = packed_file.packed_bytes(self.rows, self.columns)
        require_room(
            self.folder, size + 8 * packed_file.word_count(self.columns) * (WORD + self.rows)
        )
        with self.result.open("wb") as file:
            file.write(packed_file.packed_header(self.rows, self.columns))
            file.truncate(size)
        self._say(about, [])

    def goes_on(self, about: Any) -> bool:
        """Whether the same elimination ended here.

        Raises
        ------
        DataError
            If what says so cannot be read.
        """
        finished = _finished(self.folder)
        if not finished.exists():
            return False
        said = _read_json(finished)
        if not isinstance(said.get("sums"), list) or "about" not in said:
            if said.get("batches") is not None:  # an earlier version's, which kept no sums
                return False
            raise self._damaged(finished)
        return bool(said["about"] == {"format": _FORMAT, **about})

    def batches(self) -> int:
        """How many batches are finished."""
        return len(_read_json(_finished(self.folder))["sums"])

    def finish_batch(self, about: Any, words: slice) -> None:
        """Notes that one more batch is finished, which is in these words of the result's rows."""
        sums = _read_json(_finished(self.folder))["sums"]
        self._say(about, [*sums, self._sum_of(words)])

    def require_intact(self, words: list[slice], stripes: int) -> None:
        """Refuses to go on from what was damaged.

        Parameters
        ----------
        words : list of slice
            Of the result's rows, for each batch, the finished ones first.
        stripes : int
            How many stripes' pivots are needed.

        Raises
        ------
        DataError
            Naming the folder.
        """
        sums = _read_json(_finished(self.folder))["sums"]
        if len(sums) > len(words):
            raise self._damaged(_finished(self.folder))
        header = packed_file.packed_header(self.rows, self.columns)
        intact = _begins_with(
            self.result, header, packed_file.packed_bytes(self.rows, self.columns)
        )
        if not intact or any(
            total != self._sum_of(words_held)
            for total, words_held in zip(sums, words, strict=False)
        ):
            raise self._damaged(self.result)
        for stripe in range(stripes if self.rows else 0):
            self.read(stripe)

    # -- pivots -----------------------------------------------------------------------------------

    def read(self, stripe: int) -> packed_file.Words:
        """What a stripe broadcast of its pivots, a row for each panel.

        Raises
        ------
        DataError
            If it is damaged, naming the folder.
        """
        path = self._pivots(stripe)
        try:
            numbers = np.fromfile(path, np.uint64)
        except OSError:
            raise self._damaged(path) from None
        told = numbers[1:]
        if (
            not numbers.size
            or told.size % (WORD + self.rows)
            or int(numbers[0]) != zlib.crc32(told.data)
        ):
            raise self._damaged(path)
        return told.reshape(-1, WORD + self.rows)

    def write(self, stripe: int, told: packed_file.Words) -> None:
        """Keeps what a stripe broadcasts of its pivots."""
        held = np.ascontiguousarray(told)
        with writing_whole(self._pivots(stripe)) as file:
            file.write(np.array([zlib.crc32(held.data)], np.uint64).data)
            file.write(held.data)

    def promoted(self, stripes: int) -> NDArray[np.bool_]:
        """Which rows are pivots of one of so many stripes."""
        flags = np.zeros(self.rows, np.bool_)
        for stripe in range(stripes if self.rows else 0):
            sources = self.read(stripe)[:, :WORD].astype(np.int64)
            flags[sources[sources >= 0]] = True
        return flags

    def _pivots(self, stripe: int) -> Path:
        return self.folder / f"pivots-{stripe:06d}"

    # -- the result -------------------------------------------------------------------------------

    def mapped(self, mode: Any = "r") -> Any:
        """The words of the result so far, in its file."""
        shape = (self.rows, packed_file.word_count(self.columns))
        return np.memmap(self.result, "<u8", mode, packed_file.packed_bytes(0, 0), shape)

    def _sum_of(self, words: slice) -> int:
        """The checksum of some words of each row."""
        total = 0
        if self.rows and words.stop > words.start:
            mapped = self.mapped()
            step = max(_SUMMED // (8 * (words.stop - words.start)), 1)
            for first in range(0, self.rows, step):
                held = np.ascontiguousarray(mapped[first : first + step, words])
                total = zlib.crc32(held.data, total)
        return total

    # -- what is said -----------------------------------------------------------------------------

    def _say(self, about: Any, sums: list[int]) -> None:
        said = {"about": {"format": _FORMAT, **about}, "sums": sums}
        write_whole(_finished(self.folder), json.dumps(said).encode())

    def _damaged(self, path: Path) -> DataError:
        return DataError(
            f"{self.folder} cannot be gone on from: {path.name} in it is damaged. Remove the "
            "folder to begin anew"
        )


def clear_folder(folder: Path) -> None:
    """Removes what an elimination keeps in its folder, and nothing else that is in it."""
    for name in ("pivots-*", "?.gf2", "result.gf2", "*.json", ".*.unfinished"):
        for path in folder.glob(name):
            path.unlink(missing_ok=True)


def is_begun(folder: Path) -> bool:
    """Whether there is anything to go on from."""
    return _finished(folder).exists()


def _finished(folder: Path) -> Path:
    return folder / "finished.json"


def _begins_with(path: Path, header: bytes, size: int) -> bool:
    """Whether there is a file of this size with this header."""
    try:
        with path.open("rb") as file:
            return file.read(len(header)) == header and os.fstat(file.fileno()).st_size == size
    except OSError:
        return False


def _read_json(path: Path) -> dict[str, Any]:
    """What was said; nothing where that cannot be read."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _sum_of_file(path: Path) -> int:
    total = 0
    with path.open("rb") as file:
        while piece := file.read(_SUMMED):
            total = zlib.crc32(piece, total)
    return total


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
        if packed_file.is_packed(path) and word == columns:
            names.append(Path(path))
            if packs:
                packed_file.require_clear_padding(path, packed_file.map_packed(path)[0], word)
            continue
        names.append(copies.path(name))
        if packs and not copies.has(name, source, (rows, columns)):
            pieces = partial(_pieces, path, (rows, columns), stage(stages, name))
            copies.make(name, source, (rows, columns), pieces)
    return names[0], names[1]


def _pieces(path: Name, shape: tuple[int, int], progress: Progress | None) -> Iterator[Any]:
    """A file's rows in pieces, as packed words for so many columns."""
    count = -(-Path(path).stat().st_size // _PIECE) or 1
    columns = None if packed_file.is_packed(path) else shape[1]
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
        (known, wide), (given, columns) = (packed_file.map_packed(name) for name in names)
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
    if out.suffix == packed_file.SUFFIX:
        put_in_place(work.kept.result, out)
    else:
        words: packed_file.Words = packed_file.map_packed(work.kept.result)[0]
        with writing_whole(out, size=text_bytes(words, work.columns)) as file:
            write_lines(file, words, work.columns)
    clear_folder(work.folder)
