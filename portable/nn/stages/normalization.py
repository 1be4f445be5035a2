"""Normalization by the batch, and of each sample."""

from __future__ import annotations

from math import gcd, prod
from typing import Any, Final

from portable.lang.launch.geometry import groups
from portable.nn.layers.layer import Flow
from portable.nn.layers.weighted import BatchNorm1d, BatchNorm2d, LayerNorm
from portable.nn.stages import normalization_kernels as kernels
from portable.nn.stages.normalization_kernels import Back, Elements, Running, Scale
from portable.nn.stages.stage import Place, Stage

_WORKGROUP: Final = 64
_WIDE: Final = 256
"""Work-items of a workgroup that sums."""
_ENOUGH: Final = 4096
"""Numbers that a workgroup sums, in whole images."""
_SECTION: Final = 64
"""Rows whose numbers a work-item sums."""
_MOST_LANES: Final = 16
"""Of vectors that sums are kept in."""


class _NormStage(Stage):
    """What both have in common."""

    def __init__(self, at: Place) -> None:
        super().__init__(at)
        self._scale = Scale(*at.parameters) if at.parameters else Scale(None, None)
        activation = at.activation
        self._function = None if activation is None else activation.function
        self._slope = None if activation is None else activation.slope
        lone = at.device.capabilities.single_work_items
        self._items = 1 if lone else min(_WIDE, at.device.capabilities.max_workgroup)
        can = at.device.capabilities
        widest = can.vector_bytes // at.kind.register.itemsize if can.single_work_items else 1
        self._lanes = max(1, min(widest, _MOST_LANES))
        self._kept: Any = None

    def _moments(self, count: int) -> Any:
        """Memory for means and reciprocal deviations, kept from the way there to the way back."""
        if self._kept is None or self._kept.shape[0] < 2 * count:
            self._kept = self.place.device.empty((2 * count,), self.place.kind.register)
        return self._seen(self._kept[: 2 * count], (2, count))

    def _sums_items(self, partial: Any) -> tuple[int, int]:
        """Work-items for sums of columns: some columns of a section each."""
        _, sections, columns = partial.shape
        return columns // self._lanes, sections

    def _seen(self, x: Any, shape: tuple[int, ...]) -> Any:
        return self.place.device.namespace().reshape(x, shape)

    def _places(self, sections: int, columns: int, scratch: Any) -> tuple[Any, Any]:
        """Places for two sums of sections of columns, and for those of columns."""
        size = 2 * sections * columns
        partial = self._seen(scratch[:size], (2, sections, columns))
        return partial, self._seen(scratch[size : size + 2 * columns], (2, columns))

    def _merged(self, partial: Any, sums: Any, gradients: tuple[Any, ...]) -> None:
        """Sections added up, which are the gradients by weights and biases."""
        channels = sums.shape[1]
        vectors = [self._seen(part, (channels,)) for part in gradients]
        weight, bias = vectors or (None, None)
        kernels.merge_slope_sums[channels, _WORKGROUP](partial, sums, bias, weight)


