"""Batches on their way through all stages of a network, forward and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from portable.backend import Device
from portable.dtypes import DType
from portable.nn.layers import Shape
from portable.nn.stages.stage import Flow, Stage

__all__ = ["ForwardPass", "TrainingPass"]


class _Memory:
    """Vectors that a device's passes see as arrays of many shapes."""

    def __init__(self, device: Device, kind: DType, stages: Sequence[Stage], count: int) -> None:
        self._space = device.namespace()
        self._device = device
        self._kind = kind
        self.count = count
        size = max((stage.scratch(count) for stage in stages), default=0)
        self.scratch = device.empty((size,), kind.register)

    def vector(self, *shapes: Shape) -> Any:
        """Memory for a batch of samples of the largest of these shapes."""
        most = max((prod(shape) for shape in shapes), default=0)
        return self._device.empty((self.count * most,), self._kind)

    def seen(self, x: Any, shape: Shape) -> Any:
        """`x`, or the beginning of a vector, in another shape."""
        if tuple(x.shape) == shape:
            return x
        return self._space.reshape(x[: prod(shape)] if x.ndim == 1 else x, shape)


class ForwardPass:
    """Outputs for batches of so many samples, with two vectors of memory for all layers.

    Parameters
    ----------
    device, kind
        Of the network.
    stages : sequence of Stage
    count : int
        Samples, at least one.
    """

    def __init__(self, device: Device, kind: DType, stages: Sequence[Stage], count: int) -> None:
        self._stages = stages
        self._memory = _Memory(device, kind, stages, count)
        between = [stage.place.outputs for stage in stages]
        self._turns = [self._memory.vector(*between[i::2]) for i in (0, 1)]

    def __call__(self, x: Any, out: Any) -> None:
        """Enqueues all stages."""
        memory, count = self._memory, self._memory.count
        last = len(self._stages) - 1
        for i, stage in enumerate(self._stages):
            place = stage.place
            results = (count, *place.outputs)
            direct = i == last and tuple(out.shape) == results
            y = out if direct else memory.seen(self._turns[i % 2], results)
            stage.forward(memory.seen(x, (count, *place.inputs)), y, memory.scratch)
            x = y
        if x is not out:
            out[...] = memory.seen(x, tuple(out.shape))


class TrainingPass:
    """What flows forward and back when a network is trained.

    All that comes out of layers is kept until it was gone through again; slopes take two vectors
    of memory in turn.

    Parameters
    ----------
    device, kind
        Of the network.
    stages : sequence of Stage
    batch : int
        Samples at most.
    gradients : sequence of tuple of array
        Those of each layer.
    """

    def __init__(
        self,
        device: Device,
        kind: DType,
        stages: Sequence[Stage],
        batch: int,
        gradients: Sequence[tuple[Any, ...]],
    ) -> None:
        self._stages = stages
        self._gradients = gradients
        self._memory = _Memory(device, kind, stages, batch)
        self._first = next(i for i, stage in enumerate(stages) if stage.place.parameters)
        outputs = [stage.place.outputs for stage in stages]
        self._inputs = self._memory.vector(stages[0].place.inputs)
        self._values = [self._memory.vector(shape) for shape in outputs]
        self._slopes = [self._memory.vector(*outputs[i::2]) for i in (0, 1)]
        self._flows: dict[int, list[Flow]] = {}

    def inputs(self, count: int) -> Any:
        """Where to put so many samples, a row for each."""
        return self._matrix(self._inputs, count, self._stages[0].place.inputs)

    def outputs(self, count: int) -> tuple[Any, Any]:
        """Where the outputs are after `forward`, and the slopes for `backward`; rows of samples."""
        shape = self._stages[-1].place.outputs
        turn = (len(self._stages) - 1) % 2
        return (
            self._matrix(self._values[-1], count, shape),
            self._matrix(self._slopes[turn], count, shape),
        )

    def forward(self, count: int) -> None:
        """Enqueues all stages, for the inputs that are there."""
        for stage, flow in zip(self._stages, self._flow(count), strict=True):
            stage.forward(flow.x, flow.y, self._memory.scratch)

    def backward(self, count: int, done: Callable[[int], None]) -> None:
        """Enqueues the way back; `done` is told the index of each layer whose gradients are."""
        flows = self._flow(count)
        for i in reversed(range(self._first, len(self._stages))):
            stage = self._stages[i]
            index = stage.place.index
            stage.backward(flows[i], self._gradients[index], self._memory.scratch)
            done(index)

    def _flow(self, count: int) -> list[Flow]:
        if count not in self._flows:
            self._flows[count] = [self._flow_of(i, count) for i in range(len(self._stages))]
        return self._flows[count]

    def _flow_of(self, i: int, count: int) -> Flow:
        place, seen = self._stages[i].place, self._memory.seen
        inputs, outputs = (count, *place.inputs), (count, *place.outputs)
        x = self._values[i - 1] if i else self._inputs
        dx = seen(self._slopes[(i - 1) % 2], inputs) if i > self._first else None
        return Flow(
            seen(x, inputs), seen(self._values[i], outputs), seen(self._slopes[i % 2], outputs), dx
        )

    def _matrix(self, vector: Any, count: int, shape: Shape) -> Any:
        return self._memory.seen(vector, (count, prod(shape)))
