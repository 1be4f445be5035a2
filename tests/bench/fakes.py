"""A device, a clock and an operation that behave as a test tells them to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from portable.backend import ArrayView, Capabilities, Device, Executable, Program
from portable.dtypes import DType, float32
from portable_bench.operation import Case, Contender, Operation, Size, Task, Work


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
        self.capabilities = Capabilities(
            dialect="ir",
            kind=kind,
            vendor="nobody",
            architecture="none",
            name="A fake",
            driver="0",
            float64=True,
            native_half=True,
        )

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
    dtypes = (float32,)

    def __init__(self, clock: FakeClock, scripts: dict[str, Script]) -> None:
        self.clock, self.scripts = clock, scripts

    def sizes(self, capabilities: Capabilities) -> Sequence[Size]:
        return [(4,)]

    def parse_size(self, text: str) -> Size:
        return (int(text),)

    def work(self, size: Size, dtype: DType) -> Work:
        return Work(1e9, 1e6)

    def contenders(self, case: Case) -> Sequence[Contender]:
        return [
            Contender(
                name, lambda s=script: self._task(s), case.device, peer=name.startswith("peer")
            )
            for name, script in self.scripts.items()
        ]

    def error(self, case: Case, result: np.ndarray[Any, Any]) -> float:
        return float(abs(result - 1).max())

    def _task(self, script: Script) -> Task:
        def run() -> np.ndarray[Any, Any]:
            if script.fail_after is not None and script.runs >= script.fail_after:
                raise script.error
            script.runs += 1
            self.clock.advance(script.seconds(self.clock.now))
            return np.full(4, script.result)

        return Task(run)
