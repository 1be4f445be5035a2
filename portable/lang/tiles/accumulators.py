"""Accumulators in the registers of matrix instructions, and what can be done with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from portable.dtypes import bfloat16, float16, uint32
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.facts import Facts
from portable.lang.ir.types import Array, Fragment, Region
from portable.lang.tiles.lanes import Lanes, divided, remainder
from portable.lang.tiles.mma_shapes import Offset
from portable.lang.tiles.neighbours import store_neighbours
from portable.lang.tiles.parts import kept_dims
from portable.lang.tiles.regions import exists, inside, place
from portable.lang.tiles.work import Code, Work, add, mul, number

__all__ = ["Held", "distance"]


# Stores accumulators as halves, 16 bytes of a row at a time.
#
# A lane holds two neighbours of every 8 columns, 4 bytes as halves. The four lanes that share a row
# trade what they hold of 32 columns until each has 8 neighbours: lanes that differ in one bit of
# their number swap one of every two words, first for the low bit, then for the high one.

REGISTERS: Final = 16
"""What a lane holds of 16 rows and 32 columns."""

_LANES: Final = 4
_COLUMNS: Final = 8


def in_quads(offsets: Sequence[Offset], target: Region, facts: Facts) -> bool:
    """Whether registers can be stored so, where all of the region exists.

    Parameters
    ----------
    offsets : sequence of (int, int)
        Of the registers' elements, row and column.
    target : Region
        Where they go.
    facts : Facts
        Of the kernel.
    """
    first = tuple((8 * h, 8 * j + odd) for j in range(_LANES) for h in (0, 1) for odd in (0, 1))
    whole, rest = divmod(len(offsets), REGISTERS)
    groups = (offsets[i * REGISTERS : (i + 1) * REGISTERS] for i in range(whole))
    if rest or not all(_from_first(group) == first for group in groups):
        return False
    array, axis = target.array, kept_dims(target)[-1]
    start = target.starts[axis]
    others = (kind for dim, kind in enumerate(array.strides) if dim != axis)
    return (
        array.dtype in (float16, bfloat16)
        and (array.space, array.aligned) == ("global", True)
        and array.strides[axis] == "unit"
        and "unit" not in others
        and facts.multiple_of(start) % _COLUMNS == 0  # type: ignore[arg-type]
    )


def _from_first(group: Sequence[Offset]) -> tuple[Offset, ...]:
    row, column = group[0]
    return tuple((i - row, j - column) for i, j in group)


def store_quads(
    code: Code,
    target: Region,
    lanes: Lanes,
    row: e.Expression,
    column: e.Expression,
    values: Sequence[e.Expression],
) -> None:
    """Writes what the lanes hold of 16 rows and 32 columns.

    Parameters
    ----------
    code : Code
        Where to write it.
    target : Region
        All of it exists.
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
            code.emit(s.Instruction(pack, (word,), (values[at], values[at + 1]), (), code.loc))
        _trade(code, words, lanes.member)
        index = place(target, add(row, 8 * lower), column)
        address = ((target.array, index),)
        code.emit(s.Instruction("store.v4.b32", (), tuple(words), address, code.loc))


def _trade(code: Code, words: Sequence[e.Variable], member: e.Expression) -> None:
    """From every lane's words those of this one's number."""
    low, high = remainder(member, 2), divided(member, 2)
    for distance, bit in ((1, low), (2, high)):
        for i in range(_LANES):
            if not i & distance:
                pair = words[i], words[i + distance]
                code.emit(s.Instruction(f"trade.{distance}", pair, (bit,), (), code.loc))


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
    offsets : tuple of (int, int)
        Per register its element's distance from there; every two are neighbours in a row.
    registers : tuple of Variable
        The elements.
    together : tuple of statements
        By which the compiler sees that the lanes of a warp go the same way, where it may doubt it.
    """

    fragment: Fragment
    lanes: Lanes
    row: e.Expression
    column: e.Expression
    offsets: tuple[Offset, ...]
    registers: tuple[e.Variable, ...]
    together: s.Block = ()

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
                code.emit(s.Assign(register, e.Const(0.0, self.fragment.dtype), x.loc))
            with code.when(inside(x.source, index)):
                loaded = code.load(x.source.array, index, self.fragment.dtype)
                code.emit(s.Assign(register, loaded, x.loc))
        return code.block

    def store(self, work: Work, x: s.FragmentStore) -> s.Block:
        """Writes every two neighbours at once, and halves in rows of 8 where all of them exist."""
        code = work.code(x.loc)
        copied = self._copied(code)
        if not in_quads(self.offsets, x.target, work.facts):
            self._store_pairs(code, copied, x.target)
            return code.block
        with code.when(exists(x.target, work.facts)):
            self._store_quads(code, copied, x.target)
        with code.otherwise():
            self._store_pairs(code, copied, x.target)
        return code.block

    def _store_pairs(self, code: Code, copied: Array, target: Region) -> None:
        with code.loop("pair", len(self.registers) // 2, unroll=-1) as which:
            values = self._group(code, copied, which, 2)
            store_neighbours(code, target, *self._place(which, 2), values)

    def _store_quads(self, code: Code, copied: Array, target: Region) -> None:
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
        for register, (row, column) in zip(self.registers, self.offsets, strict=True):
            yield register, add(self.row, row), add(self.column, column)

    def elements(self, work: Work, x: s.ForElements) -> s.Block:
        """One unrolled loop over a copy of the registers, so that the body stands there once."""
        code = work.code(x.loc)
        code.emit(*self.together)
        copied = self._copied(code)
        with code.loop("held", len(self.registers), unroll=-1) as which:
            row, column = self._place(which)
            code.emit(s.Let(x.row, row, x.loc))
            code.emit(s.Let(x.column, column, x.loc))
            code.emit(s.Assign(x.value, code.load(copied, (which,), self.fragment.dtype), x.loc))
            code.emit(*x.body)
            if x.writes:
                code.store(copied, (which,), x.value)
        if x.writes:
            for at, register in enumerate(self.registers):
                loaded = code.load(copied, (code.index(at),), self.fragment.dtype)
                code.emit(s.Assign(register, loaded, x.loc))
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
        rows, columns = zip(*self.offsets[::step], strict=True)
        return (
            add(self.row, distance(list(rows), which)),
            add(self.column, distance(list(columns), which)),
        )


def distance(values: list[int], which: e.Expression) -> e.Expression:
    """The entry of a table as a formula: ``sum of digit * step``, the digits those of `which`.

    The table begins with 0 and grows by one step along each digit, as the offsets of registers do;
    the digits' radices follow from that.
    """
    kind = which.type
    total = number(0, kind)
    span = 1
    while span < len(values):
        step = values[span]
        digits = _digits(values, span, step)
        digit = which if span == 1 else e.Binary("floordiv", which, number(span, kind), True)
        if span * digits < len(values):
            digit = e.Binary("mod", digit, number(digits, kind), True)
        if step:
            total = add(total, mul(digit, step))
        span *= digits
    return total


def _digits(values: list[int], span: int, step: int) -> int:
    """How far the values grow by `step` with every `span` entries."""
    count = 1
    while count * span < len(values) and values[count * span] == count * step:
        count += 1
    return count
