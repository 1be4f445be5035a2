"""The largest magnitude of arrays, found on their device, and powers of two to scale them by."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import dtype
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups

_WORKGROUP: Final = 128
_ELEMENTS_PER_ITEM: Final = 64
_MAX_GROUPS: Final = 256


@kernel
def largest_kernel(x: kl.Array, largest: kl.Array, first: kl.Scalar, *, BAND: bool) -> None:
    """Each workgroup writes the largest magnitude in its part, from ``largest[first]`` on.

    Dimension 0 of the workgroups goes through the columns, dimension 1 through the rows. NaN counts
    as larger than any number, so that one result tells whether all are finite. Of an upper band in
    diagonal-ordered form (`BAND`), what is outside the matrix is not looked at.
    """
    best = kl.cast(0, largest.dtype)
    for column in range(kl.global_id(0), x.shape[x.ndim - 1], kl.global_size(0)):
        if x.ndim == 1:
            best = kl.maximum(best, kl.abs(x[column]))
        else:
            start = kl.maximum(x.shape[0] - 1 - column, 0) if BAND else 0
            for row in range(start + kl.group_id(1), x.shape[0], kl.num_groups(1)):
                best = kl.maximum(best, kl.abs(x[row, column]))
    best = kl.workgroup_reduce(kl.maximum, best)
    if kl.local_id(0) == 0:
        largest[first + kl.group_id(1) * kl.num_groups(0) + kl.group_id(0)] = best


def largest_magnitude(device: Device, *arrays: Any, band: bool = False) -> Any:
    """An array of one number, the largest magnitude in 1-d and 2-d arrays; NaN if there is one.

    It has the type that the elements are computed in. `band` says that arrays are upper bands in
    diagonal-ordered form, some of whose elements mean nothing.
    """
    kind = dtype(arrays[0].dtype).register
    counts = [_groups_for(x.shape) for x in arrays]
    partial = device.empty((sum(across * down for across, down in counts),), kind)
    start = 0
    for x, count in zip(arrays, counts, strict=True):
        _launch(x, partial, start, count, band)
        start += count[0] * count[1]
    if start == 1:
        return partial
    result = device.empty((1,), kind)
    # As one row, which takes no kernel of its own.
    _launch(partial.reshape(1, -1), result, 0, (1, 1), False)
    return result


def _launch(x: Any, target: Any, first: int, count: tuple[int, int], band: bool) -> None:
    largest_kernel[groups(*count), _WORKGROUP](x, target, first, BAND=band)


def _groups_for(shape: tuple[int, ...]) -> tuple[int, int]:
    """Workgroups along columns and rows: a column an item, and more where columns are short."""
    *rows, columns = shape
    if not rows:
        return _limited(-(-columns // (_WORKGROUP * _ELEMENTS_PER_ITEM)), _MAX_GROUPS), 1
    across = _limited(-(-columns // _WORKGROUP), _MAX_GROUPS)
    return across, _limited(rows[0] // _ELEMENTS_PER_ITEM, 4 * _MAX_GROUPS // across)


def _limited(count: int, most: int) -> int:
    return max(1, min(count, most))


def require_finite(device: Device, largest: Any, operation: str) -> None:
    """Reads one number from the device.

    Parameters
    ----------
    device : Device
        Where it is.
    largest : array, shape (1,)
        The number.
    operation : str
        Who asks, for the error.

    Raises
    ------
    ValueError
        If it is not finite.
    """
    value = float(device.to_numpy(largest)[0])
    if not np.isfinite(value):
        raise ValueError(
            f"{operation}: the input holds {'NaN' if np.isnan(value) else 'an infinity'}; give "
            "finite numbers, or check_finite=False to go without this check"
        )


@function
def power_bits(x: kl.Scalar, target: int) -> Any:
    """The exponent field of the power of two that brings `x` into ``[2^target, 2^(target+1))``.

    As near to it as powers go whose inverse is one too; that of 1 if `x` is 0.
    """
    if x.dtype == kl.f32:
        field = kl.bitcast(x, kl.i32) >> 23
        bias = 127
    else:
        field = kl.i32(kl.bitcast(x, kl.i64) >> 52)
        bias = 1023
    wanted = kl.clip(2 * bias + target - field, 1, 2 * bias - 1)
    return kl.where(x > 0, wanted, bias)


@function
def scaled_by(x: kl.Scalar, field: kl.Scalar, sign: int) -> Any:
    """`x` times the power of two with that exponent field (`sign` 1), or divided by it (-1)."""
    if x.dtype == kl.f32:
        return x * kl.bitcast((127 + sign * (field - 127)) << 23, kl.f32)
    return x * kl.bitcast(kl.i64(1023 + sign * (field - 1023)) << 52, kl.f64)
