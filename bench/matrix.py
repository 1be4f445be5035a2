"""Measures one case after the other, in the time there is, and shows how far it is."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from portable_bench.harness import Harness
from portable_bench.plan import Planned
from portable_bench.results import Cell

__all__ = ["measure_all"]

_TIMED_SHARE: Final = 0.4
"""Of a cell's time; the rest is for compiling, the inputs and the verification."""


def measure_all(
    planned: Sequence[Planned],
    harness: Harness,
    *,
    ladder: bool = False,
    budget: float | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Cell]:
    """Measure the cases in turn; an interrupt ends the run and keeps what is finished.

    Parameters
    ----------
    planned : sequence
        Operations with the cases to measure them in.
    harness : Harness
        What measures them.
    ladder : bool
        Whether every algorithm is measured.
    budget : float, optional
        Seconds to share out. Cells whose turn comes after them are left out, with that as the
        reason.
    clock : callable
        The host's.
    """
    cells: list[Cell] = []
    deadline = None if budget is None else clock() + budget
    pace = harness.pace
    with _progress() as progress:
        task = progress.add_task("", total=len(planned))
        try:
            for operation, case in planned:
                size = operation.label(case.size)
                under_way = f"{operation.name} {size} {case.dtype.short} on {case.device.name}"
                progress.update(task, description=under_way)
                if deadline is not None:
                    share = (deadline - clock()) / (len(planned) - len(cells))
                    harness.pace = dataclasses.replace(
                        pace, cell=min(pace.cell, _TIMED_SHARE * share)
                    )
                if deadline is not None and clock() > deadline:
                    cells.append(harness.left_out(operation, case, f"the {budget:g} s were over"))
                else:
                    cells.append(harness.measure(operation, case, ladder=ladder))
                progress.advance(task)
        except KeyboardInterrupt:
            progress.console.print(f"interrupted after {len(cells)} of {len(planned)} cells")
        finally:
            harness.pace = pace
    return cells


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
