"""The Cholesky factorisation.

A panel at a time: one kernel factors its positive definite block, and solves for the rows below it;
products take what it explains from the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType
from portable.interchange.libraries import takes_other_libraries
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.linalg.base.parts import conjugate
from portable.linalg.dense.kernels import clear
from portable.linalg.factorisations.ahead import look_ahead
from portable.linalg.factorisations.copy_kernels import LOWER, UPPER, put_factors
from portable.linalg.factorisations.layout import TILE, Layout, layout_of
from portable.linalg.factorisations.matrices import (
    batch_of,
    checked_dtype,
    copied,
    lead_of,
    order_of,
    require_success,
    workspace,
)
from portable.linalg.factorisations.products import subtract_product
from portable.linalg.factorisations.triangles import Triangle, solved_in_place
from portable.linalg.products.repeats import kept_plan, repeated
from portable.namespace import device_of_arrays
from portable.typing import ArrayT


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
    to the strip as well, by work-items that hold a square tile each in registers. They meet once a
    row: who holds it hands it to all, in one of two places in turn. Without columns right of the
    block, `STRIP` is 0. Work-items: ``block (block + STRIP) / TILE^2``.
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
    handed = kl.local((2, EDGE + STRIP), kind)
    for k in range(kl.minimum(a.shape[1] - first, EDGE)):
        eliminate_row(tile, handed[k % 2], k, (failures, batch, first + k, strip == 0))
    for i, j in product(kl.static_range(TILE), kl.static_range(TILE)):
        row, column = tile.row + i, tile.column(j)
        if column < EDGE:
            if strip == 0:
                factor = kl.where(row <= column, tile.values[i, j], kl.cast(0, kind))
                factors[batch, number, row, column] = factor
        elif start + column - EDGE < a.shape[1]:
            a[batch, first + row, start + column - EDGE] = tile.values[i, j]


@function
def eliminate_row(tile: Tile, handed: kl.Array, k: kl.Scalar, told: tuple[Any, ...]) -> None:
    """A row of U, and what it leaves of those below."""
    (failures, batch, number, tells), values = told, tile.values
    zero = kl.cast(0, values.dtype)
    if tile.row <= k and k < tile.row + TILE:
        for i, j in product(kl.static_range(TILE), kl.static_range(TILE)):
            if tile.row + i == k:
                handed[tile.column(j)] = values[i, j]
    kl.barrier()
    scale = kl.rsqrt(checked(kl.real(handed[k]), failures, batch, number, tells))
    if tile.row + TILE > k:
        above = kl.private(TILE, values.dtype)
        for j in kl.static_range(TILE):
            above[j] = scale * handed[tile.column(j)]
        for i in kl.static_range(TILE):
            left = zero
            if tile.row + i > k:
                left = scale * conjugate(handed[tile.row + i])
            for j in kl.static_range(TILE):
                rest = values[i, j] - left * above[j]
                values[i, j] = kl.where(tile.row + i == k, above[j], rest)


_NOT_DEFINITE = (
    "cholesky: the matrix is not positive definite: the pivot of row {} is not a positive number"
)
_LINE = 64
_STRIPS = 4
"""Parts in which what is left of a matrix is changed: less than an eighth of it twice over."""


@takes_other_libraries
def cholesky(a: ArrayT, *, upper: bool = False) -> ArrayT:
    """The Cholesky factor of positive definite matrices: ``L L^H = a``, or ``U^H U = a``.

    Parameters
    ----------
    a : array, shape (..., n, n)
        ``float16``, ``float32``, ``float64``, ``complex64`` or ``complex128``, symmetric or
        Hermitian, any strides; it is not changed. Only the triangle that the factor has is read.
    upper : bool
        Whether to give the upper factor U, and not the lower one.

    Returns
    -------
    array, shape (..., n, n)
        The factor, its diagonal real and positive, zeros in the other triangle; on the device of
        `a`, ``float32`` for ``float16``.

    Raises
    ------
    ShapeError
        Unless matrices are square.
    DTypeError
        For other dtypes.
    numpy.linalg.LinAlgError
        If a matrix is not positive definite or has NaN in it, which a flag tells that is read in
        the end. It is a ``ValueError``.

    Notes
    -----
    By blocks of rows (J. Dongarra et al., "Numerical Linear Algebra for High-Performance
    Computers", SIAM, 1998): a workgroup factors a diagonal block in local memory, strips of the
    rows right of it are solved for, and products change the rest. ``L L^H - a`` is a modest
    multiple of the unit roundoff times the norm of `a`. Beside the result one copy of the matrix is
    held.

    Examples
    --------
    >>> import numpy as np
    >>> import portable
    >>> portable.linalg.cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
    array([[2., 0.],
           [1., 2.]])
    """
    device = device_of_arrays(a)
    kind, n = checked_dtype("cholesky", a=a), order_of("cholesky", a)
    out = device.empty(tuple(a.shape), kind)
    batch = batch_of(a.shape)
    if batch == 0 or n == 0:
        return out  # type: ignore[no-any-return]
    room = batch * n * n * kind.itemsize
    key, lead = ("cholesky", batch, n, kind), lead_of(a.shape)
    plan = kept_plan(device, key, lambda: _made(device, batch, n, kind), room)
    copied(device, a, plan.work, from_lead=lead, turned=not upper)
    plan.run()
    kept = UPPER if upper else LOWER
    copied(device, plan.work, out, to_lead=lead, kept=kept, turned=not upper)
    put_factors[groups(batch * plan.factors.shape[1]), plan.layout.items](
        plan.factors, out, lead, LAYOUT=plan.layout, TURNED=not upper
    )
    require_success(device, plan.failures, _NOT_DEFINITE)
    return out  # type: ignore[no-any-return]


class Factoring(NamedTuple):
    """What makes matrices U of ``U^H U`` in place, but for their diagonal blocks.

    Attributes
    ----------
    work : array, shape (batch, n, n)
        Matrices, of which the upper triangle is read.
    factors : array, shape (batch, blocks, block, block)
        U's diagonal blocks.
    failures : array of i32, shape (batch,)
        For each matrix 0, or the number of its first pivot that was not positive.
    layout : Layout
        The layout.
    run : callable
        Enqueues it.
    """

    work: Any
    factors: Any
    failures: Any
    layout: Layout
    run: Callable[[], object]

    @staticmethod
    def of(device: Device, batch: int, n: int, kind: DType) -> Factoring:
        """That of matrices of an order."""
        layout = layout_of(kind, device.capabilities)
        work, block = workspace(device, batch, n, n, kind), layout.block
        factors = device.empty((batch, -(-n // block), block, block), kind)
        failures = device.empty((batch,), kl.i32)
        run = partial(_factor, device, work, (factors, failures), layout)
        return Factoring(work, factors, failures, layout, run)


def _made(device: Device, batch: int, n: int, kind: DType) -> Factoring:
    """One whose launches are replayed."""
    made = Factoring.of(device, batch, n, kind)
    return made._replace(run=repeated(device, made.run))


def _factor(device: Device, work: Any, results: tuple[Any, Any], layout: Layout) -> None:
    """All of it, by blocks of rows."""
    batch, n = int(work.shape[0]), int(work.shape[1])
    clear[batch, _LINE](results[1])

    def near(outer: int, stop: int, following: int) -> None:
        _change_rows(device, work, (outer, stop), (stop, following))

    def far(outer: int, stop: int, following: int) -> None:
        _change_rest(device, work, (outer, stop), following)

    blocks = partial(_factor_blocks, device, work, results, layout)
    look_ahead(device, (0, n), layout.wide, blocks, (near, far))


def _factor_blocks(
    device: Device, work: Any, results: tuple[Any, Any], layout: Layout, outer: int, stop: int
) -> None:
    """A wide block of rows, which those above have changed already."""
    for first in range(outer, stop, layout.block):
        last = min(first + layout.block, stop)
        _change_rows(device, work, (outer, first), (first, last))
        _factor_rows(device, work, results, first, layout)


def _factor_rows(
    device: Device, work: Any, results: tuple[Any, Any], first: int, layout: Layout
) -> None:
    """A diagonal block, and the rows right of it."""
    (batch, n), number = (int(x) for x in work.shape[:2]), first // layout.block
    block, right = layout.block, max(n - first - layout.block, 0)
    if not device.capabilities.lone_work_items:
        strip = layout.strip if right else 0
        strips = -(-right // layout.strip) if right else 1
        items = block * (block + strip) // TILE**2
        cholesky_rows[groups(batch * strips), items](
            work, *results, number, strips, LAYOUT=layout, STRIP=strip
        )
        return
    cholesky_block[groups(batch), 1](work, *results, number, LAYOUT=layout)
    if right:
        rows, factor = work[:, first : first + block, first + block :], results[0][:, number]
        solved_in_place(device, factor, rows, Triangle(False, True, True, False), layout)


def _change_rest(device: Device, work: Any, above: tuple[int, int], first: int) -> None:
    """What rows leave of those from `first` on, in strips."""
    n = int(work.shape[1])
    step = max(above[1] - above[0], -(-(n - first) // _STRIPS))
    for start in range(first, n, step):
        _change_rows(device, work, above, (start, min(start + step, n)))


def _change_rows(device: Device, work: Any, above: tuple[int, int], rows: tuple[int, int]) -> None:
    """What rows above leave of some rows, from their diagonal on."""
    (outer, stop), (first, last) = above, rows
    if outer < stop and first < last:
        left, right = work[:, outer:stop, first:last], work[:, outer:stop, first:]
        subtract_product(device, work[:, first:last, first:], left, right, adjoint=True)
