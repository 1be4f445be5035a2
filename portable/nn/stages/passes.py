"""Batches on their way through all stages of a network, forward and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from portable.backend import Device
from portable.dtypes import DType
from portable.nn.layers.layer import Flow, Shape
from portable.nn.stages.stage import Stage


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
        self.count = count
        self._memory = _Memory(device, kind, stages, count)
        between = [stage.place.outputs for stage in stages]
        self._turns = [self._memory.vector(*between[i::2]) for i in (0, 1)]

    def __call__(self, x: Any, out: Any) -> None:
        """Enqueues all stages."""
        memory, count = self._memory, self._memory.count
        last = len(self._stages) - 1
        for i, stage in enumerate(self._stages):
            at = stage.place
            results = (count, *at.outputs)
            direct = i == last and tuple(out.shape) == results
            y = out if direct else memory.seen(self._turns[i % 2], results)
            stage.forward(memory.seen(x, (count, *at.inputs)), y, memory.scratch)
            x = y
        if x is not out:
            out[...] = memory.seen(x, tuple(out.shape))


class Through:
    """What is kept between stages when they are gone through, there and back.

    All that comes out of stages is kept until it was gone through again; slopes take two vectors
    of memory in turn.

    Parameters
    ----------
    device, kind
        Of the network.
    stages : sequence of Stage
        One at least.
    batch : int
        Samples at most.
    """

    def __init__(self, device: Device, kind: DType, stages: Sequence[Stage], batch: int) -> None:
        self.batch = batch
        self._stages = stages
        self._memory = _Memory(device, kind, stages, batch)
        between = [stage.place.outputs for stage in stages[:-1]]
        self._values = [self._memory.vector(shape) for shape in between]
        self._slopes = [self._memory.vector(*between[i::2]) for i in (0, 1)]
        self._with_parameters = [bool(stage.place.parameters) for stage in stages]

    def forward(self, x: Any, y: Any) -> None:
        """Enqueues all stages, from samples to results."""
        last = len(self._stages) - 1
        for i, stage in enumerate(self._stages):
            came, goes = self._inputs(i, x), y if i == last else self._outputs(i, x.shape[0])
            stage.train(came, self._shaped(goes, x.shape[0], stage.place.outputs), self.scratch)

    def backward(
        self,
        flow: Flow,
        gradients: Sequence[Any],
        done: Callable[[int], None] = lambda index: None,
    ) -> None:
        """Enqueues the way back of a batch that went forward.

        Parameters
        ----------
        flow : Flow
            Of all stages together.
        gradients : sequence of array
            Those of all stages' parameters in order.
        done : callable
            Called with the index of each layer whose gradients are.
        """
        if flow.dx is None and not any(self._with_parameters):
            return
        first = 0 if flow.dx is not None else self._with_parameters.index(True)
        end = len(gradients)
        for i in reversed(range(first, len(self._stages))):
            stage = self._stages[i]
            start = end - len(stage.place.parameters)
            stage.backward(self._flow(i, first, flow), tuple(gradients[start:end]), self.scratch)
            end = start
            done(stage.place.index)

    @property
    def scratch(self) -> Any:
        """Memory that stages use in turn."""
        return self._memory.scratch

    def _flow(self, i: int, first: int, flow: Flow) -> Flow:
        """Of one stage."""
        stage, count = self._stages[i], flow.x.shape[0]
        inputs, outputs = stage.place.inputs, stage.place.outputs
        last = i == len(self._stages) - 1
        y = flow.y if last else self._values[i]
        dy = flow.dy if last else self._slopes[i % 2]
        dx = flow.dx if i == 0 else self._slopes[(i - 1) % 2] if i > first else None
        return Flow(
            self._inputs(i, flow.x),
            self._shaped(y, count, outputs),
            self._shaped(dy, count, outputs),
            None if dx is None else self._shaped(dx, count, inputs),
        )

    def _inputs(self, i: int, x: Any) -> Any:
        came = self._values[i - 1] if i else x
        return self._shaped(came, x.shape[0], self._stages[i].place.inputs)

    def _outputs(self, i: int, count: int) -> Any:
        return self._shaped(self._values[i], count, self._stages[i].place.outputs)

    def _shaped(self, x: Any, count: int, shape: Shape) -> Any:
        return self._memory.seen(x, (count, *shape))


class TrainingPass:
    """What flows forward and back when a network is trained.

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
        self._through = Through(device, kind, stages, batch)
        self._gradients = [part for layer in gradients for part in layer]
        self._ends = stages[0].place.inputs, stages[-1].place.outputs
        self._memory = _Memory(device, kind, (), batch)
        self._inputs = self._memory.vector(self._ends[0])
        self._results = self._memory.vector(self._ends[1])
        self._slopes = self._memory.vector(self._ends[1])
        self._flows: dict[int, Flow] = {}

    def inputs(self, count: int) -> Any:
        """Where to put so many samples, a row for each."""
        return self._matrix(self._inputs, count, self._ends[0])

    def outputs(self, count: int) -> tuple[Any, Any]:
        """Where the outputs are after `forward`, and the slopes for `backward`; rows of samples."""
        shape = self._ends[1]
        return self._matrix(self._results, count, shape), self._matrix(self._slopes, count, shape)

    def forward(self, count: int) -> None:
        """Enqueues all stages, for the inputs that are there."""
        flow = self._flow(count)
        self._through.forward(flow.x, flow.y)

    def backward(self, count: int, done: Callable[[int], None]) -> None:
        """Enqueues the way back; `done` gets the index of each layer whose gradients are there."""
        self._through.backward(self._flow(count), self._gradients, done)

    def _flow(self, count: int) -> Flow:
        if count not in self._flows:
            seen, (inputs, outputs) = self._memory.seen, self._ends
            results = (count, *outputs)
            self._flows[count] = Flow(
                seen(self._inputs, (count, *inputs)),
                seen(self._results, results),
                seen(self._slopes, results),
                None,
            )
        return self._flows[count]

    def _matrix(self, vector: Any, count: int, shape: Shape) -> Any:
        return self._memory.seen(vector, (count, prod(shape)))
