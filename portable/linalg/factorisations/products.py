"""Products that change what is left of a matrix."""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import dtype
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.linalg.base.parts import conjugate
from portable.linalg.factorisations.matrices import is_transposed, turned
from portable.linalg.products.gemm import gemm
from portable.linalg.products.repeats import room_for

_TILE: Final = (32, 8, 1)
_TILE_ALONE: Final = (64, 1, 1)
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
        if can.single_work_items and out.shape[2] <= _NARROW:
            bands = -(-int(out.shape[1]) // _BAND)
            lanes = max(1, can.vector_bytes // dtype(out.dtype).itemsize)
            narrow_product[groups(bands, int(out.shape[0])), 1](
                alpha, left, b, out, LANES=lanes, KEEP=beta != 0
            )
            return
        if is_transposed(out):
            out, left, b = turned(out), turned(b), turned(left)
        if out.shape[0] == 1:
            out, left, b = out[0], left[0], b[0]
        gemm(left, b, alpha=alpha, beta=beta, c=out if beta else None, out=out)
        return
    _complex_product(device, out, (left, adjoint), (b, False), factors)


def _complex_product(
    device: Device,
    out: Any,
    a: tuple[Any, bool],
    b: tuple[Any, bool],
    factors: tuple[float, float],
) -> None:
    """A product of complex matrices, of which each may be conjugated, as one of real numbers.

    Real and imaginary parts lie beside each other: of `a` in rows, of `b` in squares of four, as
    complex numbers are matrices.
    """
    if is_transposed(out):
        (left, conjugated), (right, other) = a, b
        out, a, b = turned(out), (turned(right), other), (turned(left), conjugated)
    kind, batch = dtype(out.dtype).real, int(out.shape[0])
    (m, depth), n = (int(x) for x in a[0].shape[1:]), int(out.shape[2])
    left = room_for(device, "left", (batch, m, 2 * depth), kind)
    right = room_for(device, "right", (batch, 2 * depth, 2 * n), kind)
    product = room_for(device, "product", (batch, m, 2 * n), kind)
    tile = _TILE_ALONE if device.capabilities.single_work_items else _TILE
    part_rows[(depth, m, batch), tile](a[0], left, CONJUGATE=a[1])
    part_squares[(n, depth, batch), tile](b[0], right, CONJUGATE=b[1])
    gemm(left, right, out=product)
    add_parts[(n, m, batch), tile](factors[0], product, out, KEEP=factors[1] != 0)


@kernel
def narrow_product(
    alpha: kl.Scalar, a: kl.Array, b: kl.Array, out: kl.Array, *, LANES: int, KEEP: bool
) -> None:
    """``out += alpha a @ b`` of few columns, a work-item a band of rows; without `KEEP` ``=``."""
    batch, first = kl.group_id(1), kl.group_id(0) * _BAND
    rows = kl.minimum(out.shape[1] - first, _BAND)
    for row in range(0, rows, _ROWS):
        for column, lanes in kl.vector_range(0, out.shape[2], lanes=LANES):
            add_rows(alpha, a[batch], b[batch], out[batch], (first + row, column), lanes, KEEP)


@function
def add_rows(
    alpha: kl.Scalar,
    a: kl.Array,
    b: kl.Array,
    out: kl.Array,
    corner: tuple[kl.Scalar, ...],
    LANES: int,
    KEEP: bool,
) -> None:
    """Adds a product to some rows of neighbouring columns; what is beyond the last row is not."""
    (row, column), last = corner, out.shape[0] - 1
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
def part_rows(a: kl.Array, parts: kl.Array, *, CONJUGATE: bool) -> None:
    """Real and imaginary parts of matrices, side by side in their rows; dimension 2 is matrices."""
    column, row, batch = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    if batch < a.shape[0] and row < a.shape[1] and column < a.shape[2]:
        x = conjugate(a[batch, row, column]) if CONJUGATE else a[batch, row, column]
        parts[batch, row, 2 * column] = kl.real(x)
        parts[batch, row, 2 * column + 1] = kl.imag(x)


@kernel
def part_squares(b: kl.Array, parts: kl.Array, *, CONJUGATE: bool) -> None:
    """Complex numbers as matrices that rows of `part_rows` are multiplied with."""
    column, row, batch = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    if batch < b.shape[0] and row < b.shape[1] and column < b.shape[2]:
        x = conjugate(b[batch, row, column]) if CONJUGATE else b[batch, row, column]
        parts[batch, 2 * row, 2 * column] = kl.real(x)
        parts[batch, 2 * row, 2 * column + 1] = kl.imag(x)
        parts[batch, 2 * row + 1, 2 * column] = -kl.imag(x)
        parts[batch, 2 * row + 1, 2 * column + 1] = kl.real(x)


@kernel
def add_parts(alpha: kl.Scalar, parts: kl.Array, out: kl.Array, *, KEEP: bool) -> None:
    """``out += alpha`` times the numbers that have these parts; without `KEEP` ``=``."""
    column, row, batch = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    if batch < out.shape[0] and row < out.shape[1] and column < out.shape[2]:
        factor = kl.cast(alpha, parts.dtype)
        real, imag = parts[batch, row, 2 * column], parts[batch, row, 2 * column + 1]
        x = kl.complex(factor * real, factor * imag)
        if KEEP:
            x = out[batch, row, column] + x
        out[batch, row, column] = x
