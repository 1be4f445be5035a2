"""The QR factorisation, both factors, beside the array libraries' and LAPACK's."""

from typing import Any

import numpy as np

from portable.linalg import qr
from portable_bench.factors import LIBRARIES, Factorisation, excess
from portable_bench.operation import Array, Case, Run, Sizes, Verifier, Work
from portable_bench.peers import Peers, in_libraries


class Qr(Factorisation):
    """`portable.linalg.qr` of an m x n matrix, whose Q is looked at."""

    name = "qr"
    axes = ("M", "N")
    square = True
    sizes = {
        "cpu": Sizes("256", full="200,500,1000,2000,100000x64", sweep="64..2048"),
        "gpu": Sizes("4096", full="1024..8192,1048576x64,65536x512", sweep="256..8192"),
        "simulator": Sizes("20"),
    }

    def work(self, case: Case) -> Work:
        """Those of reflectors, and of Q made of them; the matrix read, factors written once."""
        n, m = sorted(case.size)
        return Work(4.0 * n * n * (m - n / 3), case.bytes(2 * m * n + n * n))

    def verifier(self, case: Case, *inputs: Any) -> Verifier:
        (a,) = inputs

        def error(result: Array) -> float:
            q = result.astype(np.float64)
            one = np.eye(q.shape[1], dtype=a.dtype)
            r = np.triu(q.T @ a)
            return max(excess(q @ r - a, a), excess(q.T @ q - one, one))

        return error

    def prepare(self, case: Case, *inputs: Any) -> Run:
        return lambda: qr(*inputs).Q

    def peers(self, case: Case) -> Peers:
        return in_libraries(case, lambda xp, a: lambda: xp.linalg.qr(a)[0], LIBRARIES)
