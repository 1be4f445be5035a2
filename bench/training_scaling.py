"""How the training of a network gets faster with the members of a group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from portable.backend import Device
from portable.dtypes import DType
from portable.errors import PortableError
from portable.nn import MLP, SGD, mse
from portable.nn.layered import LayeredTrainer
from portable.nn.step import Step
from portable.nn.team import Team, Together
from portable.parallel import Group, Member
from portable_bench.group_scaling import Row, Scaling, slowest_median

_RATE: Final = 0.1
_FEW: Final = 1000
"""Samples that differ; members' shares begin with others."""

_ALLOWED: Final = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-12}
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


class _Apart(Together):
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
    for group in groups:
        ways: tuple[Scaling, ...] = ("strong", "weak") if group.size > 1 else ("strong",)
        for scaling in ways:
            yield group.run(_row, network, dtype, scaling)[0]


def _row(member: Member, network: Network, dtype: DType, scaling: Scaling) -> Row:
    """What a member finds of its group."""
    count = network.samples(member.size, scaling)
    if scaling == "strong":
        _verify(member, network, dtype)
    apart, _ = _trainer(member, network, dtype, count, _Apart(member))
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
    few = np.random.default_rng(width).standard_normal((min(count, _FEW), width), np.float32) / 8
    held = device.from_numpy(few.astype(dtype.numpy))
    samples = device.empty((count, width), dtype)
    for start in range(0, count, _FEW):
        part = samples[start : start + _FEW]
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
    if not error <= _ALLOWED[dtype.name]:
        raise PortableError(
            f"member {member.rank}: parameters are {error:.2g} from those of one device"
        )
