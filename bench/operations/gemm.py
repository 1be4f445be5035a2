"""Matrix multiplication beside the array libraries' own."""

from functools import partial
from typing import Any

from portable.dtypes import bfloat16
from portable.linalg import gemm
from portable.linalg.gemm_check import ProductCheck
from portable_bench.operation import Case, Operation, Run, Shapes, Size, Sizes, Verifier, Ways, Work
from portable_bench.peers import PRODUCTS, Peers, in_libraries
from portable_bench.product_ladder import rungs


class Gemm(Operation):
    """``a @ b`` of an M x K and a K x N matrix, into an array that exists."""

    name = "gemm"
    axes = ("M", "N", "K")
    square = True
    further = (bfloat16,)
    sizes = {
        "cpu": Sizes("512", full="256..2048", sweep="64..2048"),
        "gpu": Sizes("4096", full="1024..8192", sweep="256..8192"),
        "simulator": Sizes("16"),
    }

    def shapes(self, size: Size) -> Shapes:
        return (size[0], size[2]), (size[2], size[1])

    def work(self, case: Case) -> Work:
        m, n, k = case.size
        return Work(2.0 * m * n * k, case.bytes(m * k + k * n + m * n))

    def verifier(self, case: Case, a: Any, b: Any) -> Verifier:
        return ProductCheck(a, b).error

    def prepare(self, case: Case, *factors: Any, **how: Any) -> Run:
        return partial(gemm, *factors, out=case.empty(*case.size[:2]), **how)

    def ladder(self, case: Case) -> Ways:
        return {name: partial(self.prepare, case, **how) for name, how in rungs(case).items()}

    def peers(self, case: Case) -> Peers:
        if case.dtype is bfloat16:  # array libraries lack it
            return ()
        return in_libraries(case, _matmul, PRODUCTS)


def _matmul(xp: Any, a: Any, b: Any) -> Run:
    return partial(xp.matmul, a, b, out=xp.matmul(a, b))
