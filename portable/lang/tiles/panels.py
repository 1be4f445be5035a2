"""Operands packed for the micro-kernel of processors: lines of vectors, or panels of them.

A tile of M x K or K x N elements is stored as `lines`, each a row of `lanes` neighbours; which of
the operand's dimensions is which is the layout's choice. The lanes of a line may be cut into
panels of `width`, so that a micro-tile reads one stream of memory from front to back.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from math import gcd, prod
from typing import Final

from portable.backend import Capabilities
from portable.dtypes import DType
from portable.lang.ir import expressions as e
from portable.lang.ir.nodes import both, constant
from portable.lang.ir.statements import FEW
from portable.lang.ir.types import Array, Layout, vector_type
from portable.lang.tiles.lanes import divided, remainder
from portable.lang.tiles.strategy import kept_dims
from portable.lang.tiles.work import Code, add, clamp, mul

# The size of micro-tiles: what part of an accumulator a CPU keeps in its vector registers.


_MOST_LANES = 16
_MANY = 32
"""Registers, as AVX-512 and NEON have."""
_WIDE = 64
"""Bytes of a vector, as AVX-512 has them."""


@dataclass(frozen=True, slots=True)
class MicroShape:
    """A micro-tile of `rows` by `vectors` vectors of `lanes`."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        """Columns of the micro-tile."""
        return self.vectors * self.lanes

    @staticmethod
    def choose(
        capabilities: Capabilities, dtype: DType, shapes: list[tuple[int, int]], padding: bool
    ) -> MicroShape:
        """The micro-tile for accumulators of the given shapes.

        Of 32 registers for vectors of 64 bytes 12 x 2 hold sums, of 32 narrower ones 6 x 4, whose
        operands take fewer loads and leave none of LLVM's registers out; of 16 ones 6 x 2. Without
        `padding` the micro-tile divides every shape.
        """
        rows, columns = (gcd(*(shape[axis] for shape in shapes)) for axis in (0, 1))
        wide, many = capabilities.vector_bytes >= _WIDE, capabilities.most_vectors >= _MANY
        most_rows, most_vectors = 12 if many and wide else 6, 4 if many and not wide else 2
        most_lanes = min(_MOST_LANES, max(1, capabilities.vector_bytes // dtype.itemsize))
        lanes = min(most_lanes, columns & -columns)
        if padding and 4 * lanes <= most_lanes:
            lanes = min(most_lanes, 1 << (columns - 1).bit_length())
        vectors = _vectors(columns, most_vectors, lanes, padding)
        return MicroShape(_rows(rows, most_rows, padding), vectors, lanes)


def _vectors(columns: int, most: int, lanes: int, padding: bool) -> int:
    """As many as divide the columns, or of which padding leaves none without any of them."""
    while most > 1 and columns % (most * lanes) and not (padding and 2 * columns > most * lanes):
        most //= 2
    return most


def _rows(rows: int, most: int, padding: bool) -> int:
    """A divisor if a large one exists, else what wastes the fewest padded rows."""
    divisor = max(n for n in range(1, most + 1) if rows % n == 0)
    if 2 * divisor >= min(most, rows) or not padding:
        return divisor
    return min(range(most // 2, most + 1), key=lambda n: (-(-rows // n) * n, -n))


_UNROLLED: Final = 4
"""How many lines or panels of vectors are copied at a step."""


@dataclass(frozen=True, slots=True)
class Packing:
    """How an operand is stored.

    Attributes
    ----------
    lead : tuple of int
        Extents of the array's dimensions before these.
    transposed : bool
        Whether lines are the operand's columns.
    lines, lanes : int
        Extents of the operand along both.
    all_lines, all_lanes : int
        The same of the array, padding included.
    width : int
        Lanes of a panel.
    vector : int
        Lanes of a vector; divides `width`.
    panelled : bool
        Whether panels lie one behind the other.
    dims : (int, int)
        The dimensions of the array in the kernel that lines and lanes stand for.
    """

    lead: tuple[int, ...]
    transposed: bool
    lines: int
    lanes: int
    all_lines: int
    all_lanes: int
    width: int
    vector: int
    panelled: bool
    dims: tuple[int, int]

    @property
    def count(self) -> int:
        """Panels of a line."""
        return self.all_lanes // self.width

    def layout(self) -> tuple[tuple[int, ...], Layout]:
        """The shape and layout of an operand's array."""
        lanes, lines = self.count * self.width, self.all_lines
        if self.panelled:
            shape: tuple[int, ...] = (lines, self.count, self.width)
            strides: tuple[int, ...] = (self.width, lines * self.width, 1)
            size = lines * lanes
        else:
            shape, strides, size = (
                (lines, lanes),
                (lanes + self.width, 1),
                lines * (lanes + self.width),
            )
        for extent in reversed(self.lead):
            shape, strides, size = (extent, *shape), (size, *strides), size * extent
        return shape, Layout(strides, size)


