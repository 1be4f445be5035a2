"""The kernel that solves triangular systems, and those that factor positive definite blocks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.parts import conjugate
from portable.linalg.factorisations.layout import Layout

_TILE: Final = 4
"""Rows and columns of a block that a work-item holds in registers."""


@dataclass(frozen=True, slots=True)
class Triangle:
    """Which triangle of a block is meant, a constant of kernels.

    Attributes
    ----------
    backward : bool
        Whether the last row is solved for first: the triangle, having been turned, is an upper one.
    turned : bool
        Whether its transpose is meant.
    conjugate : bool
        Whether numbers are conjugated.
    unit : bool
        Whether ones stand for its diagonal.
    inverse : bool
        Whether its diagonal holds reciprocals.
    """

    backward: bool
    turned: bool
    conjugate: bool
    unit: bool
    inverse: bool = False


_ADJOINT: Final = Triangle(backward=False, turned=True, conjugate=True, unit=False, inverse=True)


@function
def placed(i: kl.Scalar, order: kl.Scalar, BACKWARD: bool) -> Any:
    """Where the i-th row to be solved for stands."""
    return order - 1 - i if BACKWARD else i


@function
def load_triangle(t: kl.Array, w: kl.Array, order: kl.Scalar, WHICH: Triangle, EDGE: int) -> None:
    """``w[k, i]``: what the i-th row to be solved for has of the k-th; ones beyond the diagonal."""
    kind = w.dtype
    for index in kl.workgroup_range(EDGE * EDGE):
        k, i = index // EDGE, index % EDGE
        value = kl.cast(0, kind)
        if k <= i and i < order:
            row, column = placed(i, order, WHICH.backward), placed(k, order, WHICH.backward)
            if WHICH.turned:
                row, column = column, row
            value = t[row, column]
            if WHICH.conjugate:
                value = conjugate(value)
        if k == i and (WHICH.unit or i >= order):
            value = kl.cast(1, kind)
        w[k, i] = value
    kl.barrier()


@kernel
def solve_strips(
    t: kl.Array, b: kl.Array, strips: kl.Scalar, *, LAYOUT: Layout, WHICH: Triangle, EDGE: int
) -> None:
    """``B = T^-1 B`` for triangles of order ``t.shape[1]`` up to `EDGE`, a strip a workgroup.

    Local memory: ``EDGE^2`` elements.
    """
    w = kl.local((EDGE, EDGE), b.dtype)
    batch, strip = kl.group_id(0) // strips, kl.group_id(0) % strips
    load_triangle(t[batch], w, t.shape[1], WHICH, EDGE)
    solve_strip(w, b[batch], strip * LAYOUT.strip, t.shape[1], WHICH, LAYOUT)


@function
def solve_strip(
    w: kl.Array, b: kl.Array, start: kl.Scalar, order: kl.Scalar, WHICH: Triangle, LAYOUT: Layout
) -> None:
    """Solves for the columns of a strip; a work-item has a column, or goes through vectors."""
    stop = kl.minimum(start + LAYOUT.strip, b.shape[1])
    if LAYOUT.lanes == 1 and LAYOUT.strip_items >= LAYOUT.strip:
        # Not in a loop: what it hoists would not fit into registers.
        column = start + kl.local_id(0)
        if column < stop:
            solve_columns(w, b, column, order, WHICH, LAYOUT.segment, 1)
        return
    step = LAYOUT.lanes * kl.local_size(0)
    whole = start + (stop - start) // LAYOUT.lanes * LAYOUT.lanes
    for column in range(start + kl.local_id(0) * LAYOUT.lanes, whole, step):
        solve_columns(w, b, column, order, WHICH, LAYOUT.segment, LAYOUT.lanes)
    if LAYOUT.lanes > 1:
        for column in range(whole, stop):
            solve_columns(w, b, column, order, WHICH, LAYOUT.segment, 1)


@function
def solve_columns(
    w: kl.Array,
    b: kl.Array,
    column: kl.Scalar,
    order: kl.Scalar,
    WHICH: Triangle,
    SEGMENT: int,
    LANES: int,
) -> None:
    """Solves for `LANES` columns, a segment of rows after the other in registers."""
    x, BACKWARD = kl.private(SEGMENT, w.dtype, lanes=LANES), WHICH.backward
    for first in range(0, order, SEGMENT):
        for i in kl.static_range(SEGMENT):
            x[i] = kl.splat(kl.cast(0, w.dtype), LANES)
            if first + i < order:
                x[i] = kl.vload(b, placed(first + i, order, BACKWARD), column, lanes=LANES)
        for k in kl.range(first, unroll=1 if LANES > 1 else 4):
            known = kl.vload(b, placed(k, order, BACKWARD), column, lanes=LANES)
            for i in kl.static_range(SEGMENT):
                x[i] = x[i] - w[k, first + i] * known
        for k in kl.static_range(SEGMENT):
            if first + k < order:
                if WHICH.inverse:
                    x[k] = x[k] * w[first + k, first + k]
                elif not WHICH.unit:
                    x[k] = x[k] / w[first + k, first + k]
                for i in kl.static_range(k + 1, SEGMENT):
                    x[i] = x[i] - w[first + k, first + i] * x[k]
                kl.vstore(b, placed(first + k, order, BACKWARD), column, x[k])


# -- positive definite blocks ---------------------------------------------------------------------


@kernel
def cholesky_block(
    a: kl.Array, factors: kl.Array, failures: kl.Array, number: kl.Scalar, *, LAYOUT: Layout
) -> None:
    """``A = U^H U`` of the `number`-th diagonal block of each matrix, a workgroup each.

    U goes to ``factors[batch, number]``, zeros below its diagonal, ones beyond the matrix. Where a
    pivot is not positive ``failures[batch]`` becomes its number, counted from 1, unless one failed
    before, and what follows is NaN. Local memory: ``block^2`` elements.
    """
    EDGE = LAYOUT.block
    w = kl.local((EDGE, EDGE), a.dtype)
    batch = kl.group_id(0)
    rows = kl.minimum(a.shape[1] - number * EDGE, EDGE)
    load_block(a[batch], w, number * EDGE, EDGE)
    factor_block(w, failures, batch, (number * EDGE, rows), True, LAYOUT)
    keep_factor(w, factors, batch, number, EDGE)


@function
def keep_factor(
    w: kl.Array, factors: kl.Array, batch: kl.Scalar, number: kl.Scalar, EDGE: int
) -> None:
    """Writes the factor of a block."""
    for index in kl.workgroup_range(EDGE * EDGE):
        i, j = index // EDGE, index % EDGE
        factors[batch, number, i, j] = w[i, j]


@function
def load_block(a: kl.Array, w: kl.Array, first: kl.Scalar, EDGE: int) -> None:
    """The upper triangle of a diagonal block, ones on the diagonal beyond the matrix."""
    kind = w.dtype
    for index in kl.workgroup_range(EDGE * EDGE):
        i, j = index // EDGE, index % EDGE
        value = kl.cast(0, kind)
        if i <= j and first + j < a.shape[1]:
            value = a[first + i, first + j]
        if i == j and first + j >= a.shape[1]:
            value = kl.cast(1, kind)
        w[i, j] = value
    kl.barrier()


@function
def factor_block(
    w: kl.Array,
    failures: kl.Array,
    batch: kl.Scalar,
    corner: tuple[kl.Scalar, ...],
    tells: Any,
    LAYOUT: Layout,
) -> None:
    """Makes a block its factor, row by row; `tells` says whether it reports a failure.

    `corner` is the block's first row, and how many rows it has.
    """
    if LAYOUT.lanes == 1 and LAYOUT.items * _TILE * _TILE >= LAYOUT.block * LAYOUT.block:
        factor_tiles(w, failures, batch, corner, tells, LAYOUT)
    else:
        factor_lines(w, failures, batch, corner, tells, LAYOUT)


@function
def tell_failure(failures: kl.Array, batch: kl.Scalar, row: kl.Scalar, tells: Any) -> None:
    """Keeps the number of the first row whose pivot is not positive."""
    if tells and kl.local_id(0) == 0 and failures[batch] == 0:
        failures[batch] = row + 1


@function
def factor_tiles(
    w: kl.Array,
    failures: kl.Array,
    batch: kl.Scalar,
    corner: tuple[kl.Scalar, ...],
    tells: Any,
    LAYOUT: Layout,
) -> None:
    """`factor_block` by work-items that hold a square tile each in registers.

    They meet once a row: who holds it hands it to all, in one of two places in turn.
    """
    first, count = corner
    EDGE, kind = LAYOUT.block, w.dtype
    ACROSS = EDGE // _TILE
    row, column = kl.local_id(0) // ACROSS * _TILE, kl.local_id(0) % ACROSS * _TILE
    handed = kl.local((2, EDGE), kind)
    tile = kl.private((_TILE, _TILE), kind, fill=0)
    mine = row <= column and row < EDGE
    if mine:
        for i, j in product(kl.static_range(_TILE), kl.static_range(_TILE)):
            tile[i, j] = w[row + i, column + j]
    for k in range(count):
        if mine:
            for i, j in product(kl.static_range(_TILE), kl.static_range(_TILE)):
                if row + i == k:
                    handed[k % 2, column + j] = tile[i, j]
        kl.barrier()
        pivot = kl.real(handed[k % 2, k])
        good = pivot > 0
        if not good:
            tell_failure(failures, batch, first + k, tells)
        scale = kl.rsqrt(kl.where(good, pivot, pivot * 0 + float("nan")))
        if mine and row + _TILE > k:
            for i, j in product(kl.static_range(_TILE), kl.static_range(_TILE)):
                above = scale * handed[k % 2, column + j]
                left = scale * conjugate(handed[k % 2, row + i])
                if row + i == k:
                    tile[i, j] = above
                if row + i > k:
                    tile[i, j] = tile[i, j] - left * above
    kl.barrier()
    if mine:
        for i, j in product(kl.static_range(_TILE), kl.static_range(_TILE)):
            w[row + i, column + j] = kl.where(row + i <= column + j, tile[i, j], tile[i, j] * 0)
    kl.barrier()


@function
def factor_lines(
    w: kl.Array,
    failures: kl.Array,
    batch: kl.Scalar,
    corner: tuple[kl.Scalar, ...],
    tells: bool,
    LAYOUT: Layout,
) -> None:
    """`factor_block` in local memory, a row after the other."""
    first, count = corner
    EDGE, LANES, kind = LAYOUT.block, LAYOUT.lanes, w.dtype
    for k in range(count):
        pivot = kl.real(w[k, k])
        good = pivot > 0
        root = kl.sqrt(kl.where(good, pivot, pivot * 0 + float("nan")))
        kl.barrier()
        if not good:
            tell_failure(failures, batch, first + k, tells)
        for j in kl.workgroup_range(k, count):
            w[k, j] = kl.where(j == k, kl.cast(root, kind), w[k, j] / root)
        kl.barrier()
        if LANES > 1:
            for i in range(k + 1, count):
                factor = w[k, i]
                for j in range(i // LANES * LANES, count, LANES):
                    row = kl.vload(w, i, j, lanes=LANES)
                    kl.vstore(w, i, j, row - factor * kl.vload(w, k, j, lanes=LANES))
        else:
            rest = count - 1 - k
            for entry in kl.workgroup_range(rest * rest):
                i, j = k + 1 + entry // rest, k + 1 + entry % rest
                if j >= i:
                    w[i, j] = w[i, j] - conjugate(w[k, i]) * w[k, j]
        kl.barrier()
    if LANES > 1:
        for i in range(1, EDGE):
            for j in range(i):
                w[i, j] = 0


@kernel
def cholesky_rows(
    a: kl.Array,
    factors: kl.Array,
    failures: kl.Array,
    number: kl.Scalar,
    strips: kl.Scalar,
    *,
    LAYOUT: Layout,
) -> None:
    """Factors the `number`-th diagonal block, and solves for the rows right of it.

    Each workgroup factors the block for itself and then solves for a strip of columns, which spares
    a launch and its wait; the first one of each matrix keeps the factor, as `cholesky_block` does.
    Local memory: ``block^2`` elements.
    """
    EDGE = LAYOUT.block
    w = kl.local((EDGE, EDGE), a.dtype)
    batch, strip = kl.group_id(0) // strips, kl.group_id(0) % strips
    load_block(a[batch], w, number * EDGE, EDGE)
    factor_block(w, failures, batch, (number * EDGE, EDGE), strip == 0, LAYOUT)
    if strip == 0:
        keep_factor(w, factors, batch, number, EDGE)
    kl.barrier()
    if w.dtype.is_complex:
        for index in kl.workgroup_range(EDGE * EDGE):
            i, j = index // EDGE, index % EDGE
            w[i, j] = conjugate(w[i, j])
        kl.barrier()
    for i in kl.workgroup_range(EDGE):
        w[i, i] = 1 / w[i, i]
    kl.barrier()
    below = number * EDGE
    rows = a[batch, below : below + EDGE]
    start = below + EDGE + strip * LAYOUT.strip
    solve_strip(w, rows, start, EDGE, _ADJOINT, LAYOUT)
