"""Launches that are enqueued again and again, by one call of code compiled by LLVM.

OpenCL has no graphs: each launch is the driver's to enqueue. What it costs beside that is paid
once, when it is captured: it gets a kernel object of its own, whose arguments are set. Python and
PyOpenCL take no part in the launches then, nor are there events but of what others wait for.
Launches by themselves go the same way, as jobs of one step.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from functools import cache as once
from importlib.resources import files
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import pyopencl as cl

from portable.errors import DeviceError
from portable.profiling import timeline
from portable_backends.common.native_compiler import compiler, keep_for_good

if TYPE_CHECKING:
    from portable_backends.opencl.runtime import Runtime

_HEAD: Final = struct.Struct("=4Qq")
_STEP: Final = struct.Struct("=qQ3Q3Q")
_FUNCTIONS: Final = (
    "clEnqueueNDRangeKernel",
    "clEnqueueBarrierWithWaitList",
    "clFlush",
    "clReleaseEvent",
)

numbers: Final = count()
"""Of queues beside first ones, for good."""


class Step(NamedTuple):
    """A launch; a barrier where there is no kernel.

    Attributes
    ----------
    kernel : pyopencl.Kernel or None
        With its arguments, and nobody else's.
    groups, workgroup : (int, int, int)
        Workgroups, and work-items of each.
    beside : bool
        Whether it goes to the queue beside.
    gives : bool
        Whether what comes next in the other queue waits for it.
    """

    kernel: cl.Kernel | None = None
    groups: tuple[int, int, int] = (1, 1, 1)
    workgroup: tuple[int, int, int] = (1, 1, 1)
    beside: bool = False
    gives: bool = False

    def packed(self) -> bytes:
        """As replay.ll has it."""
        ndrange = (n * items for n, items in zip(self.groups, self.workgroup, strict=True))
        handle = 0 if self.kernel is None else self.kernel.int_ptr
        return _STEP.pack(self.beside + 2 * self.gives, handle, *ndrange, *self.workgroup)


@once
def _functions() -> list[Any]:
    """OpenCL's own."""
    library = ctypes.CDLL(cl._cl.__file__)
    if not hasattr(library, _FUNCTIONS[0]):  # under Windows; any loader of drivers will do
        library = ctypes.CDLL("OpenCL")
    return [getattr(library, x) for x in _FUNCTIONS]


@once
def _addresses() -> list[int | None]:
    return [ctypes.cast(x, ctypes.c_void_p).value for x in _functions()]


def job_of(steps: Sequence[Step]) -> bytes:
    """What `enqueuer` takes; the caller keeps the kernels."""
    head = _HEAD.pack(*_addresses(), len(steps))
    return head + b"".join(step.packed() for step in steps)


@once
def enqueuer() -> Callable[[bytes, int, int], int]:
    """What enqueues a job in one queue and another, and gives the driver's status."""
    text = (files(__package__) / "replay.ll").read_text(encoding="utf-8")
    try:
        image = compiler.object_of(text, "the loop over launches", passes=False)
    except DeviceError:  # llvmlite is not made for every machine that has OpenCL
        return enqueue_by_python
    linked = compiler.link(image, ("portable_enqueue",))
    keep_for_good(linked.holder)
    pointer = ctypes.c_void_p
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, pointer, pointer)
    return kind(linked.addresses["portable_enqueue"])


def enqueue_by_python(job: bytes, queue: int, beside: int) -> int:
    """As replay.ll does, at Python's cost for each launch."""
    pointer, number = ctypes.c_void_p, ctypes.c_uint
    launch, hold, flush, release = _functions()
    queues, waited = (pointer(queue), pointer(beside)), [pointer(), pointer()]
    status = 0

    def let_go(side: int) -> None:
        if waited[side].value is not None:
            release(waited[side])
            waited[side] = pointer()

    for what, kernel, *sizes in _STEP.iter_unpack(job[_HEAD.size :]):
        side, gives = what & 1, what >= 2
        first, given = waited[side], pointer()
        common = number(bool(first)), ctypes.byref(first) if first else None
        event = ctypes.byref(given) if gives else None
        if kernel:
            extents = [(ctypes.c_size_t * 3)(*sizes[i : i + 3]) for i in (0, 3)]
            ndrange = number(3), None, *extents
            status = launch(queues[side], pointer(kernel), *ndrange, *common, event)
        else:
            status = hold(queues[side], *common, event)
        let_go(side)
        if gives:
            let_go(1 - side)  # what it was to wait for so far came before this one
            waited[1 - side] = given
            flush(queues[side])
        if status:
            break
    let_go(0)
    let_go(1)
    return int(status)


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
    steps : list of Step
        What was captured, of the queue beside as well.

    Parameters
    ----------
    runtime : Runtime
        Of the queues.
    new_pool : callable
        Makes such a pool.
    main : CapturedQueue, optional
        What it is beside.
    """

    def __init__(
        self, runtime: Runtime, new_pool: Callable[[], Any], main: CapturedQueue | None = None
    ) -> None:
        self._runtime = runtime
        self.number: int = next(numbers)
        self.pool = new_pool()
        self.steps: list[Step] = [] if main is None else main.steps
        self._beside = CapturedQueue(runtime, new_pool, self) if main is None else None
        runtime.captures.add(self)

    @property
    def handle(self) -> NoReturn:
        """None: what asks for it copies to the host, or waits.

        Raises
        ------
        NotCapturedError
            Always.
        """
        raise NotCapturedError

    def add(self, step: Step) -> None:
        """Writes a launch down."""
        self.steps.append(step._replace(beside=self._beside is None))

    def at_once(self, first: Callable[[], object], second: Callable[[], object]) -> None:
        """As of a device; what is beside other work already follows it."""
        if self._beside is None:
            first()
            second()
            return
        self._give(beside=False)
        first()
        with self._runtime.chosen(self._beside):
            second()
        self._give(beside=True)

    def _give(self, *, beside: bool) -> None:
        """Has what comes next in the other queue wait for what is in this one."""
        steps = self.steps
        last = steps.pop() if steps and steps[-1].beside == beside else Step(beside=beside)
        steps.append(last._replace(gives=True))

    def job(self) -> bytes:
        """All of it, at the end of which nothing is left beside."""
        return job_of([*self.steps, Step()] if self.steps and self.steps[-1].beside else self.steps)


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
        self._warm = False
        self._captured: tuple[bytes, CapturedQueue | None] | None = None
        """What is enqueued, and what holds its kernels and memory: threads see both or none."""

    def __call__(self) -> None:
        """Enqueue it in the current queue."""
        runtime = self._runtime
        as_it_is = timeline.recording is not None or runtime.captured is not None
        if self._warm and self._captured is None and not as_it_is:
            self._captured = self._capture()
        captured = self._captured
        if captured is not None and captured[0] and not as_it_is:
            runtime.enqueue(captured[0], "what was captured")
        else:
            self._work()
            self._warm = True

    def _capture(self) -> tuple[bytes, CapturedQueue | None]:
        """The job; an empty one, which holds no memory, if the work does more than launch."""
        queue = CapturedQueue(self._runtime, self._new_pool)
        try:
            with self._runtime.chosen(queue):
                self._work()
        except NotCapturedError:
            return b"", None
        return queue.job(), queue
