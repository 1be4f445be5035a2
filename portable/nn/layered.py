"""Training layer by layer: nothing is copied to the host in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import gcd, prod
from typing import Any, Final

import numpy as np

from portable import lang as kl
from portable.dtypes import DType, dtype
from portable.lang.launch.geometry import groups
from portable.linalg.dense.kernels import clear
from portable.nn import layered_kernels as kernels
from portable.nn.history import Epoch
from portable.nn.loss_passes import Batch, Sums, group_count, loss_pass
from portable.nn.losses import CrossEntropyLoss
from portable.nn.network import Network
from portable.nn.optimizers import Step, Trained, rule_of
from portable.nn.stages import TrainingPass
from portable.nn.team import Team
from portable.primitives import copy

_WORKGROUP: Final = 64
_MOST_LANES: Final = 16
"""Of a vector of the language, whatever a device has."""

_MOST_REPLAYED: Final = 256
"""Steps of an epoch that are replayed as one; more are enqueued one by one."""

_SCALE: Final = 2.0**16
"""The first scale of half precision's losses, as PyTorch's."""


@dataclass(frozen=True, slots=True)
class _Epoch:
    """An epoch's arrays on the device, which later epochs fill again, and what takes its steps."""

    x: Any
    y: Any
    order: Any
    numbers: Any
    run: Callable[[], object]

    def is_like(self, x: Any, y: Any, order: Any, numbers: Any) -> bool:
        """Whether it has room for another epoch of the same samples."""
        same = self.x is x and self.y is y
        return same and self.order.shape == order.shape and self.numbers.shape == numbers.shape


