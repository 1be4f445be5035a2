"""Direct convolution of few channels a group, depthwise among it, bound by memory.

A work-item makes a small tile of neighbouring results of some filters of a group in registers: it
reads each row that these see once, and each pixel is used for all of them. Neighbouring
work-items read and write neighbouring memory: channels where these are neighbours, else pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import gcd, prod
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.conv.direct.box_kernels import arrange
from portable.conv.geometry import Geometry, Pair, Window
from portable.conv.layouts import as_nchw
from portable.conv.method import Epilogue, Method, activated
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.enqueued import enqueue
from portable.linalg.products.kernels import keep


class GroupPlan(NamedTuple):
    """How work-items take results, a constant of kernels.

    Attributes
    ----------
    window : Window
    tile : (int, int)
        Rows and columns of results of a work-item.
    filters, lanes : int
        Vectors of filters of a work-item, all of one group, and filters of a vector.
    depth : int
        Channels of a group.
    depthwise : bool
        Whether groups have one channel and one filter, so that lanes are groups.
    channels_fast : bool
        Whether neighbouring work-items take neighbouring filters, else neighbouring columns.
    activation : Function
        What becomes of results.
    lanewise : bool
        Whether that may be given vectors.
    """

    window: Window
    tile: Pair
    filters: int
    lanes: int
    depth: int
    depthwise: bool
    channels_fast: bool
    activation: Any
    lanewise: bool

    @property
    def seen(self) -> Pair:
        """Rows and columns of pixels that a tile sees."""
        w = self.window
        each = zip(self.tile, w.stride, w.taps, w.dilation, strict=True)
        down, across = ((n - 1) * s + (t - 1) * d + 1 for n, s, t, d in each)
        return down, across

    @property
    def uses(self) -> tuple[tuple[Pair, ...], ...]:
        """For each of these rows, the rows of results that see it, and by which row of taps."""
        return self._uses(0)

    @property
    def across(self) -> tuple[tuple[Pair, ...], ...]:
        """The same for columns."""
        return self._uses(1)

    @property
    def columns(self) -> tuple[int, ...]:
        """Columns of pixels that are seen at all."""
        return tuple(j for j, users in enumerate(self.across) if users)

    def _uses(self, d: int) -> tuple[tuple[Pair, ...], ...]:
        stride, spread = self.window.stride[d], self.window.dilation[d]
        users: list[list[Pair]] = [[] for _ in range(self.seen[d])]
        for y, r in product(range(self.tile[d]), range(self.window.taps[d])):
            users[y * stride + r * spread].append((y, r))
        return tuple(map(tuple, users))


class Tile(NamedTuple):
    """A tile of results: its image, first row and column, and first filter."""

    image: Any
    row: Any
    column: Any
    filter: Any


@kernel
def convolve_groups(
    x: kl.Array,
    w: kl.Array,
    out: kl.Array,
    bias: kl.Array | None,
    residual: kl.Array | None,
    groups: kl.Scalar,
    *,
    PLAN: GroupPlan,
) -> None:
    """A work-item for each tile of results of each image for some filters.

    Images `x` (N, C, H, W), results `out` and `residual` have any strides; filters `w` are (R, S, C
    / groups, K).
    """
    at, exists = tile_of(kl.global_id(0), out, PLAN)
    if exists:
        F, L, (DOWN, ACROSS) = PLAN.filters, PLAN.lanes, PLAN.tile
        sums = kl.private((F * DOWN * ACROSS,), w.dtype, lanes=L, fill=0)
        group = at.filter // (out.shape[1] // groups)
        for c in range(PLAN.depth):
            add_channel(sums, x, w, at, (group, c), PLAN)
        for f, i in product(kl.static_range(F), kl.static_range(DOWN)):
            for j in kl.static_range(ACROSS):
                y, z = at.row + i, at.column + j
                if y < out.shape[2] and z < out.shape[3]:
                    corner = at.image, at.filter + f * L, y, z
                    value = sums[(f * DOWN + i) * ACROSS + j]
                    put_result(value, out, corner, bias, residual, PLAN)


@function
def tile_of(index: kl.Scalar, out: kl.Array, PLAN: GroupPlan) -> Any:
    """The tile of a work-item, and whether it has one."""
    down, across = kl.cdiv(out.shape[2], PLAN.tile[0]), kl.cdiv(out.shape[3], PLAN.tile[1])
    panels = out.shape[1] // (PLAN.filters * PLAN.lanes)
    exists = index < out.shape[0] * down * across * panels
    if PLAN.channels_fast:
        panel, rest = index % panels, index // panels
        column, rest = rest % across, rest // across
        row, n = rest % down, rest // down
    else:
        column, rest = index % across, index // across
        row, rest = rest % down, rest // down
        panel, n = rest % panels, rest // panels
    first = panel * PLAN.filters * PLAN.lanes
    return Tile(n, row * PLAN.tile[0], column * PLAN.tile[1], first), exists


@function
def add_channel(
    sums: kl.Array,
    x: kl.Array,
    w: kl.Array,
    at: Tile,
    channel: tuple[kl.Scalar, ...],
    PLAN: GroupPlan,
) -> None:
    """Adds the products of a group's channel to a tile of sums."""
    (group, c), L, SEEN = channel, PLAN.lanes, PLAN.seen[1]
    DOWN, ACROSS = PLAN.tile
    EACH = PLAN.depthwise and L > 1
    first = at.filter if EACH else group * PLAN.depth + c
    y = at.row * PLAN.window.stride[0] - PLAN.window.padding[0]
    z = at.column * PLAN.window.stride[1] - PLAN.window.padding[1]
    STRIDE, SPREAD = PLAN.window.stride[1], PLAN.window.dilation[1]
    pixels = kl.private((SEEN,), w.dtype, lanes=L)
    for i in kl.static_range(PLAN.seen[0]):
        if len(PLAN.uses[i]) > 0:
            read_row(pixels, x, (at.image, first, y + i, z), EACH, PLAN)
            for u in kl.static_range(len(PLAN.uses[i])):
                ROW, TAP = PLAN.uses[i][u]
                TAPS = PLAN.window.taps[1]
                for s, f in product(kl.static_range(TAPS), kl.static_range(PLAN.filters)):
                    weights = kl.vload(w, TAP, s, c, at.filter + f * L, lanes=L)
                    for j in kl.static_range(ACROSS):
                        slot = (f * DOWN + ROW) * ACROSS + j
                        sums[slot] = kl.fma(weights, pixels[j * STRIDE + s * SPREAD], sums[slot])