class BatchNormStage(_NormStage):
    """Channels less their means, by their deviations; running ones in predictions."""

    def __init__(self, at: Place, layer: BatchNorm1d | BatchNorm2d) -> None:
        super().__init__(at)
        self._layer = layer
        self._channels = at.inputs[0]
        self._pixels = prod(at.inputs[1:])
        self._columns = self._pixels == 1
        self._section = _SECTION if self._columns else max(1, _ENOUGH // self._pixels)
        lanes = gcd(self._lanes, self._channels if self._columns else self._pixels)
        self._neighbours = Elements(self._columns, lanes)
        if self._columns:
            self._lanes = lanes

    def scratch(self, count: int) -> int:
        """Two sums of each section of a channel, and of each channel."""
        return 2 * (self._sections(count) + 1) * self._channels

    def _sections(self, count: int) -> int:
        return -(-count // self._section)

    def _images(self, x: Any) -> Any:
        return self._seen(x, (x.shape[0], self._channels, self._pixels))

    def _matrix(self, x: Any) -> Any:
        return self._seen(x, (x.shape[0], self._channels))

    def _elements(self, count: int) -> tuple[int, int]:
        """Work-items for each number; neighbours take channels where there is one pixel."""
        channels = self._channels
        neighbours, others = (
            (channels, count) if self._columns else (self._pixels, channels * count)
        )
        return neighbours // self._neighbours.lanes, others

    def forward(self, x: Any, y: Any, scratch: Any) -> None:
        """By running means."""
        mean, variance = self.place.buffers
        moments = self._seen(scratch[: 2 * self._channels], (2, self._channels))
        kernels.running_moments[self._channels, _WORKGROUP](
            mean, variance, moments, self._layer.eps
        )
        self._normalize(x, y, moments)

    def train(self, x: Any, y: Any, scratch: Any) -> None:
        """By the batch's means, which the running ones follow."""
        count = int(x.shape[0])
        partial, _ = self._places(self._sections(count), self._channels, scratch)
        moments = self._moments(self._channels)
        if self._columns:
            kernels.column_moments[self._sums_items(partial), (_WORKGROUP, 1)](
                self._matrix(x), partial, SECTION=self._section, LANES=self._lanes
            )
        else:
            kernels.channel_moments[groups(*partial.shape[:0:-1]), (self._items, 1)](
                self._images(x), partial, SECTION=self._section, LANES=self._lanes
            )
        mean, variance = self.place.buffers
        running = Running(mean, variance, self._layer.momentum)
        kernels.merge_moments[self._channels, _WORKGROUP](
            partial, moments, running, count, self._pixels, self._layer.eps, SECTION=self._section
        )
        self._normalize(x, y, moments)

    def _normalize(self, x: Any, y: Any, moments: Any) -> None:
        kernels.normalize_channels[self._elements(int(x.shape[0])), None](
            self._images(x), self._images(y), moments, self._scale,
            FUNCTION=self._function, ELEMENTS=self._neighbours,
        )  # fmt: skip

    def backward(self, flow: Flow, gradients: tuple[Any, ...], scratch: Any) -> None:
        """Sums over the batch, then the slopes of each number."""
        count = int(flow.x.shape[0])
        partial, sums = self._places(self._sections(count), self._channels, scratch)
        moments = self._moments(self._channels)
        self._slope_sums(flow, moments, partial)
        self._merged(partial, sums, gradients)
        if flow.dx is not None:
            back = Back(self._images(flow.x), None, self._images(flow.dy), moments)
            kernels.channel_slopes[self._elements(count), None](
                back, self._images(flow.dx), sums, self._scale, ELEMENTS=self._neighbours
            )

    def _slope_sums(self, flow: Flow, moments: Any, partial: Any) -> None:
        """Those of sections; slopes become those before the activation."""
        shaped = self._matrix if self._columns else self._images
        y = None if self._slope is None else shaped(flow.y)
        back = Back(shaped(flow.x), y, shaped(flow.dy), moments)
        if self._columns:
            kernels.slope_sums[self._sums_items(partial), (_WORKGROUP, 1)](
                back, partial,
                SLOPE=self._slope, SECTION=self._section, LANES=self._lanes, BY_ROWS=False,
            )  # fmt: skip
            return
        kernels.channel_slope_sums[groups(*partial.shape[:0:-1]), (self._items, 1)](
            back, partial, SLOPE=self._slope, SECTION=self._section, LANES=self._lanes
        )


class LayerNormStage(_NormStage):
    """The last dimensions of each sample less their mean, by their deviation."""

    def __init__(self, at: Place, layer: LayerNorm) -> None:
        super().__init__(at)
        self._eps = layer.eps
        self._columns = prod(layer.extents())
        self._rows = prod(at.inputs) // self._columns
        self._lanes = gcd(self._lanes, self._columns)
        if at.parameters:
            self._scale = Scale(*(self._seen(p, (self._columns,)) for p in at.parameters))

    def scratch(self, count: int) -> int:
        """Two sums of each section of a column, and of each column."""
        sections = -(-count * self._rows // _SECTION)
        return 2 * (sections + 1) * self._columns

    def _matrix(self, x: Any) -> Any:
        return self._seen(x, (x.shape[0] * self._rows, self._columns))

    def forward(self, x: Any, y: Any, scratch: Any) -> None:
        """A workgroup for a row."""
        self._normalize(x, y, None)

    def train(self, x: Any, y: Any, scratch: Any) -> None:
        """The same; means and deviations are kept."""
        self._normalize(x, y, self._moments(x.shape[0] * self._rows))

    def _normalize(self, x: Any, y: Any, moments: Any) -> None:
        rows = x.shape[0] * self._rows
        kernels.normalize_rows[groups(rows), self._items](
            self._matrix(x), self._matrix(y), moments, self._scale, self._eps,
            FUNCTION=self._function,
        )  # fmt: skip

    def backward(self, flow: Flow, gradients: tuple[Any, ...], scratch: Any) -> None:
        """The slopes of each row, then sums of columns."""
        rows = flow.x.shape[0] * self._rows
        x, dy, moments = self._matrix(flow.x), self._matrix(flow.dy), self._moments(rows)
        y = None if self._slope is None else self._matrix(flow.y)
        dx = None if flow.dx is None else self._matrix(flow.dx)
        if y is not None or dx is not None:
            back = Back(x, y, dy, moments)
            kernels.row_slopes[groups(rows), self._items](back, dx, self._scale, SLOPE=self._slope)
        if gradients:
            partial, sums = self._places(-(-rows // _SECTION), self._columns, scratch)
            kernels.slope_sums[self._sums_items(partial), (_WORKGROUP, 1)](
                Back(x, None, dy, moments), partial,
                SLOPE=None, SECTION=_SECTION, LANES=self._lanes, BY_ROWS=True,
            )  # fmt: skip
            self._merged(partial, sums, gradients)
