"""A band made narrower by panels, each by a work-item alone: reflectors as products of matrices.

What a sweep eliminates, and in which order, is as in `portable.linalg.bands.panels`. Here the
reflectors of a panel are put together, ``Q = I - V T V^T`` (R. Schreiber, C. Van Loan, "A
storage-efficient WY representation for products of Householder transformations", SIAM J. Sci. Stat.
Comput. 10 (1989)), and lines are combined with them by products of matrices, whose sums stay in
registers.

The band lies in square tiles of `COUNT` rows and columns, one column after the other. Panels and
what they combine are whole tiles, so that no vector crosses a line of the caches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.bands.kernels import FINISHED, follow, publish, taken_pack
from portable.linalg.bands.narrowing import Narrowing
from portable.linalg.reflectors.vector_panels import eliminate_alone
from portable.linalg.reflectors.vector_products import transpose

_UNROLLED: Final = 2
"""Of four compilers make vectors of neighbours, whose lanes they then have to spread."""


@dataclass(frozen=True, slots=True)
class ProductShape(Narrowing):
    """How work-items alone go through panels, whose lines are those of a tile.

    Attributes
    ----------
    lanes : int
        Rows of a vector; divides `count`.
    """

    lanes: int

    @property
    def edge(self) -> int:
        """Rows and columns of a tile."""
        return self.count

    @property
    def tiles(self) -> int:
        """Tiles side by side that a panel's reflectors combine."""
        return self.length // self.count

    @property
    def tile(self) -> int:
        """Places from a tile to the one below."""
        return self.count * self.count

    @property
    def across(self) -> int:
        """Places from a tile to the one right of it."""
        return (self.pitch - 1) * self.tile

    @property
    def elements(self) -> int:
        """Elements of local memory that a work-item takes."""
        return 2 * self.length * self.count

    @property
    def fits(self) -> bool:
        """Whether bands are whole tiles, and tiles whole vectors."""
        extents = self.bandwidth, self.narrow
        whole = all(x % self.count == 0 for x in extents) and self.count % self.lanes == 0
        return whole and self.count <= self.narrow


class Block(NamedTuple):
    """The reflectors of a panel, ``I - V T V^T``.

    Attributes
    ----------
    v : array, shape (length, count)
        V.
    turned : array, shape (length, count)
        The same, each tile transposed; of columns' panels alone.
    t : array, shape (count, count)
        T transposed.
    upper : array, shape (count, count)
        T; of columns' panels alone.
    """

    v: Any
    turned: Any
    t: Any
    upper: Any


@kernel
def product_packs(
    w: kl.Array, sync: kl.Array, n: kl.Scalar, *, SHAPE: ProductShape, SWEEPS: int
) -> None:
    """All hops: a work-item for each pack of `SWEEPS` sweeps, one hop of each after another."""
    B, N, COUNT, LAG = SHAPE.bandwidth, SHAPE.narrow, SHAPE.count, SHAPE.lag
    kind = kl.accumulator(w.dtype)
    v, turned = kl.local((SHAPE.length, COUNT), kind), kl.local((SHAPE.length, COUNT), kind)
    block = Block(v, turned, kl.private((COUNT, COUNT), kind), kl.private((COUNT, COUNT), kind))
    pack = taken_pack(sync)
    first = N + pack * (SWEEPS * COUNT)
    steps = (n - 2 - first) // B + 1 + LAG * (SWEEPS - 1)
    for step in range(steps):
        follow(sync, pack, step + 1 + LAG * SWEEPS)
        for sweep in range(SWEEPS):
            k = step - LAG * sweep
            s = first + sweep * COUNT + k * B
            if k >= 0 and s <= n - 2:
                hop(w, s, kl.where(k == 0, N, B), block, SHAPE)
        publish(sync, pack, kl.where(step + 1 == steps, FINISHED, step + 1))


