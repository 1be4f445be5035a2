"""The gradient by filters as products whose rows are boxes of images, the transpose of `boxes`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Final

from portable.conv.direct.adding import add_up
from portable.conv.direct.box_kernels import BoxPlan, sum_boxes
from portable.conv.direct.boxes import Boxes, box_of, channels_last
from portable.conv.layouts import as_nchw, in_c_order
from portable.conv.method import most_workspace
from portable.conv.tuning import sum_choices
from portable.lang.arguments.arguments import ALIGNMENT
from portable.lang.launch.enqueued import enqueue
from portable.lang.launch.geometry import groups
from portable.linalg.base.tiling import Tiling
from portable.tune.search import Parameters
from portable.tune.table import first_accepted, state

_ENOUGH: Final = 4
"""Workgroups for each compute unit above which sums are not cut further."""

_FEWEST_STEPS: Final = 4
"""Of a part."""


@dataclass(frozen=True)
class BoxGradient:
    """The gradient by filters of a convolution.

    Attributes
    ----------
    forward : Boxes
        The convolution.
    """

    forward: Boxes

    def run(self, x: Any, dy: Any, dw: Any) -> None:
        """Makes `dw` (K, C / groups, R, S) of images and gradients in the convolution's layout."""
        forward = self.forward
        device, space, shape = forward.device, forward.device.namespace(), forward.shape
        batch = self._batch
        firsts = range(0, shape.images, batch)
        parts = self._parts(min(batch, shape.images))
        taps, filters, channels = self._matrices
        extents = (len(firsts) * parts, taps, forward.blocks, filters, channels)
        sums = device.empty(extents, forward.kind.register)
        for at, first in enumerate(firsts):
            images, gradient = (a[first : first + batch] for a in (x, dy))
            target = sums[at * parts : (at + 1) * parts]
            seen = forward.in_phases(forward.rearranged(images))
            self._sum(seen, self._rearranged(gradient), target)
        (down, across), each = shape.window.taps, shape.filters // shape.groups
        if forward.patches:  # whose one tap has all taps' channels
            lying, order = (shape.filters, down, across, shape.channels), (0, 2, 3, 1)
        elif forward.seen is not shape:  # whose taps have those beside them as channels
            lying, order = (down, shape.filters, across, shape.channels), (2, 0, 3, 1)
        else:
            lying, order = (down, across, shape.filters, channels), (2, 3, 0, 1)
        sums = space.reshape(sums, (sums.shape[0], *lying))
        add_up(device, sums, space.permute_dims(dw, order), each)

    @cached_property
    def _matrices(self) -> tuple[int, int, int]:
        """Taps, and filters and channels of a tap that a block has."""
        taps, blocks = self.forward.window.count, self.forward.blocks
        shape = self.forward.shape
        depth = shape.channels * shape.window.count // taps
        return taps, shape.filters // blocks, depth // blocks

    @property
    def _batch(self) -> int:
        """Images that are taken at a time, so that those which are rearranged take no more room."""
        forward = self.forward
        each = sum(forward.rearranged_elements) * forward.kind.itemsize
        return max(1, min(forward.shape.images, most_workspace(forward.device) // max(1, each)))

    def _rearranged(self, dy: Any) -> Any:
        """Gradients (N, H', W', K) with aligned rows, or with blocks of their channels apart."""
        forward = self.forward
        filters, device = forward.shape.filters, forward.device
        aligned = filters // forward.blocks * forward.kind.itemsize % ALIGNMENT == 0
        whole = forward.blocks == 1 or in_c_order(device, dy)
        if forward.layout == "NHWC" and aligned and whole:
            return forward.in_blocks(dy, filters)
        extents = (dy.shape[0], *forward.shape.result, forward.row(filters))
        room, dy = device.empty(extents, forward.kind), as_nchw(device, dy, forward.layout)
        channels_last(device, dy, room, forward.blocks)
        apart = forward.blocks > 1
        return forward.in_blocks(room, filters) if apart else room[..., :filters]

    @cached_property
    def _choices(self) -> tuple[Parameters, ...]:
        forward = self.forward
        if forward.choice is not None:
            return (forward.choice,)
        capabilities = forward.device.capabilities
        taps, *size = self._matrices
        size = [*size, taps * forward.blocks]
        given = forward.kind, forward.shape, tuple(size), state(), forward.splits
        return sum_choices(capabilities, *given)

    def _parts(self, images: int) -> int:
        """Into how many parts the sums over so many images are cut, to have all units at work."""
        choice, (taps, rows, columns) = self._choices[0], self._matrices
        taps *= self.forward.blocks
        products = taps * -(-rows // choice["BM"]) * -(-columns // choice["BN"])
        units = self.forward.device.capabilities.compute_units
        places = images * prod(self.forward.shape.result)
        most = places // (_FEWEST_STEPS * int(choice["BK"]))
        return max(1, min(_ENOUGH * units // int(products), most))

    def _sum(self, x: Any, dy: Any, sums: Any) -> None:
        places, window = tuple(dy.shape[:3]), self.forward.window

        def use(choice: Parameters) -> None:
            tiles = -(-dy.shape[-1] // choice["BM"]) * -(-self._matrices[2] // choice["BN"])
            box, forward = box_of(choice["BK"], places, window.taps), self.forward
            tiling = Tiling.of(choice, split=forward.splits)
            plan = BoxPlan(window, box, tiling, blocks=forward.blocks)
            many = groups(prod(sums.shape[:3]) * tiles)
            launcher = sum_boxes[many, (choice["WORKGROUP"], 1, 1)]
            enqueue(launcher, x, dy, sums, PLAN=plan, ACC=forward.kind.register)

        first_accepted(self._choices, use)
