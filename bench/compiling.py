"""Compiles ahead what a run will need, on all cores, before anything is timed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import groupby
from threading import Event

from portable.registry import use
from portable_bench.harness import on_device
from portable_bench.operation import Case, Operation
from portable_bench.plan import Planned

__all__ = ["compile_ahead"]


def compile_ahead(
    planned: Sequence[Planned],
    done: Callable[[], None],
    late: Callable[[], bool] = lambda: False,
) -> None:
    """Run the first case of each operation and type once, the devices beside each other.

    Whatever fails will fail again when its turn comes, and is told then.

    Parameters
    ----------
    planned : sequence
        Operations with the cases to measure them in.
    done : callable
        Called after each case.
    late : callable
        Whether it is time to stop.
    """
    first: dict[object, Planned] = {}
    for operation, case in planned:
        first.setdefault((operation, case.dtype, case.device), (operation, case))
    ordered = sorted(first.values(), key=lambda p: p[1].device.name)
    by_device = [list(cases) for _, cases in groupby(ordered, lambda p: p[1].device.name)]
    executor = ThreadPoolExecutor(min(len(by_device), os.cpu_count() or 1))
    interrupted = Event()

    def stopped() -> bool:
        return interrupted.is_set() or late()

    try:
        # What compilers remark is told, if at all, when the case's turn comes.
        with warnings.catch_warnings(action="ignore"):
            # A device has one thread: not every library lets several use a queue at once.
            list(executor.map(lambda cases: _run(cases, done, stopped), by_device))
    finally:
        interrupted.set()
        executor.shutdown(cancel_futures=True)


def _run(planned: Sequence[Planned], done: Callable[[], None], stopped: Callable[[], bool]) -> None:
    for operation, case in planned:
        if stopped():
            return
        with use(case.device), suppress(Exception):
            _run_once(operation, case)
        done()


def _run_once(operation: Operation, case: Case) -> None:
    inputs = operation.inputs(case)
    for contender in operation.contenders(case):
        if not contender.peer:
            given = on_device(contender, inputs)
            contender.prepare(*given)()
    case.device.synchronize()
