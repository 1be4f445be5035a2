"""Singular values of dense matrices, beside the array libraries' and LAPACK's."""

from functools import partial
from typing import Any

from portable.dtypes import float16
from portable.linalg import svdvals
from portable_bench.operation import (
    Case,
    Operation,
    Peers,
    Run,
    Sizes,
    Verifier,
    Work,
    in_libraries,
)
from portable_bench.singular_values import ValuesCheck

_NAMES = {"cuda": "cuSOLVER", "rocm": "rocSOLVER", "cpu": "LAPACK"}


class Svdvals(Operation):
    """`portable.linalg.svdvals` of an m x n matrix."""

    name = "svdvals"
    axes = ("M", "N")
    square = True
    sizes = {
        "cpu": Sizes("256", full="256..1024", sweep="64..2048"),
        "gpu": Sizes("1024", full="1024..4096", sweep="256..16384"),
        "simulator": Sizes("12"),
    }

    def work(self, case: Case) -> Work:
        """Those of the reduction to a band; the matrix read once."""
        n, m = sorted(case.size)
        return Work(4.0 * n * n * (m - n / 3), case.bytes(m * n))

    def verifier(self, case: Case, a: Any) -> Verifier:
        return ValuesCheck(a).error

    def prepare(self, case: Case, a: Any) -> Run:
        return partial(svdvals, a)

    def peers(self, case: Case) -> Peers:
        """None in half precision, which no library takes."""
        return [] if case.dtype is float16 else in_libraries(case, _svdvals, _NAMES)


def _svdvals(xp: Any, a: Any) -> Run:
    return partial(xp.linalg.svdvals, a)
