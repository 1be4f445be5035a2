"""The folder of an elimination in batches that is not finished, and whether it is intact.

Whatever is in it has a checksum: a process may be killed and a disk be full at any time, and what
goes on from damaged pivots would give another result without a word.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from portable.errors import DataError
from portable.gf2.layout import WORD
from portable.gf2.packed_file import SUFFIX, Words, packed_bytes, packed_header, word_count
from portable.gf2.text import Name
from portable.system.files import require_room, target_of, write_whole, writing_whole

_FORMAT: Final = 2
_PIECE: Final = 1 << 26


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
        return self.folder / f"{name[0]}{SUFFIX}"

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
        with writing_whole(self.path(name), size=packed_bytes(*shape)) as file:
            for piece in (packed_header(*shape), *pieces()):
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
        return self.folder / f"result{SUFFIX}"

    def begin(self, about: Any) -> None:
        """Begins anew."""
        for path in [*self.folder.glob("pivots-*"), _finished(self.folder), self.result]:
            path.unlink(missing_ok=True)
        size = packed_bytes(self.rows, self.columns)
        require_room(self.folder, size + 8 * word_count(self.columns) * (WORD + self.rows))
        with self.result.open("wb") as file:
            file.write(packed_header(self.rows, self.columns))
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
        header = packed_header(self.rows, self.columns)
        intact = _begins_with(self.result, header, packed_bytes(self.rows, self.columns))
        if not intact or any(
            total != self._sum_of(words_held)
            for total, words_held in zip(sums, words, strict=False)
        ):
            raise self._damaged(self.result)
        for stripe in range(stripes if self.rows else 0):
            self.read(stripe)

    # -- pivots -----------------------------------------------------------------------------------

    def read(self, stripe: int) -> Words:
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

    def write(self, stripe: int, told: Words) -> None:
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
        shape = (self.rows, word_count(self.columns))
        return np.memmap(self.result, "<u8", mode, packed_bytes(0, 0), shape)

    def _sum_of(self, words: slice) -> int:
        """The checksum of some words of each row."""
        total = 0
        if self.rows and words.stop > words.start:
            mapped = self.mapped()
            step = max(_PIECE // (8 * (words.stop - words.start)), 1)
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
        while piece := file.read(_PIECE):
            total = zlib.crc32(piece, total)
    return total
