"""One OpenCL device's context, queue, compiler and launches; what opencl, cpu and sycl share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

import numpy as np
import pyopencl as cl

from portable.backend import Capabilities, Program
from portable.errors import CompileError, DeviceError, DeviceFaultError, UnsupportedError
from portable.lang.emit.opencl import COVER
from portable.profiling import timeline
from portable.system import cache
from portable_backends.common.devices import check
from portable_backends.common.gate import Gate, wait_listening
from portable_backends.common.isolated_compiler import IsolatedCompiler, described
from portable_backends.opencl.boxes import Addresses
from portable_backends.opencl.capabilities import is_cpu
from portable_backends.opencl.discovery import has_compiler
from portable_backends.opencl.executable import (
    NANO,
    OpenCLExecutable,
    OpenCLMark,
    OpenCLQueue,
    status_error,
)
from portable_backends.opencl.kept_programs import KeptPrograms
from portable_backends.opencl.probes import quiet, uncovered
from portable_backends.opencl.replay import CapturedQueue, enqueuer

if TYPE_CHECKING:
    from portable.array.array import Array


class _Place:
    """Memory of an array, as NumPy asks for it; keeps it mapped, and out of the pool."""

    def __init__(self, array: Array, mapped: Any, low: int) -> None:
        self._kept = array.buffer, mapped
        self.__array_interface__ = {
            "version": 3,
            "shape": array.shape,
            "strides": array.strides,
            "typestr": array.dtype.numpy.str,
            "data": (mapped.ctypes.data + array.offset - low, False),
        }


def in_place(runtime: Runtime, array: Array) -> np.ndarray[Any, Any]:
    """The elements where they are, once all work enqueued is done.

    The memory stays mapped while NumPy's array lives. OpenCL leaves open what a kernel does to
    mapped memory; a processor's buffers lie in the host's memory, mapped or not.
    """
    if not array.size:
        return np.empty(array.shape, array.dtype.numpy)
    low, high = array.extent_in_bytes()
    enqueue_map: Any = cl.enqueue_map_buffer  # whose types take no dtypes and no sums of flags
    flags = cl.map_flags.READ | cl.map_flags.WRITE
    with runtime.gate.lock:
        mapped, event = enqueue_map(
            runtime.current(), array.buffer, flags, low, (high - low,), np.uint8, is_blocking=False
        )
    runtime.wait(event)
    return np.asarray(_Place(array, mapped, low))


# -- runtime ---------------------------------------------------------------------------------------

_SMALL = 1024
"""Bytes."""

_KEPT_ON_CPU = 256
_KEPT = 4096
"""Programs: on processors one takes half a megabyte, and 3 ms to be loaded again."""


_NO_REMARKS: Final = "-w"
"""Some compilers print how many they have to the standard error."""


def options_for(device: cl.Device, capabilities: Capabilities, flags: Sequence[str]) -> list[str]:
    """The compiler options: `flags`, the newest standard and IEEE division where they exist."""
    version = device.version.split()[1]
    standard = "3.0" if version >= "3.0" else min(version, "2.0")
    options = [*flags, f"-cl-std=CL{standard}"]
    rounded = "-cl-fp32-correctly-rounded-divide-sqrt"
    if capabilities.rounded_division32 and not {"-cl-fast-relaxed-math", rounded} & set(flags):
        options.append(rounded)
    return options


class Runtime:
    """A context with an in-order queue, and further ones if asked for, on one OpenCL device.

    Attributes
    ----------
    queue : pyopencl.CommandQueue
        The first queue, which threads use that chose no other.
    further : set of OpenCLQueue
        The queues beside it, as long as anybody has them.
    captures : set of CapturedQueue
        What launches were captured in, likewise.
    addresses : Addresses
        Where buffers lie, for launches that take boxes of arrays.
    has_chosen : bool
        Whether any thread has chosen another queue, so that `current` is to be asked.
    records_times : bool
        Whether the queues record times.
    keeps : bool
        Whether the binaries of what is compiled here are kept on disk. PoCL compiles a program once
        more when it is asked for its binary.

    Parameters
    ----------
    device : pyopencl.Device
        The device.
    capabilities : Capabilities
        What programs are checked against.
    name : str
        Portable's name of the device.
    blocking : bool
        Whether each launch is finished before it returns.
    context : pyopencl.Context, optional
        Of the device alone, instead of a new one.
    """

    def __init__(
        self,
        device: cl.Device,
        capabilities: Capabilities,
        name: str,
        *,
        blocking: bool,
        context: cl.Context | None = None,
    ) -> None:
        self.device = device
        self.name = name
        self.capabilities = capabilities
        self.blocking = blocking
        self.context = context or cl.Context([device])
        self._measuring = 0
        self.queue = self.new_queue()
        self.has_chosen = False
        self.keeps = True
        self._chosen: ContextVar[OpenCLQueue | CapturedQueue | None] = ContextVar(
            f"queue of {name}", default=None
        )
        self.further: WeakSet[OpenCLQueue] = WeakSet()
        self.captures: WeakSet[CapturedQueue] = WeakSet()
        self._beside: OpenCLQueue | None = None
        self._ahead: float | None = None
        self.gate = Gate(name, self.finish)
        self.addresses = Addresses(self.context, self.gate)
        self.programs = KeptPrograms(_KEPT_ON_CPU if is_cpu(device) else _KEPT)

    def compile(self, program: Program) -> OpenCLExecutable:
        """Build `program`, or load it from the disk cache."""
        check(program, self.capabilities)
        return OpenCLExecutable(self, program)

    def facts(self) -> dict[str, str]:
        """What devices have in common that run each other's binaries."""
        return described(self.device)

    def export(self, program: Program) -> bytes:
        """What the driver calls the program's binary."""
        check(program, self.capabilities)
        binaries: Any = self.built(program).get_info(cl.program_info.BINARIES)
        return bytes(binaries[0])

    def load(self, program: Program, code: bytes) -> OpenCLExecutable:
        """A program of which only the binary is here."""
        check(program, self.capabilities)
        return OpenCLExecutable(self, program, code)

    def restored(self, program: Program, code: bytes) -> cl.Program:
        """What the driver makes of a binary.

        Raises
        ------
        DeviceError
            If it does not take it.
        """
        self.gate.pass_through()
        result = self._load(code)
        if result is None:
            raise DeviceError(
                f"{self.device.platform.name} does not take the machine code of {program.entry}, "
                f"which was compiled for another driver than {self.device.driver_version}; compile "
                "it again"
            )
        return result

    def built(self, program: Program) -> cl.Program:
        """What the driver makes of `program`, or of its binary in the disk cache."""
        self.gate.pass_through()
        options = options_for(self.device, self.capabilities, program.flags)
        facts = described(self.device).values()
        name = cache.key(program.source, " ".join(options), *facts)
        kept = cache.load(name)
        loaded = self._load(kept) if kept is not None else None
        if loaded is not None:
            return loaded
        if not has_compiler(self.device):
            raise UnsupportedError(
                f"{self.name} has no compiler, and was to compile kernel {program.entry}; load "
                "what was compiled elsewhere by portable.load_compiled"
            )
        return self._from_source(program, options, name)

    def _load(self, binary: bytes) -> cl.Program | None:
        try:
            with quiet:
                built: cl.Program = cl.Program(self.context, [self.device], [binary]).build()
                return built
        except cl.Error:
            return None

    def _from_source(self, program: Program, options: list[str], name: str) -> cl.Program:
        """Compile; on processors, load what came of it, since drivers hold on to less for that.

        What GPUs' drivers call a binary may be intermediate code, which is compiled once more.
        """
        if program.hazards:
            binary, options = IsolatedCompiler(self.device).compile(program, options)
            loaded = self._load(binary) if binary else None
            if loaded is not None:
                cache.store(name, binary)
                return loaded
        try:
            with quiet:
                built: cl.Program = cl.Program(self.context, program.source).build(
                    [*options, _NO_REMARKS],
                    cache_dir=False,  # type: ignore[arg-type]
                )
        except cl.Error as error:
            message = f"{self.device.platform.name} refused kernel {program.entry}"
            raise CompileError(message, program.source, _log(error)) from None
        covered = COVER in program.source
        if not (self.keeps or covered):
            return built
        binaries: Any = built.get_info(cl.program_info.BINARIES)
        if covered:
            return self._uncovered(program, bytes(binaries[0]), name)
        cache.store(name, binaries[0])
        return (is_cpu(self.device) and self._load(binaries[0])) or built

    def _uncovered(self, program: Program, binary: bytes, name: str) -> cl.Program:
        """Loaded once more, with what the compiler was not shown."""
        binary = uncovered(binary)
        loaded = self._load(binary)
        if loaded is None:
            message = f"{self.device.platform.name} refused what it compiled of {program.entry}"
            raise CompileError(message, program.source, binary.decode(errors="replace"))
        cache.store(name, binary)
        return loaded

    def synchronize(self) -> None:
        """Wait for everything enqueued; a fault of the device becomes `DeviceFaultError`."""
        self.gate.pass_through()
        self.wait_for_all(self._queues())

    def wait_for_all(self, queues: Sequence[cl.CommandQueue], *, heard: bool = False) -> None:
        """Wait for some queues; a fault of the device becomes `DeviceFaultError`."""
        if self.gate.abandoned and not heard:  # which may never end
            wait_listening(self.gate, self.name, lambda: self.wait_for_all(queues, heard=True))
            return
        try:
            for queue in queues:
                queue.finish()
        except cl.Error as error:
            raise self._fault(error) from error

    def copy(self, target: Any, source: Any, **where: Any) -> None:
        """Copy between a buffer and host memory, done on return.

        The lock covers the call, not the wait: NVIDIA's driver was seen to crash where one thread
        copied while another launched. A call that waits by itself takes half the time for a few
        bytes, which is worth having the lock for so long.
        """
        to_host = isinstance(target, np.ndarray)
        nbytes = (target if to_host else source).nbytes
        small = nbytes <= _SMALL
        noting = None
        if timeline.recording is not None:
            kind: timeline.Kind = "from device" if to_host else "to device"
            noting = self.noting(f"copy {kind}", kind, nbytes=nbytes)
        try:
            with self.gate.lock:
                event = cl.enqueue_copy(self.current(), target, source, is_blocking=small, **where)
        except cl.Error as error:
            raise self._fault(error) from error
        if not small:
            self.wait(event)
        if noting is not None:
            noting(event)

    def wait(self, event: cl.Event) -> None:
        """Wait for one launch; a fault of the device becomes `DeviceFaultError`."""
        waiting, mine = self.gate.waiting, object()
        try:
            waiting.add(mine)
            event.wait()
        except cl.Error as error:
            raise self._fault(error) from error
        finally:
            waiting.discard(mine)

    def finish(self) -> None:
        """Wait for everything enqueued, as the driver says it."""
        for queue in self._queues():
            queue.finish()

    def _fault(self, error: cl.Error) -> DeviceFaultError:
        return DeviceFaultError(f"{self.device.name} failed while running earlier work: {error}")

    # -- queues -----------------------------------------------------------------------------

    def new_queue(self, *, recording: bool = False) -> cl.CommandQueue:
        """An in-order queue, which records times if that is wanted, or the others do."""
        if not (recording or self.records_times):
            return cl.CommandQueue(self.context)
        records = cl.command_queue_properties.PROFILING_ENABLE
        return cl.CommandQueue(self.context, properties=records)

    def _queues(self) -> list[cl.CommandQueue]:
        return [self.queue, *(further.handle for further in list(self.further))]

    def further_queue(self) -> OpenCLQueue:
        """One beside all others."""
        with self.gate.lock:
            made = OpenCLQueue(self)
            self.further.add(made)
            return made

    @contextmanager
    def chosen(self, queue: OpenCLQueue | CapturedQueue) -> Iterator[None]:
        """A context in which this thread's work goes to that queue."""
        self.has_chosen = True
        token = self._chosen.set(queue)
        try:
            yield
        finally:
            self._chosen.reset(token)

    @property
    def choice(self) -> OpenCLQueue | CapturedQueue | None:
        """The queue that this thread chose; None for the first one."""
        return self._chosen.get()

    @property
    def captured(self) -> CapturedQueue | None:
        """What writes down launches of this thread, if they are captured."""
        chosen = self._chosen.get()
        return chosen if isinstance(chosen, CapturedQueue) else None

    def enqueue(self, job: bytes, what: str) -> None:
        """Enqueues launches that were made a job of, in the current queue and the one beside it."""
        with self.gate.lock:  # queues are exchanged under it where times begin to be recorded
            queue = self.current() if self.has_chosen else self.queue
            beside = 0 if self._beside is None else self._beside.handle.int_ptr
            status = enqueuer()(job, queue.int_ptr, beside)
        if status:
            raise status_error(status, f"launching {what}")

    def at_once(self, first: Callable[[], object], second: Callable[[], object]) -> None:
        """Enqueues work here, and other beside it, which the current queue then waits for.

        What is beside other work already follows it.
        """
        captured, beside = self.captured, self._beside or self.further_queue()
        self._beside = beside
        if captured is not None:
            captured.at_once(first, second)
            return
        if self.choice is beside:
            first()
            second()
            return
        forked = self._marked(self.current())
        first()
        try:
            with self.chosen(beside):
                self._wait_for(forked)
                second()
        finally:  # what was enqueued before an error uses arrays that are let go then
            self._wait_for(self._marked(beside.handle))

    def _marked(self, queue: cl.CommandQueue) -> cl.Event:
        """A mark at the end of a queue, which is given to the device: others wait for it."""
        with self.gate.lock:
            event = cl.enqueue_marker(queue)
            queue.flush()
        return event

    def _wait_for(self, event: cl.Event) -> None:
        """Has the current queue wait."""
        with self.gate.lock:
            cl.enqueue_barrier(self.current(), wait_for=[event])

    def current(self) -> cl.CommandQueue:
        """The queue that this thread's work goes to.

        Raises
        ------
        NotCapturedError
            Where launches are captured, and nothing else can be.
        """
        chosen = self._chosen.get()
        return self.queue if chosen is None else chosen.handle

    def mark(self) -> OpenCLMark:
        """A mark in the current queue."""
        return OpenCLMark(self, self.current())

    # -- times ------------------------------------------------------------------------------

    @property
    def records_times(self) -> bool:
        """Whether the queues record times."""
        return self._measuring > 0

    @cached_property
    def timekeeper(self) -> cl.CommandQueue:
        """A queue that records times, for marks of queues that do not."""
        return self.new_queue(recording=True)

    def measure(self, start: bool) -> None:
        """Move between plain queues and such as record times; costs nothing when unused."""
        with self.gate.lock:
            self._measuring += 1 if start else -1
            if self._measuring == (1 if start else 0):
                self.synchronize()
                self.queue = self.new_queue()
                for further in list(self.further):
                    further.handle = self.new_queue()

    def noting(self, *entry: Any, **more: Any) -> Callable[[cl.Event], None] | None:
        """What adds a command that is about to be enqueued to the recording that is on, if any.

        The arguments are those of its `timeline.Entry`. The device's clock is known from the host's
        by the moment at which the first one was enqueued.
        """
        recording = timeline.recording
        if recording is None:
            return None
        recording.once(self, self._begin_recording, lambda: self.measure(False))
        enqueued = perf_counter()

        def note(event: cl.Event) -> None:
            def times() -> tuple[float, float]:
                profile = event.profile
                if self._ahead is None:
                    self._ahead = enqueued - NANO * profile.queued
                return self._ahead + NANO * profile.start, self._ahead + NANO * profile.end

            made = timeline.Entry(*entry, **more)
            recording.add(self.name, made, enqueued, times, self._chosen.get())

        return note

    def _begin_recording(self) -> None:
        self._ahead = None
        self.measure(True)


def _log(error: cl.Error) -> str:
    """The compiler's words, without what PyOpenCL puts before and after them."""
    text = str(error)
    return (text.partition("\n\n")[2] or text).partition("\n(options: ")[0].rstrip()
