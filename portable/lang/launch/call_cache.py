"""A cache of calls of operations: one like an earlier call only launches its kernels.

A call of `gemm` or `conv2d` checks its arguments, chooses a way, allocates a workspace and launches
some kernels: up to 200 calls of Python. A call with the same options and layouts as a few before is
looked up and repeats their launches by a compiled function (`plan`). The workspace is kept and
used again.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from portable.backend import ArrayView, Device
from portable.dtypes import dtype
from portable.errors import InterruptedLaunchError
from portable.interchange.jax_arrays import giver_like, is_recognised
from portable.interchange.libraries import stream_of
from portable.interchange.tensors import is_tensor
from portable.lang.arguments.arguments import byte_range
from portable.lang.arguments.structs import flattened
from portable.lang.launch.enqueued import RECORDING, Launch, Step, recorded
from portable.lang.launch.packing import ArgumentText
from portable.lang.launch.plan import Pair, Relaunch, Text, text_for
from portable.namespace import device_of_arrays, on_device

_AFTER: Final = 4
"""Calls after which it pays to remember more of them."""

_MOST: Final = 1024
"""Calls that a thread remembers."""

_MOST_KEPT: Final = 512
"""The share of a device's memory that is kept as room of one of them is one over this."""

_ALL_KEPT: Final = 64
"""The same of all of them."""

_UNKNOWN_MEMORY: Final = 2**32
"""Bytes that a device is taken to have which does not say."""

_NO_CONSTANTS: Final[dict[str, Any]] = {}

_still_used: Final[list[object]] = []
"""Arguments of launches that Ctrl-C left running."""


class CallTraits(NamedTuple):
    """What is known beforehand of an operation's calls.

    Attributes
    ----------
    alike : tuple of (int, int)
        Arrays, the result being the last, that may be one and the same.
    written : tuple of int
        The numbers of arrays that are written beside the result.
    whole : bool
        Whether arrays that have gaps, or another order than C's, are copied unseen.
    """

    alike: tuple[tuple[int, int], ...] = ()
    written: tuple[int, ...] = ()
    whole: bool = False


class _CachedCall(NamedTuple):
    """A call that was made a few times.

    `give` makes the result an array of another library, if it is to be one. `queue` is that whose
    order keeps launches of two calls from using the room at once, where there is some, which `kept`
    holds, and where `relaunch` does not ask; `size` is that of it in bytes.
    """

    table: object
    device: Device
    queue: Hashable
    make: Callable[[], Any]
    give: Callable[[Any], Any] | None
    relaunch: Relaunch
    kept: tuple[Any, ...]
    size: int

    def launched(self, given: tuple[Any, ...]) -> bool:
        """Launches it for others, the result last; False, nothing done, where it may not."""
        if self.kept and self.queue not in (None, self.device.current_queue()):
            return False
        try:
            return self.relaunch(given, _NO_CONSTANTS)
        except InterruptedLaunchError:
            _still_used.append((given, self.kept))
            raise


class _ThreadCache(threading.local):
    """What a thread remembers, how often it was called for what it does not, and bytes of room."""

    def __init__(self) -> None:
        self.known: dict[Any, _CachedCall] = {}
        self.counts: dict[Any, int] = {}
        self.room = 0

    def clear(self) -> None:
        """Forgets all."""
        self.known.clear()
        self.counts.clear()
        self.room = 0


_of_thread = _ThreadCache()


def cached_call(
    calls: CallTraits,
    arrays: tuple[Any, ...],
    out: Any,
    options: tuple[Any, ...],
    numbers: tuple[float, ...],
    table: object,
    work: Callable[..., Any],
) -> Any:
    """Does some work, or what a call alike did, on other arrays.

    Parameters
    ----------
    calls : CallTraits
        What calls of the operation are like.
    arrays : tuple of array or None
        What the work is done on.
    out : array or None
        Where the result is put, if that is given.
    options : tuple
        What else there is, hashable where it is right.
    numbers : tuple of float
        Factors and the like, each call's own, which launches are given as they are.
    table : object
        The state of tuned parameters.
    work : callable
        Takes the arrays, `out`, the options and each number, and gives the result, `out` or a new
        array. All its launches are by `enqueue` and `enqueue_call`, and read nothing but what is
        given and what they made.
    """
    if RECORDING.get() is not None:  # a part of another call, which remembers it all
        return work(arrays, out, options, *numbers)
    key = _key(calls, arrays, out, options)
    try:
        known = _of_thread.known.get(key)
    except TypeError:  # options that are to be refused, or lists
        return work(arrays, out, options, *numbers)
    if known is not None and known.table is table:
        try:
            result = known.make() if out is None else out
        except MemoryError:
            return work(arrays, out, options, *numbers)
        if known.launched((*numbers, *arrays, result)):
            return result if known.give is None else known.give(result)
    if key is None or not _pays_to_learn(key):
        return work(arrays, out, options, *numbers)
    numbers = tuple(1.0 * x for x in numbers)  # objects that stand nowhere else
    with recorded() as steps:
        result = work(arrays, out, options, *numbers)
    learnt = _learnt(calls, len(numbers), (*numbers, *arrays, result), table, steps)
    if learnt is not None and _makes_room(key, learnt):
        _of_thread.known[key] = learnt
    return result


