"""Pooling layers."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from portable.lang.launch.geometry import groups
from portable.nn.layers import AvgPool2d, MaxPool2d
from portable.nn.layers.layer import Flow
from portable.nn.stages.pooling_kernels import Pool, pool, pool_back, row_means, row_means_back
from portable.nn.stages.stage import Place, Stage

__all__ = ["GlobalPoolStage", "PoolStage"]

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


class GlobalPoolStage(Stage):
    """The mean of each channel."""

    def forward(self, x: Any, y: Any, scratch: Any) -> None:
        """A workgroup for each channel of an image."""
        rows, columns = self._rows(x), self.place.inputs[1] * self.place.inputs[2]
        reshape = self.place.device.namespace().reshape
        items = 1 if self.place.device.capabilities.lone_work_items else _WORKGROUP
        row_means[groups(rows), items](reshape(x, (rows, columns)), reshape(y, (rows,)))

    def backward(self, flow: Flow, gradients: tuple[Any, ...], scratch: Any) -> None:
        """A work-item for each pixel."""
        if flow.dx is not None:
            rows, columns = self._rows(flow.x), self.place.inputs[1] * self.place.inputs[2]
            reshape = self.place.device.namespace().reshape
            row_means_back[rows * columns, _WORKGROUP](
                reshape(flow.dy, (rows,)), reshape(flow.dx, (rows, columns))
            )

    def _rows(self, x: Any) -> int:
        return int(x.shape[0]) * self.place.inputs[0]