@dataclass(frozen=True, slots=True)
class Panels(Packing):
    """An operand's storage.

    Attributes
    ----------
    array : Array
        Of shape (..., lines, lanes), or (..., lines, panels, width) where `panelled`.
    """

    array: Array

    def at(
        self, lead: tuple[e.Expression, ...], line: e.Expression, panel: e.Expression, lane: int
    ) -> tuple[e.Expression, ...]:
        """The index of a lane of a panel."""
        if self.panelled:
            return (*lead, line, panel, constant(lane, line.type))
        return (*lead, line, add(mul(panel, self.width), lane))

    def element(
        self, lead: tuple[e.Expression, ...], line: e.Expression, lane: e.Expression
    ) -> tuple[e.Expression, ...]:
        """The index of a single element."""
        if not self.panelled:
            return (*lead, line, lane)
        return (*lead, line, divided(lane, self.width), remainder(lane, self.width))

    def zero(self, code: Code, lead: tuple[e.Expression, ...]) -> None:
        """Sets everything to zero."""
        kind = vector_type(self.array.dtype, self.vector)
        with (
            code.loop("line", self.all_lines) as line,
            code.loop("panel", self.count, unroll=1) as panel,
        ):
            for lane in range(0, self.width, self.vector):
                code.store(self.array, self.at(lead, line, panel, lane), constant(0, kind))

    def copy(self, code: Code, lead: tuple[e.Expression, ...], source: e.Region) -> None:
        """Copies a region here; zeros where it lies outside its array, and in the padding."""
        _Copy(self, code, lead, source).run()


_Limits = tuple[e.Expression, e.Expression, e.Expression | None]
"""The first and last offset along a dimension, and whether these are all."""


