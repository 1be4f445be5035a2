"""Which kernels multiply a sparse matrix on a device, and with how many work-items."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from array_api_compat import array_namespace
from array_api_compat import device as device_of_library

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType, dtype, int64
from portable.interchange.libraries import takes_other_libraries
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.call_cache import CallTraits, cached_call
from portable.lang.launch.enqueued import enqueue
from portable.lang.launch.geometry import groups
from portable.namespace import device_of_arrays
from portable.primitives.base import operands
from portable.primitives.base.searching import partition_point

# Kernels for products of a sparse matrix.
#
# What a product costs is the reading of the matrix: each number and its column once, in order, and
# the vector's elements as columns ask for them.


class Rows(NamedTuple):
    """The arrays of a sparse matrix, as kernels take them and `portable.sparse.CSR` has them.

    Attributes
    ----------
    data : array, shape (nnz,)
        The numbers.
    columns : array, shape (nnz,)
        Of each.
    offsets : array, shape (rows + 1,)
        Where each row begins, and the last one ends.
    """

    data: Any
    columns: Any
    offsets: Any


def offsets_of(counts: Any) -> Any:
    """Where parts of so many elements begin, and the last one ends."""
    xp = array_namespace(counts)
    before = xp.zeros(1, dtype=counts.dtype, device=device_of_library(counts))
    return xp.concat([before, xp.cumulative_sum(counts, dtype=counts.dtype)])


@function
def first_row(offsets: kl.Array, share: kl.Scalar) -> Any:
    """The first row before which there are as many rows and numbers as `share`."""
    low = kl.cast(0, share.dtype)
    high = low + (offsets.shape[0] - 1)
    return partition_point(low, high, lambda k: kl.cast(offsets[k], share.dtype) + k < share)


@kernel
def csr_share_by_vector(a: Rows, x: kl.Array, out: kl.Array, share: kl.Scalar, *, ACC: Any) -> None:
    """``out = a x``, each work-item the rows of an equal `share` of rows and numbers."""
    item = kl.cast(kl.global_id(0), share.dtype)
    for row in range(first_row(a.offsets, item * share), first_row(a.offsets, (item + 1) * share)):
        total = kl.cast(0, ACC)
        # One sum: compilers make gathers of several, which take twice as long on processors.
        for k in kl.range(a.offsets[row], a.offsets[row + 1], unroll=4):
            total = total + kl.cast(a.data[k], ACC) * kl.cast(x[a.columns[k]], ACC)
        out[row] = total


@kernel
def csr_columns_by_vector(
    a: Rows, x: kl.Array, parts: kl.Array, share: kl.Scalar, *, ACC: Any
) -> None:
    """``parts[item] = x a`` of the rows of an equal `share` of rows and numbers.

    A work-item adds to sums of its own, one for each column, in the order of the numbers.
    """
    number = kl.global_id(0)
    item = kl.cast(number, share.dtype)
    for column in range(parts.shape[1]):
        parts[number, column] = 0
    for row in range(first_row(a.offsets, item * share), first_row(a.offsets, (item + 1) * share)):
        factor = kl.cast(x[row], ACC)
        for k in range(a.offsets[row], a.offsets[row + 1]):
            column = a.columns[k]
            parts[number, column] = parts[number, column] + kl.cast(a.data[k], ACC) * factor


@kernel
def csr_rows_by_vector(
    a: Rows, x: kl.Array, out: kl.Array, *, ACC: Any, LANES: int, EACH: int
) -> None:
    """``out = a x``, `LANES` neighbouring work-items of a sub-group for each row.

    Each reads `EACH` numbers at a time: with one, 27 diagonals took 1.7 times as long on an H200.
    """
    row = kl.global_id(0) // LANES
    lane = kl.global_id(0) % LANES
    inside = row < out.shape[0]
    start = a.offsets[row] if inside else 0
    length = kl.i32(a.offsets[row + 1] - start) if inside else 0
    total = kl.cast(0, ACC)
    for first in range(lane, length, LANES * EACH):
        for step in kl.static_range(EACH):
            if first + step * LANES < length:
                k = start + (first + step * LANES)
                total = total + kl.cast(a.data[k], ACC) * kl.cast(x[a.columns[k]], ACC)
    total = sum_of_lanes(total, LANES)
    if inside and lane == 0:
        out[row] = total


@function
def sum_of_lanes(total: kl.Scalar, LANES: int) -> Any:
    """The sum of what `LANES` neighbouring work-items of a sub-group have."""
    kl.static_assert(kl.sub_group_size() >= LANES, "a sub-group has so many lanes")
    for step in kl.static_range(5):
        if 1 << step < LANES:
            total = total + kl.sub_group_shuffle_xor(total, 1 << step)
    return total


class Carry(NamedTuple):
    """What is known of a row that goes on: its number, and a sum."""

    row: Any
    total: Any


@function
def carried_on(x: Carry, y: Carry) -> Carry:
    """The sum of a row, together with what came before if that was the same row's."""
    return Carry(y.row, kl.where(x.row == y.row, x.total + y.total, y.total))


