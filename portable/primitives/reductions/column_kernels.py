"""Reductions of columns by work-items that do not share a strip of them."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled

_AHEAD = 8
"""Rows whose vectors a work-item takes before it goes on to the next ones of each."""


@function
def vector_at(row: Any, k: Any, rows: Any, lanes: Any) -> Any:
    """Where the `k`-th vector from `row` on begins: the last one ends where all rows do."""
    return kl.minimum(row + k * lanes, rows - lanes)


@function
def keep_lanes(
    out: kl.Array, row: kl.Scalar, k: Any, s: kl.Scalar, value: kl.Scalar, lanes: int
) -> None:
    """Writes what belongs to section `s` of the `k`-th vector of rows from `row` on.

    Where that begins before the one before it ends, this has written the rows that both have.
    """
    lead = out.shape[: out.ndim - 1]
    first = vector_at(row, k, product_of(lead), lanes)
    if first == row + k * lanes:
        at = unravelled(first, lead)
        kl.vstore(out, *at, s, kl.cast(value, out.dtype), axis=out.ndim - 2)
    else:
        for lane in kl.static_range(lanes):
            if first + lane >= row + k * lanes:
                at = unravelled(first + lane, lead)
                out[*at, s] = kl.cast(value[lane], out.dtype)


@kernel
def reduce_columns(
    x: kl.Array, outs: tuple[kl.Array, ...], *, FOLD: Any, STRIP: int, SECTION: int
) -> None:
    """Reduces sections of the last axis, neighbours lying along the one before.

    A work-item does `STRIP` vectors of neighbours side by side, a few elements of each in turn.

    Parameters
    ----------
    x : array
        What is read.
    outs : tuple of array
        What totals are made of, in the order of `FOLD.held`: ``outs[n][..., s]`` of section `s`.
    FOLD : Merge, Best or Spread
        What is done: the totals ``FOLD.started`` begins with, the types that hold them, and how
        ``FOLD.further`` goes on from such.
    STRIP, SECTION : int
        Vectors of a work-item, and elements of a section.
    """
    lead = x.shape[: x.ndim - 1]
    rows = product_of(lead)
    strips = kl.cdiv(rows, FOLD.lanes * STRIP)
    item = kl.global_id(0)
    s = item // strips
    row = item % strips * (FOLD.lanes * STRIP)
    if s < outs[0].shape[x.ndim - 1]:
        strip = kl.private((STRIP,), FOLD.held, lanes=FOLD.lanes)
        count = 1 if STRIP == 1 else kl.minimum(kl.cdiv(rows - row, FOLD.lanes), STRIP)
        first = s * SECTION
        stop = kl.minimum(first + SECTION, x.shape[x.ndim - 1])
        for k in range(count):
            strip[k] = FOLD.started(x, unravelled(vector_at(row, k, rows, FOLD.lanes), lead), first)
        for r, ahead in kl.vector_range(first, stop, lanes=_AHEAD):
            for k in range(count):
                outer = unravelled(vector_at(row, k, rows, FOLD.lanes), lead)
                strip[k] = FOLD.further(x, outer, r, r - first, strip[k], ahead)
        for k in range(count):
            for n in kl.static_range(len(outs)):
                keep_lanes(outs[n], row, k, s, strip[k][n], FOLD.lanes)
