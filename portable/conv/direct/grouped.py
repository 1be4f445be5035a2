"""Launches of direct convolution of few channels a group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod
from typing import Any, Final

from portable.conv.direct.box_kernels import arrange_filters
from portable.conv.direct.grouped_kernels import GroupPlan, convolve_groups
from portable.conv.geometry import Geometry, Pair
from portable.conv.layouts import as_nchw
from portable.conv.method import Epilogue, Method, replaced
from portable.lang.launch.enqueued import enqueue
from portable.linalg.products.kernels import keep, relu

_MOST_CHANNELS: Final = 8
"""Channels of a group up to which products are few beside what is read."""

_MOST_OF_CROWDS: Final = 16
"""The same without matrix units, where many work-items share a core: 3 x 3 of 16 took 0.45 of the
time of a product on an H200, 0.66 of F(4 x 4)'s."""

_MOST_PRODUCTS: Final = 800
"""Of a work-item that are unrolled, in vectors."""

_WORKGROUP: Final = 128

_PER_ITEM: Final = 8
"""Bytes of neighbouring channels that a work-item reads at a time, at most."""


def has_few_channels(shape: Geometry, crowd: bool = False) -> bool:
    """Whether there are groups of so few channels that products are bound by memory.

    Parameters
    ----------
    shape : Geometry
    crowd : bool
        Whether many work-items share a core.
    """
    depth = shape.channels // shape.groups
    most = _MOST_OF_CROWDS if crowd else _MOST_CHANNELS
    return shape.groups > 1 and 0 < depth <= most


@dataclass(frozen=True)
class Grouped(Method):
    """Convolution of few channels a group, of any window."""

    def filters(self, w: Any, turned: bool = False) -> Any:
        """Filters (R, S, C / groups, K) in the type to sum in."""
        shape = self.shape
        depth, each = shape.channels // shape.groups, shape.filters // shape.groups
        extents = (shape.window.count, depth, shape.groups, each)
        room = self.device.empty(extents, self.kind.register)
        enqueue(arrange_filters[(shape.filters, depth), None], w, room, each, 1, TURNED=turned)
        return self.device.namespace().reshape(room, (*shape.window.taps, depth, shape.filters))

    def run(self, x: Any, filters: Any, out: Any, epilogue: Epilogue, workspace: Any) -> None:
        """Makes results."""
        x, out = (as_nchw(self.device, a, self.layout) for a in (x, out))
        residual = epilogue.residual_nchw(self.device, self.layout)
        activation = epilogue.activation
        plain = activation in (keep, relu)
        plan = replaced(self.plan, activation=activation, lanewise=plain)
        places = zip(self.shape.result, plan.tile, strict=True)
        tiles = prod(-(-n // extent) for n, extent in places)
        panels = self.shape.filters // (plan.filters * plan.lanes)
        alone = self.device.capabilities.lone_work_items
        items = self.shape.images * tiles * panels
        launcher = convolve_groups[items, None if alone else _WORKGROUP]
        enqueue(launcher, x, filters, out, epilogue.bias, residual, self.shape.groups, PLAN=plan)

    @cached_property
    def plan(self) -> GroupPlan:
        """How work-items take results."""
        shape = self.shape
        depth, filters = shape.channels // shape.groups, shape.filters // shape.groups
        fast = self.layout == "NHWC"
        depthwise = depth == filters == 1
        lanes = self._lanes(shape.filters if depthwise else filters) if fast else 1
        several = 1 if depthwise else gcd(filters // lanes, 4)
        steps = several * shape.window.count
        tile = next(t for t in self._tiles() if prod(t) * steps <= _MOST_PRODUCTS or prod(t) == 1)
        return GroupPlan(
            shape.window, tile, several, lanes, depth, depthwise, fast, keep, lanewise=True
        )

    def _lanes(self, filters: int) -> int:
        """Neighbouring filters of a vector, which divide those that there are."""
        can = self.device.capabilities
        room = can.vector_bytes if can.lone_work_items else _PER_ITEM
        most = max(1, min(16, room // self.kind.itemsize))
        return gcd(filters, most)

    def _tiles(self) -> list[Pair]:
        """Tiles of results, the largest first; along rows where channels are neighbours."""
        height, width = self.shape.result
        if self.layout == "NHWC":
            sizes = [(2, 4), (1, 4), (1, 2), (1, 1)]
        else:
            sizes = [(8, 1), (4, 1), (2, 1), (1, 1)]
        return [(min(down, height), min(across, width)) for down, across in sizes]
