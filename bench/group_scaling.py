"""How convolutions get faster with the members of a group, beside what collectives alone cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any, Final, Literal

import numpy as np

from portable.conv import conv2d, prepare_shared
from portable.dtypes import DType
from portable.errors import PortableError
from portable.parallel import Group, Member

__all__ = ["LAYERS", "Layer", "Row", "Scaling", "as_json", "measure", "slowest_median"]

Scaling = Literal["strong", "weak"]

_ROUNDS: Final = 5
_PIECES: Final = 4
_FEW: Final = 4
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


LAYERS: Final = tuple(
    Layer(*row)
    for row in (
        (3, 112, 112, 64, 64),
        (32, 112, 112, 64, 64),
        (64, 112, 112, 64, 64),
        (64, 112, 112, 128, 64),
        (128, 112, 112, 128, 64),
        (128, 50, 50, 256, 64),
        (256, 50, 50, 256, 64),
        (256, 50, 50, 512, 64),
        (512, 50, 50, 512, 64),
        (512, 16, 16, 2048, 64),
        (3, 100, 100, 32, 128),
        (32, 100, 100, 64, 128),
        (64, 50, 50, 64, 128),
        (64, 50, 50, 128, 128),
        (128, 20, 26, 96, 128),
        (96, 12, 12, 192, 128),
        (192, 12, 12, 256, 128),
        (256, 8, 8, 512, 128),
    )
)
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
    """

    members: int
    scaling: Scaling
    own: float
    gathered: float
    collectives: float

    @property
    def predicted(self) -> float:
        """Seconds with the gather, from the other two: but for a piece they go on side by side."""
        longer, shorter = max(self.own, self.collectives), min(self.own, self.collectives)
        return longer + shorter / _PIECES


def measure(
    groups: Sequence[Group], layers: Sequence[Layer], dtype: DType, algorithm: Any = "auto"
) -> Iterator[Row]:
    """A row for each group and each way to scale; results are verified first.

    Raises
    ------
    PortableError
        If a result is wrong.
    """
    for group in groups:
        ways: tuple[Scaling, ...] = ("strong", "weak")
        for scaling in ways if group.size > 1 else ways[:1]:
            found = group.run(_layers, layers, dtype, algorithm, scaling)
            own, gathered, collectives = found[0]
            yield Row(group.size, scaling, own, gathered, collectives)


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows as plain data, with what was predicted."""
    return [{**asdict(row), "predicted": row.predicted} for row in rows]


def _layers(
    member: Member, layers: Sequence[Layer], dtype: DType, algorithm: Any, scaling: str
) -> tuple[float, float, float]:
    """Seconds for all layers, of the slowest member."""
    totals = np.zeros(3)
    for layer in layers:
        totals += _layer(member, layer, dtype, algorithm, scaling)
    return float(totals[0]), float(totals[1]), float(totals[2])


def _layer(member: Member, layer: Layer, dtype: DType, algorithm: Any, scaling: str) -> Any:
    images = layer.images(member.size, scaling)
    x = _images(member, layer, images, dtype)
    w = member.device.from_numpy(_filters(layer, dtype))
    seconds: list[float] = []
    for gather in (False, True):
        plan = prepare_shared(
            member, x.shape, w, pieces=_PIECES, gather=gather, algorithm=algorithm
        )
        out = plan(x)
        if gather:
            _verify(member, layer, images, w, out, dtype)
        seconds.append(slowest_median(member, partial(plan, x, out=out)))
    own = out[member.rank * images : (member.rank + 1) * images]
    places = [out[r * images : (r + 1) * images] for r in range(member.size)]
    alone = slowest_median(member, lambda: member.start_gather(own, places).wait())
    return np.array([*seconds, alone if member.size > 1 else 0.0])


def slowest_median(member: Member, run: Callable[[], Any]) -> float:
    """Seconds: the median of rounds, each as long as its slowest member."""
    run()
    rounds = []
    for _ in range(_ROUNDS):
        member.barrier()
        start = perf_counter()
        run()
        member.device.synchronize()
        rounds.append(max(member.exchange(perf_counter() - start)))
    return float(median(rounds))


def _images(member: Member, layer: Layer, count: int, dtype: DType) -> Any:
    """A few random ones over and over, which the device repeats: threads share the host."""
    few = member.device.from_numpy(_few_images(layer, count, member.rank, dtype))
    x = member.device.empty((count, *few.shape[1:]), dtype)
    for start in range(0, count, few.shape[0]):
        part = x[start : start + few.shape[0]]
        part[...] = few[: part.shape[0]]
    return x


def _few_images(layer: Layer, count: int, rank: int, dtype: DType) -> Any:
    random = np.random.default_rng(rank)
    shape = (min(count, _FEW), layer.c, layer.h, layer.w)
    return random.standard_normal(shape, np.float32).astype(dtype.numpy)


def _filters(layer: Layer, dtype: DType) -> Any:
    random = np.random.default_rng(99)
    return random.standard_normal((layer.k, layer.c, 3, 3), np.float32).astype(dtype.numpy)


def _verify(member: Member, layer: Layer, images: int, w: Any, out: Any, dtype: DType) -> None:
    """The first image of each member, as this one works it out by itself."""
    device = member.device
    for rank in range(member.size):
        x = device.from_numpy(_few_images(layer, 1, rank, dtype))
        expected = device.to_numpy(conv2d(x, w, algorithm="direct")).astype(float)
        found = device.to_numpy(out[rank * images : rank * images + 1]).astype(float)
        most = _ALLOWED[dtype.name] * 9 * layer.c
        if not np.abs(found - expected).max() <= most:
            raise PortableError(f"member {member.rank}: the images of member {rank} are wrong")
