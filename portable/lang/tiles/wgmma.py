"""Multiplies tiles in local memory with Hopper's warpgroup instructions.

These run on their own until they are waited for, before the tiles are overwritten
or the accumulator is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, product
from math import gcd
from typing import Final, Self

from portable.dtypes import (
    DType,
    bfloat16,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    int8,
    int32,
    uint64,
)
from portable.errors import Location
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.nodes import constant, scalar_type
from portable.lang.ir.pipeline import Pipeline
from portable.lang.ir.types import Array, Fragment, Layout
from portable.lang.ir.walks import map_block
from portable.lang.tiles.accumulators import Held
from portable.lang.tiles.boxes import boxed
from portable.lang.tiles.lanes import Lanes, divided, remainder
from portable.lang.tiles.mma_shapes import LANES, PARTS, SUMS, room
from portable.lang.tiles.strategy import Part, Strategy, Tile, alike_dims, contiguous_dim, kept_dims
from portable.lang.tiles.warp_specialisation import GROUP, specialise, split, split_of
from portable.lang.tiles.work import Code, Work, add, mul, smaller

# Waits and fences around warpgroup multiplications, which run on their own.
#
# They read local memory through the asynchronous proxy, so every barrier is preceded by the fence
# that shows it the work-item's own writes. They may be in flight until the next barrier, since only
# after it may the tiles be overwritten: every barrier waits for them too, unless a split pipeline
# (`warp_specialisation`) has waited for all of them itself. (Letting them pass it, and holding back
# the copies behind it by a wait and a barrier more, was slower by up to 6% on an H200.)


def wait(loc: Location) -> s.Instruction:
    """Waits for all multiplications."""
    return s.Instruction("wgmma.wait", loc)


def settled(body: s.Block, *, waiting: bool) -> s.Block:
    """The lowered body of a kernel with what its barriers need; `waiting` for multiplications."""
    return map_block(body, partial(_settled, waiting))


def _settled(waiting: bool, x: s.Statement) -> s.Block:
    if not isinstance(x, s.Barrier | s.WorkgroupUniform | s.BulkWait):
        return (x,)
    fence = s.Instruction("proxy.fence", x.loc)
    return (wait(x.loc), fence, x) if waiting else (fence, x)


_M: Final = 64
_DEPTH: Final = 32
"""Bytes of an operand along the sum that an instruction takes."""
_MOST_N: Final = 256
_MOST_APART: Final = 2 * PARTS
_COLUMNS: Final = 32
"""Of which the columns of an instruction are multiples: halves are stored so many at a time."""
_ROW: Final = 128
"""Bytes of a panel's row, among whose 8 chunks the swizzle turns."""
_ROWS: Final = 8
_SWIZZLE_128: Final = 1 << 62

_SUMS: Final = {
    float32: float32,
    float16: float32,
    bfloat16: float32,
    float8_e4m3fn: float32,
    float8_e5m2: float32,
    int8: int32,
}
"""What operands are summed in; single precision where its factors may lose all bits but 11."""
_DROPPING: Final = (float8_e4m3fn, float8_e5m2, float32)
"""Operands whose sums the units round towards 0 at each instruction, of bytes to some 14 bits.

Of 16384 products of one sign the sum was off by 0.07 of it on an H200. So the units sum up a tile,
four instructions, and work-items add these sums up, unless a fragment's `split` is "first".
"""


def warpgroups(extents: tuple[int, int], groups: int) -> tuple[int, int] | None:
    """Warpgroups along rows and columns: few along columns, since b is what they share."""
    rows, columns = extents
    for along in range(1, groups + 1):
        down, rest = divmod(groups, along)
        if not rest and rows % (down * _M) == 0 and columns % (along * _COLUMNS) == 0:
            return down, along
    return None


def _unit(kind: DType) -> str:
    """The name of the instructions for operands of a type."""
    return "wgmma.tf32" if kind is float32 else f"wgmma.{kind.short}"


def _panel(kind: DType) -> int:
    """Elements of a panel's row."""
    return _ROW // kind.itemsize


