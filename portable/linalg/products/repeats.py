"""Sequences of launches and products, worked out once and repeated for matrices alike.

A factorisation of a matrix of some thousand columns is hundreds of launches, each of which takes
the host longer than the device: a thread keeps the arrays that it worked on, and what enqueues the
same launches on them again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from threading import local
from typing import Any, Final, TypeVar

from portable import recording
from portable.backend import Device
from portable.dtypes import DType
from portable.errors import PortableError
from portable.lang.launch.launch import Launcher
from portable.linalg.products.gemm import gemm, prepare_gemm
from portable.linalg.products.plan import beside_work, taken_units
from portable.system.isolation import collected_later, usable_cores

_KEPT: Final = 8
"""Plans that a thread keeps."""

_SHARE: Final = 64
"""The part of a device's memory that the arrays of a plan which is kept may have."""

_LEAST_BYTES: Final = 32 << 20

_Plan = TypeVar("_Plan")
_threads: Final = local()
"""Each thread has plans of its own: nobody else's launches come between those of a call."""


_Rooms = dict[Any, Any]
_rooms: Final[ContextVar[_Rooms | None]] = ContextVar("rooms", default=None)


def cached_plan(device: Device, key: Hashable, make: Callable[[], _Plan], size: int = 0) -> _Plan:
    """What was made for a key before by this thread, for the queue that it launches on.

    Parameters
    ----------
    device : Device
        Where.
    key : hashable
        What identifies the plan.
    make : callable
        Makes it, with arrays of its own: a later call overwrites them.
    size : int
        Bytes of its arrays; where they are many, nothing is kept.
    """
    if not is_kept(device, size):
        return make()
    plans: OrderedDict[Any, _Plan] = _threads.__dict__.setdefault("plans", OrderedDict())
    key = device.name, device.current_queue(), key
    plan = plans.get(key)
    if plan is None:
        plan = plans[key] = make()
        if len(plans) > _KEPT:
            plans.popitem(last=False)
    plans.move_to_end(key)
    return plan


