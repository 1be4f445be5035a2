"""QR of tall matrices by the Cholesky factors of their Gram matrices, where that is accurate.

``A = Q R`` with ``A^H A = R^H R``: two products instead of a reflector for each column, once more
for Q, which makes it orthonormal to roundoff ("CholeskyQR2": Y. Yamamoto, Y. Nakatsukasa, Y.
Yanagisawa, T. Fukaya, "Roundoff error analysis of the CholeskyQR2 algorithm", ETNA 44 (2015)).
Gram matrices of single precision are made in double, so that condition numbers may be as large as
single precision tells apart. The second Gram matrix says how far from orthonormal the first Q was:
where that is too far, reflectors do the work.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType, float64
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.linalg.factorisations.cholesky import factored
from portable.linalg.factorisations.copy_kernels import UPPER
from portable.linalg.factorisations.factor_kernels import put_factors
from portable.linalg.factorisations.layout import layout_of
from portable.linalg.factorisations.matrices import copied, turned, workspace
from portable.linalg.factorisations.products import multiplied
from portable.linalg.factorisations.triangles import Triangle, solved_in_place

__all__ = ["deviations", "is_tall", "orthonormalised"]

_TALL: Final = 8
"""So many times as many rows as columns."""

_LEAST: Final = 1 << 18
"""Elements from which on it is worth a flag that is read."""

_WIDEST: Final = 1024
_NEAR: Final = 0.25
"""How far from the identity the Gram matrix of the first Q may be."""

_ITEMS: Final = 256
_ADJOINT: Final = Triangle(backward=False, turned=True, conjugate=True, unit=False)


def is_tall(shape: tuple[int, ...], kind: DType, device: Device) -> bool:
    """Whether matrices of this shape are to be tried so."""
    m, n = shape[-2:]
    if kind.is_complex or not device.capabilities.float64:
        return False
    return n > 1 and m >= _TALL * n and m * n >= _LEAST and n <= _WIDEST


def orthonormalised(device: Device, work: Any, kind: DType) -> Any:
    """Makes matrices Q in place, and gives R; None where Q is not orthonormal.

    Parameters
    ----------
    device : Device
        Where.
    work : array, shape (batch, m, n)
        The matrices, which are lost.
    kind : DType
        Of the elements.

    Returns
    -------
    array of float64, shape (batch, n, n), or None
        R; what is below its diagonal is zeros.
    """
    batch, n = int(work.shape[0]), int(work.shape[2])
    far = device.empty((batch,), float64)
    first, failures = _divided(device, work, kind, None)
    second, more = _divided(device, work, kind, far)
    found = [device.to_numpy(x) for x in (failures, more, far)]
    if np.any(found[0]) or np.any(found[1]) or not np.all(found[2] < _NEAR):
        return None
    r = workspace(device, batch, n, n, float64)
    multiplied(device, r, second, first)
    return r


def _divided(device: Device, work: Any, kind: DType, far: Any) -> tuple[Any, Any]:
    """Divides matrices by the Cholesky factors of their Gram matrices.

    Returns these, and what failed; `far` becomes how far the Gram matrices are from the identity.
    """
    batch, m, n = (int(x) for x in work.shape)
    wide = work
    if kind is not float64:
        wide = copied(device, work, workspace(device, batch, m, n, float64))
    gram = workspace(device, batch, n, n, float64)
    multiplied(device, gram, wide, wide, adjoint=True)
    if far is not None:
        items = 1 if device.capabilities.lone_work_items else _ITEMS
        deviations[groups(batch), min(items, device.capabilities.max_workgroup)](gram, far)
    layout = layout_of(float64, device.capabilities)
    factors, failures = factored(device, gram, layout, float64)
    r = copied(device, gram, workspace(device, batch, n, n, float64), kept=UPPER)
    put_factors[groups(batch * factors.shape[1]), layout.items](
        factors, r, (batch,), LAYOUT=layout, TURNED=False
    )
    rounded = r
    if kind is not float64:
        rounded = copied(device, r, workspace(device, batch, n, n, kind))
        r = copied(device, rounded, workspace(device, batch, n, n, float64))
    own = layout_of(kind, device.capabilities)
    solved_in_place(device, rounded, turned(work), _ADJOINT, own)
    return r, failures


@kernel
def deviations(gram: Any, far: Any) -> None:
    """For each matrix its largest distance from the identity, element by element."""
    batch, n = kl.group_id(0), gram.shape[1]
    best = kl.cast(0, gram.dtype)
    for place in kl.workgroup_range(n * n):
        i, j = place // n, place % n
        one = kl.where(i == j, kl.cast(1, gram.dtype), kl.cast(0, gram.dtype))
        best = kl.maximum(best, kl.abs(gram[batch, i, j] - one))
    best = kl.workgroup_reduce(kl.maximum, best)
    if kl.local_id(0) == 0:
        far[batch] = best
