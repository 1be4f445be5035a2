"""What is true in a mask, written without gaps: the elements of an array, or where they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.primitives.maps.elementwise_kernel import unravelled
from portable.primitives.masks.mask_kernels import Target, element_if

__all__ = ["Results"]


@dataclass(frozen=True)
class Results(Target):
    """What is kept: the elements of an array, or where they are.

    Attributes
    ----------
    x : array or None
        What to take from, in one dimension; None for indices.
    like : array or None
        What these are indices of.
    out : array
        The result, the parts of indices behind each other.
    step : int
        How far apart these are.
    """

    x: Any
    like: Any
    out: Any
    step: Any

    def of_section(self, own: Any, WIDTH: Any) -> Any:
        """What a workgroup does to a section."""
        return _Kept(self, start_at(own.begin, self.like, WIDTH))

    def has_all(self, first: Any, count: Any) -> Any:
        """Whether there are so many elements from one on, or none are looked at."""
        return self.x is None or first + count <= self.x.shape[0]

    def put(self, k: Any, at: Any) -> None:
        """Writes the `k`-th of what is kept, which is at a place of the mask."""
        if self.x is not None:
            self.out[k] = self.x[at]
        else:
            self.put_index(k, unravelled(at, self.like.shape))

    def put_index(self, k: Any, index: Any) -> None:
        """Writes the `k`-th index."""
        for d in kl.static_range(len(index)):
            self.out[d * self.step + k] = kl.cast(index[d], kl.i64)

    def put_eight(self, k: Any, row: Any, column: Any, places: Any, byte: Any) -> None:
        """Writes the indices of those of eight elements whose bit in `byte` is set.

        Always stores eight, so that no branch depends on the bits: those behind the set ones are
        garbage, which the next call overwrites. `row` and `column` are those of the first element;
        ``places[byte]`` lists the positions of the byte's set bits.
        """
        last = self.like.ndim - 1
        ahead = kl.cast(kl.vload(places, byte, 0, lanes=8), kl.i64) + kl.cast(column, kl.i64)
        if last == 0:
            kl.vstore(self.out, k, ahead)
        else:
            lead, extent = self.like.shape[:last], kl.cast(self.like.shape[last], kl.i64)
            over = ahead >= extent
            kl.vstore(self.out, last * self.step + k, kl.where(over, ahead - extent, ahead))
            rows = zip(unravelled(row, lead), unravelled(row + 1, lead), strict=True)
            for d, (here, below) in enumerate(rows):
                first, second = (kl.splat(kl.cast(x, kl.i64), 8) for x in (here, below))
                kl.vstore(self.out, d * self.step + k, kl.where(over, second, first))

    def put_many(self, k: Any, first: Any, word: Any, places: Any) -> None:
        """Writes what is kept of 64 elements without a branch on the bits.

        Up to eight places behind the last one kept get garbage, which later calls overwrite.
        """
        if self.x is not None:
            for place in kl.static_range(64):
                self.out[k] = self.x[first + place]
                k = k + kl.cast((word >> place) & 1, kl.i32)
        else:
            extent = self.like.shape[self.like.ndim - 1]
            row, column = kl.cast(0, first.dtype), first
            if self.like.ndim > 1:
                row, column = first // extent, first % extent
            for part in kl.static_range(8):
                byte = kl.cast((word >> (8 * part)) & 255, kl.i32)
                self.put_eight(k, row, column, places, byte)
                k = k + kl.cast(kl.popcount(byte), kl.i32)
                column = column + 8
                if self.like.ndim > 1 and column >= extent:
                    row, column = row + 1, column - extent


@dataclass(frozen=True)
class Start:
    """Where a section of `size` elements begins; of indices also in which row and column.

    The rows behind the first are counted by a multiplication with the `inverse` of their length:
    ``floor((n + 1) * floor((2**32 - 1) / d) / 2**32)`` is ``n // d`` where ``(n + 1) * d`` is below
    2**32.
    """

    begin: Any
    size: Any
    row: Any
    column: Any
    inverse: Any

    def index(self, e: Any, like: Any) -> Any:
        """The index in `like` of element `e` of the section."""
        ahead = self.column + e
        if like.ndim == 1:
            return (ahead,)
        extent = like.shape[like.ndim - 1]
        rows = kl.cast(kl.mulhi(kl.cast(ahead + 1, kl.u32), self.inverse), ahead.dtype)
        if extent >= self.size:
            rows = kl.cast(ahead >= extent, ahead.dtype)
        lead = like.shape[: like.ndim - 1]
        return (*unravelled(self.row + rows, lead), ahead - rows * extent)


@function
def start_at(begin: Any, like: Any, WIDTH: Any) -> Any:
    """The section of a workgroup that begins with an element."""
    if like is None or like.ndim == 1:
        return Start(begin, WIDTH * 32, 0, begin, 0)
    extent = like.shape[like.ndim - 1]
    inverse = kl.cast(0xFFFFFFFF, kl.u32) // kl.cast(extent, kl.u32)
    return Start(begin, WIDTH * 32, begin // extent, begin % extent, inverse)


@dataclass(frozen=True)
class _Kept:
    """What is done to elements that a section keeps: `Section.sweep`'s body."""

    results: Results
    start: Start

    def take_one(self, e: Any, place: Any) -> None:
        """Writes element `e` of the section."""
        if self.results.x is None:
            self.results.put_index(place, self.start.index(e, self.results.like))
        else:
            self.results.out[place] = self.results.x[self.start.begin + e]

    def take(self, own: Any, e: Any, chosen: Any, before: Any, WIDTH: Any) -> None:
        """Writes those that are chosen, which are read before the first is written."""
        x, first = self.results.x, self.start.begin + e
        values = (
            ()
            if x is None
            else [element_if(there, x, first + u * WIDTH) for u, there in enumerate(chosen)]
        )
        for u in kl.static_range(len(chosen)):
            if chosen[u]:
                if x is None:
                    index = self.start.index(e + u * WIDTH, self.results.like)
                    self.results.put_index(own.done + before[u], index)
                else:
                    self.results.out[own.done + before[u]] = values[u]
