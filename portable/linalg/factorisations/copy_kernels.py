"""The kernels that bring matrices to where they are worked on, and results back."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["EVERYTHING", "LOWER", "UPPER", "conjugate", "copy_matrices", "matrix_at"]

EVERYTHING = "everything"
UPPER = "upper"
"""What lies on the diagonal and above it; zeros below."""
LOWER = "lower"
"""What lies on the diagonal and below it; zeros above."""


@function
def conjugate(x: Any) -> Any:
    """The complex conjugate of a number, a real one's is itself."""
    if x.dtype.is_complex:
        return kl.conj(x)
    return x


@function
def matrix_at(x: Any, lead: Any, batch: Any) -> Any:
    """The `batch`-th matrix of `x`, whose leading dimensions broadcast to `lead`; in C order.

    `lead` is None where they are one, counted through.
    """
    if lead is None:
        return x[batch]
    index = ()
    rest = batch
    for d in kl.static_range(len(lead) - 1, -1, -1):
        own = d - (len(lead) - (x.ndim - 2))
        if own >= 0:
            index = (kl.where(x.shape[own] == 1, 0, rest % lead[d]), *index)  # type: ignore[assignment]
        rest = rest // lead[d]
    return x[*index]


@kernel
def copy_matrices(
    source: Any,
    from_lead: Any,
    target: Any,
    to_lead: Any,
    edge: Any,
    *,
    KEPT: str,
    TURNED: bool,
    EYE: bool,
    TILE: int,
) -> None:
    """Copies matrices, converted; `TURNED`: their conjugate transposes.

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
    for place in kl.workgroup_range(TILE * TILE):
        i, j = place // TILE, place % TILE
        if TURNED:
            row, column = start + i, first + j
        else:
            row, column = first + i, start + j
        value = kl.cast(0, kind)
        if row < matrix.shape[0] and column < matrix.shape[1]:
            value = kl.cast(matrix[row, column], kind)
        tile[i, j] = conjugate(value) if TURNED else value
    kl.barrier()
    for place in kl.workgroup_range(TILE * TILE):
        i, j = place // TILE, place % TILE
        row, column = first + i, start + j
        if row < rows and column < columns:
            value = tile[j, i] if TURNED else tile[i, j]
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
