"""Products by mma.sync: fragments in the registers of warps, loaded by ldmatrix where it can be."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import gcd
from typing import Final, Literal

from portable.dtypes import DType, bfloat16, float16, float64, uint32
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.facts import Facts
from portable.lang.ir.pipeline import Pipeline, rounds_of
from portable.lang.ir.types import Fragment
from portable.lang.ir.walks import all_statements
from portable.lang.tiles.accumulators import Held
from portable.lang.tiles.lanes import Lanes, divided, remainder
from portable.lang.tiles.mma_shapes import LANES, Offset, RegisterLayout, Shape, room, shape_of
from portable.lang.tiles.regions import inside, place
from portable.lang.tiles.rotation import exist_always, rotation
from portable.lang.tiles.strategy import Part, Strategy, kept_dims, spread
from portable.lang.tiles.work import Code, Work, add, mul

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

    def load(self, code: Code, region: e.Region, k: int, into: Registers) -> None:
        """Fills the registers with the columns (rows for b) from `k` on."""
        array = code.work.current(region.array)
        region = e.Region(array, region.starts, region.extents, region.transposed)
        along_k = self._matrix_rows(region)
        if along_k is None:
            self._one_by_one(code, region, k, into)
        else:
            self._matrices(code, region, k, into, along_k)

    # -- ldmatrix ---------------------------------------------------------------------------

    def _matrix_rows(self, region: e.Region) -> bool | None:
        """Whether rows of 8 halves in local memory run along k; None where there are none."""
        array, layout = region.array, region.array.layout
        if array.space != "local" or array.dtype not in (float16, bfloat16) or layout is None:
            return None
        kept = kept_dims(region)
        inner = [dim for dim in kept if layout.strides[dim] == 1]
        if len(inner) != 1 or any(x % _EIGHT for x in layout.strides if x != 1):
            return None
        start = region.starts[inner[0]]
        if self.facts.multiple_of(start) % _EIGHT:
            return None
        k_dim = kept[1] if self.use == "a" else kept[0]
        return inner[0] == k_dim

    def _matrices(
        self, code: Code, region: e.Region, k: int, into: Registers, along_k: bool
    ) -> None:
        """Four 8 x 8 matrices at a time in the order of registers; two for a last tile of b."""
        count = 1 if self.use == "a" else 2
        outer, inner = self._row_of(along_k)
        outer = code.let(f"{self.use}_outer", add(self.outer, outer))
        inner = code.let(f"{self.use}_inner", inner)
        for first in range(0, len(into), count):
            registers = tuple(r for tile in into[first : first + count] for r in tile)
            name = f"ldmatrix.x{len(registers)}" + ("" if along_k else ".trans")
            index = self._index(region, add(outer, first * self.extent), add(inner, k))
            code.instruct(name, outputs=registers, addresses=((region.array, index),))

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
        self, region: e.Region, outer: e.Expression, k: e.Expression
    ) -> tuple[e.Expression, ...]:
        return place(region, outer, k) if self.use == "a" else place(region, k, outer)

    # -- any memory -------------------------------------------------------------------------

    @property
    def layout(self) -> RegisterLayout:
        """Of the operand."""
        return self.shape.a if self.use == "a" else self.shape.b

    def _one_by_one(self, code: Code, region: e.Region, k: int, into: Registers) -> None:
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
            code.assign(register, values[0])
        else:
            name = f"pack.{self.shape.operand.short}"
            code.instruct(name, outputs=(register,), inputs=tuple(values))

    def _element(
        self, code: Code, region: e.Region, offset: Offset, outer: int, k: int
    ) -> e.Expression:
        row, column = self._standing()
        down, along = (outer, k) if self.use == "a" else (k, outer)
        index = place(region, add(row, offset[0] + down), add(column, offset[1] + along))
        kind = region.array.dtype.register
        condition = inside(region, index)
        if condition is None:
            return code.load(region.array, index, kind)
        value = code.work.variable("operand", kind)
        code.assign(value, e.Const(0.0, kind))
        with code.when(condition):
            code.assign(value, code.load(region.array, index, kind))
        return value

    def _standing(self) -> tuple[e.Expression, e.Expression]:
        """The row and column of the operand at which the lane stands."""
        row, column = self.layout.standing(self.lanes.member, self.lanes.group)
        if self.use == "a":
            return add(row, self.outer), column
        return row, add(column, self.outer)


_Use = Literal["a", "b"]
_A: Final[_Use] = "a"
_B: Final[_Use] = "b"

_SUMMED: Final = 4
"""Tiles whose sums of a k-step are under way at once, lest one product waits for the last."""


def grid_of(extents: tuple[int, int], warps: int, shape: Shape) -> tuple[int, int] | None:
    """Warps along rows and columns, for shares as square as can be; None where none fits.

    Parameters
    ----------
    extents : (int, int)
        Of an accumulator.
    warps : int
        How many hold it together.
    shape : Shape
        The instruction, of whose extents shares are multiples.
    """
    rows, columns = extents
    fitting = [
        (down, warps // down)
        for down in range(1, warps + 1)
        if warps % down == 0
        and rows % (down * shape.m) == 0
        and columns % (warps // down * shape.n) == 0
    ]
    return min(fitting, key=lambda g: (rows // g[0] + columns // g[1], g[0]), default=None)


def _warps(work: Work, part: Part) -> int:
    """Warps that hold a fragment together; 0 where it is none of their business."""
    match part.fragments[0].scope:
        case "workgroup":
            return work.items // LANES if work.items % LANES == 0 else 0
        case "sub_group":
            return int(work.kernel.sub_group_size == LANES and work.items % LANES == 0)
        case _:
            return 0


def _operand_type(part: Part) -> DType | None:
    kinds = {
        x.dtype if isinstance(x, Fragment) else x.array.dtype
        for multiply in part.multiplies
        for x in (multiply.a, multiply.b)
    }
    return kinds.pop() if len(kinds) == 1 else None


def _shape(work: Work, part: Part) -> Shape | None:
    kind = _operand_type(part)
    total = part.accumulators[0].dtype
    split = all(fragment.split for fragment in part.accumulators)
    depth = gcd(*(multiply.a.shape[1] for multiply in part.multiplies))
    return None if kind is None else shape_of(kind, total, work.capabilities, depth, split)


def _plain(work: Work, part: Part) -> bool:
    """Whether operand fragments are only loaded: their registers are no single elements."""
    for x in all_statements(work.kernel.body):
        match x:
            case s.FragmentFill() | s.FragmentStore() | s.ForElements():
                if x.fragment in part.fragments and x.fragment.use != "accumulator":
                    return False
            case _:
                pass
    return True


def _copies_after(copies: s.Block, step: int, steps: int) -> s.Block:
    """What of a round's copies follows one of so many k-steps."""
    before = 0
    statements: list[s.Statement] = []
    for x in copies:
        if min(before, steps - 1) == step:
            statements.append(x)
        before += isinstance(x, s.CopyTile)
    return tuple(statements)


