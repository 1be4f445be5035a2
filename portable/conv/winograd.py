"""Convolution by Winograd's minimal filtering: transforms around a batch of matrix products."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Final

from portable.backend import Device
from portable.conv.geometry import Geometry, Pair
from portable.conv.points import Transforms, transforms
from portable.conv.winograd_kernels import (
    transform_filters,
    transform_images,
    transform_results,
)
from portable.dtypes import DType
from portable.lang.function import Function
from portable.linalg import gemm

__all__ = ["TAPS", "Winograd", "suits"]

TAPS: Final = 3
"""Filters are three by three."""

_LEAST_BATCH: Final = 32
"""Tiles at a time at least: fewer leave the products too thin to be worth anything."""

_WORKGROUP: Final = (128, 1)
"""A tile takes some hundred registers: of twice as many work-items fewer are at work at a time (on
an H200 images took 0.10 ms instead of 0.25)."""

_MOST_WORKSPACE: Final = 2**28
"""Bytes that are asked for where none are given; beyond, tiles are taken in batches."""


def suits(shape: Geometry) -> bool:
    """Whether it is a convolution of three by three taps, without strides and dilation."""
    window = shape.window
    return (window.taps, window.stride, window.dilation) == ((TAPS, TAPS), (1, 1), (1, 1))


@dataclass(frozen=True, slots=True)
class Winograd:
    """F(m x m, 3 x 3) for images of one shape.

    Attributes
    ----------
    shape : Geometry
    results : int
        m, results of a tile along a dimension.
    kind : DType
        The type to transform, multiply and sum in.
    channels_fast : bool
        Whether neighbouring channels are neighbours in memory.
    """

    shape: Geometry
    results: int
    kind: DType
    channels_fast: bool

    @property
    def by(self) -> Transforms:
        """The transforms."""
        return transforms(self.results, TAPS)

    @property
    def tiles(self) -> Pair:
        """Tiles down and across a result."""
        height, width = self.shape.result
        return -(-height // self.results), -(-width // self.results)

    @property
    def total(self) -> int:
        """Tiles of all images."""
        return self.shape.images * prod(self.tiles)

    def workspace(self) -> tuple[int, int]:
        """Elements of workspace to ask for, and the fewest that are of use."""
        each = self._each()
        least = min(self.total, _LEAST_BATCH) * each
        most = max(least, _MOST_WORKSPACE // self.kind.itemsize // each * each)
        return min(self.total * each, most), least

    def filters(self, device: Device, w: Any) -> Any:
        """Filters (K, C / groups, 3, 3), transformed."""
        shape, by = self.shape, self.by
        count, depth = shape.filters // shape.groups, shape.channels // shape.groups
        u = self._matrices(device, None, count, depth)
        seen = device.namespace().permute_dims(u, (0, 1, 3, 2)) if self.channels_fast else u
        if depth:
            constants = {"BY": by, "TAPS": TAPS, "ACC": self.kind}
            transform_filters[(depth, shape.filters), None](w, seen, **constants)
        return u

    def run(
        self,
        device: Device,
        x: Any,
        u: Any,
        out: Any,
        bias: Any,
        activation: Function,
        workspace: Any,
    ) -> None:
        """Results of images, all seen as (N, C, H, W), from transformed filters."""
        batch = min(self.total, workspace.shape[0] // self._each())
        for first in range(0, self.total, batch):
            count = min(batch, self.total - first)
            self._batch(device, x, u, out, bias, activation, workspace, first, count)

    def _batch(
        self,
        device: Device,
        x: Any,
        u: Any,
        out: Any,
        bias: Any,
        activation: Function,
        workspace: Any,
        first: int,
        count: int,
    ) -> None:
        shape, by, fast = self.shape, self.by, self.channels_fast
        depth, filters = shape.channels // shape.groups, shape.filters // shape.groups
        size = by.inputs**2 * shape.channels * count
        v = self._matrices(device, workspace[:size], depth, count)
        m = self._matrices(device, workspace[size : size + self._results(count)], filters, count)
        space = device.namespace()
        seen_v, seen_m = (space.permute_dims(a, (0, 1, 3, 2)) if fast else a for a in (v, m))
        common = {"BY": by, "CHANNELS_FAST": fast}
        if depth:
            padding = shape.window.padding
            transform_images[self._range(shape.channels, count), _WORKGROUP](
                x, seen_v, first, self.tiles, PADDING=padding, ACC=self.kind, **common
            )
        left, right = (v, u) if fast else (u, v)
        gemm(left, right, out=m)
        transform_results[self._range(shape.filters, count), _WORKGROUP](
            seen_m, out, bias, first, self.tiles, ACTIVATION=activation, **common
        )

    def _range(self, channels: int, count: int) -> tuple[int, int]:
        return (channels, count) if self.channels_fast else (count, channels)

    def _matrices(self, device: Device, memory: Any, rows: int, columns: int) -> Any:
        """A matrix for each element of a tile and each group, transposed if channels are fast."""
        if self.channels_fast:
            rows, columns = columns, rows
        extents = (self.by.inputs**2, self.shape.groups, rows, columns)
        if memory is None:
            return device.empty(extents, self.kind)
        return device.namespace().reshape(memory, extents)

    def _results(self, count: int) -> int:
        return self.by.inputs**2 * self.shape.filters * count

    def _each(self) -> int:
        """Elements of workspace for a tile."""
        return self.by.inputs**2 * (self.shape.channels + self.shape.filters)