def is_kept(device: Device, size: int) -> bool:
    """Whether a plan with so many bytes of arrays is kept."""
    most = max(_LEAST_BYTES, (device.capabilities.global_memory or 0) // _SHARE)
    return size <= most and not device.interprets


def repeated(device: Device, work: Callable[[], object]) -> Callable[[], object]:
    """What does the same work at each call, at the least cost.

    Parameters
    ----------
    device : Device
        Where.
    work : callable
        Launches kernels and calls `gemm` with ``out``, always the same, and nothing else. What it
        uses, the caller keeps.

    Returns
    -------
    callable
        The first call does the work as it is. Later ones replay it, by the device's own means if it
        has some, else by launches that were prepared.
    """
    rooms: _Rooms = {}

    def run() -> None:
        token = _rooms.set(rooms)
        try:
            work()
        finally:
            _rooms.reset(token)

    can = device.capabilities
    if not can.single_work_items and not device.interprets:
        _build_together(device, run)
    again = device.replay(run)
    return _Repeated(run) if again is run else again


def at_once(device: Device, first: Callable[[], object], second: Callable[[], object]) -> None:
    """As the device's own, of work that may be `repeated`, and takes room for a while.

    Parameters
    ----------
    device : Device
        Where.
    first, second : callable
        Two pieces of such work that do not depend on each other; what takes longer is the first.
    """
    device.at_once(first, partial(_in_other_rooms, second))


def _in_other_rooms(work: Callable[[], object]) -> None:
    """Work beside other, whose arrays are in use at the same time."""
    rooms = _rooms.get()
    token = _rooms.set(None if rooms is None else rooms.setdefault("beside", {}))
    try:
        work()
    finally:
        _rooms.reset(token)


def room_for(device: Device, role: str, shape: tuple[int, int, int], kind: DType) -> Any:
    """An array for a while, of which work that is `repeated` has one for each role.

    Parameters
    ----------
    device : Device
        Where.
    role : str
        What identifies it among others that are used at the same time.
    shape : (int, int, int)
        Its extents.
    kind : DType
        Its dtype.
    """
    rooms = _rooms.get()
    if rooms is None:
        return device.empty(shape, kind)
    key = role, shape[0], kind
    whole = rooms.get(key)
    has = (0, 0) if whole is None else tuple(int(x) for x in whole.shape[1:])
    if whole is None or has[0] < shape[1] or has[1] < shape[2]:
        extents = shape[0], max(shape[1], has[0]), max(shape[2], has[1])
        whole = rooms[key] = device.empty(extents, kind)
    return whole[:, : shape[1], : shape[2]]


_MOST_THREADS: Final = 16
_built: Final[set[Hashable]] = set()
"""What programs were built for, unless it is much: then it begins anew."""

_MOST_BUILT: Final = 1 << 14


def _build_together(device: Device, work: Callable[[], object]) -> None:
    """Builds the programs of work that is to be done, in many threads: a compiler takes seconds.

    Where that fails, or a program is missed, the work itself will build it, or tell why not.
    """
    if len(_built) > _MOST_BUILT:
        _built.clear()
    builder = _Builder()
    with recording.watching(builder):
        work()

    def build(step: Callable[[], object]) -> None:
        with suppress(PortableError), device.stream_scope():
            step()

    # Kernels first: products wait for each other, as many are made by one program.
    threads = min(_MOST_THREADS, usable_cores())
    with collected_later(), ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(build, (*builder.kernels, *builder.steps)):
            pass


class _Repeated:
    """Work that is done, then recorded, and then repeated by prepared launches."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work: Final = work
        self._calls = 0
        self._steps: tuple[Callable[[], object], ...] | None = None

    def __call__(self) -> None:
        """Enqueue it."""
        self._calls += 1
        if self._calls == 1:
            self._work()
        elif self._steps is None:
            recorder = _Recorder()
            with recording.watching(recorder):
                self._work()
            self._steps = tuple(recorder.steps)
        else:
            for step in self._steps:
                step()


class _Recorder:
    """Prepares launches and products while they are made."""

    def __init__(self) -> None:
        self.steps: list[Callable[[], object]] = []

    def launched(self, launcher: Any, args: Sequence[Any], constants: Mapping[str, Any]) -> bool:
        """Prepares a launch that is about to be made."""
        assert isinstance(launcher, Launcher)
        self.steps.append(launcher.prepare(*args, **constants))
        return False

    def operation(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Goes on with what an operation does, if it is no product."""
        if function is not gemm:
            return getattr(function, "__wrapped__", function)(*args, **kwargs)
        self.product(args, kwargs)
        return kwargs["out"]

    def product(self, args: Any, kwargs: Any) -> None:
        """Prepares a product, and makes it."""
        step = prepare_gemm(*args, **kwargs)
        self.steps.append(step)
        step()

    def applied(self, function: Any, name: str, operands: Sequence[Any], result: Any) -> None:
        """Nobody applies functions of numbers here."""
        raise AssertionError(f"{name} is applied")

    def unseen(self, reads: Sequence[Any], writes: Sequence[Any], name: str = "") -> None:
        """Nobody makes arrays that are not known by name here."""
        raise AssertionError("arrays are made")


class _Builder(_Recorder):
    """Gathers what builds programs, each once, instead of launching them."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels: list[Callable[[], object]] = []

    def launched(self, launcher: Any, args: Sequence[Any], constants: Mapping[str, Any]) -> bool:
        """Notes a kernel, its constants, and what its arrays are."""
        given = tuple(_form(x) for x in args)
        key = launcher.kernel, launcher.key[1], tuple(constants.values()), given
        self._note(self.kernels, key, partial(launcher.prepare, *args, **constants))
        return True

    def product(self, args: Any, kwargs: Any) -> None:
        """Notes a product, whose extents decide on what is launched."""
        extents = tuple(kwargs["out"].shape), args[0].shape[-1]
        taken = taken_units.get()
        key = _form(args[0]), _form(args[1]), extents, kwargs["beta"] != 0, taken

        def step() -> None:
            with beside_work(taken):
                prepare_gemm(*args, **kwargs)

        self._note(self.steps, key, step)

    def _note(
        self, steps: list[Callable[[], object]], key: Hashable, step: Callable[[], object]
    ) -> None:
        if key not in _built:
            _built.add(key)
            steps.append(step)


def _form(x: Any) -> Any:
    """What of an argument programs are made for, more or less."""
    if not hasattr(x, "strides"):
        return type(x)
    return x.dtype, tuple(step == x.dtype.itemsize for step in x.strides)