@function
def read_row(
    pixels: kl.Array, x: kl.Array, at: tuple[kl.Scalar, ...], EACH: bool, PLAN: GroupPlan
) -> None:
    """The pixels of a row that a tile sees, of a channel or of neighbouring ones, zeros outside.

    What lies outside is read from the edge and replaced: loads that no condition holds back are
    all under way at once.
    """
    (n, first, y, z), L = at, PLAN.lanes
    inside, line = y >= 0 and y < x.shape[2], kl.clip(y, 0, x.shape[2] - 1)
    for t in kl.static_range(len(PLAN.columns)):
        J = PLAN.columns[t]
        column = kl.clip(z + J, 0, x.shape[3] - 1)
        there = inside and z + J >= 0 and z + J < x.shape[3]
        if EACH:
            value = kl.vload(x, n, first, line, column, lanes=L, axis=1)
            pixels[J] = kl.where(there, value, kl.splat(pixels.dtype(0), L))
        else:
            value = pixels.dtype(x[n, first, line, column])
            value = kl.where(there, value, pixels.dtype(0))
            pixels[J] = kl.splat(value, L) if L > 1 else value


@function
def put_result(
    value: kl.Scalar,
    out: kl.Array,
    position: tuple[kl.Scalar, ...],
    bias: kl.Array | None,
    residual: kl.Array | None,
    PLAN: GroupPlan,
) -> None:
    """Finishes a result, or a vector of them, and writes it."""
    (n, k, y, z), L = position, PLAN.lanes
    if L == 1 or PLAN.lanewise:
        if bias is not None:
            value = value + kl.vload(bias, k, lanes=L)
        if residual is not None:
            value = value + kl.vload(residual, n, k, y, z, lanes=L, axis=1)
        kl.vstore(out, n, k, y, z, PLAN.activation(value), axis=1)
    else:
        for t in kl.static_range(L):
            one = value[t]
            if bias is not None:
                one += one.dtype(bias[k + t])
            if residual is not None:
                one += one.dtype(residual[n, k + t, y, z])
            out[n, k + t, y, z] = PLAN.activation(one)


_MOST_CHANNELS: Final = 8
"""Channels of a group up to which products are few beside what is read."""

_MOST_OF_CROWDS: Final = 16
"""The same without matrix units, where many work-items share a core: 3 x 3 of 16 took 0.45 of the
time of a product on an H200, 0.66 of F(4 x 4)'s."""

_MOST_PRODUCTS: Final = 800
"""Of a work-item that are unrolled, in vectors."""

_DEEPEST: Final = 512
"""Products of a result of few channels that work-items make. Tiles of a product that is gathered
took 1.1 to 2 times as long on an H200 for 3 channels (4 x 4 taps apart 1.8, 7 x 7 with stride 2
1.1), windows written out for a product 0.8 to 2 times."""

_MOST_STRIDED: Final = 24
_FEW_FILTERS: Final = 40
_FEW_TAPS: Final = 25
"""Channels up to which, with strides, one tap and other taps of few filters go so: on an H200 one
tap of 16 to 448 channels took 3.2 us instead of 9, 5 x 5 of 24 to 24 62 instead of 162."""

_FEWEST_ALIGNED: Final = 4
"""Channels up to which rows of halves are no operand of matrix units: one tap of 3 to 112 channels
of 32 images of 112 x 112 took 28 us instead of 187 so on an H200."""

