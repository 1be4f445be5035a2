"""Winograd's convolution by lone work-items, each of which takes all stages for a block of tiles.

Where local memory is apart this would not do: a block's transformed tiles of all channels, and its
sums of all elements, are larger than that, and `winograd` takes the stages one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from portable.conv.method import Epilogue, Method, most_workspace, replaced
from portable.conv.tuning import tiles_of_blocks
from portable.conv.winograd.block_kernels import BlockPlan, convolve_blocks, pack_filters
from portable.conv.winograd.block_transforms import LANES
from portable.conv.winograd.winograd import Winograd
from portable.dtypes import DType
from portable.lang.launch.enqueued import enqueue
from portable.lang.launch.geometry import groups
from portable.tune.table import state

_TRANSFORM: Final = 50
"""Filters whose products, but for reading, take as long as to transform as many tiles."""

_TILE_READ: Final = 3
"""Filters of a panel for which reading a vector of tiles takes as long as their products."""

_FILTER_READ: Final = 20
"""Tiles for which reading an element of a filter takes as long as their products."""

_SUMS: Final = 3 / 4
"""The part of the registers that hold sums."""


@dataclass(frozen=True, kw_only=True)
class WinogradBlocks(Method):
    """F(m x m, r x r) for images (N, C, H, W) of one shape.

    Attributes
    ----------
    results : int
        m, results of a tile along a dimension.
    """

    results: int

    @cached_property
    def stages(self) -> Winograd:
        """The same convolution in stages."""
        return Winograd(
            self.device, self.shape, self.kind, self.layout, self.choice, results=self.results
        )

    @property
    def workspace_kind(self) -> DType:
        """The type to transform, multiply and sum in."""
        return self.kind.register

    def filters(self, w: Any, turned: bool = False) -> Any:
        """Filters, transformed: panels of them for each group."""
        shape, kind = self.shape, self.workspace_kind
        extents = shape.groups, self._panels, self._elements, self._depth, self.plan.filters
        u = self.device.empty(extents, kind)
        if self._depth:
            filters = shape.groups * self._panels * self.plan.filters
            enqueue(
                pack_filters[(self._depth, filters), None], w, u, BY=self.plan.by, TURNED=turned
            )
        return u

    def workspace(self) -> tuple[int, int]:
        """Elements of workspace to ask for, and the fewest that are of use: those of a block."""
        blocks, each = -(-self.stages.total // self.plan.tiles), self._each
        most = max(1, most_workspace(self.device) // self.workspace_kind.itemsize // each)
        return min(blocks, most) * each, each

    def run(self, x: Any, filters: Any, out: Any, epilogue: Epilogue, workspace: Any) -> None:
        """Makes results from transformed filters."""
        total, tiles, parts = self.stages.total, self.plan.tiles, self._parts
        bias, activation, _ = epilogue
        residual = epilogue.residual_nchw(self.device, self.layout)
        plan = replaced(self.plan, activation=activation)
        step = workspace.shape[0] // self._each
        for first in range(0, total, step * tiles):
            blocks = min(step, -(-(total - first) // tiles))
            items = blocks * parts * self.shape.groups
            v = workspace[: blocks * self._each]
            enqueue(
                convolve_blocks[groups(items), 1],
                x,
                filters,
                self.device.namespace().reshape(v, (items, self._elements, self._depth + 1, tiles)),
                out,
                bias,
                residual,
                self.stages.tiles_from(first),
                parts,
                PLAN=plan,
            )

    @property
    def plan(self) -> BlockPlan:
        """How work-items take blocks."""
        return self._chosen[0]

    @property
    def _parts(self) -> int:
        """Work-items for a block and group: more of them transform the same tiles again."""
        return self._chosen[1]

    @cached_property
    def _chosen(self) -> tuple[BlockPlan, int]:
        """The plan and parts by which the last core is done first."""
        units = range(1, max(1, self.device.capabilities.compute_units) + 1)
        choices = [(plan, parts) for plan in self._plans() for parts in units]
        return min(choices, key=lambda choice: self._cost(*choice))

    def _plans(self) -> list[BlockPlan]:
        """Those whose sums fill the registers, or two thirds of them."""
        can, by, padding = self.device.capabilities, self.stages.by, self.shape.window.padding
        registers = int(_SUMS * can.most_vectors)
        each = -(-LANES * self.workspace_kind.itemsize // can.vector_bytes)
        tuned = tiles_of_blocks(can, self.workspace_kind, self.shape, state())
        plans = []
        for tiles in (self.choice["T"],) if self.choice else tuned:
            vectors = 2 if tiles % (2 * LANES) == 0 and each == 1 else 1
            most = registers // (vectors * each)
            rows = range(-(-2 * most // 3), most + 1)
            plans += [BlockPlan(by, padding, tiles, filters, vectors) for filters in rows]
        return plans

    def _cost(self, plan: BlockPlan, parts: int) -> float:
        """What the busiest core has to do, in products of an element of a filter and of a tile."""
        shape, units = self.shape, max(1, self.device.capabilities.compute_units)
        panels = -(-shape.filters // shape.groups // plan.filters)
        blocks = -(-self.stages.total // plan.tiles) * shape.groups
        reading = _TILE_READ / plan.filters + _FILTER_READ / (plan.vectors * LANES)
        filters = -(-panels // parts) * plan.filters
        return -(-blocks * parts // units) * plan.tiles * (_TRANSFORM + filters * (1 + reading))

    @cached_property
    def _panels(self) -> int:
        """Panels of a group's filters."""
        return -(-self.shape.filters // self.shape.groups // self.plan.filters)

    @cached_property
    def _elements(self) -> int:
        """Elements of a tile."""
        return self.stages.by.inputs**2

    @cached_property
    def _depth(self) -> int:
        """Channels of a group."""
        return self.shape.channels // self.shape.groups

    @cached_property
    def _each(self) -> int:
        """Elements of workspace for a block."""
        items = self._parts * self.shape.groups
        return items * self._elements * (self._depth + 1) * self.plan.tiles