@dataclass(frozen=True, slots=True)
class _Paneled:
    """An operand tile cut into panels, of rows of 128 bytes along its contiguous dimension.

    Attributes
    ----------
    array : Array
        Of shape (..., panels, rows, elements), the dimensions before as in the kernel's array.
    row, inner : int
        Dimensions of the kernel's array.
    along_k : bool
        Whether the contiguous dimension is the one that is summed over.
    """

    array: Array
    row: int
    inner: int
    along_k: bool

    @property
    def panel_bytes(self) -> int:
        """From one panel to the next."""
        return self.array.shape[-2] * _ROW

    @property
    def panel(self) -> int:
        """Elements of a panel's row."""
        return self.array.shape[-1]

    def index(
        self, starts: tuple[e.Expression, ...], panel: e.Expression, row: e.Expression
    ) -> tuple[e.Expression, ...]:
        """The first element of a row of a panel."""
        lead = [x for dim, x in enumerate(starts) if dim not in (self.row, self.inner)]
        return (*lead, panel, row, constant(0, row.type))

    def begin(
        self, starts: tuple[e.Expression, ...], outer: e.Expression
    ) -> tuple[e.Expression, ...]:
        """Where the operand begins, from a multiple of panels of a's rows or b's columns on."""
        zero = constant(0, outer.type)
        if self.along_k:
            return self.index(starts, zero, outer)
        return self.index(starts, divided(outer, self.panel), zero)

    def distance(self, outer: int, k: int) -> int:
        """Bytes from there, for further rows or columns and steps of the sum."""
        if self.along_k:
            within = k % self.panel * self.array.dtype.itemsize
            return k // self.panel * self.panel_bytes + outer * _ROW + within
        return outer // self.panel * self.panel_bytes + k * _ROW

    @property
    def descriptor(self) -> int:
        """A matrix descriptor's constant bits: distances of 8 rows and of panels, the swizzle."""
        lead = 1 if self.along_k else self.panel_bytes >> 4
        return lead << 16 | (_ROWS * _ROW >> 4) << 32 | _SWIZZLE_128


def _fits(tile: Tile) -> bool:
    """Whether a tile can be cut into panels: whatever touches it takes or writes all of it.

    All but halves have to lie along the sum.
    """
    array = tile.array
    known = array.dtype in _SUMS and len(tile.uses) == 1
    if not known or not tile.whole or not tile.exclusive:
        return False
    use, *dims = next(iter(tile.uses))
    inner = contiguous_dim(tile)
    if array.dtype.itemsize != 2 and inner != dims[1 if use == "a" else 0]:
        return False
    if inner not in dims or any(set(kept_dims(x.target)) != set(dims) for x in tile.copies):
        return False
    if any(x.source.joined and kept_dims(x.target)[-1] != inner for x in tile.copies):
        return False
    (row,) = set(dims) - {inner}
    return array.shape[inner] % _panel(array.dtype) == 0 and array.shape[row] % _ROWS == 0


def _multiplying(work: Work, part: Part) -> int:
    """Warpgroups that multiply, 0 where they cannot.

    Where a loop's copies can be made apart, the last work-items have that to do: a warp beside
    whole warpgroups, or the last one of these.
    """
    groups, spare = divmod(work.items, GROUP)
    rest = groups - (not spare)
    spared = rest and all(warpgroups(f.shape, rest) for f in part.fragments)
    if spared and spare in (0, LANES) and split_of(work, part.multiplies) is not None:
        return rest
    return 0 if spare else groups


def _steps(depth: int, each: int, parted: bool) -> Iterator[tuple[int, int]]:
    """Where a's columns and b's rows of each instruction begin, of so many of them.

    Of parts of numbers, the high ones of which are the first half, the low ones meet high ones.
    """
    if not parted:
        yield from ((k, k) for k in range(0, depth, each))
        return
    low = depth // 2
    for k in range(0, low, each):
        yield from ((k, k), (k, low + k), (low + k, k))


def _has_tensor_copies(work: Work) -> bool:
    """Whether TMA copies tiles; where it does not, warps of their own had better copy."""
    return "tensor" in work.capabilities.async_copy


def _lends(work: Work, part: Part) -> bool:
    """Whether work-items that copy may lend those that multiply registers."""
    pieces = split_of(work, part.multiplies)
    return _has_tensor_copies(work) and pieces is not None and pieces.around is not None


def _adds_apart(part: Part) -> bool:
    """Whether work-items add up what the units sum up of each tile."""
    dropping = any(tile.array.dtype in _DROPPING for tile in part.tiles.values())
    return dropping and any(f.split != "first" for f in part.fragments)


