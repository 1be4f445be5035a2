"""Products of a sparse matrix and a vector, beside cuSPARSE (through CuPy) and SciPy."""

from functools import partial
from typing import Any

import numpy as np

from portable.dtypes import float32, float64
from portable.sparse import CSR
from portable_bench.operation import Array, Case, Operation, Run, Sizes, Work
from portable_bench.peers import Peers, on_host, peer
from portable_bench.sparse import EACH, by_library, graph


class Spmv(Operation):
    """A square matrix with 16 numbers in each row, at random columns, as that of a graph."""

    name = "spmv"
    axes = ("N",)
    sizes = {
        "cpu": Sizes("262144", full="1048576"),
        "gpu": Sizes("1048576", full="4194304"),
        "simulator": Sizes("64"),
    }
    dtypes = (float32, float64)
    brief = False
    ulps = 64

    def work(self, case: Case) -> Work:
        numbers = case.size[0] * EACH
        return Work(2.0 * numbers, case.bytes(numbers + 2 * case.size[0]) + 4 * numbers)

    def inputs(self, case: Case) -> tuple[Array, ...]:
        """Numbers from 0 to 1, their columns, where rows begin, and the vector."""
        return graph(case.size[0], case.dtype)

    def exact(self, data: Any, columns: Any, offsets: Any, x: Any) -> Any:
        return (data.astype(np.float64) * x[columns]).reshape(-1, EACH).sum(1)

    def prepare(self, case: Case, data: Any, columns: Any, offsets: Any, x: Any) -> Run:
        return partial(CSR(data, columns, offsets, (len(x), len(x)), check=False).__matmul__, x)

    def peers(self, case: Case) -> Peers:
        if case.device.backend in ("cuda", "rocm"):
            return [peer(case, "cuSPARSE", partial(by_library, "cupyx.scipy.sparse"))]
        return on_host(case, "SciPy", partial(by_library, "scipy.sparse"))
