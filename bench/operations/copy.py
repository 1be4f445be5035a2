"""What bounds all others on a device: how fast it copies."""

from typing import Any

import numpy as np

from portable.dtypes import float32
from portable_bench.operation import Array, Case, Operation, Run, Sizes, Work
from portable_bench.peers import Peers, in_libraries
from portable_bench.roof_launches import copied


class Copy(Operation):
    """A copy of so many MiB, more than caches hold."""

    name = "copy"
    axes = ("MIB",)
    unit = "MiB"
    sizes = {"cpu": Sizes("64"), "gpu": Sizes("512"), "simulator": Sizes("1")}
    dtypes = (float32,)

    def work(self, case: Case) -> Work:
        """Each byte is read and written."""
        return Work(0, 2.0 * case.size[0] * 2**20)

    def inputs(self, case: Case) -> tuple[Array, ...]:
        return (np.arange(case.size[0] * 2**20 // case.dtype.itemsize, dtype=case.dtype.numpy),)

    def exact(self, x: Any) -> Any:
        return x

    def prepare(self, case: Case, x: Any) -> Run:
        return copied(case, x)

    def peers(self, case: Case) -> Peers:
        return in_libraries(case, _assigned)


def _assigned(xp: Any, x: Any) -> Run:
    y = xp.empty_like(x)
    return lambda: (y.__setitem__(..., x), y)[1]
