"""What bounds all others on a device: how fast it copies, and how fast it multiplies and adds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from portable import groups
from portable.backend import Device
from portable.dtypes import DType, float32
from portable.linalg.gemm_tuning import candidates
from portable.tune.space import Parameters
from portable.tune.verify import unit_roundoff, worst_error
from portable_bench import roof_kernels
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

__all__ = ["Copy", "MultiplyAdd"]

_GIGA: Final = 10**9
_ON_GPUS: Final = {"WORKGROUP": 256, "GROUPS": 64, "CHAINS": 8}
_ON_CPUS: Final = {"WORKGROUP": 1, "GROUPS": 16, "CHAINS": 12}
"""Of `multiply_add`; groups are per compute unit."""


class Copy(Operation):
    """A copy of so many MiB, more than caches hold."""

    name = "copy"
    axes = ("MIB",)
    sizes = Sizes(quick={"cpu": "64", "gpu": "1024", "simulator": "1"})
    dtypes = (float32,)

    def label(self, size: Size) -> str:
        """With the unit."""
        return f"{size[0]} MiB"

    def work(self, size: Size, dtype: DType) -> Work:
        """Each byte is read and written."""
        return Work(0.0, 2.0 * size[0] * 2**20)

    def inputs(self, size: Size, dtype: DType) -> tuple[Array, ...]:
        """Counting numbers."""
        return (np.arange(size[0] * 2**20 // dtype.itemsize, dtype=dtype.numpy),)

    def verifier(self, case: Case, *inputs: Array) -> Verifier:
        """Exact."""
        return lambda result: worst_error(result, inputs[0], 0.0)

    def contenders(self, case: Case) -> Sequence[Contender]:
        """A kernel, and the libraries' assignment."""
        peers = libraries(case.device, case.dtype)
        return [
            Contender("portable", partial(_copied, case.device), case.device),
            *(Contender(p.name, partial(_assigned, p), p.device, peer=True) for p in peers),
        ]


class MultiplyAdd(Operation):
    """So many 10^9 operations on numbers that stay in registers or in local memory."""

    name = "fma"
    axes = ("GFLOP",)
    sizes = Sizes(quick={"cpu": "1", "gpu": "128"})

    def label(self, size: Size) -> str:
        """With the unit."""
        return f"{size[0]} GFLOP"

    def work(self, size: Size, dtype: DType) -> Work:
        """As the size says."""
        return Work(float(size[0] * _GIGA), 0.0)

    def inputs(self, size: Size, dtype: DType) -> tuple[Array, ...]:
        """The numbers that are multiplied and added."""
        return (np.array([0.5, 1], dtype.numpy),)

    def verifier(self, case: Case, *inputs: Array) -> Verifier:
        """But for the rounding of the one number by which matrix units' sums are scaled."""
        return lambda result: worst_error(result, 2.0, 4 * unit_roundoff(case.dtype.register))

    def contenders(self, case: Case) -> Sequence[Contender]:
        """In vectors and, where there are such, by matrix units."""
        found = [Contender("registers", partial(_in_registers, case), case.device)]
        tiles = candidates(case.device, case.dtype, "matrix", (8192, 8192, 1))[0]
        if tiles["UNITS"] and case.device.capabilities.matrix_units:
            found.append(Contender("matrix units", partial(_by_units, case, tiles), case.device))
        return found


def _copied(device: Device, x: Any) -> Run:
    y, lanes = device.empty(x.shape, float32), device.capabilities.vector_bytes // 4
    prepared = roof_kernels.copy[x.shape[0] // lanes, 256].prepare(x, y, LANES=lanes)
    return lambda: (prepared(), y)[1]


def _assigned(peer: Any, x: Any) -> Run:
    y = peer.namespace.empty_like(x)

    def run() -> Any:
        y[...] = x
        return y

    return run


def _in_registers(case: Case, numbers: Any) -> Run:
    can = case.device.capabilities
    shape = _ON_CPUS if can.kind == "cpu" else _ON_GPUS
    lanes = can.vector_bytes // case.dtype.register.itemsize if can.kind == "cpu" else 1
    count, chains = shape["GROUPS"] * can.compute_units, shape["CHAINS"]
    items = count * shape["WORKGROUP"]
    steps = round(case.size[0] * _GIGA / (2 * items * chains * lanes))
    x = case.device.from_numpy(np.resize(case.device.to_numpy(numbers), 2 + items * lanes))
    launch = roof_kernels.multiply_add[groups(count), shape["WORKGROUP"]]
    prepared = launch.prepare(x, steps, CHAINS=chains, LANES=lanes)
    found = x[2:]
    return lambda: (prepared(), found)[1]


def _by_units(case: Case, tiles: Parameters, numbers: Any) -> Run:
    device, kind = case.device, case.dtype
    m, n, k = (tiles[name] for name in ("BM", "BN", "BK"))
    count = 2 * device.capabilities.compute_units
    steps = round(case.size[0] * _GIGA / (2 * m * n * k * count))
    ones = [device.from_numpy(np.ones(shape, kind.numpy)) for shape in ((m, k), (k, n))]
    out = device.empty((m, n), kind.register)
    launch = roof_kernels.multiply_tiles[groups(count), tiles["WORKGROUP"]]
    scale = 2 / (k * steps)
    prepared = launch.prepare(*ones, out, steps, scale, BM=m, BN=n, BK=k, ACC=kind.register)
    return lambda: (prepared(), out, ones)[1]
