"""How convolutions get faster with the members of a group, beside what collectives alone cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any, Final, Literal

import numpy as np

from portable.backend import Device
from portable.conv import conv2d, prepare, prepare_shared
from portable.dtypes import DType
from portable.errors import PortableError
from portable.nn import MLP, SGD, mse
from portable.nn.layered import LayeredTrainer
from portable.nn.optimizers import Step
from portable.nn.team import Team, Together
from portable.parallel import Group, Member
from portable_bench.operation import parse_sizes

Scaling = Literal["strong", "weak"]

_ROUNDS: Final = 5
_REPEATS: Final = 4
"""Runs of a round, which begin and end together: a run by itself shows how late members are."""

_LOST: Final = 1 / 5
"""Of what goes on beside something else: measured on two H200 that write by copy engines."""

_IMAGES: Final = 4
"""Images that differ."""

_ALLOWED: Final = {"float16": 2e-3, "float32": 2e-5, "float64": 1e-13}
"""Differences relative to ``|w| * |x|``."""


@dataclass(frozen=True, slots=True)
class Layer:
    """N images of C x H x W with K filters of 3 x 3."""

    c: int
    h: int
    w: int
    k: int
    n: int

    def images(self, members: int, scaling: str) -> int:
        """Images of each member."""
        return self.n if scaling == "weak" else max(1, self.n // members)


_SIZES: Final = (
    "3x112x112x64x64,32x112x112x64x64,64x112x112x64x64,64x112x112x128x64,128x112x112x128x64,"
    "128x50x50x256x64,256x50x50x256x64,256x50x50x512x64,512x50x50x512x64,512x16x16x2048x64,"
    "3x100x100x32x128,32x100x100x64x128,64x50x50x64x128,64x50x50x128x128,128x20x26x96x128,"
    "96x12x12x192x128,192x12x12x256x128,256x8x8x512x128"
)
LAYERS: Final = tuple(Layer(*size) for size in parse_sizes(_SIZES))
"""Layers of common networks, as benchmarks of Winograd's method have them."""


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of one group.

    Attributes
    ----------
    members : int
    scaling : {"strong", "weak"}
        Whether the images are shared out, or each member has as many as one alone.
    own : float
        Seconds for all layers, results kept apart.
    gathered : float
        The same with every member getting all results.
    collectives : float
        Seconds that the gathers take by themselves.
    predicted : float
        Seconds with the gather, by a model that knows the others' parts alone.
    """

    members: int
    scaling: Scaling
    own: float
    gathered: float
    collectives: float
    predicted: float


def one_after_the_other(works: Sequence[float], gathers: Sequence[float]) -> float:
    """Seconds until all is gathered, where a result is on its way while the next is worked out.

    Gathers go on one after the other, each from when its result is there. What goes on side by side
    shares the memory and the units: `_LOST` of the shorter is added.
    """
    worked = gathered = 0.0
    for work, gather in zip(works, gathers, strict=True):
        worked += work
        gathered = max(gathered, worked) + gather
    beside = worked + sum(gathers) - gathered
    return gathered + _LOST * beside


def measure(
    groups: Sequence[Group], layers: Sequence[Layer], dtype: DType, algorithm: Any = "auto"
) -> Iterator[Row]:
    """A row for each group and each way to scale; results are verified first.

    Parameters
    ----------
    groups : sequence of Group
        The first has one member.
    layers : sequence of Layer
    dtype : DType
    algorithm : str
        As `portable.conv.conv2d` takes it.

    Raises
    ------
    PortableError
        If a result is wrong.
    """
    return _rows(groups, partial(_row, layers=layers, dtype=dtype, algorithm=algorithm))


def _rows(groups: Sequence[Group], row: Callable[..., Row]) -> Iterator[Row]:
    """A row for each group and each way to scale, by what each member does."""
    for group in groups:
        ways: tuple[Scaling, ...] = ("strong", "weak") if group.size > 1 else ("strong",)
        for scaling in ways:
            yield group.run(partial(row, scaling=scaling))[0]


def _row(
    member: Member, layers: Sequence[Layer], dtype: DType, algorithm: Any, scaling: Scaling
) -> Row:
    """What a member finds of its group."""
    settings = {"algorithm": algorithm, "layout": "NHWC" if dtype.itemsize == 2 else "NCHW"}
    _compile_in_parallel(member, layers, dtype, settings, scaling)
    jobs = [_Job(member, layer, dtype, settings, scaling) for layer in layers]
    for job in jobs:
        job.verify()
    median_here = slowest_median(member, _all([job.work for job in jobs]))
    if member.size == 1:
        return Row(1, scaling, median_here, median_here, 0.0, median_here)
    together = slowest_median(member, member.replay(partial(_gather_behind, jobs)))
    gathers = [slowest_median(member, member.replay(job.gather)) for job in jobs]
    works = [slowest_median(member, job.work) for job in jobs]
    share = median_here / sum(works)  # in a row they wait for nobody
    predicted = one_after_the_other([work * share for work in works], gathers)
    return Row(member.size, scaling, median_here, together, sum(gathers), predicted)


def _compile_in_parallel(
    member: Member, layers: Sequence[Layer], dtype: DType, settings: dict[str, Any], scaling: str
) -> None:
    """Each member compiles for some layers; the others then find programs on the disk."""
    device = member.device
    for layer in layers[member.rank :: member.size]:
        x = _images(member, layer, layer.images(member.size, scaling), dtype, settings["layout"])
        prepare(x.shape, device.from_numpy(_filters(layer, dtype)), **settings)(x)
    member.barrier()


class _Job:
    """One layer of a member: images, filters and results, and what works them out.

    Attributes
    ----------
    work : callable
        Enqueues this member's own results.
    """

    def __init__(
        self,
        member: Member,
        layer: Layer,
        dtype: DType,
        settings: dict[str, Any],
        scaling: str,
    ) -> None:
        self._member, self._layer, self._dtype, self._settings = member, layer, dtype, settings
        self._count = layer.images(member.size, scaling)
        self._x = _images(member, layer, self._count, dtype, settings["layout"])
        self._w = member.device.from_numpy(_filters(layer, dtype))
        plan = prepare_shared(member, self._x.shape, self._w, pieces=1, **settings)
        self._out = member.device.empty(plan.result_shape, dtype)
        self._gathered = plan.prepare(self._x, out=self._out)
        apart = prepare(self._x.shape, self._w, **settings)
        places = [self._part(rank) for rank in range(member.size)]
        device = places[member.rank]
        self.work: Final = member.device.replay(partial(apart, self._x, out=device))
        self._start_gather = member.prepare_gather(device, places)

    def _part(self, rank: int) -> Any:
        return self._out[rank * self._count : (rank + 1) * self._count]

    def start(self) -> Any:
        """Enqueues the results, and begins to gather them."""
        return self._gathered.start()

    def gather(self) -> None:
        """Enqueues the gather alone."""
        self._start_gather().wait()

    def verify(self) -> None:
        """The first image of each member, as this one works it out directly.

        In single precision at least, whose kernels are the same for all shapes.
        """
        device, layer, layout = self._member.device, self._layer, self._settings["layout"]
        kind = self._dtype.register
        w = device.from_numpy(_filters(layer, self._dtype).astype(kind.numpy))
        self.start().wait()
        most = _ALLOWED[self._dtype.name] * 9 * layer.c
        for rank in range(self._member.size):
            x = _few_images(layer, 1, rank, self._dtype, layout).astype(kind.numpy)
            result = conv2d(device.from_numpy(x), w, algorithm="direct", layout=layout)
            result_here, expected = device.to_numpy(self._part(rank)[:1]), device.to_numpy(result)
            if not np.abs(result_here.astype(float) - expected.astype(float)).max() <= most:
                raise PortableError(
                    f"member {self._member.rank}: {layer}: the images of member {rank} are wrong"
                )


def _all(works: Sequence[Callable[[], object]]) -> Callable[[], None]:
    def run() -> None:
        for work in works:
            work()

    return run


def _gather_behind(jobs: Sequence[_Job]) -> None:
    """All layers, whose results are gathered while the next ones are worked out."""
    for transfer in [job.start() for job in jobs]:
        transfer.wait()


def slowest_median(member: Member, run: Callable[[], object]) -> float:
    """Seconds of a run: the median of rounds, each as long as its slowest member."""
    for _ in range(2):  # the second may become a graph
        run()
    rounds = []
    for _ in range(_ROUNDS):
        member.barrier()
        start = perf_counter()
        for _ in range(_REPEATS):
            run()
        member.device.synchronize()
        rounds.append(max(member.exchange(perf_counter() - start)))
    return float(median(rounds)) / _REPEATS


def _images(member: Member, layer: Layer, count: int, dtype: DType, layout: str) -> Any:
    """A few random ones over and over, which the device repeats: threads share the host."""
    few = member.device.from_numpy(_few_images(layer, count, member.rank, dtype, layout))
    x = member.device.empty((count, *few.shape[1:]), dtype)
    for start in range(0, count, few.shape[0]):
        part = x[start : start + few.shape[0]]
        part[...] = few[: part.shape[0]]
    return x


def _few_images(layer: Layer, count: int, rank: int, dtype: DType, layout: str) -> Any:
    random = np.random.default_rng(rank)
    sides = (layer.c, layer.h, layer.w) if layout == "NCHW" else (layer.h, layer.w, layer.c)
    shape = (min(count, _IMAGES), *sides)
    return random.standard_normal(shape, np.float32).astype(dtype.numpy)


def _filters(layer: Layer, dtype: DType) -> Any:
    random = np.random.default_rng(99)
    return random.standard_normal((layer.k, layer.c, 3, 3), np.float32).astype(dtype.numpy)


# How the training of a network gets faster with the members of a group.

_RATE: Final = 0.1
_FEW_SAMPLES: Final = 1000
"""Samples that differ; members' shares begin with others."""

