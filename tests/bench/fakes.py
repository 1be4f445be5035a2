"""A device, a clock and an operation that behave as a test tells them to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from portable.backend import ArrayView, Device, Executable, Program
from portable.dtypes import DType, float32
from portable.tune.stopwatch import Timing
from portable_bench.harness import Harness
from portable_bench.operation import Array, Case, Operation, Run, Sizes, Verifier, Ways, Work
from portable_bench.peers import Peers, peer
from portable_bench.results import Outcome
from tests.support.capabilities import made_up

ENVIRONMENT: dict[str, Any] = {
    "time": "2026-01-02T03:04:05+00:00",
    "machine": {"system": "Linux", "processor": "A processor", "cores": 2},
    "python": "3.11.0",
    "versions": {"numpy": "2.1"},
    "commit": None,
    "devices": {
        "cpu": {
            "name": "A fake",
            "vendor": "nobody",
            "kind": "cpu",
            "architecture": "none",
            "driver": "0",
            "compute_units": 2,
        }
    },
    "options": {},
}


def outcome(name: str, seconds: float, peer: bool = False, spread: float = 0.0) -> Outcome:
    """Verified, with three samples around a median."""
    factors = (1 - spread, 1.0, 1 + spread)
    return Outcome(name, peer, 0.1, samples=[Timing(seconds * f) for f in factors])


@dataclass
class FakeClock:
    """Advances only when told to."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class FakeDevice(Device):
    """Has arrays of NumPy's, and nothing to run on."""

    backend = "fake"
    words = frozenset[str]()

    def __init__(self, name: str = "fake", kind: Any = "cpu") -> None:
        self.name = name
        self.capabilities = made_up(kind=kind, vendor="nobody", name="A fake", driver="0")

    def compile(self, program: Program) -> Executable:
        raise NotImplementedError

    def owns(self, array: object) -> bool:
        return isinstance(array, np.ndarray)

    def view(self, array: Any) -> ArrayView:
        raise NotImplementedError

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any:
        return np.empty(shape, dtype.numpy)

    def from_numpy(self, array: np.ndarray[Any, Any]) -> Any:
        return array.copy()

    def to_numpy(self, array: Any) -> np.ndarray[Any, Any]:
        return np.array(array)

    def synchronize(self) -> None:
        pass

    def namespace(self) -> Any:
        return np


class Uncompiled(Harness):
    """Measures in this process, and has nothing to compile."""

    def compile(self, *arguments: object) -> None:
        pass


@dataclass
class Script:
    """A contender's behaviour: seconds of a run by the time of day, the result, and its end."""

    seconds: Callable[[float], float] = lambda now: 0.01
    result: float = 1.0
    fail_after: int | None = None
    error: BaseException = field(default_factory=lambda: RuntimeError("the device fell over"))
    runs: int = 0


class Scripted(Operation):
    """Contenders that follow scripts."""

    name = "scripted"
    axes = ("N",)
    sizes = {"cpu": Sizes("4")}  # noqa: RUF012
    dtypes = (float32,)

    def __init__(self, clock: FakeClock, scripts: dict[str, Script]) -> None:
        self.clock, self.scripts = clock, scripts

    def work(self, case: Case) -> Work:
        return Work(1e9, 1e6)

    def inputs(self, case: Case) -> tuple[Array, ...]:
        return (np.ones(case.size, case.dtype.numpy),)

    def verifier(self, case: Case, *inputs: Any) -> Verifier:
        return lambda result: float(abs(result - inputs[0]).max())

    def prepare(self, case: Case, *inputs: Any) -> Run:
        raise NotImplementedError

    def ways(self, case: Case) -> Ways:
        ours = {name: s for name, s in self.scripts.items() if not name.startswith("peer")}
        return {name: partial(self._prepared, script) for name, script in ours.items()}

    def peers(self, case: Case) -> Peers:
        return [
            peer(case, name, partial(self._prepared, script))
            for name, script in self.scripts.items()
            if name.startswith("peer")
        ]

    def _prepared(self, script: Script, x: Array) -> Run:
        def run() -> Array:
            if script.fail_after is not None and script.runs >= script.fail_after:
                raise script.error
            script.runs += 1
            self.clock.advance(script.seconds(self.clock.now))
            return script.result * x

        return run
