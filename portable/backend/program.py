"""What the kernel language generates and devices compile: programs and their arguments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal

from portable.backend.capabilities import Fault
from portable.dtypes import DType
from portable.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class Box:
    """A part of an array that a copy engine moves as a whole.

    Attributes
    ----------
    dims : tuple of int
        The array's dimensions, the contiguous one first.
    extents : tuple of int
        The elements taken along each of `dims`.
    swizzle : int
        In local memory: as of `portable.lang.ir.types.Layout`.
    """

    dims: tuple[int, ...]
    extents: tuple[int, ...]
    swizzle: int


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a generated program, in order.

    Attributes
    ----------
    kind : {"size", "pointer", "offset", "extent", "stride", "box", "scalar"}
        The ndrange along `dim`, where it ends within the last workgroup; the memory of array
        parameter `parameter`; the offset of its first element in elements
        (``int64``; only for devices that pass buffers with offsets); its extent or stride in
        elements along `dim`; its description for copies of a `box` of it (only for devices with
        ``"tensor"`` copies); or scalar parameter `parameter`.
    parameter : int
        Index into the kernel's parameters; -1 for "size", which comes first.
    dim : int
        For "size", "extent" and "stride".
    type : DType
        The type by which it is passed (for "pointer" and "box" the element type in memory).
    box : Box or None
        For "box".
    """

    kind: Literal["size", "pointer", "offset", "extent", "stride", "box", "scalar"]
    parameter: int
    dim: int
    type: DType
    box: Box | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """What the kernel language generates and a device compiles.

    Attributes
    ----------
    source : str
        The generated text.
    entry : str
        The kernel's name in it.
    dialect : str
        ``"opencl"``, ``"cuda"``, ``"hip"`` or ``"llvm"``.
    arguments : tuple of Argument
        What to pass, in order; only what the text uses, and every pointer.
    workgroup : (int, int, int)
        The local size that it was generated for.
    local_bytes : int
        Bytes of local memory; in CUDA and HIP passed as dynamic shared memory when `dynamic_local`;
        in LLVM's text of the room of a thread, which also holds long private arrays.
    dynamic_local : bool
        Whether the local memory has to be asked for at launch.
    flags : tuple of str
        Options for the device compiler.
    hazards : frozenset of Fault
        Faults of that compiler that may end the process in which it compiles this.
    private_bytes : int
        Of `local_bytes`, those of long private arrays, for which no device has a limit.
    kernel : str
        The kernel's name as its author wrote it, where the text has to call it something else.
    """

    source: str
    entry: str
    dialect: str
    arguments: tuple[Argument, ...]
    workgroup: tuple[int, int, int]
    local_bytes: int
    dynamic_local: bool
    flags: tuple[str, ...]
    hazards: frozenset[Fault] = frozenset()
    private_bytes: int = 0
    kernel: str = ""

    @property
    def name(self) -> str:
        """What its author calls it: in messages and profiles."""
        return self.kernel or self.entry

    @property
    def shared_bytes(self) -> int:
        """What the arrays take that a workgroup shares."""
        return self.local_bytes - self.private_bytes


# Queues of a device's work and marks in them: the base of streams, events and timelines.


class Mark(ABC):
    """A point in a queue, reached once all that was enqueued before it is done."""

    @property
    @abstractmethod
    def reached(self) -> bool:
        """Must: whether it has been reached, without waiting."""

    @abstractmethod
    def wait(self) -> None:
        """Must: wait until it is reached."""

    @abstractmethod
    def seconds_after(self, earlier: Any) -> float:
        """Must: wait for both marks, of one device, and give the device's time between them."""


class HostMark(Mark):
    """A mark that was reached when it was made, by the host's clock."""

    def __init__(self) -> None:
        self._at = perf_counter()

    @property
    def reached(self) -> bool:
        """Always."""
        return True

    def wait(self) -> None:
        """Nothing to wait for."""

    def seconds_after(self, earlier: Any) -> float:
        """Seconds of the host's clock."""
        return self._at - float(earlier._at)


class Queue(ABC):
    """Work that a device does in order, beside that of its other queues.

    Attributes
    ----------
    handle : object
        What the device's library calls a stream or queue; None where it has none of its own.
    """

    handle: Any

    @abstractmethod
    def scope(self) -> AbstractContextManager[Any]:
        """Must: a context in which this thread's launches, copies and arrays go to this queue."""

    @abstractmethod
    def mark(self) -> Mark:
        """Must: a mark at its end."""

    @abstractmethod
    def wait_for(self, mark: Mark) -> None:
        """Must: let what is enqueued from now on begin after a mark of the same device."""

    @abstractmethod
    def synchronize(self) -> None:
        """Must: wait for all that was enqueued in it."""


