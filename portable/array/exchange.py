"""From an element-wise operation on an operand that lies crosswise to a launch."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from portable.array.exchange_kernels import exchange_blocks, exchange_tiles
from portable.array.operation import Operation
from portable.array.recipe import Launch, repeatable
from portable.array.storage import Storage
from portable.array.work import conversion_of, vector_lanes
from portable.dtypes import DType

__all__ = ["exchange_launch", "exchange_views"]

_CPU_TILE: Final = 64
_GPU_TILE: Final = 32
_SHORTEST: Final = 16
# A square of more lanes than this runs out of vector registers.
_CPU_SQUARE: Final = 8


def exchange_views(
    x: Any, out: Any, shape: tuple[int, ...], steps: list[tuple[int, ...]]
) -> tuple[Storage, Storage] | None:
    """An operand and its result with the axes along which they have their neighbours last.

    None where these are the same axis, or short. `steps` are the strides of both in `shape`.
    """
    axis = _other_axis(x, shape, steps[0])
    if axis is None or steps[1][-1] != out.dtype.itemsize:
        return None
    order = [d for d in range(len(shape)) if d != axis]
    order.insert(-1, axis)
    first, second = (
        array.viewed(tuple(shape[d] for d in order), tuple(step[d] for d in order))
        for array, step in zip((x, out), steps, strict=True)
    )
    return first, second


def _other_axis(x: Storage, shape: tuple[int, ...], strides: tuple[int, ...]) -> int | None:
    """The axis along which an operand has its neighbours, if that is long and not the last one."""
    if strides[-1] in (0, x.dtype.itemsize) or shape[-1] < _SHORTEST:
        return None
    for axis in range(len(shape) - 1):
        if strides[axis] == x.dtype.itemsize and shape[axis] >= _SHORTEST:
            return axis
    return None


def exchange_launch(
    operation: Operation, x: Storage, out: Storage, compute: DType, *, disjoint: bool
) -> Launch:
    """A launch for an operand and result whose last two axes `exchange_views` has ordered."""
    capabilities = out.device.capabilities
    constants = {"OP": operation.function(compute), "KIND": conversion_of(x.dtype, compute)}
    lanes = 1
    if operation.vector and not compute.is_complex:
        lanes = vector_lanes((x.dtype, out.dtype), min(x.shape[-2:]), capabilities)
    if capabilities.kind == "cpu":
        edge, item = _CPU_TILE, (1, 1)
        tiled, more = exchange_blocks, {"LANES": min(lanes, _CPU_SQUARE)}
    else:
        edge, item = _GPU_TILE, (_GPU_TILE, _GPU_TILE // 4)
        tiled, more = exchange_tiles, {"TALL": _GPU_TILE // 4}
    tiles = prod(x.shape[:-2]) * -(-x.shape[-2] // edge) * -(-x.shape[-1] // edge)
    launcher = tiled[(tiles * item[0], item[1]), item]
    return repeatable(
        launcher, (x, None, None, out), {**constants, **more, "EDGE": edge}, disjoint=disjoint
    )
