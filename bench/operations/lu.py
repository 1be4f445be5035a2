"""The LU factorisation with partial pivoting, beside SciPy's and CuPy's."""

from importlib import import_module
from typing import Any

import numpy as np

from portable.linalg import lu_factor
from portable_bench.factors import LIBRARIES, Factorisation, excess
from portable_bench.operation import Array, Case, Run, Verifier, Work
from portable_bench.peers import Peers, in_libraries


class Lu(Factorisation):
    """`portable.linalg.lu_factor` of a matrix of order n."""

    name = "lu"

    def work(self, case: Case) -> Work:
        """Two thirds of a product's operations halved; the matrix read and written once."""
        n = case.size[0]
        return Work(2 * n**3 / 3, case.bytes(2 * n * n))

    def verifier(self, case: Case, *inputs: Any) -> Verifier:
        """Rows, which all begin differently; roundoff adds up at random over the columns."""
        (a,) = inputs

        def error(result: Array) -> float:
            lu = result.astype(np.float64)
            product = (np.tril(lu, -1) + np.eye(len(lu))) @ np.triu(lu)
            rows = [np.argsort(x[:, 0], kind="stable") for x in (product, a)]
            return excess(product[rows[0]] - a[rows[1]], a) / float(np.sqrt(len(a)))

        return error

    def prepare(self, case: Case, *inputs: Any) -> Run:
        return lambda: lu_factor(*inputs).lu

    def peers(self, case: Case) -> Peers:
        return [x for x in in_libraries(case, _lu, LIBRARIES) if x.name in LIBRARIES.values()]


def _lu(xp: Any, a: Any) -> Run:
    module = "scipy.linalg" if xp is np else "cupyx.scipy.linalg"
    factor = import_module(module).lu_factor
    return lambda: factor(a, check_finite=False)[0]