_PARAMETERS_ALLOWED: Final = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-12}
"""How far parameters may be from those of one device after a step, by other orders of sums."""


@dataclass(frozen=True, slots=True)
class Network:
    """A perceptron of these widths, and the samples of a step."""

    widths: tuple[int, ...] = (1024, 4096, 1024)
    batch: int = 8192

    def samples(self, members: int, scaling: Scaling) -> int:
        """Those of a step of so many members."""
        return self.batch * members if scaling == "weak" else self.batch


def predicted(seconds: float, collectives: float) -> float:
    """Seconds for a step with its sums, from what either takes alone, for two layers alike.

    Of the five products of a step, one (the first layer's weights) is still to come when the
    second layer's gradients, half of all, begin to be summed. The other half comes last.
    """
    half = collectives / 2
    return seconds + max(0.0, half - seconds / 5) + half


class _Isolated(Together):
    """Members that share batches out and keep their gradients to themselves."""

    def ready(self, gradient: Any, start: int) -> None:
        """Nobody waits for it."""

    def finish(self, gradient: Any) -> None:
        """It stays as it is."""


def measure_training(groups: Sequence[Group], network: Network, dtype: DType) -> Iterator[Row]:
    """A row for each group and each way to scale; a step is verified first.

    `own` is a step without sums of gradients, `gathered` one with them, and `collectives` are the
    sums alone.

    Parameters
    ----------
    groups : sequence of Group
        The first has one member.
    network : Network
    dtype : DType

    Raises
    ------
    PortableError
        If members come to other parameters than one alone.
    """
    return _rows(groups, partial(_training_row, network=network, dtype=dtype))


