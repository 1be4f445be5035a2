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
from portable.conv.tuning import BLOCKS_ALONE, adds_exactly, parted_schemes
from portable.conv.winograd.kernels import (
    TilePlan,
    Tiles,
    transform_filters,
    transform_images,
    transform_results,
)
from portable.conv.winograd.points import Transforms, transforms
from portable.dtypes import DType, float32
from portable.lang.launch.enqueued import enqueue
from portable.lang.launch.geometry import groups
from portable.linalg.products.gemm import gemm
from portable.linalg.products.kernels import keep
from portable.linalg.products.launches import tiles_launch
from portable.linalg.products.model import Product
from portable.tune.space import Parameters
from portable.tune.table import first_accepted

_BLOCKS: Final = (32, 64, 128)
"""Tiles that a block may have, for workgroups of many work-items."""

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

    @property
    def inputs_fast(self) -> bool:
        """Whether those of transformed images are."""
        return self.channels_fast

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
        """Tiles of a block: all, where these are few."""
        possible = BLOCKS_ALONE if self.device.capabilities.single_work_items else _BLOCKS
        return min((n for n in possible if n >= self.total), default=possible[-1])

    @cached_property
    def plan(self) -> TilePlan:
        """How workgroups transform tiles; one object, by which launches are recognised at once."""
        return TilePlan(self.by, self.block, self.channels_fast)

    @property
    def depth(self) -> int:
        """Channels of a transformed tile."""
        return self.shape.channels

    @property
    def each(self) -> int:
        """Elements of workspace for a block."""
        return self.by.inputs**2 * (self.depth + self.shape.filters) * self.block

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
        u = self.device.empty((by.inputs**2, shape.groups, *matrix), self.workspace_kind)
        u = self.turned(u) if self.channels_fast else u
        if depth:
            enqueue(transform_filters[(depth, shape.filters), None], w, u, BY=by, TURNED=turned)
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
            factors = filters, self.side_by_side(v), self.side_by_side(m)
            if self.channels_fast:
                right, left, product = map(self.turned, factors)
                factors = left, right, product
            self._multiply(*factors)
            self._transform_results(m, out, epilogue, first)

    def transform_images(self, x: Any, v: Any, first: int) -> None:
        """Transforms the blocks from tile `first` on, as many as `v` has."""
        enqueue(
            transform_images[self.launch(v.shape[0], self.shape.channels)],
            x,
            v,
            self.tiles_from(first),
            PLAN=self.plan,
            PADDING=self.shape.window.padding,
        )

    def _multiply(self, left: Any, right: Any, out: Any) -> None:
        gemm(left, right, out=out, precision=self.precision)

    @property
    def precision(self) -> Any:
        """Of products of single precision."""
        exact = adds_exactly(self.device.capabilities, self.shape)
        return "full" if exact or self.workspace_kind is not float32 else "tf32x3"

    def _transform_results(self, m: Any, out: Any, epilogue: Epilogue, first: int) -> None:
        staged = self.device.capabilities.local_memory_dedicated and not self.channels_fast
        enqueue(
            transform_results[self.launch(m.shape[0], self.shape.filters)],
            m,
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
        """Transformed images and products (blocks, elements, groups, channels, tiles)."""
        v = self._matrices(workspace, blocks, self.depth, self.inputs_fast)
        rest = workspace[prod(v.shape) :]
        return v, self._matrices(rest, blocks, self.shape.filters, self.channels_fast)

    def _matrices(self, room: Any, blocks: int, channels: int, fast: bool) -> Any:
        """Those of an element and group side by side, tile after tile or channel after channel."""
        space, count = self.device.namespace(), self.shape.groups
        each, elements = channels // count, self.by.inputs**2
        matrix = (blocks, self.block, each) if fast else (each, blocks, self.block)
        part = room[: elements * channels * blocks * self.block]
        made = space.reshape(part, (elements, count, *matrix))
        return space.permute_dims(made, (2, 0, 1, 4, 3) if fast else (3, 0, 1, 2, 4))

    def side_by_side(self, x: Any) -> Any:
        """The blocks of `matrices` as one matrix for each element and group."""
        space, (blocks, *count, tiles) = self.device.namespace(), x.shape
        return space.reshape(space.permute_dims(x, (1, 2, 3, 0, 4)), (*count, blocks * tiles))

    def turned(self, matrices: Any) -> Any:
        """Matrices with rows for columns."""
        return self.device.namespace().permute_dims(matrices, (0, 1, 3, 2))


# In single precision whose products Hopper's matrix units make of parts.

_ITEMS: Final = 256
"""Of a workgroup, for eight channels each: a sector of memory, of tiles that lie side by side."""


class PartedWinograd(Winograd):
    """The same, of transformed tiles whose channels are neighbours, high parts before low ones."""

    @property
    def depth(self) -> int:
        """Elements of a row of parts of channels."""
        return doubled(self.shape.channels)

    @property
    def inputs_fast(self) -> bool:
        """Whether channels of transformed images are neighbours: they are always."""
        return True

    @cached_property
    def _parts_plan(self) -> TilePlan:
        return TilePlan(self.by, self.block, True, PART)

    @cached_property
    def _tiles(self) -> tuple[Parameters, ...]:
        product = Product(self.shape.filters, self.total, self.depth, self.by.inputs**2)
        ranked = parted_schemes(self.device.capabilities, product)
        return tuple(choice for choice, _ in ranked)

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

    def _multiply(self, left: Any, right: Any, out: Any) -> None:
        given = {"ACC": self.kind, "ACTIVATION": keep, "SPLIT": "given"}
        units = self.device.capabilities.compute_units

        def use(choice: Parameters) -> None:
            launch = tiles_launch(choice, tuple(out.shape), given, compute_units=units)
            enqueue(launch.launcher, 1.0, left, right, 0.0, None, None, out, **launch.constants)

        first_accepted(self._tiles, use)
