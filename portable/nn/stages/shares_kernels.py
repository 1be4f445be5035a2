"""Softmax over a dimension, and slopes on their way back through it."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.kernel import kernel

__all__ = ["softmax", "softmax_back"]


@kernel
def softmax(x: Any, y: Any) -> None:
    """Exponentials over their sum, along the middle dimension: a workgroup for each sum.

    Parameters
    ----------
    x, y : array, shape (n, channels, pixels)
    """
    pixel, image, channels = kl.group_id(0), kl.group_id(1), x.shape[1]
    kind = kl.accumulator(x.dtype)
    greatest = kl.cast(float("-inf"), kind)
    for i in kl.workgroup_range(channels):
        greatest = kl.maximum(greatest, kl.cast(x[image, i, pixel], kind))
    greatest = kl.workgroup_reduce(kl.maximum, greatest)
    total = kl.cast(0, kind)
    for i in kl.workgroup_range(channels):
        total += kl.exp(x[image, i, pixel] - greatest)
    total = kl.workgroup_reduce(kl.add, total)
    for i in kl.workgroup_range(channels):
        y[image, i, pixel] = kl.exp(x[image, i, pixel] - greatest) / total


@kernel
def softmax_back(y: Any, dy: Any, dx: Any) -> None:
    """``y * (dy - sum(y * dy))``, along the middle dimension.

    Parameters
    ----------
    y, dy, dx : array, shape (n, channels, pixels)
    """
    pixel, image, channels = kl.group_id(0), kl.group_id(1), y.shape[1]
    total = kl.cast(0, kl.accumulator(y.dtype))
    for i in kl.workgroup_range(channels):
        total += dy[image, i, pixel] * y[image, i, pixel]
    total = kl.workgroup_reduce(kl.add, total)
    for i in kl.workgroup_range(channels):
        dx[image, i, pixel] = y[image, i, pixel] * (dy[image, i, pixel] - total)
