"""Right-hand sides: a vector for all matrices, or columns for each."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from portable.backend import Device
from portable.dtypes import dtype
from portable.errors import ShapeError
from portable.linalg.base.operands import broadcast_shape
from portable.linalg.factorisations.matrices import moved


@dataclass(frozen=True)
class RightSides:
    """The shapes of systems ``a @ x = b``.

    Attributes
    ----------
    lead : tuple of int
        Leading dimensions of the result, at least one.
    shape : tuple of int
        Of the result.
    rows, columns : int
        Of the right-hand sides of a matrix.
    """

    lead: tuple[int, ...]
    shape: tuple[int, ...]
    rows: int
    columns: int
    is_vector: bool

    @property
    def size(self) -> int:
        """Elements of the result."""
        return prod(self.shape)

    @property
    def batch(self) -> int:
        """Matrices."""
        return prod(self.lead)

    def result(self, device: Device, work: Any) -> Any:
        """An array of the result's shape that holds the rows of `work` that it has."""
        out = device.empty(self.shape, dtype(work.dtype))
        target = out[..., None] if self.is_vector else out
        moved(device, work, target, to_lead=self.lead)
        return out


def right_sides(operation: str, a: Any, b: Any) -> RightSides:
    """What right-hand sides of matrices ``(..., m, n)`` are.

    Raises
    ------
    ShapeError
        If the shapes do not fit together.
    """
    m, n = (int(x) for x in a.shape[-2:])
    is_vector = b.ndim == 1
    if b.ndim < 1 or int(b.shape[0 if is_vector else -2]) != m:
        raise ShapeError(
            f"{operation} takes right-hand sides (..., {m}, k) or ({m},) for matrices of shape "
            f"{tuple(a.shape)}, not shape {tuple(b.shape)}"
        )
    columns = 1 if is_vector else int(b.shape[-1])
    lead = broadcast_shape(operation, tuple(a.shape[:-2]), () if is_vector else tuple(b.shape[:-2]))
    shape = (*lead, n) if is_vector else (*lead, n, columns)
    return RightSides(lead or (1,), shape, m, columns, is_vector)
