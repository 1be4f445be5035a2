"""Work like earlier work, launched with little more than a look at its arrays.

A call of `conv2d` or of a gradient checks its arguments, finds its way, makes room and launches
some kernels: some 200 calls of Python. A call like a few before is found by its layouts and goes on
the launches of that one. What kernels leave for each other lies in the room of the call before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

import numpy as np

from portable.backend import ArrayView, Device
from portable.conv.launching import Launch, Step, recorded
from portable.dtypes import dtype
from portable.lang.arguments.arguments import ALIGNMENT, byte_range
from portable.lang.arguments.structs import flattened
from portable.lang.launch.launch import Repeatable
from portable.namespace import device_of_arrays
from portable.registry import registry
from portable.tune.table import recent_state, state

_AFTER: Final = 4
"""Calls after which it pays to remember more of them."""

_MOST: Final = 256
"""Calls that a thread remembers."""

_MOST_KEPT: Final = 512
"""The share of a device's memory that is kept as room of one of them is one over this."""

_ALL_KEPT: Final = 64
"""The same of all of them."""

_UNKNOWN_MEMORY: Final = 2**32
"""Bytes that a device is taken to have which does not say."""


class _Again(NamedTuple):
    """A launch: from which of the call's arrays and room its arguments come, and how far behind."""

    launch: Repeatable
    places: tuple[int, ...]
    shifts: tuple[int, ...]
    numbers: tuple[Any, ...]


class _Form(NamedTuple):
    """What arrays alike have in common that a key does not say."""

    phase: int
    writable: bool


class _Pair(NamedTuple):
    """Two arrays, the first of them written, and how far apart they begin where they meet."""

    first: int
    second: int
    near: int
    far: int


class _Known(NamedTuple):
    """A call that was made a few times.

    `queue` is that whose order keeps launches of two calls from using the room at once; `chosen`
    the device in use, where arrays are NumPy's; `kept` holds the room.
    """

    table: object
    device: Device
    queue: Hashable
    chosen: tuple[Device | None] | None
    make: Callable[[], Any]
    launches: tuple[_Again, ...]
    forms: tuple[_Form | None, ...]
    pairs: tuple[_Pair, ...]
    room: tuple[ArrayView, ...]
    kept: tuple[Any, ...]

    def launched(self, given: tuple[Any, ...]) -> bool:
        """Launches it for other arrays, the result last; False, nothing done, where it may not.

        In one function and without comprehensions, whose calls would be a third of all.
        """
        device = self.device
        if device.current_queue() != self.queue:
            return False
        if self.chosen is not None and registry.chosen_device() is not self.chosen[0]:
            return False
        views: list[Any] = []
        for x, form in zip(given, self.forms, strict=True):
            if form is None:
                views.append(None)
                continue
            if not device.owns(x):
                return False
            view = device.view(x)
            if view.address % ALIGNMENT != form.phase or view.writable != form.writable:
                return False
            views.append(view)
        for i, j, near, far in self.pairs:
            x, y = views[i], views[j]
            if x.owner == y.owner and near < x.address - y.address < far:
                return False  # what is written may share memory with another array
        views += self.room
        offsets = device.capabilities.pointer_offsets
        for launch, places, shifts, numbers in self.launches:
            handles: list[Any] = []
            begins: list[int] = []
            for i, by in zip(places, shifts, strict=True):
                handle = None if i < 0 else views[i].handle
                if offsets and i >= 0:
                    by += views[i].offset
                elif by:
                    handle = device.behind(handle, by)
                handles.append(handle)
                begins.append(by)
            launch(handles, begins, numbers)
        return True


class _OfThread(threading.local):
    """What a thread remembers, how often it was called for what it does not, and bytes of room."""

    def __init__(self) -> None:
        self.known: dict[Any, _Known] = {}
        self.counts: dict[Any, int] = {}
        self.room = 0

    def clear(self) -> None:
        """Forgets all."""
        self.known.clear()
        self.counts.clear()
        self.room = 0


_of_thread = _OfThread()


def remembered(
    arrays: tuple[Any, ...],
    out: Any,
    options: tuple[Any, ...],
    work: Callable[[], Any],
    *,
    beside: int = -1,
    written: tuple[int, ...] = (),
) -> Any:
    """Does some work, or what a call alike did, on other arrays.

    Parameters
    ----------
    arrays : tuple of array or None
        What it is done on.
    out : array or None
        Where the result is put, if that is given.
    options : tuple
        What else there is, hashable where it is right.
    work : callable
        Gives the result, `out` or a new array. All its launches are by `enqueue` and
        `enqueue_call`, and read nothing but what is given and what they made.
    beside : int
        The number of the array that the result may be.
    written : tuple of int
        The numbers of arrays that are written as well.
    """
    key = _key_of((*arrays, out), options, beside >= 0 and arrays[beside] is out)
    try:
        known = _of_thread.known.get(key)
    except TypeError:  # options that are to be refused, or lists
        return work()
    if known is not None and known.table is recent_state():
        result = known.make() if out is None else out
        if known.launched((*arrays, result)):
            return result
    if key is None or not _pays_to_learn(key):
        return work()
    with recorded() as steps:
        result = work()
    _learn(key, (*arrays, result), steps, (len(arrays), *written), beside)
    return result


