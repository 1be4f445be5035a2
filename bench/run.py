"""A run: what is to be measured, in a process where nothing holds libraries back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portable.backend import Device
from portable_bench.environment import environment, now, peers
from portable_bench.harness import Pace
from portable_bench.keeper import Keeper
from portable_bench.matrix import measure_all
from portable_bench.plan import Planned
from portable_bench.results import Results
from portable_bench.unheld import cores_given
from portable_bench.worker import Worker


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
