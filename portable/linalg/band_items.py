"""Hops of a bulge chase by work-items side by side: the residency with the band in global memory.

Of a hop only what is worked on is on the chip: in the right reflector each work-item holds a row of
`T` elements in registers, in the left one a column, by way of a tile in local memory through which
neighbouring work-items read and write neighbouring places. A sweep takes ``ITEMS (T | 1) + 2 T``
elements of local memory.

A sweep eliminates ``T - 1`` superdiagonals of the `B` that there are: ``T == B`` leaves a
bidiagonal matrix, shorter reflectors a narrower band.
"""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.linalg.band_hops import at

__all__ = ["hop_by_items", "item_elements"]


def item_elements(reflector: int, items: int) -> int:
    """Elements of local memory that a sweep takes."""
    return items * (reflector | 1) + 2 * (reflector + 3)


@function
def hop_by_items(
    w: Any,
    s: Any,
    k: Any,
    active: Any,
    rows: Any,
    columns: Any,
    tile: Any,
    B: Any,
    T: int,
    ITEMS: int,
    PITCH: int,
    TOP: int,
    FRESH: bool,
) -> None:
    """Hop `k`, at `s`, by the work-items of a sweep; all of the workgroup come to its barriers.

    `rows` holds the row that the right reflector is made of, which the hop before left there unless
    `FRESH`; `columns` the column for the left one.
    """
    own = kl.local_id(0) % ITEMS
    if active and (FRESH or k == 0):
        p = kl.where(k == 0, s - (B - T + 1), s - B)
        for c in range(own, T, ITEMS):
            rows[c] = w[at(p, s + c, PITCH, TOP)]
    kl.barrier()
    if active:
        for chunk in range(0, B + T, ITEMS):
            if chunk + own < B + T:
                combined_row(w, s, k, chunk + own, rows, columns, B, T, PITCH, TOP)
    kl.barrier()
    for chunk in range(0, B + T, ITEMS):
        if active:
            tile_from_band(w, tile, s, chunk, B + T - chunk, own, T, ITEMS, PITCH, TOP)
        kl.barrier()
        if active and chunk + own < B + T:
            combined_column(tile, own, chunk + own, rows, columns, B, T)
        kl.barrier()
        if active:
            band_from_tile(w, tile, s, chunk, B + T - chunk, own, T, ITEMS, PITCH, TOP)


@function
def tile_from_band(
    w: Any,
    tile: Any,
    s: Any,
    chunk: Any,
    count: Any,
    own: Any,
    T: int,
    ITEMS: int,
    PITCH: int,
    TOP: int,
) -> None:
    """Reads `count` columns, but as many as there are work-items, all at once by way of registers.

    Neighbouring work-items take neighbouring places.
    """
    x = kl.private(T, tile.dtype)
    for part in kl.range(T, unroll=-1):
        column, row = (own + part * ITEMS) // T, (own + part * ITEMS) % T
        x[part] = 0
        if column < count:
            x[part] = w[at(s + row, s + chunk + column, PITCH, TOP)]
    for part in kl.range(T, unroll=-1):
        column, row = (own + part * ITEMS) // T, (own + part * ITEMS) % T
        tile[column * (T | 1) + row] = x[part]


@function
def band_from_tile(
    w: Any,
    tile: Any,
    s: Any,
    chunk: Any,
    count: Any,
    own: Any,
    T: int,
    ITEMS: int,
    PITCH: int,
    TOP: int,
) -> None:
    """Writes what `tile_from_band` read."""
    for part in kl.range(T, unroll=-1):
        column, row = (own + part * ITEMS) // T, (own + part * ITEMS) % T
        if column < count:
            w[at(s + row, s + chunk + column, PITCH, TOP)] = tile[column * (T | 1) + row]


@function
def combined_row(
    w: Any,
    s: Any,
    k: Any,
    i: Any,
    rows: Any,
    columns: Any,
    B: Any,
    T: int,
    PITCH: int,
    TOP: int,
) -> None:
    """The right reflector on row ``s - B + i``."""
    first = at(s - B + i, s, PITCH, TOP)
    x = kl.private(T, rows.dtype)
    for c in kl.range(T, unroll=-1):
        x[c] = w[first + c * (PITCH - 1)]
    reflected(x, rows, i == kl.where(k == 0, T - 1, 0), T)
    for c in kl.range(T, unroll=-1):
        w[first + c * (PITCH - 1)] = x[c]
    if i >= B:
        columns[i - B] = x[0]


@function
def combined_column(tile: Any, own: Any, i: Any, rows: Any, columns: Any, B: Any, T: int) -> None:
    """The left reflector on column ``s + i``, which stands in column `own` of the tile."""
    x = kl.private(T, rows.dtype)
    for r in kl.range(T, unroll=-1):
        x[r] = tile[own * (T | 1) + r]
    reflected(x, columns, i == 0, T)
    for r in kl.range(T, unroll=-1):
        tile[own * (T | 1) + r] = x[r]
    if i >= B:
        rows[i - B] = x[0]


@function
def reflected(x: Any, v: Any, pivot: Any, T: int) -> None:
    """Applies to `x` the reflector that is made of `v`; `pivot` says that `x` is `v` itself.

    Each work-item makes the reflector for itself, in the time that it would wait for another.
    """
    squares, products = kl.private(_CHAINS, x.dtype), kl.private(_CHAINS, x.dtype)
    for c in kl.range(_CHAINS, unroll=-1):
        squares[c] = 0
        products[c] = 0
    for c in kl.range(1, T, unroll=-1):
        squares[c % _CHAINS] += v[c] * v[c]
        products[c % _CHAINS] += v[c] * x[c]
    tail = (squares[0] + squares[1]) + (squares[2] + squares[3])
    total = (products[0] + products[1]) + (products[2] + products[3])
    beta, head, scale = mirror(v[0], tail)
    share = scale * (head * x[0] + total)
    x[0] = kl.where(pivot, beta, x[0] - share * head)
    for c in kl.range(1, T, unroll=-1):
        x[c] = kl.where(pivot, x[c] * 0, x[c] - share * v[c])


@function
def mirror(alpha: Any, tail: Any) -> Any:
    """``(beta, head, scale)`` of ``I - scale v v^T``, which maps x to ``(beta, 0, ..., 0)``.

    v is x with `head` in place of its first number `alpha`, so that there is one division to wait
    for; `tail` as for `reflector`.
    """
    small = 2.0**-900 if alpha.dtype == kl.f64 else 2.0**-100
    beta = alpha
    head = alpha * 0
    scale = alpha * 0
    if tail > small:
        beta = -kl.copysign(kl.sqrt(alpha * alpha + tail), alpha)
        head = alpha - beta
        scale = -1 / (beta * head)
    return beta, head, scale


_CHAINS: Final = 4
"""Sums side by side, since each addition waits for the one before."""
