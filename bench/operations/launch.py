"""What it costs to start a kernel, beside the library beneath."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from portable import kernel
from portable import lang as kl
from portable.dtypes import DType, float32
from portable.tune.verify import worst_error
from portable_bench.operation import Array, Case, Contender, Operation, Run, Size, Sizes, Verifier
from portable_bench.raw import raw_launch

__all__ = ["Launch"]

_ELEMENTS: Final = 256
_LABELS: Final[dict[Size, str]] = {(1,): "1 array", (3,): "3 arrays, 1 number"}


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
    axes = ("ARRAYS",)
    sizes = Sizes(quick=dict.fromkeys(("cpu", "gpu", "simulator"), "1,3"))
    dtypes = (float32,)
    timed = "enqueue"
    in_place = True

    def complete(self, size: Size) -> Size:
        """1 or 3."""
        if size not in _LABELS:
            raise ValueError("expected the number of arrays, 1 or 3")
        return size

    def label(self, size: Size) -> str:
        """What is passed."""
        return _LABELS[size]

    def work(self, size: Size, dtype: DType) -> None:
        """None worth counting."""

    def inputs(self, size: Size, dtype: DType) -> tuple[Array, ...]:
        """Ones."""
        return tuple(np.ones(_ELEMENTS, np.float32) for _ in range(size[0]))

    def verifier(self, case: Case, *inputs: Array) -> Verifier:
        """Exact."""
        exact = 2.0 if case.size == (1,) else 3.0
        return lambda result: worst_error(result, exact, 0.0)

    def contenders(self, case: Case) -> Sequence[Contender]:
        """A warm launch, a prepared one, and the raw one of the same generated program."""

        def warm(*arrays: Any) -> Run:
            made, args = _kernel(*arrays)
            return lambda: made[_ELEMENTS, _ELEMENTS](*args)

        def prepared(*arrays: Any) -> Run:
            made, args = _kernel(*arrays)
            return made[_ELEMENTS, _ELEMENTS].prepare(*args)  # type: ignore[no-any-return]

        def raw(*arrays: Any) -> Run:
            made, args = _kernel(*arrays)
            return raw_launch(case.device, made[_ELEMENTS, _ELEMENTS].lower(*args), arrays)

        return [
            Contender("warm", warm, case.device),
            Contender("prepared", prepared, case.device),
            Contender("raw", raw, case.device, peer=True),
        ]


def _kernel(*arrays: Any) -> tuple[Any, tuple[Any, ...]]:
    return (fill, arrays) if len(arrays) == 1 else (saxpy, (2.0, *arrays))
