"""What a device family supplies: the interface that every package of backends implements.

A backend is found through the entry-point group ``portable.backends``, whose entries name a
subclass of `Backend`. Nothing here knows of any particular one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from portable.backend.capabilities import Capabilities
from portable.backend.collectives import Collectives
from portable.backend.profiles import device_table
from portable.backend.program import Argument, Box, Program
from portable.backend.queues import HostMark, Mark, OnlyQueue, Queue
from portable.dtypes import DType
from portable.errors import OutOfMemoryError, ShapeError, UnsupportedError
from portable.system.console import html

__all__ = [
    "Argument",
    "ArrayView",
    "Backend",
    "Box",
    "Capabilities",
    "Collectives",
    "Device",
    "Executable",
    "MemoryUse",
    "Program",
    "Refused",
    "Unavailable",
    "ViewCode",
    "bytes_of",
]


class ArrayView(NamedTuple):
    """How a device sees one of its arrays as a kernel argument.

    Attributes
    ----------
    dtype : numpy.dtype
        Element type.
    shape : tuple of int
        Extents.
    strides : tuple of int
        Bytes between neighbours (always given, also when contiguous; may be negative).
    handle : object
        What `Executable` takes for the pointer.
    address : int
        Where the first element lies in bytes, comparable among arrays of one `owner`.
    offset : int
        Bytes from where `handle` points to the first element.
    owner : object
        The address space that `address` counts in: None for the device's one, else the id of a
        buffer.
    writable : bool
        False for read-only arrays.
    layout : int or None
        `portable.lang.arguments.arguments.layout_number` of it, from libraries that keep views;
        launches then compare one number. None otherwise.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    handle: Any
    address: int
    offset: int = 0
    owner: Any = None
    writable: bool = True
    layout: int | None = None


class MemoryUse(NamedTuple):
    """How a device's memory is used, in bytes; None for what is not known.

    Attributes
    ----------
    used : int or None
        By arrays of this process that its library made.
    held : int or None
        Taken from the device by this process: `used`, and what is kept for the next arrays.
    free, total : int or None
        Of the device, whoever uses it.
    """

    used: int | None = None
    held: int | None = None
    free: int | None = None
    total: int | None = None


class ViewCode(NamedTuple):
    """`Device.view` as Python text, for functions compiled to see arrays like an earlier one fast.

    In each text ``{x}`` is the name of the array, and the beginning of names for parts of it; what
    the earlier array's view has in them goes by ``{x}_dtype``, ``{x}_shape``, ``{x}_strides`` (in
    elements ``{x}_element_strides``) and ``{x}_layout``. The texts are evaluated in this order; an
    exception means an unlike array.

    Attributes
    ----------
    kind : type
        They hold for arrays of exactly this type.
    same : str
        Condition: the array is the device's, and its view's dtype, shape, strides and writability
        are those of the earlier one, or will be where `handle` raises no exception.
    handle, address, offset, owner : str
        What `ArrayView` calls so.
    names : dict
        Whatever else the texts refer to; ``{x}`` in a name stands for the array's.
    for_all : str
        Condition beside `same`, if any, on no array: asked for once for all that have it.
    queue : str
        The queue of another library that `Executable.launch` is given as its third argument, if it
        is not the one that is current in the device's own.
    """

    kind: type
    same: str
    handle: str
    address: str
    offset: str
    owner: str
    names: dict[str, Any]
    for_all: str = ""
    queue: str = ""


