"""Singular vectors of many small matrices, of which rotations make one side's alone.

Columns that rotations made orthogonal are left vectors U times values. The others are ``A^T U``
divided by these, but for rounding errors, which are as much larger for a small value as it is
smaller. So they are made orthonormal, the largest values' first: of each is taken what it has of
those before it, which leaves ``U S V^T`` within rounding errors of A. Twice, to first order. Local
memory holds twice as many matrices so, and rotations turn half as much of each.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import dtype
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.linalg.factorisations.matrices import copied, turned
from portable.linalg.factorisations.products import multiplied
from portable.linalg.factorisations.tall_kernels import deviations
from portable.linalg.spectral.rotations import svd_rotated

_TILE: Final = (32, 8, 1)
_ITEMS: Final = 256


def svd_of_one_side(device: Device, a: Any, values: Any, left: Any, right: Any) -> Any:
    """Singular values and vectors of well-conditioned matrices.

    Parameters
    ----------
    device : Device
        Where.
    a : array, shape (count, m, n)
        Real matrices, which are not empty.
    values : array, shape (count, k)
        Where singular values go, the largest first.
    left : array, shape (count, m, k)
        Where left vectors go, as columns.
    right : array, shape (count, k, n)
        Where right vectors go, as rows.

    Returns
    -------
    array of i32, or None
        As of `svd_rotated`; None where a matrix has a value too small for this.
    """
    (count, k), kind, can = (int(x) for x in values.shape), dtype(left.dtype), device.capabilities
    status = svd_rotated(device, a, values, left, right, both=False)
    wide = a.shape[1] < a.shape[2]
    vectors, made, gram, factor = (device.empty((count, k, k), kind) for _ in range(4))
    multiplied(device, vectors, a, turned(right) if wide else left, adjoint=not wide)
    far = device.empty((count,), kind)
    for scale in (values, None):
        multiplied(device, gram, vectors, vectors, adjoint=True)
        if scale is None:
            items = 1 if can.single_work_items else min(_ITEMS, can.max_workgroup)
            deviations[groups(count), items](gram, far)
        orthogonal_factors[(k, k, count), _TILE](gram, scale, factor)
        multiplied(device, made, vectors, factor)
        vectors, made = made, vectors
    copied(device, vectors, left if wide else right, turned=not wide)
    return status if np.all(device.to_numpy(far) < np.finfo(kind.numpy).eps) else None


@kernel
def orthogonal_factors(gram: kl.Array, values: kl.Array | None, factor: kl.Array) -> None:
    """What makes columns of lengths near `values`, or 1, orthonormal, to first order.

    Given their products; dimension 2 is the matrices.
    """
    column, row, matrix = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    if matrix < gram.shape[0] and row < gram.shape[1] and column < gram.shape[2]:
        product, scale = gram[matrix, row, column], kl.cast(1, gram.dtype)
        if values is not None:
            scale = 1 / values[matrix, row]
            product = product * scale / values[matrix, column]
        above = kl.where(row < column, -product, product * 0)
        factor[matrix, row, column] = scale * kl.where(row == column, 1.5 - product / 2, above)