class MmaSync(Strategy):
    """Every warp holds a rectangle of the accumulators, and loads what it needs of the operands.

    The operands of the next k-step are loaded while the present one is multiplied. `valid` is not
    looked at: the tiles hold zeros beyond it.
    """

    @classmethod
    def suits(cls, work: Work, part: Part) -> bool:
        """Where the instruction exists, and all shapes are whole numbers of it."""
        if not part.multiplies or not all(fragment.units for fragment in part.fragments):
            return False
        shape, warps = _shape(work, part), _warps(work, part)
        if shape is None or not warps or len({f.scope for f in part.fragments}) > 1:
            return False
        extents = {f.shape for f in part.accumulators}
        grid = grid_of(part.accumulators[0].shape, warps, shape)
        if len(extents) > 1 or grid is None or not _plain(work, part):
            return False
        rows, columns = part.accumulators[0].shape
        held = len(part.accumulators) * rows * columns // (warps * LANES)
        wide = shape.sum.itemsize // 4
        whole = all(multiply.a.shape[1] % shape.k == 0 for multiply in part.multiplies)
        return whole and held * wide <= room(work.items)

    def declare(self) -> s.Block:
        """Registers for accumulators and operands; padded tiles."""
        work, part = self.work, self.part
        shape = _shape(work, part)
        assert shape is not None
        self._shape = shape
        spread(work, list(part.tiles.values()))
        code = work.code(work.kernel.loc)
        self._lanes = Lanes.of(code)
        rows, columns = part.accumulators[0].shape
        grid = grid_of((rows, columns), _warps(work, part), shape)
        assert grid is not None
        self._share = rows // grid[0], columns // grid[1]
        self._origin = self._place_warp(code, grid)
        self._held = {f: self._hold(code, f) for f in part.accumulators}
        self._operands = {f: self._operand(f) for f in part.fragments if f.use != "accumulator"}
        self._buffers: dict[str, tuple[Registers, Registers]] = {}
        self._parts = self._made_parts() if shape.split else {}
        if self._splits("exact"):
            self._step_sums = [
                tuple(
                    work.variable(f"sums_{tile}_{i}", shape.sum)
                    for i in range(shape.accumulator.count)
                )
                for tile in range(_SUMMED)
            ]
        return code.block

    def _place_warp(self, code: Code, grid: tuple[int, int]) -> tuple[e.Expression, e.Expression]:
        if grid == (1, 1):
            return code.index(0), code.index(0)
        warp = self._lanes.warp
        down = mul(remainder(warp, grid[0]), self._share[0])
        along = mul(divided(warp, grid[0]), self._share[1])
        return code.let("warp_row", down), code.let("warp_column", along)

    def _hold(self, code: Code, fragment: Fragment) -> Held:
        shape, (rows, columns) = self._shape, self._share
        across = columns // shape.n, (0, shape.n)
        layout = shape.accumulator.repeated(across, (rows // shape.m, (shape.m, 0)))
        return Held.of(code, fragment, self._lanes, self._origin, layout)

    # -- operands ---------------------------------------------------------------------------

    def _loader(self, use: _Use) -> Loader:
        outer = self._origin[0 if use == "a" else 1]
        return Loader(self._shape, use, self._lanes, outer, self.work.facts)

    def _made_parts(self) -> dict[_Use, tuple[Registers, Registers]]:
        """Registers for the first bits of operands and for the rest."""
        return {
            use: (
                self._registers(f"{use}_high", use, uint32),
                self._registers(f"{use}_low", use, uint32),
            )
            for use in (_A, _B)
        }

    def _registers(self, name: str, use: _Use, kind: DType | None = None) -> Registers:
        """Variables for one k-step of an operand."""
        shape = self._shape
        tiles = self._share[0] // shape.m if use == "a" else self._share[1] // shape.n
        each = (shape.a if use == "a" else shape.b).count // shape.packed
        kind = kind or (uint32 if shape.operand.itemsize == 2 else shape.operand)
        return [
            [self.work.variable(f"{name}_{tile}_{i}", kind) for i in range(each)]
            for tile in range(tiles)
        ]

    def _operand(self, fragment: Fragment) -> list[Registers]:
        """The registers of an operand that is a fragment, per k-step."""
        use: _Use = "a" if fragment.use == "a" else "b"
        depth = fragment.shape[1 if use == "a" else 0]
        return [
            self._registers(f"{fragment.name}_{step}", use)
            for step in range(depth // self._shape.k)
        ]

    def _buffer(self, use: _Use) -> tuple[Registers, Registers]:
        """Registers that operands of local memory pass through, of two k-steps."""
        buffers = self._buffers.get(use)
        if buffers is None:
            first, second = (self._registers(f"{use}_{turn}", use) for turn in (0, 1))
            buffers = self._buffers[use] = first, second
        return buffers

    def _placed(self, operand: Fragment | e.Region, use: _Use, step: int) -> Registers:
        """The registers of an operand's k-step."""
        if isinstance(operand, Fragment):
            return self._operands[operand][step]
        return self._buffer(use)[step % 2]

    def _fetch(self, code: Code, x: s.Multiply, step: int) -> None:
        """Loads a k-step of the operands that lie in local memory."""
        for operand, use in ((x.a, _A), (x.b, _B)):
            if isinstance(operand, e.Region):
                registers = self._placed(operand, use, step)
                self._loader(use).load(code, operand, step * self._shape.k, registers)

    # -- statements -------------------------------------------------------------------------

    def multiply(self, x: s.Multiply) -> s.Block:
        """All k-steps, unrolled, each step's operands loaded a step ahead."""
        code = self.work.code(x.loc)
        self._fetch(code, x, 0)
        for step in range(self._steps(x)):
            if step + 1 < self._steps(x):
                self._fetch(code, x, step + 1)
            self._step(code, x, step)
        return code.block

    def pipeline(self, x: Pipeline) -> s.Block:
        """Rotated, so that the next round's first operands are loaded in this one's last k-step.

        Copies begin behind the first k-step: what works out their addresses and what multiplies
        then have something to do at once. Those of doubles have a k-step each, lest operands wait
        behind both: on an H200 products of 4096 took 0.96 of the time so.
        """
        rotated = rotation(x)
        if (
            rotated is None
            or self._steps(rotated.product) % 2
            or not exist_always(rotated.following, self.work.facts)
        ):
            return super().pipeline(x)
        before, code = self.work.code(x.loc), self.work.code(x.loc)
        before.emit(*rotated.waits)
        self._fetch(before, rotated.first, 0)
        code.emit(*rotated.bindings)
        last = self._steps(rotated.product) - 1
        copying = last if self._shape.operand is float64 else 1
        for step in range(last):
            self._fetch(code, rotated.product, step + 1)
            self._step(code, rotated.product, step)
            code.emit(*_copies_after(rotated.copies, step, copying))
        code.emit(*rotated.waits)
        self._fetch(code, rotated.following, 0)
        self._step(code, rotated.product, last)
        return *before.block, rounds_of(x, code.block)

    def _steps(self, x: s.Multiply) -> int:
        return x.a.shape[1] // self._shape.k

    def _step(self, code: Code, x: s.Multiply, step: int) -> None:
        """Multiplies what was loaded for a k-step."""
        a, b = self._placed(x.a, _A, step), self._placed(x.b, _B, step)
        if not self._shape.split:
            self._products(code, x.accumulator, a, b)
            return
        high_a, low_a = self._split(code, _A, a)
        high_b, low_b = self._split(code, _B, b)
        factors = [(high_a, high_b)]
        if not self._splits("first"):
            factors = [(low_a, high_b), (high_a, low_b), *factors]
        if self._splits("exact"):
            self._exact_sums(code, x.accumulator, factors)
        else:
            for left, right in factors:
                self._products(code, x.accumulator, left, right)

    def _splits(self, how: str) -> bool:
        """Whether factors are split, and in this way."""
        return self._shape.split and all(f.split == how for f in self.part.accumulators)

    def _exact_sums(
        self, code: Code, total: Fragment, factors: list[tuple[Registers, Registers]]
    ) -> None:
        """Adds a k-step's products to sums outside of matrix units, which round towards zero."""
        held, each = self._held[total].registers, self._shape.accumulator.count
        (a, b), zero = factors[0], e.Const(0.0, total.dtype)
        tiles = list(product(range(len(a)), range(len(b))))
        for start in range(0, len(tiles), _SUMMED):
            part = tiles[start : start + _SUMMED]
            sums = {tile: self._step_sums[at] for at, tile in enumerate(part)}
            code.emit(*(s.Assign(r, zero, code.loc) for tile in part for r in sums[tile]))
            for left, right in factors:
                for i, j in part:
                    operands = (*left[i], *right[j])
                    code.instruct(self._shape.name, outputs=sums[i, j], inputs=operands)
            for i, j in part:
                first = (i * len(b) + j) * each
                for r, more in zip(held[first : first + each], sums[i, j], strict=True):
                    code.assign(r, e.Binary("add", r, more))

    def _products(self, code: Code, total: Fragment, a: Registers, b: Registers) -> None:
        """Each of the operands' tiles with each of the other's."""
        held = self._held[total].registers
        each = self._shape.accumulator.count
        for i, j in product(range(len(a)), range(len(b))):
            first = (i * len(b) + j) * each
            operands = (*a[i], *b[j])
            sums = held[first : first + each]
            code.instruct(self._shape.name, outputs=sums, inputs=operands)

    def _split(self, code: Code, use: _Use, whole: Registers) -> tuple[Registers, Registers]:
        """The first bits of what registers hold, and the rest."""
        high, low = self._parts[use]
        for pieces in zip(whole, high, low, strict=True):
            for register, upper, lower in zip(*pieces, strict=True):
                code.instruct("split.tf32", outputs=(upper, lower), inputs=(register,))
        return high, low

    def fill(self, x: s.FragmentFill) -> s.Block:
        """Sets every element."""
        return self._held[x.fragment].fill(self.work, x)

    def load(self, x: s.FragmentLoad) -> s.Block:
        """Reads an accumulator element by element, an operand as multiplications do."""
        if x.fragment.use == "accumulator":
            return self._held[x.fragment].load(self.work, x)
        use: _Use = "a" if x.fragment.use == "a" else "b"
        code = self.work.code(x.loc)
        for step, registers in enumerate(self._operands[x.fragment]):
            self._loader(use).load(code, x.source, step * self._shape.k, registers)
        return code.block

    def store(self, x: s.FragmentStore) -> s.Block:
        """Writes an accumulator."""
        return self._held[x.fragment].store(self.work, x)

    def elements(self, x: s.ForElements) -> s.Block:
        """Runs the body for each register."""
        partners = [self._held[y] for y in x.partners]
        return self._held[x.fragment].elements(self.work, x, partners)