@function
def rows_before(offsets: kl.Array, step: kl.Scalar) -> Any:
    """How many rows have ended before as many rows and numbers as `step`."""
    low = kl.cast(0, step.dtype)
    high = kl.minimum(step, low + (offsets.shape[0] - 1))
    return partition_point(low, high, lambda k: kl.cast(offsets[k + 1], step.dtype) + k < step)


@function
def rows_ended(ends: kl.Array, step: kl.Scalar, rows: kl.Scalar, numbers: kl.Scalar) -> Any:
    """The same in a share, of whose rows the ends are known."""
    low, high = kl.maximum(step - numbers, 0), kl.minimum(step, rows)
    return partition_point(low, high, lambda k: ends[k] + k < step)


class Share(NamedTuple):
    """Which rows end in a workgroup's share, and which numbers it has."""

    row: Any
    rows: Any
    first: Any
    numbers: Any


@kernel
def csr_mark_shares(offsets: kl.Array, numbers: kl.Scalar, starts: kl.Array, *, SIZE: int) -> None:
    """How many rows have ended before each share of `SIZE` rows and numbers; one work-item each.

    Parameters
    ----------
    offsets : array, shape (rows + 1,)
        As of `Rows`.
    numbers : int
        How many there are.
    starts : array, shape (shares + 1,)
        The result.
    SIZE : int
        Of a share.
    """
    share = kl.cast(kl.global_id(0), kl.i64)
    if share < starts.shape[0]:
        count = kl.cast(numbers, kl.i64) + (offsets.shape[0] - 1)
        starts[share] = rows_before(offsets, kl.minimum(share * SIZE, count))


@function
def share_of(offsets: kl.Array, starts: kl.Array, numbers: kl.Scalar, SIZE: int) -> Share:
    """The share of this workgroup, of so many rows and numbers together."""
    group = kl.cast(kl.group_id(0), kl.i64)
    count = kl.cast(offsets.shape[0] - 1, kl.i64) + numbers
    begin, end = kl.minimum(group * SIZE, count), kl.minimum((group + 1) * SIZE, count)
    row, stop = starts[group], starts[group + 1]
    numbers_here = kl.i32((end - stop) - (begin - row))
    return Share(row, kl.i32(stop - row), begin - row, numbers_here)


