"""Eigenvalues of symmetric matrices by way of a band, whose Cholesky factor's values are found.

Reflectors of panels, from both sides, leave a band; shifted by a bound of its eigenvalues it is
positive definite, so that it is ``L L^T`` and its eigenvalues are the squares of the singular
values of ``L^T``, an upper band as `portable.linalg.band_to_bidiagonal` takes it. What has to be
done a column after the other is done to a band that caches hold, and all else a panel at a time (C.
Bischof, B. Lang, X. Sun, ACM TOMS 26 (2000)).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import dtype
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.linalg.bands.band import chase
from portable.linalg.bands.shapes import plan_for
from portable.linalg.base.magnitude import largest_magnitude, scaled_by
from portable.linalg.dense.reduction import symmetric_band
from portable.linalg.dense.shapes import dense_shape, tuned
from portable.linalg.singular_values.bidiagonal import bisected
from portable.linalg.spectral.reduction_kernels import field_of, load_scaled
from portable.linalg.spectral.reductions import SCALED_TO, largest_magnitudes
from portable.tune.fallback import first_accepted
from portable.tune.space import Parameters

_TILE: Final = (32, 8, 1)
_LINE: Final = 64
_ITEMS: Final = 512
_SHIFTS: Final = 16
"""Shifts that are tried side by side: sums of magnitudes may be eight times the eigenvalues."""


def eigenvalues_by_band(device: Device, a: Any, values: Any) -> tuple[Any, ...]:
    """The eigenvalues of symmetric matrices, the least first, one matrix after the other.

    Parameters
    ----------
    device : Device
        Where.
    a : array, shape (count, n, n)
        Real matrices, of which lower triangles are read.
    values : array, shape (count, n)
        Where eigenvalues go.

    Returns
    -------
    array
        Largest magnitudes, by which what is not finite is found.
    """
    count, n = (int(x) for x in values.shape)
    kind, can = dtype(values.dtype), device.capabilities
    largest = largest_magnitudes(device, a, hermitian=True)
    for i in range(count):
        one = (x[i : i + 1] for x in (a, largest, values))
        first_accepted(tuned(kind, n, can), partial(_solve, device, *one))
    return (largest,)


def _solve(device: Device, a: Any, largest: Any, values: Any, choice: Parameters) -> None:
    """Those of one matrix, by tuned parameters of a reduction to a band."""
    n, kind, can = int(a.shape[1]), dtype(values.dtype), device.capabilities
    bandwidth = choice["BANDWIDTH"]
    shape = dense_shape(choice, bandwidth, kind, can)
    whole = -(-n // bandwidth) * bandwidth
    work = device.empty((1, *shape.room(whole, whole)), kind)
    extents = tuple(int(x) for x in reversed(work.shape))
    load_scaled[extents, _TILE](a, largest, work, TARGET=SCALED_TO, FORM="hermitian")
    symmetric_band(device, work[0], whole, bandwidth, shape)
    sums, scales = device.empty((n,), kind), device.empty((_SHIFTS + 1, 3), kind)
    add_band_rows[n, _LINE](work[0], sums, B=bandwidth)
    factors, ab = (device.empty((*x, bandwidth + 1, n), kind) for x in ((_SHIFTS,), ()))
    items = 1 if can.lone_work_items else min(_ITEMS, can.max_workgroup)
    bound = largest_magnitude(device, sums)
    factor_shifted_bands[groups(_SHIFTS), items](work[0], bound, factors, scales, B=bandwidth)
    choose_factor[(n, bandwidth + 1), _TILE[:2]](factors, scales, ab)
    diagonals = device.empty((n,), kind), device.empty((n - 1,), kind)
    chosen = scales[_SHIFTS]
    chase(device, ab, chosen[:1], diagonals, plan_for(bandwidth, n, kind, can))
    singular = device.empty((n,), kind)
    bisected(device, diagonals, chosen[:1], singular)
    store_shifted[n, _LINE](singular, bound, chosen, largest, values, TARGET=SCALED_TO)


@kernel
def add_band_rows(a: kl.Array, sums: kl.Array, *, B: int) -> None:
    """Sums of magnitudes of a symmetric band's rows, which bound its eigenvalues."""
    i, n = kl.global_id(0), sums.shape[0]
    if i < n:
        total = kl.cast(0, a.dtype)
        for j in range(kl.maximum(i - B, 0), kl.minimum(i + B + 1, n)):
            total = total + kl.abs(a[kl.maximum(i, j), kl.minimum(i, j)])
        sums[i] = total


