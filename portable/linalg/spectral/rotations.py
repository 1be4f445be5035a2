"""Small matrices decomposed by rotations, all in one launch."""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import dtype
from portable.lang.launch.geometry import groups
from portable.linalg.singular_values.rotation_shapes import RotationShape, rotation_shape
from portable.linalg.spectral.rotation_kernels import (
    Factors,
    hermitian_by_rotations,
    svd_by_rotations,
)

_UNUSED: Final = (1, 1, 1)


def svd_rotated(device: Device, a: Any, values: Any, left: Any, right: Any) -> Any:
    """Singular values and vectors of matrices.

    Parameters
    ----------
    device : Device
        Where.
    a : array, shape (count, m, n)
        The matrices, which are not empty.
    values : array, shape (count, min(m, n))
        Where singular values go, the largest first.
    left : array, shape (count, m, k)
        Where left vectors go, as columns; k is m or ``min(m, n)``.
    right : array, shape (count, k, n)
        Where right vectors go, conjugated, as rows; k is n or ``min(m, n)``.

    Returns
    -------
    array of i32, shape (count,)
        0, 1 where rotations did not end, or 2 for NaN and infinities.
    """
    _, m, n = (int(x) for x in a.shape)
    longs = int(left.shape[2] if m >= n else right.shape[1])
    wanted = RotationShape(max(m, n), min(m, n), longs, squares=True, turned=m < n)
    return _launched(device, svd_by_rotations, a, (values, left, right), wanted)


def hermitian_rotated(device: Device, a: Any, values: Any, vectors: Any) -> Any:
    """Eigenvalues and eigenvectors of Hermitian matrices.

    Parameters
    ----------
    device : Device
        Where.
    a : array, shape (count, n, n)
        The matrices, of which lower triangles are read.
    values : array, shape (count, n)
        Where eigenvalues go, the least first.
    vectors : array, shape (count, n, n), or None
        Where eigenvectors go, as columns.

    Returns
    -------
    array of i32, shape (count,)
        As of `svd_rotated`.
    """
    n = int(a.shape[1])
    wanted = RotationShape(n, n, 0 if vectors is None else n, squares=False)
    return _launched(device, hermitian_by_rotations, a, (values, vectors, None), wanted)


def _launched(device: Device, kernel: Any, a: Any, results: Any, wanted: RotationShape) -> Any:
    count, kind, can = int(a.shape[0]), dtype(a.dtype).register, device.capabilities
    shape = rotation_shape(wanted, kind, can)
    scratch = device.empty(_UNUSED if shape.held else (count, *shape.room), kind)
    status = device.empty((count,), kl.i32)
    most = min(can.max_workgroup, can.max_workgroup_shape[0])
    items = 1 if can.lone_work_items else min(shape.pairs * shape.parts, most)
    kernel[groups(count), items](
        a, Factors(results[0], results[1], results[2], status), scratch, SHAPE=shape
    )
    return status
