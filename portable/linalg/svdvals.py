"""Singular values of dense matrices."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final, Literal

import numpy as np

from portable import lang as kl
from portable.backend import Capabilities, Device
from portable.dtypes import DType
from portable.errors import ShapeError
from portable.interchange import takes_other_libraries
from portable.lang.geometry import groups
from portable.linalg.band import band_to_bidiagonal
from portable.linalg.bidiagonal import bidiagonal_svdvals
from portable.linalg.dense import SCALED_TO, reduced
from portable.linalg.dense_kernels import store_values
from portable.linalg.dense_shapes import dense_shape, tuned
from portable.linalg.jacobi_kernels import jacobi_svdvals
from portable.linalg.magnitude import largest_magnitude, require_finite
from portable.linalg.operands import common_dtype
from portable.namespace import device_of_arrays
from portable.tune.fallback import first_accepted
from portable.tune.space import Parameters
from portable.typing import ArrayT

__all__ = ["Progress", "Stage", "in_stages", "svdvals"]

Stage = Literal["band", "bidiagonal", "values"]
"""The parts of the work: dense to banded, banded to bidiagonal, bidiagonal to singular values."""

Progress = Callable[[Stage, float], None]
"""Is told which part of a stage is done, from 0 to 1."""

_DTYPES: Final = (kl.f16, kl.f32, kl.f64)
_SMALL: Final = 32
_SWEEPS: Final = 30
_LINE: Final = 64


@takes_other_libraries
def svdvals(a: ArrayT, *, check_finite: bool = True, progress: Progress | None = None) -> ArrayT:
    """The singular values of matrices, the largest first, worked out where `a` lives.

    Parameters
    ----------
    a : array, shape (..., m, n)
        ``float16``, ``float32`` or ``float64``, any strides; it is not changed.
    check_finite : bool
        Whether to look for NaN and infinities, which reads one number from the device. Without it
        their singular values are anything.
    progress : callable, optional
        Called with the name of a stage ("band", "bidiagonal", "values") and the part of it that is
        done, for a progress bar; for each matrix, unless they are small. The device is waited for
        before each call, up to a hundred times.

    Returns
    -------
    array, shape (..., min(m, n))
        On the device of `a`; ``float32`` for ``float16``. The largest error is a modest multiple of
        the unit roundoff times the largest singular value.

    Raises
    ------
    ShapeError
        Unless `a` has two dimensions or more.
    DTypeError
        For other dtypes.
    ValueError
        For NaN or infinities.

    Notes
    -----
    Up to 32 rows or columns, where a matrix fits into local memory: one-sided Jacobi rotations, all
    matrices in one launch. Otherwise `dense_to_band`, `band_to_bidiagonal` and
    `bidiagonal_svdvals`, a matrix after the other, with the bandwidth that the tuning table has for
    the device. The stages follow each other on the device; nothing but the flag of `check_finite`
    is read from it. Beside `a` one copy of a matrix is held, in single precision for half, and O(m)
    numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import portable
    >>> portable.linalg.svdvals(np.array([[3.0, 0.0], [4.0, 0.0]]))
    array([5., 0.])
    """
    device = device_of_arrays(a)
    kind = common_dtype("svdvals", _DTYPES, a=a).register
    if a.ndim < 2:
        raise ShapeError(f"svdvals takes matrices (..., m, n), not shape {tuple(a.shape)}")
    *lead, m, n = (int(x) for x in a.shape)
    values = device.empty((prod(lead), min(m, n)), kind)
    if prod(values.shape) > 0:
        if _suits_jacobi(m, n, kind, device.capabilities):
            _by_jacobi(device, a, values, check_finite)
        else:
            checks: Any = {"check_finite": check_finite, "progress": progress}
            first_accepted(
                tuned(kind, min(m, n), device.capabilities),
                lambda choice: in_stages(device, a, values, choice, **checks),
            )
    if not lead:
        return values[0]  # type: ignore[no-any-return]
    return values if len(lead) == 1 else device.namespace().reshape(values, (*lead, min(m, n)))  # type: ignore[no-any-return]


# -- small matrices -------------------------------------------------------------------------------


def _lanes(kind: DType, can: Capabilities) -> int:
    return min(can.vector_bytes, 32) // kind.itemsize if can.lone_work_items else 1


def _suits_jacobi(m: int, n: int, kind: DType, can: Capabilities) -> bool:
    """Whether the columns are few, and fit into local memory with what goes beside them."""
    lanes = _lanes(kind, can)
    longest, count = max(m, n), min(m, n)
    elements = (-(-longest // lanes) * lanes | (lanes == 1)) * count + 2 * count
    return count <= _SMALL and elements * kind.itemsize <= can.local_memory - 64


def _by_jacobi(device: Device, a: Any, values: Any, check_finite: bool) -> None:
    batch, n = values.shape
    can = device.capabilities
    kind = kl.f32 if values.dtype.itemsize == 4 else kl.f64
    largest = device.empty((batch,), kind)
    items = 1 if can.lone_work_items else max(1, n // 2)
    jacobi_svdvals[groups(batch), items](
        a, values, largest,
        M=int(max(a.shape[-2:])), N=n, LANES=_lanes(kind, can), SWEEPS=_SWEEPS,
        TURNED=a.shape[-2] < a.shape[-1],
    )  # fmt: skip
    if check_finite:
        require_finite(device, largest_magnitude(device, largest), "svdvals")


# -- others ---------------------------------------------------------------------------------------


def in_stages(
    device: Device,
    a: Any,
    values: Any,
    choice: Parameters,
    *,
    check_finite: bool = True,
    progress: Progress | None = None,
) -> None:
    """Puts the singular values of matrices that are not empty into `values`, a row each."""
    matrices = [a[index] for index in np.ndindex(*a.shape[:-2])] if a.ndim > 2 else [a]
    magnitudes = [largest_magnitude(device, x) for x in matrices]
    if check_finite:
        one = magnitudes[0] if len(magnitudes) == 1 else largest_magnitude(device, *magnitudes)
        require_finite(device, one, "svdvals")
    for row, (matrix, largest) in enumerate(zip(matrices, magnitudes, strict=True)):
        found = _one_in_stages(device, matrix, largest, choice, progress)
        store_values[found.shape[0], _LINE](found, largest, values, row, TARGET=SCALED_TO)


def _one_in_stages(
    device: Device, a: Any, largest: Any, choice: Parameters, progress: Progress | None
) -> Any:
    """The singular values of one matrix, scaled."""

    def tell(stage: Stage, done: float) -> None:
        if progress is not None:
            device.synchronize()
            progress(stage, done)

    kind = kl.f32 if largest.dtype.itemsize == 4 else kl.f64
    bandwidth = max(1, min(choice["BANDWIDTH"], min(a.shape) - 1))
    shape = dense_shape(choice, bandwidth, kind, device.capabilities)
    follow = None if progress is None else lambda done: progress("band", done)
    ab = reduced(device, a, largest, bandwidth, shape, scaled=True, progress=follow)
    d, e = band_to_bidiagonal(ab, check_finite=False)
    tell("bidiagonal", 1)
    found = bidiagonal_svdvals(d, e, check_finite=False)
    tell("values", 1)
    return found