class LayeredTrainer:
    """Trains a network of any size, a few launches per layer and step.

    Parameters
    ----------
    model : Network
        What is trained; its parameters are up to date after every epoch.
    step : Step
    team : Team, optional
        Those who train it together.
    """

    def __init__(self, model: Network, step: Step, team: Team | None = None) -> None:
        device, kind = model.device, model.dtype
        self._model = model
        self._rule = rule_of(step.optimizer)
        self._clip = step.clip_norm
        self._half = kind is kl.f16
        self._rounds = kind.register is not kind
        self._batch = step.batch
        self._kind = kind.register
        self._team = Team() if team is None else team
        self._loss = loss_pass(device, step.loss, kind)
        self._counts = isinstance(step.loss, CrossEntropyLoss)
        length = model.layout.length
        self._lanes = self._widest(length, self._kind)
        self._master = self._zeros((length,)) if self._rounds else model.vector
        if self._rounds:
            copy(model.vector, self._master)
        self._state = self._zeros((max(step.optimizer.slots, 1), length))
        self._gradient = device.from_numpy(np.zeros(length, kind.numpy))
        self._control = device.from_numpy(
            np.array([1, _SCALE if self._half else 1, 0], self._kind.numpy)
        )
        self._lost = self._zeros((2,))
        self._nothing = Sums(self._zeros((1,)))
        self._norms = device.empty((group_count(length),), self._kind)
        self._pass: TrainingPass | None = None
        self._wanted: Any = None
        self._epoch_of: _Epoch | None = None

    def _widest(self, count: int, kind: DType) -> int:
        """Lanes of the widest vectors of the device and the language that divide so many."""
        widest = self._model.device.capabilities.vector_bytes // kind.itemsize
        return gcd(count, min(max(1, widest), _MOST_LANES))

    def _zeros(self, shape: tuple[int, ...]) -> Any:
        return self._model.device.from_numpy(np.zeros(shape, self._kind.numpy))

    def epochs(
        self, x: Any, y: Any, order: np.ndarray[Any, Any], numbers: np.ndarray[Any, Any]
    ) -> list[Epoch]:
        """As `portable.nn.run.Trainer.epochs`."""
        shared = np.split(numbers, order.shape[0])
        return [self._epoch(x, y, *given) for given in zip(order, shared, strict=True)]

    def _epoch(
        self, x: Any, y: Any, order: np.ndarray[Any, Any], numbers: np.ndarray[Any, Any]
    ) -> Epoch:
        device = self._model.device
        given = device.from_numpy(order), device.from_numpy(numbers.astype(self._kind.numpy))
        self._repeated(x, y, *given)()
        loss, hits = self._team.totals(device.to_numpy(self._lost).astype(float))
        self._team.align(self._master)
        if self._model.buffers.shape[0]:
            self._team.share(self._model.buffers)
        accuracy = float(hits) / order.size if self._counts else None
        return Epoch(float(loss) / order.size, accuracy)

    def _repeated(self, x: Any, y: Any, order: Any, numbers: Any) -> Callable[[], object]:
        """The steps of an epoch of these samples, which are replayed unless they are very many."""
        if self._epoch_of is not None and self._epoch_of.is_like(x, y, order, numbers):
            self._epoch_of.order[...] = order
            self._epoch_of.numbers[...] = numbers
            return self._epoch_of.run
        run = partial(self._steps, x, y, order, numbers)
        if numbers.shape[0] > _MOST_REPLAYED:
            return run
        again = self._team.replay(self._model.device, run)
        if again is not run:
            self._epoch_of = _Epoch(x, y, order, numbers, again)
        return again

    def prepare(self, x: Any, y: Any, order: Any, numbers: Any) -> Callable[[], object]:
        """One epoch of the same arrays of the device again and again, for measurements.

        The parameters are those of `epochs`, with an `order` of one epoch.
        """
        return self._repeated(x, y, order[0], numbers)

    def _steps(self, x: Any, y: Any, order: Any, numbers: Any) -> None:
        shape = tuple(x.shape[1:])
        ready = self._ready(shape, y)
        rows = self._model.device.namespace().reshape(x, (x.shape[0], prod(shape)))
        clear[self._lost.shape[0], _WORKGROUP](self._lost)
        count = order.shape[0]
        for step, first in enumerate(range(0, count, self._batch)):
            whole = min(self._batch, count - first)
            part = self._team.part(whole)
            losses = self._nothing
            if part.stop > part.start:
                count_here = part.stop - part.start
                self._take(rows, order, first + part.start, ready.inputs(count_here))
                self._take(y, order, first + part.start, self._wanted[:count_here])
                losses = self._gradients(ready, count_here, whole)
            else:
                self._no_gradients()
            self._team.finish(self._gradient)
            self._update(losses, numbers, step)

    def _take(self, x: Any, order: Any, first: int, out: Any) -> None:
        """Copies rows by vectors as wide as divide them."""
        rows, columns = out.shape
        lanes = self._widest(columns, dtype(out.dtype))
        kernels.take_rows[(columns // lanes, rows), None](x, order, first, out, LANES=lanes)

    def _ready(self, shape: tuple[int, ...], y: Any) -> TrainingPass:
        """The memory that a training takes, made when the first samples are seen."""
        if self._pass is None:
            model = self._model
            most = self._team.largest_part(self._batch)
            gradients = model.layout.views(model.device.namespace(), self._gradient)
            stages = model.stages(shape, training=True)
            self._pass = TrainingPass(model.device, model.dtype, stages, most, gradients)
            self._wanted = model.device.empty((most, *y.shape[1:]), dtype(y.dtype))
        return self._pass

    def _gradients(self, ready: TrainingPass, count: int, whole: int) -> Sums:
        """Enqueues the gradients of so many samples of a whole batch."""
        ready.forward(count)
        predicted, slopes = ready.outputs(count)
        losses = self._loss(Batch(predicted, self._wanted[:count], slopes, self._control, whole))
        ready.backward(count, self._tell)
        return losses

    def _no_gradients(self) -> None:
        """The same where a batch is so small that others have all of it."""
        clear[self._gradient.shape[0], _WORKGROUP](self._gradient)
        for index in reversed(range(len(self._model.layers))):
            self._tell(index)

    def _tell(self, index: int) -> None:
        """Tells the team of the gradients of a layer and those after it."""
        parts = self._model.layout.layers[index]
        if parts:
            self._team.ready(self._gradient, parts[0].start)

    def _update(self, sums: Sums, numbers: Any, step: int) -> None:
        length = self._model.layout.length
        squared = None
        if self._half or self._clip is not None:
            squared = self._norms
            kernels.squares[groups(squared.shape[0]), _WORKGROUP](
                self._gradient, self._control, squared, LANES=self._lanes
            )
        kernels.finish_step[_WORKGROUP, _WORKGROUP](
            sums, squared, self._control, self._lost, self._clip, HALF=self._half
        )
        rounded = self._model.vector if self._rounds else None
        kernels.update[length // self._lanes, _WORKGROUP](
            Trained(self._master, rounded, self._state, numbers), self._gradient, step,
            self._control, RULE=self._rule, LANES=self._lanes,
        )  # fmt: skip
