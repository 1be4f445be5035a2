"""Eigenvectors of symmetric matrices, beside the array libraries' and LAPACK's."""

from functools import partial
from typing import Any

import numpy as np

from portable.linalg import eigh
from portable_bench.factors import Decomposition
from portable_bench.operation import Case, Run, Verifier, Work
from portable_bench.singular_values import tolerance, worst_of


class Eigh(Decomposition):
    """`portable.linalg.eigh` of an n x n matrix by its lower triangle; the values are verified."""

    name = "eigh"
    axes = ("N", "N")

    def work(self, case: Case) -> Work:
        """Those of the reduction and of leading vectors back; the matrix read, vectors written."""
        n = min(case.size)
        return Work(10.0 / 3 * n**3, case.bytes(2 * n * n))

    def verifier(self, case: Case, a: Any) -> Verifier:
        return worst_of(np.linalg.eigvalsh(a.astype(np.float64)), tolerance(a))

    def prepare(self, case: Case, a: Any) -> Run:
        return partial(_values, a)

    def theirs(self, xp: Any, a: Any) -> Run:
        return lambda: xp.linalg.eigh(a)[0]


def _values(a: Any) -> Any:
    return eigh(a).eigenvalues
