"""One OpenCL device's context, queue, compiler and launches; what opencl, cpu and sycl share."""

from __future__ import annotations

import math
import struct
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache as once
from operator import itemgetter
from time import perf_counter
from typing import Any, Final, NamedTuple
from weakref import WeakSet

import numpy as np
import pyopencl as cl

from portable import cache, timeline
from portable.backend import Argument, Capabilities, Executable, Program
from portable.dtypes import bool_
from portable.errors import (
    CompileError,
    DeviceError,
    DeviceFaultError,
    LaunchError,
    OutOfMemoryError,
    PortableError,
)
from portable_backends import drivers
from portable_backends.gate import Gate
from portable_backends.kept_programs import KeptPrograms
from portable_backends.limits import check
from portable_backends.opencl_capabilities import is_cpu, platform_word
from portable_backends.opencl_queues import DeviceClock, OpenCLMark, OpenCLQueue

__all__ = [
    "OpenCLExecutable",
    "Runtime",
    "find",
    "launch_error",
    "options_for",
    "why_none",
]

_OUT_OF_MEMORY = frozenset(
    {
        cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE,
        cl.status_code.OUT_OF_HOST_MEMORY,
        cl.status_code.INVALID_BUFFER_SIZE,
    }
)
_BAD_WORKGROUP = frozenset(
    {
        cl.status_code.INVALID_WORK_GROUP_SIZE,
        cl.status_code.INVALID_WORK_ITEM_SIZE,
        cl.status_code.INVALID_GLOBAL_WORK_SIZE,
    }
)

_SMALL = 1024
"""Bytes."""

_KEPT_ON_CPU = 256
_KEPT = 4096
"""Programs: on processors one takes half a megabyte, and 3 ms to be loaded again."""


def find() -> tuple[cl.Device, ...]:
    """Every OpenCL device that kernels can be built for, in the order of the loader."""
    return tuple(d for d in _listed() if not _unusable(d))


def passed_over() -> list[tuple[cl.Device, str]]:
    """The devices that `find` passes over, and why."""
    return [(d, reason) for d in _listed() if (reason := _unusable(d))]


def why_none(otherwise: str) -> str:
    """Why `find` passed over what there is; `otherwise` if there is nothing."""
    return "; ".join(reason for _, reason in passed_over()) or otherwise


@once
def _listed() -> tuple[cl.Device, ...]:
    """Every available OpenCL device of this machine, each once."""
    drivers.announce()
    found: dict[int, cl.Device] = {}
    try:
        platforms = cl.get_platforms()
    except cl.Error:
        return ()
    for platform in platforms:
        for device in _devices_of(platform):
            found.setdefault(device.int_ptr, device)
    drivers.warn_of_hidden()
    return tuple(found.values())


def _devices_of(platform: cl.Platform) -> Sequence[cl.Device]:
    try:
        return [d for d in platform.get_devices() if d.available]
    except cl.Error:
        return []


def _unusable(device: cl.Device) -> str:
    """Why kernels cannot be built for it; empty where they can.

    PoCL names a processor newer than its LLVM "generic", and then fails to build anything for it
    (https://github.com/pocl/pocl/issues/1049).
    """
    if not device.compiler_available:
        return f"the OpenCL driver of {device.name} has no compiler"
    if "PoCL" in device.version and device.version.endswith("-generic"):
        return f"PoCL {device.driver_version} does not know this processor"
    return ""


def launch_error(error: cl.Error | struct.error, what: str) -> PortableError:
    """The exception of ours that an OpenCL error means, `what` being what was tried."""
    if isinstance(error, struct.error):
        return LaunchError(f"{what}: {error}")
    code = error.code
    text = f"{what}: {cl.status_code.to_string(code, 'OpenCL error %d')}"  # type: ignore[operator]
    if code in _OUT_OF_MEMORY or isinstance(error, cl.MemoryError):
        return OutOfMemoryError(f"{text}; the device has no room for it")
    if code in _BAD_WORKGROUP:
        return LaunchError(f"{text}; use a smaller workgroup or ndrange")
    if code == cl.status_code.OUT_OF_RESOURCES:
        return LaunchError(f"{text}; use a smaller workgroup or less local memory")
    return LaunchError(text)


