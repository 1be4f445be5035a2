"""Eigenvectors of symmetric matrices, beside the array libraries' and LAPACK's."""

from functools import partial
from typing import Any

import numpy as np

from portable.dtypes import float16
from portable.linalg import eigh
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
from portable_bench.singular_values import tolerance, worst_of

_NAMES = {"cuda": "cuSOLVER", "rocm": "rocSOLVER", "cpu": "LAPACK"}


class Eigh(Operation):
    """`portable.linalg.eigh` of an n x n matrix by its lower triangle; the values are verified."""

    name = "eigh"
    axes = ("N", "N")
    square = True
    sizes = {
        "cpu": Sizes("256", full="256..2048", sweep="64..2048"),
        "gpu": Sizes("1024", full="512..4096", sweep="256..8192"),
        "simulator": Sizes("12"),
    }

    def work(self, case: Case) -> Work:
        """Those of the reduction and of leading vectors back; the matrix read, vectors written."""
        n = min(case.size)
        return Work(10.0 / 3 * n**3, case.bytes(2 * n * n))

    def verifier(self, case: Case, a: Any) -> Verifier:
        return worst_of(np.linalg.eigvalsh(a.astype(np.float64)), tolerance(a))

    def prepare(self, case: Case, a: Any) -> Run:
        return partial(_values, a)

    def peers(self, case: Case) -> Peers:
        """None in half precision, which no library takes."""
        return [] if case.dtype is float16 else in_libraries(case, _theirs, _NAMES)


def _values(a: Any) -> Any:
    return eigh(a).eigenvalues


def _theirs(xp: Any, a: Any) -> Run:
    return lambda: xp.linalg.eigh(a)[0]
