"""What bounds all others on a device: how fast it multiplies and adds."""

from functools import partial
from typing import Any

import numpy as np

from portable.linalg.products.tuning import candidates
from portable.tune.search import unit_roundoff, worst_error
from portable_bench.operation import Array, Case, Operation, Run, Sizes, Verifier, Ways, Work
from portable_bench.roof_launches import by_matrix_units, in_registers


class MultiplyAdd(Operation):
    """So many 10^9 operations on numbers that stay in registers or in local memory."""

    name = "fma"
    axes = ("GFLOP",)
    unit = "GFLOP"
    sizes = {"cpu": Sizes("1"), "gpu": Sizes("128")}

    def work(self, case: Case) -> Work:
        return Work(1e9 * case.size[0], 0)

    def inputs(self, case: Case) -> tuple[Array, ...]:
        """The numbers that are multiplied and added."""
        return (np.array([0.5, 1], case.dtype.numpy),)

    def verifier(self, case: Case, *inputs: Any) -> Verifier:
        """But for the rounding of the one number by which matrix units' sums are scaled."""
        return lambda result: worst_error(result, 2.0, 4 * unit_roundoff(case.dtype.register))

    def prepare(self, case: Case, numbers: Any) -> Run:
        return in_registers(case, numbers)

    def ways(self, case: Case) -> Ways:
        """In vectors and, where there are such, by matrix units."""
        ways: dict[str, Any] = {"registers": partial(self.prepare, case)}
        tiles = candidates(case.device, case.dtype, "matrix", (8192, 8192, 1))[0]
        if tiles["UNITS"] and case.device.capabilities.matrix_units:
            ways["matrix units"] = partial(by_matrix_units, case, tiles)
        return ways
