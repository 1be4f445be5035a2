"""Convolutional layers, by `portable.conv`."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from portable.conv import (
    conv2d,
    conv2d_input_gradient,
    conv2d_weight_gradient,
    workspace_size,
)
from portable.lang.launch.geometry import groups
from portable.nn.layers import Conv2d
from portable.nn.layers.layer import Flow
from portable.nn.stages import slope_kernels as kernels
from portable.nn.stages.stage import Place, Stage

__all__ = ["ConvolutionStage"]

_WORKGROUP: Final = 64
_ENOUGH: Final = 2048
"""Pixels whose slopes a workgroup sums, in whole images."""
_MOST_PADDING: Final = 2
"""With more, gradients by images do not go by Winograd's algorithms."""


class ConvolutionStage(Stage):
    """``activation(conv2d(x, weight) + bias)``."""

    def __init__(self, place: Place, layer: Conv2d) -> None:
        super().__init__(place)
        stride, padding, dilation = layer.window()
        self._algorithm = layer.algorithm
        self._settings: dict[str, Any] = {
            "stride": stride,
            "padding": padding,
            "dilation": dilation,
            "groups": layer.groups,
        }
        pixels = place.outputs[1] * place.outputs[2]
        self._section = max(1, -(-_ENOUGH // pixels))

    def scratch(self, count: int) -> int:
        """The convolution's workspace, or sums of slopes, which are made later."""
        sums = -(-count // self._section) * self.place.outputs[0]
        return max(sums, self._workspace(count))

    def _workspace(self, count: int) -> int:
        place = self.place
        if place.kind is not place.kind.register:
            return 0  # which type it has depends on the algorithm, and conv2d makes its own
        asked = workspace_size(
            (count, *place.inputs),
            tuple(place.weight.shape),
            dtype=place.kind,
            device=place.device,
            algorithm=self._algorithm,
            **self._settings,
        )
        return asked // place.kind.register.itemsize

    def forward(self, x: Any, y: Any, scratch: Any) -> None:
        """The convolution, with bias and activation."""
        place = self.place
        size = self._workspace(int(x.shape[0]))
        conv2d(
            x,
            place.weight,
            bias=place.bias,
            activation=None if place.activation is None else place.activation.function,
            algorithm=self._algorithm,
            out=y,
            workspace=scratch[:size] if size else None,
            **self._settings,
        )

    def backward(self, flow: Flow, gradients: tuple[Any, ...], scratch: Any) -> None:
        """The gradients of the convolution."""
        self._through_activation_and_bias(flow, gradients[1:], scratch)
        weight = self.place.weight
        # Steps whose gradients are beyond half precision are left out: no matter to warn of.
        with np.errstate(over="ignore"):
            conv2d_weight_gradient(
                flow.x, flow.dy, tuple(weight.shape), out=gradients[0], **self._settings
            )
        if flow.dx is not None:
            wide = max(self._settings["padding"]) > _MOST_PADDING
            conv2d_input_gradient(
                flow.dy,
                weight,
                tuple(flow.x.shape),
                algorithm="auto" if wide else self._algorithm,
                out=flow.dx,
                **self._settings,
            )

    def _through_activation_and_bias(self, flow: Flow, bias: tuple[Any, ...], scratch: Any) -> None:
        place, space = self.place, self.place.device.namespace()
        count, channels, height, width = flow.dy.shape
        shape = (count, channels, height * width)
        sections = -(-count // self._section)
        partial, values, slope = None, None, None
        if bias:
            partial = space.reshape(scratch[: sections * channels], (sections, channels))
        if place.activation is not None:
            values, slope = space.reshape(flow.y, shape), place.activation.slope
        if partial is not None or values is not None:
            items = 1 if place.device.capabilities.lone_work_items else _WORKGROUP
            kernels.channel_slopes_back[groups(channels, sections), (items, 1)](
                space.reshape(flow.dy, shape), values, partial, SLOPE=slope, SECTION=self._section
            )
        if partial is not None:
            kernels.add_sections(place.device, partial, bias[0])
