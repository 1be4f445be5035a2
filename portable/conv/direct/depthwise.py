"""Depthwise convolution by lone work-items: how they cut images."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod
from typing import Any, Final

from portable.backend import Device
from portable.conv.direct.depthwise_kernels import Sizes, convolve_channels
from portable.conv.direct.direct import in_c_order
from portable.conv.direct.grouped import Grouped
from portable.conv.direct.grouped_kernels import GroupPlan
from portable.conv.geometry import Geometry
from portable.conv.layouts import as_nchw
from portable.conv.method import Epilogue, activated
from portable.dtypes import DType
from portable.lang.launch.enqueued import enqueue
from portable.lang.launch.geometry import groups
from portable.linalg.products.kernels import keep
from portable.linalg.products.rows import copy_into

_FEWEST: Final = 4
"""Channels of a vector."""

_PIXELS: Final = 14
"""Neighbouring results that registers hold, at most."""

_BEGUN: Final = 2
"""Results of a tile in whose time it is begun."""

_PACKED: Final = 4
"""Products in whose time a pixel is copied."""

_FINISHED: Final = 6
"""Products in whose time a result is transposed and written."""

_CACHE: Final = 2**18
"""Bytes of a block that stay in a core's cache."""

_ITEMS: Final = 2
"""Work-items for each core."""


def lanes_of(device: Device, shape: Geometry, kind: DType) -> int:
    """Channels of a vector, at most 16, which divide those that there are."""
    return gcd(shape.channels, device.capabilities.vector_bytes // kind.register.itemsize, 16)


def is_depthwise(device: Device, shape: Geometry, kind: DType) -> bool:
    """Whether filters see a channel each, of which vectors hold several, and all of images."""
    each = shape.groups == shape.channels == shape.filters > 1 and min(shape.window.padding) >= 0
    return each and lanes_of(device, shape, kind) >= _FEWEST


@dataclass(frozen=True)
class Depthwise(Grouped):
    """Depthwise convolution of any window, a vector of channels at a time."""

    @property
    def workspace_kind(self) -> DType:
        """The type to sum in."""
        return self.kind.register

    def workspace(self) -> tuple[int, int]:
        """Elements of workspace: what a block of each work-item sees, and its results."""
        return (prod(self._extents),) * 2

    def run(self, x: Any, filters: Any, out: Any, epilogue: Epilogue, workspace: Any) -> None:
        """Makes results."""
        x, out = (as_nchw(self.device, a, self.layout) for a in (x, out))
        residual = epilogue.residual_nchw(self.device, self.layout)
        target = out
        if self.layout == "NCHW":
            x, residual = (a if a is None else self._lines(a) for a in (x, residual))
            target = self._lines(out, empty=True)
        plan = activated(self.plan, epilogue.activation)
        v = self.device.namespace().reshape(workspace[: prod(self._extents)], self._extents)
        launcher = convolve_channels[groups(self._extents[0]), 1]
        given = x, filters, v, target, epilogue.bias, residual, self.sizes
        enqueue(launcher, *given, PLAN=plan)
        if self.layout == "NCHW" and not in_c_order(self.device, out):
            copy_into(self.device.namespace().reshape(target, out.shape), out)

    def _lines(self, x: Any, empty: bool = False) -> Any:
        """Images (N, C, H, W) as (N, C, 1, H W): copies of those that do not lie so, or room."""
        if not in_c_order(self.device, x):
            room = self.device.empty(x.shape, self.kind)
            if not empty:
                copy_into(x, room)
            x = room
        return self.device.namespace().reshape(x, (*x.shape[:2], 1, prod(x.shape[2:])))

    @cached_property
    def plan(self) -> GroupPlan:
        """Tiles of a row's results that leave least over, and of these the largest."""
        columns, last = self.shape.result[1], self.layout == "NHWC"
        most = min(_PIXELS, columns)
        pixels = min(range(1, most + 1), key=lambda n: (-(-columns // n) * (n + _BEGUN), -n))
        lanes = lanes_of(self.device, self.shape, self.kind)
        return GroupPlan(
            self.shape.window, (1, pixels), 1, lanes, 1, True, last, keep, lanewise=True
        )

    @cached_property
    def sizes(self) -> Sizes:
        """Of blocks that a core's cache holds, those by which the last core is done first."""
        shape = self.shape
        (_, columns), (_, across) = shape.result, shape.window.stride
        spread = (shape.window.taps[1] - 1) * shape.window.dilation[1]
        width = max((columns - 1) * across + spread + 1, shape.window.padding[1] + shape.width)
        image = shape.height, shape.width
        cuts = [Sizes(rows, self._seen(rows), width, image, shape.result) for rows in self._rows()]
        fitting = [cut for cut in cuts if self._places(cut) * self._place <= _CACHE]
        return min(fitting or cuts[:1], key=self._cost)

    def _rows(self) -> list[int]:
        """Rows of results that blocks may have, the fewest first."""
        height = self.shape.result[0]
        return sorted({-(-height // n) for n in range(1, height + 1)})

    def _seen(self, rows: int) -> int:
        """Rows of images that so many rows of results see."""
        window = self.shape.window
        return (rows - 1) * window.stride[0] + (window.taps[0] - 1) * window.dilation[0] + 1

    @property
    def _place(self) -> int:
        """Bytes of a vector."""
        return self.plan.lanes * self.kind.register.itemsize

    def _places(self, cut: Sizes) -> int:
        """Vectors that a work-item keeps."""
        return int(cut.height * cut.width + cut.rows * cut.result[1])

    def _count(self, cut: Sizes) -> int:
        """Blocks of all images."""
        chunks = self.shape.channels // self.plan.lanes
        return int(self.shape.images * chunks * -(-cut.result[0] // cut.rows))

    def _cost(self, cut: Sizes) -> float:
        """Products of the core that is done last, or what takes as long."""
        units = max(1, self.device.capabilities.compute_units)
        each = _PACKED * cut.height * cut.width
        each += cut.rows * cut.result[1] * (self.shape.window.count + _FINISHED)
        return float(-(-self._count(cut) // units) * each)

    @cached_property
    def _extents(self) -> tuple[int, int, int]:
        """Of the workspace: work-items, places and lanes."""
        units = max(1, self.device.capabilities.compute_units)
        items = min(self._count(self.sizes), _ITEMS * units)
        return items, self._places(self.sizes), self.plan.lanes
