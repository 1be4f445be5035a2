"""Hops of a workgroup that keeps its window of the band in local memory.

The hop at `s` of each sweep of a pack has three blocks of B x B elements there, column by column,
columns an odd number of places apart: ``upper``, rows ``s - B`` on and columns `s` on, and side by
side in ``block`` rows `s` on and columns `s` and ``s + B`` on. What the hop leaves in the last is
the next hop's ``upper``, so each hop reads ``2 B^2`` elements, which are on their way in registers
while the hop before computes, and writes as many. Local memory is ``3 B (B | 1)`` elements a
sweep.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.linalg.band_hops import at, reflector

__all__ = ["window_elements", "window_step"]


def window_elements(b: int, sweeps: int) -> int:
    """Elements of local memory that a pack takes."""
    return 3 * b * (b | 1) * sweeps


@function
def window_step(w: Any, n: Any, sweep: Any, k: Any, upper: Any, block: Any, B: int) -> None:
    """Hop `k` of a sweep, and the first or next blocks of its window; hop -1 only fetches those.

    A work-item has row ``own`` of the upper and lower blocks in the right reflector and column
    ``own`` of the left and right ones in the left one. Of the next blocks the last corner may
    still be changed by the sweep before, which is three hops ahead, hence it is read one step
    later.
    """
    kind = upper.dtype
    step = 3 * B - 1
    own = kl.local_id(0)
    row, half = own % B, own // B
    s = sweep + 1 + k * B
    there = sweep <= n - 3
    active = there and k >= 0 and s <= n - 2
    fetching = there and k >= -1 and s + B <= n - 2
    coming = kl.private(B, kind)
    if fetching:
        source = at(s + B + row, s + B + half * B, B)
        for c in kl.range(B - 1, unroll=-1):
            coming[c] = w[source + c * step]
        if own < 2 * B - 1:
            coming[B - 1] = w[source + (B - 1) * step]
        else:
            coming[B - 1] = 0
    if active and own == 2 * B - 1:
        block[2 * B - 1, B - 1] = w[at(s + B - 1, s + 2 * B - 1, B)]
    if active:
        rows_combined(w, s, kl.where(k == 0, B - 1, 0), upper, block, B)
    kl.barrier()
    beta = kl.cast(0, kind)
    if active:
        beta = columns_combined(upper, block, B)
    kl.barrier()
    if active and half == 0:
        target = at(s + row, s, B)
        w[target] = kl.where(row == 0, beta, beta * 0)
        for c in kl.range(1, B, unroll=-1):
            w[target + c * step] = block[c, row]
    if active and half == 1 and not fetching:
        target = at(s + row, s + B, B)
        for c in kl.range(B, unroll=-1):
            w[target + c * step] = upper[c, row]
    if fetching:
        for c in kl.range(B, unroll=-1):
            block[half * B + c, row] = coming[c]
        if k < 0 and half == 0:
            first_row(w, sweep, upper, row, B)
    kl.barrier()


@function
def first_row(w: Any, sweep: Any, upper: Any, row: Any, B: int) -> None:
    """The upper block where a sweep begins: its row stands last, those above are done with."""
    step = 3 * B - 1
    source = at(sweep, sweep + 1, B)
    for c in kl.range(B, unroll=-1):
        upper[c, row] = 0
    if row == B - 1:
        for c in kl.range(B, unroll=-1):
            upper[c, row] = w[source + c * step]


@function
def rows_combined(w: Any, s: Any, pivot: Any, upper: Any, block: Any, B: int) -> None:
    """The right reflector: the upper rows are finished for now and leave, the lower ones stay."""
    kind = upper.dtype
    step = 3 * B - 1
    own = kl.local_id(0)
    held = kl.private(B, kind)
    for c in kl.range(B, unroll=-1):
        if own < B:
            held[c] = upper[c, own]
        else:
            held[c] = block[c, own - B]
    alpha = kl.cast(upper[0, pivot], kind)
    tail, total = alpha * 0, alpha * 0
    for c in kl.range(1, B, unroll=-1):
        x = upper[c, pivot]
        tail = tail + x * x
        total = total + x * held[c]
    beta, tau, factor = reflector(alpha, tail)
    share = tau * (held[0] + factor * total)
    held[0] = held[0] - share
    share = share * factor
    for c in kl.range(1, B, unroll=-1):
        held[c] = held[c] - share * upper[c, pivot]
    if own == pivot:
        held[0] = beta
        for c in kl.range(1, B, unroll=-1):
            held[c] = 0
    target = at(s - B + own, s, B)
    for c in kl.range(B, unroll=-1):
        if own < B:
            w[target + c * step] = held[c]
        else:
            block[c, own - B] = held[c]


@function
def columns_combined(upper: Any, block: Any, B: int) -> Any:
    """The left reflector: the right columns become the next upper block; returns beta.

    The first column stays as it is, for all to read.
    """
    kind = upper.dtype
    own = kl.local_id(0)
    held = kl.private(B, kind)
    for r in kl.range(B, unroll=-1):
        held[r] = block[own, r]
    alpha = kl.cast(block[0, 0], kind)
    tail, total = alpha * 0, alpha * 0
    for r in kl.range(1, B, unroll=-1):
        x = block[0, r]
        tail = tail + x * x
        total = total + x * held[r]
    beta, tau, factor = reflector(alpha, tail)
    share = tau * (held[0] + factor * total)
    held[0] = held[0] - share
    share = share * factor
    for r in kl.range(1, B, unroll=-1):
        held[r] = held[r] - share * block[0, r]
    for r in kl.range(B, unroll=-1):
        if own >= B:
            upper[own - B, r] = held[r]
        elif own > 0:
            block[own, r] = held[r]
    return beta
