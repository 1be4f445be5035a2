"""The kernel that makes reflectors of panels that a workgroup holds in registers.

The panel is worked on from the left, a few columns at a time, which is what registers have room
for. These are first changed by the reflectors before them, all of which are one block in the end,
``I - V T V^H``. What rows have to add up, sub-groups add up first: of several sums a work-item
keeps half at each step, so that eight take hardly more shuffles than one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.magnitude import power_bits
from portable.linalg.base.parts import conjugate
from portable.linalg.factorisations.held_panel_kernels import Holding, row_of
from portable.linalg.factorisations.panel_kernels import size_of
from portable.linalg.factorisations.reflector_panel_kernels import (
    TARGET,
    added,
    reflector_of,
    scaled,
)

_STAGES = 6
"""Shuffles that a sum over a sub-group takes at most."""


@dataclass(frozen=True)
class Shared:
    """What a workgroup has in local memory.

    Attributes
    ----------
    parts : array, shape (columns, teams, columns)
        Sums of sub-groups.
    sums : array, shape (panel, columns)
        Products of the reflectors before with the columns that are held.
    shares : array, shape (panel, columns)
        What is to be taken from these, for each of the reflectors.
    factor : array, shape (panel, panel)
        T.
    top : array, shape (2, columns)
        The row of the latest reflector's 1, in turn.
    """

    parts: Any
    sums: Any
    shares: Any
    factor: Any
    top: Any


@kernel
def reflect_in_registers(
    a: kl.Array,
    v: kl.Array,
    t: kl.Array,
    where: tuple[kl.Scalar, ...],
    *,
    HOLDING: Holding,
    TEAMS: int,
) -> None:
    """As `reflector_panel_kernels.factor_columns`, of as many rows as registers hold.

    Parameters
    ----------
    a, v, t, where
        As there.
    HOLDING : Holding
        What work-items hold.
    TEAMS : int
        Sub-groups, each wider than columns that are held; 0 where there are none.
    """
    first, stop, corner = where
    batch, kind = kl.group_id(0), a.dtype
    COLUMNS, PANEL, GROUPS = HOLDING.columns, HOLDING.panel, max(TEAMS, 1)
    m, width = a.shape[1] - first, stop - first
    shared = Shared(
        kl.local((COLUMNS, GROUPS, COLUMNS), kind),
        kl.local((PANEL, COLUMNS), kind),
        kl.local((PANEL, COLUMNS), kind),
        kl.local((PANEL, PANEL), kind),
        kl.local((2, COLUMNS), kind),
    )
    for entry in kl.workgroup_range(PANEL * PANEL):
        shared.factor[entry // PANEL, entry % PANEL] = 0
    held = kl.private((HOLDING.rows, COLUMNS), kind)
    panel, vectors = a[batch, first:, first:stop], v[batch, first:, first:stop]
    for begin in range(0, width, COLUMNS):
        load(held, panel, begin, (m, width), HOLDING)
        if begin > 0:
            multiply(held, shared, vectors, begin, m, HOLDING, TEAMS)
            turn_sums(shared, begin, COLUMNS)
            subtract(held, shared.shares, vectors, begin, m, HOLDING)
            store_above(held, panel, begin, width, HOLDING)
        field = scale(held, HOLDING)
        for step in range(COLUMNS):
            if begin + step < width:
                make_reflector(held, shared, begin, step, HOLDING, TEAMS)
            else:
                zero = kl.cast(0, kind)
                none = kl.private(COLUMNS, kind, fill=0)
                apply(held, none, (zero, zero, zero + 1), -1, step, HOLDING)
        store(held, panel, vectors, (begin, width, m), field, HOLDING)
        if begin > 0:
            multiply(held, shared, vectors, begin, m, HOLDING, TEAMS)
            join_factors(shared, begin, COLUMNS)
    kl.barrier()
    for entry in kl.workgroup_range(PANEL * PANEL):
        i, j = entry // PANEL, entry % PANEL
        if i < width and j < width:
            t[batch, first + i, corner + j] = shared.factor[i, j]


@function
def load(
    held: kl.Array,
    panel: kl.Array,
    begin: kl.Scalar,
    extents: tuple[kl.Scalar, ...],
    HOLDING: Holding,
) -> None:
    """Loads columns, zeros beyond the panel."""
    m, width = extents
    for i in kl.static_range(HOLDING.rows):
        for j in kl.static_range(HOLDING.columns):
            held[i, j] = 0
            if row_of(i) < m and begin + j < width:
                held[i, j] = panel[row_of(i), begin + j]


@function
def put_sums(sums: kl.Array, parts: kl.Array, COLUMNS: int, TEAMS: int) -> None:
    """Adds up what the work-items of a sub-group have, for its place in `parts`."""
    if TEAMS == 0:
        sums_of_all = kl.workgroup_reduce(added, tuple([sums[j] for j in range(COLUMNS)]))
        if kl.local_id(0) == 0:
            for j in kl.static_range(COLUMNS):
                parts[0, j] = sums_of_all[j]
    else:
        WIDTH, lane = kl.target.sub_group_size, kl.sub_group_local_id()
        for level in kl.static_range(_STAGES):
            STEP, HALF = WIDTH >> (level + 1), COLUMNS >> (level + 1)
            if HALF > 0:
                upper = (lane & STEP) != 0
                for j in kl.static_range(HALF):
                    kept = kl.where(upper, sums[j + HALF], sums[j])
                    given = kl.where(upper, sums[j], sums[j + HALF])
                    sums[j] = kept + kl.sub_group_shuffle_xor(given, STEP)
            elif STEP > 0:
                sums[0] = sums[0] + kl.sub_group_shuffle_xor(sums[0], STEP)
        EACH = WIDTH // COLUMNS
        if lane % EACH == 0:
            parts[kl.sub_group_id(), lane // EACH] = sums[0]


@function
def total(parts: kl.Array, j: kl.Scalar) -> Any:
    """The sum of what sub-groups have."""
    sum_of_parts = parts[0, j]
    for team in range(1, parts.shape[0]):
        sum_of_parts = sum_of_parts + parts[team, j]
    return sum_of_parts


@function
def multiply(
    held: kl.Array,
    shared: Shared,
    vectors: kl.Array,
    begin: kl.Scalar,
    m: kl.Scalar,
    HOLDING: Holding,
    TEAMS: int,
) -> None:
    """Products of the reflectors before, conjugated, with the columns that are held."""
    COLUMNS = HOLDING.columns
    for block in range(0, begin, COLUMNS):
        for k in range(COLUMNS):
            sums = kl.private(COLUMNS, held.dtype, fill=0)
            for i in kl.static_range(HOLDING.rows):
                if row_of(i) < m:
                    x = conjugate(vectors[row_of(i), block + k])
                    for j in kl.static_range(COLUMNS):
                        sums[j] = sums[j] + x * held[i, j]
            put_sums(sums, shared.parts[k], COLUMNS, TEAMS)
        kl.barrier()
        for entry in kl.workgroup_range(COLUMNS * COLUMNS):
            k, j = entry // COLUMNS, entry % COLUMNS
            shared.sums[block + k, j] = total(shared.parts[k], j)
        kl.barrier()


@function
def turn_sums(shared: Shared, begin: kl.Scalar, COLUMNS: int) -> None:
    """Shares of the reflectors before: ``T^H`` times the products."""
    for entry in kl.workgroup_range(begin * COLUMNS):
        k, j = entry // COLUMNS, entry % COLUMNS
        share = kl.cast(0, shared.sums.dtype)
        for other in range(k + 1):
            share = share + conjugate(shared.factor[other, k]) * shared.sums[other, j]
        shared.shares[k, j] = share
    kl.barrier()


@function
def subtract(
    held: kl.Array,
    shares: kl.Array,
    vectors: kl.Array,
    begin: kl.Scalar,
    m: kl.Scalar,
    HOLDING: Holding,
) -> None:
    """Takes the shares of the reflectors before from the columns that are held."""
    x = kl.private(HOLDING.rows, held.dtype)
    # Rows inside, whose loads are on their way together.
    for k in kl.range(begin, unroll=2):
        for i in kl.static_range(HOLDING.rows):
            x[i] = 0
            if row_of(i) < m:
                x[i] = vectors[row_of(i), k]
        for i in kl.static_range(HOLDING.rows):
            for j in kl.static_range(HOLDING.columns):
                held[i, j] = held[i, j] - x[i] * shares[k, j]


@function
def store_above(
    held: kl.Array, panel: kl.Array, begin: kl.Scalar, width: kl.Scalar, HOLDING: Holding
) -> None:
    """Stores rows that are done, of which zeros are held from now on."""
    for i in kl.static_range(HOLDING.rows):
        if row_of(i) < begin:
            for j in kl.static_range(HOLDING.columns):
                if begin + j < width:
                    panel[row_of(i), begin + j] = held[i, j]
                held[i, j] = 0


@function
def scale(held: kl.Array, HOLDING: Holding) -> Any:
    """Scales columns by a power of two, whose exponent field it gives, to a large element of 1."""
    best = kl.cast(0, held.dtype.real)
    for i in kl.static_range(HOLDING.rows):
        for j in kl.static_range(HOLDING.columns):
            best = kl.maximum(best, size_of(held[i, j]))
    field = power_bits(kl.workgroup_reduce(kl.maximum, best), TARGET)
    for i in kl.static_range(HOLDING.rows):
        for j in kl.static_range(HOLDING.columns):
            held[i, j] = scaled(held[i, j], field, 1)
    return field


@function
def make_reflector(
    held: kl.Array, shared: Shared, begin: kl.Scalar, step: kl.Scalar, HOLDING: Holding, TEAMS: int
) -> None:
    """The reflector of the first column that is held, applied to those after it."""
    COLUMNS, kind = HOLDING.columns, held.dtype
    k, turn = begin + step, step % 2
    sums, totals = kl.private(COLUMNS, kind, fill=0), kl.private(COLUMNS, kind)
    zero = kl.cast(0, kind)
    for i in kl.static_range(HOLDING.rows):
        head = conjugate(kl.where(row_of(i) > k, held[i, 0], zero))
        for j in kl.static_range(COLUMNS):
            sums[j] = sums[j] + head * held[i, j]
        if row_of(i) == k:
            for j in kl.static_range(COLUMNS):
                shared.top[turn, j] = held[i, j]
    put_sums(sums, shared.parts[0], COLUMNS, TEAMS)
    kl.barrier()
    for j in kl.workgroup_range(COLUMNS):
        shared.sums[turn, j] = total(shared.parts[0], j)
    kl.barrier()
    beta, tau, factor = reflector_of(shared.top[turn, 0], kl.real(shared.sums[turn, 0]))
    for j in kl.static_range(COLUMNS):
        totals[j] = shared.top[turn, j] + conjugate(factor) * shared.sums[turn, j]
    apply(held, totals, (beta, tau, factor), k, step, HOLDING)
    for i in kl.workgroup_range(COLUMNS):
        product = zero
        for j in range(step):
            if j >= i:
                column = COLUMNS - step + j  # where column j of V is by now
                other = shared.top[turn, column] + conjugate(factor) * shared.sums[turn, column]
                product = product + shared.factor[begin + i, begin + j] * conjugate(other)
        if i <= step:
            shared.factor[begin + i, k] = kl.where(i == step, tau, -tau * product)


@function
def apply(
    held: kl.Array,
    totals: kl.Array,
    made: tuple[kl.Scalar, ...],
    k: kl.Scalar,
    step: kl.Scalar,
    HOLDING: Holding,
) -> None:
    """Applies a reflector to rows from the `k`-th on, a column further.

    The last columns are those of V, which are done.
    """
    COLUMNS, zero = HOLDING.columns, kl.cast(0, held.dtype)
    beta, tau, factor = made
    parts = kl.private(COLUMNS, held.dtype)
    for j in kl.static_range(COLUMNS):
        parts[j] = kl.where(j < COLUMNS - step, conjugate(tau) * totals[j], zero)
    for i in kl.static_range(HOLDING.rows):
        row, head = row_of(i), held[i, 0]
        below = kl.where(row > k, factor * head, zero)
        below = kl.where(row == k, kl.cast(1, held.dtype), below)
        for j in kl.static_range(1, COLUMNS):
            held[i, j - 1] = held[i, j] - below * parts[j]
        last = kl.where(row > k, factor * head, head)
        held[i, COLUMNS - 1] = kl.where(row == k, beta, last)


@function
def store(
    held: kl.Array,
    panel: kl.Array,
    vectors: kl.Array,
    extents: tuple[kl.Scalar, ...],
    field: kl.Scalar,
    HOLDING: Holding,
) -> None:
    """Stores R, scaled back, and V, which is what is held from now on."""
    begin, width, m = extents
    zero, one = kl.cast(0, held.dtype), kl.cast(1, held.dtype)
    for i in kl.static_range(HOLDING.rows):
        row = row_of(i)
        for j in kl.static_range(HOLDING.columns):
            column = begin + j
            x = kl.where(row > column, held[i, j], kl.where(row == column, one, zero))
            if row < m and column < width:
                if row >= begin and row <= column:
                    panel[row, column] = scaled(held[i, j], field, -1)
                vectors[row, column] = x
            held[i, j] = x


@function
def join_factors(shared: Shared, begin: kl.Scalar, COLUMNS: int) -> None:
    """T of all reflectors so far: ``T_12 = -T_1 (V_1^H V_2) T_2``."""
    factor = shared.factor
    for entry in kl.workgroup_range(begin * COLUMNS):
        k, j = entry // COLUMNS, entry % COLUMNS
        share = kl.cast(0, factor.dtype)
        for other in range(j + 1):
            share = share + shared.sums[k, other] * factor[begin + other, begin + j]
        shared.shares[k, j] = share
    kl.barrier()
    for entry in kl.workgroup_range(begin * COLUMNS):
        i, j = entry // COLUMNS, entry % COLUMNS
        share = kl.cast(0, factor.dtype)
        for k in range(i, begin):
            share = share + factor[i, k] * shared.shares[k, j]
        factor[i, begin + j] = -share
    kl.barrier()