@kernel
def csr_even_by_vector(
    a: Rows,
    x: kl.Array,
    out: kl.Array,
    starts: kl.Array,
    sums: kl.Array,
    *,
    ACC: Any,
    EACH: int,
    ITEMS: int,
) -> None:
    """``out = a x``, but for the sums of rows that begin in the share of an earlier workgroup.

    Each workgroup has as many rows and numbers together, each work-item as many of these, however
    long rows are (D. Merrill and M. Garland, "Merge-based parallel sparse matrix-vector
    multiplication", SC 2016). Products go through local memory, which takes 4 bytes beside each.

    Parameters
    ----------
    a, x, out
        The matrix, as of `Rows`, the vector, and the product.
    starts : array, shape (workgroups + 1,)
        Of `csr_mark_shares`.
    sums : array, shape (workgroups, 1)
        What each share has of the row that goes on after it: for `csr_add_carried`.
    ACC : DType
        The type to sum in.
    EACH, ITEMS : int
        Rows and numbers of a work-item, and work-items of a workgroup.
    """
    SIZE = EACH * ITEMS
    mine = share_of(a.offsets, starts, kl.cast(a.data.shape[0], kl.i64), SIZE)
    item = kl.local_id(0)
    ends, products = kl.local((SIZE + 1,), kl.i32), kl.local((SIZE,), ACC)
    for step in kl.static_range(EACH + 1):
        at = item + step * ITEMS
        if at <= mine.rows and at <= SIZE:
            row = kl.minimum(mine.row + at + 1, a.offsets.shape[0] - 1)
            distance = kl.cast(a.offsets[row], kl.i64) - mine.first
            ends[at] = kl.i32(kl.minimum(distance, kl.cast(SIZE, kl.i64)))
    for step in kl.static_range(EACH):
        at = item + step * ITEMS
        if at < mine.numbers:
            k = mine.first + at
            products[at] = kl.cast(a.data[k], ACC) * kl.cast(x[a.columns[k]], ACC)
    kl.barrier()
    end = kl.minimum(item * EACH, mine.rows + mine.numbers)
    row = rows_ended(ends, end, mine.rows, mine.numbers)
    k, begun, total, first = end - row, row, kl.cast(0, ACC), kl.cast(0, ACC)
    for step in kl.static_range(EACH):
        if end + step < mine.rows + mine.numbers:
            if row == mine.rows or k < ends[row]:
                total = total + products[k]
                k = k + 1
            else:
                if row == begun:
                    first = total
                else:
                    out[mine.row + row] = total
                total = kl.cast(0, ACC)
                row = row + 1
    nothing = Carry(kl.i32(-1), kl.cast(0, ACC))
    before, last = kl.workgroup_scan(
        carried_on, Carry(row, total), inclusive=False, initial=nothing, total=True
    )
    if row > begun:
        out[mine.row + begun] = kl.where(before.row == begun, first + before.total, first)
    if item == 0:
        sums[kl.group_id(0), 0] = last.total


@kernel
def csr_share_by_matrix(
    a: Rows, x: kl.Array, out: kl.Array, share: kl.Scalar, *, ACC: Any, LANES: int
) -> None:
    """``out = a x`` of a dense matrix, each work-item a share of rows, in vectors along these.

    `LANES` are no more than columns; the last vector of a row begins before the one before ends.
    """
    item = kl.cast(kl.global_id(0), share.dtype)
    width = x.shape[1]
    for row in range(first_row(a.offsets, item * share), first_row(a.offsets, (item + 1) * share)):
        for first in range(0, width, LANES):
            j = kl.minimum(first, width - LANES)
            totals = kl.splat(kl.cast(0, ACC), LANES)
            for k in range(a.offsets[row], a.offsets[row + 1]):
                factor = kl.splat(kl.cast(a.data[k], ACC), LANES)
                totals = totals + factor * kl.cast(kl.vload(x, a.columns[k], j, lanes=LANES), ACC)
            kl.vstore(out, row, j, totals)


@kernel
def csr_even_by_matrix(
    a: Rows,
    x: kl.Array,
    out: kl.Array,
    starts: kl.Array,
    sums: kl.Array,
    *,
    ACC: Any,
    SIZE: int,
    LANES: int,
    EACH: int,
) -> None:
    """``out = a x`` of a dense matrix, but for what rows have in shares before that of their end.

    `LANES` neighbouring work-items take `SIZE` rows and numbers together, however long rows are,
    and as many columns of the result in vectors of `EACH`; others are further workgroups'.

    Parameters
    ----------
    a, x, out
        The matrices, the sparse one as of `Rows`.
    starts : array, shape (shares + 1,)
        Of `csr_mark_shares`.
    sums : array, shape (shares, columns)
        What each share has of the row that goes on after it: for `csr_add_carried`.
    ACC : DType
        The type to sum in.
    SIZE, LANES, EACH : int
        Rows and numbers of a share, work-items for one, and columns of each of these.
    """
    share = kl.global_id(0) // LANES
    j = (kl.group_id(1) * LANES + kl.global_id(0) % LANES) * EACH
    if share < sums.shape[0] and j < out.shape[1]:
        row, stop = starts[share], starts[share + 1]
        steps = kl.cast(a.data.shape[0], kl.i64) + (a.offsets.shape[0] - 1)
        k = kl.cast(share, kl.i64) * SIZE - row
        end = kl.minimum(kl.cast(share + 1, kl.i64) * SIZE, steps) - stop
        for ended in range(row, stop):
            last = kl.cast(a.offsets[ended + 1], kl.i64)
            put(out, ended, j, sum_of_rows(a, x, k, last, j, ACC, EACH), EACH)
            k = last
        put(sums, share, j, sum_of_rows(a, x, k, end, j, ACC, EACH), EACH)


