"""The launches of direct convolution whose lanes are pixels, and the tiles that cost least."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf, prod
from typing import Any, Final

from portable.conv.direct.lane_kernels import (
    MOST_UNROLLED,
    LanePlan,
    RowBlocks,
    convolve_rows,
    pack_lane_filters,
)
from portable.conv.direct.product import is_product
from portable.conv.geometry import Pair
from portable.conv.layouts import as_nchw, in_c_order, in_rows
from portable.conv.method import Epilogue, Method, activated
from portable.dtypes import DType
from portable.lang.launch.enqueued import enqueue
from portable.lang.launch.geometry import groups
from portable.linalg.products.rows import copy_into

_SUMS: Final = 3 / 4
"""The part of the registers that hold sums."""

_CACHE: Final = 2**18
"""Bytes of what a block sees that stay in a core's cache beside filters."""

_BESIDE: Final = 4
"""Registers beside those of sums that hold pixels."""

_UNALIGNED: Final = 2.0
"""Loads that a vector of pixels counts for, since most lie in two lines of the cache."""

_LOADED: Final = 0.15
"""What a load costs beside products that hide it."""

_NEAREST: Final = 2**15
"""Bytes of a block that stay in the nearest cache beside filters."""

_STREAMED: Final = 2.0
"""Cycles in which a vector of pixels comes from the next one."""

_CALM: Final = 0.7
"""The part of the registers whose use costs nothing else."""

_CROWDED: Final = 1.1
"""What it costs to use more of them."""

_LATENCY: Final = 4.75
"""Cycles after which a sum can be added to again, in products of vectors."""

_PACKED: Final = 0.5
"""Cycles in which a pixel is copied."""

_WRITTEN: Final = 14.0
"""Cycles for a vector of results."""

_WRITTEN_WHOLE: Final = 4.0
"""The same for whole tiles of results that are neighbours."""

_RUN: Final = 300.0
"""Cycles until a filter's rows of a block go to memory, of which caches fetch long runs ahead: 3 x
3 of 4 to 320 channels of 64 x 64 took 4.1 ms a row at a time, 2.1 all rows at once."""

_ACROSS: Final = 128
_STEP: Final = 16
"""Of what rows are multiples, of one tap, and how long they are at most."""

_ROW: Final = 12
"""Pixels for which it takes as long to begin a row."""

_ITEMS: Final = 2
"""Work-items for each core."""

_SHARES: Final = (1, 2, 3, 4, 5, 6, 7, *(k * 2**n for n in range(14) for k in (8, 10, 12, 14)))
"""Into how many parts the rows of images, or filters, may be cut."""


