"""The gradient by filters as products whose rows are boxes of images, the transpose of `boxes`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Final

from portable.conv.direct.adding import add_up
from portable.conv.direct.box_kernels import BoxPlan, sum_boxes
from portable.conv.direct.boxes import ONE_TAP, Boxes, box_of, channels_last
from portable.conv.geometry import Window
from portable.conv.layouts import as_nchw
from portable.conv.method import most_workspace
from portable.conv.tuning import sum_choices
from portable.lang.arguments.arguments import ALIGNMENT
from portable.lang.launch.enqueued import enqueue
from portable.lang.launch.geometry import groups
from portable.linalg.base.tiling import Tiling
from portable.tune.fallback import first_accepted
from portable.tune.space import Parameters
from portable.tune.table import state

_ENOUGH: Final = 4
"""Workgroups for each compute unit above which sums are not cut further."""


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
        """Makes `dw` (K, C, R, S) of images and gradients in the layout of the convolution."""
        forward = self.forward
        device, space, shape = forward.device, forward.device.namespace(), forward.shape
        batch = self._batch
        firsts = range(0, shape.images, batch)
        parts = self._parts(min(batch, shape.images))
        sums = device.empty((len(firsts) * parts, *self._matrices), forward.kind.register)
        for at, first in enumerate(firsts):
            images, gradient = (a[first : first + batch] for a in (x, dy))
            target = sums[at * parts : (at + 1) * parts]
            seen = forward.in_phases(forward.rearranged(images))
            self._sum(seen, self._rearranged(gradient), target)
        taps, lying = shape.window.taps, (shape.filters, shape.channels)
        if forward.patches:  # whose one tap has all taps' channels
            parts = space.reshape(sums, (sums.shape[0], shape.filters, *taps, shape.channels))
            add_up(device, parts, space.permute_dims(dw, (0, 2, 3, 1)))
        elif forward.seen is not shape:  # whose taps have those beside them as channels
            parts = space.reshape(sums, (sums.shape[0], taps[0], lying[0], taps[1], lying[1]))
            add_up(device, parts, space.permute_dims(dw, (2, 0, 3, 1)))
        else:
            parts = space.reshape(sums, (sums.shape[0], *taps, *lying))
            add_up(device, parts, space.permute_dims(dw, (2, 3, 0, 1)))

    @property
    def _window(self) -> Window:
        return ONE_TAP if self.forward.patches else self.forward.seen.window

    @cached_property
    def _matrices(self) -> tuple[int, int, int]:
        """Taps, filters, and channels of a tap."""
        taps = prod(self._window.taps)
        shape = self.forward.shape
        return taps, shape.filters, shape.depth // taps

    @property
    def _batch(self) -> int:
        """Images that are taken at a time, so that those which are rearranged take no more room."""
        forward = self.forward
        each = sum(forward.rearranged_elements) * forward.kind.itemsize
        return max(1, min(forward.shape.images, most_workspace(forward.device) // max(1, each)))

    def _rearranged(self, dy: Any) -> Any:
        """Gradients (N, H', W', K) with aligned rows."""
        forward = self.forward
        filters, size = forward.shape.filters, forward.kind.itemsize
        if forward.layout == "NHWC" and filters * size % ALIGNMENT == 0:
            return dy
        places = (dy.shape[0], *forward.shape.result)
        room = forward.device.empty((*places, forward.padded(filters)), forward.kind)
        return channels_last(forward.device, as_nchw(forward.device, dy, forward.layout), room)

    @cached_property
    def _choices(self) -> tuple[Parameters, ...]:
        forward = self.forward
        if forward.choice is not None:
            return (forward.choice,)
        capabilities = forward.device.capabilities
        taps, *size = self._matrices
        given = forward.kind, forward.shape, (*size, taps), state(), forward.splits
        return sum_choices(capabilities, *given)

    def _parts(self, images: int) -> int:
        """Into how many parts the sums over so many images are cut, to have all units at work."""
        choice, (taps, rows, columns) = self._choices[0], self._matrices
        products = taps * -(-rows // choice["BM"]) * -(-columns // choice["BN"])
        units = self.forward.device.capabilities.compute_units
        places = images * prod(self.forward.shape.result)
        return max(1, min(_ENOUGH * units // int(products), -(-places // int(choice["BK"]))))

    def _sum(self, x: Any, dy: Any, sums: Any) -> None:
        places, window = tuple(dy.shape[:3]), self._window

        def use(choice: Parameters) -> None:
            tiles = -(-dy.shape[3] // choice["BM"]) * -(-self._matrices[2] // choice["BN"])
            box = box_of(choice["BK"], places, window.taps)
            enqueue(
                sum_boxes[groups(prod(sums.shape[:2]) * tiles), (choice["WORKGROUP"], 1, 1)],
                x,
                dy,
                sums,
                PLAN=BoxPlan(window, box, Tiling.of(choice, split=self.forward.splits)),
                ACC=self.forward.kind.register,
            )

        first_accepted(self._choices, use)
