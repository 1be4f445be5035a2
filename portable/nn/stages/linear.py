"""Linear layers: products of matrices."""

from __future__ import annotations

from typing import Any, Final

from portable.backend import Device
from portable.dtypes import dtype
from portable.lang.function import Function
from portable.linalg import gemm
from portable.linalg.products.rows import copy_into
from portable.nn.layers.layer import Flow
from portable.nn.stages import slope_kernels as kernels
from portable.nn.stages.stage import Stage

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


_WORKGROUP: Final = 64
_SECTION: Final = 64
"""Rows whose slopes a work-item sums."""


class LinearStage(Stage):
    """``activation(x @ weight.T + bias)``."""

    def scratch(self, count: int) -> int:
        """Sums of the slopes of sections of the samples."""
        return -(-count // _SECTION) * self.place.outputs[0]

    def forward(self, x: Any, y: Any, scratch: Any) -> None:
        """One product; the weights are transposed first where that is faster."""
        at = self.place
        function = None if at.activation is None else at.activation.function
        layer_product(at.device, x, at.weight, at.bias, function, y)

    def backward(self, flow: Flow, gradients: tuple[Any, ...], scratch: Any) -> None:
        """A product for the weights, and one for what went in."""
        self._through_activation_and_bias(flow, gradients[1:], scratch)
        gemm(flow.dy.T, flow.x, out=gradients[0])
        if flow.dx is not None:
            gemm(flow.dy, self.place.weight, out=flow.dx)

    def _through_activation_and_bias(self, flow: Flow, bias: tuple[Any, ...], scratch: Any) -> None:
        at = self.place
        rows, outputs = flow.dy.shape
        sections = -(-rows // _SECTION)
        partial, values, slope = None, None, None
        if bias:
            space = at.device.namespace()
            partial = space.reshape(scratch[: sections * outputs], (sections, outputs))
        if at.activation is not None:
            values, slope = flow.y, at.activation.slope
        if partial is not None or values is not None:
            kernels.slopes_back[(outputs, sections), (_WORKGROUP, 1)](
                flow.dy, values, partial, _SECTION, SLOPE=slope
            )
        if partial is not None:
            kernels.add_sections(at.device, partial, bias[0])
