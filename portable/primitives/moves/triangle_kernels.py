"""Matrices with one side of a diagonal left out, and those with ones on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import Body, lane_numbers

BELOW = "below"
"""What lies on a diagonal and below it."""
ABOVE = "above"
"""What lies on a diagonal and above it."""
ON = "on"
"""What lies on a diagonal."""


@dataclass(frozen=True)
class _Triangle(Body):
    """What a sweep does to neighbours of a row."""

    x: Any
    out: Any
    k: Any
    side: str

    def do(self, outer: tuple[kl.Scalar, ...], row: Any, j: kl.Scalar, lanes: int) -> None:
        """Writes those that lie on the side that is kept, and zeros for others."""
        kind = self.out.dtype.register
        value = kl.splat(kl.cast(1, kind), lanes)
        if self.x is not None:
            value = kl.vload(self.x, *outer, j, lanes=lanes)
        columns = lane_numbers(j.dtype, lanes) + j if lanes > 1 else j
        edge = outer[self.out.ndim - 2] + self.k
        kept = columns == edge
        if self.side != ON:
            kept = columns <= edge if self.side == BELOW else columns >= edge
        kl.vstore(self.out, *outer, j, kl.where(kept, value, kl.splat(kl.cast(0, kind), lanes)))


@kernel
def triangle(x: kl.Array | None, out: kl.Array, k: kl.Scalar, *, SIDE: str, SHARE: Any) -> None:
    """The elements of matrices on one side of a diagonal; zeros elsewhere.

    Parameters
    ----------
    x : array or None
        The matrices, of the shape of `out`; None for ones.
    out : array
        The result.
    k : int
        The diagonal, counted from the main one up.
    SIDE : str
        What is kept: `BELOW`, `ABOVE` or `ON`.
    SHARE : Share
        How work-items share the elements.
    """
    SHARE.sweep(out.shape, _Triangle(x, out, k, SIDE))
