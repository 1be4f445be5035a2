"""Accumulators in the registers of matrix instructions, and what can be done with them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from portable.dtypes import DType, bfloat16, float16, uint32
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.facts import Facts
from portable.lang.ir.nodes import both, constant
from portable.lang.ir.types import Array, Fragment, Vector, scalar_of
from portable.lang.tiles.lanes import Lanes, divided, remainder
from portable.lang.tiles.mma_shapes import SUMS, RegisterLayout
from portable.lang.tiles.strategy import Strategy, kept_dims
from portable.lang.tiles.work import Code, Work, add, mul, stored

# Elements of regions: where they lie, whether inside their array; vectors of them are stored.


def store_neighbours(
    code: Code,
    target: e.Region,
    row: e.Expression,
    column: e.Expression,
    values: Sequence[e.Expression],
) -> None:
    """Writes a vector from an element on; one by one where a global array begins or ends in it.

    Parameters
    ----------
    code : Code
        Where to write it.
    target : Region
        Of two dimensions; the columns are its last.
    row, column : Expression
        Of the first element in it, which need not lie inside the array.
    values : sequence of Expression
        The elements, of one type.
    """
    array, axis = target.array, kept_dims(target)[-1]
    places = [place(target, row, add(column, number)) for number in range(len(values))]
    if len(values) == 1:
        _one_by_one(code, target, places, values)
        return
    kind = Vector(scalar_of(values[0].type), len(values))
    whole = both(inside(target, places[0]), inside(target, places[-1]))
    with code.when(whole):
        code.store(array, places[0], e.MakeVector(tuple(values), kind), axis)
    if whole is not None:
        with code.otherwise():
            _one_by_one(code, target, places, values)


def _one_by_one(
    code: Code,
    target: e.Region,
    places: Sequence[tuple[e.Expression, ...]],
    values: Sequence[e.Expression],
) -> None:
    for index, value in zip(places, values, strict=True):
        with code.when(inside(target, index)):
            code.store(target.array, index, value)


def place(region: e.Region, row: e.Expression, column: e.Expression) -> tuple[e.Expression, ...]:
    """The index into its array of an element of a region.

    Parameters
    ----------
    region : Region
        Of two dimensions, or of more of which all but the last are counted as one.
    row, column : Expression
        Of the element in it.
    """
    index = [*region.starts]
    for dim, offset in zip(kept_dims(region), _offsets(region, row, column), strict=True):
        index[dim] = add(index[dim], offset)
    return tuple(index)


def _offsets(region: e.Region, row: e.Expression, column: e.Expression) -> list[e.Expression]:
    """The distances from the start along each dimension."""
    if not region.joined:
        return [row, column]
    offsets = [column]
    *outer, _ = (extent for extent in region.extents if extent is not None)
    for extent in reversed(outer[1:]):
        offsets.insert(0, remainder(row, extent))
        row = divided(row, extent)
    return [row, *offsets]


def inside(region: e.Region, index: tuple[e.Expression, ...]) -> e.Expression | None:
    """Whether an index that `place` gave is one of a global array's; None where it always is."""
    if region.array.space != "global":
        return None
    conditions: list[e.Expression] = []
    for dim, x in enumerate(index):
        assert isinstance(x.type, DType)
        if not (isinstance(x, e.Const) and x.value >= 0):
            conditions.append(e.Compare("ge", x, e.Const(0, x.type)))
        conditions.append(e.Compare("lt", x, e.Extent(region.array, dim, x.type)))
    return both(*conditions)


# Stores accumulators as halves, 16 bytes of a row at a time.
#
# A lane holds two neighbours of every 8 columns, 4 bytes as halves. The four lanes that share a row
# trade what they hold of 32 columns until each has 8 neighbours: lanes that differ in one bit of
# their number swap one of every two words, first for the low bit, then for the high one.

REGISTERS: Final = 16
"""What a lane holds of 16 rows and 32 columns."""

_LANES: Final = 4
_COLUMNS: Final = 8


def in_quads(layout: RegisterLayout, target: e.Region, facts: Facts) -> bool:
    """Whether registers can be stored so, in an array of whole vectors.

    Parameters
    ----------
    layout : RegisterLayout
        Of the registers.
    target : Region
        Where they go.
    facts : Facts
        Of the kernel.
    """
    *first, (across, step) = (*layout.registers[:3], (1, (0, 0)))[:3]
    if (*first,) != SUMS.registers or step != (0, _COLUMNS) or across % _LANES:
        return False
    array, axis = target.array, kept_dims(target)[-1]
    start = target.starts[axis]
    others = (kind for dim, kind in enumerate(array.strides) if dim != axis)
    return (
        array.dtype in (float16, bfloat16)
        and (array.space, array.aligned) == ("global", True)
        and array.strides[axis] == "unit"
        and "unit" not in others
        and facts.multiple_of(start) % _COLUMNS == 0
    )


