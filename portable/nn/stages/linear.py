"""Linear layers: products of matrices."""

from __future__ import annotations

from abc import abstractmethod
from math import prod
from typing import Any, Final

import numpy as np

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import dtype, uint32
from portable.lang.function import Function
from portable.lang.kernel import kernel
from portable.linalg import gemm
from portable.linalg.products.rows import copy_into
from portable.nn.layers.layer import Flow
from portable.nn.layers.unweighted import Dropout
from portable.nn.stages.stage import Place, Stage

# Dropout layers, which training alone has.

_WORKGROUP: Final = 64
_DRAWN: Final = 4
"""Numbers that the generator gives at a time."""


@kernel
def count_step(steps: kl.Array) -> None:
    """One more."""
    steps[0] = steps[0] + 1


@kernel
def drop(x: kl.Array, y: kl.Array, steps: kl.Array, seed: kl.Scalar, share: kl.Scalar) -> None:
    """Leaves out a share of a vector, the same in a step each time; the rest becomes larger.

    Parameters
    ----------
    x, y : array, shape (n,)
    steps : array of uint32, shape (1,)
        The step's number, a stream of the generator.
    seed : int
    share : float
        Of what is left out.
    """
    first = kl.global_id(0) * _DRAWN
    drawn = kl.random.uniform(seed, kl.global_id(0), steps[0])
    for j in kl.static_range(_DRAWN):
        i = first + j
        if i < x.shape[0]:
            value = x[i] / (1 - share)
            y[i] = kl.where(drawn[j] < share, value * 0, value)


class DropoutStage(Stage):
    """Leaves out numbers at random, and the slopes by them."""

    def __init__(self, at: Place, layer: Dropout) -> None:
        super().__init__(at)
        self._share = float(layer.p)
        self._seed = layer.seed
        self._steps: Any = None

    def forward(self, x: Any, y: Any, scratch: Any) -> None:
        """In a step of its own, other numbers than in the step before."""
        if self._steps is None:
            self._steps = self.place.device.from_numpy(np.zeros(1, uint32.numpy))
        count_step[1, 1](self._steps)
        self._drop(x, y)

    def backward(self, flow: Flow, gradients: tuple[Any, ...], scratch: Any) -> None:
        """The same places as on the way there."""
        if flow.dx is not None:
            self._drop(flow.dy, flow.dx)

    def _drop(self, x: Any, y: Any) -> None:
        count = prod(x.shape)
        reshape = self.place.device.namespace().reshape
        drop[-(-count // _DRAWN), _WORKGROUP](
            reshape(x, (count,)), reshape(y, (count,)), self._steps, self._seed, self._share
        )


# Slopes on their way back through activations and biases.


@kernel
def apply(x: kl.Array, out: kl.Array, slopes: kl.Array | None, *, FUNCTION: Any) -> None:
    """A function of each number of a matrix, times the slope that stands there if there are any."""
    columns = out.shape[1]
    i = kl.global_id(0)
    if i < out.shape[0] * columns:
        row, column = i // columns, i % columns
        value = FUNCTION(kl.cast(x[row, column], kl.accumulator(x.dtype)))
        out[row, column] = value if slopes is None else slopes[row, column] * value


@kernel
def slopes_back(
    slopes: kl.Array,
    values: kl.Array | None,
    partial: kl.Array | None,
    rows: kl.Scalar,
    *,
    SLOPE: Any = None,
) -> None:
    """Multiplies by the activation's slope, and sums the columns of each section of so many `rows`.

    `values` are the activation's; None where there is no activation. `partial` is None where no
    sums are needed.
    """
    column, section = kl.global_id(0), kl.global_id(1)
    first = section * rows
    if column < slopes.shape[1] and first < slopes.shape[0]:
        total = kl.cast(0, kl.accumulator(slopes.dtype))
        for row in range(first, kl.minimum(first + rows, slopes.shape[0])):
            slope = slopes[row, column]
            if values is not None:
                slope = slope * SLOPE(values[row, column])
                slopes[row, column] = slope
            total += slope
        if partial is not None:
            partial[section, column] = total


@kernel
def channel_slopes_back(
    slopes: kl.Array, values: kl.Array | None, partial: kl.Array | None, *, SLOPE: Any, SECTION: int
) -> None:
    """The same for images (n, channels, pixels): a workgroup for a channel of some images."""
    channel, section = kl.group_id(0), kl.group_id(1)
    first, pixels = section * SECTION, slopes.shape[2]
    images = kl.minimum(SECTION, slopes.shape[0] - first)
    total = kl.cast(0, kl.accumulator(slopes.dtype))
    for i in kl.workgroup_range(images * pixels):
        image, pixel = first + i // pixels, i % pixels
        slope = slopes[image, channel, pixel]
        if values is not None:
            slope = slope * SLOPE(values[image, channel, pixel])
            slopes[image, channel, pixel] = slope
        total += slope
    if partial is not None:
        total = kl.workgroup_reduce(kl.add, total)
        if kl.local_id(0) == 0:
            partial[section, channel] = total


def add_sections(device: Device, partial: Any, out: Any) -> None:
    """Adds up what sections came to.

    Parameters
    ----------
    device : Device
    partial : array, shape (sections, columns)
    out : array, shape (columns,)
    """
    sections, columns = partial.shape
    total = device.namespace().reshape(out, (1, columns))
    slopes_back[(columns, 1), (_WORKGROUP, 1)](partial, None, total, sections)


# -- linear ----------------------------------------------------------------------------------------

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
    if device.capabilities.single_work_items or dtype(weight.dtype).itemsize == 2:
        return False
    return bool(min(weight.shape) >= _NARROW and x.shape[0] >= _MANY_SAMPLES)


_SECTION: Final = 64
"""Rows whose slopes a work-item sums."""


class BiasedStage(Stage):
    """A product with a bias and an activation, through which slopes go back first."""

    _section: int
    """Samples whose slopes are summed together at first."""

    def _sections(self, count: int) -> int:
        """Sections of so many samples."""
        return -(-count // self._section)

    @abstractmethod
    def _slopes_back(self, slopes: Any, values: Any, partial: Any, slope: Any) -> None:
        """As the kernel `slopes_back`, of what the stage makes."""

    def _through_activation_and_bias(self, flow: Flow, bias: tuple[Any, ...], scratch: Any) -> None:
        """Slopes through both; those by the bias are summed by sections."""
        at, (count, outputs) = self.place, flow.dy.shape[:2]
        sections = self._sections(count)
        partial, values, slope = None, None, None
        if bias:
            space = at.device.namespace()
            partial = space.reshape(scratch[: sections * outputs], (sections, outputs))
        if at.activation is not None:
            values, slope = flow.y, at.activation.slope
        if partial is not None or values is not None:
            self._slopes_back(flow.dy, values, partial, slope)
        if partial is not None:
            add_sections(at.device, partial, bias[0])


class LinearStage(BiasedStage):
    """``activation(x @ weight.T + bias)``."""

    _section = _SECTION

    def scratch(self, count: int) -> int:
        """Sums of the slopes of sections of the samples."""
        return self._sections(count) * self.place.outputs[0]

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

    def _slopes_back(self, slopes: Any, values: Any, partial: Any, slope: Any) -> None:
        rows, outputs = slopes.shape
        launcher = slopes_back[(outputs, self._sections(rows)), (_WORKGROUP, 1)]
        launcher(slopes, values, partial, self._section, SLOPE=slope)