class Executable(ABC):
    """A compiled program on a device, ready to launch; safe under threads."""

    @abstractmethod
    def launch(self, groups: tuple[int, int, int], arguments: Sequence[Any]) -> None:
        """Must: enqueue the program over so many workgroups on the library's own queue.

        Parameters
        ----------
        groups : (int, int, int)
            Workgroups along each dimension, all positive.
        arguments : sequence
            One per `Program.arguments`: handles for pointers, what `boxes` makes of a handle for
            boxes, Python numbers for the rest.
        """

    def prepare(self, groups: tuple[int, int, int], arguments: Sequence[Any]) -> Callable[[], None]:
        """Should: bind arguments once and return the cheapest possible launch of them.

        The caller keeps the arrays alive for as long as it keeps the launch.
        """
        bound = list(arguments)
        return lambda: self.launch(groups, bound)

    def boxes(
        self, argument: Argument, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> Callable[[Any, int], Any]:
        """Must, with ``"tensor"`` copies: describe boxes of arrays.

        Parameters
        ----------
        argument : Argument
            Of kind "box".
        shape, strides : tuple of int
            The array's extents, and bytes between neighbours.

        Returns
        -------
        callable
            From an array's handle and offset in bytes to what `launch` takes for the argument.
        """
        raise NotImplementedError


class Device(ABC):
    """One device. Methods marked *must* have no default; *should* and *may* have one.

    Attributes
    ----------
    name : str
        Its full name, such as ``"cuda:0"`` or ``"opencl:pocl"``; `portable.device` takes it.
    backend : str
        The name of its backend.
    words : frozenset of str
        Lower-case selector words that match it: vendor, platform, type.
    capabilities : Capabilities
        What it can do.
    keeps_programs : bool
        Whether programs that one process compiled are there for the next one.
    interprets : bool
        Whether it runs kernels themselves, by `interpret`, and compiles nothing.
    """

    name: str
    backend: str
    words: frozenset[str]
    capabilities: Capabilities
    keeps_programs: bool = True
    interprets: bool = False

    def __repr__(self) -> str:
        return f"<portable device {self.name}: {self.capabilities.name}>"

    def _repr_html_(self) -> str:
        """For notebooks: a table of one row."""
        return html(device_table((self,)))

    # -- must -------------------------------------------------------------------------------

    @abstractmethod
    def compile(self, program: Program) -> Executable:
        """Must: compile generated source.

        Raises
        ------
        CompileError
            With the generated source and the compiler's log.
        """

    @abstractmethod
    def owns(self, array: object) -> bool:
        """Must: whether this is an array of this device, or one that it takes as it is."""

    @abstractmethod
    def view(self, array: Any) -> ArrayView:
        """Must: describe one of its arrays for a launch; on the fast path of every launch."""

    @abstractmethod
    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """Must: a new C-contiguous array with undefined contents.

        Raises
        ------
        OutOfMemoryError
            If the device has no room.
        """

    @abstractmethod
    def from_numpy(self, array: np.ndarray[Any, Any]) -> Any:
        """Must: a new array of this device with a copy of the contents."""

    @abstractmethod
    def to_numpy(self, array: Any) -> np.ndarray[Any, Any]:
        """Must: a new NumPy array with a copy of the contents, once all earlier work is done."""

    @abstractmethod
    def synchronize(self) -> None:
        """Must: wait for all enqueued work; raise `DeviceFaultError` for the device's faults."""

    @abstractmethod
    def namespace(self) -> Any:
        """Must: the Array API namespace of its arrays (through array-api-compat)."""

    # -- should -----------------------------------------------------------------------------

    def maker(self, shape: tuple[int, ...], dtype: DType) -> Callable[[], Any]:
        """Should: what makes arrays as `empty` does, all of one shape, at the least cost."""
        return partial(self.empty, shape, dtype)

    def mark(self) -> Mark:
        """Should: a mark at the end of this thread's queue; unless overridden, after waiting."""
        self.synchronize()
        return HostMark()

    def queue(self) -> Queue:
        """Should: a further queue, beside all others; here the only one there is."""
        return OnlyQueue(self.mark, self.synchronize)

    def current_queue(self) -> Hashable:
        """Should: what tells this thread's current queue from others; None where there are none."""
        return None

    def memory(self) -> MemoryUse:
        """Should: how its memory is used; None for what its library does not count."""
        return MemoryUse(total=self.capabilities.global_memory or None)

    def annotation(self, name: str) -> AbstractContextManager[Any]:
        """May: a context whose name the vendor's own profiler shows."""
        from contextlib import nullcontext

        return nullcontext()

    def replay(self, work: Callable[[], object]) -> Callable[[], object]:
        """Should: what enqueues the same work at each call, at the least cost.

        Parameters
        ----------
        work : callable
            Enqueues launches, and collectives if all devices do, always the same; waits for
            nothing and copies nothing from or to the host. What it uses is kept by the caller.
        """
        return work

    def joined(self, launches: Sequence[Callable[[], None]]) -> Callable[[], None]:
        """May: what makes several prepared launches in turn, at less cost than one by one."""

        def joined() -> None:
            for launch in launches:
                launch()

        return joined

    def at_once(self, first: Callable[[], object], second: Callable[[], object]) -> None:
        """May: does two pieces of work that do not depend on each other at the same time.

        Parameters
        ----------
        first, second : callable
            As for `replay`. What takes longer is the first.
        """
        first()
        second()

    def stream_scope(self) -> AbstractContextManager[Any]:
        """Should: a context in which new arrays of `namespace` are made on this device."""
        from contextlib import nullcontext

        return nullcontext()

    def creation_arguments(self) -> dict[str, Any]:
        """Should: keyword arguments by which creation functions of `namespace` use this device."""
        return {}

    # -- may --------------------------------------------------------------------------------

    def for_arrays(self) -> Device:
        """May: the device, alike in all else, whose arrays `portable.xp` makes; itself else."""
        return self

    def adopt(self, array: Any) -> Any:
        """May: an array of this device that shares memory with another library's, through DLPack.

        Raises
        ------
        DeviceMismatchError
            If the memory is not this device's.
        """
        from portable.errors import DeviceMismatchError

        raise DeviceMismatchError(
            f"{type(array).__module__}.{type(array).__name__} is no array of {self.name} and "
            "cannot share its memory; copy it with portable.asarray(x, device=...)"
        )

    def adopt_together(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """Arrays of this device over those of one call, which are known to lie in its memory."""
        return [self.adopt(x) for x in arrays]

    def on_stream(self, address: int) -> AbstractContextManager[Any]:
        """May: a context in which work is enqueued on a stream that another library made."""
        from contextlib import nullcontext

        return nullcontext()

    def collectives(self, devices: Sequence[Device]) -> Sequence[Collectives] | None:
        """May: its vendor's collectives among different devices of this backend and process."""
        return None

    def thread_scope(self) -> AbstractContextManager[Any]:
        """May: a context for one of several threads that use the device's array library at once.

        For libraries that are not safe under threads by themselves. What was enqueued before is
        done when it begins, and what is enqueued in it when it ends.
        """
        from contextlib import nullcontext

        return nullcontext()

    def before_waits(self, ready: Callable[[], None]) -> AbstractContextManager[None]:
        """Must, with `collectives`: a context that calls `ready` before its thread is kept waiting.

        That is before the driver is asked for what it may do only once earlier work is done, and
        keeps other devices of the process from work until then: programs loaded, memory taken.
        """
        from contextlib import nullcontext

        return nullcontext()

    def collectives_key(self) -> object | None:
        """May: what a new group of processes shares to have collectives; None: there are none."""
        return None

    def join_collectives(self, key: object, rank: int, size: int) -> Collectives:
        """May: this device's part in collectives of processes, by the key of rank 0."""
        raise NotImplementedError(f"{self.name} has no collectives")

    def view_code(self, array: Any) -> ViewCode | None:
        """May: how compiled code sees arrays like this one of its own; None: only `view` knows."""
        return None

    def behind(self, handle: Any, by: int) -> Any:
        """Must, where arrays are one pointer: what `Executable` takes for memory behind a handle.

        Parameters
        ----------
        handle : object
            As `ArrayView` has it.
        by : int
            How many bytes behind.
        """
        raise NotImplementedError(f"{self.name} takes offsets besides handles")

    def in_place(self, array: np.ndarray[Any, Any]) -> ArrayView | None:
        """May: how kernels see a NumPy array where it lies; None where it has to be copied.

        The host sees what they wrote once all work is done.
        """
        return None

    def shared(self, array: Any) -> np.ndarray[Any, Any] | None:
        """May: one of its arrays as NumPy's in the same memory; None where there is none."""
        return None

    def program_facts(self) -> dict[str, str]:
        """May: what devices have in common that run each other's machine code, by name."""
        return {}

    def export(self, program: Program) -> bytes:
        """May: compile generated source to machine code, for `load` on devices like this one.

        Raises
        ------
        CompileError
            As `compile` does.
        """
        raise UnsupportedError(f"{self.name} keeps no compiled programs apart from their source")

    def load(self, program: Program, code: bytes) -> Executable:
        """May: make machine code ready to run; `program` is what `export` was given, sourceless.

        Raises
        ------
        DeviceError
            If the driver does not take it.
        """
        raise UnsupportedError(f"{self.name} loads no compiled programs")

    def interpret(self, kernel: Any) -> Executable:
        """May: run a `portable.lang.ir.kernel.Kernel` itself; only of devices that `interprets`.

        Its launches take one argument per kernel parameter: an array, or a number.
        """
        raise NotImplementedError(f"{self.name} runs compiled programs")


_ADDRESSES: Final = 2**62
"""Bytes that no machine has, and that fit every type that libraries count them in."""


def bytes_of(shape: Sequence[int], itemsize: int) -> int:
    """Bytes of an array.

    Raises
    ------
    ShapeError
        For negative extents.
    OutOfMemoryError
        If no machine has so much memory, which libraries answer in as many ways as there are.
    """
    if any(extent < 0 for extent in shape):
        raise ShapeError(f"a shape has no negative extents: {tuple(shape)}")
    size = prod(shape) * itemsize
    if max(size, *shape, 0) >= _ADDRESSES:
        raise OutOfMemoryError(f"an array of shape {tuple(shape)} is larger than any memory")
    return size


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Why a backend found no device, and the command or driver that would bring one."""

    backend: str
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A device that was seen and is not offered, and why."""

    name: str
    reason: str


class Backend(ABC):
    """A device family. One instance per process, made by the registry without arguments.

    Attributes
    ----------
    name : str
        The first part of its devices' names.
    """

    name: str

    @abstractmethod
    def devices(self) -> Sequence[Device]:
        """Must: its devices, best first; an empty sequence, never an exception, where it has none.

        Called once, when first needed; imports its library only here.
        """

    @abstractmethod
    def unavailable(self) -> Unavailable | None:
        """Must: after `devices` came out empty, why and how to change it; None otherwise."""

    def further(self) -> Mapping[str, Callable[[], Device]]:
        """May: what makes devices that are asked for by name alone, by selector.

        They are not among `devices`; each is made once, when first asked for.
        """
        return {}

    def refused(self) -> Sequence[Refused]:
        """May: after `devices`, those that it saw and does not offer."""
        return ()

    def array_types(self) -> tuple[str, ...]:
        """Should: modules (first component) whose arrays may be its own, such as ``"cupy"``."""
        return ()
