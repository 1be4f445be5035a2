"""Convolution by Winograd's minimal filtering: transforms around a batch of matrix products."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Final

from portable.conv.direct.parted import PART, doubled, part_filters
from portable.conv.geometry import Pair
from portable.conv.layouts import as_nchw
from portable.conv.method import Epilogue, Method, most_workspace
from portable.conv.tuning import accurate, parted_choices, winograd_choices
from portable.conv.winograd.kernels import (
    TilePlan,
    Tiles,
    transform_filters,
    transform_images,
    transform_results,
)
from portable.conv.winograd.points import Transforms, transforms
from portable.conv.winograd.product_kernels import multiply_many
from portable.dtypes import DType
from portable.lang.launch.enqueued import enqueue
from portable.lang.launch.geometry import groups
from portable.linalg.base.tiling import Tiling
from portable.linalg.products.kernels import keep
from portable.linalg.products.launches import tiles_launch
from portable.tune.space import Parameters
from portable.tune.table import first_accepted, state

_CHANNELS: Final = 128
"""Neighbouring channels of a workgroup, where these are neighbours in memory: at most."""


@dataclass(frozen=True, kw_only=True)
class Winograd(Method):
    """F(m x m, r x r) for images of one shape.

    Tiles are taken in blocks of ``T``. A block's transformed tiles lie together in memory: for each
    element of a tile a matrix of channels by tiles, the tiles fastest, or the channels.

    Attributes
    ----------
    results : int
        m, results of a tile along a dimension.
    """

    results: int

    @property
    def workspace_kind(self) -> DType:
        """The type to transform, multiply and sum in."""
        return self.kind.register

    @property
    def channels_fast(self) -> bool:
        """Whether neighbouring channels are neighbours in memory."""
        return self.layout == "NHWC"

    @cached_property
    def by(self) -> Transforms:
        """The transforms."""
        return transforms(self.results, self.shape.window.taps[0])

    @cached_property
    def tiles(self) -> Pair:
        """Tiles down and across a result."""
        height, width = self.shape.result
        return -(-height // self.results), -(-width // self.results)

    @cached_property
    def total(self) -> int:
        """Tiles of all images."""
        return self.shape.images * prod(self.tiles)

    @cached_property
    def block(self) -> int:
        """Tiles of a block."""
        return int(self._choices[0]["T"])

    @cached_property
    def plan(self) -> TilePlan:
        """How workgroups transform tiles; one object, by which launches are recognised at once."""
        return TilePlan(self.by, self.block, self.channels_fast)

    @cached_property
    def each(self) -> int:
        """Elements of workspace for a block."""
        channels = self.shape.channels + self.shape.filters
        return self.by.inputs**2 * channels * self.block

    @cached_property
    def _choices(self) -> tuple[Parameters, ...]:
        if self.choice is not None:
            return (self.choice,)
        capabilities, kind = self.device.capabilities, self.workspace_kind
        matrices = self.by.inputs**2 * self.shape.groups
        return winograd_choices(capabilities, kind, self.shape, self.total, matrices, state())

    def workspace(self) -> tuple[int, int]:
        """Elements of workspace to ask for, and the fewest that are of use: those of a block."""
        each = self.each
        blocks = -(-self.total // self.block)
        most = max(1, most_workspace(self.device) // self.workspace_kind.itemsize // each)
        return min(blocks, most) * each, each

    def filters(self, w: Any, turned: bool = False) -> Any:
        """Filters, transformed: a matrix for each element and group."""
        shape, by = self.shape, self.by
        count, depth = shape.filters // shape.groups, shape.channels // shape.groups
        matrix = (depth, count) if self.channels_fast else (count, depth)
        u = self.device.empty((1, by.inputs**2, shape.groups, *matrix), self.workspace_kind)
        if depth:
            space = (depth, shape.filters)
            enqueue(transform_filters[space, None], w, self.turned(u)[0], BY=by, TURNED=turned)
        return u

    def run(self, x: Any, filters: Any, out: Any, epilogue: Epilogue, workspace: Any) -> None:
        """Makes results from transformed filters."""
        x, out = (as_nchw(self.device, a, self.layout) for a in (x, out))
        block = self.block
        batch = workspace.shape[0] // self.each * block
        for first in range(0, self.total, batch):
            blocks = -(-min(batch, self.total - first) // block)
            v, m = self.matrices(workspace, blocks)
            if self.shape.channels:
                self.transform_images(x, v, first)
            self._multiply(filters, v, m)
            self._transform_results(m, out, epilogue, first)

    def transform_images(self, x: Any, v: Any, first: int) -> None:
        """Transforms the blocks from tile `first` on, as many as `v` has."""
        enqueue(
            transform_images[self.launch(v.shape[0], self.shape.channels)],
            x,
            self.turned(v),
            self.tiles_from(first),
            PLAN=self.plan,
            PADDING=self.shape.window.padding,
        )

    def _multiply(self, u: Any, v: Any, m: Any) -> None:
        left, right = (v, u) if self.channels_fast else (u, v)
        blocks, *count, rows, columns = m.shape

        def use(choice: Parameters) -> None:
            tiles = -(-rows // choice["BM"]) * -(-columns // choice["BN"])
            runs = -(-blocks // choice["RUN"]) * prod(count)
            enqueue(
                multiply_many[groups(runs * tiles), (choice["WORKGROUP"], 1, 1)],
                left,
                right,
                m,
                None,
                TILING=Tiling.of(accurate(choice, self.shape, self.device.capabilities)),
                RUN=choice["RUN"],
                DOWN=not self.channels_fast,
                ACC=self.workspace_kind,
            )

        first_accepted(self._choices, use)

    def _transform_results(self, m: Any, out: Any, epilogue: Epilogue, first: int) -> None:
        staged = self.device.capabilities.local_memory_dedicated and not self.channels_fast
        enqueue(
            transform_results[self.launch(m.shape[0], self.shape.filters)],
            self.turned(m),
            out,
            epilogue.bias,
            epilogue.residual_nchw(self.device, self.layout),
            self.tiles_from(first),
            PLAN=self.plan,
            ACTIVATION=epilogue.activation,
            STAGED=staged,
        )

    def tiles_from(self, first: int) -> Tiles:
        """The tiles of all images from one on."""
        return Tiles(first, self.total, *self.tiles)

    def launch(self, blocks: int, channels: int) -> tuple[Any, tuple[int, int, int]]:
        """Workgroups that transform so many blocks: of all tiles of a channel, or of channels."""
        if not self.channels_fast:
            return groups(blocks * channels), (self.block, 1, 1)
        items = min(_CHANNELS, channels)
        return groups(blocks * self.block * -(-channels // items)), (items, 1, 1)

    def matrices(self, workspace: Any, blocks: int) -> tuple[Any, Any]:
        """Transformed images and products of so many blocks, parts of the workspace."""
        elements, count, block = self.by.inputs**2, self.shape.groups, self.block
        matrices, start = [], 0
        for channels in (self.shape.channels // count, self.shape.filters // count):
            matrix = (block, channels) if self.channels_fast else (channels, block)
            extents = (blocks, elements, count, *matrix)
            part = workspace[start : start + prod(extents)]
            matrices.append(self.device.namespace().reshape(part, extents))
            start += prod(extents)
        return matrices[0], matrices[1]

    def turned(self, matrices: Any) -> Any:
        """Matrices seen with tiles, or for filters channels, along their rows."""
        if not self.channels_fast:
            return matrices
        return self.device.namespace().permute_dims(matrices, (0, 1, 2, 4, 3))


# In single precision whose products Hopper's matrix units make of parts.

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
