"""Pooling layers."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from portable.nn.layers import AvgPool2d, MaxPool2d
from portable.nn.stages.pooling_kernels import Pool, pool, pool_back
from portable.nn.stages.stage import Flow, Place, Stage

__all__ = ["PoolStage"]

_WORKGROUP: Final = 64


class PoolStage(Stage):
    """The greatest of each window, or the mean."""

    def __init__(self, place: Place, layer: MaxPool2d | AvgPool2d) -> None:
        super().__init__(place)
        self._pool = Pool(*layer.window())
        self._greatest = isinstance(layer, MaxPool2d)

    def forward(self, x: Any, y: Any, scratch: Any) -> None:
        """A work-item for each window."""
        pool[prod(y.shape), _WORKGROUP](x, y, POOL=self._pool, GREATEST=self._greatest)

    def backward(self, flow: Flow, gradients: tuple[Any, ...], scratch: Any) -> None:
        """A work-item for each pixel, which looks again which one was the greatest."""
        if flow.dx is not None:
            x = flow.x if self._greatest else None
            pool_back[prod(flow.dx.shape), _WORKGROUP](x, flow.dy, flow.dx, POOL=self._pool)
