"""What is true in a mask, written without gaps: the elements of an array, or where they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
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

    def take(self, own: Any, e: Any, chosen: Any, before: Any, WIDTH: Any) -> None:
        """Writes those that are chosen, which are read before the first is written."""
        x, places = self.x, [own.begin + e + u * WIDTH for u in range(len(chosen))]
        values = (
            ()
            if x is None
            else [element_if(there, x, at) for there, at in zip(chosen, places, strict=True)]
        )
        for u in kl.static_range(len(chosen)):
            if chosen[u]:
                if x is None:
                    self.put(own.done + before[u], places[u])
                else:
                    self.out[own.done + before[u]] = values[u]