@function
def hop(w: kl.Array, s: kl.Scalar, above: kl.Scalar, block: Block, SHAPE: ProductShape) -> None:
    """Combines columns from `s` on, by a panel that begins `above` rows above, and then rows."""
    COUNT, TILE = SHAPE.count, SHAPE.tile
    corner = (s // COUNT * SHAPE.pitch + SHAPE.top) * TILE
    first = corner - above * COUNT
    panel_of_rows(w, first, block, SHAPE)
    for number in range(1, (above + SHAPE.length) // COUNT):
        combine_columns(w, first + number * TILE, block, SHAPE)
    panel_of_columns(w, corner, block, SHAPE)
    for number in range(1, (SHAPE.bandwidth + SHAPE.length) // COUNT):
        combine_rows(w, corner + number * SHAPE.across, block, SHAPE)


# -- panels --------------------------------------------------------------------------------------


@function
def panel_of_rows(w: kl.Array, first: kl.Scalar, block: Block, SHAPE: ProductShape) -> None:
    """Makes a row of tiles a lower triangle, and a block of the reflectors that do so."""
    COUNT, ACROSS = SHAPE.count, SHAPE.across
    fetch(w, first, ACROSS, block.v, SHAPE)
    factors = factored(block, SHAPE)
    clear(w, first, ACROSS, SHAPE)
    for c in range(COUNT):
        for r in range(c, COUNT):
            w[first + c * COUNT + r] = block.v[c, r]
    finish(block.v, factors, SHAPE)


@function
def panel_of_columns(w: kl.Array, first: kl.Scalar, block: Block, SHAPE: ProductShape) -> None:
    """Makes a column of tiles an upper triangle, and a block of the reflectors that do so."""
    COUNT, TILE = SHAPE.count, SHAPE.tile
    fetch(w, first, TILE, block.turned, SHAPE)
    transpose_tiles(block.turned, block.v, SHAPE)
    factors = factored(block, SHAPE)
    clear(w, first, TILE, SHAPE)
    for c in range(COUNT):
        for r in range(c + 1):
            w[first + c * COUNT + r] = block.v[r, c]
    finish(block.v, factors, SHAPE)
    transpose_tiles(block.v, block.turned, SHAPE)
    transpose(block.t, block.upper, SHAPE.lanes)


@function
def fetch(w: kl.Array, first: kl.Scalar, STRIDE: int, out: kl.Array, SHAPE: ProductShape) -> None:
    """Copies a panel's tiles, which are so far apart, a column of a tile to a row."""
    COUNT, LANES = SHAPE.count, SHAPE.lanes
    for tile in range(SHAPE.tiles):
        for c in range(COUNT):
            for part in kl.static_range(0, COUNT, LANES):
                value = kl.vload(w, first + tile * STRIDE + c * COUNT + part, lanes=LANES)
                kl.vstore(out, tile * COUNT + c, part, value)


@function
def clear(w: kl.Array, first: kl.Scalar, STRIDE: int, SHAPE: ProductShape) -> None:
    """Makes a panel's tiles zeros."""
    for tile in range(SHAPE.tiles):
        for i in range(0, SHAPE.tile, SHAPE.lanes):
            zeros = kl.splat(kl.cast(0, w.dtype), SHAPE.lanes)
            kl.vstore(w, first + tile * STRIDE + i, zeros)


@function
def transpose_tiles(source: kl.Array, target: kl.Array, SHAPE: ProductShape) -> None:
    """Transposes each tile."""
    COUNT = SHAPE.count
    for row in range(0, SHAPE.length, COUNT):
        blocks = source[row : row + COUNT, 0:COUNT], target[row : row + COUNT, 0:COUNT]
        transpose(*blocks, SHAPE.lanes)


@function
def factored(block: Block, SHAPE: ProductShape) -> Any:
    """Makes the reflectors of the panel in ``block.v``; what columns of V are to be times."""
    factors = kl.private(SHAPE.count, block.v.dtype)
    extents = SHAPE.count, SHAPE.length
    eliminate_alone(block.v, block.t, factors, extents, SHAPE.lanes)
    return factors


@function
def finish(v: kl.Array, factors: kl.Array, SHAPE: ProductShape) -> None:
    """Makes a panel V."""
    for r in range(SHAPE.length):
        for part in kl.static_range(0, SHAPE.count, SHAPE.lanes):
            factor = kl.vload(factors, part, lanes=SHAPE.lanes)
            kl.vstore(v, r, part, factor * kl.vload(v, r, part, lanes=SHAPE.lanes))
    for r in range(SHAPE.count):
        for c in range(r, SHAPE.count):
            v[r, c] = kl.where(r == c, 1, 0)


@function
def put(vectors: kl.Array, target: kl.Array, row: int, column: int) -> None:
    """Stores vectors one below the other."""
    for i in kl.static_range(len(vectors)):
        kl.vstore(target, row + i, column, vectors[i])


# -- what panels combine -------------------------------------------------------------------------


@function
def combine_columns(w: kl.Array, first: kl.Scalar, block: Block, SHAPE: ProductShape) -> None:
    """``A -= ((A V) T) V^T`` for a row of tiles."""
    COUNT, LANES, ACROSS, kind = SHAPE.count, SHAPE.lanes, SHAPE.across, w.dtype
    sums = kl.private(COUNT, kind, lanes=LANES)
    for part in kl.static_range(0, COUNT, LANES):
        for i in kl.static_range(COUNT):
            sums[i] = kl.splat(kl.cast(0, kind), LANES)
        for tile in range(SHAPE.tiles):
            for c in kl.range(COUNT, unroll=_UNROLLED):
                column = kl.vload(w, first + tile * ACROSS + c * COUNT + part, lanes=LANES)
                for i in kl.static_range(COUNT):
                    sums[i] = sums[i] + block.v[tile * COUNT + c, i] * column
        for i in kl.static_range(COUNT - 1, -1, -1):
            sums[i] = block.t[i, i] * sums[i]
            for j in kl.static_range(i):
                sums[i] = sums[i] + block.t[i, j] * sums[j]
        for tile in range(SHAPE.tiles):
            for c in kl.range(COUNT, unroll=_UNROLLED):
                where = first + tile * ACROSS + c * COUNT + part
                column = kl.vload(w, where, lanes=LANES)
                for i in kl.static_range(COUNT):
                    column = column - block.v[tile * COUNT + c, i] * sums[i]
                kl.vstore(w, where, column)


@function
def combine_rows(w: kl.Array, first: kl.Scalar, block: Block, SHAPE: ProductShape) -> None:
    """``A -= V (T^T (V^T A))`` for a column of tiles."""
    COUNT, LANES, TILE, kind = SHAPE.count, SHAPE.lanes, SHAPE.tile, w.dtype
    sums = kl.private(COUNT, kind, lanes=LANES)
    products, shares = kl.private((COUNT, COUNT), kind), kl.private((COUNT, COUNT), kind)
    for part in kl.static_range(0, COUNT, LANES):
        for c in kl.static_range(COUNT):
            sums[c] = kl.splat(kl.cast(0, kind), LANES)
        for tile in range(SHAPE.tiles):
            for r in kl.range(COUNT, unroll=_UNROLLED):
                row = kl.vload(block.v, tile * COUNT + r, part, lanes=LANES)
                for c in kl.static_range(COUNT):
                    sums[c] = sums[c] + w[first + tile * TILE + c * COUNT + r] * row
        put(sums, products, 0, part)
    for part in kl.static_range(0, COUNT, LANES):
        for c in kl.static_range(COUNT):
            sums[c] = kl.splat(kl.cast(0, kind), LANES)
        for j in kl.range(COUNT, unroll=1):
            row = kl.vload(block.upper, j, part, lanes=LANES)
            for c in kl.static_range(COUNT):
                sums[c] = sums[c] + products[c, j] * row
        put(sums, shares, 0, part)
    for tile in range(SHAPE.tiles):
        for part in kl.static_range(0, COUNT, LANES):
            where = first + tile * TILE + part
            for c in kl.static_range(COUNT):
                sums[c] = kl.vload(w, where + c * COUNT, lanes=LANES)
            for i in kl.range(COUNT, unroll=1):
                column = kl.vload(block.turned, tile * COUNT + i, part, lanes=LANES)
                for c in kl.static_range(COUNT):
                    sums[c] = sums[c] - shares[c, i] * column
            for c in kl.static_range(COUNT):
                kl.vstore(w, where + c * COUNT, sums[c])
