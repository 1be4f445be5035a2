"""How element-wise work is cut where operands lie crosswise, and launched.

The floor is a copy. Through NVIDIA's OpenCL an H200 copied the transpose of 2^26 elements at 0.91
of its copy's speed in `int8`, 0.97 in `float16`, 0.88 in `float32` and 0.98 in `float64`, and added
it to the matrix itself at 0.97 to 1.01.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

from portable.backend import Capabilities
from portable.dtypes import DType
from portable.primitives.base.recipe import Launch, repeatable
from portable.primitives.base.storage import Storage
from portable.primitives.maps.elementwise_kernel import Formula
from portable.primitives.maps.exchange_kernels import (
    CROSSWISE,
    CROSSWISE_REVERSED,
    Blocks,
    Tiles,
    exchange_blocks,
    exchange_tiles,
)
from portable.primitives.maps.operation import Operation
from portable.primitives.maps.tuning import Squares, squares_for
from portable.primitives.maps.work import streams

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
