"""Evaluators and problems that end their process, block it or break the device, when told to."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from portable.backend import Device
from portable.dtypes import DType
from portable.errors import DeviceFaultError
from portable.tune.cli import Evaluator, evaluator_for
from portable.tune.search import Trial
from portable.tune.space import Parameters
from portable.tune.tunable import Size
from tests.support.patience import PATIENCE


def obey(choice: Parameters) -> None:
    """Does what the choice names."""
    match choice["X"]:
        case "die":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "leave":
            os._exit(3)
        case "block":
            time.sleep(2 * PATIENCE)
        case "interrupt":
            os.kill(os.getppid(), signal.SIGALRM)
            time.sleep(2 * PATIENCE)
        case "break":
            raise DeviceFaultError("an earlier kernel failed")


def evaluator() -> Any:
    """Answers with the number of the process."""

    def evaluate(choice: Parameters, best: float) -> Trial:
        obey(choice)
        return Trial(choice, float(os.getpid()))

    return evaluate


def failing_evaluator() -> Any:
    raise MemoryError("no room for the operands")


def vanishing_evaluator() -> Any:
    os._exit(4)


class Planted:
    """A problem of which the choice says what it does, and how long the device takes for it.

    It is a timer, too, of which all copies show the same time: that of the device.
    """

    def __init__(self) -> None:
        self._now = self._begun = self._ended = 0.0

    def run(self, choice: Parameters) -> None:
        obey(choice)
        self._now += 1e-4 if choice["X"] == "fast" else 1e-2

    def error(self) -> float:
        return 0.0

    def start(self) -> None:
        self._begun = self._now

    def stop(self) -> None:
        self._ended = self._now

    def seconds(self) -> float:
        return self._ended - self._begun


def planted_problem(device: Device, dtype: DType, size: Size) -> Planted:
    """On a device, of this process alone, whose time passes as the problem says."""
    problem = Planted()
    device.timer = lambda: problem  # type: ignore[method-assign]
    return problem


def planted_evaluator(kernel: str, device: str, kind: str, size: Size) -> Evaluator:
    """In place of `portable.tune.cli.evaluator_of`, which finds what is installed."""
    return evaluator_for(planted_problem, device, kind, size)
