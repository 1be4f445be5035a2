"""Hops of a bulge chase by work-items side by side: the residency with the band in global memory.

Of a hop only what is worked on is on the chip: in the right reflector each work-item holds a row of
`T` elements in registers, in the left one a column, by way of a tile in local memory through which
neighbouring work-items read and write neighbouring places. A sweep takes ``ITEMS (T | 1) + 2 T``
elements of local memory.

A sweep eliminates ``T - 1`` superdiagonals of the `B` that there are: ``T == B`` leaves a
bidiagonal matrix, shorter reflectors a narrower band.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from portable import lang as kl
from portable.lang.function import function
from portable.linalg.bands.hops import at
from portable.linalg.reflectors.householder import mirror


@dataclass(frozen=True, slots=True)
class ItemShape:
    """How the work-items of a workgroup share sweeps.

    Attributes
    ----------
    reflector : int
        The length of reflectors.
    items : int
        Work-items of a sweep, a workgroup.
    pitch, top : int
        Places of a column in the working storage, and the diagonal's.
    lag : int
        Hops between neighbouring sweeps, but for one.
    """

    reflector: int
    items: int
    pitch: int = 0
    top: int = 0
    lag: int = 2

    @property
    def column(self) -> int:
        """Places of a column in the tile, odd so that columns begin in different banks."""
        return self.reflector | 1

    @property
    def vector(self) -> int:
        """Places of what a reflector is made of, in whole vectors."""
        return -(-self.reflector // 4) * 4

    @property
    def elements(self) -> int:
        """Elements of local memory that a workgroup takes."""
        return self.items * self.column + 2 * self.vector


@function
def hop_by_items(
    w: kl.Array,
    hop: tuple[kl.Scalar, ...],
    parts: tuple[kl.Array, ...],
    B: kl.Scalar,
    SHAPE: ItemShape,
) -> None:
    """A hop by the work-items of a sweep; all of the workgroup come to its barriers.

    `hop` is its number, its place, and whether there is one. `parts` is what the sweep has in local
    memory: the row that the right reflector is made of, the column for the left one, and a tile.
    """
    k, s, active = hop
    rows, _, tile = parts
    T, ITEMS = SHAPE.reflector, SHAPE.items
    item = kl.local_id(0) % ITEMS
    if active:
        p = kl.where(k == 0, s - (B - T + 1), s - B)
        for c in range(item, T, ITEMS):
            rows[c] = w[at(p, s + c, SHAPE.pitch, SHAPE.top)]
    kl.barrier()
    if active:
        for chunk in range(0, B + T, ITEMS):
            if chunk + item < B + T:
                combined_row(w, hop, chunk + item, parts, B, SHAPE)
    kl.barrier()
    for chunk in range(0, B + T, ITEMS):
        count = B + T - chunk
        if active:
            tile_from_band(w, tile, s, chunk, count, SHAPE)
        kl.barrier()
        if active and chunk + item < B + T:
            combined_column(item, chunk + item, parts, SHAPE)
        kl.barrier()
        if active:
            band_from_tile(w, tile, s, chunk, count, SHAPE)


@function
def tile_from_band(
    w: kl.Array, tile: kl.Array, s: kl.Scalar, chunk: kl.Scalar, count: kl.Scalar, SHAPE: ItemShape
) -> None:
    """Reads `count` columns, at most one for each work-item, by way of registers all at once."""
    T = SHAPE.reflector
    item = kl.local_id(0) % SHAPE.items
    x = kl.private(T, tile.dtype)
    for part in kl.range(T, unroll=-1):
        column, row = (item + part * SHAPE.items) // T, (item + part * SHAPE.items) % T
        x[part] = 0
        if column < count:
            x[part] = w[at(s + row, s + chunk + column, SHAPE.pitch, SHAPE.top)]
    for part in kl.range(T, unroll=-1):
        column, row = (item + part * SHAPE.items) // T, (item + part * SHAPE.items) % T
        tile[column * SHAPE.column + row] = x[part]


@function
def band_from_tile(
    w: kl.Array, tile: kl.Array, s: kl.Scalar, chunk: kl.Scalar, count: kl.Scalar, SHAPE: ItemShape
) -> None:
    """Writes what `tile_from_band` read."""
    T = SHAPE.reflector
    item = kl.local_id(0) % SHAPE.items
    for part in kl.range(T, unroll=-1):
        column, row = (item + part * SHAPE.items) // T, (item + part * SHAPE.items) % T
        if column < count:
            slot = at(s + row, s + chunk + column, SHAPE.pitch, SHAPE.top)
            w[slot] = tile[column * SHAPE.column + row]


@function
def combined_row(
    w: kl.Array,
    hop: tuple[kl.Scalar, ...],
    i: kl.Scalar,
    parts: tuple[kl.Array, ...],
    B: kl.Scalar,
    SHAPE: ItemShape,
) -> None:
    """The right reflector on row ``s - B + i``."""
    k, s, _ = hop
    rows, columns, _ = parts
    T = SHAPE.reflector
    first = at(s - B + i, s, SHAPE.pitch, SHAPE.top)
    x = kl.private(T, rows.dtype)
    for c in kl.range(T, unroll=-1):
        x[c] = w[first + c * (SHAPE.pitch - 1)]
    reflected(x, rows, i == kl.where(k == 0, T - 1, 0), T)
    for c in kl.range(T, unroll=-1):
        w[first + c * (SHAPE.pitch - 1)] = x[c]
    if i >= B:
        columns[i - B] = x[0]


@function
def combined_column(
    column: kl.Scalar, i: kl.Scalar, parts: tuple[kl.Array, ...], SHAPE: ItemShape
) -> None:
    """The left reflector on column ``s + i``, which stands in column `column` of the tile."""
    _, columns, tile = parts
    T = SHAPE.reflector
    x = kl.private(T, tile.dtype)
    for r in kl.range(T, unroll=-1):
        x[r] = tile[column * SHAPE.column + r]
    reflected(x, columns, i == 0, T)
    for r in kl.range(T, unroll=-1):
        tile[column * SHAPE.column + r] = x[r]


@function
def reflected(x: kl.Array, v: kl.Array, pivot: kl.Scalar, T: int) -> None:
    """Applies the reflector that each makes of `v` for itself, which is `x` where it is `pivot`."""
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


_CHAINS: Final = 4
"""Sums side by side, since each addition waits for the one before."""
