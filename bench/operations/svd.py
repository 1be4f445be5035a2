"""Singular value decompositions with vectors, beside the array libraries' and LAPACK's."""

from functools import partial
from typing import Any

from portable.dtypes import float16
from portable.linalg import svd
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


class Svd(Operation):
    """`portable.linalg.svd` of an m x n matrix; the values are verified, tests hold the vectors."""

    name = "svd"
    axes = ("M", "N")
    square = True
    sizes = {
        "cpu": Sizes("256", full="256..2048", sweep="64..2048"),
        "gpu": Sizes("1024", full="512..4096", sweep="256..8192"),
        "simulator": Sizes("12"),
    }

    def work(self, case: Case) -> Work:
        """Those of the reduction and of leading vectors back; the matrix read, vectors written."""
        n, m = sorted(case.size)
        return Work(4.0 * n * n * (m - n / 3) + 4.0 * m * n * n, case.bytes(2 * m * n + n * n))

    def verifier(self, case: Case, a: Any) -> Verifier:
        return ValuesCheck(a).error

    def prepare(self, case: Case, a: Any) -> Run:
        return partial(_values, a)

    def peers(self, case: Case) -> Peers:
        """None in half precision, which no library takes."""
        return [] if case.dtype is float16 else in_libraries(case, _theirs, _NAMES)


def _values(a: Any) -> Any:
    return svd(a).S


def _theirs(xp: Any, a: Any) -> Run:
    return lambda: xp.linalg.svd(a, full_matrices=False)[1]