def _key(calls: CallTraits, arrays: tuple[Any, ...], out: Any, options: tuple[Any, ...]) -> Any:
    """What calls alike have in common, as far as it is cheap to say; None where it is not."""
    try:
        layouts: list[Any]
        if type(arrays[0]) is np.ndarray or not is_recognised(arrays[0]):
            layouts = [None if x is None else (x.shape, x.strides) for x in arrays]
        elif not all(x is None or is_recognised(x) for x in (*arrays, out)):
            return None
        elif is_tensor(arrays[0]):
            layouts = [None if x is None else (x.shape, x.stride()) for x in arrays]
        elif out is not None:
            return None
        else:
            layouts = [None if x is None else x.shape for x in arrays]
        dtypes = out if out is None else out.dtype, arrays[0].dtype
    except AttributeError:  # lists, arrays of other libraries
        return None
    parts = [options, *dtypes, *layouts]
    if calls.alike:
        given = (*arrays, out)
        for i, j in calls.alike:
            parts.append(given[i] is given[j])
    return tuple(parts)


def forget() -> None:
    """Has this thread learn all calls anew."""
    _of_thread.clear()


def _pays_to_learn(key: Any) -> bool:
    """Counts a call, and tells whether it is to be remembered."""
    counts = _of_thread.counts
    if len(counts) >= _MOST:
        _of_thread.clear()
    count = counts[key] = counts.get(key, 0) + 1
    return count % _AFTER == 0


def _learnt(
    calls: CallTraits, first: int, given: tuple[Any, ...], table: object, steps: Sequence[Step]
) -> _CachedCall | None:
    """What makes more calls like one that was right, whose arrays are behind some numbers."""
    device, give = device_of_arrays(given[-1]), None
    if not is_tensor(given[-1]) and is_recognised(given[-1]):
        give = giver_like(given[-1], dtype(given[-1].dtype).name)
        given = (*given[:-1], on_device(device, given[-1]))
        if give is None:
            return None
    views = [None if x is None else _seen(device, x) for x in given[first:]]
    if not steps or (calls.whole and not all(v is None or lies_whole(v) for v in views)):
        return None
    views = [*[None] * first, *views]
    text = text_for(device, given, _NO_CONSTANTS, views)
    if text is None:
        return None
    places = _ArgumentSources(device, text, given, views, first)
    if not all(isinstance(step, Launch) and places.add(step) for step in steps):
        return None
    places.finish()
    if text.queue and places.kept:
        text.require_equal(text.queue, stream_of(given))
    written = (len(given) - 1, *(first + i for i in calls.written))
    alike = {frozenset((first + i, first + j)) for i, j in calls.alike}
    same = {x for x in alike if len({id(given[i]) for i in x}) == 1}
    text.require_distances(list(_pairs(views, written, same)), True)
    return _CachedCall(
        table,
        device,
        None if text.queue else device.current_queue(),
        maker_like(device, given[-1]),
        give,
        text.compiled(len(given)),
        tuple(places.kept.values()),
        places.size,
    )


def _seen(device: Device, x: Any) -> ArrayView:
    """An array, or a tensor in its memory."""
    return device.view(x if device.owns(x) else on_device(device, x))


def maker_like(device: Device, result: Any) -> Callable[[], Any]:
    """What makes arrays, or tensors, like a result at the least cost."""
    shape = tuple(result.shape)
    if is_tensor(result):
        empty = sys.modules["torch"].empty
        return partial(empty, shape, dtype=result.dtype, device=result.device)
    return device.maker(shape, dtype(result.dtype))


def _makes_room(key: Any, known: _CachedCall) -> bool:
    """Whether the room of a call may be kept; that of the one that it replaces is not."""
    memory = known.device.capabilities.global_memory or _UNKNOWN_MEMORY
    if known.size * _MOST_KEPT > memory:
        return False
    before = _of_thread.known.pop(key, None)
    if before is not None:
        _of_thread.room -= before.size
    if (_of_thread.room + known.size) * _ALL_KEPT > memory:
        _of_thread.clear()
    _of_thread.room += known.size
    return True