@dataclass(frozen=True)
class Lanes(Method):
    """Convolution of any window and groups; what blocks see is copied, zeros outside of images."""

    @property
    def workspace_kind(self) -> DType:
        """The type to sum in."""
        return self.kind.register

    def workspace(self) -> tuple[int, int]:
        """Elements of workspace: what a block of each work-item sees."""
        return (prod(self._extents),) * 2

    def filters(self, w: Any, turned: bool = False) -> Any:
        """Filters in panels."""
        shape, plan = self.shape, self.plan
        extents = shape.groups, self._panels, self._depth, *shape.window.taps, plan.filters
        u = self.device.empty(extents, self.workspace_kind)
        if self._depth:
            filters = shape.groups * self._panels * plan.filters
            enqueue(pack_lane_filters[(self._depth, filters), None], w, u, TURNED=turned)
        return u

    def run(self, x: Any, filters: Any, out: Any, epilogue: Epilogue, workspace: Any) -> None:
        """Makes results."""
        device, space = self.device, self.device.namespace()
        x, out = (as_nchw(device, a, self.layout) for a in (x, out))
        residual, target = epilogue.residual_nchw(device, self.layout), out
        if self._flat:
            count = prod(self.shape.result)
            target = in_rows(device, out, count, written=True)
            residual = residual if residual is None else in_rows(device, residual, count)
        if self._rows != self.shape.result:
            x = in_rows(device, x, self._rows[1])
        v = space.reshape(workspace[: prod(self._extents)], self._extents)
        bias, activation, _ = epilogue
        plan = activated(self.plan, activation)
        launcher = convolve_rows[groups(self._extents[0]), 1]
        enqueue(launcher, x, filters, v, target, bias, residual, self.blocks, PLAN=plan)
        if self._flat and not in_c_order(device, out):
            copy_into(space.reshape(target, out.shape), out)

    @property
    def plan(self) -> LanePlan:
        """How work-items take tiles."""
        return self._chosen[0]

    @property
    def blocks(self) -> RowBlocks:
        """How images are cut."""
        return self._chosen[1]

    @cached_property
    def _chosen(self) -> tuple[LanePlan, RowBlocks]:
        """The plan and blocks by which the last core is done first."""
        units = max(1, self.device.capabilities.compute_units)
        shares = [n for n in _SHARES if n <= min(units, self._filters)]
        least, tiles = inf, self._tiles()
        for blocks in self._cuts():
            count = self._count(blocks)
            for plan in tiles:
                packed, panel = self._costs(plan, blocks)
                panels = -(-self._filters // plan.filters)
                for n in shares:
                    cost = -(-count * n // units) * (packed - (-panels // n) * panel)
                    if cost < least:
                        least, chosen = cost, (plan, blocks._replace(parts=n))
        return chosen

    def _count(self, blocks: RowBlocks) -> int:
        """Blocks of all images and groups, each of a part of the filters."""
        down = -(-self._rows[0] // blocks.rows)
        return int(self.shape.images * down * self.shape.groups * blocks.parts)

    def _tiles(self) -> list[LanePlan]:
        """Tiles of filters by vectors whose sums fill the registers, or most of them."""
        can, filters = self.device.capabilities, self.shape.filters // self.shape.groups
        registers = int(_SUMS * can.most_vectors)
        lanes = max(2, min(16, can.vector_bytes // self.workspace_kind.itemsize))
        base = LanePlan(self.shape.window, self._phases, 1, 1, lanes, flat=self._flat)
        return [
            base._replace(filters=f, vectors=v)
            for v in range(1, 9)
            for f in range(1, min(filters, registers // v) + 1)
            if f * v + v <= registers + _BESIDE
        ]

    @cached_property
    def _phases(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Which phases of the stride taps see; where a loop counts them, all those of rows."""
        window = self.shape.window
        places = zip(window.taps, window.dilation, window.stride, strict=True)
        rows, columns = (tuple(sorted({t * d % s for t in range(n)})) for n, d, s in places)
        if window.count > MOST_UNROLLED:
            rows = tuple(range(window.stride[0]))
        return rows, columns

    def _cuts(self) -> list[RowBlocks]:
        """Blocks of rows that a core's cache holds, of all filters."""
        height, width = self._rows
        more = self._halo
        each = self._depth * prod(map(len, self._phases)) * self.workspace_kind.itemsize
        cuts = []
        for rows in sorted({1, *(-(-height // n) for n in _SHARES if n <= height)}):
            seen = rows + more[0], width + more[1]
            if rows == 1 or prod(seen) * each <= _CACHE:
                cuts.append(RowBlocks(rows, *seen, 1, self._filters, self._rows))
        return cuts

    def _costs(self, plan: LanePlan, blocks: RowBlocks) -> tuple[float, float]:
        """Cycles for a block's pixels, and for products and results of a panel of filters."""
        shape = self.shape
        pixels = (blocks.rows - 1) * blocks.width + self._rows[1]
        tiles = -(-pixels // plan.pixels)
        sums = plan.filters * plan.vectors
        loads = plan.filters + _UNALIGNED * plan.vectors
        each = max(sums + _LOADED * loads, loads, _LATENCY * 2) / 2
        seen = self._depth * len(plan.planes) * blocks.height * blocks.width
        if seen * self.workspace_kind.itemsize > _NEAREST:
            shared = len(plan.phases[1]) / shape.window.taps[1]
            each = max(each, _STREAMED * shared * plan.vectors)
        if sums + plan.vectors > _CALM * self.device.capabilities.most_vectors:
            each *= _CROWDED
        steps = self._depth * shape.window.count
        packed = self._depth * len(plan.planes) * blocks.height * (blocks.width + _ROW) * _PACKED
        written, begun = (_WRITTEN_WHOLE, 0.0) if self._flat else (_WRITTEN, _RUN)
        return packed, tiles * (each * steps + written * sums) + begun * plan.filters

    @cached_property
    def _extents(self) -> tuple[int, int, int]:
        """Of the workspace: work-items, channels, and what is seen of each."""
        blocks = self.blocks
        items = min(self._count(blocks), _ITEMS * max(1, self.device.capabilities.compute_units))
        line = 64 // self.workspace_kind.itemsize
        seen = (len(self.plan.planes) * blocks.height + 1) * blocks.width + self.plan.pixels
        return items, self._depth, -(-seen // line) * line + line

    @cached_property
    def _halo(self) -> Pair:
        """Rows and columns of a plane that taps see beyond results."""
        window = self.shape.window
        each = zip(window.taps, window.dilation, window.stride, strict=True)
        down, across = ((n - 1) * d // s for n, d, s in each)
        return down, across

    @cached_property
    def _flat(self) -> bool:
        """Whether results of rows are neighbours both in memory and as they are summed."""
        return self.layout == "NCHW" and self._halo[1] == 0

    @cached_property
    def _rows(self) -> Pair:
        """Rows and columns of results as they are summed: of one tap, rows of whole vectors."""
        shape = self.shape
        if not (self._flat and is_product(shape) and shape.window.stride == (1, 1)):
            return shape.result
        count = prod(shape.result)
        across = next((n for n in range(_ACROSS, 0, -_STEP) if count % n == 0), count)
        fits = across * shape.channels * self.workspace_kind.itemsize <= _CACHE
        return (count // across, across) if fits else shape.result

    @property
    def _filters(self) -> int:
        """Of a group."""
        return self.shape.filters // self.shape.groups

    @property
    def _panels(self) -> int:
        """Panels of a group's filters."""
        return -(-self._filters // self.plan.filters)

    @property
    def _depth(self) -> int:
        """Channels of a group."""
        return self.shape.channels // self.shape.groups
