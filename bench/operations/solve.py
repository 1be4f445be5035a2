"""Systems with sixteen right-hand sides, beside the array libraries' and LAPACK's."""

from functools import partial
from typing import Any

import numpy as np

from portable.linalg import solve
from portable_bench.factors import LIBRARIES, Factorisation, excess
from portable_bench.operation import Array, Case, Run, Shapes, Size, Verifier, Work
from portable_bench.peers import Peers, in_libraries

_SIDES = 16


class Solve(Factorisation):
    """`portable.linalg.solve` for a matrix of order n."""

    name = "solve"

    def shapes(self, size: Size) -> Shapes:
        return (size[0], size[0]), (size[0], _SIDES)

    def work(self, case: Case) -> Work:
        """Those of LU, and of two triangles; everything read and the solution written once."""
        n = case.size[0]
        return Work(2 * n**3 / 3 + 2.0 * n * n * _SIDES, case.bytes(n * n + 2 * n * _SIDES))

    def verifier(self, case: Case, *inputs: Any) -> Verifier:
        a, b = inputs

        def error(result: Array) -> float:
            return excess(a.astype(np.float64) @ result - b, a, result)

        return error

    def prepare(self, case: Case, *inputs: Any) -> Run:
        return partial(solve, *inputs)

    def peers(self, case: Case) -> Peers:
        return in_libraries(case, lambda xp, a, b: partial(xp.linalg.solve, a, b), LIBRARIES)
