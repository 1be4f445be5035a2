"""Panels that several workgroups factor together, their rows in registers.

Each workgroup has some rows of a panel. For each column the workgroups meet once: what a column
needs of all rows, products, they put on a board, in one of two places in turn, since who
has met the others has read what they wrote the time before. So they have to run at the same time:
there are no more of them than the device has compute units.

The column that is reflected is the first one that a work-item holds; then all move up by one, and
what is left of the column becomes the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.magnitude import power_bits
from portable.linalg.base.parts import conjugate
from portable.linalg.factorisations.panel_kernels import size_of
from portable.linalg.factorisations.reflector_panel_kernels import (
    TARGET,
    added,
    put_column,
    reflector_of,
    scaled,
)


@dataclass(frozen=True, slots=True)
class Sharing:
    """How workgroups share a panel, a constant of the kernels.

    Attributes
    ----------
    groups : int
        Workgroups.
    rows : int
        Rows that each work-item holds at most.
    panel : int
        Columns.
    """

    groups: int
    rows: int
    panel: int


@dataclass(frozen=True)
class Rows:
    """The rows of a work-item.

    Attributes
    ----------
    held : array, shape (rows, panel)
        What it holds.
    first : int
        Its first row, counted from the panel's first.
    step : int
        How far apart they are.
    """

    held: Any
    first: Any
    step: Any

    def number(self, i: int) -> Any:
        """The i-th row's, counted from the panel's first."""
        return self.first + i * self.step


@function
def rows_of(
    matrix: kl.Array, first: kl.Scalar, group: kl.Scalar, width: kl.Scalar, SHARING: Sharing
) -> Any:
    """Loads a work-item's rows, zeros beyond the matrix and the panel."""
    m, items = matrix.shape[0] - first, kl.local_size(0)
    held = kl.private((SHARING.rows, SHARING.panel), matrix.dtype)
    rows = Rows(held, group * (SHARING.rows * items) + kl.local_id(0), items)
    for i in kl.static_range(SHARING.rows):
        row = rows.number(i)
        for j in kl.static_range(SHARING.panel):
            held[i, j] = 0
            if row < m and j < width:
                held[i, j] = matrix[first + row, first + j]
    return rows


@function
def meet(counts: kl.Array, slot: kl.Scalar, times: kl.Scalar, GROUPS: int) -> None:
    """All workgroups of a panel meet for so many times; what they wrote before is seen after."""
    kl.barrier()
    if GROUPS > 1:
        if kl.local_id(0) == 0:
            kl.atomic_add(counts, slot, 1, order="acq_rel")
            while kl.atomic_load(counts, slot, order="acquire") < times * GROUPS:
                pass
        kl.barrier()


@function
def put_row(rows: Rows, row: kl.Scalar, board: kl.Array, SHARING: Sharing) -> None:
    """Who holds a row puts it on the board."""
    for i in kl.static_range(SHARING.rows):
        if rows.number(i) == row:
            for j in kl.static_range(SHARING.panel):
                board[j] = rows.held[i, j]


@kernel
def reflect_together(
    a: kl.Array,
    v: kl.Array,
    t: kl.Array,
    board: kl.Array,
    counts: kl.Array,
    where: tuple[kl.Scalar, ...],
    *,
    SHARING: Sharing,
) -> None:
    """As `reflector_panel_kernels.factor_columns`, by several workgroups for each matrix.

    Parameters
    ----------
    a, v, t
        As there.
    board : array, shape (batch, 2, groups + 1, panel)
        Where each workgroup puts its part of products, and who has it the row that is to change.
    counts : array of i32
        How often workgroups have met, zeros at first.
    where : (int, int, int, int)
        The panel's first column, the one behind its last, the place of T, and that in `counts`.
    """
    first, stop, corner, position = where
    GROUPS, PANEL = SHARING.groups, SHARING.panel
    batch, group = kl.group_id(0) // GROUPS, kl.group_id(0) % GROUPS
    matrix, width = a[batch], stop - first
    rows = rows_of(matrix, first, group, width, SHARING)
    field = scale_together(rows, board[batch], counts, (position + batch, group), SHARING)
    factor, shared = kl.local((PANEL, PANEL), a.dtype), kl.local((2, PANEL), a.dtype)
    totals = kl.private(PANEL, a.dtype)
    for k in range(PANEL):
        slot = (k + 1) % 2
        if k < width:
            put_products(rows, k, board[batch, slot, group], SHARING)
            put_row(rows, k, board[batch, slot, GROUPS], SHARING)
            meet(counts, position + batch, k + 2, GROUPS)
            if kl.local_id(0) < PANEL:
                j = kl.local_id(0)
                total = board[batch, slot, 0, j]
                for other in range(1, GROUPS):
                    total = total + board[batch, slot, other, j]
                shared[0, j] = total
                shared[1, j] = board[batch, slot, GROUPS, j]
            kl.barrier()
            beta, tau, scale = reflector_of(shared[1, 0], kl.real(shared[0, 0]))
            for j in kl.static_range(PANEL):
                totals[j] = shared[1, j] + conjugate(scale) * shared[0, j]
            reflect_held(rows, totals, (beta, tau, scale), k, SHARING)
            kl.barrier()
            # Column l of V, which is at PANEL - k + l by now, is wanted at l.
            if kl.local_id(0) < PANEL and kl.local_id(0) >= PANEL - k:
                j = kl.local_id(0)
                shared[0, j] = shared[1, j] + conjugate(scale) * shared[0, j]
            kl.barrier()
            put_column(factor, Turned(shared, PANEL - k), tau, k)
        else:
            for j in kl.static_range(PANEL):
                totals[j] = 0
            reflect_held(rows, totals, (totals[0], totals[0], totals[0] + 1), -1, SHARING)
    kl.barrier()
    store_reflectors(rows, matrix, v[batch], (first, width), field, SHARING)
    if group == 0:
        for entry in kl.workgroup_range(PANEL * PANEL):
            i, j = entry // PANEL, entry % PANEL
            if i < width and j < width:
                t[batch, first + i, corner + j] = factor[i, j]


