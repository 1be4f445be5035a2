"""The micro-kernel of processors: products by a work-item that has a core to itself.

An accumulator is a private array of micro-tiles; a multiplication takes them into vector registers
one after the other. Operand tiles are rewritten, where nothing but copies and multiplications
touches them, to the layouts of `panels`, in the accumulator's type: converting once in the copy is
cheaper than in every micro-tile that reads the element. What the next round of a loop copies is
prefetched while this one multiplies (`prefetching`). The sums of a loop that `summations` knows
begin in registers and are finished and stored from there: between rounds only they lie in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace

from portable.dtypes import DType
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.nodes import both, constant, splat
from portable.lang.ir.pipeline import Pipeline
from portable.lang.ir.types import Array, Fragment, Space, Use, vector_type
from portable.lang.tiles.by_elements import ByElements, Element
from portable.lang.tiles.lanes import divided
from portable.lang.tiles.panels import MicroShape, Packing, Panels
from portable.lang.tiles.prefetching import next_sources, prefetch
from portable.lang.tiles.regions import inside, place
from portable.lang.tiles.strategy import Part, Tile, alike_dims, kept_dims
from portable.lang.tiles.summations import (
    Summation,
    are_neighbours,
    for_vector,
    reads_beside,
    summations,
)
from portable.lang.tiles.work import Code, Work, add, clamp, mul, smaller, stored

_Tile = tuple[e.Expression, e.Expression]
"""The numbers of a micro-tile down and across an accumulator."""


class Micro(ByElements):
    """Accumulators as private arrays of micro-tiles; operands as panels."""

    def __init__(self, work: Work, part: Part) -> None:
        super().__init__(work, part)
        sums = part.accumulators or part.fragments
        self._dtype = _sum_type(work, sums[0])
        plain = any(not _packs(tile) for tile in part.tiles.values())
        self._micro = MicroShape.choose(
            work.capabilities, self._dtype, [f.shape for f in sums], not plain
        )
        self._sums: dict[Fragment, Array] = {}
        self._panels: dict[Fragment | Array, Panels] = {}
        self._prefetched: dict[s.Multiply, list[e.Region]] = {}
        result = summations(work.kernel.body)
        self._fused = {x: result[x] for x in part.accumulators if x in result}

    @classmethod
    def suits(cls, work: Work, part: Part) -> bool:
        """On CPUs, where the work-item is alone."""
        return work.capabilities.kind == "cpu" and work.items == 1

    # -- storage ----------------------------------------------------------------------------

    def declare(self) -> s.Block:
        """Arrays of micro-tiles for accumulators, of panels for operands."""
        micro = self._micro
        for fragment in self.part.fragments:
            if fragment.use == "accumulator":
                rows, columns = fragment.shape
                down, across = -(-rows // micro.rows), -(-columns // micro.columns)
                shape = (down, across, micro.rows, micro.columns)
                dtype = _sum_type(self.work, fragment)
                self._sums[fragment] = self.work.private(fragment.name, dtype, shape)
            else:
                packing = self._packing((), fragment.shape, fragment.use, False, (0, 1))
                self._panels[fragment] = self._made(fragment.name, packing, "private")
        self._declare_tiles()
        return ()

    def _declare_tiles(self) -> None:
        plans = {t.array: self._tile_packing(t) for t in self.part.tiles.values() if _packs(t)}
        size = sum(plan.layout()[1].size for plan in plans.values()) * self._dtype.itemsize
        others = (a for a in self.work.kernel.arrays if a.space == "local" and a not in plans)
        size += sum(a.layout.size * a.dtype.itemsize for a in others if a.layout is not None)
        space: Space = "local" if size <= self.work.capabilities.local_memory else "private"
        for array, plan in plans.items():
            self.work.retire(array)
            self._panels[array] = self._made(array.name, plan, space)

    def _tile_packing(self, tile: Tile) -> Packing:
        ((use, rows, columns),) = tile.uses
        shape = (tile.array.shape[rows], tile.array.shape[columns])
        lead = tuple(n for dim, n in enumerate(tile.array.shape) if dim not in (rows, columns))
        transposed = use == "a" and bool(tile.copies) and all(_along(c, rows) for c in tile.copies)
        return self._packing(lead, shape, use, transposed, (rows, columns))

    def _packing(
        self,
        lead: tuple[int, ...],
        shape: tuple[int, int],
        use: Use,
        transposed: bool,
        dims: tuple[int, int],
    ) -> Packing:
        micro, panelled = self._micro, use == "b"
        lines, lanes = shape[::-1] if transposed else shape
        dims = dims[::-1] if transposed else dims
        width = micro.columns if panelled else micro.lanes
        all_lines, all_lanes = lines, _up(lanes, width)
        if transposed:
            all_lanes = _up(_up(lanes, micro.rows), width)
        elif not panelled:
            all_lines = _up(lines, micro.rows)
        return Packing(
            lead, transposed, lines, lanes, all_lines, all_lanes, width, micro.lanes, panelled, dims
        )

    def _made(self, name: str, packing: Packing, space: Space) -> Panels:
        array = self.work.array(name, self._dtype, space, *packing.layout())
        return Panels(**asdict(packing), array=array)

    # -- whole fragments --------------------------------------------------------------------

    def fill(self, x: s.FragmentFill) -> s.Block:
        """Vectors of the value all over the array."""
        if x.fragment in self._fused:
            return ()
        code = self.work.code(x.loc)
        value = code.let("filling", stored(x.value, x.fragment))
        held = self._panels.get(x.fragment)
        if held is not None:
            with self._operand_elements(code, held) as (line, lane):
                code.store(held.array, held.element((), line, lane), value)
            return code.block
        array, micro = self._sums[x.fragment], self._micro
        kind = vector_type(array.dtype, micro.lanes)
        with (
            code.loop("tile", array.shape[0]) as i,
            code.loop("tile", array.shape[1]) as j,
            code.loop("u", micro.rows, unroll=1) as u,
        ):
            for first in range(0, micro.columns, micro.lanes):
                code.store(array, (i, j, u, code.index(first)), splat(value, kind))
        return code.block

    def load(self, x: s.FragmentLoad) -> s.Block:
        """An operand as a tile is copied; an accumulator element by element."""
        held = self._panels.get(x.fragment)
        if held is None:
            return super().load(x)
        code = self.work.code(x.loc)
        held.copy(code, (), x.source)
        return code.block

    def store(self, x: s.FragmentStore) -> s.Block:
        """Whole vectors of sums where they lie in the array, else element by element."""
        if x.fragment in self._fused:
            return ()
        code = self.work.code(x.loc)
        if x.fragment in self._panels:
            with self._each(code, x.fragment) as (row, column, at, _):
                self._store_element(code, x, row, column, at)
            return code.block
        array = self._sums[x.fragment]
        with code.loop("tile", array.shape[0]) as i, code.loop("tile", array.shape[1]) as j:
            self._store_tile(code, x, (i, j))
        return code.block

    def _store_vector(
        self,
        code: Code,
        x: s.FragmentStore,
        row: e.Expression,
        column: e.Expression,
        at: tuple[e.Expression, ...],
        elements: s.ForElements | None = None,
    ) -> None:
        array, lanes, width = self._sums[x.fragment], self._micro.lanes, x.fragment.shape[1]
        last = add(column, lanes - 1)
        beside = None if elements is None else are_neighbours(elements, column, lanes)
        index, end = place(x.target, row, column), place(x.target, row, last)
        inner = inside(x.target, index), inside(x.target, end)
        with code.when(both(smaller(last, width), *inner, beside)):
            values: e.Expression = code.load(array, at, vector_type(array.dtype, lanes))
            if elements is not None:
                values = for_vector(code, elements, row, column, values)
            code.store(x.target.array, index, values, kept_dims(x.target)[-1])
        with code.otherwise(), code.loop("lane", lanes, unroll=1) as lane:
            column_number = e.Binary("add", column, lane)
            with code.when(smaller(column_number, width)):
                there = (*at[:-1], e.Binary("add", at[-1], lane))
                self._store_element(code, x, row, column_number, there, elements)

    def _store_element(
        self,
        code: Code,
        x: s.FragmentStore,
        row: e.Expression,
        column: e.Expression,
        at: tuple[e.Expression, ...],
        elements: s.ForElements | None = None,
    ) -> None:
        index = place(x.target, row, column)
        with code.when(inside(x.target, index)):
            array = self._array(x.fragment)
            value: e.Expression = code.load(array, at, array.dtype)
            if elements is not None:
                value = for_vector(code, elements, row, column, value)
            code.store(x.target.array, index, value)

    def elements(self, x: s.ForElements) -> s.Block:
        """Row after row, so that a compiler can make vectors of the columns."""
        return () if x.fragment in self._fused else super().elements(x)

    def _array(self, fragment: Fragment) -> Array:
        held = self._panels.get(fragment)
        return self._sums[fragment] if held is None else held.array

    @contextmanager
    def _each(self, code: Code, fragment: Fragment) -> Iterator[Element]:
        """Row, column and index of an element, inside the loops over all."""
        held = self._panels.get(fragment)
        if held is not None:
            with self._operand_elements(code, held) as (line, lane):
                row, column = (lane, line) if held.transposed else (line, lane)
                yield row, column, held.element((), line, lane), None
            return
        array, micro = self._sums[fragment], self._micro
        with (
            self._rows(code, fragment) as (row, (i, u)),
            code.loop("tile", array.shape[1]) as j,
            code.loop("x", micro.columns, unroll=1) as x,
        ):
            column = code.let("column", add(mul(j, micro.columns), x))
            wide = array.shape[1] * micro.columns > fragment.shape[1]
            with code.when(smaller(column, fragment.shape[1]) if wide else None):
                yield row, column, (i, j, u, x), None

    @contextmanager
    def _rows(
        self, code: Code, fragment: Fragment
    ) -> Iterator[tuple[e.Expression, tuple[e.Expression, e.Expression]]]:
        """A row of sums, its tile and its number there, inside the loops over all."""
        height, rows = self._sums[fragment].shape[0], self._micro.rows
        with code.loop("tile", height) as i, code.loop("u", rows) as u:
            row = code.let("row", add(mul(i, rows), u))
            padded = height * rows > fragment.shape[0]
            with code.when(smaller(row, fragment.shape[0]) if padded else None):
                yield row, (i, u)

    @contextmanager
    def _operand_elements(
        self, code: Code, held: Panels
    ) -> Iterator[tuple[e.Expression, e.Expression]]:
        with code.loop("line", held.lines) as line, code.loop("lane", held.lanes) as lane:
            yield line, lane

    # -- copies and products ----------------------------------------------------------------

    def copy(self, x: s.CopyTile) -> s.Block | None:
        """Whole vectors into the panels."""
        held = self._panels.get(x.target.array)
        if held is None:
            return None
        code = self.work.code(x.loc)
        lead = _lead(x.target)
        transposed = kept_dims(x.target)[0] != (held.dims[1] if held.transposed else held.dims[0])
        source = x.source
        if transposed:
            source = replace(source, transposed=not source.transposed)
        held.copy(code, lead, source)
        return code.block

    def pipeline(self, x: Pipeline) -> s.Block:
        """In rounds; what the next one copies is remembered.

        Sums that begin and are finished within rounds have one at least, if only of no products:
        to begin and finish them elsewhere, too, is a quarter of what there is to compile.
        """
        self._prefetched[x.multiply] = next_sources(x)
        fused = self._fused.get(x.multiply.accumulator)
        if fused is not None:
            x = replace(x, stop=e.Binary("max", x.stop, add(x.start, x.step)))
        return super().pipeline(x)

    def multiply(self, x: s.Multiply) -> s.Block:
        """Micro-tile by micro-tile down each panel of columns."""
        code, micro = self.work.code(x.loc), self._micro
        array = self._sums[x.accumulator]
        depth = x.a.shape[1]
        rows: e.Expression = code.index(array.shape[0])
        columns: e.Expression = code.index(array.shape[1])
        steps: e.Expression = code.index(depth)
        if x.valid is not None:
            m, n, k = x.valid
            rows = code.let("tiles", self._tiles(m, x.accumulator.shape[0], micro.rows))
            columns = code.let("tiles", self._tiles(n, x.accumulator.shape[1], micro.columns))
            steps = code.let("depth", clamp(k, depth))
        registers, fused = self._registers(x.accumulator), self._fused.get(x.accumulator)
        if fused is not None:
            steps = code.let("depth", e.Select(fused.never, code.index(0), steps))
        with code.loop("j", columns) as j, code.loop("i", rows) as i:
            self._take(code, fused, array, (i, j), registers)
            self._ask_ahead(code, fused, (i, j))
            turn = add(mul(j, array.shape[0]), i)
            prefetch(code, self._prefetched.get(x, []), turn, array.shape[0] * array.shape[1])
            with code.loop("k", steps) as k_at:
                self._step(code, x, (i, j, k_at), registers)
            self._put(code, fused, array, (i, j), registers)
        return code.block

    def _registers(self, accumulator: Fragment) -> Array:
        """Room for a micro-tile."""
        micro, array = self._micro, self._sums[accumulator]
        shape = (micro.rows, micro.vectors)
        return self.work.private(f"{accumulator.name}_c", array.dtype, shape, micro.lanes)

    def _take(
        self, code: Code, fused: Summation | None, array: Array, tile: _Tile, registers: Array
    ) -> None:
        """Brings a micro-tile into registers, where those of a fused round begin anew."""
        if fused is None:
            self._move(code, array, tile, registers, load=True)
            return
        value = fused.fill.value
        assert isinstance(value, e.Const)
        if value.value:
            value = e.Select(fused.first, value, constant(0, value.type))
        self._begin(code, fused, registers, value)

    def _ask_ahead(self, code: Code, fused: Summation | None, tile: _Tile) -> None:
        """Prefetches where a micro-tile goes in the last round, if what is there is read."""
        if fused is None or fused.elements is None or not reads_beside(fused.elements):
            return
        micro, target = self._micro, fused.store.target
        each = max(1, self.work.capabilities.cache_line // target.array.dtype.itemsize)
        with code.when(fused.last), code.loop("u", micro.rows, unroll=-1) as u:
            for column in range(0, micro.columns, each):
                at = add(mul(tile[0], micro.rows), u), add(mul(tile[1], micro.columns), column)
                there = target.array, place(target, *at)
                code.instruct("prefetch", addresses=(there,))

    def _put(
        self, code: Code, fused: Summation | None, array: Array, tile: _Tile, registers: Array
    ) -> None:
        """Brings a micro-tile back, or to where fused sums go in the last round.

        A round's sums are added to those of the rounds before: long sums drift less in two chains.
        """
        if fused is None:
            self._move(code, array, tile, registers, load=False)
            return
        with code.when(fused.later):
            self._move(code, array, tile, registers, load=True, added=True)
        whole = self._whole(fused, tile)
        with code.when(both(fused.last, whole)):
            self._finish(code, fused, tile, registers)
        with code.otherwise():
            self._move(code, array, tile, registers, load=False)
            if whole is not None:
                with code.when(fused.last):
                    self._store_tile(code, fused.store, tile, fused.elements)

    def _begin(self, code: Code, fused: Summation, registers: Array, value: e.Expression) -> None:
        """Sets a micro-tile to a value."""
        kind = vector_type(registers.dtype, self._micro.lanes)
        value = splat(stored(value, fused.fill.fragment), kind)
        with code.loop("u", self._micro.rows, unroll=-1) as u:
            for v in range(self._micro.vectors):
                code.store(registers, (u, code.index(v)), value)

    def _whole(self, fused: Summation, tile: _Tile) -> e.Expression | None:
        """Whether a micro-tile's sums can go from registers to the target; None where always."""
        micro, target, elements = self._micro, fused.store.target, fused.elements
        rows, columns = fused.fill.fragment.shape
        array = self._sums[fused.fill.fragment]
        top, *firsts = self._place(tile)
        last_row, last_column = add(top, micro.rows - 1), add(firsts[0], micro.columns - 1)
        return both(
            smaller(last_row, rows) if array.shape[0] * micro.rows > rows else None,
            smaller(last_column, columns) if array.shape[1] * micro.columns > columns else None,
            inside(target, place(target, top, firsts[0])),
            inside(target, place(target, last_row, last_column)),
            *(are_neighbours(elements, x, micro.lanes) for x in firsts if elements is not None),
        )

    def _place(self, tile: _Tile) -> list[e.Expression]:
        """The first row of a micro-tile, and the first column of each vector of a row."""
        micro, left = self._micro, mul(tile[1], self._micro.columns)
        firsts = (add(left, v * micro.lanes) for v in range(micro.vectors))
        return [mul(tile[0], micro.rows), *firsts]

    def _finish(self, code: Code, fused: Summation, tile: _Tile, registers: Array) -> None:
        """Finishes a whole micro-tile's sums and stores them, each vector at once."""
        micro, target, elements = self._micro, fused.store.target, fused.elements
        kind = vector_type(registers.dtype, micro.lanes)
        top, *firsts = self._place(tile)
        with code.loop("u", micro.rows, unroll=-1) as u:
            row = code.let("row", add(top, u))
            for v, column in enumerate(firsts):
                values: e.Expression = code.load(registers, (u, code.index(v)), kind)
                if elements is not None:
                    values = for_vector(code, elements, row, column, values)
                index = place(target, row, column)
                code.store(target.array, index, values, kept_dims(target)[-1])

    def _store_tile(
        self, code: Code, x: s.FragmentStore, tile: _Tile, elements: s.ForElements | None = None
    ) -> None:
        """Finishes and stores what exists of a micro-tile of the array."""
        micro = self._micro
        with code.loop("u", micro.rows) as u:
            row = code.let("row", add(mul(tile[0], micro.rows), u))
            with (
                code.when(smaller(row, x.fragment.shape[0])),
                code.loop("x", micro.columns, step=micro.lanes) as first,
            ):
                column = code.let("column", add(mul(tile[1], micro.columns), first))
                self._store_vector(code, x, row, column, (*tile, u, first), elements)

    def _tiles(self, needed: e.Expression, most: int, size: int) -> e.Expression:
        return divided(add(clamp(needed, most), size - 1), size)

    def _move(
        self,
        code: Code,
        array: Array,
        tile: _Tile,
        registers: Array,
        load: bool,
        added: bool = False,
    ) -> None:
        micro = self._micro
        kind = vector_type(array.dtype, micro.lanes)
        with code.loop("u", micro.rows, unroll=-1) as u:
            for vector in range(micro.vectors):
                here = (*tile, u, code.index(vector * micro.lanes))
                there = (u, code.index(vector))
                if load:
                    value: e.Expression = code.load(array, here, kind)
                    if added:
                        value = e.Binary("add", value, code.load(registers, there, kind))
                    code.store(registers, there, value)
                else:
                    code.store(array, here, code.load(registers, there, kind))

    def _step(
        self,
        code: Code,
        x: s.Multiply,
        at: tuple[e.Expression, e.Expression, e.Expression],
        registers: Array,
    ) -> None:
        """One column of the first operand times one row of the second."""
        i, j, k = at
        micro = self._micro
        kind = vector_type(registers.dtype, micro.lanes)
        right = [self._right(code, x.b, k, j, v, registers.dtype) for v in range(micro.vectors)]
        with code.loop("u", micro.rows, unroll=-1) as u:
            row = add(mul(i, micro.rows), u)
            left = splat(self._left(code, x.a, row, k, registers.dtype), kind)
            for v in range(micro.vectors):
                place_of = (u, code.index(v))
                total = code.load(registers, place_of, kind)
                product = e.Binary("mul", left, right[v])
                code.store(registers, place_of, e.Binary("add", product, total))

    def _left(
        self, code: Code, a: Fragment | e.Region, row: e.Expression, k: e.Expression, dtype: DType
    ) -> e.Expression:
        held = self._held(a)
        if held is not None:
            line, lane = (k, row) if held.transposed else (row, k)
            return code.load(held.array, (*_lead_of(a), line, lane), dtype)
        assert isinstance(a, e.Region)
        return code.load(a.array, place(a, row, k), dtype)

    def _right(
        self,
        code: Code,
        b: Fragment | e.Region,
        k: e.Expression,
        j: e.Expression,
        vector: int,
        dtype: DType,
    ) -> e.Expression:
        micro = self._micro
        kind = vector_type(dtype, micro.lanes)
        held = self._held(b)
        if held is not None:
            at = held.at(_lead_of(b), k, j, vector * micro.lanes)
            return code.load(held.array, at, kind)
        assert isinstance(b, e.Region)
        column = add(mul(j, micro.columns), vector * micro.lanes)
        return code.load(b.array, place(b, k, column), kind, kept_dims(b)[1])

    def _held(self, operand: Fragment | e.Region) -> Panels | None:
        return self._panels.get(operand.array if isinstance(operand, e.Region) else operand)


def _up(x: int, step: int) -> int:
    return -(-x // step) * step


def _sum_type(work: Work, fragment: Fragment) -> DType:
    return work.held_type(fragment) if fragment.use == "accumulator" else fragment.dtype.register


def _packs(tile: Tile) -> bool:
    """Whether an operand tile may be laid out as panels."""
    return tile.whole and tile.exclusive and not tile.bulk and len(tile.uses) == 1


def _along(copy: s.CopyTile, target_dim: int) -> bool:
    """Whether the source is contiguous along what becomes a dimension of the target."""
    source_dim = alike_dims(copy)[target_dim]
    strides = copy.source.array.strides
    return bool(strides) and strides[source_dim] == "unit" and strides.count("unit") == 1


def _lead(region: e.Region) -> tuple[e.Expression, ...]:
    return tuple(
        start for start, extent in zip(region.starts, region.extents, strict=True) if extent is None
    )


def _lead_of(operand: Fragment | e.Region) -> tuple[e.Expression, ...]:
    return _lead(operand) if isinstance(operand, e.Region) else ()
