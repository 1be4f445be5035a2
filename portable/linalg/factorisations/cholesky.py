"""The Cholesky factorisation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType
from portable.interchange.libraries import takes_other_libraries
from portable.lang.launch.geometry import groups
from portable.linalg.dense.kernels import clear
from portable.linalg.factorisations.ahead import look_ahead
from portable.linalg.factorisations.copy_kernels import LOWER, UPPER, put_factors
from portable.linalg.factorisations.definite_kernels import (
    cholesky_block,
    cholesky_rows,
)
from portable.linalg.factorisations.layout import LONG_SEGMENT, TILE, WIDE, Layout, layout_of
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
from portable.linalg.factorisations.triangle_kernels import ADJOINT
from portable.linalg.factorisations.triangles import solved_in_place
from portable.linalg.products.repeats import cached_plan, repeated
from portable.namespace import device_of_arrays
from portable.tune.ways import Way, Ways
from portable.typing import ArrayT

_NOT_DEFINITE = (
    "cholesky: the matrix is not positive definite: the pivot of row {} is not a positive number"
)
_LINE = 64
_LARGE = 4000
"""Rows from which on blocks are twice as wide: products pass over the rest half as often."""

_BESIDE = 1024
"""Rows of the rest that are changed while a block is made, where that is no matter of course."""


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
    Computers", SIAM, 1998): a workgroup factors a diagonal block in local memory, or a core in
    place, strips of the rows right of it are solved for, and products change the rest.
    ``L L^H - a`` is a modest multiple of the unit roundoff times the norm of `a`. Beside the result
    one copy of the matrix is held.

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

    def made() -> Factoring:
        factoring = Factoring.of(device, batch, n, kind)
        return factoring._replace(run=repeated(device, factoring.run))

    plan = cached_plan(device, key, made, room)
    copied(device, a, plan.work, from_lead=lead, turned=not upper, kept=UPPER)
    plan.run()
    plan.put(device, out, lead, upper=upper)
    require_success(device, plan.failures, _NOT_DEFINITE)
    return out  # type: ignore[no-any-return]


class Factoring(NamedTuple):
    """What makes matrices U of ``U^H U`` in place, maybe but for their diagonal blocks.

    Attributes
    ----------
    work : array, shape (batch, n, columns)
        Matrices, of which the upper triangle is read, in rows of whole vectors.
    factors : array, shape (batch, blocks, block, block), or None
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
        layout, factors = layout_of(kind, device.capabilities), None
        block, columns = layout.block, n
        if device.capabilities.single_work_items:
            columns = LONG_SEGMENT * -(-n // LONG_SEGMENT)
        else:
            factors = device.empty((batch, -(-n // block), block, block), kind)
        work, failures = workspace(device, batch, n, columns, kind), device.empty((batch,), kl.i32)
        copied(device, work[:, :0, :0], work)
        run = partial(_factor, device, work, (factors, failures), layout)
        return Factoring(work, factors, failures, layout, run)

    def put(self, device: Device, out: Any, lead: tuple[int, ...], *, upper: bool = True) -> None:
        """Copies U, or U^H, to matrices of other leading dimensions, zeros beside it."""
        kept = UPPER if upper else LOWER
        copied(device, self.work, out, to_lead=lead, kept=kept, turned=not upper)
        if self.factors is not None:
            batch, blocks = (int(x) for x in self.factors.shape[:2])
            put_factors[groups(batch * blocks), self.layout.items](
                self.factors, out, lead, LAYOUT=self.layout, TRANSPOSED=not upper
            )


def _factor(device: Device, work: Any, results: tuple[Any, Any], layout: Layout) -> None:
    """All of it, by blocks of rows."""
    batch, n = int(work.shape[0]), int(work.shape[1])
    clear[batch, _LINE](results[1])

    def near(outer: int, stop: int, following: int) -> None:
        _change_rows(device, work, (outer, stop), (stop, following))

    def far(outer: int, stop: int, following: int) -> None:
        step = max(min(layout.least, stop - outer), -(-(n - following) // layout.strips))
        for start in range(following, n, step):
            _change_rows(device, work, (outer, stop), (start, min(start + step, n)))

    blocks = partial(_factor_blocks, device, work, results, layout)
    wide = WIDE * (2 if n >= _LARGE else 1)
    look_ahead(device, (0, n), wide, blocks, (near, far), _BESIDE)


def _factor_blocks(
    device: Device, work: Any, results: tuple[Any, Any], layout: Layout, outer: int, stop: int
) -> None:
    """A wide block of rows, which those above have changed already."""
    for first in range(outer, stop, layout.block):
        last = min(first + layout.block, stop)
        next(BLOCKS.of(Asked(device, work, results, first, layout)))
        _change_rows(device, work, (first, last), (last, stop))


class Asked(NamedTuple):
    """What ways of factoring a block of rows are told."""

    device: Device
    work: Any
    results: tuple[Any, Any]
    first: int
    layout: Layout

    @property
    def right(self) -> int:
        """Columns right of the block."""
        return max(int(self.work.shape[1]) - self.first - self.layout.block, 0)


def _rows_at_once(asked: Asked) -> Iterator[None]:
    _, work, results, first, layout = asked
    block, right = layout.block, asked.right
    strip = layout.strip if right else 0
    strips = -(-right // layout.strip) if right else 1
    items = block * (block + strip) // TILE**2
    cholesky_rows[groups(int(work.shape[0]) * strips), items](
        work, *results, first // block, strips, LAYOUT=layout, STRIP=strip
    )
    yield


def _block_first(asked: Asked) -> Iterator[None]:
    device, work, (_, failures), first, layout = asked
    cholesky_block[groups(int(work.shape[0])), 1](work, failures, first, LAYOUT=layout)
    if asked.right:
        rows = work[:, first : first + layout.block]
        block, rest = rows[:, :, first:], rows[:, :, first + layout.block :]
        solved_in_place(device, block, rest, ADJOINT, layout)
    yield


BLOCKS: Final = Ways[Asked, None](
    "rows of Cholesky factors",
    Way("alone", "cholesky_block", _block_first, lambda x: x.results[0] is None),
    Way("at once", "cholesky_rows", _rows_at_once),
)
"""How a block of rows is factored."""


def _change_rows(device: Device, work: Any, above: tuple[int, int], rows: tuple[int, int]) -> None:
    """What rows above leave of some rows, from their diagonal on."""
    (outer, stop), (first, last) = above, rows
    if outer < stop and first < last:
        left, right = work[:, outer:stop, first:last], work[:, outer:stop, first:]
        subtract_product(device, work[:, first:last, first:], left, right, adjoint=True)
