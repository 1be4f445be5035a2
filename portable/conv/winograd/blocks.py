"""Winograd's convolution where a work-item has a processor's core to itself, all stages in one.

Local memory of other devices is too small for it: a block's transformed tiles of all channels, and
its sums of all elements, are larger than that, and `winograd` takes the stages one after the other.

What is transformed stays in the core's caches: a block of tiles of all channels is transformed,
multiplied with the filters, a panel of them at a time, and their results are transformed back.
Vectors hold neighbouring tiles. Neither operand of the products is copied: filters lie as they are
read, panel after panel, since there are few tiles for each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.conv.geometry import Pair
from portable.conv.method import Epilogue, Method, activated, most_workspace
from portable.conv.tuning import tiles_of_blocks
from portable.conv.winograd.kernels import transformed_filter, weighted
from portable.conv.winograd.points import Transforms
from portable.conv.winograd.winograd import Winograd
from portable.dtypes import DType
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.enqueued import enqueue
from portable.lang.launch.geometry import groups
from portable.linalg.products.kernels import keep
from portable.tune.table import state

LANES: Final = 16
"""Tiles of a vector; those of a block are a multiple."""

_FEW: Final = 8
"""Elements of the vectors by which shorter lines are copied."""

_EVEN: Final = tuple(range(0, 2 * LANES, 2))
_ODD: Final = tuple(range(1, 2 * LANES, 2))


# -- tiles of images, and back to results ---------------------------------------------------------


class Runs(NamedTuple):
    """Runs of a block's tiles that are neighbours in a row of tiles of an image.

    Attributes
    ----------
    table : array (T, 5)
        Of each run its first tile, the image, the first row and column of its results, and how many
        tiles it has.
    places : array (T,)
        Of each tile, where it begins in a line in which those of all runs lie one after the other.
    count : int
        How many there are.
    """

    table: Any
    places: Any
    count: Any


@function
def find_runs(x: kl.Array, tiles: Any, start: kl.Scalar, PLAN: Any) -> Any:
    """Those of a block from tile `start` on; tiles beyond the last one of `x` are in none."""
    R, S, T = PLAN.by.results, PLAN.by.inputs, PLAN.tiles
    table, places = kl.private((T, 5), kl.i32), kl.private(T, kl.i32)
    count, t = 0, 0
    while t < T:
        n, row, column = tiles.place(start + t)
        many = kl.minimum(T - t, tiles.across - column)
        for k in range(t, t + many):
            places[k] = k * R + count * (S - R)
        if n < x.shape[0]:
            table[count, 0], table[count, 1], table[count, 4] = t, n, many
            table[count, 2], table[count, 3] = row * R, column * R
            count += 1
        t += many
    return Runs(table, places, count)


@function
def transform_tiles(x: kl.Array, v: kl.Array, runs: Runs, first: kl.Scalar, PLAN: Any) -> None:
    """``v[e, c, t]`` is element e of a block's transformed tile t of channel ``first + c``.

    The last channel of `v` stays as it is.
    """
    BY, T, S = PLAN.by, PLAN.tiles, PLAN.by.inputs
    WIDTH = 4 if S <= 4 else 8
    lines = kl.private((S, T * S + LANES), v.dtype)
    for i in range(S):
        for j in range(0, T * S + LANES, LANES):
            kl.vstore(lines, i, j, kl.splat(v.dtype(0), LANES))
    for c in range(v.shape[1] - 1):
        copy_lines_of_images(x, lines, runs, first + c, PLAN)
        for t in range(0, T, LANES):
            half = kl.private((S, S), v.dtype, lanes=LANES)
            for i in range(S):
                columns = turned(
                    tuple(
                        beginnings(lines[i], runs.places, t + q * LANES // WIDTH, WIDTH)
                        for q in range(WIDTH)
                    )
                )
                for j in kl.static_range(S):
                    half[i, j] = weighted(BY.input[j], columns)
            for j in range(S):
                for i in kl.static_range(S):
                    kl.vstore(v, i * S + j, c, t, weighted(BY.input[i], half[0:S, j]))


@function
def copy_lines_of_images(
    x: kl.Array, lines: kl.Array, runs: Runs, channel: kl.Scalar, PLAN: Any
) -> None:
    """What all runs see of a channel; what lies outside is left as it is, zero."""
    R, S = PLAN.by.results, PLAN.by.inputs
    for s in range(runs.count):
        t, n, many = runs.table[s, 0], runs.table[s, 1], runs.table[s, 4]
        y, z = runs.table[s, 2] - PLAN.padding[0], runs.table[s, 3] - PLAN.padding[1]
        left = kl.maximum(0, -z)
        width = kl.minimum(many * R + S - R, x.shape[3] - z) - left
        for i in range(kl.maximum(0, -y), kl.minimum(S, x.shape[2] - y)):
            copy_line(x[n, channel, y + i], z + left, lines[i], runs.places[t] + left, width)


@function
def copy_line(
    source: kl.Array, at: kl.Scalar, target: kl.Array, to: kl.Scalar, count: kl.Scalar
) -> None:
    """Copies neighbours by vectors, of which the last may overlap the one before."""
    if count >= LANES:
        for j in range(0, count, LANES):
            part = kl.minimum(j, count - LANES)
            kl.vstore(target, to + part, kl.vload(source, at + part, lanes=LANES))
    elif count >= _FEW:
        for j in range(0, count, _FEW):
            part = kl.minimum(j, count - _FEW)
            kl.vstore(target, to + part, kl.vload(source, at + part, lanes=_FEW))
    else:
        for j in range(count):
            target[to + j] = source[at + j]


@function
def beginnings(line: kl.Array, places: kl.Array, t: kl.Scalar, WIDTH: int) -> Any:
    """A vector of the first elements of tiles from t on, so many of each."""
    lanes = joined(line, places, t, WIDTH)
    if 2 * WIDTH < LANES:
        rest = joined(line, places, t + 2, WIDTH)
        lanes = kl.shuffle2(lanes, rest, tuple(lane for lane in range(LANES)))
    return lanes


@function
def joined(line: kl.Array, places: kl.Array, t: kl.Scalar, WIDTH: int) -> Any:
    """The first elements of two tiles, so many of each."""
    low, high = (kl.vload(line, places[t + k], lanes=WIDTH) for k in range(2))
    return kl.shuffle2(low, high, tuple(lane for lane in range(2 * WIDTH)))


@function
def turned(vectors: Any) -> Any:
    """Lines of tiles, one after the other in vectors, as vectors of one element of all tiles."""
    turned_vectors = vectors
    for _ in kl.static_range(2 if len(vectors) == 4 else 3):
        pairs = tuple(
            (turned_vectors[q], turned_vectors[q + 1]) for q in range(0, len(turned_vectors), 2)
        )
        even = tuple(kl.shuffle2(a, b, _EVEN) for a, b in pairs)
        odd = tuple(kl.shuffle2(a, b, _ODD) for a, b in pairs)
        turned_vectors = (*even, *odd)
    return turned_vectors


@function
def finish_tiles(
    sums: kl.Array, r: kl.Scalar, out: kl.Array, beside: Any, runs: Runs, PLAN: Any
) -> None:
    """Writes a channel's results of a block of tiles from the r-th of the sums.

    `beside` them are the channel, what is added to all of it, and to each, or None.
    """
    channel, added, residual = beside
    R, T = PLAN.by.results, PLAN.tiles
    lines = kl.private((R, T * R), sums.dtype)
    for t in range(0, T, LANES):
        results_of_vector(lines, sums, r, t, added, PLAN.by)
    if residual is not None:
        for s in range(runs.count):
            t, n, many = runs.table[s, 0], runs.table[s, 1], runs.table[s, 4]
            y, z = runs.table[s, 2], runs.table[s, 3]
            for i in range(kl.minimum(R, out.shape[2] - y)):
                for j in range(kl.minimum(many * R, out.shape[3] - z)):
                    lines[i, t * R + j] += lines.dtype(residual[n, channel, y + i, z + j])
    if PLAN.activation is not keep:
        for i in range(R):
            for j in range(T * R):
                lines[i, j] = PLAN.activation(lines[i, j])
    for s in range(runs.count):
        t, n, many = runs.table[s, 0], runs.table[s, 1], runs.table[s, 4]
        y, z = runs.table[s, 2], runs.table[s, 3]
        width = kl.minimum(many * R, out.shape[3] - z)
        for i in range(kl.minimum(R, out.shape[2] - y)):
            copy_line(lines[i], t * R, out[n, channel, y + i], z, width)


@function
def results_of_vector(
    lines: kl.Array, sums: kl.Array, k: kl.Scalar, t: kl.Scalar, added: kl.Scalar, BY: Transforms
) -> None:
    """Lines of the results of the tiles from t on, each tile's next to those of the one before."""
    R, S = BY.results, BY.inputs
    half = kl.private((R, S), sums.dtype, lanes=LANES)
    for j in range(S):
        column = tuple(kl.vload(sums, i * S + j, k, t, lanes=LANES) for i in range(S))
        for i in kl.static_range(R):
            half[i, j] = weighted(BY.output[i], column)
    for i in range(R):
        line = tuple(weighted(BY.output[j], half[i, 0:S]) + added for j in range(R))
        for q in kl.static_range(R):
            kl.vstore(lines, i, t * R + q * LANES, merged(line, q))


