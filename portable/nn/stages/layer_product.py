"""The outputs of one layer as a product of matrices."""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import dtype
from portable.lang.function import Function
from portable.lang.geometry import groups
from portable.lang.kernel import kernel
from portable.linalg import gemm

__all__ = ["layer_product"]

_TILE: Final = 32
_ROWS_AT_ONCE: Final = 8
_MANY_SAMPLES: Final = 2048
"""From so many on, transposing the weights costs less than reading them across their rows."""


@kernel
def transpose(x: Any, out: Any, *, TILE: int, STEP: int) -> None:
    """``out = x.T``, through tiles in local memory so that both sides are read along rows."""
    tile = kl.local((TILE, TILE + 1), x.dtype)
    row, column = kl.group_id(1) * TILE, kl.group_id(0) * TILE
    i, j = kl.local_id(1), kl.local_id(0)
    for k in range(i, TILE, STEP):
        if row + k < x.shape[0] and column + j < x.shape[1]:
            tile[k, j] = x[row + k, column + j]
    kl.barrier()
    for k in range(i, TILE, STEP):
        if column + k < out.shape[0] and row + j < out.shape[1]:
            out[column + k, row + j] = tile[j, k]


def layer_product(
    device: Device, x: Any, weight: Any, bias: Any, activation: Function | None, out: Any = None
) -> Any:
    """``activation(x @ weight.T + bias)``.

    Parameters
    ----------
    device : Device
    x : array, shape (samples, inputs)
    weight : array, shape (outputs, inputs)
    bias : array, shape (outputs,), or None
    activation : Function or None
        Of a number.
    out : array, shape (samples, outputs), optional
        Where the result goes.
    """
    across = weight.T
    if _transposes(device, x, weight):
        outputs, inputs = weight.shape
        across = device.empty((inputs, outputs), dtype(weight.dtype))
        counts = groups(-(-inputs // _TILE), -(-outputs // _TILE))
        transpose[counts, (_TILE, _ROWS_AT_ONCE, 1)](weight, across, TILE=_TILE, STEP=_ROWS_AT_ONCE)
    return gemm(x, across, bias=bias, activation=activation, out=out)


def _transposes(device: Device, x: Any, weight: Any) -> bool:
    """Whether the product is faster with weights (inputs, outputs), the copy included.

    So it is where many work-items read the operands themselves; half precision goes through matrix
    units, which take either order.
    """
    if device.capabilities.lone_work_items or dtype(weight.dtype).itemsize == 2:
        return False
    return bool(min(weight.shape) >= _TILE and x.shape[0] >= _MANY_SAMPLES)
