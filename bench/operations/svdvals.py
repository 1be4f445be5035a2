"""Singular values of dense matrices, beside the array libraries' and LAPACK's."""

from functools import partial
from typing import Any

from portable.linalg import svdvals
from portable_bench.factors import Decomposition
from portable_bench.operation import Case, Run, Work


class Svdvals(Decomposition):
    """`portable.linalg.svdvals` of an m x n matrix."""

    name = "svdvals"

    def work(self, case: Case) -> Work:
        """Those of the reduction to a band; the matrix read once."""
        n, m = sorted(case.size)
        return Work(4.0 * n * n * (m - n / 3), case.bytes(m * n))

    def prepare(self, case: Case, a: Any) -> Run:
        return partial(svdvals, a)

    def theirs(self, xp: Any, a: Any) -> Run:
        return partial(xp.linalg.svdvals, a)
