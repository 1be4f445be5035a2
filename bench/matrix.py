"""Measures one case after the other, in the time there is, and shows how far it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from math import inf
from typing import Final, Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from portable_bench.harness import Pace, failed
from portable_bench.operation import Case, Operation, Size
from portable_bench.plan import Planned
from portable_bench.results import Cell

_SECONDS: Final = 10.0


class Heartbeat:
    """A block during which what is done is told again and again.

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

_COMPILING_SHARE: Final = 0.5
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
