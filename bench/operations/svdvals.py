"""Singular values of dense matrices, beside the array libraries' and LAPACK's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from portable.dtypes import DType, float16, float32, float64
from portable.linalg import svdvals
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
from portable_bench.peers import Peer, libraries
from portable_bench.values import ValuesCheck

__all__ = ["Svdvals"]

_TOLERANCE = {float16: 5e-3, float32: 2e-6, float64: 1e-13}
_LIBRARIES = {"cuda": "cuSOLVER", "rocm": "rocSOLVER", "sycl": "dpnp"}


class Svdvals(Operation):
    """`portable.linalg.svdvals` of an m x n matrix."""

    name = "svdvals"
    axes = ("M", "N")
    square = True
    sizes = Sizes(
        quick={"cpu": "256", "gpu": "1024", "simulator": "12"},
        full={"cpu": "256..1024", "gpu": "1024..4096"},
        sweep={"cpu": "64..2048", "gpu": "256..16384"},
    )

    def work(self, size: Size, dtype: DType) -> Work:
        """Those of the reduction to a band; the matrix read once."""
        n, m = sorted(size)
        return Work(4.0 * n * n * (m - n / 3), float(dtype.itemsize * m * n))

    def inputs(self, size: Size, dtype: DType) -> tuple[Array, ...]:
        """Of normal distribution."""
        return (np.random.default_rng(1).standard_normal(size).astype(dtype.numpy),)

    def verifier(self, case: Case, *inputs: Array) -> Verifier:
        """By LAPACK's singular values in double precision, or by norms of large matrices."""
        return ValuesCheck(inputs[0], _TOLERANCE[case.dtype]).error

    def contenders(self, case: Case) -> Sequence[Contender]:
        """Ours and the device's library, LAPACK's gesdd for processors; neither takes halves."""
        found = [Contender("portable", _ours, case.device)]
        peers = [] if case.dtype is float16 else libraries(case.device, case.dtype)
        return [*found, *map(_peer, peers)]


def _peer(peer: Peer) -> Contender:
    if peer.device is None:
        return Contender("LAPACK", _lapack, None, peer=True)
    name = _LIBRARIES.get(peer.device.backend, peer.name)
    return Contender(name, partial(_library, peer.namespace), peer.device, peer=True)


def _ours(a: Any) -> Run:
    return partial(svdvals, a)


def _library(xp: Any, a: Any) -> Run:
    return partial(xp.linalg.svdvals, a)


def _lapack(a: Array) -> Run:
    from scipy.linalg import svd

    return partial(svd, a, compute_uv=False, check_finite=False, lapack_driver="gesdd")