def _training_row(member: Member, network: Network, dtype: DType, scaling: Scaling) -> Row:
    """What a member finds of its group."""
    count = network.samples(member.size, scaling)
    if scaling == "strong":
        _verify(member, network, dtype)
    apart, _ = _trainer(member, network, dtype, count, _Isolated(member))
    median = slowest_median(member, apart)
    if member.size == 1:
        return Row(1, scaling, median, median, 0.0, median)
    step, model = _trainer(member, network, dtype, count, Together(member))
    together = slowest_median(member, step)
    sums = slowest_median(member, member.replay(_sums(member, model)))
    return Row(member.size, scaling, median, together, sums, predicted(median, sums))


def _sums(member: Member, model: MLP) -> Callable[[], None]:
    """What enqueues the sums of a step alone."""
    gradient = member.device.empty(tuple(model.vector.shape), model.dtype)
    gradient[...] = 0
    starts = [parts[0].start for parts in reversed(model.layout.layers) if parts]
    team = Together(member)

    def run() -> None:
        for start in starts:
            team.ready(gradient, start)
        team.finish(gradient)

    return run


def _trainer(
    member: Member, network: Network, dtype: DType, count: int, team: Team
) -> tuple[Callable[[], object], MLP]:
    """What takes a step, and the network that it is taken by."""
    device = member.device
    model = MLP(network.widths, dtype=dtype, device=device)
    x, y = (_samples(device, count, network.widths[end], dtype) for end in (0, -1))
    trainer = LayeredTrainer(model, Step(mse, SGD(_RATE), count), team)
    order = device.from_numpy(np.arange(count, dtype=np.int32)[None])
    numbers = device.from_numpy(SGD(_RATE).numbers(1, [_RATE]).astype(dtype.register.numpy))
    return trainer.prepare(x, y, order, numbers), model


def _samples(device: Device, count: int, width: int, dtype: DType) -> Any:
    """Some random ones over and over, which the device repeats."""
    few = (
        np.random.default_rng(width).standard_normal((min(count, _FEW_SAMPLES), width), np.float32)
        / 8
    )
    held = device.from_numpy(few.astype(dtype.numpy))
    samples = device.empty((count, width), dtype)
    for start in range(0, count, _FEW_SAMPLES):
        part = samples[start : start + _FEW_SAMPLES]
        part[...] = held[: part.shape[0]]
    return samples


def _verify(member: Member, network: Network, dtype: DType) -> None:
    """A step of all against one of this member alone."""
    rows = []
    for team in (Team(), Together(member)):
        step, model = _trainer(member, network, dtype, network.batch, team)
        step()
        rows.append(member.device.to_numpy(model.vector).astype(float))
    error = float(np.abs(rows[0] - rows[1]).max())
    if not error <= _PARAMETERS_ALLOWED[dtype.name]:
        raise PortableError(
            f"member {member.rank}: parameters are {error:.2g} from those of one device"
        )
