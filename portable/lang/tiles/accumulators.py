"""Accumulators in the registers of matrix instructions, and what can be done with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.types import Array, Fragment, Region
from portable.lang.tiles.half_stores import REGISTERS, in_quads, store_quads
from portable.lang.tiles.lanes import Lanes
from portable.lang.tiles.mma_shapes import Offset
from portable.lang.tiles.neighbours import store_neighbours
from portable.lang.tiles.regions import exists, inside, place
from portable.lang.tiles.work import Code, Work, add, mul, number

__all__ = ["Held", "distance"]


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
