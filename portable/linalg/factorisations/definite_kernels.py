"""The kernels that factor positive definite blocks, and solve for the rows right of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.parts import conjugate
from portable.linalg.factorisations.layout import TILE, Layout


@kernel
def cholesky_block(
    a: kl.Array, factors: kl.Array, failures: kl.Array, number: kl.Scalar, *, LAYOUT: Layout
) -> None:
    """``A = U^H U`` of the `number`-th diagonal block of each matrix, a work-item each.

    U goes to ``factors[batch, number]``, zeros below its diagonal, ones beyond the matrix. Where a
    pivot is not positive ``failures[batch]`` becomes its number, counted from 1, unless one failed
    before, and what follows is NaN. Local memory: ``block^2`` elements.
    """
    EDGE, LANES, kind = LAYOUT.block, LAYOUT.lanes, a.dtype
    w, batch, first = kl.local((EDGE, EDGE), kind), kl.group_id(0), number * LAYOUT.block
    for i in range(EDGE):
        for j in range(EDGE):
            w[i, j] = element(a[batch], first, i, j)
    count = kl.minimum(a.shape[1] - first, EDGE)
    for k in range(count):
        pivot = kl.real(w[k, k])
        root = kl.sqrt(checked(pivot, failures, batch, first + k, True))
        for j in range(k, count):
            w[k, j] = kl.where(j == k, kl.cast(root, kind), w[k, j] / root)
        for i in range(k + 1, count):
            factor = conjugate(w[k, i])
            for j in range(i // LANES * LANES, count, LANES):
                row = kl.vload(w, i, j, lanes=LANES)
                kl.vstore(w, i, j, row - factor * kl.vload(w, k, j, lanes=LANES))
    for i in range(EDGE):
        for j in range(EDGE):
            factors[batch, number, i, j] = kl.where(i <= j, w[i, j], kl.cast(0, kind))


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
def checked(
    pivot: kl.Scalar, failures: kl.Array, batch: kl.Scalar, row: kl.Scalar, tells: Any
) -> Any:
    """A pivot, NaN where it is not positive, which the first one of a matrix `tells`."""
    good = pivot > 0
    if not good and tells and kl.local_id(0) == 0 and failures[batch] == 0:
        failures[batch] = row + 1
    return kl.where(good, pivot, pivot * 0 + float("nan"))


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

    Each workgroup has a strip of columns, and factors the block for itself, which spares a launch
    and its wait; the first one of each matrix keeps the factor. What is done to the block is done
    to the strip as well, by work-items that hold a square tile each in registers. They meet once
    for as many rows as a tile has: who holds these hands them to all, in one of two places in turn,
    and each factors the square on their diagonal for itself. Without columns right of the block,
    `STRIP` is 0. Work-items: ``block (block + STRIP) / TILE^2``.
    """
    EDGE, kind = LAYOUT.block, a.dtype
    batch, strip, first = kl.group_id(0) // strips, kl.group_id(0) % strips, number * LAYOUT.block
    start = first + EDGE + strip * STRIP
    STEP, item = (EDGE + STRIP) // TILE, kl.local_id(0)
    tile = Tile(kl.private((TILE, TILE), kind), item // STEP * TILE, item % STEP, STEP)
    for i, j in product(kl.static_range(TILE), kl.static_range(TILE)):
        row, column = tile.row + i, tile.column(j)
        if column < EDGE:
            tile.values[i, j] = element(a[batch], first, row, column)
        else:
            tile.values[i, j] = 0
            if start + column - EDGE < a.shape[1]:
                tile.values[i, j] = a[batch, first + row, start + column - EDGE]
    handed = kl.local((2, TILE, EDGE + STRIP), kind)
    for band in range(kl.cdiv(kl.minimum(a.shape[1] - first, EDGE), TILE)):
        told = failures, batch, first, strip == 0
        eliminate_rows(tile, handed[band % 2], band * TILE, told)
    for i, j in product(kl.static_range(TILE), kl.static_range(TILE)):
        row, column = tile.row + i, tile.column(j)
        if column < EDGE:
            if strip == 0:
                factor = kl.where(row <= column, tile.values[i, j], kl.cast(0, kind))
                factors[batch, number, row, column] = factor
        elif start + column - EDGE < a.shape[1]:
            a[batch, first + row, start + column - EDGE] = tile.values[i, j]


@function
def eliminate_rows(tile: Tile, handed: kl.Array, k: kl.Scalar, told: tuple[Any, ...]) -> None:
    """The rows of U from the `k`-th on that a tile has, and what they leave of those below."""
    values, kind = tile.values, tile.values.dtype
    if tile.row == k:
        for i, j in product(kl.static_range(TILE), kl.static_range(TILE)):
            handed[i, tile.column(j)] = values[i, j]
    kl.barrier()
    corner = corner_of(handed, k, told)
    if tile.row >= k:
        above = kl.private((TILE, TILE), kind)
        for j in kl.static_range(TILE):
            column = solved_column(handed, tile.column(j), corner)
            for i in kl.static_range(TILE):
                above[i, j] = column[i]
        for i in kl.static_range(TILE):
            left = solved_column(handed, tile.row + i, corner)
            for j in kl.static_range(TILE):
                rest = values[i, j]
                for row in kl.static_range(TILE):
                    rest = rest - conjugate(left[row]) * above[row, j]
                values[i, j] = kl.where(tile.row == k, above[i, j], rest)


@function
def corner_of(handed: kl.Array, k: kl.Scalar, told: tuple[Any, ...]) -> Any:
    """The factor of the square at column `k` of rows that are handed on.

    Reciprocals stand on its diagonal.
    """
    failures, batch, first, tells = told
    rows = kl.private((TILE, TILE), handed.dtype)
    for i in kl.static_range(TILE):
        for j in kl.static_range(i, TILE):
            rows[i, j] = handed[i, k + j]
            for above in kl.static_range(i):
                rows[i, j] = rows[i, j] - conjugate(rows[above, i]) * rows[above, j]
        pivot = checked(kl.real(rows[i, i]), failures, batch, first + k + i, tells)
        rows[i, i] = kl.cast(kl.rsqrt(pivot), handed.dtype)
        for j in kl.static_range(i + 1, TILE):
            rows[i, j] = rows[i, i] * rows[i, j]
    return rows


@function
def solved_column(handed: kl.Array, column: kl.Scalar, corner: kl.Array) -> Any:
    """A column of U in rows that are handed on."""
    x = kl.private(TILE, handed.dtype)
    for i in kl.static_range(TILE):
        x[i] = handed[i, column]
        for above in kl.static_range(i):
            x[i] = x[i] - conjugate(corner[above, i]) * x[above]
        x[i] = corner[i, i] * x[i]
    return x
