"""The kernel that makes reflectors of panels that workgroups hold in registers.

For each column a workgroup adds up the products of its rows with all columns. What rows have to add
up, sub-groups add up first: of several sums a work-item keeps half at each step, so that 32 take
hardly more shuffles than one takes steps. Where there are several workgroups, their sums and the
row that changes go by way of a board, in one of two places in turn, since who has seen the others'
next sums knows that they have read the last ones. They have to run at the same time.

The column that is reflected is the first one that a work-item holds; then all move up by one, and
what is left of the column becomes the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.boards import awaited, publish
from portable.linalg.base.magnitude import power_bits
from portable.linalg.base.parts import conjugate
from portable.linalg.factorisations.held_panel_kernels import (
    MOST_GROUPS,
    Held,
    Holding,
    loaded,
)
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
    parts : array, shape (teams, panel)
        Sums of sub-groups.
    others : array, shape (groups + 1, panel)
        Sums of workgroups, and behind them the row of the reflector's 1.
    top : array, shape (panel,)
        That row, where a workgroup has it.
    shares : array, shape (panel,)
        Of columns that are left, what is to be taken from them for each row of the reflector.
    made : array, shape (3,)
        What `reflector_of` gives.
    factor : array, shape (panel, panel + 1)
        T, and below its diagonal products of reflectors with those before them.
    """

    parts: Any
    others: Any
    top: Any
    shares: Any
    made: Any
    factor: Any


@kernel
def reflect_in_registers(
    a: kl.Array,
    v: kl.Array,
    t: kl.Array,
    board: kl.Array,
    where: tuple[kl.Scalar, ...],
    *,
    HOLDING: Holding,
    TEAMS: int,
) -> None:
    """As `reflector_panel_kernels.factor_columns`, of as many rows as registers hold.

    Parameters
    ----------
    a, v, t
        As there.
    board : array of u64
        For sums of each workgroup and a row, in one of two places in turn; its words have smaller
        marks than twice the number of the panel's first column.
    where : (int, int, int, int)
        The panel's first column, the one behind its last, the place of T, and how many workgroups
        hold it.
    HOLDING : Holding
        What work-items hold.
    TEAMS : int
        Sub-groups; 0 where there are none.
    """
    first, stop, corner, groups = where
    batch, group, PANEL = kl.group_id(0) // groups, kl.group_id(0) % groups, HOLDING.panel
    m, width, kind = a.shape[1] - first, stop - first, a.dtype
    held = loaded(a[batch], first, (group, width, m), HOLDING)
    shared = Shared(
        kl.local((max(TEAMS, 1), PANEL), kind),
        kl.local((MOST_GROUPS + 1, PANEL), kind),
        kl.local(PANEL, kind),
        kl.local(PANEL, kind),
        kl.local(3, kind),
        kl.local((PANEL, PANEL + 1), kind),
    )
    told, mark = (board, 2 * batch * (groups + 1) * PANEL, group, groups), 2 * first
    field = scale(held, shared, told, mark + 1, HOLDING)
    for k in range(width):
        add_up(held, shared, told, (mark + k + 2, k), HOLDING, TEAMS)
        apply(held, shared, k, HOLDING)
    store(held, a[batch], v[batch], (first, width, m), field, HOLDING)
    if group == 0:
        join_column(shared.factor, width - 1)
        kl.barrier()
        for entry in kl.workgroup_range(PANEL * PANEL):
            i, j = entry // PANEL, entry % PANEL
            if i <= j and j < width:
                t[batch, first + i, corner + j] = shared.factor[i, j]


