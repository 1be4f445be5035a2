"""Banded matrices reduced to bidiagonal form, beside LAPACK's gbbrd."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from portable.dtypes import DType, float16, float32, float64
from portable.linalg import band_to_bidiagonal
from portable_bench.operation import (
    Array,
    Case,
    Contender,
    Operation,
    Run,
    Size,
    Sizes,
    Verifier,
    Work,
)
from portable_bench.spectrum import SpectrumCheck

__all__ = ["Band"]

_TOLERANCE = {float16: 5e-3, float32: 2e-6, float64: 1e-13}


class Band(Operation):
    """`portable.linalg.band_to_bidiagonal` of n columns with b superdiagonals."""

    name = "band"
    axes = ("N", "B")
    sizes = Sizes(
        quick={"cpu": "512x32", "gpu": "8192x32", "simulator": "24x4"},
        full={"cpu": "1024..8192x32,2048x8,2048x128", "gpu": "8192..65536x32,32768x64..128"},
        sweep={"cpu": "512..8192x16..64", "gpu": "2048..32768x16..128"},
    )

    def work(self, size: Size, dtype: DType) -> Work:
        """``n^2 / (2 b)`` hops of ``16 b^2`` operations; the band read, two diagonals written."""
        n, b = size
        return Work(8.0 * n * n * b, float(dtype.itemsize * (b + 3) * n))

    def model(self, size: Size) -> dict[str, float]:
        """The chain of dependent hops, two a sweep, and all hops with their operations."""
        n, b = size
        return {"hop of the chain": 2.0 * n, "hop": n * n / (2 * b), "flop": 8.0 * n * n * b}

    def inputs(self, size: Size, dtype: DType) -> tuple[Array, ...]:
        """Of normal distribution."""
        n, b = size
        return (np.random.default_rng(1).standard_normal((b + 1, n)).astype(dtype.numpy),)

    def verifier(self, case: Case, *inputs: Array) -> Verifier:
        """By the singular values up to 1024, by norms above, relative to the largest."""
        room = _TOLERANCE[case.dtype] * max(1, 8 / case.size[1])
        return SpectrumCheck(inputs[0], room).error

    def contenders(self, case: Case) -> Sequence[Contender]:
        """Ours and, for processors, LAPACK's."""
        found = [Contender("portable", _ours, case.device)]
        if case.device.capabilities.kind == "cpu" and case.dtype is not float16:
            found.append(Contender("LAPACK", _lapack, None, peer=True))
        return found


def _ours(ab: Any) -> Run:
    return partial(band_to_bidiagonal, ab)


def _lapack(ab: Array) -> Run:
    from portable_bench.lapack import gbbrd

    return partial(gbbrd, ab)
