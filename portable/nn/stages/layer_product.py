"""The outputs of one layer as a product of matrices."""

from __future__ import annotations

from typing import Any, Final

from portable.backend import Device
from portable.dtypes import dtype
from portable.lang.function import Function
from portable.linalg import gemm
from portable.linalg.products.rows import copy_into

__all__ = ["layer_product"]

_NARROW: Final = 32
"""Below so many inputs or outputs transposing is not worth a launch."""
_MANY_SAMPLES: Final = 2048
"""From so many on, transposing the weights costs less than reading them across their rows."""


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
        across = device.empty(across.shape, dtype(weight.dtype))
        copy_into(weight.T, across)
    return gemm(x, across, bias=bias, activation=activation, out=out)


def _transposes(device: Device, x: Any, weight: Any) -> bool:
    """Whether the product is faster with weights (inputs, outputs), the copy included.

    So it is where many work-items read the operands themselves; half precision goes through matrix
    units, which take either order.
    """
    if device.capabilities.lone_work_items or dtype(weight.dtype).itemsize == 2:
        return False
    return bool(min(weight.shape) >= _NARROW and x.shape[0] >= _MANY_SAMPLES)