_WIDE: Final = 16
"""Bytes of a vector of filters that neighbouring work-items read for other pixels."""

_OF_AN_ITEM: Final = ((6, (4, 1)), (4, (2, 2)), (6, (2, 1)), (4, (1, 1)), (2, (1, 1)))
"""Such vectors, and results, of a work-item: the most that leave enough work-items, or one each."""

_OF_A_WIDE_ITEM: Final = (4, (2, 2))
_WIDEST: Final = 100
"""The same for windows of more bytes, whatever work-items that leaves: of larger tiles ptxas holds
next to nothing in registers. 7 x 7 with stride 2 of 3 to 64 channels of 224 x 224 took 23, 83 and
312 us of 1, 8 and 32 images so on an H200, with four results in a column 2,494 and 11,099 us of 8
and 32; 5 x 5 of doubles spilt 18 KB a work-item."""

_WITH_CHANNELS_LAST: Final = ((1, (1, 8)),)
"""The same of neighbouring results: of 4 or of two rows it took as long, of 2 x 4 vectors twice."""

_ENOUGH: Final = 320
"""Work-items of a compute unit."""

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


def is_first_layer(shape: Geometry, last: bool = False) -> bool:
    """Whether few channels are all there are, and products few beside what is written.

    Parameters
    ----------
    shape : Geometry
    last : bool
        Whether channels are neighbours, of which matrix units read rows that are aligned.
    """
    if shape.groups > 1 or not 0 < shape.channels <= _MOST_STRIDED:
        return False
    strided, one = shape.window.stride != (1, 1), shape.window.count == 1
    if last:
        return one and shape.channels <= _FEWEST_ALIGNED
    if shape.channels > _MOST_CHANNELS:
        few = shape.filters <= _FEW_FILTERS and shape.window.count <= _FEW_TAPS
        return strided and (one or few)
    return shape.depth <= _DEEPEST and (strided or not one)


@dataclass(frozen=True)
class Grouped(Method):
    """Convolution of few channels a group, of any window."""

    def filters(self, w: Any, turned: bool = False) -> Any:
        """Filters (R, S, C / groups, K) in the type to sum in."""
        shape = self.shape
        depth, each = shape.channels // shape.groups, shape.filters // shape.groups
        extents = (shape.window.count, depth, shape.groups, each)
        room = self.device.empty(extents, self.kind.register)
        arrange(w, room, each, turned=turned)
        return self.device.namespace().reshape(room, (*shape.window.taps, depth, shape.filters))

    def run(self, x: Any, filters: Any, out: Any, epilogue: Epilogue, workspace: Any) -> None:
        """Makes results."""
        x, out = (as_nchw(self.device, a, self.layout) for a in (x, out))
        residual = epilogue.residual_nchw(self.device, self.layout)
        plan = activated(self.plan, epilogue.activation)
        alone = self.device.capabilities.single_work_items
        launcher = convolve_groups[self._items(plan), None if alone else _WORKGROUP]
        enqueue(launcher, x, filters, out, epilogue.bias, residual, self.shape.groups, PLAN=plan)

    def _items(self, plan: GroupPlan) -> int:
        """Work-items: one for each tile of results of an image and filters."""
        places = zip(self.shape.result, plan.tile, strict=True)
        tiles = prod(-(-n // extent) for n, extent in places)
        return self.shape.images * tiles * (self.shape.filters // (plan.filters * plan.lanes))

    @cached_property
    def plan(self) -> GroupPlan:
        """How work-items take results."""
        if self.shape.groups == 1:
            return self._plan_of_first_layers
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

    @property
    def _plan_of_first_layers(self) -> GroupPlan:
        """Of many filters, whose vectors are read for all results of a work-item."""
        shape, (height, width) = self.shape, self.shape.result
        fast = self.layout == "NHWC"
        lanes = gcd(shape.filters, _WIDE // (self.kind if fast else self.kind.register).itemsize)
        base = GroupPlan(
            shape.window, (1, 1), 1, lanes, shape.channels, False, fast, keep, lanewise=True
        )
        plans, wide = [], shape.window.count * self.kind.register.itemsize > _WIDEST
        tiles = _WITH_CHANNELS_LAST if fast else (_OF_A_WIDE_ITEM,) if wide else _OF_AN_ITEM
        for most, (down, across) in tiles:
            filters = max(n for n in range(1, most + 1) if shape.filters // lanes % n == 0)
            tile = min(down, height), min(across, width)
            if filters * prod(tile) * shape.window.count <= _MOST_PRODUCTS:
                plans.append(base._replace(filters=filters, tile=tile))
        enough = 0 if wide else _ENOUGH * self.device.capabilities.compute_units
        return next((p for p in plans if self._items(p) >= enough), base)

    def _lanes(self, filters: int) -> int:
        """Neighbouring filters of a vector, which divide those that there are."""
        can = self.device.capabilities
        room = can.vector_bytes if can.single_work_items else _PER_ITEM
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
