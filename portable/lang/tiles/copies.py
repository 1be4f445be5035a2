"""Lowers copies between global and local memory to each work-item's share of them.

A tile is cut into chunks along a dimension that is contiguous on both sides. Neighbouring
work-items take neighbouring chunks. Where the whole tile lies inside the global array, one uniform
test at its head leads to copies without tests; else each chunk is tested. A work-item alone (a
CPU's way) copies whole rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from portable.backend import Box, Capabilities
from portable.dtypes import bool_, int32, uint32, uint64
from portable.errors import Location
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.facts import Facts
from portable.lang.ir.kernel import Kernel, linear_local_id
from portable.lang.ir.nodes import both, scalar_type
from portable.lang.ir.types import LANES, vector_type
from portable.lang.ir.walks import holds, map_block, map_blocks
from portable.lang.tiles.bulk import lower_bulk
from portable.lang.tiles.lanes import divided, remainder
from portable.lang.tiles.strategy import kept_dims
from portable.lang.tiles.work import add, mul

_MOST_UNROLLED = 16
_ASYNC_BYTES = (4, 8, 16)
_CHUNKS = tuple(lanes for lanes in LANES if lanes & (lanes - 1) == 0)
_COPIES = (s.CopyTile, s.CopyVector, s.CopyCommit, s.CopyWait, s.BulkCopy, s.BulkWait)


def lower_copies(kernel: Kernel, capabilities: Capabilities) -> Kernel:
    """The kernel with every copy of a tile or of a bulk turned into what the device has.

    Parameters
    ----------
    kernel : Kernel
        With local arrays in their final layouts.
    capabilities : Capabilities
        Of the device.
    """
    if not holds(kernel.body, _COPIES):
        return kernel
    kernel = lower_bulk(kernel, capabilities)
    lowering = _Lowering(kernel, capabilities)
    body = lowering.block(kernel.body)
    started = holds(body, s.CopyVector)
    body = map_block(body, lambda x: _completion(x, started))
    return replace(kernel, body=body)


def _completion(x: s.Statement, started: bool) -> s.Block:
    """Groups of copies are kept only where some copy is left to wait for."""
    match x:
        case s.CopyCommit(loc=loc):
            return (s.Instruction("cp.async.commit", loc),) if started else ()
        case s.CopyWait(pending=pending, loc=loc):
            count = e.Const(pending, uint32)
            return (s.Instruction("cp.async.wait", loc, inputs=(count,)),) if started else ()
        case _:
            return (x,)


@dataclass(slots=True)
class _Tile:
    """A copy seen dimension by dimension of the tile.

    `order` holds the tile's dimensions from slowest to fastest in the order in which they are gone
    through; `vector` says whether the last of them is contiguous on both sides, `items` how many
    work-items share in the copy.
    """

    copy: s.CopyTile
    inward: bool
    outside: e.Region
    inside: e.Region
    order: list[int]
    vector: bool
    items: int
    lanes: int = 1
    asynchronous: bool = False
    label: str = ""
    loc: Location = field(default_factory=lambda: Location("", 0))

    @property
    def extents(self) -> list[int]:
        """The tile's extents, slowest first."""
        return [self.outside.extents[d] or 1 for d in self.dims(self.outside)]

    def dims(self, region: e.Region) -> list[int]:
        """The array's dimension of each of the tile's, slowest first."""
        return [self.dim(region, d) for d in self.order]

    def dim(self, region: e.Region, d: int) -> int:
        """The array's dimension of one of the tile's; joined ones lie along one of the inside."""
        kept = kept_dims(region)
        return kept[max(0, d - len(kept_dims(self.outside)) + len(kept))]

    def step(self, region: e.Region, d: int) -> int:
        """How far a step along one of the tile's dimensions leads along the array's."""
        dims = kept_dims(self.outside)
        if region is self.outside:
            return region.step(self.dim(region, d))
        if not self.outside.joined or d == len(dims) - 1:
            return 1
        return prod(self.outside.extents[dim] or 1 for dim in dims[d + 1 : -1])

    def index(self, region: e.Region, at: list[e.Expression]) -> tuple[e.Expression, ...]:
        """The index into the region's array of a place in the tile, given slowest first."""
        index = list(region.starts)
        for d, extent in zip(self.order, at, strict=True):
            dim = self.dim(region, d)
            index[dim] = add(index[dim], mul(extent, self.step(region, d)))
        return tuple(index)