_NO_REMARKS: Final = "-w"
"""Some compilers print how many they have to the standard error."""


def options_for(device: cl.Device, capabilities: Capabilities, flags: Sequence[str]) -> list[str]:
    """The compiler options: `flags`, the newest standard and IEEE division where they exist."""
    options = list(flags)
    if not any(flag.startswith("-cl-std") for flag in flags):
        version = device.version.split()[1]
        options.append("-cl-std=CL3.0" if version >= "3.0" else f"-cl-std=CL{min(version, '2.0')}")
    if capabilities.rounded_division32 and "-cl-fast-relaxed-math" not in flags:
        options.append("-cl-fp32-correctly-rounded-divide-sqrt")
    return options


class Runtime:
    """A context with an in-order queue, and further ones if asked for, on one OpenCL device.

    Attributes
    ----------
    queue : pyopencl.CommandQueue
        The first queue, which threads use that chose no other.
    has_chosen : bool
        Whether any thread has chosen another queue, so that `current` is to be asked.
    records_times : bool
        Whether the queues record times.

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
    """

    def __init__(
        self, device: cl.Device, capabilities: Capabilities, name: str, *, blocking: bool
    ) -> None:
        self.device = device
        self.name = name
        self.capabilities = capabilities
        self.blocking = blocking
        self.context = cl.Context([device])
        self._measuring = 0
        self.queue = self.new_queue()
        self.has_chosen = False
        self._chosen: ContextVar[OpenCLQueue | None] = ContextVar(f"queue of {name}", default=None)
        self._further: WeakSet[OpenCLQueue] = WeakSet()
        self._timekeeper: cl.CommandQueue | None = None
        self._clock = DeviceClock()
        self.gate = Gate(name, self._finish)
        self.programs = KeptPrograms(_KEPT_ON_CPU if is_cpu(device) else _KEPT)

    def compile(self, program: Program) -> OpenCLExecutable:
        """Build `program`, or load it from the disk cache."""
        check(program, self.capabilities)
        return OpenCLExecutable(self, program)

    def facts(self) -> dict[str, str]:
        """What devices have in common that run each other's binaries."""
        device = self.device
        return {
            "platform": device.platform.version,
            "device": device.name.strip(),
            "version": device.version,
            "driver": device.driver_version,
        }

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
        found = self._load(code)
        if found is None:
            raise DeviceError(
                f"{self.device.platform.name} does not take the machine code of {program.entry}, "
                f"which was compiled for another driver than {self.device.driver_version}; compile "
                "it again"
            )
        return found

    def built(self, program: Program) -> cl.Program:
        """What the driver makes of `program`, or of its binary in the disk cache."""
        self.gate.pass_through()
        options = options_for(self.device, self.capabilities, program.flags)
        name = cache.key(
            program.source,
            " ".join(options),
            self.device.platform.version,
            self.device.name,
            self.device.version,
            self.device.driver_version,
        )
        kept = cache.load(name)
        loaded = self._load(kept) if kept is not None else None
        return loaded or self._build(program, options, name)

    def _load(self, binary: bytes) -> cl.Program | None:
        try:
            with _quiet():
                built: cl.Program = cl.Program(self.context, [self.device], [binary]).build()
                return built
        except cl.Error:
            return None

    def _build(self, program: Program, options: list[str], name: str) -> cl.Program:
        """Compile; on processors, load what came of it, since drivers hold on to less for that.

        What GPUs' drivers call a binary may be intermediate code, which is compiled once more.
        """
        try:
            with _quiet():
                built: cl.Program = cl.Program(self.context, program.source).build(
                    [*options, _NO_REMARKS],
                    cache_dir=False,  # type: ignore[arg-type]
                )
        except cl.Error as error:
            message = f"{self.device.platform.name} refused kernel {program.entry}"
            raise CompileError(message, program.source, _log(error)) from None
        binaries: Any = built.get_info(cl.program_info.BINARIES)
        cache.store(name, binaries[0])
        return (is_cpu(self.device) and self._load(binaries[0])) or built

    def synchronize(self) -> None:
        """Wait for everything enqueued; a fault of the device becomes `DeviceFaultError`."""
        self.gate.pass_through()
        self.wait_for_all(self._queues())

    def wait_for_all(self, queues: Sequence[cl.CommandQueue]) -> None:
        """Wait for some queues; a fault of the device becomes `DeviceFaultError`."""
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
        recording = self.join_recording()
        enqueued = perf_counter()
        try:
            with self.gate.lock:
                event = cl.enqueue_copy(self.current(), target, source, is_blocking=small, **where)
        except cl.Error as error:
            raise self._fault(error) from error
        if not small:
            self.wait(event)
        if recording is not None:
            kind: timeline.Kind = "from device" if to_host else "to device"
            self.note(
                recording, timeline.Entry(f"copy {kind}", kind, nbytes=nbytes), enqueued, event
            )

    def wait(self, event: cl.Event) -> None:
        """Wait for one launch; a fault of the device becomes `DeviceFaultError`."""
        waiting = self.gate.waiting
        waiting.append(event)
        try:
            event.wait()
        except cl.Error as error:
            raise self._fault(error) from error
        finally:
            waiting.pop()

    def _finish(self) -> None:
        for queue in self._queues():
            queue.finish()

    def _fault(self, error: cl.Error) -> DeviceFaultError:
        return DeviceFaultError(f"{self.device.name} failed while running earlier work: {error}")

    # -- queues -----------------------------------------------------------------------------

    def new_queue(self) -> cl.CommandQueue:
        """An in-order queue, which records times if the others do."""
        return self._new_queue(profiling=self.records_times)

    def _new_queue(self, *, profiling: bool) -> cl.CommandQueue:
        if not profiling:
            return cl.CommandQueue(self.context)
        properties = cl.command_queue_properties.PROFILING_ENABLE
        return cl.CommandQueue(self.context, properties=properties)

    def _queues(self) -> list[cl.CommandQueue]:
        return [self.queue, *(further.handle for further in self.further)]

    @property
    def further(self) -> list[OpenCLQueue]:
        """The queues beside the first."""
        return list(self._further)

    def further_queue(self) -> OpenCLQueue:
        """One beside all others."""
        with self.gate.lock:
            made = OpenCLQueue(self)
            self._further.add(made)
            return made

    @contextmanager
    def chosen(self, queue: OpenCLQueue) -> Iterator[None]:
        """A context in which this thread's work goes to that queue."""
        self.has_chosen = True
        token = self._chosen.set(queue)
        try:
            yield
        finally:
            self._chosen.reset(token)

    @property
    def choice(self) -> OpenCLQueue | None:
        """The queue that this thread chose; None for the first one."""
        return self._chosen.get()

    def current(self) -> cl.CommandQueue:
        """The queue that this thread's work goes to."""
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

    def timekeeper(self) -> cl.CommandQueue:
        """A queue that records times, for marks of queues that do not."""
        if self._timekeeper is None:
            self._timekeeper = self._new_queue(profiling=True)
        return self._timekeeper

    def measure(self, start: bool) -> None:
        """Move between plain queues and such as record times; costs nothing when unused."""
        with self.gate.lock:
            self._measuring += 1 if start else -1
            if self._measuring == (1 if start else 0):
                self.synchronize()
                self.queue = self.new_queue()
                for further in self.further:
                    further.handle = self.new_queue()

    def join_recording(self) -> timeline.Recording | None:
        """The recording that is on, for which the queues record times from now on."""
        found = timeline.recording
        if found is not None:
            found.once(self, self._begin_recording, lambda: self.measure(False))
        return found

    def _begin_recording(self) -> None:
        self._clock = DeviceClock()
        self.measure(True)

    def note(
        self,
        recording: timeline.Recording,
        entry: timeline.Entry,
        enqueued: float,
        event: cl.Event,
    ) -> None:
        """Add what was enqueued in the current queue to a recording."""
        times = self._clock.times_of(event, enqueued)
        recording.add(self.name, entry, enqueued, times, self._chosen.get())


