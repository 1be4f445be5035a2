"""Echelon forms over GF(2), beside M4RI and galois."""

from functools import partial
from typing import Any

from portable import gf2
from portable_bench.gf2 import Gf2Squares, changes_below, echelon_check, in_galois, over_gf2
from portable_bench.m4ri import m4ri_echelon
from portable_bench.operation import Array, Case, Run, Verifier
from portable_bench.peers import Peers


class Gf2Echelon(Gf2Squares):
    """`portable.gf2.row_echelon` of random squares, not reduced."""

    name = "gf2_echelon"

    def changes(self, *size: int) -> float:
        return changes_below(size[0], size[0], 64)

    def inputs(self, case: Case) -> tuple[Array, ...]:
        n = case.size[0]
        return (gf2.random((n, n), seed=1, device=case.device).to_words(),)

    def verifier(self, case: Case, a: Any) -> Verifier:
        return echelon_check(a)

    def prepare(self, case: Case, a: Any) -> Run:
        matrix = gf2.BitMatrix(a, case.size[0], device=case.device)
        return lambda: gf2.row_echelon(matrix).rows.words

    def peers(self, case: Case) -> Peers:
        """Of galois' form, which is reduced, only small ones can be waited for."""
        n = case.size[0]
        galois = {"galois": partial(in_galois, n, lambda a: a.row_reduce())} if n <= 512 else {}
        return over_gf2(case, {"M4RI": partial(m4ri_echelon, n), **galois})