class Wgmma(Strategy):
    """Each warpgroup holds a rectangle of the accumulator and multiplies from the tiles.

    Where a pipeline can be split (`warp_specialisation`), the last work-items hold nothing and make
    the copies.
    """

    early = True
    begins = True

    @classmethod
    def suits(cls, work: Work, part: Part) -> bool:
        """For halves and bytes in local tiles, where a workgroup is whole warpgroups."""
        kinds = {tile.array.dtype for tile in part.tiles.values()}
        known = set(map(_unit, kinds)) <= work.capabilities.matrix_units
        if len(kinds) != 1 or not known or not part.multiplies:
            return False
        if any(f.use != "accumulator" or f.scope != "workgroup" for f in part.fragments):
            return False
        (kind,) = kinds
        if any(f.dtype is not _SUMS.get(kind) or not f.units for f in part.fragments):
            return False
        if kind is float32 and any(f.split not in ("first", "given") for f in part.fragments):
            return False
        if not all(_fits(tile) for tile in part.tiles.values()):
            return False
        halves = 1 + any(f.split == "given" for f in part.fragments)
        if any(x.a.shape[1] * kind.itemsize % (halves * _DEPTH) for x in part.multiplies):
            return False
        groups = _multiplying(work, part)
        if not groups or not (groups * GROUP < work.items or _has_tensor_copies(work)):
            return False
        each = sum(f.shape[0] * f.shape[1] for f in part.fragments) // (groups * GROUP)
        if _adds_apart(part):
            each += each if kind is float32 else min(each, PARTS)
        grids = [warpgroups(f.shape, groups) for f in part.fragments]
        lent = kind.itemsize == 1 and _lends(work, part)
        return each <= room(work.items, lent) and None not in grids

    def declare(self) -> s.Block:
        """Registers, and panels in the place of the tiles."""
        code = self.work.code(self.work.kernel.loc)
        self._lanes = Lanes.of(code)
        self._group = code.let("warpgroup", divided(self._lanes.warp, 4))
        self._multiplying = _multiplying(self.work, self.part)
        self._specialised = self._multiplying * GROUP < self.work.items
        self._tiles = {array: self._paneled(tile) for array, tile in self.part.tiles.items()}
        self._grids = {f: self._grid(f) for f in self.part.fragments}
        self._held = {f: self._hold(code, f) for f in self.part.fragments}
        self._parts = {f: self._hold_parts(f) for f in self.part.fragments}
        self._bases = self.work.variable("a_tile", uint64), self.work.variable("b_tile", uint64)
        return code.block

    def _paneled(self, tile: Tile) -> _Paneled:
        array = tile.array
        use, rows, columns = next(iter(tile.uses))
        inner = contiguous_dim(tile)
        row = rows if inner == columns else columns
        lead = tuple(n for dim, n in enumerate(array.shape) if dim not in (row, inner))
        panel = _panel(array.dtype)
        shape = (*lead, array.shape[inner] // panel, array.shape[row], panel)
        plain = Layout.row_major(shape)
        layout = Layout(plain.strides, plain.size, _ROWS)
        self.work.retire(array)
        made = self.work.array(array.name, array.dtype, "local", shape, layout)
        return _Paneled(made, row, inner, inner == (columns if use == "a" else rows))

    def _grid(self, fragment: Fragment) -> tuple[int, int]:
        grid = warpgroups(fragment.shape, self._multiplying)
        assert grid is not None
        return grid

    def _share(self, fragment: Fragment) -> tuple[int, int]:
        grid = self._grids[fragment]
        return fragment.shape[0] // grid[0], fragment.shape[1] // grid[1]

    def _origin(self, fragment: Fragment) -> tuple[e.Expression, e.Expression]:
        grid, share = self._grids[fragment], self._share(fragment)
        down, along = remainder(self._group, grid[0]), divided(self._group, grid[0])
        if grid[1] == 1:
            down, along = self._group, e.Const(0, self.work.kernel.index_type)
        return mul(down, share[0]), mul(along, share[1])

    def _hold(self, code: Code, fragment: Fragment) -> Held:
        rows, columns = self._share(fragment)
        layout = SUMS.repeated((columns // 8, (0, 8)), (rows // _M, (_M, 0)))
        row, column = self._origin(fragment)
        origin = add(row, mul(remainder(self._lanes.warp, 4), 16)), column
        # For nothing but what it says: that lanes are together.
        together = (wait(code.loc),) if self._specialised else ()
        return Held.of(code, fragment, self._lanes, origin, layout, together)

    def _hold_parts(self, fragment: Fragment) -> tuple[e.Variable, ...]:
        """Registers for a piece's sums of a tile, where these are added up apart."""
        if not _adds_apart(self.part):
            return ()
        return tuple(
            self.work.variable(f"{fragment.name}_part{i}", fragment.dtype)
            for i in range(min(PARTS, len(self._held[fragment].registers)))
        )

    # -- multiplication ---------------------------------------------------------------------

    def multiply(self, x: s.Multiply) -> s.Block:
        """Starts all instructions of the product as one group.

        Where sums are added up apart, of as many at a time as there are registers for: meanwhile
        those of another warpgroup are under way.
        """
        assert isinstance(x.a, e.Region)
        assert isinstance(x.b, e.Region)
        code = self.work.code(x.loc)
        tiles = self._tiles[x.a.array], self._tiles[x.b.array]
        for which, (tile, region) in enumerate(zip(tiles, (x.a, x.b), strict=True)):
            start = self._origin(x.accumulator)[which]
            self._base(code, which, tile, tile.begin(region.starts, start))
        parts, pieces = self._parts[x.accumulator], list(self._pieces(x.accumulator))
        count = 2 * len(parts) // self._width(x.accumulator) or len(pieces)
        for first in range(0, len(pieces), count):
            group = {y: self._sums(x.accumulator, y) for y in pieces[first : first + count]}
            self._start(code, x, tiles, group)
        return code.block

    def _pieces(self, fragment: Fragment) -> Iterator[tuple[int, int]]:
        """Where the share of each instruction begins."""
        rows, columns = self._share(fragment)
        yield from product(range(0, rows, _M), range(0, columns, self._width(fragment)))

    def _width(self, fragment: Fragment) -> int:
        """Columns of one instruction."""
        most, columns = _MOST_APART if _adds_apart(self.part) else _MOST_N, self._share(fragment)[1]
        each = gcd(columns, 2 * _COLUMNS)
        return max(n for n in range(each, most + 1, each) if columns % n == 0)

    def _sums(self, fragment: Fragment, piece: tuple[int, int]) -> tuple[e.Variable, ...]:
        """The registers of an instruction's share."""
        first = (piece[0] // _M * self._share(fragment)[1] + piece[1]) // 2
        return self._held[fragment].registers[first : first + self._width(fragment) // 2]

    def _start(
        self,
        code: Code,
        x: s.Multiply,
        tiles: tuple[_Paneled, _Paneled],
        pieces: dict[tuple[int, int], tuple[e.Variable, ...]],
    ) -> None:
        """A group of instructions, for pieces and their sums; with what is added up apart."""
        assert isinstance(x.a, e.Region)
        parts = self._parts[x.accumulator]
        anew, each = x.anew or bool(parts), _DEPTH // x.a.array.dtype.itemsize
        code.emit(s.Instruction("wgmma.fence", x.loc))
        for k in _steps(x.a.shape[1], each, x.accumulator.split == "given"):
            for i, (piece, sums) in enumerate(pieces.items()):
                made = parts[i * len(sums) : (i + 1) * len(sums)] or sums
                self._step(code, made, tiles, piece, k, anew and k == (0, 0))
        code.emit(s.Instruction("wgmma.commit", x.loc))
        if parts:
            code.emit(wait(x.loc), *(_on(r, "changed", x.loc) for r in parts))
            pairs = zip(chain(*pieces.values()), parts, strict=False)
            code.emit(*(s.Assign(total, add(total, part), x.loc) for total, part in pairs))

    def pipeline(self, x: Pipeline) -> s.Block:
        """Split where a warpgroup is there for the copies."""
        return self._cut(x) or super().pipeline(x)

    def loop_over_tiles(self, x: s.For) -> s.Block | None:
        """Split likewise."""
        return self._cut(x)

    def _cut(self, x: s.Statement) -> s.Block | None:
        pieces = split(x, self.work.kernel.body) if self._specialised else None
        if pieces is None:
            return None
        pieces = boxed(pieces, self.copy, self.work)
        code = self.work.code(x.loc)
        registers = [r for held in self._held.values() for r in held.registers]
        registers += [r for parts in self._parts.values() for r in parts]
        if pieces.around is not None:
            registers = []
        forgotten = tuple(_on(r, "set", x.loc) for r in registers)
        settled = self._settled(self.part.multiplies[0].accumulator, x.loc)
        kinds = {tile.array.dtype for tile in self.part.tiles.values()}
        staggered = _adds_apart(self.part) and float32 not in kinds
        specialise(code, pieces, self._group, self._multiplying, forgotten, settled, staggered)
        return code.block

    def _base(
        self, code: Code, which: int, tile: _Paneled, index: tuple[e.Expression, ...]
    ) -> None:
        constant = e.Const(tile.descriptor, uint64)
        address = (tile.array, index)
        output = (self._bases[which],)
        code.instruct("wgmma.descriptor", outputs=output, inputs=(constant,), addresses=(address,))

    def _step(
        self,
        code: Code,
        sums: tuple[e.Variable, ...],
        tiles: tuple[_Paneled, _Paneled],
        piece: tuple[int, int],
        k: tuple[int, int],
        anew: bool,
    ) -> None:
        """Everything that 32 bytes of a's columns and b's rows contribute to a piece."""
        kind = tiles[0].array.dtype
        turned = tuple(e.Const(0 if tile.along_k else 1, int32) for tile in tiles)
        inputs = (
            *(
                _moved(*x)
                for x in zip(self._bases, map(_Paneled.distance, tiles, piece, k), strict=True)
            ),
            *turned[: 2 if kind.itemsize == 2 else 0],
        )
        name = f"{_unit(kind)}.m64n{2 * len(sums)}k{_DEPTH // kind.itemsize}{'.anew' * anew}"
        code.instruct(name, outputs=sums, inputs=inputs)

    @classmethod
    def finish(cls, body: s.Block, made: Sequence[Self]) -> s.Block:
        """Fences where barriers and copies are, and waits where multiplications may be running."""
        return settled(body, waiting=not all(x._specialised for x in made))

    # -- the accumulator --------------------------------------------------------------------

    def _settled(self, fragment: Fragment, loc: Location) -> s.Block:
        """Waits for all multiplications; the registers have changed since the compiler saw them."""
        registers = self._held[fragment].registers
        return wait(loc), *(_on(r, "changed", loc) for r in registers)

    def _before_use(self, fragment: Fragment, loc: Location) -> s.Block:
        """Where a pipeline is split, its consumers have waited in it.

        The others must not: a warp that copies is no warpgroup, and what it does in vain as one is
        undefined.
        """
        return () if self._specialised else self._settled(fragment, loc)

    def fill(self, x: s.FragmentFill) -> s.Block:
        """Sets every element."""
        waiting = () if self._specialised else (wait(x.loc),)
        return waiting + self._held[x.fragment].fill(self.work, x)

    def load(self, x: s.FragmentLoad) -> s.Block:
        """Reads the elements."""
        waiting = () if self._specialised else (wait(x.loc),)
        return waiting + self._own(self._held[x.fragment].load(self.work, x), x.loc)

    def store(self, x: s.FragmentStore) -> s.Block:
        """Writes the elements."""
        stored = self._own(self._held[x.fragment].store(self.work, x), x.loc)
        return self._before_use(x.fragment, x.loc) + stored

    def elements(self, x: s.ForElements) -> s.Block:
        """Runs the body for each register."""
        partners = [self._held[y] for y in x.partners]
        body = self._own(self._held[x.fragment].elements(self.work, x, partners), x.loc)
        if partners:  # which may be of a round whose products are still under way
            return tuple(y for z in x.partners for y in self._settled(z, x.loc)) + body
        return self._before_use(x.fragment, x.loc) + body

    def _own(self, block: s.Block, loc: Location) -> s.Block:
        """For the warpgroups that hold something."""
        if not self._specialised:
            return block
        code = self.work.code(loc)
        with code.when(smaller(self._group, self._multiplying)):
            code.emit(*block)
        return code.block

    # -- copies -----------------------------------------------------------------------------

    def copy(self, x: s.CopyTile) -> tuple[s.CopyTile, ...]:
        """One copy for each panel."""
        tile = self._tiles[x.target.array]
        panels = range(tile.array.shape[-3])
        return tuple(self._panel(tile, x, panel) for panel in panels)

    def _panel(self, tile: _Paneled, x: s.CopyTile, panel: int) -> s.CopyTile:
        zero = e.Const(0, self.work.kernel.index_type)
        starts = tile.index(x.target.starts, e.Const(panel, zero.type), zero)
        leading = (None,) * (len(starts) - 2)
        kept = kept_dims(x.target)
        extents = (*leading, tile.array.shape[-2], tile.panel)
        target = e.Region(tile.array, starts, extents, kept == [tile.inner, tile.row])
        source = _narrowed(x.source, alike_dims(x)[tile.inner], panel * tile.panel, tile.panel)
        return replace(x, target=target, source=source)


def _moved(base: e.Expression, distance: int) -> e.Expression:
    """A descriptor whose address is so many bytes further."""
    return add(base, distance >> 4)


def _on(register: e.Variable, word: str, loc: Location) -> s.Statement:
    """What is said of a register, by its type."""
    kind = scalar_type(register)
    return s.Instruction(f"{word}.{kind.short}", loc, outputs=(register,))


def _narrowed(region: e.Region, dim: int, start: int, extent: int) -> e.Region:
    """A panel's worth of a region along one of its dimensions."""
    begin = add(region.starts[dim], start)
    starts = (*region.starts[:dim], begin, *region.starts[dim + 1 :])
    extents = (*region.extents[:dim], extent, *region.extents[dim + 1 :])
    return replace(region, starts=starts, extents=extents)