@contextmanager
def _quiet() -> Iterator[None]:
    """Compilers' remarks on generated code are of no use to the user."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)
        yield


def _log(error: cl.Error) -> str:
    """The compiler's words, without what PyOpenCL puts before and after them."""
    text = str(error)
    return (text.partition("\n\n")[2] or text).partition("\n(options: ")[0].rstrip()


def _scalar_type(argument: Argument) -> Any:
    if argument.kind == "pointer":
        return None
    return np.dtype(np.uint8) if argument.type is bool_ else argument.type.numpy


def _number_format(argument: Argument) -> str:
    size, kind = argument.type.itemsize, argument.type.kind
    if kind == "b":
        return "?"
    return {"f": " e f   d", "i": "bh i   q", "u": "BH I   Q"}[kind][size - 1]


class _Setter:
    """Sets the arguments of one kernel object; numbers only when they are not those set last.

    Most launches of a kernel differ in their arrays at most. Pointers are set anew each time,
    since to compare them the arrays of the last launch would have to be kept alive.
    """

    def __init__(self, kernel: cl.Kernel, arguments: Sequence[Argument]) -> None:
        self._set_all = kernel.set_args
        self._set_one = kernel.set_arg
        self._pointers = [i for i, a in enumerate(arguments) if a.kind == "pointer"]
        numbers = [i for i, a in enumerate(arguments) if a.kind != "pointer"]
        self._numbers: Any = itemgetter(*numbers) if len(numbers) > 1 else _picker(numbers)
        formats = "".join(_number_format(arguments[i]) for i in numbers)
        self._pack = struct.Struct("=" + formats).pack
        self._last: bytes | None = None

    def __call__(self, arguments: Sequence[Any]) -> None:
        packed = self._pack(*self._numbers(arguments))
        if packed == self._last:
            for i in self._pointers:
                self._set_one(i, arguments[i])
            return
        self._last = None
        self._set_all(*arguments)
        self._last = packed


