"""Keeps the cells of a run in its file as they are finished, and what was there before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from portable.errors import DataError
from portable_bench.results import Cell, Results, line, load, write_lines

_Key = tuple[str, str, str, tuple[int, ...]]


class Keeper:
    """Writes a file of results after every cell, so that nothing is lost however the run ends.

    Results that were there before are kept under another name until the new ones have all that
    they have. What is no regular file, such as a pipe, is written once, at the end.

    Parameters
    ----------
    path : Path
        The file.
    environment : callable
        What to write beside the cells while the run goes on, as of now.
    tell : callable
        Takes a line for the user.
    """

    def __init__(
        self, path: Path, environment: Callable[[], dict[str, Any]], tell: Callable[[str], None]
    ) -> None:
        self._once = _is_no_file(path)
        self._path = path if self._once else path.resolve()
        self._environment = environment
        self._tell = tell
        self._lines: list[str] = []
        self._earlier: Path | None = None
        self._written = False
        self._failure: OSError | None = None

    def add(self, cell: Cell) -> None:
        """Keeps one more cell; a file that cannot be written is told once, and tried again."""
        self._lines.append(line(cell))
        if self._once:
            return
        try:
            self._write(self._environment())
        except OSError as error:
            if self._failure is None:
                self._tell(f"{self._path} cannot be written for now: {error.strerror}")
            self._failure = error

    def finish(self, results: Results) -> None:
        """Writes all cells in their order, and removes earlier results if it has all of theirs.

        Parameters
        ----------
        results : Results
            What the run returns. The file then agrees with all else that is made of them, in the
            time, too.

        Raises
        ------
        OSError
            If the file cannot be written; earlier results then have their name again.
        """
        if not results.cells:
            self._tell(f"no cell was finished: nothing is written to {self._path}")
            return
        self._lines = [line(cell) for cell in results.cells]
        self._write(results.environment)
        if self._earlier is not None:
            self._compare(self._earlier, results.cells)

    def _write(self, environment: dict[str, Any]) -> None:
        if not (self._written or self._once):
            self._set_aside()
        try:
            write_lines(self._path, environment, self._lines)
        except OSError:
            self._put_back()
            raise
        self._written = True

    def _set_aside(self) -> None:
        if self._path.is_file() and self._path.stat().st_size > 0:
            self._earlier = _free_name(self._path)
            self._path.rename(self._earlier)

    def _put_back(self) -> None:
        """Earlier results get their name back as long as there are none in their place."""
        if self._earlier is not None and not self._written:
            self._earlier.rename(self._path)
            self._earlier = None

    def _compare(self, earlier: Path, cells: Sequence[Cell]) -> None:
        try:
            lacking = len(_timed(load(earlier).cells) - _timed(cells))
        except DataError:
            self._tell(f"what was in {self._path} is no results of this version: kept as {earlier}")
            return
        if lacking:
            self._tell(
                f"{self._path} lacks {lacking} cells of the earlier results, kept as {earlier}"
            )
        else:
            earlier.unlink()


def _is_no_file(path: Path) -> bool:
    """Whether this is a pipe or the like, or stands for what is open already."""
    if path.absolute().is_relative_to("/dev") or path.absolute().is_relative_to("/proc"):
        return True
    return path.exists() and not path.is_file()


def _timed(cells: Sequence[Cell]) -> set[_Key]:
    """The cells with timings of ours."""
    return {
        (cell.operation, cell.device, cell.dtype, cell.size)
        for cell in cells
        if any(outcome.timed for outcome in cell.ours)
    }


def _free_name(path: Path) -> Path:
    """Beside the file, and not in use: ``run.earlier.json``, ``run.earlier-2.json``, ..."""
    name, count = path.with_name(f"{path.stem}.earlier{path.suffix}"), 1
    while name.exists():
        count += 1
        name = path.with_name(f"{path.stem}.earlier-{count}{path.suffix}")
    return name
