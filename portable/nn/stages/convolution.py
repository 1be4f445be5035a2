"""Convolutional layers, by `portable.conv`."""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np

from portable import conv
from portable import lang as kl
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.nn.layers.layer import Flow
from portable.nn.layers.weighted import BatchNorm2d, Conv2d
from portable.nn.stages import linear as kernels
from portable.nn.stages.stage import Place

_WORKGROUP: Final = 64
_ENOUGH: Final = 2048
"""Pixels whose slopes a workgroup sums, in whole images."""
_MOST_COUNTS: Final = 64
_MOST_PADDING: Final = 2
"""With more, gradients by images do not go by Winograd's algorithms."""


class ConvolutionStage(kernels.BiasedStage):
    """``activation(conv2d(x, weight) + bias)``."""

    def __init__(self, at: Place, layer: Conv2d) -> None:
        super().__init__(at)
        stride, padding, dilation = layer.window()
        self._algorithm = layer.algorithm
        self._settings: dict[str, Any] = {
            "stride": stride,
            "padding": padding,
            "dilation": dilation,
            "groups": layer.groups,
        }
        pixels = at.outputs[1] * at.outputs[2]
        self._section = max(1, -(-_ENOUGH // pixels))
        self._workspaces: dict[int, int] = {}

    def scratch(self, count: int) -> int:
        """The convolution's workspace, or sums of slopes, which are made later."""
        sums = self._sections(count) * self.place.outputs[0]
        return max(sums, self._workspace(count))

    def _workspace(self, count: int) -> int:
        """Elements of workspace that a convolution of so many images is given."""
        if count not in self._workspaces:
            if len(self._workspaces) >= _MOST_COUNTS:
                self._workspaces.clear()
            self._workspaces[count] = self._asked_workspace(count)
        return self._workspaces[count]

    def _asked_workspace(self, count: int) -> int:
        at = self.place
        if at.kind is not at.kind.register:
            return 0  # which type it has depends on the algorithm, and conv2d makes its own
        asked = conv.workspace_size(
            (count, *at.inputs),
            tuple(at.weight.shape),
            dtype=at.kind,
            device=at.device,
            algorithm=self._algorithm,
            **self._settings,
        )
        return asked // at.kind.register.itemsize

    def forward(self, x: Any, y: Any, scratch: Any) -> None:
        """The convolution, with bias and activation."""
        self._convolve(x, y, scratch, self.place.weight, self.place.bias)

    def _convolve(self, x: Any, y: Any, scratch: Any, weight: Any, bias: Any) -> None:
        at = self.place
        size = self._workspace(int(x.shape[0]))
        conv.conv2d(
            x,
            weight,
            bias=bias,
            activation=None if at.activation is None else at.activation.function,
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
            conv.conv2d_weight_gradient(
                flow.x, flow.dy, tuple(weight.shape), out=gradients[0], **self._settings
            )
        if flow.dx is not None:
            wide = max(self._settings["padding"]) > _MOST_PADDING
            conv.conv2d_input_gradient(
                flow.dy,
                weight,
                tuple(flow.x.shape),
                algorithm="auto" if wide else self._algorithm,
                out=flow.dx,
                **self._settings,
            )

    def _slopes_back(self, slopes: Any, values: Any, partial: Any, slope: Any) -> None:
        device = self.place.device
        count, channels, height, width = slopes.shape
        slopes, values = (
            None if x is None else device.namespace().reshape(x, (count, channels, height * width))
            for x in (slopes, values)
        )
        items = 1 if device.capabilities.single_work_items else _WORKGROUP
        launcher = kernels.channel_slopes_back[groups(channels, self._sections(count)), (items, 1)]
        launcher(slopes, values, partial, SLOPE=slope, SECTION=self._section)


@kernel
def fold(
    weight: kl.Array,
    bias: kl.Array | None,
    moments: tuple[kl.Array, ...],
    scale: tuple[kl.Array, ...] | None,
    eps: kl.Scalar,
    out: kl.Array,
    shift: kl.Array,
) -> None:
    """Weights and biases that do what a convolution's and the normalization after it do.

    Parameters
    ----------
    weight, out : array, shape (filters, taps)
    bias : array, shape (filters,), or None
    moments : (array, array)
        Running means and variances, shape (filters,).
    scale : (array, array) or None
        The normalization's own weights and biases.
    eps : float
        Is added to variances.
    shift : array, shape (filters,)
        Where the biases go.
    """
    tap, channel = kl.global_id(0), kl.global_id(1)
    if tap < out.shape[1] and channel < out.shape[0]:
        factor = 1 / kl.sqrt(moments[1][channel] + eps)
        if scale is not None:
            factor = factor * scale[0][channel]
        out[channel, tap] = weight[channel, tap] * factor
        if tap == 0:
            middle = -moments[0][channel]
            if bias is not None:
                middle = middle + bias[channel]
            middle = middle * factor
            shift[channel] = middle if scale is None else middle + scale[1][channel]


class NormalizedConvolutionStage(ConvolutionStage):
    """A convolution and the batch normalization after it, in predictions: one convolution.

    Parameters
    ----------
    place : Place
        The convolution's.
    layer : Conv2d
    norm : Place
        The normalization's.
    normalization : BatchNorm2d
    """

    def __init__(self, at: Place, layer: Conv2d, norm: Place, normalization: BatchNorm2d) -> None:
        super().__init__(at, layer)
        self._norm = norm
        self._eps = normalization.eps
        self._folded: tuple[Any, Any] | None = None

    def forward(self, x: Any, y: Any, scratch: Any) -> None:
        """The convolution with weights that are folded anew: they may have changed."""
        at = self.place
        if self._folded is None:
            shape = tuple(at.weight.shape)
            self._folded = (
                at.device.empty(shape, at.kind),
                at.device.empty(shape[:1], at.kind),
            )
        weight, shift = self._folded
        filters = int(weight.shape[0])
        matrix = filters, prod(weight.shape[1:])
        reshape = at.device.namespace().reshape
        fold[matrix[::-1], None](
            reshape(at.weight, matrix), at.bias, self._norm.buffers,
            self._norm.parameters or None, self._eps, reshape(weight, matrix), shift,
        )  # fmt: skip
        self._convolve(x, y, scratch, weight, shift)
