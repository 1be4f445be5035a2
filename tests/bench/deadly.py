"""Contenders that end, block or spoil the process that they run in; pickled to get there."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from portable.errors import DeviceFaultError
from tests.bench.fakes import FakeClock, FakeDevice, Script, Scripted
from tests.support.patience import PATIENCE


def find(name: str) -> FakeDevice:
    return FakeDevice(name)


def die(now: float) -> float:
    os.kill(os.getpid(), signal.SIGSEGV)
    return now


def fall_over(now: float) -> float:
    raise DeviceFaultError("an earlier kernel failed")


def block(now: float) -> float:
    time.sleep(2 * PATIENCE)
    return now


def interrupt(now: float) -> float:
    """As Ctrl-C would while the process that asked waits for this one."""
    os.kill(os.getppid(), signal.SIGALRM)
    return block(now)


def as_its_process(now: float) -> float:
    """So that the time tells which process measured."""
    return float(os.getpid())


def held(now: float) -> float:
    """Fails where libraries would be held back."""
    names = ("OPENBLAS_CORETYPE", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
    found = [name for name in names if name in os.environ]
    if found:
        raise RuntimeError(f"held by {found}")
    return now


def scripted(name: str, seconds: Callable[[float], float]) -> Scripted:
    operation = Scripted(FakeClock(), {"ours": Script(seconds)})
    operation.name = name
    return operation
