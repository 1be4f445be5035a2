"""Echelon forms over GF(2), beside M4RI."""

from functools import partial
from typing import Any

from portable import gf2
from portable.dtypes import uint64
from portable_bench.bits import echelon_check
from portable_bench.m4ri import m4ri_echelon
from portable_bench.operation import Array, Case, Operation, Run, Sizes, Verifier
from portable_bench.peers import Peers, over_gf2


class Gf2Echelon(Operation):
    """`portable.gf2.row_echelon` of random squares, not reduced."""

    name = "gf2_echelon"
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
        return (gf2.random((n, n), seed=1, device=case.device).to_words(),)

    def verifier(self, case: Case, a: Any) -> Verifier:
        return echelon_check(a)

    def prepare(self, case: Case, a: Any) -> Run:
        matrix = gf2.BitMatrix(a, case.size[0], device=case.device)
        return lambda: gf2.row_echelon(matrix).rows.words

    def peers(self, case: Case) -> Peers:
        return over_gf2(case, partial(m4ri_echelon, case.size[0]))
