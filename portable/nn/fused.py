"""Small networks in one launch: a forward pass, or some epochs of training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from portable.errors import LaunchError
from portable.lang.launch.geometry import groups
from portable.lang.launch.launch import Launcher
from portable.nn.fused_kernels import forward_rows, train_epochs
from portable.nn.fused_parts import FusedLoss, FusedNet, Perceptron, Samples
from portable.nn.fused_shapes import Shape, forward_shape, training_shape
from portable.nn.history import Epoch
from portable.nn.losses import Loss
from portable.nn.optimizers import Step, Trained, rule_of
from portable.primitives import copy


def fused_forward(model: Perceptron, count: int) -> tuple[Launcher, dict[str, Any]] | None:
    """The launcher and the constants for `count` samples; None if layers one by one do better.

    The arguments are the inputs, the vector of parameters, and where to put the outputs.
    """
    if count == 0:
        return None
    can = model.device.capabilities
    shape = forward_shape(can, model.layout, model.sizes, model.dtype, count)
    if shape is None:
        return None
    constants = {"NET": FusedNet.forward(model), "SHAPE": shape}
    return forward_rows[groups(-(-count // shape.rows)), shape.size], constants


class FusedTrainer:
    """Trains a small network, a launch of one workgroup for some epochs.

    Parameters
    ----------
    model : Perceptron
        What is trained; its parameters are up to date after every epoch.
    step : Step
        Its loss is a `Loss`.
    shape : Shape
        How it is cut up.
    """

    def __init__(self, model: Perceptron, step: Step, shape: Shape) -> None:
        loss, optimizer = step.loss, step.optimizer
        assert isinstance(loss, Loss)
        device, kind = model.device, model.dtype.register
        self._model = model
        self._step = step
        self._kind = kind
        rounds = kind is not model.dtype
        self._rounded = model.vector if rounds else None
        self._parameters = device.empty((model.layout.length,), kind) if rounds else model.vector
        if rounds:
            copy(model.vector, self._parameters)
        kept = np.zeros((max(optimizer.slots, 1), model.layout.length), kind.numpy)
        self._state = device.from_numpy(kept)
        self._levels = device.from_numpy(np.array(loss.parameters, kind.numpy))
        self._shape = shape
        self._constants: dict[str, Any] = {
            "NET": FusedNet.training(model),
            "LOSS": FusedLoss.of(loss, model.sizes[-1]),
            "RULE": rule_of(optimizer),
        }

    @staticmethod
    def shape(model: Perceptron, step: Step) -> Shape | None:
        """How a network can be cut up for this; None if layers one by one do better."""
        if not isinstance(step.loss, Loss):
            return None
        return training_shape(
            model.device.capabilities,
            model.layout,
            model.sizes,
            model.dtype,
            batch=step.batch,
            slots=step.optimizer.slots,
            targets=step.loss.targets(model.sizes[-1]),
        )

    def prepare(self, x: Any, y: Any, order: Any, numbers: Any) -> Callable[[], None]:
        """The launch of the same arrays of the device again and again, for measurements.

        The parameters are those of `epochs`.
        """
        lost = self._model.device.empty((order.shape[0],), self._kind)
        arguments = self._arguments(x, y, order, numbers, lost)
        launch = self._with_fitting_workgroup(
            lambda kernel, constants: kernel.prepare(*arguments, **constants)
        )
        return partial(_keeping, launch, arguments)

    def _with_fitting_workgroup(self, use: Callable[[Launcher, dict[str, Any]], Any]) -> Any:
        """Uses the kernel, with fewer work-items where the device refuses.

        How many registers the kernel takes, and so how many work-items there can be, is known once
        it is compiled.
        """
        while True:
            shape = self._shape
            try:
                return use(train_epochs[groups(1), shape.size], {**self._constants, "SHAPE": shape})
            except LaunchError:
                if shape.size <= shape.split:
                    raise
                self._shape = replace(shape, size=shape.size // 2)

    def _arguments(self, x: Any, y: Any, order: Any, numbers: Any, lost: Any) -> tuple[Any, ...]:
        trained = Trained(self._parameters, self._rounded, self._state, numbers)
        return (
            Samples(x, y, order),
            trained,
            self._levels,
            lost,
            self._step.batch,
            self._step.clip_norm,
        )

    def epochs(
        self, x: Any, y: Any, order: np.ndarray[Any, Any], numbers: np.ndarray[Any, Any]
    ) -> list[Epoch]:
        """As `portable.nn.run.Trainer.epochs`."""
        device = self._model.device
        given = device.from_numpy(order), device.from_numpy(numbers.astype(self._kind.numpy))
        lost = device.empty((order.shape[0],), self._kind)
        arguments = self._arguments(x, y, *given, lost)
        self._with_fitting_workgroup(lambda kernel, constants: kernel(*arguments, **constants))
        return [Epoch(float(x) / order.shape[1]) for x in device.to_numpy(lost)]


def _keeping(launch: Callable[[], None], arrays: tuple[Any, ...]) -> None:
    launch()
