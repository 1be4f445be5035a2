"""The kernels that bring matrices to where they are worked on, and results back."""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.parts import conjugate
from portable.linalg.factorisations.layout import Layout
from portable.primitives.base.lanes import mixed

_UNROLL: Final = 4
EVERYTHING = "everything"
UPPER = "upper"
"""What lies on the diagonal and above it; zeros below."""
LOWER = "lower"
"""What lies on the diagonal and below it; zeros above."""


@function
def matrix_at(x: kl.Array, lead: tuple[kl.Scalar, ...] | None, batch: kl.Scalar) -> Any:
    """The `batch`-th matrix of `x`, whose leading dimensions broadcast to `lead`; in C order.

    `lead` is None where they are one, counted through.
    """
    if lead is None:
        return x[batch]
    index = ()
    rest = batch
    for d in kl.static_range(len(lead) - 1, -1, -1):
        dim = d - (len(lead) - (x.ndim - 2))
        if dim >= 0:
            index = (kl.where(x.shape[dim] == 1, 0, rest % lead[d]), *index)  # type: ignore[assignment]
        rest = rest // lead[d]
    return x[*index]


@kernel
def copy_matrices(
    source: kl.Array,
    from_lead: tuple[kl.Scalar, ...] | None,
    target: kl.Array,
    to_lead: tuple[kl.Scalar, ...] | None,
    edge: kl.Scalar,
    *,
    KEPT: str,
    TRANSPOSED: bool,
    EYE: bool,
    TILE: int,
) -> None:
    """Copies matrices, converted; `TRANSPOSED`: their conjugate transposes.

    A workgroup copies a square tile by way of local memory, so that neighbours read and write
    neighbouring places.

    Parameters
    ----------
    source : array
        The matrices. What the target has beyond them becomes zeros, with `EYE` ones on the
        diagonal.
    target : array
        Where they go.
    from_lead, to_lead : tuple of int or None
        Leading dimensions that those of the arrays broadcast to; None where they are one dimension.
    edge : int
        Rows of the target from which on nothing is read, so that zeros stand there.
    KEPT : str
        What of the target is not made zeros: `EVERYTHING`, `UPPER` or `LOWER`.
    """
    kind = target.dtype.register
    tile = kl.local((TILE, TILE + 1), kind)
    rows, columns = target.shape[target.ndim - 2], target.shape[target.ndim - 1]
    matrix = matrix_at(source, from_lead, kl.group_id(2))
    out = matrix_at(target, to_lead, kl.group_id(2))
    first, start = kl.group_id(1) * TILE, kl.group_id(0) * TILE
    given = (matrix.shape[1], matrix.shape[0]) if TRANSPOSED else (matrix.shape[0], matrix.shape[1])
    cleared = is_cleared(first, start, edge, given, KEPT, TILE)
    for index in kl.workgroup_range(TILE * TILE, unroll=_UNROLL):
        i, j = index // TILE, index % TILE
        if TRANSPOSED:
            row, column = start + i, first + j
        else:
            row, column = first + i, start + j
        tile[i, j] = kl.cast(0, kind)
        if not cleared:
            # Without a branch in between, loads of several rounds are on their way together.
            last = matrix.shape[0] - 1, matrix.shape[1] - 1
            value = kl.cast(matrix[kl.minimum(row, last[0]), kl.minimum(column, last[1])], kind)
            value = conjugate(value) if TRANSPOSED else value
            inside = (row <= last[0]) & (column <= last[1])
            tile[i, j] = kl.where(inside, value, kl.cast(0, kind))
    kl.barrier()
    for index in kl.workgroup_range(TILE * TILE, unroll=_UNROLL):
        i, j = index // TILE, index % TILE
        row, column = first + i, start + j
        if row < rows and column < columns:
            value = tile[j, i] if TRANSPOSED else tile[i, j]
            kept = row < edge
            if KEPT == UPPER:
                kept = kept and row <= column
            if KEPT == LOWER:
                kept = kept and row >= column
            value = kl.where(kept, value, kl.cast(0, kind))
            if EYE:
                beyond = row >= matrix.shape[0] or column >= matrix.shape[1]
                value = kl.where(beyond and row == column, kl.cast(1, kind), value)
            out[row, column] = value


@kernel
def copy_single(
    source: kl.Array,
    from_lead: tuple[kl.Scalar, ...] | None,
    target: kl.Array,
    to_lead: tuple[kl.Scalar, ...] | None,
    edge: kl.Scalar,
    *,
    KEPT: str,
    TRANSPOSED: bool,
    EYE: bool,
    TILE: int,
    BAND: int,
) -> None:
    """As `copy_matrices`, a work-item a band of rows, by squares of vectors of `TILE` lanes.

    Of a column of squares, those below each other are read beside each other where a matrix is
    transposed.
    """
    matrix = matrix_at(source, from_lead, kl.group_id(1))
    out = matrix_at(target, to_lead, kl.group_id(1))
    band = kl.group_id(0) * BAND * TILE
    for start in range(0, out.shape[1], TILE):
        for first in range(band, kl.minimum(band + BAND * TILE, out.shape[0]), TILE):
            put_square(matrix, out, (first, start), edge, KEPT, TRANSPOSED, EYE, TILE)


