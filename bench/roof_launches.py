"""How the kernels that measure roofs are spread over a device."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from portable import groups
from portable.gf2.tuning import shape_for
from portable.linalg.products.tuning import multiplying
from portable.primitives.maps.work import vector_lanes
from portable.tune.space import Parameters
from portable_bench import roof_kernels
from portable_bench.operation import Case, Run

_GIGA: Final = 10**9
_ON_GPUS: Final = {"WORKGROUP": 256, "GROUPS": 64, "CHAINS": 8}
_ON_CPUS: Final = {"WORKGROUP": 1, "GROUPS": 16, "CHAINS": 12}
"""Of `multiply_add`; groups are per compute unit."""


def copied(case: Case, x: Any) -> Run:
    """A copy, in the widest vectors."""
    y, kinds = case.empty(*x.shape), (case.dtype, case.dtype)
    lanes = vector_lanes(kinds, x.shape[0], case.device.capabilities, streaming=True)
    prepared = roof_kernels.copy[x.shape[0] // lanes, 256].prepare(x, y, LANES=lanes)
    return lambda: (prepared(), y)[1]


def in_registers(case: Case, numbers: Any) -> Run:
    """As many 10^9 operations as the size says, in chains that fill the arithmetic units."""
    can = case.device.capabilities
    shape = _ON_CPUS if can.kind == "cpu" else _ON_GPUS
    lanes = can.vector_bytes // case.dtype.register.itemsize if can.kind == "cpu" else 1
    count, chains = shape["GROUPS"] * can.compute_units, shape["CHAINS"]
    items = count * shape["WORKGROUP"]
    steps = round(case.size[0] * _GIGA / (2 * items * chains * lanes))
    x = case.device.from_numpy(np.resize(case.device.to_numpy(numbers), 2 + items * lanes))
    launch = roof_kernels.multiply_add[groups(count), shape["WORKGROUP"]]
    prepared = launch.prepare(x, steps, CHAINS=chains, LANES=lanes)
    row = x[2:]
    return lambda: (prepared(), row)[1]


def by_matrix_units(case: Case, tiles: Parameters, numbers: Any) -> Run:
    """The same in products of tiles, which are as large as those of `portable.linalg.gemm`.

    Parameters
    ----------
    case : Case
    tiles : mapping
        A choice of the space "gemm".
    numbers : array
        What the kernel is told of the factors.
    """
    device, kind = case.device, case.dtype
    m, n, k = (tiles[name] for name in ("BM", "BN", "BK"))
    count = 2 * device.capabilities.compute_units
    steps = round(case.size[0] * _GIGA / (2 * m * n * k * count))
    ones = [device.from_numpy(np.ones(shape, kind.numpy)) for shape in ((m, k), (k, n))]
    out = device.empty((m, n), kind.register)
    # Nothing is copied here, so that those who only copy are left out: over more work-items than
    # share a tile out no matrix unit takes it.
    launch = roof_kernels.multiply_tiles[groups(count), multiplying(tiles)]
    scale = 2 / (k * steps)
    prepared = launch.prepare(*ones, out, steps, scale, BM=m, BN=n, BK=k, ACC=kind.register)
    return lambda: (prepared(), out, ones)[1]


def in_tables(case: Case, rows: Any) -> Run:
    """As many 10^9 additions of entries of tables as the size says, by all work-items.

    Work-items along dimension 1 stand for rows, those along dimension 0 for their words.
    """
    shape = shape_for(case.device.capabilities)
    across, down = shape.workgroup
    count, chains = 8 * case.device.capabilities.compute_units, 1 if shape.alone else 4
    each = count * down * chains * shape.tables * across * shape.lanes
    steps = round(case.size[0] * _GIGA / each)
    out = case.empty(count * down, across * shape.lanes)
    launch = roof_kernels.add_entries[groups(count), shape.workgroup]
    prepared = launch.prepare(rows, out, steps, shape=shape, chains=chains)
    return lambda: (prepared(), out)[1]
