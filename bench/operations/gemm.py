"""Matrix multiplication beside the array libraries' own."""

from functools import partial
from typing import Any

from portable.dtypes import bfloat16
from portable.linalg.products.check import ProductCheck
from portable_bench.operation import Case, Sizes, Verifier, Ways
from portable_bench.products import Products, rungs

_THIN = "8192x8192x256,8192x256x8192,128x8192x8192,16x16384x4096,4095x4099x4097"
"""Few terms, columns or rows, and extents that nothing divides."""


class Gemm(Products):
    """``a @ b`` of an M x K and a K x N matrix, into an array that exists."""

    name = "gemm"
    axes = ("M", "N", "K")
    square = True
    further = (bfloat16,)
    sizes = {
        "cpu": Sizes("512", full="256..4096", sweep="64..2048"),
        "gpu": Sizes("4096", full=f"512..8192,{_THIN}", sweep="256..8192"),
        "simulator": Sizes("16"),
    }

    def verifier(self, case: Case, *arrays: Any) -> Verifier:
        return ProductCheck(*self.factors(*arrays)).error

    def ladder(self, case: Case) -> Ways:
        return {name: partial(self.prepare, case, **how) for name, how in rungs(case).items()}
