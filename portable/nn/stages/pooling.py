"""Pooling layers."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from portable.dtypes import uint8, uint32
from portable.lang.launch.geometry import groups
from portable.nn.layers import AvgPool2d, MaxPool2d
from portable.nn.layers.layer import Flow
from portable.nn.stages.pooling_kernels import Pool, pool, pool_back, row_means, row_means_back
from portable.nn.stages.stage import Place, Stage

__all__ = ["GlobalPoolStage", "PoolStage"]

_WORKGROUP: Final = 64
_MOST_IN_BYTES: Final = 255
"""Taps of a window whose numbers fit in a byte."""


class PoolStage(Stage):
    """The greatest of each window, or the mean."""

    def __init__(self, place: Place, layer: MaxPool2d | AvgPool2d) -> None:
        super().__init__(place)
        self._pool = Pool(*layer.window())
        self._greatest = isinstance(layer, MaxPool2d)
        self._taps: Any = None

    def forward(self, x: Any, y: Any, scratch: Any) -> None:
        """A work-item for each window."""
        pool[_pixels(y), None](x, y, None, POOL=self._pool, GREATEST=self._greatest)

    def train(self, x: Any, y: Any, scratch: Any) -> None:
        """Likewise; which pixel was the greatest is kept."""
        taps = self._taps_of(y) if self._greatest else None
        pool[_pixels(y), None](x, y, taps, POOL=self._pool, GREATEST=self._greatest)

    def _taps_of(self, y: Any) -> Any:
        """Memory for a number of each window, of its own from the way there to the way back."""
        count = prod(y.shape)
        if self._taps is None or self._taps.shape[0] < count:
            few = prod(self._pool.taps) <= _MOST_IN_BYTES
            self._taps = self.place.device.empty((count,), uint8 if few else uint32)
        return self.place.device.namespace().reshape(self._taps[:count], tuple(y.shape))

    def backward(self, flow: Flow, gradients: tuple[Any, ...], scratch: Any) -> None:
        """A work-item for each pixel."""
        if flow.dx is not None:
            taps = self._taps_of(flow.dy) if self._greatest else None
            pool_back[_pixels(flow.dx), None](taps, flow.dy, flow.dx, POOL=self._pool)


def _pixels(x: Any) -> tuple[int, int]:
    """Work-items for the pixels of images: columns, and rows of all of them."""
    return x.shape[3], prod(x.shape[:3])


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
