"""Decompositions by way of a band, which a chase makes bidiagonal.

What has to be done a column after the other is done to a band that caches hold, and all else a
panel at a time (C. Bischof, B. Lang, X. Sun, ACM TOMS 26 (2000)). Vectors are led back through the
chase and then through the panels.

Of symmetric matrices reflectors of panels, from both sides, leave a band; shifted by a bound of its
eigenvalues it is positive definite, so that it is ``L L^T`` and its eigenvalues are the squares of
the singular values of ``L^T``, an upper band as `portable.linalg.band_to_bidiagonal` takes it, and
its eigenvectors the right singular vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from portable import lang as kl
from portable.backend import Capabilities, Device
from portable.dtypes import DType, dtype
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.linalg.bands.band import chase
from portable.linalg.bands.kernels import Kept
from portable.linalg.bands.shapes import plan_for
from portable.linalg.base.magnitude import largest_magnitude, scaled_by
from portable.linalg.dense.kernels import store_band, store_values
from portable.linalg.dense.reduction import Sweep, begin_of_further
from portable.linalg.dense.shapes import DenseShape, dense_shape, tuned
from portable.linalg.factorisations.matrices import turned
from portable.linalg.factorisations.products import multiplied
from portable.linalg.singular_values.bidiagonal import bisected
from portable.linalg.spectral.divide import bidiagonal_vectors, tridiagonal_vectors
from portable.linalg.spectral.hop_blocks import blocks_ahead, lead_back_hops
from portable.linalg.spectral.reduction_kernels import field_of, spread
from portable.linalg.spectral.reductions import SCALED_TO, largest_magnitudes, load
from portable.linalg.spectral.symmetric_panels import symmetric_panels
from portable.tune.space import Parameters
from portable.tune.table import first_accepted

_TILE: Final = (32, 8, 1)
_LINE: Final = 64
_ITEMS: Final = 512
_UNROLLED: Final = 8
_AHEAD: Final = 8
"""Elements that a work-item has in registers, and rows that are on their way to them."""

_LARGEST: Final = 1 << 20
"""Columns for which the table has the widest bands: what leads back through narrow ones is bound by
memory, and panels that leave them are more."""

_SHIFTS: Final = 16
"""Shifts that are tried side by side: sums of magnitudes may be eight times the eigenvalues."""


def banded_choices(kind: DType, n: int, capabilities: Capabilities) -> tuple[Parameters, ...]:
    """The tuned parameters by which vectors are led back through a band, the best first.

    Parameters
    ----------
    kind : DType
        What is computed in.
    n : int
        The order of the band.
    capabilities : Capabilities
        Of the device. There are none for those on which a chase is more than one launch.
    """
    return tuple(
        choice
        for choice in tuned(kind, _LARGEST, capabilities)
        if choice["PANEL"] == choice["BANDWIDTH"] < n
        and plan_for(choice["BANDWIDTH"], n, kind, capabilities).keeps
    )


def svd_by_band(device: Device, a: Any, values: Any, left: Any, right: Any) -> tuple[Any, ...]:
    """Singular values and vectors of matrices, one after the other.

    Parameters
    ----------
    device : Device
        Where.
    a : array, shape (count, m, n)
        Real matrices.
    values, left, right : array
        As of `portable.linalg.spectral.stages.svd_in_stages`.

    Returns
    -------
    tuple of array
        Largest magnitudes, by which what is not finite is found, and of each matrix what is not 0
        where rotations did not end.
    """
    largest = largest_magnitudes(device, a, hermitian=False)
    choices = banded_choices(dtype(values.dtype), int(values.shape[1]), device.capabilities)
    statuses = []
    for i in range(int(a.shape[0])):
        one = [x[i : i + 1] for x in (a, largest, values, left, right)]
        statuses.append(first_accepted(choices, partial(_svd, device, *one)))
    return largest, *statuses


def eigen_by_band(device: Device, a: Any, values: Any, vectors: Any) -> tuple[Any, ...]:
    """The eigenvalues of symmetric matrices, the least first, one matrix after the other.

    Parameters
    ----------
    device : Device
        Where.
    a : array, shape (count, n, n)
        Real matrices, of which lower triangles are read.
    values : array, shape (count, n)
        Where eigenvalues go.
    vectors : array, shape (count, n, n), or None
        Where eigenvectors go, as columns.

    Returns
    -------
    tuple of array
        As of `svd_by_band`; without vectors the largest magnitudes alone.
    """
    n, kind, can = int(values.shape[1]), dtype(values.dtype), device.capabilities
    largest = largest_magnitudes(device, a, hermitian=True)
    choices = tuned(kind, _LARGEST, can) if vectors is None else banded_choices(kind, n, can)
    statuses = []
    for i in range(int(a.shape[0])):
        one: list[Any] = [x if x is None else x[i : i + 1] for x in (a, largest, values, vectors)]
        statuses.append(first_accepted(choices, partial(_symmetric, device, *one)))
    return largest, *(x for x in statuses if x is not None)


def _svd(
    device: Device, a: Any, largest: Any, values: Any, left: Any, right: Any, choice: Parameters
) -> Any:
    """The decomposition of one matrix by tuned parameters of a reduction to a band."""
    n, m = sorted(int(x) for x in a.shape[1:])
    turns = int(a.shape[1]) < m
    kind, b = dtype(values.dtype), choice["BANDWIDTH"]
    shape = dense_shape(choice, b, kind, device.capabilities)
    down, across = (begin_of_further(x, shape) for x in (m, n))
    room = shape.room(down + n, across + m)
    work = device.empty((1, *room), kind)
    load(a, largest, work, "turned" if turns else "plain")
    put_ones[m, _LINE](work, down, across)
    Sweep(device, work[0], (m, n), b, shape, further=(n, m)).run()
    ab, scales = device.empty((b + 1, n), kind), device.empty((2,), kind)
    store_band[(n, b + 1), _TILE[:2]](work[0], largest, ab, scales, 0.0, TARGET=SCALED_TO)
    kept = Kept(*(device.empty((n, n + b), kind) for _ in range(2)))
    d, e = _chased(device, ab, scales[:1], kept)
    blocks, status = bidiagonal_vectors(device, d, e)
    store_values[(n, 1), (_LINE, 1)](
        blocks.values, largest, values, TARGET=SCALED_TO, REVERSED=True
    )
    longs, squares = (right, left) if turns else (left, right)
    columns, rows = turned(work[:, :m, across : across + m]), work[:, down : down + n, :n]
    for vectors, hops, basis, out, lies in (
        (blocks.left, kept.left, columns, longs, turns),
        (blocks.right, kept.right, rows, squares, not turns),
    ):
        goal = turned(out) if lies else out
        _lead_back(device, (vectors, hops, basis), n, goal, shape, reverse=True)
    return status


def _symmetric(
    device: Device, a: Any, largest: Any, values: Any, vectors: Any, choice: Parameters
) -> Any:
    """The same of a symmetric matrix, without vectors if they are None."""
    n, kind, b = int(a.shape[1]), dtype(values.dtype), choice["BANDWIDTH"]
    panels, reduce, join = symmetric_panels(device, n, b, kind)
    load(a, largest, turned(panels.whole), "hermitian")
    reduce()
    factor, hops = partial(_shifted_factor, device, panels.whole[0], n, b), None
    if vectors is None:
        ab, bound, chosen = factor()
    else:  # by few workgroups, which leave room for others
        ab, bound, chosen = _beside(device, factor, join)
        hops = device.empty((n, n + b), kind)
    d, e = _chased(device, ab, chosen[:1], Kept(None, hops))
    if vectors is None:
        singular = device.empty((n,), kind)
        bisected(device, (d[0], e[0, : n - 1]), chosen[:1], singular, relative=False)
        store_shifted[n, _LINE](singular, bound, chosen, largest, values, TARGET=SCALED_TO)
        return None
    on, off = device.empty((1, n), kind), device.empty((1, n), kind)
    square_bidiagonal[n, _LINE](d, e, bound, chosen, on, off)
    shape, size = dense_shape(choice, b, kind, device.capabilities), int(panels.whole.shape[1])
    made, make = blocks_ahead(device, hops, n, b)
    blocks, status = _beside(device, partial(tridiagonal_vectors, device, on, off), make)
    store_values[(n, 1), (_LINE, 1)](
        blocks.values, largest, values, TARGET=SCALED_TO, REVERSED=False
    )
    x = _hops_led_back(device, blocks.right, hops, (size, n), n, shape, made, reverse=False)
    panels.lead_back(x, vectors)
    return status


def _beside(device: Device, first: Callable[[], Any], second: Callable[[], object]) -> Any:
    """What work gives that takes few workgroups, with other work beside it."""
    results: list[Any] = []
    device.at_once(lambda: results.append(first()), second)
    return results[0]


def _chased(device: Device, ab: Any, largest: Any, kept: Kept) -> tuple[Any, Any]:
    """Makes a band bidiagonal."""
    (b, n), kind = (int(x) for x in ab.shape), dtype(ab.dtype)
    d, e = device.empty((1, n), kind), device.empty((1, n), kind)
    plan = plan_for(b - 1, n, kind, device.capabilities)
    chase(device, ab, largest, (d[0], e[0, : n - 1]), plan, kept)
    return d, e


def _lead_back(
    device: Device,
    of: tuple[Any, Any, Any],
    n: int,
    out: Any,
    shape: DenseShape,
    *,
    reverse: bool,
) -> None:
    """Vectors of a bidiagonal matrix, led through a chase's hops, times the basis of its band."""
    vectors, hops, basis = of
    columns = int(out.shape[2])
    x = _hops_led_back(device, vectors, hops, (columns, columns), n, shape, reverse=reverse)
    multiplied(device, out, basis[:, :, :columns], x[:, :columns, :columns])


