"""Training layer by layer: matrix products on the device, nothing copied to the host in between."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from portable import lang as kl
from portable.backend import Device
from portable.lang.geometry import groups
from portable.linalg import gemm
from portable.nn import layered_kernels as kernels
from portable.nn.activations import ACTIVATIONS
from portable.nn.layer_product import layer_product
from portable.nn.losses import Loss
from portable.nn.optimizers import Optimizer

if TYPE_CHECKING:
    from portable.nn.mlp import MLP

__all__ = ["LayeredTrainer", "MeanLoss"]

_WORKGROUP: Final = 64
_MAX_GROUPS: Final = 1024
_ELEMENTS_PER_ITEM: Final = 16
_SECTION: Final = 64
_SCALE: Final = 2.0**16
"""The first scale of half precision's losses, as PyTorch's."""


class _Loss:
    """Where the loss of a batch and its slopes are worked out."""

    def __init__(self, device: Device, loss: Loss, kind: Any, control: Any) -> None:
        self._device = device
        self._term = loss.term
        self._levels = device.from_numpy(np.array(loss.parameters, kind.register.numpy))
        self._kind = kind
        self._partial = device.empty((_MAX_GROUPS,), kind.register)
        self._control = control

    def __call__(self, predicted: Any, wanted: Any, slopes: Any) -> Any:
        """Enqueues it; returns the sums of the loss, one for each workgroup."""
        count = _group_count(prod(predicted.shape))
        partial = self._partial[:count]
        kernels.loss_and_slopes[groups(count), _WORKGROUP](
            predicted, wanted, self._levels, self._control, slopes, partial,
            TERM=self._term, LEVELS=self._levels.shape[0], SIZE=_WORKGROUP,
        )  # fmt: skip
        return partial


class LayeredTrainer:
    """Trains a network of any size, a few launches per layer and step.

    Parameters
    ----------
    model : MLP
        What is trained; its parameters are up to date after every epoch.
    loss, optimizer
        As `portable.nn.fit` takes them.
    clip_norm : float or None
        The largest norm of a gradient.
    batch : int
        Rows of a full batch.
    """

    def __init__(
        self, model: MLP, loss: Loss, optimizer: Optimizer, clip_norm: float | None, batch: int
    ) -> None:
        device, kind = model.device, model.dtype
        self._model = model
        self._optimizer = optimizer
        self._clip = clip_norm
        self._half = kind is kl.f16
        self._batch = batch
        self._kind = kind.register
        length = model.layout.length
        self._master = self._zeros((length,)) if self._half else model.vector
        if self._half:
            kernels.copy_vector[length, _WORKGROUP](model.vector, self._master)
        self._state = self._zeros((max(optimizer.slots, 1), length))
        self._gradient = device.from_numpy(np.zeros(length, kind.numpy))
        self._gradients = model.layout.views(device.namespace(), self._gradient)
        self._control = device.from_numpy(
            np.array([1, _SCALE if self._half else 1, 0], self._kind.numpy)
        )
        self._loss = _Loss(device, loss, kind, self._control)
        self._norms = device.empty((_MAX_GROUPS,), self._kind)
        self._lost = self._zeros((1,))
        targets = loss.targets(model.sizes[-1])
        self._inputs = device.empty((batch, model.sizes[0]), kind)
        self._wanted = device.empty((batch, targets), kind)
        self._values = [device.empty((batch, n), kind) for n in model.sizes[1:]]
        self._slopes = [device.empty((batch, n), kind) for n in model.sizes[1:]]
        sections = -(-batch // _SECTION)
        self._partial = [device.empty((sections, n), self._kind) for n in model.sizes[1:]]

    def _zeros(self, shape: tuple[int, ...]) -> Any:
        return self._model.device.from_numpy(np.zeros(shape, self._kind.numpy))

    def epochs(
        self, x: Any, y: Any, order: np.ndarray[Any, Any], numbers: np.ndarray[Any, Any]
    ) -> list[float]:
        """Passes over the samples, ``order[epoch]`` each; a row of `numbers` for each step.

        Returns the mean loss over the samples for each pass.
        """
        shared = np.split(numbers, order.shape[0])
        return [self._epoch(x, y, *given) for given in zip(order, shared, strict=True)]

    def _epoch(
        self, x: Any, y: Any, order: np.ndarray[Any, Any], numbers: np.ndarray[Any, Any]
    ) -> float:
        device = self._model.device
        samples = device.from_numpy(order)
        on_device = device.from_numpy(numbers.astype(self._kind.numpy))
        self._lost = self._zeros((1,))
        self._steps(x, y, samples, on_device)
        return float(device.to_numpy(self._lost)[0]) / order.size

    def prepare(self, x: Any, y: Any, order: Any, numbers: Any) -> Callable[[], None]:
        """One epoch of the same device arrays again and again, for measurements."""
        return lambda: self._steps(x, y, order[0], numbers)

    def _steps(self, x: Any, y: Any, order: Any, numbers: Any) -> None:
        count = order.shape[0]
        for step, first in enumerate(range(0, count, self._batch)):
            rows = min(self._batch, count - first)
            self._step(x, y, order, first, rows, numbers, step)

    def _step(
        self, x: Any, y: Any, order: Any, first: int, rows: int, numbers: Any, step: int
    ) -> None:
        inputs, wanted = self._inputs[:rows], self._wanted[:rows]
        _take(x, order, first, inputs)
        _take(y, order, first, wanted)
        values = self._forward(inputs, rows)
        slopes = [s[:rows] for s in self._slopes]
        losses = self._loss(values[-1], wanted, slopes[-1])
        self._backward([inputs, *values], slopes, rows)
        self._update(losses, numbers, step)

    def _forward(self, inputs: Any, rows: int) -> list[Any]:
        values = [v[:rows] for v in self._values]
        function = ACTIVATIONS[self._model.activation].function
        last = len(values) - 1
        for i, (weight, bias) in enumerate(self._model.layers()):
            activation = None if i == last else function
            layer_product(self._model.device, inputs, weight, bias, activation, values[i])
            inputs = values[i]
        return values

    def _backward(self, values: list[Any], slopes: list[Any], rows: int) -> None:
        """Gradients from the slopes of the outputs; ``values[i]`` went into layer i."""
        layers = self._model.layers()
        slope = ACTIVATIONS[self._model.activation].slope
        sections = -(-rows // _SECTION)
        for i in reversed(range(len(layers))):
            weight, bias = self._gradients[i]
            outputs = weight.shape[0]
            partial = self._partial[i][:sections]
            own = None if i == len(layers) - 1 else values[i + 1]
            kernels.slopes_back[(outputs, sections), (_WORKGROUP, 1)](
                slopes[i], own, partial, SLOPE=slope, SECTION=_SECTION
            )
            kernels.column_totals[outputs, _WORKGROUP](partial, bias)
            gemm(slopes[i].T, values[i], out=weight)
            if i > 0:
                gemm(slopes[i], layers[i][0], out=slopes[i - 1])

    def _update(self, losses: Any, numbers: Any, step: int) -> None:
        length = self._model.layout.length
        squared = None
        if self._half or self._clip is not None:
            squared = self._norms[: _group_count(length)]
            kernels.squares[groups(squared.shape[0]), _WORKGROUP](
                self._gradient, self._control, squared, SIZE=_WORKGROUP
            )
        kernels.finish_step[_WORKGROUP, _WORKGROUP](
            losses, squared, self._control, self._lost, self._clip,
            HALF=self._half, SIZE=_WORKGROUP,
        )  # fmt: skip
        rounded = self._model.vector if self._half else None
        kernels.update[length, _WORKGROUP](
            self._master, rounded, self._gradient, self._state, numbers, step, self._control,
            RULE=self._optimizer.rule, SLOTS=self._optimizer.slots, NUMBERS=numbers.shape[1],
        )  # fmt: skip


class MeanLoss:
    """The loss of a network's outputs, for samples that it is not trained on."""

    def __init__(self, model: MLP, loss: Loss) -> None:
        self._model = model
        self._loss = _Loss(model.device, loss, model.dtype, None)

    def __call__(self, x: Any, y: Any) -> float:
        """The mean over samples `x` and targets `y` (n, targets)."""
        partial = self._loss(self._model.forward(x), y, None)
        host = self._model.device.to_numpy(partial)
        return float(host.astype(np.float64).sum()) / int(x.shape[0])


def _take(x: Any, order: Any, first: int, out: Any) -> None:
    rows, columns = out.shape
    kernels.take_rows[(columns, rows), None](x, order, first, out)


def _group_count(elements: int) -> int:
    wanted = -(-elements // (_WORKGROUP * _ELEMENTS_PER_ITEM))
    return max(1, min(_MAX_GROUPS, wanted))
