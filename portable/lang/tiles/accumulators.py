"""Accumulators in the registers of matrix instructions, and what can be done with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.types import Array, Fragment
from portable.lang.tiles.lanes import Lanes, remainder
from portable.lang.tiles.mma_shapes import RegisterLayout
from portable.lang.tiles.quads import COLUMNS, REGISTERS, in_quads, store_quads
from portable.lang.tiles.regions import inside, place, store_neighbours
from portable.lang.tiles.strategy import kept_dims
from portable.lang.tiles.work import Code, Work, add, mul


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
        rest = remainder(columns, COLUMNS)
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
