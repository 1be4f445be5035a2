"""Products that change what is left of a matrix."""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import dtype
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.linalg.factorisations.copy_kernels import conjugate
from portable.linalg.factorisations.matrices import is_turned, turned
from portable.linalg.products.gemm import gemm

__all__ = ["add_product", "multiplied", "subtract_product"]

_TILE: Final = 16
_LONE: Final = 8
_NARROW: Final = 32
"""Columns up to which a product on a processor would be a program for each number of rows."""

_BAND: Final = 32
_CHAIN: Final = 256
"""Products that are added up one after the other at most, so that sums do not drift."""

_ROWS: Final = 8
"""Rows whose sums registers hold."""


def subtract_product(device: Device, out: Any, a: Any, b: Any, *, adjoint: bool = False) -> None:
    """``out -= a @ b``, or ``a^H @ b``.

    Parameters
    ----------
    device : Device
        Where.
    out, a, b : array
        Matrices of one batch and dtype; none is empty.
    adjoint : bool
        Whether `a` is given as its conjugate transpose.
    """
    _product(device, out, a, b, (-1.0, 1.0), adjoint)


def add_product(device: Device, out: Any, a: Any, b: Any, *, adjoint: bool = False) -> None:
    """``out += a @ b``, as `subtract_product`."""
    _product(device, out, a, b, (1.0, 1.0), adjoint)


def multiplied(device: Device, out: Any, a: Any, b: Any, *, adjoint: bool = False) -> None:
    """``out = a @ b``, as `subtract_product`."""
    _product(device, out, a, b, (1.0, 0.0), adjoint)


def _product(
    device: Device, out: Any, a: Any, b: Any, factors: tuple[float, float], adjoint: bool
) -> None:
    if 0 in out.shape or (0 in a.shape and factors[1] == 1):
        return
    alpha, beta = factors
    left, can = turned(a) if adjoint else a, device.capabilities
    if not dtype(out.dtype).is_complex:
        if can.lone_work_items and out.shape[2] <= _NARROW:
            bands = -(-int(out.shape[1]) // _BAND)
            lanes = max(1, can.vector_bytes // dtype(out.dtype).itemsize)
            narrow_product[groups(bands, int(out.shape[0])), 1](
                alpha, left, b, out, LANES=lanes, KEEP=beta != 0
            )
            return
        if is_turned(out):
            out, left, b = turned(out), turned(b), turned(left)
        if out.shape[0] == 1:
            out, left, b = out[0], left[0], b[0]
        gemm(left, b, alpha=alpha, beta=beta, c=out if beta else None, out=out)
        return
    lone = can.lone_work_items
    rows, columns = int(out.shape[1]), int(out.shape[2])
    edge = _LONE if lone else _TILE
    count = groups(-(-columns // edge), -(-rows // edge), int(out.shape[0]))
    items = (1, 1, 1) if lone else (_TILE, _TILE, 1)
    product = complex_product_alone if lone else complex_product
    product[count, items](alpha, left, b, beta, out, CONJUGATE=adjoint, TILE=edge)


@function
def element(x: Any, i: Any, j: Any, kind: Any) -> Any:
    """An element, zero outside."""
    value = kl.cast(0, kind)
    if i < x.shape[0] and j < x.shape[1]:
        value = x[i, j]
    return value


@kernel
def narrow_product(alpha: Any, a: Any, b: Any, out: Any, *, LANES: int, KEEP: bool) -> None:
    """``out += alpha a @ b`` of few columns, a work-item a band of rows; without `KEEP` ``=``."""
    batch, first = kl.group_id(1), kl.group_id(0) * _BAND
    rows = kl.minimum(out.shape[1] - first, _BAND)
    for row in range(0, rows, _ROWS):
        for column, lanes in kl.vector_range(0, out.shape[2], lanes=LANES):
            add_rows(alpha, a[batch], b[batch], out[batch], (first + row, column), lanes, KEEP)


@function
def add_rows(alpha: Any, a: Any, b: Any, out: Any, place: Any, LANES: int, KEEP: bool) -> None:
    """Adds a product to some rows of neighbouring columns; what is beyond the last row is not."""
    (row, column), last = place, out.shape[0] - 1
    sums = kl.private(_ROWS, out.dtype, lanes=LANES, fill=0)
    for begin in range(0, b.shape[0], _CHAIN):
        chain = kl.private(_ROWS, out.dtype, lanes=LANES, fill=0)
        for k in kl.range(begin, kl.minimum(begin + _CHAIN, b.shape[0]), unroll=1):
            right = kl.vload(b, k, column, lanes=LANES)
            for i in kl.static_range(_ROWS):
                chain[i] = chain[i] + a[kl.minimum(row + i, last), k] * right
        for i in kl.static_range(_ROWS):
            sums[i] = sums[i] + chain[i]
    for i in kl.static_range(_ROWS):
        if row + i <= last:
            total = kl.cast(alpha, out.dtype) * sums[i]
            if KEEP:
                total = kl.vload(out, row + i, column, lanes=LANES) + total
            kl.vstore(out, row + i, column, total)


@kernel
def complex_product(
    alpha: Any, a: Any, b: Any, beta: Any, out: Any, *, CONJUGATE: bool, TILE: int
) -> None:
    """``out = alpha a @ b + beta out``, a workgroup a square tile; `CONJUGATE`: of a's conjugate.

    With ``beta == 0`` what `out` holds does not count.
    """
    kind, batch = out.dtype, kl.group_id(2)
    left, right = kl.local((TILE, TILE + 1), kind), kl.local((TILE, TILE), kind)
    x, y = kl.local_id(0), kl.local_id(1)
    row, column = kl.group_id(1) * TILE + y, kl.group_id(0) * TILE + x
    total = kl.cast(0, kind)
    depth = a.shape[2]
    for first in range(0, depth, TILE):
        value = element(a[batch], row, first + x, kind)
        left[y, x] = conjugate(value) if CONJUGATE else value
        right[y, x] = element(b[batch], first + y, column, kind)
        kl.barrier()
        for k in range(TILE):
            total = total + left[y, k] * right[k, x]
        kl.barrier()
    if row < out.shape[1] and column < out.shape[2]:
        total = alpha * total
        if beta != 0:
            total = total + beta * out[batch, row, column]
        out[batch, row, column] = total


@kernel
def complex_product_alone(
    alpha: Any, a: Any, b: Any, beta: Any, out: Any, *, CONJUGATE: bool, TILE: int
) -> None:
    """As `complex_product`, a work-item a tile, whose sums stay in registers."""
    kind, batch = out.dtype, kl.group_id(2)
    sums = kl.local((TILE, TILE), kind)
    row, column = kl.group_id(1) * TILE, kl.group_id(0) * TILE
    rows = kl.minimum(out.shape[1] - row, TILE)
    columns = kl.minimum(out.shape[2] - column, TILE)
    for i in range(TILE):
        for j in range(TILE):
            sums[i, j] = 0
    for k in range(a.shape[2]):
        for i in range(rows):
            value = a[batch, row + i, k]
            if CONJUGATE:
                value = conjugate(value)
            for j in range(columns):
                sums[i, j] = sums[i, j] + value * b[batch, k, column + j]
    for i in range(rows):
        for j in range(columns):
            total = alpha * sums[i, j]
            if beta != 0:
                total = total + beta * out[batch, row + i, column + j]
            out[batch, row + i, column + j] = total
