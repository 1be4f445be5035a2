"""Functions of the Array API by `portable.array`, beside the array libraries."""

from functools import partial
from typing import Any, ClassVar

import numpy as np

from portable.array.base.defaults import is_ours
from portable.backend import Device
from portable.dtypes import float32, float64
from portable_bench.operation import Array, Case, Operation, Run, Shapes, Size, Sizes, Work
from portable_bench.peers import Peers, in_libraries


class ArrayFunction(Operation):
    """A function of arrays of N elements, which are positive so that sums have no cancellation."""

    axes: ClassVar[tuple[str, ...]] = ("N",)
    sizes = {
        "cpu": Sizes("1048576", full="16777216", sweep="4096..16777216"),
        "gpu": Sizes("16777216", sweep="4096..67108864"),
        "simulator": Sizes("300"),
    }
    dtypes = (float32, float64)

    def __init__(self, name: str, takes: int = 1, gives: int = 1, **others: Any) -> None:
        """So many arrays taken, and given as the result (0 for a number); other attributes."""
        self.name, self.takes, self.gives = name, takes, gives
        vars(self).update(others)

    def missing(self, device: Device) -> str:
        return "" if is_ours(device) else f"arrays of {device.name} have a library of their own"

    def shapes(self, size: Size) -> Shapes:
        return (size,) * self.takes

    def work(self, case: Case) -> Work:
        return Work(0, case.bytes((self.takes + self.gives) * case.size[0]))

    def inputs(self, case: Case) -> tuple[Array, ...]:
        return tuple(abs(x) for x in super().inputs(case))

    def exact(self, *inputs: Any) -> Any:
        return getattr(np, self.name)(*(x.astype(np.longdouble) for x in inputs))

    def prepare(self, case: Case, *inputs: Any) -> Run:
        return partial(getattr(case.device.namespace(), self.name), *inputs)

    def peers(self, case: Case) -> Peers:
        return in_libraries(case, lambda xp, *inputs: partial(getattr(xp, self.name), *inputs))
