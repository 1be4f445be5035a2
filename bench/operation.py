"""What an operation states so that the harness can verify, time and compare it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from portable.backend import Capabilities, Device
from portable.dtypes import DType

__all__ = ["Case", "Contender", "Operation", "Size", "Task", "Work"]

Size = tuple[int, ...]
"""The extents of a problem; what they mean is the operation's business."""


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
class Task:
    """What is timed.

    Attributes
    ----------
    run : callable
        Does the work once.
    result : array or None
        Where the result is after a run; None if `run` returns it.
    """

    run: Callable[[], Any]
    result: Any = None


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to solve a case.

    Attributes
    ----------
    name : str
        As the report shows it.
    make : callable
        Makes the arrays and says what is to be timed.
    device : Device or None
        Whose clock counts and who copies the result to the host; None: plain NumPy.
    peer : bool
        Whether this is a library that ours are compared with.
    """

    name: str
    make: Callable[[], Task]
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
    timed : {"run", "enqueue"}
        Whether the time of the work counts, or the host's share in starting it.
    """

    name: ClassVar[str]
    dtypes: ClassVar[tuple[DType, ...]]
    timed: ClassVar[Literal["run", "enqueue"]] = "run"

    @abstractmethod
    def sizes(self, capabilities: Capabilities) -> Sequence[Size]:
        """What a quick run measures on such a device."""

    @abstractmethod
    def parse_size(self, text: str) -> Size:
        """A size from the command line; ValueError says what is expected."""

    @abstractmethod
    def work(self, size: Size, dtype: DType) -> Work | None:
        """What the problem costs; None where that says nothing."""

    @abstractmethod
    def contenders(self, case: Case) -> Sequence[Contender]:
        """Ours first, then the peers that exist for the case."""

    def ladder(self, case: Case) -> Sequence[Contender]:
        """The steps from the plainest solution to the fastest; empty where there is only one."""
        return ()

    @abstractmethod
    def error(self, case: Case, result: np.ndarray[Any, Any]) -> float:
        """The worst error of a result as a multiple of what is allowed; up to 1 is right."""

    def label(self, size: Size) -> str:
        """A size as the report shows it."""
        return "x".join(map(str, size))
