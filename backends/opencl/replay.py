"""Work that is enqueued again and again, by one call of code compiled by LLVM.

OpenCL has no graphs: each launch is the driver's to enqueue. What it costs beside that is paid
once, when it is captured: it gets a kernel object of its own, whose arguments are set. Python and
PyOpenCL take no part in the launches then, nor are there events.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import cache as once
from importlib.resources import files
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import pyopencl as cl

from portable.profiling import timeline
from portable_backends.common.native_compiler import compiler

if TYPE_CHECKING:
    from portable_backends.opencl.runtime import Runtime

_STEP: Final = struct.Struct("=qQ3Q3Q")
_HERE, _BESIDE, _FORK, _JOIN = range(4)
_NO_LAUNCH: Final = (0,) * 7
_FUNCTIONS: Final = (
    "clEnqueueNDRangeKernel",
    "clEnqueueMarkerWithWaitList",
    "clEnqueueBarrierWithWaitList",
    "clFlush",
    "clReleaseEvent",
)

numbers: Final = count()
"""Of queues beside first ones, for good."""


class _Code(NamedTuple):
    """The compiled loop, and what it calls.

    Attributes
    ----------
    run : callable
        Takes the driver's functions, steps and their number, the queue, and the one beside it.
    functions : ctypes array
        Addresses.
    holder : object
        Holds the loop.
    """

    run: Callable[[Any, bytes, int, int, int], int]
    functions: Any
    holder: object


@once
def _code() -> _Code:
    text = (files(__package__) / "replay.ll").read_text(encoding="utf-8")
    image = compiler.object_of(text, "the loop over launches", passes=False)
    linked = compiler.link(image, ("portable_replay",))
    pointer, number, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
    kind = ctypes.CFUNCTYPE(number, pointer, ctypes.c_char_p, size, pointer, pointer)
    library = _loader()
    functions = [ctypes.cast(getattr(library, name), pointer).value for name in _FUNCTIONS]
    run = kind(linked.addresses["portable_replay"])
    return _Code(run, (pointer * len(functions))(*functions), linked.holder)


def _loader() -> ctypes.CDLL:
    """The library that PyOpenCL goes to drivers by; under Windows another of the same kind."""
    library = ctypes.CDLL(cl._cl.__file__)
    return library if hasattr(library, _FUNCTIONS[0]) else ctypes.CDLL("OpenCL")


class NotCapturedError(Exception):
    """Something else than a launch was to be captured."""


class CapturedQueue:
    """Stands in the place of a queue for launches of a thread that are captured.

    Attributes
    ----------
    number : int
        Its own, for good.
    pool : pyopencl.tools.MemoryPool
        Where arrays made meanwhile have their memory from, which nobody else is given.

    Parameters
    ----------
    new_pool : callable
        Makes such a pool.
    main : CapturedQueue, optional
        What it is beside.
    """

    def __init__(self, new_pool: Callable[[], Any], main: CapturedQueue | None = None) -> None:
        self.number: int = next(numbers)
        self.pool = new_pool()
        self.steps: bytearray = bytearray() if main is None else main.steps
        self.kernels: list[cl.Kernel] = [] if main is None else main.kernels
        self.beside = CapturedQueue(new_pool, self) if main is None else None

    @property
    def handle(self) -> NoReturn:
        """None: what asks for it copies to the host, or waits.

        Raises
        ------
        NotCapturedError
            Always.
        """
        raise NotCapturedError

    def launch(
        self, kernel: cl.Kernel, groups: tuple[int, int, int], workgroup: tuple[int, int, int]
    ) -> None:
        """Writes down a launch of a kernel object that is nobody else's."""
        side = _BESIDE if self.beside is None else _HERE
        ndrange = (n * items for n, items in zip(groups, workgroup, strict=True))
        self.steps += _STEP.pack(side, kernel.int_ptr, *ndrange, *workgroup)
        self.kernels.append(kernel)

    def at_once(
        self, runtime: Runtime, first: Callable[[], object], second: Callable[[], object]
    ) -> None:
        """As of a device; what is beside other work already follows it."""
        if self.beside is None:
            first()
            second()
            return
        self.steps += _STEP.pack(_FORK, *_NO_LAUNCH)
        first()
        with runtime.chosen(self.beside):
            second()
        self.steps += _STEP.pack(_JOIN, *_NO_LAUNCH)


class Replay:
    """Enqueues the same work at each call: the first as it is, later ones as it was captured.

    The first call loads programs and chooses among them. Launches are enqueued one by one while
    they are recorded, so that each is seen, and where the work does more than launch.

    Parameters
    ----------
    runtime : Runtime
        Where.
    work : callable
        As `portable.backend.Device.replay` takes it.
    new_pool : callable
        Makes a pool of memory.
    """

    def __init__(
        self, runtime: Runtime, work: Callable[[], object], new_pool: Callable[[], Any]
    ) -> None:
        self._runtime: Final = runtime
        self._work: Final = work
        self._new_pool: Final = new_pool
        self._plain = True
        self._fails = False
        self._captured: CapturedQueue | None = None
        self._steps = b""

    def __call__(self) -> None:
        """Enqueue it in the current queue."""
        runtime = self._runtime
        if self._plain or timeline.recording is not None or runtime.captured is not None:
            self._work()
            self._plain = self._fails
            return
        if self._captured is None:
            try:
                self._captured = self._capture()
            except NotCapturedError:
                self._plain = self._fails = True
                self._work()
                return
        runtime.replay(self._enqueue)

    def _capture(self) -> CapturedQueue:
        captured = CapturedQueue(self._new_pool)
        with self._runtime.chosen(captured):
            self._work()
        self._steps = bytes(captured.steps)
        return captured

    def _enqueue(self, queue: cl.CommandQueue, beside: cl.CommandQueue) -> int:
        """What the driver says: 0 if all is well."""
        code, steps = _code(), self._steps
        count = len(steps) // _STEP.size
        return code.run(code.functions, steps, count, queue.int_ptr, beside.int_ptr)
