"""Matrix multiplication beside the array libraries' own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from portable.dtypes import DType
from portable.linalg import gemm
from portable.linalg.gemm import ALGORITHMS
from portable.linalg.gemm_check import ProductCheck
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
from portable_bench.peers import libraries

__all__ = ["Gemm"]


class Gemm(Operation):
    """``a @ b`` of an M x K and a K x N matrix, into an array that exists."""

    name = "gemm"
    axes = ("M", "N", "K")
    square = True
    sizes = Sizes(
        quick={"cpu": "512", "gpu": "4096", "simulator": "16"},
        full={"cpu": "256..2048", "gpu": "1024..8192"},
        sweep={"cpu": "64..2048", "gpu": "256..8192"},
    )

    def work(self, size: Size, dtype: DType) -> Work:
        """A multiplication and an addition per product."""
        m, n, k = size
        return Work(2.0 * m * n * k, float(dtype.itemsize * (m * k + k * n + m * n)))

    def inputs(self, size: Size, dtype: DType) -> tuple[Array, ...]:
        """Of normal distribution."""
        m, n, k = size
        random = np.random.default_rng(1)
        shapes = ((m, k), (k, n))
        return tuple(random.standard_normal(shape).astype(dtype.numpy) for shape in shapes)

    def verifier(self, case: Case, *inputs: Array) -> Verifier:
        """By the bound of `portable.linalg.gemm`: all elements, or sampled rows if it is large."""
        return ProductCheck(*inputs).error

    def contenders(self, case: Case) -> Sequence[Contender]:
        """Our tuned kernel and the libraries' functions."""
        return [Contender("portable", partial(_ours, case, "auto"), case.device), *_peers(case)]

    def ladder(self, case: Case) -> Sequence[Contender]:
        """Every algorithm of `portable.linalg.gemm` but "auto", which is one of them."""
        rungs = [name for name in ALGORITHMS if name not in ("auto", "vendor")]
        ours = [Contender(name, partial(_ours, case, name), case.device) for name in rungs]
        return [*ours, *_peers(case)]


def _ours(case: Case, algorithm: Any, a: Any, b: Any) -> Run:
    out = case.device.empty(case.size[:2], case.dtype)
    return lambda: gemm(a, b, out=out, algorithm=algorithm)


def _peers(case: Case) -> list[Contender]:
    found = libraries(case.device, case.dtype)
    return [Contender(p.name, partial(_theirs, p.namespace), p.device, peer=True) for p in found]


def _theirs(xp: Any, a: Any, b: Any) -> Run:
    out = xp.matmul(a, b)
    return lambda: xp.matmul(a, b, out=out)
