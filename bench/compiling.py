"""Compiles ahead what a run will need, on all cores, before anything is timed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from threading import Condition, Thread
from time import monotonic
from typing import Final

from portable.backend import Device
from portable.registry import use
from portable_bench.harness import on_device
from portable_bench.operation import Case, Operation
from portable_bench.plan import Planned

_MOMENT: Final = 0.2


def distinct(planned: Sequence[Planned]) -> list[Planned]:
    """The first case of each operation, type and device: what others compile is mostly the same."""
    programs: dict[object, Planned] = {}
    for operation, case in planned:
        programs.setdefault((operation, case.dtype, case.device), (operation, case))
    return list(programs.values())


def shares(planned: Sequence[Planned], helpers: int) -> tuple[list[Planned], list[list[Planned]]]:
    """What the process that measures compiles, and what helpers compile for it, in order.

    Some compilers work for one thread of a process at a time. A helper's programs are found on
    disk by all, where the device keeps them. So the process that measures takes first what no
    helper can do, then goes through the rest from the end and finds more and more of it done.
    """
    kept = [p for p in planned if p[1].device.keeps_programs]
    kept_here = [p for p in planned if not p[1].device.keeps_programs]
    # Types of one operation on one device have programs in common.
    groups = list(dict.fromkeys((operation, case.device) for operation, case in kept))
    numbers = {group: i for i, group in enumerate(groups)}
    shares_of: list[list[Planned]] = [[] for _ in range(helpers)]
    for operation, case in kept if helpers else ():
        shares_of[numbers[operation, case.device] % helpers].append((operation, case))
    return [*kept_here, *reversed(kept)], shares_of


class Compiling:
    """Runs each case once, several devices beside each other.

    Whatever fails will fail again when its turn comes, and is told then.

    Parameters
    ----------
    planned : sequence
        Operations with the cases to measure them in.
    """

    def __init__(self, planned: Sequence[Planned]) -> None:
        self._waiting = list(planned)
        self._total = len(planned)
        self._busy: set[Device] = set()
        self._done = 0
        self._changed = Condition()
        # What compilers remark is told, if at all, when the case's turn comes.
        self._quiet = ExitStack()
        self._quiet.enter_context(warnings.catch_warnings(action="ignore"))
        self._threads = [Thread(target=self._work, daemon=True) for _ in range(self._at_once())]
        for thread in self._threads:
            thread.start()

    def _at_once(self) -> int:
        return min(len({case.device for _, case in self._waiting}), os.cpu_count() or 1)

    def wait(self, seconds: float = _MOMENT) -> tuple[int, int]:
        """How many are done, after the next one or some time at most, and how many there are."""
        with self._changed:
            before = self._done
            self._changed.wait_for(lambda: self._done > before or before == self._total, seconds)
            return self._done, self._total

    def stop(self, patience: float | None = None) -> bool:
        """Begin no more, and wait for those under way, some seconds at most; whether they ended."""
        with self._changed:
            self._waiting.clear()
            self._changed.notify_all()
        latest = None if patience is None else monotonic() + patience
        for thread in self._threads:
            thread.join(None if latest is None else max(0.0, latest - monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            return False
        self._quiet.close()
        return True

    def _work(self) -> None:
        while (planned := self._next()) is not None:
            operation, case = planned
            with use(case.device), suppress(Exception):
                _run_once(operation, case)
            with self._changed:
                self._busy.remove(case.device)
                self._done += 1
                self._changed.notify_all()

    def _next(self) -> Planned | None:
        """The first whose device is free: not every library lets several threads use a queue."""
        with self._changed:
            while self._waiting:
                for planned in self._waiting:
                    if planned[1].device not in self._busy:
                        self._waiting.remove(planned)
                        self._busy.add(planned[1].device)
                        return planned
                self._changed.wait()
            return None


def _run_once(operation: Operation, case: Case) -> None:
    inputs = operation.inputs(case)
    for contender in operation.contenders(case):
        if not contender.peer:
            given = on_device(contender, inputs)
            contender.prepare(*given)()
    case.device.synchronize()