def _all(conditions: list[e.Expression]) -> e.Expression:
    return both(*conditions) or e.Const(True, bool_)


def _asked(x: s.CopyTile, completion: s.Address) -> s.Statement:
    """TMA is asked for a box, at a place that begins with the contiguous dimension."""
    source, layout = x.source, x.target.array.layout
    assert layout is not None
    strides = source.array.strides
    dims = tuple(sorted(range(len(strides)), key=lambda d: (strides[d] != "unit", -d)))
    extents, steps = (source.extents[d] or 1 for d in dims), map(source.step, dims)
    box = Box(dims, tuple(extents), tuple(steps), layout.swizzle)
    at = tuple(_narrow(source.starts[d]) for d in dims)
    target = x.target.array, x.target.starts
    boxes = ((source.array, box),)
    return s.Instruction(
        f"tensor.load.{len(dims)}", x.loc, inputs=at, addresses=(target, completion), boxes=boxes
    )


def _narrow(x: e.Expression) -> e.Expression:
    return x if x.type is int32 else e.Cast(x, int32)


class _Lowering:
    def __init__(self, kernel: Kernel, capabilities: Capabilities) -> None:
        self._kernel = kernel
        self._capabilities = capabilities
        self._facts = Facts(kernel)
        self._count = 0
        self._names = 0
        x, y, z = kernel.workgroup
        self._items = x * y * z
        self._index = kernel.index_type

    def block(self, block: s.Block) -> s.Block:
        """A block with its copies lowered, those that follow each other together."""
        out: list[s.Statement] = []
        run: list[s.Let | s.CopyTile] = []
        for x in (map_blocks(statement, self.block) for statement in block):
            if isinstance(x, s.CopyTile) and x.completion is not None:
                out += [*self._run(run), _asked(x, x.completion)]
                run = []
            elif isinstance(x, s.CopyTile) or (run and isinstance(x, s.Let)):
                run.append(x)
            else:
                out += [*self._run(run), x]
                run = []
        return (*out, *self._run(run))

    def _run(self, run: list[s.Let | s.CopyTile]) -> s.Block:
        """Copies and the bindings between them, which come first.

        Asynchronous copies are tested together: where all of them fit, nothing stands between them.
        """
        head: list[s.Statement] = [x for x in run if isinstance(x, s.Let)]
        tiles = [self._planned(x, head) for x in run if isinstance(x, s.CopyTile)]
        each = tuple(self._lowered(tile) for tile in tiles)
        if len(tiles) < 2 or not all(tile.asynchronous for tile in tiles):
            return (*head, *each)
        fast = tuple(x for tile in tiles for x in self._together(tile, False))
        fitting = _all([self._fits(tile) for tile in tiles])
        return (*head, s.If(fitting, fast, each, tiles[0].loc))

    def _planned(self, x: s.CopyTile, head: list[s.Statement]) -> _Tile:
        target, source = self._named(x.target, x.loc, head), self._named(x.source, x.loc, head)
        return self._plan(replace(x, target=target, source=source))

    def _lowered(self, tile: _Tile) -> s.Statement:
        copier = self._alone if tile.items == 1 else self._together
        return s.If(self._fits(tile), copier(tile, False), copier(tile, True), tile.loc)

    def _named(self, region: e.Region, loc: Location, head: list[s.Statement]) -> e.Region:
        """The region with its starts worked out once."""
        starts: list[e.Expression] = []
        for value in region.starts:
            if isinstance(value, e.Const):
                starts.append(value)
                continue
            self._names += 1
            variable = e.Variable(f"{region.array.name}.start{self._names}", scalar_type(value))
            head.append(s.Let(variable, value, loc))
            self._facts.learn(variable, value)
            starts.append(variable)
        return replace(region, starts=tuple(starts))

    def _const(self, value: int) -> e.Const:
        return e.Const(value, self._index)

    def _name(self, tile: _Tile, word: str) -> e.Variable:
        """A name that no user can write, since it holds a dot."""
        self._names += 1
        return e.Variable(f"{tile.label}.{word}{self._names}", self._index)

    # -- planning ---------------------------------------------------------------------------

    def _plan(self, x: s.CopyTile) -> _Tile:
        inward = x.source.array.space == "global"
        outside, inside = (x.source, x.target) if inward else (x.target, x.source)
        self._count += 1
        dims = list(range(len(kept_dims(outside))))
        items = self._items if x.by is None else x.by[1]
        label = inside.array.name
        tile = _Tile(x, inward, outside, inside, dims, False, items, loc=x.loc, label=label)
        fastest = self._fastest(tile)
        tile.order = [d for d in dims if d != fastest] + [fastest]
        tile.vector = self._unit(tile, outside, fastest) and self._unit(tile, inside, fastest)
        tile.asynchronous = self._asynchronous(tile)
        tile.lanes = self._lanes(tile)
        if tile.asynchronous:
            size = tile.lanes * outside.array.dtype.itemsize
            tile.asynchronous = size in _ASYNC_BYTES
        return tile

    def _unit(self, tile: _Tile, region: e.Region, dim: int) -> bool:
        index = tile.dim(region, dim)
        if tile.step(region, dim) != 1:
            return False
        if region.array.layout is not None:
            return region.array.layout.strides[index] == 1
        return region.array.strides[index] == "unit"

    def _fastest(self, tile: _Tile) -> int:
        """The dimension to go along: contiguous on both sides, or outside, or the last."""
        dims = range(len(kept_dims(tile.outside)))
        outside = [d for d in dims if self._unit(tile, tile.outside, d)]
        both = [d for d in outside if self._unit(tile, tile.inside, d)]
        return [*reversed(dims), *outside, *both][-1] if outside else dims[-1]

    def _asynchronous(self, tile: _Tile) -> bool:
        wanted = tile.copy.asynchronous and tile.inward and tile.items > 1
        return wanted and "vector" in self._capabilities.async_copy and not self._complex(tile)

    def _complex(self, tile: _Tile) -> bool:
        return tile.outside.array.dtype.is_complex

    def _lanes(self, tile: _Tile) -> int:
        """Elements of a chunk."""
        if not tile.vector or self._complex(tile):
            return 1
        size, extent = tile.outside.array.dtype.itemsize, tile.extents[-1]
        if tile.items == 1:
            widest = tile.outside.array.dtype.register.itemsize
            most = max(16, self._capabilities.vector_bytes) // widest
            return max([lanes for lanes in _CHUNKS if lanes <= min(most, extent)], default=1)
        if self._capabilities.kind == "cpu" and self._capabilities.vectorizes_work_items:
            return 1
        fitting = [n for n in _CHUNKS if n * size <= 16 and extent % n == 0]
        if tile.asynchronous:
            fitting = [n for n in fitting if self._aligned_for(tile, n)]
        swizzled = tile.inside.array.layout is not None and tile.inside.array.layout.swizzle
        if swizzled:
            fitting = [n for n in fitting if self._inside_aligned(tile, n)]
        return max(fitting, default=1)

    def _aligned_for(self, tile: _Tile, lanes: int) -> bool:
        """Whether every chunk of so many elements is aligned to its size on both sides."""
        array = tile.outside.array
        start = tile.outside.starts[tile.dims(tile.outside)[-1]]
        outside = array.aligned and self._facts.multiple_of(start) % lanes == 0
        units = [d for d, kind in enumerate(array.strides) if kind == "unit"]
        alone = units == [tile.dims(tile.outside)[-1]]
        return outside and alone and self._inside_aligned(tile, lanes)

    def _inside_aligned(self, tile: _Tile, lanes: int) -> bool:
        layout = tile.inside.array.layout
        assert layout is not None
        index = tile.dims(tile.inside)[-1]
        for dim, start in enumerate(tile.inside.starts):
            if dim == index or layout.strides[dim] == 1:
                if self._facts.multiple_of(start) % lanes:
                    return False
            elif layout.strides[dim] % lanes and tile.inside.array.shape[dim] > 1:
                return False
        return True

    # -- bounds -----------------------------------------------------------------------------

    def _extent(self, tile: _Tile, dim: int) -> e.Extent:
        return e.Extent(tile.outside.array, dim, self._index)

    def _fits(self, tile: _Tile) -> e.Expression:
        """Whether the whole tile lies inside the global array; the same for the workgroup."""
        conditions: list[e.Expression] = []
        for dim, start in enumerate(tile.outside.starts):
            last = e.Binary("sub", self._extent(tile, dim), self._const(tile.outside.span(dim)))
            if self._facts.bounds(start).low < 0:
                conditions.append(e.Compare("ge", start, self._const(0)))
            conditions.append(e.Compare("le", start, last))
        return _all(conditions)

    def _in_range(self, tile: _Tile, at: tuple[e.Expression, ...], dims: list[int]) -> e.Expression:
        """Whether an index lies in the global array along some dimensions."""
        unsigned = uint32 if self._index.bits == 32 else uint64
        return _all(
            [
                e.Compare("lt", e.Cast(at[d], unsigned), e.Cast(self._extent(tile, d), unsigned))
                for d in dims
            ]
        )

    # -- elements ---------------------------------------------------------------------------

    def _move(self, tile: _Tile, at: list[e.Expression], lanes: int) -> list[s.Statement]:
        """Loads from one side and stores to the other, without tests."""
        array = tile.outside.array
        source, target = tile.copy.source, tile.copy.target
        parts: tuple[int | None, ...] = (0, 1) if array.dtype.is_complex else (None,)
        kind = array.dtype.real.register
        body: list[s.Statement] = []
        for part in parts:
            name = self._name(tile, "value").name
            value = e.Variable(name, vector_type(kind, lanes))
            axes = tile.dims(source)[-1], tile.dims(target)[-1]
            index = tile.index(source, at)
            body.append(s.Load(value, source.array, index, tile.loc, axes[0], part))
            position = tile.index(target, at)
            body.append(s.Store(target.array, position, value, tile.loc, axes[1], part))
        return body

    def _zero(self, tile: _Tile, at: list[e.Expression]) -> s.Block:
        """Zeros for what lies outside; nothing where the copy goes out."""
        if not tile.inward:
            return ()
        dtype = tile.outside.array.dtype
        zero = e.Const(0, dtype.real.register)
        parts: tuple[int | None, ...] = (0, 1) if dtype.is_complex else (None,)
        axis = tile.dims(tile.inside)[-1]
        target = tile.index(tile.inside, at)
        return tuple(
            s.Store(tile.inside.array, target, zero, tile.loc, axis, part) for part in parts
        )

    def _tested(self, tile: _Tile, at: list[e.Expression]) -> list[s.Statement]:
        """One element, if it lies inside."""
        index = tile.index(tile.outside, at)
        inside = self._in_range(tile, index, list(range(len(index))))
        moved = tuple(self._move(tile, at, 1))
        return [s.If(inside, moved, self._zero(tile, at), tile.loc)]

    # -- a workgroup ------------------------------------------------------------------------

    def _together(self, tile: _Tile, tested: bool) -> s.Block:
        """Round after round, neighbouring work-items take neighbouring chunks."""
        per_row = tile.extents[-1] // tile.lanes
        chunks = per_row
        for extent in tile.extents[:-1]:
            chunks *= extent
        rounds = -(-chunks // tile.items)
        chunk = self._name(tile, "chunk")
        body: list[s.Statement] = [s.Let(chunk, self._own_number(tile), tile.loc)]
        if rounds > _MOST_UNROLLED or tested:
            body.append(self._round_loop(tile, chunk, chunks, rounds, tested))
            return tuple(body)
        if len(tile.extents) == 2 and tile.items % per_row == 0:
            body += self._by_rows(tile, chunk, per_row, chunks, rounds)
            return tuple(body)
        for number in range(rounds):
            whole = (number + 1) * tile.items <= chunks
            number_in_all = add(chunk, number * tile.items)
            body += self._guarded(tile, number_in_all, chunks, whole, tested)
        return tuple(body)

    def _own_number(self, tile: _Tile) -> e.Expression:
        """The number of this work-item among those that copy."""
        number = linear_local_id(self._kernel.workgroup, self._index)
        return number if tile.copy.by is None else remainder(number, tile.items)

    def _round_loop(
        self, tile: _Tile, number_given: e.Variable, chunks: int, rounds: int, tested: bool
    ) -> s.Statement:
        number = self._name(tile, "at")
        inner = self._one(tile, number, tested)
        stop, step = self._const(chunks), self._const(tile.items)
        unroll = 0 if tested else 4
        return s.For(
            number, number_given, stop, step, tuple(inner), tile.loc, unroll if rounds > 1 else 0
        )

    def _guarded(
        self, tile: _Tile, target: e.Expression, chunks: int, whole: bool, tested: bool
    ) -> list[s.Statement]:
        inner = self._one(tile, target, tested)
        if whole:
            return inner
        last = e.Compare("lt", target, self._const(chunks))
        return [s.If(last, tuple(inner), (), tile.loc)]

    def _one(self, tile: _Tile, chunk: e.Expression, tested: bool) -> list[s.Statement]:
        """The chunk of a number: its place in the tile, then the copy."""
        body: list[s.Statement] = []
        at: list[e.Expression] = []
        rest = chunk
        shape = [*tile.extents[:-1], tile.extents[-1] // tile.lanes]
        for number, extent in reversed(list(enumerate(shape))):
            item = self._name(tile, "at")
            value = rest
            if number > 0:
                value, rest = remainder(rest, extent), divided(rest, extent)
            if number == len(shape) - 1:
                value = mul(value, tile.lanes)
            body.append(s.Let(item, value, tile.loc))
            at.insert(0, item)
        return [*body, *self._chunk(tile, at, tested)]

    def _by_rows(
        self, tile: _Tile, number_given: e.Variable, per_row: int, chunks: int, rounds: int
    ) -> list[s.Statement]:
        """Each round is so many rows further on: the column stays."""
        row, column = self._name(tile, "row"), self._name(tile, "column")
        body: list[s.Statement] = [
            s.Let(row, divided(number_given, per_row), tile.loc),
            s.Let(column, mul(remainder(number_given, per_row), tile.lanes), tile.loc),
        ]
        rows = tile.items // per_row
        for number in range(rounds):
            row_number = add(row, number * rows)
            inner = self._chunk(tile, [row_number, column], False)
            if (number + 1) * tile.items > chunks:
                last = e.Compare("lt", row_number, self._const(tile.extents[0]))
                body.append(s.If(last, tuple(inner), (), tile.loc))
            else:
                body += inner
        return body

    def _chunk(self, tile: _Tile, at: list[e.Expression], tested: bool) -> list[s.Statement]:
        if tile.asynchronous:
            return self._start(tile, at, tested)
        if not tested:
            return self._move(tile, at, tile.lanes)
        if tile.lanes == 1:
            return self._tested(tile, at)
        index = tile.index(tile.outside, at)
        last = (*at[:-1], add(at[-1], tile.lanes - 1))
        dims = list(range(len(index)))
        ends = tile.index(tile.outside, list(last))
        fastest = tile.dims(tile.outside)[-1]
        whole = _all([self._in_range(tile, index, dims), self._in_range(tile, ends, [fastest])])
        lane = self._name(tile, "lane")
        each = self._tested(tile, [*at[:-1], add(at[-1], lane)])
        zero, one, lanes = (self._const(n) for n in (0, 1, tile.lanes))
        single = s.For(lane, zero, lanes, one, tuple(each), tile.loc, unroll=1)
        return [s.If(whole, tuple(self._move(tile, at, tile.lanes)), (single,), tile.loc)]

    def _start(self, tile: _Tile, at: list[e.Expression], tested: bool) -> list[s.Statement]:
        """An asynchronous copy; where tested, of the part inside, zeros filling the rest."""
        body: list[s.Statement] = []
        source = tile.index(tile.outside, at)
        valid: e.Expression = self._const(tile.lanes)
        if tested:
            test = e.Variable(self._name(tile, "inside").name, bool_)
            dims = list(range(len(source)))
            body.append(s.Let(test, self._in_range(tile, source, dims), tile.loc))
            fastest = tile.dims(tile.outside)[-1]
            left = e.Binary("sub", self._extent(tile, fastest), source[fastest])
            valid = e.Select(test, e.Binary("min", left, valid), self._const(0))
            source = tuple(e.Select(test, x, self._const(0)) for x in source)
        target = tile.index(tile.inside, at)
        arrays = tile.inside.array, tile.outside.array
        copy = s.CopyVector(arrays[0], target, arrays[1], source, tile.lanes, valid, tile.loc)
        return [*body, copy]

    # -- one work-item ----------------------------------------------------------------------

    def _alone(self, tile: _Tile, tested: bool) -> s.Block:
        """Loops over rows, wide vectors along each; where tested, up to where the array ends."""
        rows = [self._name(tile, "row") for _ in tile.extents[:-1]]
        body = self._tested_row(tile, rows) if tested else self._row(tile, rows)
        for index, extent in reversed(list(zip(rows, tile.extents[:-1], strict=True))):
            zero, one = self._const(0), self._const(1)
            body = (s.For(index, zero, self._const(extent), one, body, tile.loc),)
        return body

    def _row(self, tile: _Tile, rows: list[e.Variable]) -> s.Block:
        extent, lanes = tile.extents[-1], tile.lanes
        full = extent // lanes * lanes
        column = self._name(tile, "column")
        wide = self._move(tile, [*rows, column], lanes)
        zero = self._const(0)
        loop = s.For(column, zero, self._const(full), self._const(lanes), tuple(wide), tile.loc)
        rest = [
            x for at in range(full, extent) for x in self._move(tile, [*rows, self._const(at)], 1)
        ]
        return (loop, *rest)

    def _tested_row(self, tile: _Tile, rows: list[e.Variable]) -> s.Block:
        """``[low, high)`` of the row lies inside; before and behind are zeros."""
        fastest = tile.dims(tile.outside)[-1]
        start = tile.outside.starts[fastest]
        extent, zero, one = self._const(tile.extents[-1]), self._const(0), self._const(1)
        index = tile.index(tile.outside, [*rows, zero])
        inside = self._in_range(tile, index, [d for d in range(len(index)) if d != fastest])
        low, high = self._name(tile, "low"), self._name(tile, "high")
        left = e.Binary("sub", self._extent(tile, fastest), start)
        head: list[s.Statement] = []
        first: e.Expression = zero
        if self._facts.bounds(start).low < 0:
            before = e.Binary("max", zero, e.Unary("neg", start))
            head.append(s.Let(low, e.Binary("min", extent, before), tile.loc))
            first = low
        clamped = e.Binary("min", extent, e.Binary("max", first, left))
        head.append(s.Let(high, e.Select(inside, clamped, first), tile.loc))
        column = self._name(tile, "column")
        body = self._move(tile, [*rows, column], 1)
        loops: list[s.Statement] = [s.For(column, first, high, one, tuple(body), tile.loc)]
        if tile.inward:
            if first is low:
                loops.append(self._zeros(tile, rows, zero, low))
            loops.append(self._zeros(tile, rows, high, extent))
        return (*head, *loops)

    def _zeros(
        self, tile: _Tile, rows: list[e.Variable], start: e.Expression, stop: e.Expression
    ) -> s.Statement:
        column = self._name(tile, "column")
        body = self._zero(tile, [*rows, column])
        return s.For(column, start, stop, self._const(1), body, tile.loc)
