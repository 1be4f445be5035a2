"""One hop of a bulge chase: a right and a left reflector that push what fills in down the band.

The working storage is one flat array of columns, `PITCH` places each, the diagonal at place `TOP`.
Columns and rows beyond the matrix hold zeros, from which reflectors do nothing.

Here a work-item makes a hop alone, rows across the lanes of vectors, in storage of ``PITCH == 3 B``
and ``TOP == 2 B``. The hop at `s` eliminates row `p` (``s - B``, or ``s - 1`` where the sweep
begins) in columns ``s + 1`` to ``s + B - 1`` by combining columns, which reaches rows ``s - B`` to
``s + B - 1``; then column `s` below the diagonal, by combining rows `s` to ``s + B - 1``, which
reaches columns `s` to ``s + 2 B - 1``.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.linalg.sums import lane_sum

__all__ = ["at", "hop_in_vectors", "reflector"]


@function
def at(row: Any, column: Any, PITCH: int, TOP: int) -> Any:
    """Where an element of the matrix stands in the working storage."""
    return row + column * (PITCH - 1) + TOP


@function
def reflector(alpha: Any, tail: Any) -> Any:
    """``(beta, tau, factor)`` of ``I - tau v v^T``, which maps x to ``(beta, 0, ..., 0)``.

    `alpha` is the first number of x and `tail` the sum of the squares of the others; v is 1 and
    the others times `factor`. A tail too small to be squared accurately is below all rounding
    errors, since the matrix is scaled: it is dropped.
    """
    small = 2.0**-900 if alpha.dtype == kl.f64 else 2.0**-100
    beta = alpha
    tau = alpha * 0
    factor = alpha * 0
    if tail > small:
        beta = -kl.copysign(kl.sqrt(alpha * alpha + tail), alpha)
        tau = (beta - alpha) / beta
        factor = 1 / (alpha - beta)
    return beta, tau, factor


@function
def row_reflector(w: Any, p: Any, s: Any, v: Any, B: int, LANES: int) -> Any:
    """Makes the reflector for row `p` in `v`, writes what it leaves of the row; returns tau."""
    step = 3 * B - 1
    first = at(p, s, 3 * B, 2 * B)
    for c in kl.range(B, unroll=4):
        v[c] = w[first + c * step]
    UNROLL = -1 if B // LANES <= 8 else 4
    alpha = v[0]
    v[0] = 0
    squares = kl.splat(alpha * 0, LANES)
    for c in kl.range(0, B, LANES, unroll=UNROLL):
        part = kl.vload(v, c, lanes=LANES)
        squares = squares + part * part
    beta, tau, factor = reflector(alpha, lane_sum(squares))
    for c in kl.range(0, B, LANES, unroll=UNROLL):
        kl.vstore(v, c, kl.vload(v, c, lanes=LANES) * factor)
    v[0] = 1
    return beta, tau


@function
def combine_columns(w: Any, start: Any, v: Any, tau: Any, B: int, LANES: int, ROWS: int) -> None:
    """Applies a right reflector to `ROWS` vectors of rows, the first element being at `start`."""
    step = 3 * B - 1
    sums = kl.private(ROWS, v.dtype, lanes=LANES)
    for i in kl.static_range(ROWS):
        sums[i] = kl.splat(tau * 0, LANES)
    for c in kl.range(B, unroll=2):
        factor = v[c]
        for i in kl.static_range(ROWS):
            sums[i] = sums[i] + factor * kl.vload(w, start + c * step + i * LANES, lanes=LANES)
    for i in kl.static_range(ROWS):
        sums[i] = sums[i] * tau
    for c in kl.range(B, unroll=2):
        factor = v[c]
        for i in kl.static_range(ROWS):
            where = start + c * step + i * LANES
            kl.vstore(w, where, kl.vload(w, where, lanes=LANES) - factor * sums[i])


@function
def hop_in_vectors(w: Any, p: Any, s: Any, active: Any, B: int, LANES: int, ROWS: int) -> None:
    """The hop by one work-item, `LANES` rows a vector and ``LANES * ROWS`` of them at a time."""
    if active:
        kind = kl.accumulator(w.dtype)
        step = 3 * B - 1
        v = kl.private(B, kind)
        beta, tau = row_reflector(w, p, s, v, B, LANES)
        if tau != 0:
            start = at(s - B, s, 3 * B, 2 * B)
            for part in kl.range(0, 2 * B, ROWS * LANES, unroll=1):
                combine_columns(w, start + part, v, tau, B, LANES, ROWS)
        first = at(p, s, 3 * B, 2 * B)
        w[first] = beta
        for c in kl.range(1, B, unroll=4):
            w[first + c * step] = 0
        combine_rows(w, s, B, LANES)


@function
def combine_rows(w: Any, s: Any, B: int, LANES: int) -> None:
    """The left reflector of the hop at `s`, made and applied.

    A column is held in registers between its product with the reflector and its change, where it
    is short.
    """
    kind = kl.accumulator(w.dtype)
    step = 3 * B - 1
    PARTS = B // LANES
    UNROLL = -1 if PARTS <= 8 else 4
    v = kl.private(B, kind)
    held = kl.private(PARTS, kind, lanes=LANES)
    start = at(s, s, 3 * B, 2 * B)
    alpha = kl.cast(w[start], kind)
    w[start] = 0
    squares = kl.splat(alpha * 0, LANES)
    for i in kl.range(PARTS, unroll=UNROLL):
        part = kl.vload(w, start + i * LANES, lanes=LANES)
        squares = squares + part * part
        held[i] = part
    beta, tau, factor = reflector(alpha, lane_sum(squares))
    if tau != 0:
        for i in kl.range(PARTS, unroll=UNROLL):
            kl.vstore(v, i * LANES, held[i] * factor)
        v[0] = 1
        for c in kl.range(1, 2 * B, unroll=2):
            column = start + c * step
            total = kl.splat(alpha * 0, LANES)
            for i in kl.range(PARTS, unroll=UNROLL):
                held[i] = kl.vload(w, column + i * LANES, lanes=LANES)
                total = total + held[i] * kl.vload(v, i * LANES, lanes=LANES)
            share = tau * lane_sum(total)
            for i in kl.range(PARTS, unroll=UNROLL):
                changed = held[i] - share * kl.vload(v, i * LANES, lanes=LANES)
                kl.vstore(w, column + i * LANES, changed)
    for i in kl.range(PARTS, unroll=UNROLL):
        kl.vstore(w, start + i * LANES, kl.splat(alpha * 0, LANES))
    w[start] = beta
