"""The Cholesky factorisation, beside the array libraries' and LAPACK's."""

from functools import partial
from typing import Any

import numpy as np

from portable.linalg import cholesky
from portable_bench.factors import LIBRARIES, Factorisation, excess
from portable_bench.operation import Array, Case, Run, Verifier, Work
from portable_bench.peers import Peers, in_libraries


class Cholesky(Factorisation):
    """`portable.linalg.cholesky` of a matrix of order n."""

    name = "cholesky"

    def inputs(self, case: Case) -> tuple[Array, ...]:
        """A positive definite matrix."""
        (x,) = super().inputs(case)
        one = np.eye(len(x), dtype=x.dtype)
        return ((x @ x.T / np.asarray(len(x), x.dtype) + one),)

    def work(self, case: Case) -> Work:
        """A third of a product's operations halved; the matrix read and written once."""
        n = case.size[0]
        return Work(n**3 / 3, case.bytes(2 * n * n))

    def verifier(self, case: Case, *inputs: Any) -> Verifier:
        (a,) = inputs

        def error(result: Array) -> float:
            lower = np.tril(result).astype(np.float64)
            return excess(lower @ lower.T - a, a)

        return error

    def prepare(self, case: Case, *inputs: Any) -> Run:
        return partial(cholesky, *inputs)

    def peers(self, case: Case) -> Peers:
        return in_libraries(case, lambda xp, a: partial(xp.linalg.cholesky, a), LIBRARIES)
