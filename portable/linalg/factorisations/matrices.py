"""What factorisations are given: checks, copies to work on, and what is reported in the end."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from portable import lang as kl
from portable.backend import Capabilities, Device
from portable.dtypes import DType, complex64, complex128, dtype
from portable.errors import ShapeError
from portable.lang.launch.geometry import groups
from portable.linalg.base.operands import common_dtype
from portable.linalg.factorisations.copy_kernels import (
    EVERYTHING,
    copy_matrices,
    copy_single,
)
from portable.linalg.factorisations.layout import room_of

_DTYPES: Final = (kl.f16, kl.f32, kl.f64, complex64, complex128)
_TILE: Final = 32
_ITEMS: Final = 256
_MOST_LANES: Final = 16
_BAND: Final = 4
"""Squares below each other of a band that is transposed."""


def checked_dtype(operation: str, **arrays: Any) -> DType:
    """What is computed in, of arrays of one dtype: single precision for half.

    Raises
    ------
    DTypeError
        For other dtypes, or several.
    """
    kind = common_dtype(operation, _DTYPES, **arrays)
    return kind if kind.is_complex else kind.register


def order_of(operation: str, a: Any) -> int:
    """The order of square matrices.

    Raises
    ------
    ShapeError
        If they are not.
    """
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ShapeError(
            f"{operation} takes square matrices (..., n, n), not shape {tuple(a.shape)}"
        )
    return int(a.shape[-1])


def batch_of(shape: Sequence[int]) -> int:
    """How many matrices an array of this shape holds."""
    return prod(int(x) for x in shape[:-2])


def workspace(device: Device, batch: int, rows: int, columns: int, kind: DType) -> Any:
    """Room for matrices, whose rows begin where vectors may.

    What a row has beyond its columns is written where vectors are copied asynchronously: at a row's
    end fewer bytes count than NVIDIA's sanitizer takes for read.
    """
    whole = device.empty((batch, rows, room_of(columns, kind)), kind)
    if device.capabilities.async_copy and columns and whole.shape[2] > columns:
        copied(device, whole[:, :0, :0], whole[:, :, columns:])
    return whole[:, :, :columns]


def lead_of(shape: Sequence[int]) -> tuple[int, ...]:
    """The leading dimensions of matrices of this shape, at least one."""
    return tuple(int(x) for x in shape[:-2]) or (1,)


def copied(
    device: Device,
    source: Any,
    target: Any,
    *,
    from_lead: tuple[int, ...] | None = None,
    to_lead: tuple[int, ...] | None = None,
    kept: str = EVERYTHING,
    turned: bool = False,
    eye: bool = False,
    edge: int | None = None,
) -> Any:
    """Copies matrices to `target`, and gives it; see `copy_matrices`."""
    rows, columns = (int(x) for x in target.shape[-2:])
    batch = prod(to_lead) if to_lead is not None else int(target.shape[0])
    if not (batch and rows and columns):
        return target
    can, given = device.capabilities, (source, from_lead, target, to_lead)
    last = rows if edge is None else edge
    if can.single_work_items:
        tile, band = _square(can, source, target), _BAND if turned else 1
        copy_single[groups(-(-rows // (tile * band)), batch), 1](
            *given, last, KEPT=kept, TRANSPOSED=turned, EYE=eye, TILE=tile, BAND=band
        )
        return target
    count = groups(-(-columns // _TILE), -(-rows // _TILE), batch)
    copy_matrices[count, (min(_ITEMS, can.max_workgroup), 1, 1)](
        *given, last, KEPT=kept, TRANSPOSED=turned, EYE=eye, TILE=_TILE
    )
    return target


def moved(device: Device, source: Any, target: Any, **how: Any) -> None:
    """As `copied`, for matrices that may lie in memory by columns."""
    if is_transposed(target) != is_transposed(source) and not dtype(target.dtype).is_complex:
        if is_transposed(source):
            source = turned(source)
            copied(device, source, target, turned=True, **how)
            return
        if "kept" not in how and "edge" not in how:
            copied(device, source, turned(target), turned=True, **how)
            return
    copied(device, source, target, **how)


def _square(can: Capabilities, source: Any, target: Any) -> int:
    """Lanes of vectors that matrices are copied by; complex numbers go one by one."""
    kinds = dtype(source.dtype), dtype(target.dtype)
    if any(kind.is_complex for kind in kinds):
        return 1
    return max(1, min(can.vector_bytes // max(kind.itemsize for kind in kinds), _MOST_LANES))


def turned(x: Any) -> Any:
    """The transposes of matrices, as a view."""
    return x.mT if hasattr(x, "mT") else x.swapaxes(-1, -2)


def is_transposed(x: Any) -> bool:
    """Whether neighbours in a column are closer in memory than neighbours in a row."""
    return bool(x.shape[-1] > 1 and abs(x.strides[-2]) < abs(x.strides[-1]))


def require_success(device: Device, failures: Any, message: str) -> None:
    """Reads from the device what went wrong.

    Parameters
    ----------
    device : Device
        Where the work was done.
    failures : array of i32, shape (matrices,)
        For each matrix 0, or the number of a column, counted from 1.
    message : str
        What a failure means, ``{}`` standing for the column.

    Raises
    ------
    numpy.linalg.LinAlgError
        If there is a failure.
    """
    flags = device.to_numpy(failures)
    if np.any(flags):
        which = int(np.flatnonzero(flags)[0])
        where = "" if flags.size == 1 else f" (matrix {which} of {flags.size})"
        raise np.linalg.LinAlgError(message.format(int(flags[which]) - 1) + where)