def _key_of(given: tuple[Any, ...], options: tuple[Any, ...], in_place: bool) -> Any:
    """What calls alike have in common, as far as it is cheap to say; None where it is not."""
    parts: list[Any] = []
    try:
        for x in given:  # a comprehension would be a call
            parts.append(None if x is None else (x.dtype, x.shape, x.strides))  # noqa: PERF401
    except AttributeError:  # no arrays at all, or of libraries that have no strides
        return None
    return (*parts, in_place, options)


def _pays_to_learn(key: Any) -> bool:
    """Counts a call, and tells whether it is to be remembered."""
    counts = _of_thread.counts
    if len(counts) >= _MOST:
        _of_thread.clear()
    count = counts[key] = counts.get(key, 0) + 1
    return count % _AFTER == 0


def _learn(
    key: Any,
    given: tuple[Any, ...],
    steps: Sequence[Step],
    written: tuple[int, ...],
    beside: int,
) -> None:
    """Gets ready for more calls like one that was right."""
    device = device_of_arrays(given[-1])
    if device.interprets or not steps:
        return
    views = [None if x is None else device.view(x) for x in given]
    same = {beside, len(given) - 1} if beside >= 0 and given[beside] is given[-1] else set()
    if _share_memory(views, same) or not all(v is None or _lies_whole(v) for v in views):
        return
    arrays, room = list(given), list[ArrayView]()
    launches = [_again(device, step, arrays, views, room) for step in steps]
    kept = tuple(x for x in launches if x is not None)
    taken = _bytes_of(room)
    memory = device.capabilities.global_memory or _UNKNOWN_MEMORY
    if len(kept) < len(steps) or taken * _MOST_KEPT > memory:
        return
    before = _of_thread.known.pop(key, None)
    if before is not None:
        _of_thread.room -= _bytes_of(before.room)
    if (_of_thread.room + taken) * _ALL_KEPT > memory:
        _of_thread.clear()
    _of_thread.room += taken
    result = tuple(given[-1].shape), dtype(given[-1].dtype)
    _of_thread.known[key] = _Known(
        state(),
        device,
        device.current_queue(),
        (registry.chosen_device(),) if any(type(x) is np.ndarray for x in given) else None,
        device.maker(*result),
        kept,
        tuple(None if v is None else _Form(v.address % ALIGNMENT, v.writable) for v in views),
        tuple(_pairs(views, written, same)),
        tuple(room),
        tuple(arrays[len(given) :]),
    )


def _bytes_of(room: Sequence[ArrayView]) -> int:
    return sum(high - low for low, high in map(byte_range, room))


def _lies_whole(view: ArrayView) -> bool:
    """Whether elements follow each other in C order: of others libraries' reshapes are copies."""
    size = view.dtype.itemsize
    for extent, stride in zip(reversed(view.shape), reversed(view.strides), strict=True):
        if extent > 1 and stride != size:
            return False
        size *= extent
    return True


def _pairs(
    views: Sequence[ArrayView | None], written: tuple[int, ...], same: set[int]
) -> Iterator[_Pair]:
    """Those of which one is written, but for the two that are the same."""
    for i in written:
        for j, other in enumerate(views):
            view = views[i]
            if view is None or other is None or i == j or {i, j} == same:
                continue
            (low, high), (other_low, other_high) = byte_range(view), byte_range(other)
            yield _Pair(i, j, other_low - high, other_high - low)


def _share_memory(views: Sequence[ArrayView | None], same: set[int]) -> bool:
    """Whether bytes of an array say not which one they are of; two may be the same."""
    return any(
        a is not None and b is not None and a.owner == b.owner and _bytes_meet(a, b)
        for (i, a), (j, b) in combinations(enumerate(views), 2)
        if {i, j} != same
    )


def _bytes_meet(a: ArrayView, b: ArrayView) -> bool:
    (low, high), (other_low, other_high) = byte_range(a), byte_range(b)
    return a.address + low < b.address + other_high and b.address + other_low < a.address + high


def _again(
    device: Device,
    step: Step,
    arrays: list[Any],
    views: list[ArrayView | None],
    room: list[ArrayView],
) -> _Again | None:
    """A step as a launch of what is given and of room, which it may add to; None for other work."""
    if not isinstance(step, Launch):
        return None
    places, shifts, numbers = [], [], []
    leaves = flattened(step.args)
    for x in leaves:
        if not device.owns(x):
            places.append(-1)
            shifts.append(0)
            numbers.append(x)
            continue
        view = device.view(x)
        number = _place_of(view, [*views, *room])
        if number is None:
            number = len(views) + len(room)
            room.append(view)
            arrays.append(x)
        whole = [*views, *room][number]
        assert whole is not None
        places.append(number)
        shifts.append(view.address - whole.address)
        numbers.append(None)
    disjoint = not _share_memory([device.view(x) for x in leaves if device.owns(x)], set())
    launch = step.launcher.repeatable(step.args, step.constants, disjoint=disjoint)
    return _Again(launch, tuple(places), tuple(shifts), tuple(numbers))


def _place_of(view: ArrayView, arrays: Sequence[ArrayView | None]) -> int | None:
    """The number of the array that holds the bytes of another; its result comes last."""
    for i, held in enumerate(arrays):
        if held is None or held.owner != view.owner:
            continue
        (low, high), (first, last) = byte_range(held), byte_range(view)
        begin = view.address - held.address
        if low <= begin + first and begin + last <= high:
            return i
    return None