@function
def scale(
    held: Held, shared: Shared, told: tuple[Any, ...], mark: kl.Scalar, HOLDING: Holding
) -> Any:
    """Scales a panel by a power of two, whose exponent field it gives, to a large element of 1."""
    board, begin, group, groups = told
    values, kind = held.values, held.values.dtype
    best = kl.cast(0, kind.real)
    for i in kl.static_range(HOLDING.rows):
        for j in kl.static_range(HOLDING.panel):
            best = kl.maximum(best, size_of(values[i, j]))
    best = kl.workgroup_reduce(kl.maximum, best)
    if groups > 1:
        if kl.local_id(0) == 0:
            publish(board, begin + group, kl.cast(best, kind), mark)
        for other in kl.workgroup_range(groups):
            shared.others[other, 0] = awaited(board, begin + other, mark, kind)
        kl.barrier()
        for other in range(groups):
            best = kl.maximum(best, kl.real(shared.others[other, 0]))
        kl.barrier()
    field = power_bits(best, TARGET)
    for i in kl.static_range(HOLDING.rows):
        for j in kl.static_range(HOLDING.panel):
            values[i, j] = scaled(values[i, j], field, 1)
    return field


@function
def add_up(
    held: Held,
    shared: Shared,
    told: tuple[Any, ...],
    step: tuple[kl.Scalar, ...],
    HOLDING: Holding,
    TEAMS: int,
) -> None:
    """The reflector of the first column, of row `k` and those below, and its products with all."""
    (board, start, group, groups), (mark, k), PANEL = told, step, HOLDING.panel
    values, kind = held.values, held.values.dtype
    begin = start + (k + 1) % 2 * ((groups + 1) * PANEL)
    sums = kl.private(PANEL, kind, fill=0)
    for i in kl.static_range(HOLDING.rows):
        head = conjugate(kl.where(held.row(i) > k, values[i, 0], kl.cast(0, kind)))
        for j in kl.static_range(PANEL):
            sums[j] = sums[j] + head * values[i, j]
        if held.row(i) == k:
            for j in kl.static_range(PANEL):
                shared.top[j] = values[i, j]
    put_sums(sums, shared.parts, PANEL, TEAMS)
    kl.barrier()
    if groups > 1:
        for index in kl.workgroup_range(2 * PANEL):
            if index < PANEL:
                total = total_of(shared.parts, shared.parts.shape[0], index)
                publish(board, begin + group * PANEL + index, total, mark)
            elif group == 0:
                number = begin + groups * PANEL + index - PANEL
                publish(board, number, shared.top[index - PANEL], mark)
        if group == 0:
            join_column(shared.factor, kl.maximum(k - 1, 0))
        for index in kl.workgroup_range((groups + 1) * PANEL):
            other = awaited(board, begin + index, mark, kind)
            shared.others[index // PANEL, index % PANEL] = other
        kl.barrier()
        make_reflector(shared, shared.others, (groups, k), shared.others[groups])
    else:
        join_column(shared.factor, kl.maximum(k - 1, 0))
        make_reflector(shared, shared.parts, (shared.parts.shape[0], k), shared.top)
    kl.barrier()


@function
def total_of(parts: kl.Array, count: kl.Scalar, j: kl.Scalar) -> Any:
    """The sum of what so many have for a column."""
    total = parts[0, j]
    for other in kl.range(1, count, unroll=4):
        total = total + parts[other, j]
    return total


@function
def make_reflector(
    shared: Shared, parts: kl.Array, step: tuple[kl.Scalar, ...], top: kl.Array
) -> None:
    """The reflector of the first column, and shares of the others; some of them are V's by now."""
    count, k = step
    PANEL, zero = shared.top.shape[0], kl.cast(0, parts.dtype)
    for j in kl.workgroup_range(PANEL):
        beta, tau, factor = reflector_of(top[0], kl.real(total_of(parts, count, 0)))
        share, left = top[j] + conjugate(factor) * total_of(parts, count, j), PANEL - k
        shared.shares[j] = kl.where(j < left, share, zero)
        if j >= left:
            shared.factor[k, j - left] = conjugate(share)
        if j == 0:
            shared.made[0] = beta
            shared.made[1] = tau
            shared.made[2] = factor
            shared.factor[k, k] = tau


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
            if STEP > 0 and HALF > 0:
                upper = (lane & STEP) != 0
                for j in kl.static_range(HALF):
                    kept = kl.where(upper, sums[j + HALF], sums[j])
                    given = kl.where(upper, sums[j], sums[j + HALF])
                    sums[j] = kept + kl.sub_group_shuffle_xor(given, STEP)
            elif STEP > 0:
                sums[0] = sums[0] + kl.sub_group_shuffle_xor(sums[0], STEP)
        EACH, SHARE = max(WIDTH // COLUMNS, 1), max(COLUMNS // WIDTH, 1)
        if lane % EACH == 0:
            for j in kl.static_range(SHARE):
                parts[kl.sub_group_id(), lane // EACH * SHARE + j] = sums[j]


@function
def apply(held: Held, shared: Shared, k: kl.Scalar, HOLDING: Holding) -> None:
    """Applies a reflector to rows from the `k`-th on, a column further.

    The last columns are those of V, which are done.
    """
    PANEL, values, kind = HOLDING.panel, held.values, held.values.dtype
    beta, tau, factor = shared.made[0], shared.made[1], shared.made[2]
    below, last = kl.private(HOLDING.rows, kind), kl.private(HOLDING.rows, kind)
    for i in kl.static_range(HOLDING.rows):
        row, head = held.row(i), values[i, 0]
        part = kl.where(row > k, factor * head, kl.cast(0, kind))
        below[i] = conjugate(tau) * kl.where(row == k, kl.cast(1, kind), part)
        last[i] = kl.where(row > k, part, kl.where(row == k, beta, head))
    for j in kl.static_range(1, PANEL):
        share = shared.shares[j]
        for i in kl.static_range(HOLDING.rows):
            values[i, j - 1] = values[i, j] - below[i] * share
    for i in kl.static_range(HOLDING.rows):
        values[i, PANEL - 1] = last[i]


@function
def store(
    held: Held,
    matrix: kl.Array,
    vectors: kl.Array,
    extents: tuple[kl.Scalar, ...],
    field: kl.Scalar,
    HOLDING: Holding,
) -> None:
    """Stores R, scaled back, and V."""
    first, width, m = extents
    PANEL, zero = HOLDING.panel, kl.cast(0, held.values.dtype)
    for i in kl.static_range(HOLDING.rows):
        row = held.row(i)
        for j in kl.static_range(PANEL):
            column = (j + width) % PANEL
            if row < m and column < width:
                one = kl.where(row == column, kl.cast(1, held.values.dtype), zero)
                below = kl.where(row > column, held.values[i, j], one)
                vectors[first + row, first + column] = below
                if row <= column:
                    x = scaled(held.values[i, j], field, -1)
                    matrix[first + row, first + column] = x


@function
def join_column(factor: kl.Array, k: kl.Scalar) -> None:
    """Column `k` of T, of its diagonal and the products below it.

    It is ``-tau T y``, of the products y of the reflectors before with this one.
    """
    for i in kl.workgroup_range(k):
        product = kl.cast(0, factor.dtype)
        for j in kl.range(i, k, unroll=4):
            product = product + factor[i, j] * factor[k, j]
        factor[i, k] = -factor[k, k] * product


@kernel
def start_factor(gram: kl.Array, t: kl.Array) -> None:
    """Puts reciprocals of T's diagonals, conjugated, on those of products; T becomes the identity.

    A reflector that is none, whose factor is 0, gets one that is too small to count.
    """
    column, row, batch = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    if batch < t.shape[0] and row < t.shape[1] and column < t.shape[2]:
        one, zero = kl.cast(1, t.dtype), kl.cast(0, t.dtype)
        if row == column:
            tau = t[batch, row, row]
            small = kl.cast(2.0**-900 if t.dtype.real == kl.f64 else 2.0**-100, t.dtype)
            gram[batch, row, row] = one / conjugate(kl.where(tau == zero, small, tau))
        t[batch, row, column] = kl.where(row == column, one, zero)
