"""Singular value decompositions with vectors, beside the array libraries' and LAPACK's."""

from functools import partial
from typing import Any

from portable.linalg import svd
from portable_bench.factors import Decomposition
from portable_bench.operation import Case, Run, Work


class Svd(Decomposition):
    """`portable.linalg.svd` of an m x n matrix; the values are verified, tests hold the vectors."""

    name = "svd"
    brief = False  # its kernels take a quarter as long to compile as all others of a look

    def work(self, case: Case) -> Work:
        """Those of the reduction and of leading vectors back; the matrix read, vectors written."""
        n, m = sorted(case.size)
        return Work(4.0 * n * n * (m - n / 3) + 4.0 * m * n * n, case.bytes(2 * m * n + n * n))

    def prepare(self, case: Case, a: Any) -> Run:
        return partial(_values, a)

    def theirs(self, xp: Any, a: Any) -> Run:
        return lambda: xp.linalg.svd(a, full_matrices=False)[1]


def _values(a: Any) -> Any:
    return svd(a).S
