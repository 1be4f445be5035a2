"""How element-wise work is cut where operands lie crosswise, and launched.

The floor is a copy. Through NVIDIA's OpenCL an H200 copied the transpose of 2^26 elements at 0.91
of its copy's speed in `int8`, 0.97 in `float16`, 0.88 in `float32` and 0.98 in `float64`, and added
it to the matrix itself at 0.97 to 1.01.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from portable import lang as kl
from portable.backend import Capabilities
from portable.dtypes import DType
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.base.lanes import mixed
from portable.primitives.base.recipe import Launch, repeatable
from portable.primitives.base.storage import Storage
from portable.primitives.maps.elementwise_kernel import Formula, taken, unravelled
from portable.primitives.maps.work import Operation, streams
from portable.primitives.tuning import Squares, squares_for

# Element-wise functions of operands whose neighbours lie along another axis than the result's.
#
# Read and written as they lie, an array would be strided on one side. Here both sides are
# contiguous: the elements change places on the way, in local memory or between vector lanes.
#
# The last two axes are that along which such operands are contiguous, and that along which the
# result is. Arguments are those of `portable.primitives.maps.elementwise_kernel.elementwise`.

_AHEAD = 2
"""Squares further along the columns that are fetched meanwhile."""
CROSSWISE = "crosswise"
"""An operand contiguous along the last axis but one."""
CROSSWISE_REVERSED = "crosswise reversed"
"""The same, that axis counted from its end."""


@function
def converted(x: kl.Scalar, kind: Any) -> Any:
    """`x` in a type to compute in; None: its own."""
    return x if kind is None else kl.cast(x, kind)


@function
def square(number: kl.Scalar, shape: tuple[kl.Scalar, ...], EDGE: int) -> Any:
    """Where square `number` of a stack of matrices begins: row, column, and its matrix' index."""
    down, across = shape[len(shape) - 2], shape[len(shape) - 1]
    wide, tall = kl.cdiv(across, EDGE), kl.cdiv(down, EDGE)
    outer = unravelled(number // wide // tall, shape[: len(shape) - 2])
    return number // wide % tall * EDGE, number % wide * EDGE, outer


@function
def lies_across(how: str) -> Any:
    """Whether an operand changes places."""
    return how in (CROSSWISE, CROSSWISE_REVERSED)


@function
def along_column(x: kl.Array, how: str, row: kl.Scalar, lanes: int) -> Any:
    """Where in a column of `x` the first of `lanes` elements from `row` on lies."""
    if how == CROSSWISE_REVERSED:
        return x.shape[x.ndim - 2] - lanes - row
    return row


# -- between vector lanes -------------------------------------------------------------------


@function
def rows_of(
    x: kl.Array,
    how: str,
    kind: Any,
    outer: tuple[kl.Scalar, ...],
    row: kl.Scalar,
    column: kl.Scalar,
    LANES: int,
) -> Any:
    """The vectors of a crosswise operand for the rows of a square of `LANES`, converted."""
    first = along_column(x, how, row, LANES)
    ahead = _AHEAD * LANES if how == CROSSWISE else -_AHEAD * LANES
    if LANES == 1:
        ahead = 0
    columns = [
        kl.vload(x, *outer, first, column + k, lanes=LANES, axis=x.ndim - 2, ahead=ahead)
        for k in kl.static_range(LANES)
    ]
    rows = mixed([converted(vector, kind) for vector in columns], LANES, LANES)
    if how == CROSSWISE:
        return rows
    return [rows[LANES - 1 - r] for r in kl.static_range(LANES)]


# -- in local memory ------------------------------------------------------------------------


@function
def place_of(row: kl.Scalar, LANES: int) -> Any:
    """Where a row of a square lies in its tile: such that neither side meets in a bank."""
    return row % LANES, row // LANES


@dataclass(frozen=True)
class Tiles:
    """How a workgroup does a square by tiles in local memory; a constant of `exchange_tiles`.

    Attributes
    ----------
    width, tall : int
        Work-items along the square's edge, and across.
    lanes : int
        Elements of a vector, which each takes at a time.
    """

    width: int
    tall: int
    lanes: int


@dataclass(frozen=True)
class _Square:
    """A square of the result, operands that lie crosswise being in tiles."""

    formula: Formula
    arrays: Any
    tiles: Any
    outer: Any
    top: Any
    left: Any
    cut: Tiles

    def bring(self, x: kl.Array, how: str, tile: kl.Array) -> None:
        """Puts an operand's square into a tile, neighbouring work-items reading neighbours.

        Each takes squares of vectors, whose elements change places in its registers.
        """
        LANES, top, left = self.cut.lanes, self.top, self.left
        i, j = kl.local_id(0) * LANES, kl.local_id(1)
        down, across = x.shape[x.ndim - 2], x.shape[x.ndim - 1]
        for k in kl.static_range(0, self.cut.width, self.cut.tall):
            far = (j + k) * LANES
            if LANES > 1 and top + i + LANES <= down and left + far + LANES <= across:
                rows = rows_of(x, how, None, self.outer, top + i, left + far, LANES)
                for r in kl.static_range(LANES):
                    kl.vstore(tile, r, kl.local_id(0), far, rows[r])
            else:
                for r in kl.static_range(LANES):
                    for c in kl.static_range(LANES):
                        if (top + i + r < down) & (left + far + c < across):
                            row = along_column(x, how, top + i + r, 1)
                            tile[r, kl.local_id(0), far + c] = x[*self.outer, row, left + far + c]

    def value(self, down: kl.Scalar, across: kl.Scalar, lanes: int) -> Any:
        """The operation on neighbours, `down` and `across` into the square."""
        target = (*place_of(down, self.cut.lanes), across)
        values = [
            taken(*operand, (*self.outer, self.top + down), self.left + across, lanes)
            if tile is None
            else converted(kl.vload(tile, *target, lanes=lanes), operand[2])
            for operand, tile in zip(self.formula.operands(self.arrays), self.tiles, strict=True)
        ]
        return self.formula.op(*values)


@kernel
def exchange_tiles(
    arrays: tuple[kl.Array, ...], out: kl.Array, *, FORMULA: Formula, CUT: Tiles
) -> None:
    """``out = OP(*arrays)``: a workgroup does a square of ``CUT.width`` vectors."""
    LANES, EDGE = CUT.lanes, CUT.width * CUT.lanes
    down, across = out.shape[out.ndim - 2], out.shape[out.ndim - 1]
    top, left, outer = square(kl.group_id(0), out.shape, EDGE)
    tiles = [
        kl.local((LANES, CUT.width, EDGE + LANES), x.dtype) if lies_across(how) else None
        for x, how in zip(arrays, FORMULA.how, strict=True)
    ]
    here = _Square(FORMULA, arrays, tiles, outer, top, left, CUT)
    for x, how, tile in zip(arrays, FORMULA.how, tiles, strict=True):
        if tile is not None:
            here.bring(x, how, tile)
    kl.barrier()
    i, j = kl.local_id(0) * LANES, kl.local_id(1)
    for k in kl.static_range(0, EDGE, CUT.tall):
        row = top + j + k
        if row < down:
            if LANES > 1 and left + i + LANES <= across:
                kl.vstore(out, *outer, row, left + i, here.value(j + k, i, LANES))
            else:
                for c in kl.static_range(LANES):
                    if left + i + c < across:
                        out[*outer, row, left + i + c] = here.value(j + k, i + c, 1)


# -- in whole vectors -----------------------------------------------------------------------


@dataclass(frozen=True)
class Blocks:
    """How a work-item that is alone does a square; a constant of `exchange_blocks`.

    Attributes
    ----------
    block, edge : int
        Edges of the square, and of those within which it stays for a while, so that lines of the
        caches and pages of which it took a part are at hand for the next.
    lanes : int
        Elements of a vector.
    along : bool
        Whether it goes along the result's rows first.
    streaming : bool
        Whether the result is more than the caches hold.
    """

    block: int
    edge: int
    lanes: int
    along: bool
    streaming: bool


@dataclass(frozen=True)
class _Block:
    """What a work-item that is alone does to squares of a matrix."""

    formula: Formula
    arrays: Any
    out: Any
    outer: Any

    def square(self, row: kl.Scalar, column: kl.Scalar, LANES: int, STREAMING: bool) -> None:
        """Does a square of `LANES`, whole vectors at a time."""
        operands = self.formula.operands(self.arrays)
        across = [
            rows_of(*operand, self.outer, row, column, LANES) if lies_across(operand[1]) else None
            for operand in operands
        ]
        for r in kl.static_range(LANES):
            outer = (*self.outer, row + r)
            values = [
                taken(*operand, outer, column, LANES) if rows is None else rows[r]
                for operand, rows in zip(operands, across, strict=True)
            ]
            kl.vstore(self.out, *outer, column, self.formula.op(*values), streaming=STREAMING)


@kernel
def exchange_blocks(
    arrays: tuple[kl.Array, ...], out: kl.Array, *, FORMULA: Formula, CUT: Blocks
) -> None:
    """``out = OP(*arrays)``: a work-item does a square of ``CUT.block``, square by square."""
    LANES, EDGE = CUT.lanes, CUT.edge
    down, across = out.shape[out.ndim - 2], out.shape[out.ndim - 1]
    block_top, block_left, outer = square(kl.global_id(0), out.shape, CUT.block)
    here = _Block(FORMULA, arrays, out, outer)
    bottom = kl.minimum(block_top + CUT.block, down)
    right = kl.minimum(block_left + CUT.block, across)
    for left in range(block_left, right, EDGE):
        for top in range(block_top, bottom, EDGE):
            for far in range(0, EDGE, LANES):
                for near in range(0, EDGE, LANES):
                    row, column = (far, near) if CUT.along else (near, far)
                    row, column = row + top, column + left
                    if LANES > 1 and row + LANES <= bottom and column + LANES <= right:
                        here.square(row, column, LANES, CUT.streaming)
                    else:
                        for r in range(row, kl.minimum(row + LANES, bottom)):
                            for c in range(column, kl.minimum(column + LANES, right)):
                                here.square(r, c, 1, False)


# -- exchange --------------------------------------------------------------------------------------

_SHORTEST: Final = 16
_MOST_LANES: Final = 16
# Intel's compiler (2026.22.10) does not come to an end with squares of 16 narrow integers.
_MOST_NARROW: Final = 8
_NARROW: Final = 4

Shape = tuple[int, ...]


def crosswise_axis(arrays: Sequence[Storage], out: Storage, shape: Shape, steps: Any) -> int | None:
    """The axis along which an operand has its neighbours, the result having its along the last.

    None where there is no such operand, or an axis is short. `steps` are the strides in `shape`.

    Parameters
    ----------
    arrays : sequence of Storage
        The operands.
    out : Storage
        The result.
    shape : tuple of int
        The collapsed shape.
    steps : sequence of tuple of int
        Strides in it, of the operands and then of the result.
    """
    if steps[-1][-1] != out.dtype.itemsize or shape[-1] < _SHORTEST:
        return None
    for x, strides in zip(arrays, steps, strict=False):
        if abs(strides[-1]) in (0, x.dtype.itemsize):
            continue
        for axis in range(len(shape) - 1):
            if abs(strides[axis]) == x.dtype.itemsize and shape[axis] >= _SHORTEST:
                return axis
    return None


def seen_crosswise(x: Storage, shape: Shape, strides: Shape) -> tuple[str, Storage] | None:
    """How kernels take an operand that lies along the last axis but one, and their view of it.

    None where it does not.

    Parameters
    ----------
    x : Storage
        The operand.
    shape, strides : tuple of int
        How it is counted, the crosswise axis being the last but one.
    """
    size = x.dtype.itemsize
    if abs(strides[-1]) in (0, size) or abs(strides[-2]) != size:
        return None
    if strides[-2] > 0:
        return CROSSWISE, x.viewed(shape, strides)
    start = x.offset + (shape[-2] - 1) * strides[-2]
    return CROSSWISE_REVERSED, x.viewed(shape, (*strides[:-2], size, strides[-1]), start)


def exchange_launch(
    operation: Operation,
    args: Sequence[Any],
    out: Storage,
    compute: DType,
    formula: Formula,
    *,
    disjoint: bool,
) -> Launch:
    """A launch for operands of which some lie along the last axis but one.

    Parameters
    ----------
    operation : Operation
        What to do.
    args : sequence
        Operands as kernels take them: arrays and numbers.
    out : Storage
        The result.
    compute : DType
        In which to compute.
    formula : Formula
        The same as kernels take it.
    disjoint : bool
        Whether no operand overlaps the result.
    """
    capabilities = out.device.capabilities
    share = squares_for(capabilities)
    if capabilities.lone_work_items:
        kinds = [x.dtype for x in (*args, out) if isinstance(x, Storage)]
        vector = operation.takes_vectors(compute)
        lanes = _lanes((*kinds, compute), out.shape, capabilities) if vector else 1
        block = _block(out.shape, capabilities)
        along = lanes * out.dtype.itemsize < capabilities.cache_line
        streaming = streams(out.nbytes, capabilities)
        cut: Blocks | Tiles = Blocks(block, share.tile, lanes, along, streaming)
        launcher = exchange_blocks[_squares(out.shape, block), 1]
    else:
        lanes = 1
        if operation.takes_vectors(compute):
            lanes = _tile_lanes(args, formula.how, out, capabilities)
        width = _width(lanes, share)
        tall = share.group // width
        cut = Tiles(width, tall, lanes)
        tiles = _squares(out.shape, width * lanes)
        launcher = exchange_tiles[(tiles * width, tall), (width, tall)]
    constants = {"FORMULA": formula, "CUT": cut}
    return repeatable(launcher, (tuple(args), out), constants, disjoint=disjoint)


def _lanes(kinds: Sequence[DType], shape: Shape, capabilities: Capabilities) -> int:
    """How wide the squares are whose elements change places between vectors."""
    if any(kind.is_complex or kind.kind == "b" for kind in kinds):
        return 1
    widest = max(kind.register.itemsize for kind in kinds)
    narrow = any(kind.is_integer and kind.itemsize < _NARROW for kind in kinds)
    lanes = min(_MOST_NARROW if narrow else _MOST_LANES, capabilities.vector_bytes // widest)
    while lanes > min(shape[-2:]):
        lanes //= 2
    return lanes


def _tile_lanes(
    args: Sequence[Any], how: Sequence[str], out: Storage, capabilities: Capabilities
) -> int:
    """How many neighbours a GPU's work-items take at a time on both sides.

    So many that even of the narrowest operand they move `Squares.size` bytes, if tiles find room.
    """
    arrays = [x for x in args if isinstance(x, Storage)]
    if any(x.dtype.is_complex for x in (*arrays, out)):
        return 1
    sizes = [
        x.dtype.itemsize
        for x, word in zip(args, how, strict=True)
        if word in (CROSSWISE, CROSSWISE_REVERSED)
    ]
    share = squares_for(capabilities)
    lanes: int = max(1, share.size // min(x.dtype.itemsize for x in (*arrays, out)))
    while lanes > 1:
        width = _width(lanes, share)
        many = _squares(out.shape, width * lanes) >= share.groups * capabilities.compute_units
        if many and sum(sizes) * width * (width + 1) * lanes**2 <= capabilities.local_memory:
            break
        lanes //= 2
    return lanes


def _width(lanes: int, share: Squares) -> int:
    """Work-items along a tile's edge."""
    return min(share.tile, share.edge // lanes)


def _block(shape: Shape, capabilities: Capabilities) -> int:
    """The edge of the squares that work-items do: large, but enough of them."""
    share = squares_for(capabilities)
    block = share.edge
    wanted = share.groups * capabilities.compute_units
    while block > share.tile and _squares(shape, block) < wanted:
        block //= 2
    return block


def _squares(shape: Shape, edge: int) -> int:
    return prod(shape[:-2]) * -(-shape[-2] // edge) * -(-shape[-1] // edge)