@function
def sum_of_rows(a: Rows, x: kl.Array, first: Any, last: Any, j: Any, ACC: Any, EACH: int) -> Any:
    """What some numbers of a row come to with `EACH` columns of a matrix, from `j` on."""
    total = kl.splat(kl.cast(0, ACC), EACH) if EACH > 1 else kl.cast(0, ACC)
    for k in kl.range(first, last, unroll=4):
        factor = kl.cast(a.data[k], ACC)
        if EACH > 1:
            total = total + kl.splat(factor, EACH) * kl.cast(
                kl.vload(x, a.columns[k], j, lanes=EACH), ACC
            )
        else:
            total = total + factor * kl.cast(x[a.columns[k], j], ACC)
    return total


@function
def put(out: kl.Array, row: Any, j: Any, value: Any, EACH: int) -> None:
    """Stores a number, or a vector of `EACH`."""
    if EACH > 1:
        kl.vstore(out, row, j, value)
    else:
        out[row, j] = value


@kernel
def csr_add_carried(
    offsets: kl.Array, starts: kl.Array, sums: kl.Array, out: kl.Array, *, SIZE: int
) -> None:
    """Adds to rows what shares before the one where they end had of them, in order.

    A work-item for each number of `sums`; the first share of a row adds up all.

    Parameters
    ----------
    offsets, starts, sums, out, SIZE
        Of `csr_even_by_matrix` or, `out` being a column, `csr_even_by_vector`.
    """
    width = sums.shape[1]
    share, j = kl.global_id(0) // width, kl.global_id(0) % width
    if share < sums.shape[0]:
        row = starts[share + 1]
        if row < out.shape[0] and (share == 0 or starts[share] != row):
            stop = (kl.cast(offsets[row + 1], kl.i64) + row) // SIZE
            total = kl.cast(0, sums.dtype)
            for at in kl.range(kl.cast(share, kl.i64), stop, unroll=8):
                total = total + sums[at, j]
            if stop > share:
                out[row, j] = out[row, j] + kl.cast(total, out.dtype)


# -- products --------------------------------------------------------------------------------------

_LONG: Final = 128
_TIMES_MEAN: Final = 8
"""Rows of more numbers than both, the second times what rows have on average, are shared out."""

_EACH: Final = 7
"""Rows and numbers of a work-item where they are; odd, so that items read different banks."""
_MOST_ITEMS: Final = 512
"""Work-items of a workgroup that has such a share."""

FEW: Final = 64
MANY: Final = 256
"""Rows and numbers that work-items of a sub-group multiply by few or many columns of a matrix."""
_FEW_COLUMNS: Final = 8

_MOST_EACH: Final = 8
"""Numbers that a work-item of a row reads at a time at most."""

_CALLS: Final = CallTraits()

_SHARES_A_UNIT: Final = 8
_LEAST_SHARE: Final = 2048
_WORKGROUP: Final = 256


