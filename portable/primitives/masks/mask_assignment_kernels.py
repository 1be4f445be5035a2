"""Assignment to what is true in a mask: only that is written, and nothing of the array is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.masks.mask_kernels import Target, element_if

__all__ = ["Assigned", "Cut", "fill"]


@function
def filled_in_eights(mask: Any, by_eight: Any, value: Any, x: Any, start: Any, stop: Any) -> None:
    """Writes `value` where the mask is true, skipping 64 elements at a time where it is all false.

    The array has one dimension; `by_eight` is the mask read as integers of 64 bits, each of eight
    bools.
    """
    whole = start + (stop - start) // 64 * 64
    for first in range(start, whole, 64):
        some = by_eight[first // 8]
        for other in kl.static_range(1, 8):
            some = some | by_eight[first // 8 + other]
        if some != 0:
            for j in range(first, first + 64):
                if mask[j]:
                    x[j] = value
    for j in range(whole, stop):
        if mask[j]:
            x[j] = value


@dataclass(frozen=True)
class Cut:
    """How rows are shared among workgroups; a constant of `fill`.

    Attributes
    ----------
    width : int
        Work-items along a row.
    ahead : int
        Elements of the mask that each reads before it writes the first of the array.
    chunk, rows : int
        Neighbours of a row, and rows, of a workgroup.
    """

    width: int
    ahead: int
    chunk: int
    rows: int


@kernel
def fill(
    mask: Any, by_eight: Any, value: Any, x: Any, *, NUMBER: bool, ROW: bool, CUT: Any
) -> None:
    """``x[mask] = value``.

    Parameters
    ----------
    mask : array
        What is true; it lacks the last dimension of `x` if that is all the same to it.
    by_eight : array or None
        A mask of one dimension as integers of 64 bits.
    value : number or array
        An array has no dimensions.
    x : array
        What is written.
    NUMBER, ROW : bool
        Whether `value` is a number, and whether `mask` lacks a dimension.
    CUT : Cut
        How the work is shared.
    """
    inner = x.shape[x.ndim - 1]
    lead = x.shape[: x.ndim - 1]
    begin = kl.group_id(0) * CUT.chunk
    own = begin + kl.local_id(0)
    stop = kl.minimum(begin + CUT.chunk, inner)
    first = kl.global_id(1) * CUT.rows
    given = value if NUMBER else value[()]
    for row in range(first, kl.minimum(first + CUT.rows, product_of(lead))):
        outer = unravelled(row, lead)
        if by_eight is not None:
            filled_in_eights(mask, by_eight, given, x, begin, stop)
        elif ROW:
            if mask[*outer]:
                for j in range(own, stop, CUT.width):
                    x[*outer, j] = given
        else:
            for j in range(own, stop, CUT.width * CUT.ahead):
                places = [j + u * CUT.width for u in range(CUT.ahead)]
                chosen = [element_if(j < stop, mask, *outer, j) for j in places]
                for u in kl.static_range(CUT.ahead):
                    if chosen[u]:
                        x[*outer, places[u]] = given


@dataclass(frozen=True)
class Assigned(Target):
    """An array to elements of which those of another are assigned in turn.

    Attributes
    ----------
    x : array
        What is assigned to.
    values : array
        What is assigned, in one dimension.
    """

    x: Any
    values: Any

    def put(self, k: Any, at: Any) -> None:
        """Assigns the `k`-th value to the element that comes `at`-th in C order."""
        self.x[*unravelled(at, self.x.shape)] = self.values[k]

    def take(self, own: Any, e: Any, chosen: Any, before: Any, WIDTH: Any) -> None:
        """Assigns to those of a section that are chosen; all values are read before."""
        values = [
            element_if(there, self.values, own.done + k)
            for there, k in zip(chosen, before, strict=True)
        ]
        for u in kl.static_range(len(chosen)):
            if chosen[u]:
                self.x[*unravelled(own.begin + e + u * WIDTH, self.x.shape)] = values[u]
