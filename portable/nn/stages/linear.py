"""Linear layers: products of matrices."""

from __future__ import annotations

from typing import Any, Final

from portable.linalg import gemm
from portable.nn.layers.layer import Flow
from portable.nn.stages import slope_kernels as kernels
from portable.nn.stages.layer_product import layer_product
from portable.nn.stages.stage import Stage

__all__ = ["LinearStage"]

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
        place = self.place
        function = None if place.activation is None else place.activation.function
        layer_product(place.device, x, place.weight, place.bias, function, y)

    def backward(self, flow: Flow, gradients: tuple[Any, ...], scratch: Any) -> None:
        """A product for the weights, and one for what went in."""
        self._through_activation_and_bias(flow, gradients[1:], scratch)
        gemm(flow.dy.T, flow.x, out=gradients[0])
        if flow.dx is not None:
            gemm(flow.dy, self.place.weight, out=flow.dx)

    def _through_activation_and_bias(self, flow: Flow, bias: tuple[Any, ...], scratch: Any) -> None:
        place = self.place
        rows, outputs = flow.dy.shape
        sections = -(-rows // _SECTION)
        partial, values, slope = None, None, None
        if bias:
            space = place.device.namespace()
            partial = space.reshape(scratch[: sections * outputs], (sections, outputs))
        if place.activation is not None:
            values, slope = flow.y, place.activation.slope
        if partial is not None or values is not None:
            kernels.slopes_back[(outputs, sections), (_WORKGROUP, 1)](
                flow.dy, values, partial, _SECTION, SLOPE=slope
            )
        if partial is not None:
            kernels.add_sections(place.device, partial, bias[0])
