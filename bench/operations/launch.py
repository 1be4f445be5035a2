"""What it costs to start a kernel, beside the library beneath."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from portable import kernel
from portable import lang as kl
from portable.backend import Capabilities
from portable.dtypes import DType, float32
from portable.tune.verify import worst_error
from portable_bench.operation import Case, Contender, Operation, Size, Task
from portable_bench.raw import raw_launch

__all__ = ["Launch"]

_ELEMENTS: Final = 256
_SCALE: Final = 2.0


@kernel
def fill(x: Any) -> None:
    """One argument."""
    i = kl.global_id(0)
    if i < x.shape[0]:
        x[i] = 2.0


@kernel
def saxpy(a: Any, x: Any, y: Any, z: Any) -> None:
    """Three arrays and a number."""
    i = kl.global_id(0)
    if i < z.shape[0]:
        z[i] = a * x[i] + y[i]


class Launch(Operation):
    """The host's time per launch: a warm call, a prepared one, and the library's own.

    A size is the number of arrays. The kernels have next to nothing to do.
    """

    name = "launch"
    dtypes = (float32,)
    timed = "enqueue"

    def sizes(self, capabilities: Capabilities) -> Sequence[Size]:
        """Few arguments and several."""
        return [(1,), (3,)]

    def parse_size(self, text: str) -> Size:
        """1 or 3."""
        if text not in ("1", "3"):
            raise ValueError("expected the number of arrays, 1 or 3")
        return (int(text),)

    def label(self, size: Size) -> str:
        """What is passed."""
        return "1 array" if size == (1,) else "3 arrays, 1 number"

    def work(self, size: Size, dtype: DType) -> None:
        """None worth counting."""

    def contenders(self, case: Case) -> Sequence[Contender]:
        """A warm launch, a prepared one, and the raw one of the same generated program."""
        device = case.device

        @cache
        def arguments() -> tuple[Any, ...]:
            arrays = [device.from_numpy(np.ones(_ELEMENTS, np.float32)) for _ in range(*case.size)]
            return (_SCALE, *arrays) if len(arrays) > 1 else tuple(arrays)

        def warm() -> Task:
            made, args = _kernel(case.size), arguments()
            return Task(lambda: made[_ELEMENTS, _ELEMENTS](*args), args[-1])

        def prepared() -> Task:
            args = arguments()
            return Task(_kernel(case.size)[_ELEMENTS, _ELEMENTS].prepare(*args), args[-1])

        def raw() -> Task:
            args = arguments()
            lowered = _kernel(case.size)[_ELEMENTS, _ELEMENTS].lower(*args)
            return Task(raw_launch(device, lowered, args[-case.size[0] :]), args[-1])

        return [
            Contender("warm", warm, device),
            Contender("prepared", prepared, device),
            Contender("raw", raw, device, peer=True),
        ]

    def error(self, case: Case, result: np.ndarray[Any, Any]) -> float:
        """Exact."""
        return worst_error(result, 2.0 if case.size == (1,) else 3.0, 0.0)


def _kernel(size: Size) -> Any:
    return fill if size == (1,) else saxpy