def longest_shared(rows: int, numbers: int) -> int:
    """The most numbers of a row that some work-items of a sub-group take by themselves.

    Parameters
    ----------
    rows, numbers : int
        Of the matrix.
    """
    return max(_LONG, _TIMES_MEAN * numbers // max(rows, 1))


@takes_other_libraries
def by_vector(data: Any, columns: Any, offsets: Any, x: Any, starts: Any) -> Any:
    """The product of a sparse matrix and a vector.

    Parameters
    ----------
    data, columns, offsets : array
        The matrix, as of `Rows`.
    x : array, shape (n,)
        The vector.
    starts : array or None
        Of `shares_of`, where there are rows of more numbers than `longest_shared`.

    Returns
    -------
    array, shape (m,)
        In the common dtype.
    """
    arrays, call_key = (data, columns, offsets, x, starts), ("vector", _EACH, _MOST_ITEMS)
    return cached_call(_CALLS, arrays, None, call_key, (), None, _made_by_vector)


def _made_by_vector(arrays: tuple[Any, ...], *_: Any) -> Any:
    data, columns, offsets, x, starts = arrays
    device = device_of_arrays(data, columns, offsets, x)
    kind = operands.promoted(dtype(data.dtype), dtype(x.dtype))
    rows, numbers = int(offsets.shape[0]) - 1, int(data.shape[0])
    out = device.empty((rows,), kind)
    if not rows:
        return out
    a, acc = Rows(data, columns, offsets), kind.register
    if device.capabilities.single_work_items:
        items, share = shares(device, rows + numbers)
        enqueue(csr_share_by_vector[items, 1], a, x, out, share, ACC=acc)
    elif starts is not None and not kind.is_complex:
        _in_even_shares(device, a, x, starts, out, acc)
    else:
        lanes, each = _lanes(device, kind, max(numbers // rows, 1))
        launcher = csr_rows_by_vector[groups(-(-rows * lanes // _WORKGROUP)), _WORKGROUP]
        enqueue(launcher, a, x, out, ACC=acc, LANES=lanes, EACH=each)
    return out


@takes_other_libraries
def by_columns(data: Any, columns: Any, offsets: Any, x: Any, width: int) -> Any:
    """A vector times a sparse matrix of `width` columns, by work-items that are alone.

    Parameters
    ----------
    data, columns, offsets : array
        The matrix, as of `Rows`.
    x : array, shape (m,)
        The vector.
    width : int
        How many columns there are.

    Returns
    -------
    array, shape (width,)
        In the common dtype.
    """
    device = device_of_arrays(data, columns, offsets, x)
    kind = operands.promoted(dtype(data.dtype), dtype(x.dtype))
    numbers = int(data.shape[0])
    # Sums of each work-item's own, but not more of them than there are numbers.
    most = max(1, min(device.capabilities.compute_units, numbers // max(width, 1)))
    items, share = shares(device, int(offsets.shape[0]) - 1 + numbers, most)
    parts = device.empty((items, width), kind.register)
    a = Rows(data, columns, offsets)
    enqueue(csr_columns_by_vector[items, 1], a, x, parts, share, ACC=kind.register)
    total = parts[0] if items == 1 else array_namespace(parts).sum(parts, axis=0)
    return total.astype(kind.numpy)


@takes_other_libraries
def shares_of(offsets: Any, numbers: int, size: int) -> Any:
    """Where shares of as many rows and numbers begin.

    Parameters
    ----------
    offsets : array, shape (rows + 1,)
        As of `Rows`.
    numbers : int
        How many there are.
    size : int
        Rows and numbers of a share.

    Returns
    -------
    array, shape (shares + 1,)
        Rows that end before each share, int64.
    """
    device = device_of_arrays(offsets)
    count = -(-(int(offsets.shape[0]) - 1 + numbers) // size) + 1
    starts = device.empty((count,), int64)
    csr_mark_shares[count, _WORKGROUP](offsets, numbers, starts, SIZE=size)
    return starts


def share_of_rows(width: int) -> int:
    """Rows and numbers that work-items of a sub-group multiply by so many columns."""
    return FEW if width <= _FEW_COLUMNS else MANY


def share_of_group(device: Device) -> int:
    """Rows and numbers that a workgroup multiplies by a vector."""
    return _EACH * _items(device)


def _items(device: Device) -> int:
    return min(_MOST_ITEMS, device.capabilities.max_workgroup)


def _in_even_shares(device: Device, a: Rows, x: Any, starts: Any, out: Any, acc: DType) -> None:
    count, items = int(starts.shape[0]) - 1, _items(device)
    sums = device.empty((count, 1), acc)
    launcher = csr_even_by_vector[groups(count), items]
    enqueue(launcher, a, x, out, starts, sums, ACC=acc, EACH=_EACH, ITEMS=items)
    column = device.namespace().reshape(out, (-1, 1))
    launcher = csr_add_carried[count, _WORKGROUP]
    enqueue(launcher, a.offsets, starts, sums, column, SIZE=_EACH * items)


@takes_other_libraries
def by_matrix(data: Any, columns: Any, offsets: Any, x: Any, starts: Any) -> Any:
    """The product of a sparse and a dense matrix.

    Parameters
    ----------
    data, columns, offsets : array
        The sparse matrix, as of `Rows`.
    x : array, shape (n, k)
        The dense one.
    starts : array or None
        Of `shares_of`, of `share_of_rows`; None where work-items have a processor each.

    Returns
    -------
    array, shape (m, k)
        In the common dtype.
    """
    arrays, call_key = (data, columns, offsets, x, starts), ("matrix", FEW, MANY)
    return cached_call(_CALLS, arrays, None, call_key, (), None, _made_by_matrix)


def _made_by_matrix(arrays: tuple[Any, ...], *_: Any) -> Any:
    data, columns, offsets, x, starts = arrays
    device = device_of_arrays(data, columns, offsets, x)
    kind = operands.promoted(dtype(data.dtype), dtype(x.dtype))
    rows, width = int(offsets.shape[0]) - 1, int(x.shape[1])
    out = device.empty((rows, width), kind)
    if not rows or not width:
        return out
    a, acc = Rows(data, columns, offsets), kind.register
    if device.capabilities.single_work_items:
        items, share = shares(device, rows + int(data.shape[0]))
        most = 1 if kind.is_complex else max(device.capabilities.vector_bytes // acc.itemsize, 1)
        lanes = min(most, 1 << width.bit_length() - 1)
        enqueue(csr_share_by_matrix[items, 1], a, x, out, share, ACC=acc, LANES=lanes)
    else:
        _in_fine_shares(device, a, x, starts, out, acc)
    return out


def _in_fine_shares(device: Device, a: Rows, x: Any, starts: Any, out: Any, acc: DType) -> None:
    shares, width = int(starts.shape[0]) - 1, int(x.shape[1])
    by_pairs = width > _FEW_COLUMNS and width % 2 == 0 and not acc.is_complex
    each, size = 2 if by_pairs else 1, share_of_rows(width)
    lanes = min(operands.power_of_two(-(-width // each)), device.capabilities.sub_group_size, 32)
    sums = device.empty((shares, width), acc)
    count = groups(-(-shares * lanes // _WORKGROUP), -(-width // (lanes * each)))
    how = {"ACC": acc, "SIZE": size, "LANES": lanes, "EACH": each}
    enqueue(csr_even_by_matrix[count, (_WORKGROUP, 1)], a, x, out, starts, sums, **how)
    launcher = csr_add_carried[shares * width, _WORKGROUP]
    enqueue(launcher, a.offsets, starts, sums, out, SIZE=size)


def shares(device: Device, work: int, most: int | None = None) -> tuple[int, int]:
    """How many work-items, `most` at most, take how many rows and numbers each."""
    limit = max(device.capabilities.compute_units, 1) * _SHARES_A_UNIT
    items = max(min(limit, work // _LEAST_SHARE, limit if most is None else most), 1)
    return items, -(-work // items) + 1


def _lanes(device: Device, kind: DType, mean: int) -> tuple[int, int]:
    """Work-items for a row, half as many as it has numbers on average, and numbers of each."""
    if kind.is_complex:
        return 1, 1
    most = min(device.capabilities.sub_group_size, 32)
    lanes = max(min((1 << mean.bit_length() - 1) // 2, most), 1)
    return lanes, min(operands.power_of_two(-(-mean // lanes)), _MOST_EACH)
