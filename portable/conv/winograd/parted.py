"""Winograd's method in single precision whose products Hopper's matrix units make of parts."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

from portable.conv.direct.parted import PART, doubled, part_filters
from portable.conv.tuning import parted_choices
from portable.conv.winograd.kernels import TilePlan, transform_filters, transform_images
from portable.conv.winograd.winograd import Winograd
from portable.lang.launch.enqueued import enqueue
from portable.lang.launch.geometry import groups
from portable.linalg.products.kernels import keep
from portable.linalg.products.launches import tiles_launch
from portable.tune.search import Parameters
from portable.tune.table import first_accepted, state

_ITEMS: Final = 256
"""Of a workgroup, for eight channels each: a sector of memory, of tiles that lie side by side."""


class PartedWinograd(Winograd):
    """The same, of transformed tiles whose channels are neighbours, high parts before low ones."""

    @cached_property
    def each(self) -> int:
        """Elements of workspace for a block."""
        channels = doubled(self.shape.channels) + self.shape.filters
        return self.by.inputs**2 * channels * self.block

    @cached_property
    def _parts_plan(self) -> TilePlan:
        return TilePlan(self.by, self.block, True, PART)

    @cached_property
    def _tiles(self) -> tuple[Parameters, ...]:
        size = self.shape.filters, self.total, self.by.inputs**2
        return parted_choices(self.device.capabilities, size, state())

    def filters(self, w: Any, turned: bool = False) -> Any:
        """Parts of filters, transformed: a matrix (K, 2 C) for each element."""
        shape, space = self.shape, self.device.namespace()
        elements, extents = self.by.inputs**2, (shape.filters, doubled(shape.channels))
        room = self.device.empty((elements, shape.channels, 1, shape.filters), self.kind)
        view = space.permute_dims(room, (0, 2, 3, 1))
        launcher = transform_filters[(shape.channels, shape.filters), None]
        enqueue(launcher, w, view, BY=self.by, TURNED=turned)
        parts = self.device.empty((elements, 1, *extents), self.kind)
        enqueue(part_filters[elements * extents[0] * extents[1] // 2, None], room, parts)
        return parts

    def transform_images(self, x: Any, v: Any, first: int) -> None:
        """Transforms the blocks from tile `first` on, as many as `v` has."""
        count = v.shape[0] * self.block * v.shape[3] // 2
        launcher = transform_images[groups(count // _ITEMS), (_ITEMS, 1, 1)]
        tiles, padding = self.tiles_from(first), self.shape.window.padding
        enqueue(launcher, x, v, tiles, PLAN=self._parts_plan, PADDING=padding)

    def _multiply(self, u: Any, v: Any, m: Any) -> None:
        space, units = self.device.namespace(), self.device.capabilities.compute_units
        v, out = (space.permute_dims(x[:, :, 0], (1, 0, 2, 3)) for x in (v, m))
        factors = u, v
        if self.channels_fast:
            left, right = (space.permute_dims(x, (0, 1, 3, 2)) for x in (v, u))
            factors = left, right
        given = {"ACC": self.kind, "ACTIVATION": keep, "SPLIT": "given"}

        def use(choice: Parameters) -> None:
            launch = tiles_launch(choice, tuple(out.shape), given, compute_units=units)
            enqueue(launch.launcher, 1.0, *factors, 0.0, None, None, out, **launch.constants)

        first_accepted(self._tiles, use)

    def matrices(self, workspace: Any, blocks: int) -> tuple[Any, Any]:
        """Transformed images and products of so many blocks, of each element side by side."""
        space, elements, depth = self.device.namespace(), self.by.inputs**2, self.shape.channels
        count = elements * blocks * self.block
        v = space.reshape(
            workspace[: count * doubled(depth)], (elements, blocks, 1, self.block, doubled(depth))
        )
        rest = workspace[count * doubled(depth) :][: count * self.shape.filters]
        product = self.shape.filters, self.block
        product = product[::-1] if self.channels_fast else product
        m = space.reshape(rest, (elements, blocks, 1, *product))
        return space.permute_dims(v, (1, 0, 2, 4, 3)), space.permute_dims(m, (1, 0, 2, 3, 4))
