"""Elements by position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import Body
from portable.primitives.moves.index_kernels import Where, checked, named

__all__ = ["gather", "gather_along"]


@dataclass(frozen=True)
class _Gathered:
    """What a sweep does to neighbours of a row of the result."""

    x: Any
    indices: Any
    flag: Any
    out: Any
    where: Where

    @function
    def row(self, outer: Any) -> Any:
        """Where in `x` the row lies, unless it is what the indices are for."""
        if self.out.ndim - 1 == self.where.axis:
            return None
        given = named(self.indices, outer[self.where.axis])
        return self.where.chosen(self.x, given, self.flag, outer)

    @function
    def do(self, outer: Any, row: Any, j: Any, lanes: Any) -> None:
        """Copies them."""
        if row is not None:
            found = kl.vload(self.x, *row, j, lanes=lanes)
        elif lanes == 1:
            found = self.one(named(self.indices, j), (*outer, j))
        else:
            given = [kl.vload(index, j, lanes=lanes) for index in self.indices]
            numbers = kl.static_range(lanes)
            each = [self.one([n[lane] for n in given], (*outer, j + lane)) for lane in numbers]
            found = kl.vector(*each)
        kl.vstore(self.out, *outer, j, found)

    @function
    def one(self, given: Any, at: Any) -> Any:
        """The element that indices name for a place of the result."""
        return self.x[*self.where.chosen(self.x, given, self.flag, at)]


@kernel
def gather(x: Any, indices: Any, flag: Any, out: Any, *, WHERE: Any, SHARE: Any) -> None:
    """``out[..., n, ...] = x[..., i[n], j[n], ..., ...]``.

    Parameters
    ----------
    x : array
        What is read.
    indices : tuple of array
        ``i, j, ...``, of integers and one shape: see `index_kernels.Where.chosen`.
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


@dataclass(frozen=True)
class _Along(Body):
    """What a sweep does to an element of the result."""

    x: Any
    index: Any
    flag: Any
    out: Any
    axis: int

    @function
    def do(self, outer: Any, row: Any, j: Any, lanes: Any) -> None:
        """Copies it."""
        at = (*outer, j)
        place = checked(self.index[*at], self.x.shape[self.axis], self.flag)
        self.out[*at] = self.x[*at[: self.axis], place, *at[self.axis + 1 :]]


@kernel
def gather_along(x: Any, index: Any, flag: Any, out: Any, *, AXIS: int, SHARE: Any) -> None:
    """``out[..., n, ...] = x[..., index[..., n, ...], ...]``, `n` being in dimension `AXIS`.

    Parameters
    ----------
    x, index, out : array
        Of shapes that differ in that dimension only; `index` is of integers, as long as `out`.
    flag : array
        Its only element is set if an index is out of range.
    AXIS : int
        The dimension.
    SHARE : Share
        How work-items share `out`, an element at a time.
    """
    SHARE.sweep(out.shape, _Along(x, index, flag, out, AXIS))