@function
def put_square(
    matrix: kl.Array,
    out: kl.Array,
    corner: tuple[kl.Scalar, ...],
    edge: kl.Scalar,
    KEPT: str,
    TRANSPOSED: bool,
    EYE: bool,
    TILE: int,
) -> None:
    """Writes a square, by vectors where it is whole and not on an edge or the diagonal."""
    (first, start), (rows, columns) = corner, (out.shape[0], out.shape[1])
    given = (matrix.shape[1], matrix.shape[0]) if TRANSPOSED else (matrix.shape[0], matrix.shape[1])
    whole = start + TILE <= columns and first + TILE <= rows
    plain = whole and (not EYE or first != start)
    inside = first + TILE <= kl.minimum(edge, given[0]) and start + TILE <= given[1]
    if KEPT == UPPER:
        inside = inside and first + TILE <= start
    if KEPT == LOWER:
        inside = inside and start + TILE <= first
    if TILE > 1 and whole and inside:
        copy_square(matrix, out, first, start, TRANSPOSED, TILE)
    elif TILE > 1 and plain and is_cleared(first, start, edge, given, KEPT, TILE):
        for i in kl.static_range(TILE):
            kl.vstore(out, first + i, start, kl.splat(kl.cast(0, out.dtype.register), TILE))
    else:
        for row in range(first, kl.minimum(first + TILE, rows)):
            for column in range(start, kl.minimum(start + TILE, columns)):
                put_element(matrix, out, row, column, edge, KEPT, TRANSPOSED, EYE)


@function
def is_cleared(
    first: kl.Scalar,
    start: kl.Scalar,
    edge: kl.Scalar,
    given: tuple[kl.Scalar, ...],
    KEPT: str,
    TILE: int,
) -> Any:
    """Whether a square becomes zeros."""
    cleared = first >= kl.minimum(edge, given[0]) or start >= given[1]
    if KEPT == UPPER:
        cleared = cleared or first >= start + TILE
    if KEPT == LOWER:
        cleared = cleared or start >= first + TILE
    return cleared


@function
def copy_square(
    matrix: kl.Array, out: kl.Array, first: kl.Scalar, start: kl.Scalar, TRANSPOSED: bool, TILE: int
) -> None:
    """Copies a square, or its transpose, by vectors."""
    kind = out.dtype.register
    rows = ()
    for i in kl.static_range(TILE):
        if TRANSPOSED:
            row = kl.cast(kl.vload(matrix, start + i, first, lanes=TILE), kind)
        else:
            row = kl.cast(kl.vload(matrix, first + i, start, lanes=TILE), kind)
        rows = (*rows, row)  # type: ignore[assignment]
    if TRANSPOSED:
        rows = mixed(rows, TILE, TILE)
    for i in kl.static_range(TILE):
        kl.vstore(out, first + i, start, rows[i])


@function
def put_element(
    matrix: kl.Array,
    out: kl.Array,
    row: kl.Scalar,
    column: kl.Scalar,
    edge: kl.Scalar,
    KEPT: str,
    TRANSPOSED: bool,
    EYE: bool,
) -> None:
    """Writes one element, as `copy_matrices` says."""
    kind = out.dtype.register
    i, j = (column, row) if TRANSPOSED else (row, column)
    value = kl.cast(0, kind)
    beyond = i >= matrix.shape[0] or j >= matrix.shape[1]
    kept = row < edge and not beyond
    if KEPT == UPPER:
        kept = kept and row <= column
    if KEPT == LOWER:
        kept = kept and row >= column
    if kept:
        value = kl.cast(matrix[i, j], kind)
        if TRANSPOSED:
            value = conjugate(value)
    if EYE and beyond and row == column:
        value = kl.cast(1, kind)
    out[row, column] = value


@kernel
def put_factors(
    factors: kl.Array,
    out: kl.Array,
    lead: tuple[kl.Scalar, ...],
    *,
    LAYOUT: Layout,
    TRANSPOSED: bool,
) -> None:
    """Diagonal blocks of `out` become `factors`; `TRANSPOSED`: their conjugate transposes."""
    EDGE, blocks = LAYOUT.block, factors.shape[1]
    batch, number = kl.group_id(0) // blocks, kl.group_id(0) % blocks
    matrix, first = matrix_at(out, lead, batch), number * EDGE
    for index in kl.workgroup_range(EDGE * EDGE):
        i, j = index // EDGE, index % EDGE
        if first + i < matrix.shape[0] and first + j < matrix.shape[1]:
            if TRANSPOSED:
                matrix[first + i, first + j] = conjugate(factors[batch, number, j, i])
            else:
                matrix[first + i, first + j] = factors[batch, number, i, j]
