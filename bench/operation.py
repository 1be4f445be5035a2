"""What an operation states so that the harness can verify, time and compare it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from portable.backend import Device
from portable.dtypes import DType, float16, float32, float64
from portable_bench.sizes import Size, parse_sizes

__all__ = [
    "Array",
    "Case",
    "Contender",
    "Effort",
    "Operation",
    "Run",
    "Size",
    "Sizes",
    "Verifier",
    "Work",
]

Array = np.ndarray[Any, Any]

Run = Callable[[], Any]
"""Does the work once and returns the result: an array, or a tuple of them."""

Verifier = Callable[[Any], float]
"""The worst error of a result, on the host, as a multiple of what is allowed; up to 1 is right."""

Effort = Literal["quick", "full", "sweep"]
"""A look at everything, a thorough one, and many sizes of which to see the trend."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """By kind of device ("cpu", "gpu", "simulator") the sizes to measure, for `parse_sizes`.

    What an effort leaves out it has in common with the lesser one.
    """

    quick: Mapping[str, str]
    full: Mapping[str, str] = field(default_factory=dict)
    sweep: Mapping[str, str] = field(default_factory=dict)

    def named(self, kind: str, effort: Effort) -> str | None:
        """Those for a kind of device; None where none are stated."""
        kind = "gpu" if kind == "accelerator" else kind
        steps = {"quick": [self.quick], "full": [self.full, self.quick]}
        tried = steps.get(effort, [self.sweep, self.full, self.quick])
        return next((step[kind] for step in tried if kind in step), None)


@dataclass(frozen=True, slots=True)
class Case:
    """One cell of the matrix: a problem on a device."""

    device: Device
    dtype: DType
    size: Size


@dataclass(frozen=True, slots=True)
class Work:
    """What a problem costs at least: floating-point operations, bytes of operands and result."""

    flops: float
    bytes: float


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to solve a case.

    Attributes
    ----------
    name : str
        As the report shows it.
    prepare : callable
        Given the inputs as arrays of `device`, makes what is to be timed.
    device : Device or None
        Whose arrays and events are used; None: NumPy's arrays and the host's clock.
    peer : bool
        Whether this is a library that ours are compared with.
    """

    name: str
    prepare: Callable[..., Run]
    device: Device | None
    peer: bool = False


class Operation(ABC):
    """An operation to measure; states facts and holds no timing.

    Attributes
    ----------
    name : str
        On the command line.
    dtypes : tuple of DType
        What it can be measured in.
    axes : tuple of str
        Names of the extents of a size.
    square : bool
        Whether one number stands for extents that are all the same.
    sizes : Sizes
        What to measure unless sizes are asked for.
    timed : {"run", "enqueue"}
        Whether the time of the work counts, or the host's share in starting it.
    in_place : bool
        Whether a run changes the last of its inputs instead of returning a result.
    """

    name: ClassVar[str]
    axes: ClassVar[tuple[str, ...]]
    square: ClassVar[bool] = False
    sizes: ClassVar[Sizes]
    dtypes: ClassVar[tuple[DType, ...]] = (float16, float32, float64)
    timed: ClassVar[Literal["run", "enqueue"]] = "run"
    in_place: ClassVar[bool] = False

    @abstractmethod
    def work(self, size: Size, dtype: DType) -> Work | None:
        """What the problem costs; None where that says nothing."""

    @abstractmethod
    def inputs(self, size: Size, dtype: DType) -> tuple[Array, ...]:
        """The problem, on the host; the same whenever it is asked for."""

    @abstractmethod
    def verifier(self, case: Case, *inputs: Array) -> Verifier:
        """What compares results with the right one."""

    @abstractmethod
    def contenders(self, case: Case) -> Sequence[Contender]:
        """Ours first, then the peers that exist for the case."""

    def ladder(self, case: Case) -> Sequence[Contender]:
        """The steps from the plainest solution to the fastest; empty where there is only one."""
        return ()

    def model(self, size: Size) -> dict[str, float]:
        """What a performance model counts, by name, each taking a time of its own; may be empty."""
        return {}

    def label(self, size: Size) -> str:
        """A size as the report shows it."""
        short = self.square and len(set(size)) == 1
        return str(size[0]) if short else "x".join(map(str, size))

    def parse(self, text: str) -> list[Size]:
        """Sizes from the command line.

        Raises
        ------
        ValueError
            Says what is expected.
        """
        return [self.complete(size) for size in parse_sizes(text)]

    def complete(self, size: Size) -> Size:
        """A size as typed with all its extents; ValueError unless there are as many as axes."""
        if self.square and len(size) == 1:
            return size * len(self.axes)
        if len(size) != len(self.axes):
            either = "N or " if self.square else ""
            raise ValueError(f"expected {either}{'x'.join(self.axes)}")
        return size

    def sizes_for(self, kind: str, effort: Effort) -> list[Size]:
        """What to measure on a kind of device."""
        found = self.sizes.named(kind, effort)
        return [] if found is None else self.parse(found)