class OnlyQueue(Queue):
    """The one queue of a device that has no others: all its work is in order anyway.

    Parameters
    ----------
    mark : callable
        Makes a mark at the queue's end.
    synchronize : callable
        Waits for the device.
    """

    handle = None

    def __init__(self, mark: Callable[[], Mark], synchronize: Callable[[], None]) -> None:
        self._mark = mark
        self._synchronize = synchronize

    def scope(self) -> AbstractContextManager[Any]:
        """There is nowhere else to go to."""
        return nullcontext()

    def mark(self) -> Mark:
        """A mark of the device."""
        return self._mark()

    def wait_for(self, mark: Mark) -> None:
        """Already so."""

    def synchronize(self) -> None:
        """Wait for the device."""
        self._synchronize()


class Timer(ABC):
    """Measures device time between two points of the queue."""

    @abstractmethod
    def start(self) -> None:
        """Mark the beginning."""

    @abstractmethod
    def stop(self) -> None:
        """Mark the end."""

    @abstractmethod
    def seconds(self) -> float:
        """Wait for the end mark and return the seconds between the two on the device."""


class MarkTimer(Timer):
    """A timer of two marks.

    Parameters
    ----------
    mark : callable
        Makes a mark at the end of the current queue.
    """

    def __init__(self, mark: Callable[[], Mark]) -> None:
        self._mark = mark
        self._first: Mark | None = None
        self._last: Mark | None = None

    def start(self) -> None:
        """Mark the beginning."""
        self._first = self._mark()

    def stop(self) -> None:
        """Mark the end."""
        self._last = self._mark()

    def seconds(self) -> float:
        """Seconds on the device between the two marks."""
        if self._first is None or self._last is None:
            raise UnsupportedError("call start() and stop() before seconds()")
        return self._last.seconds_after(self._first)


# What a vendor's library of collectives does for one device.


class Writer(ABC):
    """One device's way into arrays that all devices offered; made by `Collectives.writer`.

    All devices call the same, together. What is returned makes what is enqueued from then on wait
    for the transfer.
    """

    @abstractmethod
    def gather(self, x: Any, number: int) -> Callable[[], None]:
        """Must: write `x` into the array of a number of every device, as each of them does.

        Parameters
        ----------
        x : array
            Of this device.
        number : int
            Of the array that it goes to, another one for each device.
        """

    @abstractmethod
    def broadcast(self, x: Any, number: int, root: int) -> Callable[[], None]:
        """Must: write device `root`'s array of a number into that of every device.

        Parameters
        ----------
        x : array
            This device's array of that number.
        number, root : int
        """


class Collectives(ABC):
    """One device's part in collectives of its vendor's library, enqueued on its current stream.

    Arrays are contiguous; `op` is "sum", "max" or "min".

    Attributes
    ----------
    name : str
        The library's.
    replays : bool
        Whether `Device.replay` may take them up.
    """

    name: str
    replays: bool = False

    @abstractmethod
    def all_reduce(self, x: Any, out: Any, op: str) -> None:
        """Must: combine all devices' `x` into `out`, which may be `x`.

        Parameters
        ----------
        x, out : array
            Alike.
        op : {"sum", "max", "min"}
        """

    def start_all_reduce(self, x: Any, out: Any, op: str) -> Callable[[], None]:
        """Should: the same, beside what is enqueued next; what is returned has later work wait.

        Parameters
        ----------
        x, out, op
            As of `all_reduce`.
        """
        self.all_reduce(x, out, op)
        return lambda: None

    @abstractmethod
    def reduce_scatter(self, x: Any, out: Any, op: str) -> None:
        """Must: combine all devices' `x` and keep this one's part.

        Parameters
        ----------
        x : array, shape (devices * n, ...)
        out : array, shape (n, ...)
        op : {"sum", "max", "min"}
        """

    @abstractmethod
    def all_gather(self, x: Any, out: Any) -> None:
        """Must: put all devices' `x` into `out`, one after the other."""

    @abstractmethod
    def broadcast(self, x: Any, root: int) -> None:
        """Must: put the `x` of device `root` into everybody's."""

    @abstractmethod
    def start_gather(self, x: Any, outs: Sequence[Any]) -> Callable[[], None]:
        """Must: put device r's `x` into ``outs[r]``, beside what is enqueued next.

        Returns
        -------
        callable
            Makes what is enqueued from then on wait for it.
        """

    @abstractmethod
    def start_broadcast(self, x: Any, root: int) -> Callable[[], None]:
        """Must: the same of `broadcast`."""

    def offer(self, arrays: Sequence[Any]) -> object | None:
        """May: what other devices need to write into arrays of this one; None if they cannot."""
        return None

    def writer(self, offers: Sequence[Any]) -> Writer | None:
        """May: what writes into the arrays that all devices offer; None if this one cannot.

        Parameters
        ----------
        offers : sequence
            What each device offers, by number; its arrays stay where they are.
        """
        return None

    def abort(self) -> None:  # noqa: B027 - a library may have no such thing
        """May: end what is under way, since others will not come; it is of no use any more."""