def store_quads(
    code: Code,
    target: e.Region,
    lanes: Lanes,
    row: e.Expression,
    column: e.Expression,
    values: Sequence[e.Expression],
) -> None:
    """Writes what the lanes hold of 16 rows and 32 columns, as far as these exist.

    Parameters
    ----------
    code : Code
        Where to write it.
    target : Region
        Its array's columns are whole vectors.
    lanes : Lanes
        The work-item's.
    row, column : Expression
        Of this lane's first element in the region.
    values : sequence of Expression
        Its `REGISTERS` elements.
    """
    column = add(column, mul(lanes.member, _COLUMNS - 2))
    pack = f"pack.{target.array.dtype.short}"
    for lower in (0, 1):
        words = [code.work.variable("traded", uint32) for _ in range(_LANES)]
        for j, word in enumerate(words):
            at = 4 * j + 2 * lower
            code.instruct(pack, outputs=(word,), inputs=(values[at], values[at + 1]))
        _trade(code, words, lanes.member)
        index = place(target, add(row, 8 * lower), column)
        address = ((target.array, index),)
        with code.when(inside(target, index)):
            code.instruct("store.v4.b32", inputs=tuple(words), addresses=address)


def _trade(code: Code, words: Sequence[e.Variable], member: e.Expression) -> None:
    """From every lane's words those of this one's number."""
    low, high = remainder(member, 2), divided(member, 2)
    for distance, bit in ((1, low), (2, high)):
        for i in range(_LANES):
            if not i & distance:
                pair = words[i], words[i + distance]
                code.instruct(f"trade.{distance}", outputs=pair, inputs=(bit,))