class _Copy:
    """A copy into a tile: loops over the outer of joined dimensions, if any, around a rectangle."""

    def __init__(
        self, tile: Panels, code: Code, lead: tuple[e.Expression, ...], source: e.Region
    ) -> None:
        self.tile = tile
        self.code = code
        self.lead = lead
        self.source = source
        *outer, rows, columns = sorted(kept_dims(source))
        if source.transposed:
            rows, columns = columns, rows
        self.outer = outer
        self.line_dim, self.lane_dim = (columns, rows) if tile.transposed else (rows, columns)
        self.kind = source.array.dtype.register
        self.steps: dict[int, e.Expression] = {}
        self.passed: e.Expression = code.index(0)

    def run(self) -> None:
        """Zeros first where the region is not full; then the rectangle inside the array.

        Full regions have loops of their own, whose bounds compilers see: products on two cores of
        a Xeon took 0.96 of the time so.
        """
        tile, code = self.tile, self.code
        limits = {dim: self._limits(dim) for dim in (*self.outer, self.line_dim, self.lane_dim)}
        elsewhere = self._fixed_inside()
        padded = tile.all_lines > tile.lines or tile.all_lanes > tile.lanes
        full = both(*(full for _, _, full in limits.values()), elsewhere)
        if padded:
            tile.zero(code, self.lead)
        if full is None:
            self._rectangle(limits)
            return
        with code.when(full):
            self._rectangle({dim: self._whole(dim) for dim in limits})
        with code.otherwise():
            if not padded:
                tile.zero(code, self.lead)
            with code.when(elsewhere):
                self._rectangle(limits)

    def _whole(self, dim: int) -> _Limits:
        """Where all offsets along a dimension are inside."""
        return self.code.index(0), self.code.index(self.source.extents[dim] or 1), None

    def _rectangle(self, limits: dict[int, _Limits]) -> None:
        """What lies inside the limits along each dimension."""
        self.steps, self.passed = {}, self.code.index(0)
        with ExitStack() as loops:
            for dim in self.outer:
                low, high, _ = limits[dim]
                self._step(dim, loops.enter_context(self.code.loop("outer", high, low)))
            edges = (*limits[self.line_dim][:2], *limits[self.lane_dim][:2])
            if self._contiguous(self.lane_dim) and self._joined_dim() != self.lane_dim:
                self._lines(*edges)
            else:
                self._scattered(*edges)

    def _joined_dim(self) -> int | None:
        """The last of the dimensions that are counted as one."""
        return min(self.line_dim, self.lane_dim) if self.outer else None

    def _step(self, dim: int, at: e.Expression) -> None:
        """Takes a step along an outer dimension, past so much of the tile."""
        inner = [d for d in (*self.outer, self._joined_dim()) if d is not None and d > dim]
        extents = [extent or 1 for d, extent in enumerate(self.source.extents) if d in inner]
        self.steps[dim] = at
        self.passed = self.code.let("passed", add(self.passed, mul(at, prod(extents))))

    def _contiguous(self, dim: int) -> bool:
        array = self.source.array
        if array.space == "global":
            return array.strides[dim] == "unit"
        return array.layout is not None and array.layout.strides[dim] == 1

    def _limits(self, dim: int) -> _Limits:
        """The first and last offset inside the array, and whether all are."""
        code, array = self.code, self.source.array
        count = self.source.extents[dim] or 1
        zero, most = code.index(0), code.index(count)
        if array.space != "global":
            return zero, most, None
        start = self.source.starts[dim]
        kind = code.work.kernel.index_type
        left, step = e.Binary("sub", e.Extent(array, dim, kind), start), self.source.step(dim)
        high = code.let("high", _steps_to(left, step, count))
        if isinstance(start, e.Const) and start.value >= 0:
            return zero, high, e.Compare("eq", high, most)
        low = code.let("low", _steps_to(e.Unary("neg", start), step, count))
        return low, high, both(e.Compare("eq", low, zero), e.Compare("eq", high, most))

    def _fixed_inside(self) -> e.Expression | None:
        """Whether the indices of dimensions that the region drops are inside."""
        array = self.source.array
        if array.space != "global":
            return None
        condition: e.Expression | None = None
        for dim, extent in enumerate(self.source.extents):
            if extent is None:
                start = self.source.starts[dim]
                kind = self.code.work.kernel.index_type
                least = e.Compare("ge", start, e.Const(0, kind))
                condition = both(
                    condition, least, e.Compare("lt", start, e.Extent(array, dim, kind))
                )
        return condition

    def _from(self, line: e.Expression, lane: e.Expression) -> tuple[e.Expression, ...]:
        index = [*self.source.starts]
        for dim, step in ((self.line_dim, line), (self.lane_dim, lane), *self.steps.items()):
            index[dim] = add(index[dim], mul(step, self.source.step(dim)))
        return tuple(index)

    def _to(self, line: e.Expression) -> e.Expression:
        """The tile's line, past those of earlier steps along the outer dimensions."""
        return add(line, self.passed) if self._joined_dim() == self.line_dim else line

    def _lines(
        self,
        line_low: e.Expression,
        line_high: e.Expression,
        lane_low: e.Expression,
        lane_high: e.Expression,
    ) -> None:
        """Whole vectors along each line, then what is left element by element.

        Panels are filled one after the other, so that what is written lies together.
        """
        code, tile = self.code, self.tile
        inside = e.Select(e.Compare("gt", lane_low, code.index(0)), code.index(0), lane_high)
        vectors = inside if not isinstance(lane_low, e.Const) else lane_high
        panels = code.let("panels", divided(vectors, tile.width))
        done = code.let("done", mul(divided(vectors, tile.vector), tile.vector))
        whole = isinstance(done, e.Const)
        first = code.let("first", done if whole else e.Binary("max", done, lane_low))
        if tile.panelled:
            with (
                code.loop("panel", panels) as panel,
                code.loop("line", line_high, line_low, unroll=_UNROLLED) as line,
            ):
                self._panel(line, panel)
        with code.loop("line", line_high, line_low) as line:
            if not tile.panelled:
                with code.loop("panel", panels, unroll=_UNROLLED) as panel:
                    self._panel(line, panel)
            start = code.let("start", mul(panels, tile.width)) if tile.width > tile.vector else done
            with code.loop("lane", done, start, tile.vector, unroll=1) as lane_at:
                self._neighbours(line, lane_at, tile.vector)
            with code.loop("lane", lane_high, first, unroll=FEW) as lane_at:
                self._neighbours(line, lane_at)

    def _panel(self, line: e.Expression, panel: e.Expression) -> None:
        """A line's vectors of a panel."""
        code, tile = self.code, self.tile
        kind = vector_type(self.kind, tile.vector)
        for lane in range(0, tile.width, tile.vector):
            source = self._from(line, add(mul(panel, tile.width), lane))
            value = code.load(self.source.array, source, kind, self.lane_dim)
            code.store(tile.array, tile.at(self.lead, self._to(line), panel, lane), value)

    def _neighbours(self, line: e.Expression, lane: e.Expression, lanes: int = 1) -> None:
        """So many of a line, from a lane on."""
        kind, axis = vector_type(self.kind, lanes), self.lane_dim if lanes > 1 else -1
        value = self.code.load(self.source.array, self._from(line, lane), kind, axis)
        there = add(lane, self.passed) if self._joined_dim() == self.lane_dim else lane
        self.code.store(self.tile.array, self.tile.element(self.lead, self._to(line), there), value)

    def _scattered(
        self,
        line_low: e.Expression,
        line_high: e.Expression,
        lane_low: e.Expression,
        lane_high: e.Expression,
    ) -> None:
        """Along the lines' direction, in which the source may be contiguous."""
        code = self.code
        with (
            code.loop("lane", lane_high, lane_low) as lane,
            code.loop("line", line_high, line_low) as line,
        ):
            self._neighbours(line, lane)


def _steps_to(distance: e.Expression, step: int, most: int) -> e.Expression:
    """After how many steps a distance is behind, from none to so many."""
    if step == 1:
        return clamp(distance, most)
    return divided(add(clamp(distance, most * step), step - 1), step)
