"""Small networks in one launch: a forward pass, or some epochs of training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from portable import lang as kl
from portable.errors import LaunchError
from portable.lang.geometry import groups
from portable.lang.launch import Launcher
from portable.nn.activations import ACTIVATIONS
from portable.nn.fused_kernels import forward_rows, train_epochs
from portable.nn.fused_shapes import (
    Shape,
    forward_shape,
    layer_tuples,
    training_shape,
    widest,
)
from portable.nn.history import Epoch
from portable.nn.layered_kernels import copy_vector
from portable.nn.losses import Loss
from portable.nn.optimizers import Optimizer

if TYPE_CHECKING:
    from portable.nn.mlp import MLP

__all__ = ["FusedTrainer", "fused_forward"]

_WORKGROUP: Final = 64


def fused_forward(model: MLP, count: int) -> tuple[Launcher, dict[str, Any]] | None:
    """The launcher and the constants for `count` samples; None if layers one by one do better.

    The arguments are the inputs, the vector of parameters, and where to put the outputs.
    """
    if count == 0:
        return None
    can = model.device.capabilities
    shape = forward_shape(can, model.layout, model.sizes, model.dtype, count)
    if shape is None:
        return None
    constants = {
        "LAYERS": layer_tuples(model.layout),
        "LENGTH": model.layout.length,
        "WIDEST": widest(model.sizes),
        "ACTIVATION": ACTIVATIONS[model.activation].function,
        "KIND": model.dtype.register,
        **shape.forward(),
    }
    return forward_rows[groups(-(-count // shape.rows)), shape.size], constants


class FusedTrainer:
    """Trains a small network, a launch of one workgroup for some epochs.

    Parameters
    ----------
    model, loss, optimizer, clip_norm, batch
        As `portable.nn.layered.LayeredTrainer` takes them.
    shape : Shape
        How it is cut up.
    """

    def __init__(
        self,
        model: MLP,
        loss: Loss,
        optimizer: Optimizer,
        clip_norm: float | None,
        batch: int,
        shape: Shape,
    ) -> None:
        device, kind = model.device, model.dtype.register
        self._model = model
        self._batch = batch
        self._clip = clip_norm
        self._kind = kind
        half = model.dtype is kl.f16
        self._rounded = model.vector if half else None
        self._parameters = device.empty((model.layout.length,), kind) if half else model.vector
        if half:
            copy_vector[model.layout.length, _WORKGROUP](model.vector, self._parameters)
        kept = np.zeros((max(optimizer.slots, 1), model.layout.length), kind.numpy)
        self._state = device.from_numpy(kept)
        self._levels = device.from_numpy(np.array(loss.parameters, kind.numpy))
        self._shape = shape
        self._launcher = train_epochs[groups(1), shape.size]
        self._constants = _training_constants(model, loss, optimizer, batch, shape)

    @staticmethod
    def shape(model: MLP, loss: Loss, optimizer: Optimizer, batch: int) -> Shape | None:
        """How a network can be cut up for this; None if layers one by one do better."""
        return training_shape(
            model.device.capabilities,
            model.layout,
            model.sizes,
            model.dtype,
            batch=batch,
            slots=optimizer.slots,
            targets=loss.targets(model.sizes[-1]),
        )

    def prepare(self, x: Any, y: Any, order: Any, numbers: Any) -> Callable[[], None]:
        """The launch of the same device arrays again and again, for measurements."""
        lost = self._model.device.empty((order.shape[0],), self._kind)
        arguments = self._arguments(x, y, order, numbers, lost)
        launch = self._with_fitting_workgroup(
            lambda: self._launcher.prepare(*arguments, **self._constants)
        )
        return partial(_keeping, launch, arguments)

    def _with_fitting_workgroup(self, use: Callable[[], Any]) -> Any:
        """Uses the launcher, with fewer work-items where the device refuses.

        How many registers the kernel takes, and so how many work-items there can be, is known once
        it is compiled.
        """
        while True:
            try:
                return use()
            except LaunchError:
                if self._shape.size <= self._shape.split:
                    raise
                self._shape = replace(self._shape, size=self._shape.size // 2)
                self._launcher = train_epochs[groups(1), self._shape.size]
                self._constants |= self._shape.training()

    def _arguments(self, x: Any, y: Any, order: Any, numbers: Any, lost: Any) -> tuple[Any, ...]:
        return (
            x, y, order, self._levels, self._parameters, self._rounded, self._state, numbers,
            lost, self._batch, self._clip,
        )  # fmt: skip

    def epochs(
        self, x: Any, y: Any, order: np.ndarray[Any, Any], numbers: np.ndarray[Any, Any]
    ) -> list[Epoch]:
        """Passes over the samples, ``order[epoch]`` each; a row of `numbers` for each step."""
        device = self._model.device
        given = device.from_numpy(order), device.from_numpy(numbers.astype(self._kind.numpy))
        lost = device.empty((order.shape[0],), self._kind)
        arguments = self._arguments(x, y, *given, lost)
        self._with_fitting_workgroup(lambda: self._launcher(*arguments, **self._constants))
        return [Epoch(float(x) / order.shape[1]) for x in device.to_numpy(lost)]


def _keeping(launch: Callable[[], None], arrays: tuple[Any, ...]) -> None:
    launch()


def _training_constants(
    model: MLP, loss: Loss, optimizer: Optimizer, batch: int, shape: Shape
) -> dict[str, Any]:
    activation = ACTIVATIONS[model.activation]
    return {
        "LAYERS": layer_tuples(model.layout),
        "LENGTH": model.layout.length,
        "UNITS_IN_ALL": sum(model.sizes),
        "TARGETS": loss.targets(model.sizes[-1]),
        "LEVELS": len(loss.parameters),
        "NUMBERS": optimizer.numbers(1, [0.0]).shape[1],
        "SLOTS": optimizer.slots,
        "ACTIVATION": activation.function,
        "SLOPE": activation.slope,
        "TERM": loss.term,
        "RULE": optimizer.rule,
        "KIND": model.dtype.register,
        "WHOLE": shape.rows >= batch,
        **shape.training(),
    }
