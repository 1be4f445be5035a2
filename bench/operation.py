"""What an operation states so that the harness can verify, time and compare it."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np

from portable.backend import Device
from portable.dtypes import DType, float16, float32, float64
from portable.tune.search import worst_error

# Sizes of problems as they are typed: numbers, products and ranges.

Size = tuple[int, ...]
"""The extents of a problem; what they mean is the operation's business."""

_EXTENT = re.compile(r"(?P<first>[1-9]\d*)(\.\.(?P<last>[1-9]\d*)(\+(?P<step>[1-9]\d*))?)?")


def parse_sizes(text: str) -> list[Size]:
    """The sizes that a text names.

    Parameters
    ----------
    text : str
        Sizes separated by commas; a size is extents separated by ``x``; an extent is a number, a
        range that doubles (``256..4096``) or one with a step (``256..1024+256``).

    Raises
    ------
    ValueError
        For anything else.

    Examples
    --------
    >>> parse_sizes("512, 1024..4096x32")
    [(512,), (1024, 32), (2048, 32), (4096, 32)]
    """
    return [size for part in text.split(",") for size in _product(part.strip())]


def _product(text: str) -> list[Size]:
    return list(product(*(_extents(part) for part in text.split("x"))))


def _extents(text: str) -> list[int]:
    match = _EXTENT.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text!r} is no positive number, nor a range such as 256..4096 or 256..1024+256"
        )
    first = int(match["first"])
    last = int(match["last"] or first)
    if last < first:
        raise ValueError(f"the range {text} is empty")
    if match["step"]:
        return list(range(first, last + 1, int(match["step"])))
    return [first << i for i in range((last // first).bit_length())]


# -- operation -------------------------------------------------------------------------------------

Array = np.ndarray[Any, Any]
Shapes = Sequence[tuple[int, ...]]

Run = Callable[[], Any]
"""Does the work once and returns the result: an array, or a tuple of them."""

Prepare = Callable[..., Run]
"""Given the inputs, makes what is to be timed."""

Ways = Mapping[str, Prepare]
"""Several by name."""

Verifier = Callable[[Any], float]
"""The worst error of a result, on the host, as a multiple of what is allowed; up to 1 is right."""

Effort = Literal["quick", "full", "sweep"]
"""A look at everything, a thorough one, and many sizes of which to see the trend."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What to measure on one kind of device, for `parse_sizes`.

    What an effort leaves out it has in common with the lesser one.
    """

    quick: str
    full: str = ""
    sweep: str = ""

    def named(self, effort: Effort) -> str:
        """Those of an effort."""
        full = self.full or self.quick
        return {"quick": self.quick, "full": full, "sweep": self.sweep or full}[effort]


@dataclass(frozen=True, slots=True)
class Case:
    """One cell of the matrix: a problem on a device."""

    device: Device
    dtype: DType
    size: Size

    def bytes(self, elements: float) -> float:
        """How many so many elements take."""
        return float(elements * self.dtype.itemsize)

    def empty(self, *shape: int) -> Any:
        """An array of the device with undefined contents."""
        return self.device.empty(shape, self.dtype)


@dataclass(frozen=True, slots=True)
class Work:
    """What a problem costs at least: operations, and bytes of operands and result.

    Operations are floating-point ones; over GF(2) additions of words of bits.
    """

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
    prepare: Prepare
    device: Device | None
    peer: bool = False


class Operation(ABC):
    """An operation to measure; states facts and holds no timing.

    It must have the attributes without a value here, `work` and `prepare`, and says what is right
    by `exact` or by a `verifier` of its own. All else has a default. A problem depends on the type
    and the size of a case alone, so that devices can take turns at the same one.

    Attributes
    ----------
    name : str
        On the command line.
    axes : tuple of str
        Names of the extents of a size.
    sizes : dict
        What to measure unless sizes are asked for, by kind of device: "cpu", "gpu", "simulator".
    square : bool
        Whether one number stands for extents that are all the same.
    unit : str
        What a size counts, where that is not elements.
    dtypes : tuple of DType
        What it is measured in.
    further : tuple of DType
        And what else where that is named.
    ulps : float
        Error allowed by `exact`, in units of the last place of the result, of 1 for smaller ones.
    timed : {"run", "enqueue"}
        Whether the time of the work counts, or the host's share in starting it.
    in_place : bool
        Whether a run changes the last of its inputs instead of returning a result.
    brief : bool
        Whether a look at everything includes it.
    roof : str
        The operation that measures how fast its operations can be.
    """

    name: str
    axes: ClassVar[tuple[str, ...]]
    sizes: ClassVar[Mapping[str, Sizes]]
    square: ClassVar[bool] = False
    unit: ClassVar[str] = ""
    dtypes: ClassVar[tuple[DType, ...]] = (float16, float32, float64)
    further: ClassVar[tuple[DType, ...]] = ()
    ulps: float = 0.0
    timed: ClassVar[Literal["run", "enqueue"]] = "run"
    in_place: ClassVar[bool] = False
    brief: bool = True
    roof: ClassVar[str] = "fma"

    @property
    def all_dtypes(self) -> tuple[DType, ...]:
        """What it can be measured in."""
        return (*self.dtypes, *self.further)

    # -- the problem --------------------------------------------------------------------------

    def shapes(self, size: Size) -> Shapes:
        """Of the inputs: by default one array whose extents are the size."""
        return (size,)

    @abstractmethod
    def work(self, case: Case) -> Work | None:
        """What the problem costs; None where that says nothing."""

    def model(self, size: Size) -> dict[str, float]:
        """What a performance model counts, by name, each taking a time of its own; may be empty."""
        return {}

    def inputs(self, case: Case) -> tuple[Array, ...]:
        """The problem, on the host, the same whenever it is asked for: of normal distribution."""
        random = np.random.default_rng(1)
        shapes = self.shapes(case.size)
        return tuple(random.standard_normal(shape).astype(case.dtype.numpy) for shape in shapes)

    def exact(self, *inputs: Any) -> Any:
        """The right result, in double precision where it is rounded."""
        raise NotImplementedError(f"{type(self).__name__} has neither `exact` nor `verifier`")

    def verifier(self, case: Case, *inputs: Any) -> Verifier:
        """What compares results with the right one."""
        exact = self.exact(*inputs)
        ulp = float(np.finfo(case.dtype.numpy).eps)
        allowed = self.ulps * ulp * np.maximum(1, np.abs(exact)) if self.ulps else 0.0
        return lambda result: worst_error(result, exact, allowed)

    # -- who solves it ------------------------------------------------------------------------

    @abstractmethod
    def prepare(self, case: Case, *inputs: Any) -> Run:
        """Ours, given arrays of the device."""

    def ways(self, case: Case) -> Ways:
        """Ours by name, where there are several."""
        return {"portable": partial(self.prepare, case)}

    def ladder(self, case: Case) -> Ways:
        """The steps from the plainest of ours to the fastest; empty where there is only one."""
        return {}

    def peers(self, case: Case) -> Sequence[Contender]:
        """Libraries to compare with, those that exist for the case; see `portable_bench.peers`."""
        return ()

    def contenders(self, case: Case, *, ladder: bool = False) -> list[Contender]:
        """Ours first, then the peers."""
        ways = self.ladder(case) if ladder else self.ways(case)
        ours = [Contender(name, prepare, case.device) for name, prepare in ways.items()]
        return [*ours, *self.peers(case)]

    def missing(self, device: Device) -> str:
        """Why it does not exist for a device; empty where it does."""
        return ""

    # -- sizes --------------------------------------------------------------------------------

    def label(self, size: Size) -> str:
        """A size as the report shows it."""
        short = self.square and len(set(size)) == 1
        extents = size[:1] if short else size
        return " ".join(filter(None, ("x".join(map(str, extents)), self.unit)))

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
        sizes = self.sizes.get("gpu" if kind == "accelerator" else kind)
        return [] if sizes is None else self.parse(sizes.named(effort))
