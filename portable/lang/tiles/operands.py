"""Loads operands of mma.sync into registers: with ldmatrix where their layout allows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from portable.dtypes import bfloat16, float16
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.facts import Facts
from portable.lang.ir.types import Region
from portable.lang.tiles.lanes import Lanes, divided, remainder
from portable.lang.tiles.mma_shapes import Shape
from portable.lang.tiles.parts import kept_dims
from portable.lang.tiles.regions import inside, place
from portable.lang.tiles.register_layout import Offset, RegisterLayout
from portable.lang.tiles.work import Code, add, mul

Registers = list[list[e.Variable]]
"""Registers of one k-step for each tile along the outer dimension: a's rows, b's columns."""

_EIGHT: Final = 8


@dataclass(frozen=True, slots=True)
class Loader:
    """Loads one operand's share of a warp.

    Attributes
    ----------
    shape : Shape
        The instruction.
    use : {"a", "b"}
        Which operand it is.
    lanes : Lanes
        The work-item's.
    outer : Expression
        Where the warp's share begins along the operand's outer dimension.
    facts : Facts
        Of the kernel.
    """

    shape: Shape
    use: Literal["a", "b"]
    lanes: Lanes
    outer: e.Expression
    facts: Facts

    @property
    def extent(self) -> int:
        """Of a tile along the outer dimension."""
        return self.shape.m if self.use == "a" else self.shape.n

    def load(self, code: Code, region: Region, k: int, into: Registers) -> None:
        """Fills the registers with the columns (rows for b) from `k` on."""
        array = code.work.current(region.array)
        region = Region(array, region.starts, region.extents, region.transposed)
        along_k = self._matrix_rows(region)
        if along_k is None:
            self._one_by_one(code, region, k, into)
        else:
            self._matrices(code, region, k, into, along_k)

    # -- ldmatrix ---------------------------------------------------------------------------

    def _matrix_rows(self, region: Region) -> bool | None:
        """Whether rows of 8 halves in local memory run along k; None where there are none."""
        array, layout = region.array, region.array.layout
        if array.space != "local" or array.dtype not in (float16, bfloat16) or layout is None:
            return None
        kept = kept_dims(region)
        inner = [dim for dim in kept if layout.strides[dim] == 1]
        if len(inner) != 1 or any(x % _EIGHT for x in layout.strides if x != 1):
            return None
        start = region.starts[inner[0]]
        if self.facts.multiple_of(start) % _EIGHT:  # type: ignore[arg-type]
            return None
        k_dim = kept[1] if self.use == "a" else kept[0]
        return inner[0] == k_dim

    def _matrices(self, code: Code, region: Region, k: int, into: Registers, along_k: bool) -> None:
        """Four 8 x 8 matrices at a time in the order of registers; two for a last tile of b."""
        count = 1 if self.use == "a" else 2
        outer, inner = self._row_of(along_k)
        outer = code.let(f"{self.use}_outer", add(self.outer, outer))
        inner = code.let(f"{self.use}_inner", inner)
        for first in range(0, len(into), count):
            registers = tuple(r for tile in into[first : first + count] for r in tile)
            name = f"ldmatrix.x{len(registers)}" + ("" if along_k else ".trans")
            index = self._index(region, add(outer, first * self.extent), add(inner, k))
            code.emit(s.Instruction(name, registers, (), ((region.array, index),), code.loc))

    def _row_of(self, along_k: bool) -> tuple[e.Expression, e.Expression]:
        """Which row of 8 halves the lane gives the address of, as distances along both dimensions.

        Lanes 0 to 7 give the first matrix's rows, 8 to 15 the second's and so on. The second matrix
        lies 8 further along the outer dimension for a and along k for b, the third the other
        way. Where there are but two, the addresses of lanes 16 and on are not looked at.
        """
        row = remainder(self.lanes.lane, _EIGHT)
        second = mul(remainder(divided(self.lanes.lane, _EIGHT), 2), _EIGHT)
        third = mul(divided(self.lanes.lane, 16), _EIGHT)
        outer, inner = (second, third) if self.use == "a" else (third, second)
        return (add(outer, row), inner) if along_k else (outer, add(inner, row))

    def _index(
        self, region: Region, outer: e.Expression, k: e.Expression
    ) -> tuple[e.Expression, ...]:
        return place(region, outer, k) if self.use == "a" else place(region, k, outer)

    # -- any memory -------------------------------------------------------------------------

    @property
    def layout(self) -> RegisterLayout:
        """Of the operand."""
        return self.shape.a if self.use == "a" else self.shape.b

    def _one_by_one(self, code: Code, region: Region, k: int, into: Registers) -> None:
        offsets, packed = self.layout.offsets, self.shape.packed
        for number, tile in enumerate(into):
            for at, register in enumerate(tile):
                values = [
                    self._element(code, region, offset, number * self.extent, k)
                    for offset in offsets[at * packed : (at + 1) * packed]
                ]
                self._join(code, register, values)

    def _join(self, code: Code, register: e.Variable, values: list[e.Expression]) -> None:
        if len(values) == 1:
            code.emit(s.Assign(register, values[0], code.loc))
        else:
            name = f"pack.{self.shape.operand.short}"
            code.emit(s.Instruction(name, (register,), tuple(values), (), code.loc))

    def _element(
        self, code: Code, region: Region, offset: Offset, outer: int, k: int
    ) -> e.Expression:
        row, column = self._standing()
        down, along = (outer, k) if self.use == "a" else (k, outer)
        index = place(region, add(row, offset[0] + down), add(column, offset[1] + along))
        kind = region.array.dtype.register
        condition = inside(region, index)
        if condition is None:
            return code.load(region.array, index, kind)
        value = code.work.variable("operand", kind)
        code.emit(s.Assign(value, e.Const(0.0, kind), code.loc))
        with code.when(condition):
            code.emit(s.Assign(value, code.load(region.array, index, kind), code.loc))
        return value

    def _standing(self) -> tuple[e.Expression, e.Expression]:
        """The row and column of the operand at which the lane stands."""
        row, column = self.layout.standing(self.lanes.member, self.lanes.group)
        if self.use == "a":
            return add(row, self.outer), column
        return row, add(column, self.outer)


def ordered(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    """All pairs, the columns forth and back, so that neighbouring steps share an operand."""
    for row in range(rows):
        for column in range(columns):
            yield row, columns - 1 - column if row % 2 else column
