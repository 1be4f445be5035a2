"""Banded matrices reduced to bidiagonal form, beside LAPACK's gbbrd."""

from functools import partial
from typing import Any

from portable.linalg import band_to_bidiagonal
from portable_bench.operation import Case, Operation, Run, Shapes, Size, Sizes, Verifier, Work
from portable_bench.peers import Peers, on_host
from portable_bench.singular_values import SpectrumCheck, gbbrd


class Band(Operation):
    """`portable.linalg.band_to_bidiagonal` of n columns with b superdiagonals."""

    name = "band"
    axes = ("N", "B")
    sizes = {
        "cpu": Sizes("512x32", full="1024..8192x32,2048x8,2048x128", sweep="512..8192x16..64"),
        "gpu": Sizes("8192x32", full="8192..32768x32,8192x64..128", sweep="2048..65536x16..128"),
        "simulator": Sizes("24x4"),
    }

    def shapes(self, size: Size) -> Shapes:
        n, b = size
        return ((b + 1, n),)

    def work(self, case: Case) -> Work:
        """``n^2 / (2 b)`` hops of ``16 b^2`` operations; the band read, two diagonals written."""
        n, b = case.size
        return Work(8.0 * n * n * b, case.bytes((b + 3) * n))

    def model(self, size: Size) -> dict[str, float]:
        """The chain of dependent hops, two a sweep, and all hops with their operations."""
        n, b = size
        return {"hop of the chain": 2.0 * n, "hop": n * n / (2 * b), "flop": 8.0 * n * n * b}

    def verifier(self, case: Case, ab: Any) -> Verifier:
        return SpectrumCheck(ab).error

    def prepare(self, case: Case, ab: Any) -> Run:
        return partial(band_to_bidiagonal, ab)

    def peers(self, case: Case) -> Peers:
        return on_host(case, "LAPACK", lambda ab: partial(gbbrd, ab))
