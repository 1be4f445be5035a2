"""Pooling layers."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from portable.nn.layers import AvgPool2d, MaxPool2d
from portable.nn.stages import pooling_kernels as kernels
from portable.nn.stages.stage import Flow, Place, Stage

__all__ = ["AvgPoolStage", "MaxPoolStage"]

_WORKGROUP: Final = 64


class MaxPoolStage(Stage):
    """The greatest of each window."""

    def __init__(self, place: Place, layer: MaxPool2d) -> None:
        super().__init__(place)
        self._pool = kernels.Pool(*layer.window())

    def forward(self, x: Any, y: Any, scratch: Any) -> None:
        """A work-item for each window."""
        kernels.greatest[prod(y.shape), _WORKGROUP](x, y, POOL=self._pool)

    def backward(self, flow: Flow, gradients: tuple[Any, ...], scratch: Any) -> None:
        """A work-item for each pixel, which looks again which one was the greatest."""
        if flow.dx is not None:
            kernels.greatest_back[prod(flow.dx.shape), _WORKGROUP](
                flow.x, flow.dy, flow.dx, POOL=self._pool
            )


class AvgPoolStage(Stage):
    """The mean of each window."""

    def __init__(self, place: Place, layer: AvgPool2d) -> None:
        super().__init__(place)
        self._pool = kernels.Pool(*layer.window())

    def forward(self, x: Any, y: Any, scratch: Any) -> None:
        """A work-item for each window."""
        kernels.average[prod(y.shape), _WORKGROUP](x, y, POOL=self._pool)

    def backward(self, flow: Flow, gradients: tuple[Any, ...], scratch: Any) -> None:
        """A work-item for each pixel."""
        if flow.dx is not None:
            kernels.average_back[prod(flow.dx.shape), _WORKGROUP](flow.dy, flow.dx, POOL=self._pool)