def _size(view: ArrayView) -> int:
    low, high = byte_range(view)
    return high - low


def lies_whole(view: ArrayView) -> bool:
    """Whether elements follow each other in C order: of others libraries' reshapes are copies."""
    size = view.dtype.itemsize
    for extent, stride in zip(reversed(view.shape), reversed(view.strides), strict=True):
        if extent > 1 and stride != size:
            return False
        size *= extent
    return True


def _pairs(
    views: Sequence[ArrayView | None], written: tuple[int, ...], same: set[frozenset[int]]
) -> Iterator[Pair]:
    """Those of which one is written, but for two that are the same."""
    for i in written:
        for j, other in enumerate(views):
            view = views[i]
            if view is None or other is None or i == j or {i, j} in same:
                continue
            yield Pair(i, *byte_range(view), j, *byte_range(other))


class _ArgumentSources:
    """Where the arguments of launches come from: what is given, or room.

    Attributes
    ----------
    kept : dict
        The arrays of the room, by what Python calls their identity.
    size : int
        Their bytes.
    """

    def __init__(
        self,
        device: Device,
        text: Text,
        given: tuple[Any, ...],
        views: Sequence[ArrayView | None],
        numbers: int,
    ) -> None:
        self._device, self._text, self._given, self._views = device, text, given, views
        self._unused = dict(enumerate(given[:numbers]))
        self.kept: dict[int, Any] = {}
        self.size = 0

    def add(self, step: Launch) -> bool:
        """Writes a launch down; False where an argument may be of two arrays."""
        leaves = flattened(step.args)
        owned = [self._device.owns(x) for x in leaves]
        sources = [
            self._source(x) if is_array else (-1, 0)
            for x, is_array in zip(leaves, owned, strict=True)
        ]
        if None in sources:
            return False
        launch = step.launcher.repeatable(step.args, step.constants)
        self._text.launch(launch.parts, self._words(leaves, sources))
        return True

    def finish(self) -> None:
        """Numbers that no launch was given as they are have to be the same again."""
        for number, value in self._unused.items():
            self._text.require_equal(f"a{number}", value)

    def _source(self, x: Any) -> tuple[int, int] | None:
        """Which of the given arrays one is in and how many bytes behind; -1: it is room."""
        for i, (y, view) in enumerate(zip(self._given, self._views, strict=True)):
            if x is y and view is not None:
                return i, 0
        seen, holders = self._device.view(x), dict[int, tuple[int, int]]()
        for i, view in enumerate(self._views):
            if view is not None and _holds(view, seen):
                if self._device.interprets:  # and launches take arrays
                    return None
                holders[id(self._given[i])] = i, seen.address - view.address
        if len(holders) > 1:
            return None
        if holders:
            return next(iter(holders.values()))
        if id(x) not in self.kept:
            self.kept[id(x)] = x
            self.size += _size(seen)
        return -1, 0

    def _words(self, leaves: Sequence[Any], sources: Sequence[Any]) -> ArgumentText:
        """What the arguments of a launch are called."""
        device, text, values = self._device, self._text, dict[str, Any]()
        offsets = device.capabilities.pointer_offsets

        def handle(arg: int) -> str:
            array, by = sources[arg]
            if array < 0:
                return text.named(device.view(leaves[arg]).handle)
            if offsets or not by:
                return f"a{array}_handle"
            return f"{text.named(device.behind)}(a{array}_handle, {by})"

        def offset(arg: int) -> str:
            array, by = sources[arg]
            if array < 0:
                return str(device.view(leaves[arg]).offset)
            return f"a{array}_offset + {by}"

        def number(arg: int) -> str:
            for i, x in enumerate(self._given):
                if self._views[i] is None and x is not None and leaves[arg] is x:
                    self._unused.pop(i, None)
                    return f"a{i}"
            name = text.named(leaves[arg])
            values[name] = leaves[arg]
            return name

        return ArgumentText(
            handle, offset, number, text.named, lambda x: (values[x],) if x in values else ()
        )


def _holds(view: ArrayView, other: ArrayView) -> bool:
    """Whether the bytes of another are among those of an array."""
    if view.owner != other.owner:
        return False
    (low, high), (first, last) = byte_range(view), byte_range(other)
    begin = other.address - view.address
    return low <= begin + first and begin + last <= high
