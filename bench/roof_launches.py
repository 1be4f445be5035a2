"""How the kernels that measure roofs are spread over a device."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from portable import groups
from portable import lang as kl
from portable.gf2.blocks import WORD, build_tables, combination, nothing
from portable.gf2.tuning import shape_for
from portable.lang.kernel import kernel
from portable.linalg.products.model import multiplying
from portable.primitives.maps.work import vector_lanes
from portable.tune.space import Parameters
from portable_bench.operation import Case, Run

# Kernels that do nothing but what bounds all others: moving, and multiplying and adding.

MULTIPLIER: Final = 0x9E3779B97F4A7C15
"""Spreads small numbers over all bits of a word."""


@kernel
def copy(x: kl.Array, y: kl.Array, *, LANES: int) -> None:
    """A vector per work-item; the extent is a multiple of `LANES`.

    It passes the caches by, as the fastest copies of processors do.
    """
    i = kl.global_id(0) * LANES
    if i < x.shape[0]:
        kl.vstore(y, i, kl.vload(x, i, lanes=LANES), streaming=True)


@kernel
def multiply_add(x: kl.Array, steps: kl.Scalar, *, CHAINS: int, LANES: int) -> None:
    """``y = y / 2 + 1`` in `CHAINS` vectors that do not wait for each other.

    The factors come from `x`, which holds 0.5 and 1, so that no compiler knows them. From whatever
    it begins with, each number ends as 2, and `x` gets the means over chains.
    """
    kind = kl.accumulator(x.dtype)
    half, one = kl.splat(kind(x[0]), LANES), kl.splat(kind(x[1]), LANES)
    y = kl.private((CHAINS,), kind, lanes=LANES)
    for chain in kl.static_range(CHAINS):
        y[chain] = one * (chain + kl.local_id(0) % 2)
    for _ in kl.range(steps):
        for chain in kl.static_range(CHAINS):
            y[chain] = y[chain] * half + one
    total = y[0]
    for chain in kl.static_range(1, CHAINS):
        total = total + y[chain]
    kl.vstore(x, 2 + kl.global_id(0) * LANES, total / CHAINS)


@kernel
def multiply_tiles(
    a: kl.Array,
    b: kl.Array,
    out: kl.Array,
    steps: kl.Scalar,
    scale: kl.Scalar,
    *,
    BM: int,
    BN: int,
    BK: int,
    ACC: Any,
) -> None:
    """``out = steps (a @ b) scale``, both tiles resting in local memory; one workgroup writes."""
    tile_a, tile_b = kl.local((BM, BK), a.dtype), kl.local((BK, BN), b.dtype)
    kl.copy(tile_a, a[0:BM, 0:BK])
    kl.copy(tile_b, b[0:BK, 0:BN])
    kl.barrier()
    total = kl.matrix((BM, BN), ACC, scope="workgroup")
    total.fill(0)
    for _ in kl.range(steps):
        kl.mma(total, tile_a, tile_b)
    for i, j, x in kl.elements(total):
        if kl.group_id(0) == 0:
            out[i, j] = x * scale


@kernel
def add_entries(
    rows: kl.Array, out: kl.Array, steps: kl.Scalar, *, shape: Any, chains: int
) -> None:
    """Adds entries of tables of `rows`, which names from a generator choose, in some chains.

    Entries of the sums of all names are added last, which leaves nothing: tables are linear.
    """
    tables = kl.local((shape.tables, 1 << shape.bits, shape.width), kl.u64)
    part = kl.local((WORD, shape.width), kl.u64)
    for x in kl.workgroup_range(WORD * shape.width):
        part[x // shape.width, x % shape.width] = rows[x // shape.width, x % shape.width]
    kl.barrier()
    build_tables(tables, part, shape)
    at = kl.local_id(0) * shape.lanes
    index = kl.group_id(0) * kl.local_size(1) + kl.local_id(1)
    names, sums = kl.private(chains, kl.u64), kl.private(chains, kl.u64)
    totals = kl.private(chains, kl.u64, lanes=shape.lanes)
    for chain in kl.static_range(chains):
        names[chain] = kl.cast(index * chains + chain + 1, kl.u64) * MULTIPLIER
        sums[chain] = kl.cast(0, kl.u64)
        totals[chain] = nothing(shape.lanes)
    for _ in kl.range(steps):
        for chain in kl.static_range(chains):
            name = names[chain]
            totals[chain] = totals[chain] ^ combination(tables, name, at, shape)
            sums[chain] = sums[chain] ^ name
            name = name ^ (name << 13)
            name = name ^ (name >> 7)
            names[chain] = name ^ (name << 17)
    total = nothing(shape.lanes)
    for chain in kl.static_range(chains):
        total = total ^ totals[chain] ^ combination(tables, sums[chain], at, shape)
    kl.vstore(out, index, at, total)


# -- roof launches ---------------------------------------------------------------------------------

_GIGA: Final = 10**9
_ON_GPUS: Final = {"WORKGROUP": 256, "GROUPS": 64, "CHAINS": 8}
_ON_CPUS: Final = {"WORKGROUP": 1, "GROUPS": 16, "CHAINS": 12}
"""Of `multiply_add`; groups are per compute unit."""


def copied(case: Case, x: Any) -> Run:
    """A copy, in the widest vectors."""
    y, kinds = case.empty(*x.shape), (case.dtype, case.dtype)
    lanes = vector_lanes(kinds, x.shape[0], case.device.capabilities, streaming=True)
    prepared = copy[x.shape[0] // lanes, 256].prepare(x, y, LANES=lanes)
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
    launch = multiply_add[groups(count), shape["WORKGROUP"]]
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
        What the kernel takes of the factors.
    """
    device, kind = case.device, case.dtype
    m, n, k = (tiles[name] for name in ("BM", "BN", "BK"))
    count = 2 * device.capabilities.compute_units
    steps = round(case.size[0] * _GIGA / (2 * m * n * k * count))
    ones = [device.from_numpy(np.ones(shape, kind.numpy)) for shape in ((m, k), (k, n))]
    out = device.empty((m, n), kind.register)
    # Nothing is copied here, so that those who only copy are left out: over more work-items than
    # share a tile out no matrix unit takes it.
    launch = multiply_tiles[groups(count), multiplying(tiles)]
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
    launch = add_entries[groups(count), shape.workgroup]
    prepared = launch.prepare(rows, out, steps, shape=shape, chains=chains)
    return lambda: (prepared(), out)[1]
