"""Softmax layers."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from portable.lang.launch.geometry import groups
from portable.nn.layers.layer import Flow
from portable.nn.stages.shares_kernels import softmax, softmax_back
from portable.nn.stages.stage import Stage

__all__ = ["SoftmaxStage"]

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
