"""What comes of faults, by asking a worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_CHECKED = {"PORTABLE_CHECK": "1", "PORTABLE_CACHE": "0"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run.

    Attributes
    ----------
    found_by : str
        The kind of detector that spoke, as in `fault.Detector`; ``""`` for none, ``"other"`` for
        another exception.
    message : str
        What it said.
    seconds : float
        How long the run took.
    """

    found_by: str
    message: str
    seconds: float


class Trials:
    """A worker that is waiting for names of faults and of runs."""

    def __init__(self, worker: subprocess.Popen[str]) -> None:
        self._worker = worker

    def outcome(self, name: str) -> Outcome:
        """What comes of a fault, or of a run without one."""
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        self._worker.stdin.write(name + "\n")
        self._worker.stdin.flush()
        return Outcome(**json.loads(self._worker.stdout.readline()))


@contextmanager
def trials(device: str = "simulator") -> Iterator[Trials]:
    """A worker for as long as the context lasts."""
    command = [sys.executable, "-m", "tests.faults.worker"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    checks = {} if device == "simulator" else _CHECKED
    env = os.environ | {"PORTABLE_BACKEND": device} | checks
    with subprocess.Popen(command, cwd=_ROOT, text=True, env=env, **pipes) as worker:
        yield Trials(worker)
