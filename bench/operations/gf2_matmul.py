"""Products of matrices over GF(2), beside M4RI and galois."""

from functools import partial
from operator import matmul
from typing import Any

from portable import gf2
from portable_bench.gf2 import Gf2Squares, in_galois, over_gf2, product_check
from portable_bench.m4ri import m4ri_product
from portable_bench.operation import Array, Case, Run, Verifier
from portable_bench.peers import Peers


class Gf2Matmul(Gf2Squares):
    """`portable.gf2.matmul` of random squares."""

    name = "gf2_matmul"

    def changes(self, *size: int) -> float:
        return float(size[0]) * (-(-size[0] // 64)) ** 2

    def inputs(self, case: Case) -> tuple[Array, ...]:
        n = case.size[0]
        return tuple(gf2.random((n, n), seed=s, device=case.device).to_words() for s in (1, 2))

    def verifier(self, case: Case, a: Any, b: Any) -> Verifier:
        return product_check(a, b, case.size[0])

    def prepare(self, case: Case, a: Any, b: Any) -> Run:
        left, right = (gf2.BitMatrix(x, case.size[0], device=case.device) for x in (a, b))
        return lambda: gf2.matmul(left, right).words

    def peers(self, case: Case) -> Peers:
        n = case.size[0]
        galois = {"galois": partial(in_galois, n, matmul)} if n <= 4096 else {}
        return over_gf2(case, {"M4RI": partial(m4ri_product, n), **galois})
