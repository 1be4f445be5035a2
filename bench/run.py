"""A run: what is to be measured, in a process where nothing holds libraries back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any, Final, Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from portable.backend import Device
from portable.errors import DataError
from portable_bench.environment import environment, now, peers
from portable_bench.harness import Pace, failed
from portable_bench.operation import Case, Operation, Size
from portable_bench.plan import Planned
from portable_bench.results import Cell, Results, line, load, write_lines
from portable_bench.worker import Worker, cores_given

# Keeps the cells of a run in its file as they are finished, and what was there before.

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
        """Keeps one more cell; a file that cannot be written is reported once, and tried again."""
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


# Measures one case after the other, in the time there is, and shows how far it is.

_SECONDS: Final = 10.0


class Heartbeat:
    """A block during which progress is reported again and again.

    Parameters
    ----------
    said : callable
        Gives the line.
    tell : callable or None
        Takes it; None: nothing is told.
    seconds : float
        How long between two lines.
    """

    def __init__(
        self,
        said: Callable[[], str],
        tell: Callable[[str], None] | None,
        seconds: float = _SECONDS,
    ) -> None:
        self._said, self._tell, self._seconds = said, tell, seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        if self._tell is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        assert self._tell is not None
        while not self._over.wait(self._seconds):
            self._tell(self._said())


_COMPILING: Final = 300.0
"""Seconds at most; what is not compiled by then is when its turn comes."""

_COMPILING_SHARE: Final = 0.65
"""Of a run's time at most."""

_PATIENCE: Final = 4
_TIMED_SHARE: Final = 0.4
"""Of a cell's time; the rest is for the inputs, the verification and the libraries' first runs."""


class Measurer(Protocol):
    """What measures cells: a `Worker`, or something that behaves as a test tells it to."""

    pace: Pace

    def measure(self, operation: Operation, case: Case, *, ladder: bool = False) -> Cell:
        """The cell of a case; whatever fails is noted in it."""

    def compile(
        self, planned: Sequence[Planned], tick: Callable[[int, int], None], late: Callable[[], bool]
    ) -> None:
        """Compile what will be needed, until it is late."""


def measure_all(
    planned: Sequence[Planned],
    measurer: Measurer,
    *,
    ladder: bool = False,
    ahead: bool = False,
    budget: float | None = None,
    keep: Callable[[Cell], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Cell]:
    """Measure the cases in turn; an interrupt ends the run and keeps what is finished.

    Parameters
    ----------
    planned : sequence
        Operations with the cases to measure them in.
    measurer : Measurer
        What measures them.
    ladder : bool
        Whether every algorithm is measured.
    ahead : bool
        Whether programs are compiled on all cores first.
    budget : float, optional
        Seconds to share out. Cells whose turn comes after them are left out, with that as the
        reason.
    keep : callable, optional
        Given each cell when it is finished.
    clock : callable
        The host's.
    """
    cells: list[Cell] = []
    deadline = inf if budget is None else clock() + budget
    pace = measurer.pace
    now = "compiling"
    with ExitStack() as entered:
        progress = entered.enter_context(_progress())
        tell = None if progress.console.is_terminal else progress.console.print
        entered.enter_context(
            Heartbeat(lambda: f"{len(cells)} of {len(planned)} cells; now {now}", tell)
        )
        try:
            if ahead:
                soon = clock() + min(_COMPILING, _COMPILING_SHARE * (deadline - clock()))
                _compile(planned, measurer, progress, lambda: clock() > soon)
            task = progress.add_task("", total=len(planned))
            for operation, case in planned if budget is None else _in_rounds(planned):
                now = _described(operation, case)
                progress.update(task, description=now)
                share = (deadline - clock()) / (len(planned) - len(cells))
                measurer.pace = pace if budget is None else _in_time(pace, share)
                if share < 0:
                    cells.append(failed(operation, case, f"the {budget:g} s were over"))
                else:
                    cells.append(measurer.measure(operation, case, ladder=ladder))
                if keep is not None:
                    keep(cells[-1])
                progress.advance(task)
        except KeyboardInterrupt:
            progress.console.print(f"interrupted after {len(cells)} of {len(planned)} cells")
        finally:
            measurer.pace = pace
    order = {
        (op.name, c.device.name, c.dtype.short, c.size): i for i, (op, c) in enumerate(planned)
    }
    return sorted(cells, key=lambda c: order[c.operation, c.device, c.dtype, c.size])


def _in_time(pace: Pace, share: float) -> Pace:
    """The pace for a cell that has so many seconds."""
    timed = min(pace.cell, _TIMED_SHARE * share)
    return replace(pace, cell=timed, patience=_PATIENCE * timed)


def _in_rounds(planned: Sequence[Planned]) -> list[Planned]:
    """The first size of every operation before the second of any, so that time is left for all."""
    ranks: dict[str, dict[Size, int]] = {}
    for operation, case in planned:
        rank_of = ranks.setdefault(operation.name, {})
        rank_of.setdefault(case.size, len(rank_of))
    return sorted(planned, key=lambda p: ranks[p[0].name][p[1].size])


def _compile(
    planned: Sequence[Planned], measurer: Measurer, progress: Progress, late: Callable[[], bool]
) -> None:
    task = progress.add_task("compiling on all cores", total=None)

    def tick(done: int, total: int) -> None:
        progress.update(task, completed=done, total=total)

    measurer.compile(planned, tick, late)
    progress.remove_task(task)


def _described(operation: Operation, case: Case) -> str:
    label = operation.label(case.size)
    return f"{operation.name} {label} {case.dtype.short} on {case.device.name}"


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("time left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )


# -- run -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be measured, and how.

    Attributes
    ----------
    planned : sequence
        Operations with the cases to measure them in.
    devices : sequence of Device
        All that were asked for.
    options : dict
        As typed, for the results.
    pace : Pace
        How much time to spend.
    patience : float
        Seconds after which a cell is given up.
    ladder : bool
        Whether every algorithm is measured.
    ahead : bool
        Whether programs are compiled on all cores first.
    budget : float or None
        Seconds for the whole run.
    """

    planned: Sequence[Planned]
    devices: Sequence[Device]
    options: dict[str, Any]
    pace: Pace
    patience: float
    ladder: bool = False
    ahead: bool = False
    budget: float | None = None


def measured(
    job: Job, path: Path | None, tell: Callable[[str], None]
) -> tuple[Results, Callable[[], None]]:
    """The results of a job, kept in a file as they come in.

    Parameters
    ----------
    job : Job
        What is to be measured.
    path : Path or None
        The file.
    tell : callable
        Takes a line for the user.

    Returns
    -------
    Results
        Those that were finished, also where the run was interrupted.
    callable
        Brings the file into its last form; raises OSError where it cannot be written.
    """
    where, cores = environment(job.devices, job.options), cores_given(job.devices)
    with Worker(job.pace, job.patience, cores=cores) as worker:

        def known() -> dict[str, Any]:
            beside = peers(worker.taken_away, worker.libraries, cores)
            return where | {"time": now(), "peers": beside}

        keeper = None if path is None else Keeper(path, known, tell)
        cells = measure_all(
            job.planned,
            worker,
            ladder=job.ladder,
            ahead=job.ahead,
            budget=job.budget,
            keep=keeper.add if keeper else None,
        )
        results = Results(known(), cells)
        return results, lambda: keeper.finish(results) if keeper else None