@dataclass(frozen=True, slots=True)
class Held:
    """The elements of an accumulator in one lane.

    Attributes
    ----------
    fragment : Fragment
        The accumulator.
    lanes : Lanes
        The work-item's.
    row, column : Expression
        Where the lane stands in it.
    layout : RegisterLayout
        Of a warp's share; every two registers are neighbours in a row.
    registers : tuple of Variable
        The elements.
    together : tuple of statements
        By which the compiler sees that the lanes of a warp go the same way, where it may doubt it.
    """

    fragment: Fragment
    lanes: Lanes
    row: e.Expression
    column: e.Expression
    layout: RegisterLayout
    registers: tuple[e.Variable, ...]
    together: s.Block = ()

    @classmethod
    def of(
        cls,
        code: Code,
        fragment: Fragment,
        lanes: Lanes,
        origin: tuple[e.Expression, e.Expression],
        layout: RegisterLayout,
        together: s.Block = (),
    ) -> Held:
        """Binds where a lane stands in a warp's share, which begins at `origin`, and registers."""
        row, column = (
            code.let(f"{fragment.name}_{name}", add(begin, tile))
            for name, begin, tile in zip(
                ("row", "column"), origin, layout.standing(lanes.member, lanes.group), strict=True
            )
        )
        registers = tuple(
            code.work.variable(f"{fragment.name}_{i}", fragment.dtype) for i in range(layout.count)
        )
        return cls(fragment, lanes, row, column, layout, registers, together)

    def fill(self, work: Work, x: s.FragmentFill) -> s.Block:
        """Sets all registers."""
        code = work.code(x.loc)
        value = code.let("filling", x.value)
        code.emit(*(s.Assign(register, value, x.loc) for register in self.registers))
        return code.block

    def load(self, work: Work, x: s.FragmentLoad) -> s.Block:
        """Reads the elements one by one."""
        code = work.code(x.loc)
        for register, row, column in self._places():
            index = place(x.source, row, column)
            if x.source.array.space == "global":
                code.assign(register, e.Const(0.0, self.fragment.dtype))
            with code.when(inside(x.source, index)):
                loaded = code.load(x.source.array, index, self.fragment.dtype)
                code.assign(register, loaded)
        return code.block

    def store(self, work: Work, x: s.FragmentStore) -> s.Block:
        """Writes every two neighbours at once, and halves in rows of 8 where there are such."""
        code = work.code(x.loc)
        copied = self._copied(code)
        if not in_quads(self.layout, x.target, work.facts):
            self._store_pairs(code, copied, x.target)
            return code.block
        columns = e.Extent(x.target.array, kept_dims(x.target)[-1], work.kernel.index_type)
        rest = remainder(columns, _COLUMNS)
        with code.when(e.Compare("eq", rest, e.Const(0, columns.type))):
            self._store_quads(code, copied, x.target)
        with code.otherwise():
            self._store_pairs(code, copied, x.target)
        return code.block

    def _store_pairs(self, code: Code, copied: Array, target: e.Region) -> None:
        with code.loop("pair", len(self.registers) // 2, unroll=-1) as which:
            values = self._group(code, copied, which, 2)
            store_neighbours(code, target, *self._place(which, 2), values)

    def _store_quads(self, code: Code, copied: Array, target: e.Region) -> None:
        code.emit(*self.together)
        with code.loop("quad", len(self.registers) // REGISTERS, unroll=-1) as which:
            values = self._group(code, copied, which, REGISTERS)
            store_quads(code, target, self.lanes, *self._place(which, REGISTERS), values)

    def _group(
        self, code: Code, copied: Array, which: e.Expression, count: int
    ) -> list[e.Expression]:
        """The elements of the registers of a group of so many."""
        first = mul(which, count)
        return [code.load(copied, (add(first, i),), self.fragment.dtype) for i in range(count)]

    def _places(self) -> Iterator[tuple[e.Variable, e.Expression, e.Expression]]:
        for register, (row, column) in zip(self.registers, self.layout.offsets, strict=True):
            yield register, add(self.row, row), add(self.column, column)

    def elements(self, work: Work, x: s.ForElements, partners: Sequence[Held] = ()) -> s.Block:
        """One unrolled loop over a copy of the registers, so that the body stands there once."""
        code = work.code(x.loc)
        code.emit(*self.together)
        copied = self._copied(code)
        beside = [
            (other, held._copied(code)) for other, held in zip(x.others, partners, strict=True)
        ]
        with code.loop("held", len(self.registers), unroll=-1) as which:
            row, column = self._place(which)
            code.emit(s.Let(x.row, row, x.loc))
            code.emit(s.Let(x.column, column, x.loc))
            for variable, registers in ((x.value, copied), *beside):
                loaded = code.load(registers, (which,), self.fragment.dtype)
                code.assign(variable, loaded)
            code.emit(*x.body)
            if x.writes:
                code.store(copied, (which,), x.value)
        if x.writes:
            for at, register in enumerate(self.registers):
                loaded = code.load(copied, (code.index(at),), self.fragment.dtype)
                code.assign(register, loaded)
        return code.block

    def _copied(self, code: Code) -> Array:
        """A private array of the registers, for loops over them."""
        name, dtype = self.fragment.name, self.fragment.dtype
        copied = code.work.private(name, dtype, (len(self.registers),))
        for at, register in enumerate(self.registers):
            code.store(copied, (code.index(at),), register)
        return copied

    def _place(self, which: e.Expression, step: int = 1) -> tuple[e.Expression, e.Expression]:
        """Row and column of the register that has a number, counted in steps."""
        down, across = self.layout.grouped(step).moved(which)
        return add(self.row, down), add(self.column, across)


# -- element by element

Element = tuple[e.Expression, e.Expression, tuple[e.Expression, ...], e.Expression | None]
"""Its row, its column, its index in the array that holds it, and whether it exists."""


class ByElements(Strategy):
    """A strategy that keeps fragments in private arrays, whose elements it can go through."""

    @abstractmethod
    def _array(self, fragment: Fragment) -> Array:
        """Where a fragment is held."""

    @abstractmethod
    def _each(self, code: Code, fragment: Fragment) -> AbstractContextManager[Element]:
        """Row, column, index of an element and whether it exists, inside the loops over all."""

    def _first(self, fragment: Fragment) -> e.Expression | None:
        """Whether this work-item is the first of those that hold the same elements."""
        return None

    def load(self, x: s.FragmentLoad) -> s.Block:
        """Element by element."""
        code, array = self.work.code(x.loc), self._array(x.fragment)
        with self._each(code, x.fragment) as (row, column, at, position):
            index = place(x.source, row, column)
            condition = both(position, inside(x.source, index))
            with code.when(condition):
                value = code.load(x.source.array, index, x.source.array.dtype.register)
                code.store(array, at, value)
            if condition is not None:
                with code.otherwise():
                    code.store(array, at, constant(0, array.dtype))
        return code.block

    def elements(self, x: s.ForElements) -> s.Block:
        """All that is held; of an operand's element, held several times, one where it is read."""
        code, array = self.work.code(x.loc), self._array(x.fragment)
        with self._each(code, x.fragment) as (row, column, at, position):
            first = None if x.writes else self._first(x.fragment)
            with code.when(both(first, position)):
                code.emit(s.Let(x.row, row, x.loc), s.Let(x.column, column, x.loc))
                code.assign(x.value, code.load(array, at, x.value.type))
                for partner, other in zip(x.partners, x.others, strict=True):
                    element = code.load(self._array(partner), at, other.type)
                    code.assign(other, element)
                code.emit(*x.body)
                if x.writes:
                    code.store(array, at, stored(x.value, x.fragment))
        return code.block
