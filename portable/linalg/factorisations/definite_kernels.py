"""The kernels that factor positive definite blocks, and solve for the rows right of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.parts import conjugate
from portable.linalg.factorisations.layout import LONG_SEGMENT, TILE, Layout
from portable.linalg.factorisations.triangle_kernels import ADJOINT, solve_band


@kernel
def cholesky_block(a: kl.Array, failures: kl.Array, first: kl.Scalar, *, LAYOUT: Layout) -> None:
    """``A = U^H U`` of the diagonal block at `first` of each matrix, in place, a work-item each.

    By bands of rows: what the rows above take from a band is subtracted from vectors of it in
    registers; its square on the diagonal is factored, and the columns right of that solved for.
    Below the diagonal nothing is read that matters. Where a pivot is not positive
    ``failures[batch]`` becomes its number, counted from 1, unless one failed before, and what
    follows is NaN. Rows are whole vectors, of which the matrix may have the first columns alone.
    """
    LANES, ROWS = LAYOUT.lanes, rows_of_band(LAYOUT.lanes)
    batch, stop = kl.group_id(0), kl.minimum(first + LAYOUT.block, a.shape[1])
    end = kl.minimum(first + LAYOUT.block, a.shape[2])
    for band in range(first, stop, ROWS):
        rows = first, band, stop
        for column in range(band, band + ROWS, LANES):
            solve_band(a[batch], a[batch], rows, column, ADJOINT, (LANES, ROWS), False)
        factor_square(a[batch], failures, batch, rows, LANES)
        for column in range(band + ROWS, end, LANES):
            solve_band(a[batch], a[batch], rows, column, ADJOINT, (LANES, ROWS), True)


def rows_of_band(lanes: int) -> int:
    """Rows that a work-item which is alone has in registers, of so many neighbouring columns."""
    return min(LONG_SEGMENT, 4 * lanes)


@function
def factor_square(
    a: kl.Array, failures: kl.Array, batch: kl.Scalar, rows: tuple[kl.Scalar, ...], LANES: int
) -> None:
    """The factor of a band's square on the diagonal, row by row."""
    (_, band, stop), ROWS = rows, rows_of_band(LANES)
    last = kl.minimum(band + ROWS, stop)
    for k in range(band, last):
        root = kl.sqrt(positive(kl.real(a[k, k])))
        if not root > 0:
            tell_failure(failures, batch, k)
        for part in kl.static_range(0, ROWS, LANES):
            row = kl.vload(a, k, band + part, lanes=LANES)
            kl.vstore(a, k, band + part, row * kl.cast(1 / root, a.dtype))
        a[k, k] = root
        for i in range(k + 1, last):
            factor = conjugate(a[k, i])
            for part in kl.static_range(0, ROWS, LANES):
                row = kl.vload(a, i, band + part, lanes=LANES)
                known = kl.vload(a, k, band + part, lanes=LANES)
                kl.vstore(a, i, band + part, row - factor * known)


@function
def element(a: kl.Array, first: kl.Scalar, i: kl.Scalar, j: kl.Scalar) -> Any:
    """An element of the upper triangle of a diagonal block; beyond the matrix of the identity."""
    value = kl.cast(0, a.dtype)
    if i <= j and first + j < a.shape[1]:
        value = a[first + i, first + j]
    if i == j and first + j >= a.shape[1]:
        value = kl.cast(1, a.dtype)
    return value


@function
def positive(pivot: kl.Scalar) -> Any:
    """A pivot, NaN where it is not positive."""
    return kl.where(pivot > 0, pivot, pivot * 0 + float("nan"))


@function
def tell_failure(failures: kl.Array, batch: kl.Scalar, row: kl.Scalar) -> None:
    """Says whose pivot was not positive, unless one of the matrix failed before."""
    if failures[batch] == 0:
        failures[batch] = row + 1


@dataclass(frozen=True)
class Tile:
    """What a work-item holds of a diagonal block, and of a strip of columns right of it.

    Attributes
    ----------
    values : array, shape (TILE, TILE)
        Its elements.
    row, first : int
        Its first row and column; the strip's columns follow the block's.
    step : int
        How far its columns are apart, so that neighbours have neighbouring ones.
    """

    values: Any
    row: Any
    first: Any
    step: Any

    def column(self, j: int) -> Any:
        """The number of its j-th column."""
        return self.first + j * self.step