def _picker(numbers: Sequence[int]) -> Callable[[Sequence[Any]], list[Any]]:
    return lambda arguments: [arguments[i] for i in numbers]


class _Loaded(NamedTuple):
    """What a driver holds of a program."""

    built: cl.Program
    kernel: cl.Kernel
    set: _Setter


class OpenCLExecutable(Executable):
    """A kernel with its workgroup, its arguments' types and one lock-protected kernel object.

    What the driver holds of it may be given up between launches (`KeptPrograms`).
    """

    def __init__(self, runtime: Runtime, program: Program, code: bytes | None = None) -> None:
        self.launched = True
        self._code = code
        self._runtime = runtime
        self._program = program
        self._types = [_scalar_type(a) for a in program.arguments]
        self._enqueue: Any = cl.enqueue_nd_range_kernel
        self._workgroup = program.workgroup
        self._loaded: _Loaded | None = None
        built = self._built()
        with runtime.gate.lock:
            loaded = self._take(built)
        self._check_workgroup(loaded.kernel)

    def release(self) -> None:
        """Give up what the driver holds; the next launch loads it again."""
        self._loaded = None

    def _built(self) -> cl.Program:
        """What the driver makes of the program: of its source, or of the binary that came alone."""
        if self._code is None:
            return self._runtime.built(self._program)
        return self._runtime.restored(self._program, self._code)

    def _load(self) -> _Loaded:
        return self._take(self._built())

    def _take(self, built: cl.Program) -> _Loaded:
        """Make the kernel object of a program, and put the program among those that are kept."""
        kernel = self._new_kernel(built)
        self._loaded = loaded = _Loaded(built, kernel, _Setter(kernel, self._program.arguments))
        self.launched = True  # about to be, or it would not have been loaded
        self._runtime.programs.add(self)
        return loaded

    def _new_kernel(self, built: cl.Program) -> cl.Kernel:
        kernel = cl.Kernel(built, self._program.entry)
        kernel.set_scalar_arg_dtypes(self._types)
        return kernel

    def _check_workgroup(self, kernel: cl.Kernel) -> None:
        """Registers may allow fewer work-items than the device does at best.

        NVIDIA's OpenCL answers 256 even where it compiled a kernel for more.
        """
        info, device = cl.kernel_work_group_info, self._runtime.device
        most: Any = kernel.get_work_group_info(info.WORK_GROUP_SIZE, device)
        if math.prod(self._workgroup) > most and platform_word(device) != "nvidia":
            raise LaunchError(
                f"{self._program.entry} can run with at most {most} work-items in a workgroup on "
                f"{self._runtime.device.name}; it was given {self._workgroup}"
            )

    def launch(self, groups: tuple[int, int, int], arguments: Sequence[Any]) -> None:
        """Enqueue the kernel; in order, and finished on return where the runtime blocks."""
        if timeline.recording is not None:
            self._recorded(groups, lambda: self._launch(groups, arguments))
            return
        event = self._launch(groups, arguments)
        if self._runtime.blocking:
            self._runtime.wait(event)

    def _launch(self, groups: tuple[int, int, int], arguments: Sequence[Any]) -> cl.Event:
        runtime = self._runtime
        try:
            with runtime.gate.lock:
                _, kernel, set_ = self._loaded or self._load()
                set_(arguments)
                queue = runtime.current() if runtime.has_chosen else runtime.queue
                event = self._enqueue(queue, kernel, groups, self._workgroup, None, None, True)
        except (cl.Error, struct.error) as error:
            raise launch_error(error, f"launching {self._program.entry}") from error
        self.launched = True
        return event  # type: ignore[no-any-return]

    def _recorded(self, groups: tuple[int, int, int], enqueue: Callable[[], cl.Event]) -> None:
        """Enqueue the kernel, wait where the runtime blocks, and add it to the recording."""
        runtime = self._runtime
        recording = runtime.join_recording()
        enqueued = perf_counter()
        event = enqueue()
        if runtime.blocking:
            runtime.wait(event)
        if recording is not None:
            entry = timeline.Entry(self._program.entry, "launch", groups, self._workgroup)
            runtime.note(recording, entry, enqueued, event)

    def prepare(self, groups: tuple[int, int, int], arguments: Sequence[Any]) -> Callable[[], None]:
        """A launch through a kernel object of its own, whose arguments are set once."""
        runtime, workgroup = self._runtime, self._workgroup
        with runtime.gate.lock:
            loaded = self._loaded or self._load()
        kernel, held = self._new_kernel(loaded.built), tuple(arguments)
        kernel.set_args(*held)
        enqueue_kernel = self._enqueue

        def enqueue() -> cl.Event:
            try:
                with runtime.gate.lock:
                    queue = runtime.current() if runtime.has_chosen else runtime.queue
                    event: cl.Event = enqueue_kernel(
                        queue, kernel, groups, workgroup, None, None, True
                    )
            except cl.Error as error:
                raise launch_error(error, f"launching {self._program.entry}") from error
            return event

        def run(_held: Any = held) -> None:
            if timeline.recording is not None:
                self._recorded(groups, enqueue)
                return
            event = enqueue()
            if runtime.blocking:
                runtime.wait(event)

        return run
