"""Elements by position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.kernel import kernel
from portable.primitives.moves.index_kernels import Where

__all__ = ["gather"]


@dataclass(frozen=True)
class _Gathered:
    """What a sweep does to neighbours of a row of the result."""

    x: Any
    indices: Any
    flag: Any
    out: Any
    where: Where

    def row(self, outer: Any) -> Any:
        """Where in `x` the row lies, unless it is what the indices are for."""
        if self.where.along or self.out.ndim - 1 == self.where.axis:
            return None
        return self.where.chosen(self.x, self.where.named(self.indices, outer), self.flag, outer)

    def do(self, outer: Any, row: Any, j: Any, lanes: Any) -> None:
        """Copies them."""
        if row is not None:
            found = kl.vload(self.x, *row, j, lanes=lanes)
        elif lanes == 1:
            found = self.one(self.where.named(self.indices, (*outer, j)), (*outer, j))
        else:
            given = [kl.vload(index, j, lanes=lanes) for index in self.indices]
            numbers = kl.static_range(lanes)
            each = [self.one([n[lane] for n in given], (*outer, j + lane)) for lane in numbers]
            found = kl.vector(*each)
        kl.vstore(self.out, *outer, j, found)

    def one(self, given: Any, at: Any) -> Any:
        """The element that indices name for a place of the result."""
        return self.x[*self.where.chosen(self.x, given, self.flag, at)]


@kernel
def gather(x: Any, indices: Any, flag: Any, out: Any, *, WHERE: Any, SHARE: Any) -> None:
    """``out[..., n, ...] = x[..., i[n], j[n], ..., ...]``, or ``x[..., i[..., n, ...], ...]``.

    Parameters
    ----------
    x : array
        What is read.
    indices : tuple of array
        ``i, j, ...``, of integers and one shape: see `index_kernels.Where`.
    flag : array or None
        Its only element is set if an index is out of range; without it none is.
    out : array
        What is written, `n` being in the first of the dimensions.
    WHERE : Where
        The dimensions of `x` that the indices are for.
    SHARE : Share
        How work-items share `out`.
    """
    SHARE.sweep(out.shape, _Gathered(x, indices, flag, out, WHERE))