@kernel
def cholesky_rows(
    a: kl.Array,
    factors: kl.Array,
    failures: kl.Array,
    number: kl.Scalar,
    strips: kl.Scalar,
    *,
    LAYOUT: Layout,
    STRIP: int,
) -> None:
    """As `cholesky_block`, and solves for the rows right of the block.

    U goes to ``factors[batch, number]``, zeros below its diagonal, ones beyond the matrix. Each
    workgroup has a strip of columns, and factors the block for itself, which spares a launch
    and its wait; the first one of each matrix keeps the factor. What is done to the block is done
    to the strip as well, by work-items that hold a square tile each in registers, for as many rows
    at a time as a tile has: who holds these shows the square on their diagonal to each other, which
    takes a sub-group nothing but shuffles, and hands the rows to those below when they are done.
    Without columns right of the block, `STRIP` is 0. Work-items: ``block (block + STRIP) /
    TILE^2``.
    """
    EDGE, kind = LAYOUT.block, a.dtype
    batch, strip, first = kl.group_id(0) // strips, kl.group_id(0) % strips, number * LAYOUT.block
    start = first + EDGE + strip * STRIP
    STEP, item = (EDGE + STRIP) // TILE, kl.local_id(0)
    if kl.target.sub_group_size == STEP:
        row, column = kl.sub_group_id() * TILE, kl.sub_group_local_id()
    else:
        row, column = item // STEP * TILE, item % STEP
    tile = Tile(kl.private((TILE, TILE), kind), row, column, STEP)
    for i, j in product(kl.static_range(TILE), kl.static_range(TILE)):
        row, column = tile.row + i, tile.column(j)
        if column < EDGE:
            tile.values[i, j] = element(a[batch], first, row, column)
        else:
            tile.values[i, j] = 0
            if start + column - EDGE < a.shape[1]:
                tile.values[i, j] = a[batch, first + row, start + column - EDGE]
    corner, handed = kl.local((TILE, TILE), kind), kl.local((2, TILE, EDGE + STRIP), kind)
    for band in range(kl.cdiv(kl.minimum(a.shape[1] - first, EDGE), TILE)):
        told = failures, batch, first, strip == 0 and tile.first == 0
        eliminate_rows(tile, corner, handed[band % 2], band * TILE, told)
    for i, j in product(kl.static_range(TILE), kl.static_range(TILE)):
        row, column = tile.row + i, tile.column(j)
        if column < EDGE:
            if strip == 0:
                factor = kl.where(row <= column, tile.values[i, j], kl.cast(0, kind))
                factors[batch, number, row, column] = factor
        elif start + column - EDGE < a.shape[1]:
            a[batch, first + row, start + column - EDGE] = tile.values[i, j]


@function
def eliminate_rows(
    tile: Tile, corner: kl.Array, handed: kl.Array, k: kl.Scalar, told: tuple[Any, ...]
) -> None:
    """The rows of U from the `k`-th on that a tile has, and what they leave of those below.

    `handed` is another place than that of the rows before, which some may read yet.
    """
    values = tile.values
    if kl.target.sub_group_size == tile.step:  # which has all tiles of these rows
        if kl.sub_group_id() * TILE == k:
            make_rows(tile, factor_of(square_of(tile, k), k, told), handed)
    else:
        if tile.row == k:
            for j in kl.static_range(TILE):
                if tile.column(j) >= k and tile.column(j) < k + TILE:
                    for i in kl.static_range(TILE):
                        corner[i, tile.column(j) - k] = values[i, j]
        kl.barrier()
        if tile.row == k:
            make_rows(tile, factor_of(corner, k, told), handed)
    kl.barrier()
    if tile.row > k:
        for row in kl.static_range(TILE):
            for i in kl.static_range(TILE):
                left = conjugate(handed[row, tile.row + i])
                for j in kl.static_range(TILE):
                    values[i, j] = values[i, j] - left * handed[row, tile.column(j)]


@function
def square_of(tile: Tile, k: kl.Scalar) -> Any:
    """The square at row and column `k`, of what a sub-group has: its upper triangle."""
    square = kl.private((TILE, TILE), tile.values.dtype)
    for i in kl.static_range(TILE):
        x = tile.values[i, 0]
        for j in kl.static_range(1, TILE):
            x = kl.where(k // tile.step == j, tile.values[i, j], x)
        for j in kl.static_range(i, TILE):
            square[i, j] = kl.sub_group_shuffle(x, (k + j) % tile.step)
    return square


@function
def make_rows(tile: Tile, factor: kl.Array, handed: kl.Array) -> None:
    """Solves for a tile's rows of U by the factor of their square, and hands them to others."""
    values = tile.values
    for j in kl.static_range(TILE):
        for i in kl.static_range(TILE):
            for above in kl.static_range(i):
                values[i, j] = values[i, j] - conjugate(factor[above, i]) * values[above, j]
            values[i, j] = factor[i, i] * values[i, j]
            handed[i, tile.column(j)] = values[i, j]


@function
def factor_of(corner: kl.Array, k: kl.Scalar, told: tuple[Any, ...]) -> Any:
    """The factor of a square at row and column `k`; reciprocals stand on its diagonal."""
    (failures, batch, first, tells), failed = told, TILE
    rows = kl.private((TILE, TILE), corner.dtype)
    for i in kl.static_range(TILE):
        for j in kl.static_range(i, TILE):
            rows[i, j] = corner[i, j]
            for above in kl.static_range(i):
                rows[i, j] = rows[i, j] - conjugate(rows[above, i]) * rows[above, j]
        pivot = positive(kl.real(rows[i, i]))
        failed = kl.where(pivot > 0, failed, kl.minimum(failed, i))
        rows[i, i] = kl.cast(kl.rsqrt(pivot), corner.dtype)
        for j in kl.static_range(i + 1, TILE):
            rows[i, j] = rows[i, i] * rows[i, j]
    if tells and failed < TILE:
        tell_failure(failures, batch, first + k + failed)
    return rows
