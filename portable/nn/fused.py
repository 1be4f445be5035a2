"""Small networks in one kernel: all layers of a forward pass, or all steps of some epochs.

A workgroup holds the values of some samples in local memory, a row of `values` for each unit and a
column for each sample, so that vectors run along samples on every device: across the registers of a
processor, whose workgroups are of one work-item, and as wide loads on a GPU. ``NET``, ``LOSS``,
``RULE`` and ``SHAPE`` are structs of `portable.nn.fused_parts` and `portable.nn.optimizers`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from portable import lang as kl
from portable.errors import LaunchError
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.lang.launch.launch import Launcher
from portable.linalg.base.sums import add_up_neighbours, lane_sum
from portable.nn.fused_parts import (
    FusedLayer,
    FusedLoss,
    FusedNet,
    Pass,
    Perceptron,
    Samples,
    Shape,
    forward_shape,
    training_shape,
)
from portable.nn.history import Epoch
from portable.nn.losses import Loss
from portable.nn.optimizers import Rule, Step, Trained, rule_of
from portable.primitives import copy


class Room(NamedTuple):
    """What a workgroup works on.

    Attributes
    ----------
    values : array
        A row for each unit, a column for each sample, in local memory.
    weights : array
        All parameters.
    gradient, kept : array or None
        For training: the slopes by the parameters, and what the optimizer keeps of each.
    NET : FusedNet
    SHAPE : Shape
    """

    values: Any
    weights: Any
    gradient: Any
    kept: Any
    NET: FusedNet
    SHAPE: Shape


@function
def load_rows(
    x: kl.Array, chosen: tuple[Any, ...], count: kl.Scalar, values: kl.Array, SHAPE: Shape
) -> None:
    """Samples into columns of `values`, zeros beyond `count`; `chosen`: their order, and where."""
    order, first = chosen
    for r in kl.workgroup_range(SHAPE.rows):
        if r < count:
            source = first + r
            if order is not None:
                source = order[source]
            for k in range(x.shape[1]):
                values[k, r] = x[source, k]
        else:
            for k in range(x.shape[1]):
                values[k, r] = 0


@function
def through_layer(room: Room, PASS: Pass) -> None:
    """The values of a pass's units, from those of its source.

    A work-item does `SHAPE.units` units of `SHAPE.vectors` vectors of samples at a time.
    """
    values, weights, SHAPE = room.values, room.weights, room.SHAPE
    wide = SHAPE.lanes * SHAPE.vectors
    across = SHAPE.rows // wide
    for item in kl.workgroup_range(kl.cdiv(PASS.units, SHAPE.units) * across):
        first, column = item // across * SHAPE.units, item % across * wide
        columns = [column + v * SHAPE.lanes for v in range(SHAPE.vectors)]
        units = [kl.minimum(first + j, PASS.units - 1) for j in range(SHAPE.units)]
        places = [PASS.weight + unit * PASS.unit_stride for unit in units]
        sums = kl.private((SHAPE.units, SHAPE.vectors), values.dtype, lanes=SHAPE.lanes)
        for j, unit in enumerate(units):
            start = kl.cast(0, values.dtype) if PASS.bias is None else weights[PASS.bias + unit]
            for v in kl.static_range(SHAPE.vectors):
                sums[j, v] = kl.splat(start, SHAPE.lanes)
        for k in range(PASS.depth):
            held = [kl.vload(values, PASS.source + k, c, lanes=SHAPE.lanes) for c in columns]
            for j, layer in enumerate(places):
                factor = kl.splat(weights[layer + k * PASS.row_stride], SHAPE.lanes)
                for v in kl.static_range(SHAPE.vectors):
                    sums[j, v] += factor * held[v]
        for j in kl.static_range(SHAPE.units):
            if first + j < PASS.units:
                for v, here in enumerate(columns):
                    row, value = PASS.target + first + j, sums[j, v]
                    if PASS.activation is not None:
                        value = PASS.activation(value)
                    if PASS.slope is not None:
                        value *= PASS.slope(kl.vload(values, row, here, lanes=SHAPE.lanes))
                    kl.vstore(values, row, here, value)


@function
def copy_by_workgroup(source: kl.Array, target: kl.Array) -> None:
    """A vector, rounded to what the target holds."""
    for i in kl.workgroup_range(target.shape[0]):
        target[i] = source[i]


@kernel
def forward_rows(
    x: kl.Array, parameters: kl.Array, out: kl.Array, *, NET: FusedNet, SHAPE: Shape
) -> None:
    """A workgroup takes its rows of samples through all layers.

    Parameters come into local memory first where the shape says so.
    """
    values = kl.local((NET.rows, SHAPE.rows + SHAPE.pad), NET.kind)
    first = kl.group_id(0) * SHAPE.rows
    count = kl.minimum(x.shape[0] - first, SHAPE.rows)
    weights = parameters
    if SHAPE.copy:
        weights = kl.local(NET.length, NET.kind)
        copy_by_workgroup(parameters, weights)
    load_rows(x, (None, first), count, values, SHAPE)
    kl.barrier()
    for layer in NET.layers:
        through_layer(Room(values, weights, None, None, NET, SHAPE), layer.forward)
        kl.barrier()
    last = NET.layers[-1]
    for e in kl.workgroup_range(SHAPE.rows * last.outputs):
        r, j = e // last.outputs, e % last.outputs
        if r < count:
            out[first + r, j] = values[last.target + j, r]


# -- training -------------------------------------------------------------------------------------


@function
def loss_of_rows(
    room: Room,
    goals: kl.Array,
    levels: kl.Array,
    count: kl.Scalar,
    scale: kl.Scalar,
    LOSS: FusedLoss,
) -> Any:
    """The slopes of the loss in the place of the outputs; returns this work-item's losses."""
    values, LAST, SHAPE = room.values, room.NET.layers[-1], room.SHAPE
    total = kl.cast(0, values.dtype)
    for e in kl.workgroup_range(LAST.outputs * SHAPE.rows):
        r, j = e % SHAPE.rows, e // SHAPE.rows
        slope = kl.cast(0, values.dtype)
        if r < count:
            error = values[LAST.target + j, r] - goals[j // LOSS.levels, r]
            loss, slope = LOSS.term(error, levels[j % LOSS.levels])
            total += loss
        values[LAST.target + j, r] = slope * scale
    kl.barrier()
    return total


@function
def gradients_of_layer(room: Room, more: kl.Scalar, LAYER: FusedLayer) -> None:
    """Adds up a layer's gradient over the samples; `more`: on top of what is there.

    Neighbouring work-items share the samples of a tile of weights. Biases are weights of an input
    that is 1, the last row of the values.
    """
    values, gradient, SHAPE = room.values, room.gradient, room.SHAPE
    ones = room.NET.rows - 1
    high, wide = SHAPE.tile
    across = kl.cdiv(LAYER.inputs + 1, wide)
    tiles = across * kl.cdiv(LAYER.outputs, high)
    for start in range(0, tiles * SHAPE.split, SHAPE.size):
        item = start + kl.local_linear_id()
        # Without a branch around it, since neighbours add up what they found together.
        tile = kl.minimum(item // SHAPE.split, tiles - 1)
        share = item % SHAPE.split
        unit, into = tile // across * high, tile % across * wide
        units, inputs = [unit + i for i in range(high)], [into + j for j in range(wide)]
        sums = kl.private((high, wide), values.dtype, lanes=SHAPE.lanes, fill=0)
        for row in range(share * SHAPE.lanes, SHAPE.rows, SHAPE.split * SHAPE.lanes):
            rows = [kl.where(k < LAYER.inputs, LAYER.source + k, ones) for k in inputs]
            held = [kl.vload(values, at, row, lanes=SHAPE.lanes) for at in rows]
            for i, n in enumerate(units):
                at = LAYER.target + kl.minimum(n, LAYER.outputs - 1)
                slope = kl.vload(values, at, row, lanes=SHAPE.lanes)
                for j in kl.static_range(wide):
                    sums[i, j] += slope * held[j]
        for i, n in enumerate(units):
            for j, k in enumerate(inputs):
                total = kl.private(1, values.dtype, fill=lane_sum(sums[i, j]))
                add_up_neighbours(total, (0,), SHAPE.split)
                there = (n < LAYER.outputs) & (k <= LAYER.inputs)
                if there & (share == 0) & (item < tiles * SHAPE.split):
                    weight = LAYER.weight + n * LAYER.inputs + k
                    target = kl.where(k < LAYER.inputs, weight, LAYER.bias + n)
                    gradient[target] = gradient[target] + total[0] if more else total[0]


@function
def gradients_of_layers(room: Room, more: kl.Scalar) -> None:
    """All gradients, from the slopes of the outputs; `more`: on top of what is there."""
    for layer in reversed(room.NET.layers):
        gradients_of_layer(room, more, layer)
        kl.barrier()
        if layer.below is not None:
            through_layer(room, layer.backward)
            kl.barrier()


@function
def step_of_optimizer(
    room: Room, given: tuple[kl.Scalar, ...], limit: kl.Scalar | None, RULE: Rule
) -> None:
    """One step along the gradient, its norm limited first where there is a limit.

    No barrier ends it: a work-item alone has what it wrote until the next samples are there.
    """
    gradient = room.gradient
    factor = kl.cast(1, gradient.dtype)
    if limit is not None:
        square = kl.cast(0, gradient.dtype)
        for i in kl.workgroup_range(gradient.shape[0]):
            square += gradient[i] * gradient[i]
        norm = kl.sqrt(kl.workgroup_reduce(kl.add, square))
        factor = kl.minimum(limit / (norm + 1e-6), factor)
    for i in kl.workgroup_range(gradient.shape[0]):
        RULE.follow(room.weights, room.kept, i, gradient[i] * factor, given)


@function
def room_for_training(trained: Trained, NET: FusedNet, RULE: Rule, SHAPE: Shape) -> Room:
    """What training works on, parameters and state in local memory where the shape says so."""
    values = kl.local((NET.rows, SHAPE.rows + SHAPE.pad), NET.kind)
    gradient = kl.local(NET.length, NET.kind)
    weights, kept = trained.parameters, trained.state
    if SHAPE.copy:
        weights = kl.local(NET.length, NET.kind)
        copy_by_workgroup(trained.parameters, weights)
    if SHAPE.hold:
        kept = kl.local((RULE.slots if RULE.slots > 0 else 1, NET.length), NET.kind)
        for slot in kl.static_range(RULE.slots):
            copy_by_workgroup(trained.state[slot], kept[slot])
    for i in kl.workgroup_range(NET.length):
        gradient[i] = 0
    for r in kl.workgroup_range(SHAPE.rows):
        values[NET.rows - 1, r] = 1
    return Room(values, weights, gradient, kept, NET, SHAPE)


@kernel
def train_epochs(
    samples: Samples,
    trained: Trained,
    levels: kl.Array,
    lost: kl.Array,
    batch: kl.Scalar,
    limit: kl.Scalar | None,
    *,
    NET: FusedNet,
    LOSS: FusedLoss,
    RULE: Rule,
    SHAPE: Shape,
) -> None:
    """All steps of some epochs, one for each element of `lost`, by one workgroup.

    ``samples.order[epoch]`` are the samples in their order, and a row of ``trained.numbers``
    belongs to each step. A batch goes through in pieces of as many samples as fit, or in one where
    it is whole. `limit` is the largest norm of the gradient, or None; ``trained.rounded``, where
    given, gets the parameters in fewer bits; `lost` the sums of the loss over samples. Parameters
    are copied to local memory, and the optimizer's state held there, where the shape says so.
    """
    last = NET.layers[-1]
    room = room_for_training(trained, NET, RULE, SHAPE)
    goals = kl.local((LOSS.targets, SHAPE.rows + SHAPE.pad), NET.kind)
    steps = kl.cdiv(samples.order.shape[1], batch)
    for epoch in range(lost.shape[0]):
        order, total = samples.order[epoch], kl.cast(0, NET.kind)
        for step in range(steps):
            given = [trained.numbers[epoch * steps + step, j] for j in range(RULE.numbers)]
            size = kl.minimum(batch, order.shape[0] - step * batch)
            scale = kl.cast(1, NET.kind) / kl.cast(size * last.outputs, NET.kind)
            for piece in range(0, SHAPE.rows if SHAPE.whole else size, SHAPE.rows):
                first, count = step * batch + piece, kl.minimum(size - piece, SHAPE.rows)
                load_rows(samples.x, (order, first), count, room.values, SHAPE)
                load_rows(samples.y, (order, first), count, goals, SHAPE)
                kl.barrier()
                for layer in NET.layers:
                    through_layer(room, layer.forward)
                    kl.barrier()
                total += loss_of_rows(room, goals, levels, count, scale, LOSS)
                gradients_of_layers(room, piece > 0)
            step_of_optimizer(room, given, limit, RULE)
        summed = kl.workgroup_reduce(kl.add, total)
        if kl.local_linear_id() == 0:
            lost[epoch] = summed / kl.cast(last.outputs, NET.kind)
    if SHAPE.copy:
        copy_by_workgroup(room.weights, trained.parameters)
    if trained.rounded is not None:
        copy_by_workgroup(room.weights, trained.rounded)
    if SHAPE.hold:
        for slot in kl.static_range(RULE.slots):
            copy_by_workgroup(room.kept[slot], trained.state[slot])


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
