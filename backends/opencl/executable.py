"""Kernels that an OpenCL driver built, and the queues in which they run."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyopencl as cl

from portable.backend import Argument, Executable, Program
from portable.backend.queues import Mark, Queue
from portable.dtypes import bool_
from portable.errors import (
    InterruptedLaunchError,
    LaunchError,
    OutOfMemoryError,
    PortableError,
)
from portable.profiling import timeline
from portable_backends.common.gate import wait_interrupted, wait_listening
from portable_backends.common.tensor_maps import BOXES_BYTES, describing
from portable_backends.opencl.capabilities import platform_word
from portable_backends.opencl.replay import Step, job_of, numbers

if TYPE_CHECKING:
    from portable_backends.opencl.runtime import Runtime


# OpenCL's command queues beside a runtime's own one, and marks in them.


NANO = 1e-9


class OpenCLMark(Mark):
    """A marker in a queue, timed by one in a queue that records times where its own does not."""

    def __init__(self, runtime: Runtime, queue: cl.CommandQueue) -> None:
        self._runtime = runtime
        with runtime.gate.lock:
            self.event: cl.Event = cl.enqueue_marker(queue)
            self._timed = self.event
            if not runtime.records_times:
                queue.flush()
                timekeeper = runtime.timekeeper
                # NVIDIA's driver gives no time for a marker that itself waits for an event.
                cl.enqueue_barrier(timekeeper, wait_for=[self.event])
                self._timed = cl.enqueue_marker(timekeeper)
                timekeeper.flush()

    @property
    def reached(self) -> bool:
        """Whether the marker is complete."""
        return bool(self.event.command_execution_status == cl.command_execution_status.COMPLETE)

    def wait(self) -> None:
        """Wait for the marker."""
        self._runtime.wait(self.event)

    def seconds_after(self, earlier: Any) -> float:
        """By the device's clock."""
        for mark in (earlier, self):
            self._runtime.wait(mark._timed)
        return NANO * float(self._timed.profile.end - earlier._timed.profile.end)


class OpenCLQueue(Queue):
    """A further in-order queue of a runtime.

    Parameters
    ----------
    runtime : Runtime
        Whose context it shares.

    Attributes
    ----------
    handle : pyopencl.CommandQueue
        The queue; another one while times are recorded.
    number : int
        Its own, for good.
    pool : pyopencl.tools.MemoryPool or None
        Where the arrays made in its scope have their memory from, so that what one of them gives up
        is not given to another queue which does not wait for this one.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.handle: cl.CommandQueue = runtime.new_queue()
        self.number: int = next(numbers)
        self.pool: Any = None

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Launches and copies of this thread go here."""
        with self._runtime.chosen(self):
            yield

    def mark(self) -> Mark:
        """A marker at its end."""
        return OpenCLMark(self._runtime, self.handle)

    def wait_for(self, mark: Mark) -> None:
        """A barrier that waits for the mark's event."""
        assert isinstance(mark, OpenCLMark)
        with self._runtime.gate.lock:
            cl.enqueue_barrier(self.handle, wait_for=[mark.event])

    def synchronize(self) -> None:
        """Wait for the queue."""
        self._runtime.wait_for_all([self.handle])


# What OpenCL's errors mean.

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


def launch_error(error: cl.Error | struct.error, what: str) -> PortableError:
    """The exception of ours that an OpenCL error means, `what` being what was tried."""
    if isinstance(error, struct.error):
        return LaunchError(f"{what}: {error}")
    return status_error(error.code, what)


def status_error(code: int, what: str) -> PortableError:
    """The exception of ours that a status of OpenCL means."""
    text = f"{what}: {cl.status_code.to_string(code, 'OpenCL error %d')}"  # type: ignore[operator]
    if code in _OUT_OF_MEMORY:
        return OutOfMemoryError(f"{text}; the device has no room for it")
    if code in _BAD_WORKGROUP:
        return LaunchError(f"{text}; use a smaller workgroup or ndrange")
    if code == cl.status_code.OUT_OF_RESOURCES:
        return LaunchError(f"{text}; use a smaller workgroup or less local memory")
    return LaunchError(text)


# -- executable ------------------------------------------------------------------------------------


_BOXES: Final = np.dtype(("V", BOXES_BYTES))


def _scalar_type(argument: Argument) -> Any:
    if argument.kind == "pointer":
        return None
    if argument.kind == "box":
        return _BOXES
    return np.dtype(np.uint8) if argument.type is bool_ else argument.type.numpy


def _number_format(argument: Argument) -> str:
    return f"{BOXES_BYTES}s" if argument.kind == "box" else str(_scalar_type(argument).char)


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
        self._pack = struct.Struct(formats).pack
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


_MOST_JOBS: Final = 64
_enqueue: Any = cl.enqueue_nd_range_kernel


class _Loaded(NamedTuple):
    """What a driver holds of a program, and what enqueues so many workgroups of it."""

    built: cl.Program
    kernel: cl.Kernel
    set: _Setter
    job: Callable[[tuple[int, int, int]], bytes]


