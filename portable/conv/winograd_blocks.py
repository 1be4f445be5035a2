"""Winograd's convolution by lone work-items, each of which takes all stages for a block of tiles.

Where local memory is apart this would not do: a block's transformed tiles of all channels, and its
sums of all elements, are larger than that, and `winograd` takes the stages one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from portable.conv.block_kernels import BlockPlan, convolve_blocks
from portable.conv.method import Method, most_workspace
from portable.conv.tuning import winograd_choices
from portable.conv.winograd import Winograd
from portable.dtypes import DType
from portable.lang.function import Function
from portable.lang.geometry import groups
from portable.linalg.tiling import Tiling
from portable.tune.fallback import first_accepted
from portable.tune.space import Parameters
from portable.tune.table import state

__all__ = ["WinogradBlocks"]

_TRANSFORM: Final = 24
"""Filters whose products take as long as to transform a block's tiles."""


@dataclass(frozen=True, kw_only=True)
class WinogradBlocks(Method):
    """F(m x m, 3 x 3) for images (N, C, H, W) of one shape.

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
        """Filters, transformed: a matrix for each element and group."""
        return self.stages.filters(w, turned)

    def workspace(self) -> tuple[int, int]:
        """Elements of workspace to ask for, and the fewest that are of use: those of a block."""
        blocks = -(-self.stages.total // self._tiles)
        most = max(1, most_workspace(self.device) // self.workspace_kind.itemsize // self._each)
        return min(blocks, most) * self._each, self._each

    def run(
        self, x: Any, filters: Any, out: Any, bias: Any, activation: Function, workspace: Any
    ) -> None:
        """Makes results from transformed filters."""
        total, step = self.stages.total, workspace.shape[0] // self._each
        for first in range(0, total, step * self._tiles):
            blocks = min(step, -(-(total - first) // self._tiles))
            self._convolve(x, filters, out, bias, activation, workspace, first, blocks)

    def _convolve(
        self,
        x: Any,
        u: Any,
        out: Any,
        bias: Any,
        activation: Function,
        workspace: Any,
        first: int,
        blocks: int,
    ) -> None:
        """The results of so many blocks."""
        items, (elements, depth) = blocks * self._items, self._extents
        size = (items, elements, depth, self._tiles)
        room = workspace[: items * elements * depth * self._tiles]
        v = self.device.namespace().reshape(room, size)

        def use(plan: BlockPlan) -> None:
            convolve_blocks[groups(items), 1](
                x,
                u,
                v,
                out,
                bias,
                self.stages.tiles_from(first),
                self._parts,
                PLAN=plan,
                ACTIVATION=activation,
                ACC=self.workspace_kind,
            )

        first_accepted(self._plans, use)

    @cached_property
    def _plans(self) -> tuple[BlockPlan, ...]:
        by, padding = self.stages.by, self.shape.window.padding
        return tuple(BlockPlan(by, padding, Tiling.of(choice)) for choice in self._choices)

    @cached_property
    def _choices(self) -> tuple[Parameters, ...]:
        if self.choice is not None:
            return (self.choice,)
        can, kind, shape = self.device.capabilities, self.workspace_kind, self.shape
        return winograd_choices(can, kind, shape, self.stages.total, shape.groups, state())

    @cached_property
    def _tiles(self) -> int:
        """Tiles of a block."""
        return int(self._choices[0]["BN"])

    @cached_property
    def _extents(self) -> tuple[int, int]:
        """Elements of a tile, and channels of a group."""
        return self.stages.by.inputs**2, max(1, self.shape.channels // self.shape.groups)

    @cached_property
    def _parts(self) -> int:
        """Work-items for a block and group: more of them transform the same tiles again."""
        shape, rows = self.shape, int(self._choices[0]["BM"])
        filters = -(-shape.filters // shape.groups // rows)
        units = max(1, self.device.capabilities.compute_units)
        blocks = -(-self.stages.total // self._tiles) * shape.groups

        def cost(parts: int) -> int:
            return -(-blocks * parts // units) * (_TRANSFORM + -(-filters // parts) * rows)

        return min(range(1, max(1, min(filters, units)) + 1), key=cost)

    @property
    def _items(self) -> int:
        """Work-items for a block."""
        return self._parts * self.shape.groups

    @cached_property
    def _each(self) -> int:
        """Elements of workspace for a block."""
        elements, depth = self._extents
        return self._items * elements * depth * self._tiles