def _hops_led_back(
    device: Device,
    vectors: Any,
    hops: Any,
    size: tuple[int, int],
    n: int,
    shape: DenseShape,
    made: Sequence[Any] = (),
    *,
    reverse: bool,
) -> Any:
    """Vectors of a bidiagonal matrix, led through a chase's hops, of so many rows and columns.

    Some of the blocks may be `made`.
    """
    x = device.empty((1, *shape.room(*size)), dtype(vectors.dtype))
    extents = tuple(int(x) for x in reversed(x.shape))
    spread[extents, _TILE](vectors, None, x, n, REVERSED=reverse)
    lead_back_hops(device, hops, x[0], (n, size[1]), shape.panel, shape, made)
    return x


def _shifted_factor(device: Device, a: Any, n: int, b: int) -> tuple[Any, Any, Any]:
    """``L^T`` of a symmetric band that is shifted, a bound of its eigenvalues, and its scales."""
    kind, can = dtype(a.dtype), device.capabilities
    sums, scales = device.empty((n,), kind), device.empty((_SHIFTS + 1, 3), kind)
    add_band_rows[n, _LINE](a, sums, B=b)
    factors, ab = (device.empty((*x, b + 1, n), kind) for x in ((_SHIFTS,), ()))
    most = 1 if can.single_work_items else min(_ITEMS, can.max_workgroup, b * b)
    items = 1 << (most.bit_length() - 1)  # as b is a power of two, so that they share all alike
    bound = largest_magnitude(device, sums)
    factor_shifted_bands[groups(_SHIFTS), items](
        a, bound, factors, scales, B=b, EACH=b * b // items
    )
    choose_factor[(n, b + 1), _TILE[:2]](factors, scales, ab)
    return ab, bound, scales[_SHIFTS]