@function
def merged(vectors: tuple[kl.Scalar, ...], q: int) -> Any:
    """Vector `q` of all lanes: the first lane of each vector, then the second of each, ..."""
    count = len(vectors)
    merged_vector = vectors[0]
    for j in kl.static_range(count):
        merged_vector = kl.shuffle2(
            merged_vector,
            vectors[j],
            tuple(
                LANES + (q * LANES + lane) // count if (q * LANES + lane) % count == j else lane
                for lane in range(LANES)
            ),
        )
    return merged_vector


# -- kernels --------------------------------------------------------------------------------------

_AHEAD: Final = 512
"""Elements of filters that are brought to a core's caches before they are multiplied."""


class BlockPlan(NamedTuple):
    """How a work-item convolves a block, a constant of kernels.

    Attributes
    ----------
    by : Transforms
    padding : (int, int)
        Rows and columns of zeros on each side of images.
    tiles : int
        Of a block.
    filters, vectors : int
        Filters of a panel, and vectors of tiles, whose products are summed in registers.
    activation : Function
        What becomes of results.
    """

    by: Transforms
    padding: Pair
    tiles: int
    filters: int
    vectors: int
    activation: Any = keep


@kernel
def pack_filters(w: kl.Array, u: kl.Array, *, BY: Transforms, TURNED: bool) -> None:
    """``u[g, p, e, c, r]`` is element e of the transformed filter ``p R + r`` of group g.

    Panels have R filters; what the last one lacks is zero. Filters `w`, `TURNED` or not, are as of
    `portable.conv.winograd.kernels.transform_filters`.
    """
    c, at = kl.global_id(0), kl.global_id(1)
    panels, depth, R = u.shape[1], u.shape[3], u.shape[4]
    g, k = at // (panels * R), at % (panels * R)
    if c < depth and g < u.shape[0]:
        filters = w.shape[1] if TURNED else w.shape[0] // u.shape[0]
        p, r = k // R, k % R
        if k < filters:
            filter_number = g * filters + k
            full = transformed_filter(w, filter_number, c, (filters, depth), BY, TURNED, u.dtype)
            for e in kl.static_range(BY.inputs * BY.inputs):
                u[g, p, e, c, r] = full[e // BY.inputs, e % BY.inputs]
        else:
            for e in range(u.shape[2]):
                u[g, p, e, c, r] = 0


@kernel
def convolve_blocks(
    x: kl.Array,
    u: kl.Array,
    v: kl.Array,
    out: kl.Array,
    bias: kl.Array | None,
    residual: Any,
    tiles: Any,
    parts: kl.Scalar,
    *,
    PLAN: BlockPlan,
) -> None:
    """The results of tiles ``first + b T`` to ``first + (b + 1) T``, some work-items per block b.

    Each of the `parts` work-items of a block and group makes the results of some panels of filters.
    Images, results and the tiles' places are as of `portable.conv.winograd.kernels`, filters `u` as
    of `pack_filters`; ``v[i]`` is room for work-item i to keep transformed tiles (elements,
    channels, T), with a channel more: elements a power of two apart would share few lines of a
    cache.
    """
    R, T, SIZE = PLAN.filters, PLAN.tiles, PLAN.by.inputs * PLAN.by.inputs
    group = kl.group_id(0)
    part, rest = group % parts, group // parts
    g, block = rest % u.shape[0], rest // u.shape[0]
    runs = find_runs(x, tiles, block * T, PLAN)
    transform_tiles(x, v[group], runs, g * u.shape[3], PLAN)
    filters, panels = out.shape[1] // u.shape[0], kl.cdiv(u.shape[1], parts)
    sums = kl.private((SIZE, R, T), v.dtype)
    for p in range(part * panels, kl.minimum((part + 1) * panels, u.shape[1])):
        multiply_panel(sums, u, v[group], g, p, PLAN.vectors)
        for r in range(kl.minimum(R, filters - p * R)):
            channel = g * filters + p * R + r
            added = v.dtype(0 if bias is None else bias[channel])
            finish_tiles(sums, r, out, (channel, added, residual), runs, PLAN)


@function
def multiply_panel(
    sums: kl.Array, u: kl.Array, v: kl.Array, g: kl.Scalar, p: kl.Scalar, VECTORS: int
) -> None:
    """``sums[e, r, t]`` is the sum of ``u[g, p, e, c, r] * v[e, c, t]`` over channels c."""
    R, T, ACC = sums.shape[1], sums.shape[2], sums.dtype
    for e in range(sums.shape[0]):
        for t in range(0, T, VECTORS * LANES):
            totals = kl.private((R, VECTORS), ACC, lanes=LANES, fill=0)
            for c in range(u.shape[3]):
                # Only for what lies ahead of it: a filter's element is read as it is multiplied.
                kl.vload(u, g, p, e, c, 0, lanes=2, ahead=_AHEAD)
                tiles = tuple(kl.vload(v, e, c, t + q * LANES, lanes=LANES) for q in range(VECTORS))
                for r in kl.static_range(R):
                    factor = kl.splat(u[g, p, e, c, r], LANES)
                    for q in kl.static_range(VECTORS):
                        totals[r, q] = kl.fma(factor, tiles[q], totals[r, q])
            for r in kl.static_range(R):
                for q in kl.static_range(VECTORS):
                    kl.vstore(sums, e, r, t + q * LANES, totals[r, q])


# -- the way of convolving ------------------------------------------------------------------------

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
        return Winograd(self.device, self.shape, self.kind, self.layout, results=self.results)

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
        plan = activated(self.plan, activation)
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
