"""Sequences of launches and products, worked out once and repeated for matrices alike.

A factorisation of a matrix of some thousand columns is hundreds of launches, each of which takes
the host longer than the device: a thread keeps the arrays that it worked on, and what enqueues the
same launches on them again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextvars import ContextVar
from threading import local
from typing import Any, Final, TypeVar

from portable import recording
from portable.backend import Device
from portable.dtypes import DType
from portable.lang.launch.launch import Launcher
from portable.linalg.products.gemm import gemm, prepare_gemm

_KEPT: Final = 8
"""Plans that a thread keeps."""

_SHARE: Final = 128
"""The part of a device's memory that the arrays of a plan which is kept may have."""

_LEAST_BYTES: Final = 32 << 20

_Plan = TypeVar("_Plan")
_threads: Final = local()
"""Each thread has plans of its own: nobody else's launches come between those of a call."""


_Rooms = dict[Any, Any]
_rooms: Final[ContextVar[_Rooms | None]] = ContextVar("rooms", default=None)


def kept_plan(device: Device, key: Hashable, make: Callable[[], _Plan], size: int = 0) -> _Plan:
    """What was made for a key before by this thread, for the queue that it launches on.

    Parameters
    ----------
    device : Device
        Where.
    key : hashable
        What tells the plan from all others.
    make : callable
        Makes it, with arrays of its own: a later call overwrites them.
    size : int
        Bytes of its arrays; where they are many, nothing is kept.
    """
    most = max(_LEAST_BYTES, (device.capabilities.global_memory or 0) // _SHARE)
    if size > most or device.interprets:
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

    return device.replay(run) if device.capabilities.replays else _Repeated(run)


def room_for(device: Device, role: str, shape: tuple[int, int, int], kind: DType) -> Any:
    """An array for a while, of which work that is `repeated` has one for each role.

    Parameters
    ----------
    device : Device
        Where.
    role : str
        What tells it from others that are used at the same time.
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


class _Repeated:
    """Work that is done, then recorded, and then repeated by prepared launches."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work: Final = work
        self._calls = 0
        self._steps: tuple[Callable[[], None], ...] | None = None

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
        self.steps: list[Callable[[], None]] = []

    def launched(self, launcher: Any, args: Sequence[Any], constants: Mapping[str, Any]) -> None:
        """Prepares a launch that is about to be made."""
        assert isinstance(launcher, Launcher)
        self.steps.append(launcher.prepare(*args, **constants))

    def operation(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Prepares a product, and makes it."""
        if function is not gemm:
            return getattr(function, "__wrapped__", function)(*args, **kwargs)
        step = prepare_gemm(*args, **kwargs)
        self.steps.append(step)
        step()
        return kwargs["out"]

    def applied(self, function: Any, name: str, operands: Sequence[Any], result: Any) -> None:
        """Nobody applies functions of numbers here."""
        raise AssertionError(f"{name} is applied")

    def unseen(self, reads: Sequence[Any], writes: Sequence[Any]) -> None:
        """Nobody makes arrays that are not known by name here."""
        raise AssertionError("arrays are made")