@dataclass(frozen=True)
class Turned:
    """Numbers in local memory that begin at a place."""

    values: Any
    start: Any

    def __getitem__(self, j: kl.Scalar) -> Any:
        return self.values[0, self.start + j]


@function
def scale_together(
    rows: Rows, board: kl.Array, counts: kl.Array, slot: tuple[kl.Scalar, ...], SHARING: Sharing
) -> Any:
    """Scales a panel by a power of two, whose exponent field it gives, to a large element of 1."""
    GROUPS, group = SHARING.groups, slot[1]
    best = kl.cast(0, rows.held.dtype.real)
    for i in kl.static_range(SHARING.rows):
        for j in kl.static_range(SHARING.panel):
            best = kl.maximum(best, size_of(rows.held[i, j]))
    best = kl.workgroup_reduce(kl.maximum, best)
    if kl.local_id(0) == 0:
        board[0, group, 0] = kl.cast(best, board.dtype)
    meet(counts, slot[0], 1, GROUPS)
    for other in range(GROUPS):
        best = kl.maximum(best, kl.real(board[0, other, 0]))
    field = power_bits(best, TARGET)
    for i in kl.static_range(SHARING.rows):
        for j in kl.static_range(SHARING.panel):
            rows.held[i, j] = scaled(rows.held[i, j], field, 1)
    return field


@function
def put_products(rows: Rows, k: kl.Scalar, board: kl.Array, SHARING: Sharing) -> None:
    """A workgroup's part of the products of the first column, below row `k`, with all columns."""
    PANEL = SHARING.panel
    sums = kl.private(PANEL, rows.held.dtype, fill=0)
    for i in kl.static_range(SHARING.rows):
        zero = kl.cast(0, rows.held.dtype)
        head = conjugate(kl.where(rows.number(i) > k, rows.held[i, 0], zero))
        for j in kl.static_range(PANEL):
            sums[j] = sums[j] + head * rows.held[i, j]
    sums_of_all = kl.workgroup_reduce(added, tuple([sums[j] for j in range(PANEL)]))
    if kl.local_id(0) == 0:
        for j in kl.static_range(PANEL):
            board[j] = sums_of_all[j]


@function
def reflect_held(
    rows: Rows, totals: kl.Array, made: tuple[kl.Scalar, ...], k: kl.Scalar, SHARING: Sharing
) -> None:
    """Applies a reflector to rows from the `k`-th on, a column further.

    The last columns are those of V, which are done.
    """
    PANEL, zero = SHARING.panel, kl.cast(0, rows.held.dtype)
    beta, tau, scale = made
    for i in kl.static_range(SHARING.rows):
        row = rows.number(i)
        head = rows.held[i, 0]
        below = kl.where(row > k, scale * head, zero)
        below = kl.where(row == k, kl.cast(1, rows.held.dtype), below)
        share = conjugate(tau) * below
        for j in kl.static_range(1, PANEL):
            part = kl.where(j < PANEL - k, totals[j], zero)
            rows.held[i, j - 1] = rows.held[i, j] - share * part
        last = kl.where(row > k, scale * head, head)
        rows.held[i, PANEL - 1] = kl.where(row == k, beta, last)


@function
def store_reflectors(
    rows: Rows,
    matrix: kl.Array,
    v: kl.Array,
    columns: tuple[kl.Scalar, ...],
    field: kl.Scalar,
    SHARING: Sharing,
) -> None:
    """Stores R, scaled back, and V."""
    first, width = columns
    m = matrix.shape[0] - first
    for i in kl.static_range(SHARING.rows):
        row = rows.number(i)
        for j in kl.static_range(SHARING.panel):
            if row < m and j < width:
                one = kl.where(row == j, kl.cast(1, v.dtype), kl.cast(0, v.dtype))
                v[first + row, first + j] = kl.where(row > j, rows.held[i, j], one)
                if row <= j:
                    matrix[first + row, first + j] = scaled(rows.held[i, j], field, -1)
