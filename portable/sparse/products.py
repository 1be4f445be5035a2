"""Which kernels multiply a sparse matrix on a device, and with how many work-items."""

from __future__ import annotations

from typing import Any, Final

from portable.backend import Device
from portable.dtypes import DType, dtype, int64
from portable.interchange.libraries import takes_other_libraries
from portable.lang.launch.geometry import groups
from portable.namespace import device_of_arrays
from portable.primitives.base.geometry import power_of_two
from portable.primitives.base.promotion import promoted
from portable.sparse.kernels import (
    Rows,
    csr_add_carried,
    csr_even_by_vector,
    csr_mark_shares,
    csr_rows_by_matrix,
    csr_rows_by_vector,
    csr_share_by_matrix,
    csr_share_by_vector,
)

_LONG: Final = 128
_TIMES_MEAN: Final = 8
"""Rows of more numbers than both, the second times what rows have on average, are shared out."""

_EACH: Final = 7
"""Rows and numbers of a work-item where they are; odd, so that items read different banks."""
_MOST_ITEMS: Final = 512
"""Work-items of a workgroup that has such a share."""

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
    device = device_of_arrays(data, columns, offsets, x)
    kind = promoted(dtype(data.dtype), dtype(x.dtype))
    rows, numbers = int(offsets.shape[0]) - 1, int(data.shape[0])
    out = device.empty((rows,), kind)
    if not rows:
        return out
    a, acc = Rows(data, columns, offsets), kind.register
    if device.capabilities.lone_work_items:
        items, share = _shares(device, rows + numbers)
        csr_share_by_vector[items, 1](a, x, out, share, ACC=acc)
        return out
    lanes = _lanes(device, kind, numbers / rows)
    if starts is not None and not kind.is_complex:
        _in_even_shares(device, a, x, starts, out, acc)
        return out
    csr_rows_by_vector[groups(-(-rows * lanes // _WORKGROUP)), _WORKGROUP](
        a, x, out, ACC=acc, LANES=lanes
    )
    return out


@takes_other_libraries
def shares_of(offsets: Any, numbers: int) -> Any:
    """Where shares of as many rows and numbers begin.

    Parameters
    ----------
    offsets : array, shape (rows + 1,)
        As of `Rows`.
    numbers : int
        How many there are.

    Returns
    -------
    array, shape (shares + 1,)
        Rows that end before each share, int64.
    """
    device = device_of_arrays(offsets)
    size = _EACH * _items(device)
    count = -(-(int(offsets.shape[0]) - 1 + numbers) // size) + 1
    starts = device.empty((count,), int64)
    csr_mark_shares[count, _WORKGROUP](offsets, numbers, starts, SIZE=size)
    return starts


def _items(device: Device) -> int:
    return min(_MOST_ITEMS, device.capabilities.max_workgroup)


def _in_even_shares(device: Device, a: Rows, x: Any, starts: Any, out: Any, acc: DType) -> None:
    count = int(starts.shape[0]) - 1
    rows, sums = device.empty((count,), int64), device.empty((count,), acc)
    items = _items(device)
    csr_even_by_vector[groups(count), items](
        a, x, out, starts, rows, sums, ACC=acc, EACH=_EACH, ITEMS=items
    )
    lanes = min(device.capabilities.sub_group_size, 32)
    csr_add_carried[groups(-(-count * lanes // _WORKGROUP)), _WORKGROUP](
        rows, sums, out, LANES=lanes
    )


@takes_other_libraries
def by_matrix(data: Any, columns: Any, offsets: Any, x: Any) -> Any:
    """The product of a sparse and a dense matrix.

    Parameters
    ----------
    data, columns, offsets : array
        The sparse matrix, as of `Rows`.
    x : array, shape (n, k)
        The dense one.

    Returns
    -------
    array, shape (m, k)
        In the common dtype.
    """
    device = device_of_arrays(data, columns, offsets, x)
    kind = promoted(dtype(data.dtype), dtype(x.dtype))
    rows, width = int(offsets.shape[0]) - 1, int(x.shape[1])
    out = device.empty((rows, width), kind)
    if not rows or not width:
        return out
    a, acc = Rows(data, columns, offsets), kind.register
    if device.capabilities.lone_work_items:
        items, share = _shares(device, rows + int(data.shape[0]))
        lanes = 1 if kind.is_complex else max(device.capabilities.vector_bytes // acc.itemsize, 1)
        csr_share_by_matrix[items, 1](a, x, out, share, ACC=acc, LANES=lanes)
    else:
        csr_rows_by_matrix[rows * width, _WORKGROUP](a, x, out, ACC=acc)
    return out


def _shares(device: Device, work: int) -> tuple[int, int]:
    """How many work-items take how many rows and numbers each."""
    most = max(device.capabilities.compute_units, 1) * _SHARES_A_UNIT
    items = max(min(most, work // _LEAST_SHARE), 1)
    return items, -(-work // items) + 1


def _lanes(device: Device, kind: DType, mean: float) -> int:
    """Work-items for a row: about as many as it has numbers on average, within a sub-group."""
    if kind.is_complex:
        return 1
    most = min(device.capabilities.sub_group_size, 32)
    return max(min(power_of_two(max(int(mean), 1)) // 2, most), 1)