@kernel
def put_ones(work: kl.Array, row: kl.Scalar, column: kl.Scalar) -> None:
    """Identities from a row on, and from a column on."""
    i = kl.global_id(0)
    if row + i < work.shape[1] and i < work.shape[2]:
        work[0, row + i, i] = 1
    if i < work.shape[1] and column + i < work.shape[2]:
        work[0, i, column + i] = 1


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
    a: kl.Array, bound: kl.Array, factors: kl.Array, scales: kl.Array, *, B: int, EACH: int
) -> None:
    """``L^T`` of shifted bands ``L L^T`` in diagonal-ordered form; a shift a workgroup.

    The first shift is more than `bound` by what rounding errors do not take away, each other a
    ``2^(1/4)``-th of the one before; with those that are too small the factor does not exist. Rows
    of `scales` become a bound of the singular values of ``L^T``, the shift, and whether the factor
    exists.

    A column after the other changes the B rows and columns behind it, of which work-items hold
    `EACH` elements: that of row i and column j in the place of i and j modulo B. Where those of
    the column were, the row that is B below it comes in.
    """
    n, item, items, kind = factors.shape[2], kl.local_id(0), kl.local_size(0), a.dtype
    group = kl.group_id(0)
    most = kl.where(bound[0] > 0, bound[0] * (1 + 2.0**-12), kl.cast(1, kind))
    shift, least = most * kl.exp2(kl.cast(group, kind) * -0.25), kl.cast(1, kind)
    held, rows = kl.private(EACH, kind), kl.local((_AHEAD, 1, B + 1), kind)
    pivots = kl.local((2, B + 1), kind)
    for e in kl.range(EACH, unroll=min(EACH, _UNROLLED)):
        column, row = (item + e * items) // B, (item + e * items) % B
        value = a[kl.maximum(row, column), kl.minimum(row, column)]
        held[e] = value + kl.where(row == column, shift, shift * 0)
    for ahead in kl.static_range(_AHEAD - 1):
        ask_for_row(a, rows[ahead], B + ahead, B)
    kl.copy_wait(_AHEAD - 2)
    kl.barrier()
    for j in range(n):
        place, column_j, entering = j % B, pivots[j % 2], rows[j % _AHEAD]
        for e in kl.range(EACH, unroll=min(EACH, _UNROLLED)):
            column, row = (item + e * items) // B, (item + e * items) % B
            if column == place:
                column_j[row] = kl.where(row == place, entering[0, 0], held[e])
                if row == place:
                    column_j[B] = 1 / held[e]
        kl.copy_wait(_AHEAD - 3)
        kl.barrier()
        ask_for_row(a, rows[(j + _AHEAD - 1) % _AHEAD], j + B + _AHEAD - 1, B)
        by = column_j[B]
        least = kl.where(kl.isfinite(by), kl.minimum(least, by), -1)
        for e in kl.range(EACH, unroll=min(EACH, _UNROLLED)):
            column, row = (item + e * items) // B, (item + e * items) % B
            if column == place:
                root, below = kl.sqrt(by), (row - place) % B
                if j + below < n:
                    factors[group, B - below, j + below] = held[e] * root
                if below == 0 and j + B < n:
                    factors[group, 0, j + B] = column_j[place] * root
            if column == place or row == place:
                beside = (kl.where(column == place, row, column) - place - 1) % B + 1
                held[e] = entering[0, beside] + kl.where(beside == B, shift, shift * 0)
            held[e] = held[e] - column_j[column] * (column_j[row] * by)
    if item == 0:
        scales[group, 0], scales[group, 1] = kl.sqrt(most + shift), shift
        scales[group, 2] = kl.where(least > 0, kl.cast(1, kind), 0)


@function
def ask_for_row(a: kl.Array, room: kl.Array, row: kl.Scalar, B: int) -> None:
    """Starts to copy a row of the band, up to the diagonal; zeros behind the matrix."""
    first = row - B
    kl.copy_async(room, a[row : row + 1, first : first + B + 1])
    kl.copy_commit()


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


@kernel
def square_bidiagonal(
    d: kl.Array, e: kl.Array, bound: kl.Array, scales: kl.Array, on: kl.Array, off: kl.Array
) -> None:
    """The diagonals of ``B^T B`` without the shift of ``scales[1]``; zeros of zeros."""
    i, n = kl.global_id(0), d.shape[1]
    if i < n:
        square, beside = d[0, i] * d[0, i] - scales[1], kl.cast(0, d.dtype)
        if i > 0:
            square = kl.fma(e[0, i - 1], e[0, i - 1], square)
        if i + 1 < n:
            beside = d[0, i] * e[0, i]
        on[0, i] = kl.where(bound[0] > 0, square, bound[0])
        off[0, i] = kl.where(bound[0] > 0, beside, bound[0])
