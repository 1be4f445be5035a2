"""Products of matrices over GF(2), beside M4RI."""

from functools import partial
from typing import Any

from portable import gf2
from portable.dtypes import uint64
from portable_bench.bits import product_check
from portable_bench.m4ri import M4RIMatrix
from portable_bench.operation import Array, Case, Operation, Run, Sizes, Verifier
from portable_bench.peers import Peers, over_gf2


class Gf2Matmul(Operation):
    """`portable.gf2.matmul` of random squares."""

    name = "gf2_matmul"
    axes = ("N",)
    sizes = {
        "cpu": Sizes("4096", full="4096, 16384, 32768", sweep="256..32768"),
        "gpu": Sizes("16384", full="4096, 16384, 32768", sweep="1024..65536"),
        "simulator": Sizes("70"),
    }
    dtypes = (uint64,)
    brief = False

    def work(self, case: Case) -> None:
        """Bits are no floating-point numbers to compare with."""

    def inputs(self, case: Case) -> tuple[Array, ...]:
        n = case.size[0]
        return tuple(gf2.random((n, n), seed=s, device=case.device).to_words() for s in (1, 2))

    def verifier(self, case: Case, a: Any, b: Any) -> Verifier:
        return product_check(a, b, case.size[0])

    def prepare(self, case: Case, a: Any, b: Any) -> Run:
        left, right = (gf2.BitMatrix(x, case.size[0], device=case.device) for x in (a, b))
        return lambda: gf2.matmul(left, right).words

    def peers(self, case: Case) -> Peers:
        return over_gf2(case, partial(_m4ri, case.size[0]))


def _m4ri(n: int, a: Any, b: Any) -> Run:
    left, right, out = M4RIMatrix((n, n), a), M4RIMatrix((n, n), b), M4RIMatrix((n, n))
    return out.returning(lambda: out.multiply(left, right))