class OpenCLExecutable(Executable):
    """A kernel with its workgroup, its arguments' types and one lock-protected kernel object.

    What the driver holds of it may be given up between launches (`KeptPrograms`).
    """

    def __init__(self, runtime: Runtime, program: Program, code: bytes | None = None) -> None:
        self.launched = True
        self._may_be_long = True
        self._code = code
        self._runtime = runtime
        self._program = program
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
        setter, workgroup = _Setter(kernel, self._program.arguments), self._workgroup
        job = lru_cache(_MOST_JOBS)(lambda groups: job_of([Step(kernel, groups, workgroup)]))
        self._loaded = loaded = _Loaded(built, kernel, setter, job)
        self.launched = True  # about to be, or it would not have been loaded
        self._runtime.programs.add(self)
        return loaded

    def _new_kernel(self, built: cl.Program) -> cl.Kernel:
        kernel = cl.Kernel(built, self._program.entry)
        kernel.set_scalar_arg_dtypes([_scalar_type(a) for a in self._program.arguments])
        return kernel

    def _check_workgroup(self, kernel: cl.Kernel) -> None:
        """Registers may allow fewer work-items than the device does at best.

        NVIDIA's OpenCL answers 256 even where it compiled a kernel for more.
        """
        info, device = cl.kernel_work_group_info, self._runtime.device
        most: Any = kernel.get_work_group_info(info.WORK_GROUP_SIZE, device)
        if math.prod(self._workgroup) > most and platform_word(device) != "nvidia":
            raise LaunchError(
                f"{self._program.name} can run with at most {most} work-items in a workgroup on "
                f"{self._runtime.device.name}; it was given {self._workgroup}"
            )

    def launch(self, groups: tuple[int, int, int], arguments: Sequence[Any]) -> None:
        """Enqueue the kernel; in order, and finished on return where the runtime blocks.

        Each call in here is a hundredth of a launch, so that there are few.
        """
        runtime = self._runtime
        noting = None
        if timeline.recording is not None:
            noting = runtime.noting(self._program.name, "launch", groups, self._workgroup)
        try:
            with runtime.gate.lock:
                if runtime.has_chosen and (captured := runtime.captured) is not None:
                    captured.add(Step(self._bound(arguments), groups, self._workgroup))
                    return
                loaded = self._loaded or self._load()
                loaded.set(arguments)
                self.launched = True
                if noting is None and not runtime.blocking:
                    runtime.enqueue(loaded.job(groups), self._program.name)
                    return
                queue, kernel = runtime.current(), loaded.kernel
                event = _enqueue(queue, kernel, groups, self._workgroup, None, None, True)
            if runtime.blocking:
                if self._may_be_long or runtime.gate.abandoned:
                    self._listen(event)
                else:
                    runtime.wait(event)
        except (cl.Error, struct.error) as error:
            raise launch_error(error, f"launching {self._program.name}") from error
        except KeyboardInterrupt as error:
            self._leave(error)
            raise
        if noting is not None:
            noting(event)

    def boxes(
        self, argument: Argument, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> Callable[[Any, int], Any]:
        """From an array's buffer to NVIDIA's description of it."""
        describe, address_of = describing(argument, shape, strides), self._runtime.addresses.of

        def described(buffer: Any, offset: int) -> bytes:
            try:
                return describe(address_of(buffer), offset)
            except cl.Error as error:
                raise launch_error(error, f"launching {self._program.name}") from error

        return described

    def _leave(self, interruption: KeyboardInterrupt) -> None:
        """Wait for a launch that Ctrl-C may have left between its beginning and its end.

        The caller's arrays must not go away beneath it.
        """
        runtime = self._runtime
        if runtime.blocking and not isinstance(interruption, InterruptedLaunchError):
            wait_interrupted(runtime.gate, f"kernel {self._program.name}", runtime.finish)

    def _listen(self, event: cl.Event) -> None:
        """Wait for a first launch, or one after a long one, so that Ctrl-C is heard."""
        runtime, what = self._runtime, f"kernel {self._program.name}"
        self._may_be_long = wait_listening(runtime.gate, what, lambda: runtime.wait(event))

    def prepare(self, groups: tuple[int, int, int], arguments: Sequence[Any]) -> Callable[[], None]:
        """A launch through a kernel object of its own, whose arguments are set once."""
        runtime, name = self._runtime, self._program.name
        if runtime.blocking:
            return super().prepare(groups, arguments)
        step = Step(self._bound(arguments), groups, self._workgroup)
        job = job_of([step])

        def run() -> None:
            if timeline.recording is not None:
                self.launch(groups, arguments)
            elif runtime.has_chosen and (captured := runtime.captured) is not None:
                captured.add(step)
            else:
                runtime.enqueue(job, name)

        return run

    def _bound(self, arguments: Sequence[Any]) -> cl.Kernel:
        """A kernel object of its own, with its arguments."""
        with self._runtime.gate.lock:
            loaded = self._loaded or self._load()
            kernel = self._new_kernel(loaded.built)
            kernel.set_args(*arguments)
        return kernel
