"""Softmax layers."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from portable import lang as kl
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.nn.layers.layer import Flow
from portable.nn.stages.stage import Stage


@kernel
def softmax(x: kl.Array, y: kl.Array) -> None:
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
def softmax_back(y: kl.Array, dy: kl.Array, dx: kl.Array) -> None:
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


_WORKGROUP: Final = 128


class SoftmaxStage(Stage):
    """Shares that add up to 1 over the first dimension of samples."""

    def forward(self, x: Any, y: Any, scratch: Any) -> None:
        """A workgroup for each sum."""
        x, y = self._images(x), self._images(y)
        softmax[groups(x.shape[2], x.shape[0]), (self._items(), 1)](x, y)

    def backward(self, flow: Flow, gradients: tuple[Any, ...], scratch: Any) -> None:
        """A workgroup for each sum."""
        if flow.dx is not None:
            y, dy, dx = (self._images(v) for v in (flow.y, flow.dy, flow.dx))
            softmax_back[groups(y.shape[2], y.shape[0]), (self._items(), 1)](y, dy, dx)

    def _items(self) -> int:
        can = self.place.device.capabilities
        return 1 if can.lone_work_items else min(_WORKGROUP, can.max_workgroup)

    def _images(self, x: Any) -> Any:
        channels, *pixels = self.place.inputs
        return self.place.device.namespace().reshape(x, (x.shape[0], channels, prod(pixels)))
