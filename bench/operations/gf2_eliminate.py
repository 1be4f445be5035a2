"""The special elimination over GF(2), beside M4RI's echelon form of the same rows."""

from functools import partial
from typing import Any

from portable import gf2
from portable.gf2.made_up import random_problem
from portable_bench.gf2 import Gf2, changes_below, elimination_or_echelon_check, over_gf2
from portable_bench.m4ri import m4ri_echelon
from portable_bench.operation import Array, Case, Run, Sizes, Verifier
from portable_bench.peers import Peers

_SMALL = "2362x1226x453"
_SHAPES = f"{_SMALL}, 8399x6375x4535, 23045x18748x14325"


class Gf2Eliminate(Gf2):
    """`portable.gf2.eliminate` of made-up rows, from packed rows to packed rows."""

    name = "gf2_eliminate"
    axes = ("COLUMNS", "ELIMINATORS", "ROWS")
    sizes = {
        "cpu": Sizes(_SMALL, full=_SHAPES),
        "gpu": Sizes("8399x6375x4535", full=f"{_SHAPES}, 37960x29304x14921, 43577x39477x54274"),
        "simulator": Sizes("130x22x8"),
    }

    def changes(self, *size: int) -> float:
        columns, eliminators, rows = size
        return changes_below(columns, rows, 64 * (columns - eliminators) / columns)

    def inputs(self, case: Case) -> tuple[Array, ...]:
        eliminators, rows = random_problem(*case.size, device=case.device)
        return eliminators.to_words(), rows.to_words()

    def verifier(self, case: Case, eliminators: Any, rows: Any) -> Verifier:
        return elimination_or_echelon_check(eliminators, rows)

    def prepare(self, case: Case, eliminators: Any, rows: Any) -> Run:
        known, given = (
            gf2.BitMatrix(x, case.size[0], device=case.device) for x in (eliminators, rows)
        )
        return lambda: gf2.eliminate(known, given).rows.words

    def peers(self, case: Case) -> Peers:
        """M4RI leads by the lowest columns and takes rows in any order: an echelon form of all."""
        return over_gf2(case, {"M4RI": partial(m4ri_echelon, case.size[0])})