@kernel
def factor_shifted_bands(
    a: kl.Array, bound: kl.Array, factors: kl.Array, scales: kl.Array, *, B: int
) -> None:
    """``L^T`` of shifted bands ``L L^T`` in diagonal-ordered form; a shift a workgroup.

    The first shift is more than `bound` by what rounding errors do not take away, each other a
    ``2^(1/4)``-th of the one before; with those that are too small the factor does not exist. A
    column after the other changes those behind it, in a window that goes down the diagonal. Rows of
    `scales` become a bound of the singular values of ``L^T``, the shift, and whether the factor
    exists.
    """
    n, item, items, kind = factors.shape[2], kl.local_id(0), kl.local_size(0), a.dtype
    group = kl.group_id(0)
    most = kl.where(bound[0] > 0, bound[0] * (1 + 2.0**-12), kl.cast(1, kind))
    shift, least = most * kl.exp2(kl.cast(group, kind) * -0.25), kl.cast(1, kind)
    window, inverse = kl.local((2 * B, 2 * B + 1), kind), kl.local(2, kind)
    for start in range(0, n, B):
        fill_window(a, window, (start, n), shift, B)
        if start == 0 and item == 0:
            inverse[0] = 1 / (a[0, 0] + shift)
        kl.barrier()
        for j in range(kl.minimum(B, n - start)):
            by = inverse[j % 2]
            least = kl.where(kl.isfinite(by), kl.minimum(least, by), -1)
            for number in range(item, B * B, items):
                column, row = j + 1 + number // B, j + 1 + number % B
                if row >= column:
                    left = window[column, row] - window[j, row] * (window[j, column] * by)
                    window[column, row] = left
                    if number == 0:
                        inverse[(j + 1) % 2] = 1 / left
            root = kl.sqrt(by)
            for below in range(item, kl.minimum(B + 1, n - start - j), items):
                factors[group, B - below, start + j + below] = window[j, j + below] * root
            kl.barrier()
    if item == 0:
        scales[group, 0], scales[group, 1] = kl.sqrt(most + shift), shift
        scales[group, 2] = kl.where(least > 0, kl.cast(1, kind), 0)


@function
def fill_window(
    a: kl.Array, window: kl.Array, rows: tuple[kl.Scalar, ...], shift: kl.Scalar, B: int
) -> None:
    """Moves the window on to the columns from ``rows[0]`` on, of a band of ``rows[1]`` rows.

    What the last columns left of the next is moved up, rows behind are loaded; all of them at
    first. Behind the matrix is the shift alone.
    """
    start, n = rows
    item, items, zero = kl.local_id(0), kl.local_size(0), shift * 0
    kept = kl.where(start > 0, B, 0)
    for number in range(item, kept * B, items):
        column, row = number // B, number % B
        window[column, row] = window[B + column, B + row]
    kl.barrier()
    for number in range(item, (2 * B - kept) * 2 * B, items):
        down, column = kept + number // (2 * B), number % (2 * B)
        row, value = start + down, zero
        if row < n and down >= column and down <= column + B:
            value = a[row, start + column]
        window[column, down] = value + kl.where(down == column, shift, zero)


@kernel
def choose_factor(factors: kl.Array, scales: kl.Array, ab: kl.Array) -> None:
    """The factor with the smallest shift of those that exist, and its row behind the others."""
    column, diagonal = kl.global_id(0), kl.global_id(1)
    if diagonal < ab.shape[0] and column < ab.shape[1]:
        chosen, COUNT = kl.cast(0, kl.i32), scales.shape[0] - 1
        for i in range(1, COUNT):
            chosen = kl.where(scales[i, 2] > 0, i, chosen)
        value = kl.cast(0, ab.dtype)
        if column + diagonal + 1 >= ab.shape[0]:
            value = factors[chosen, diagonal, column]
        ab[diagonal, column] = value
        if diagonal == 0 and column < 2:
            scales[COUNT, column] = scales[chosen, column]


@kernel
def store_shifted(
    singular: kl.Array,
    bound: kl.Array,
    scales: kl.Array,
    largest: kl.Array,
    values: kl.Array,
    *,
    TARGET: int,
) -> None:
    """Eigenvalues of the scaled singular values of a shifted matrix' factor; zeros of zeros."""
    i, n = kl.global_id(0), values.shape[1]
    if i < n:
        x = singular[n - 1 - i]
        x = kl.where(bound[0] > 0, x * x - scales[1], bound[0])
        values[0, i] = scaled_by(x, field_of(largest[0], TARGET), -1)
