"""Convolutions like earlier ones, launched with little more than a look at their arrays.

A call of `conv2d` checks its arguments, finds its way, makes room and launches some kernels: some
200 calls of Python. A call like a few before is found by its layouts; recognisers of the launches
make sure of the rest. What kernels leave for each other lies in the room of the call before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from portable.backend import Device
from portable.conv.launching import Launch, Step
from portable.dtypes import DType
from portable.lang.arguments.structs import flattened
from portable.lang.launch.launch import Familiar
from portable.linalg.base.operands import views_overlap
from portable.tune.table import recent_state, state

__all__ = ["Known", "is_kept", "key_of", "known_convolution", "learn", "pays_to_learn"]

_AFTER: Final = 4
"""Calls after which it pays to compile what recognises more of them."""

_MOST: Final = 256
"""Convolutions that a thread knows."""

_MOST_KEPT: Final = 2**23
"""Bytes of room that a known convolution keeps."""

_X, _RESIDUAL, _OUT = 0, 3, 4


class _Again(NamedTuple):
    """A launch, and which arrays it takes."""

    familiar: Familiar
    pick: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    constants: dict[str, Any]


class Known(NamedTuple):
    """A convolution that was made a few times.

    Attributes
    ----------
    table : object
        The state of the tuned parameters at that time.
    device : Device
    queue : hashable
        The queue, whose order keeps launches of two calls from using its room at once.
    make : callable
        Makes a result.
    launches : tuple
    fixed : tuple
        What launches take beside the arrays of a call.
    apart : bool
        Whether a launch makes sure that images and results do not overlap.
    """

    table: object
    device: Device
    queue: Hashable
    make: Callable[[], Any]
    launches: tuple[_Again, ...]
    fixed: tuple[Any, ...]
    apart: bool

    def launched(self, given: tuple[Any, ...]) -> bool:
        """Launches it for images, filters, bias, residual and results; False, nothing done, else.

        Parameters
        ----------
        given : tuple
            Of these, in this order.
        """
        if self.device.current_queue() != self.queue:
            return False
        arrays, ready = (*given, *self.fixed), []
        for familiar, pick, constants in self.launches:
            arguments = familiar.recognise(pick(arrays), constants)
            if arguments is None:
                return False
            ready.append((familiar, arguments))
        if not self.apart and _overlap(self.device, given[_X], given[_OUT]):
            return False
        for familiar, arguments in ready:
            familiar.launch(familiar.groups, arguments)
        return True


class _OfThread(threading.local):
    """What a thread knows, and how often it made what it does not know."""

    def __init__(self) -> None:
        self.known: dict[Any, Known] = {}
        self.counts: dict[Any, int] = {}


_of_thread = _OfThread()


def is_kept(room: int) -> bool:
    """Whether a known convolution keeps so many bytes of room."""
    return room <= _MOST_KEPT


def key_of(x: Any, w: Any, bias: Any, residual: Any, out: Any, options: tuple[Any, ...]) -> Any:
    """What convolutions alike have in common, as far as it is cheap to say; None where it is not.

    Parameters
    ----------
    x, w, bias, residual, out
        As `portable.conv.conv2d` is given them.
    options : tuple
        What else it is given, hashable where it is right.
    """
    try:
        return (
            x.dtype, x.shape, x.strides, w.shape, w.strides, bias is None, residual is None,
            out is None, residual is out, options,
        )  # fmt: skip
    except AttributeError:  # no arrays at all, or of libraries that have no strides
        return None


def known_convolution(key: Any) -> Known | None:
    """What is known of convolutions of a key, unless parameters were tuned since."""
    try:
        known = _of_thread.known.get(key)
    except TypeError:  # options that are to be refused, or lists
        return None
    return known if known is not None and known.table is recent_state() else None


def pays_to_learn(key: Any) -> bool:
    """Counts a call, and tells whether it is to be remembered."""
    counts = _of_thread.counts
    if len(counts) >= _MOST:
        counts.clear()
        _of_thread.known.clear()
    try:
        count = counts[key] = counts.get(key, 0) + 1
    except TypeError:
        return False
    return key is not None and count % _AFTER == 0


def learn(
    key: Any,
    given: tuple[Any, ...],
    room: Sequence[Any],
    steps: Sequence[Step],
    device: Device,
    result: tuple[tuple[int, ...], DType],
) -> None:
    """Gets ready for more calls like one that was right.

    Parameters
    ----------
    key : tuple
        Of its arrays as they were given.
    given : tuple
        Images, filters, bias, residual and results.
    room : sequence of array
        What launches leave for each other.
    steps : sequence
        What was done.
    device : Device
    result : (tuple of int, DType)
        Shape and type of what it gives.
    """
    views = [device.view(x) for x in room]
    if not is_kept(sum(_extent(view) for view in views)):
        return
    arrays = list(given)
    again = [_again(device, step, arrays, views) for step in steps]
    known = tuple(x for x in again if x is not None)
    if not known or len(known) < len(steps):
        return
    ends = [given[_X], given[_OUT]]
    apart = any(all(any(a is e for a in step.args) for e in ends) for step in steps)  # type: ignore[union-attr]
    _of_thread.known[key] = Known(
        state(),
        device,
        device.current_queue(),
        device.maker(*result),
        known,
        tuple(arrays[len(given) :]),
        apart,
    )


def _again(device: Device, step: Step, arrays: list[Any], room: list[Any]) -> _Again | None:
    """A step as a launch of arrays and what else is fixed; None where it cannot be one."""
    if not isinstance(step, Launch):
        return None
    places = []
    for x in step.args:
        place = next((i for i, y in enumerate(arrays) if y is x), None)
        if place is None:
            if not _is_fixed(device, x, room):
                return None
            place = len(arrays)
            arrays.append(x)
        places.append(place)
    in_place = arrays[_RESIDUAL] is not None and arrays[_RESIDUAL] is arrays[_OUT]
    shared = [i for i, x in enumerate(step.args) if x is arrays[_OUT]] if in_place else []
    beside = frozenset({(shared[0], shared[1])}) if len(shared) > 1 else frozenset()
    familiar = step.launcher.familiar(step.args, step.constants, beside)
    pick = itemgetter(*places)
    return None if familiar is None else _Again(familiar, pick, step.constants)


def _is_fixed(device: Device, x: Any, room: list[Any]) -> bool:
    """Whether an argument is the same in each call: no array, or one in the room."""
    held = [y for y in flattened((x,)) if device.owns(y)]
    if not held:
        return True
    view = device.view(x) if device.owns(x) else None
    return view is not None and any(
        y.handle is view.handle or (y.address <= view.address < y.address + _extent(y))
        for y in room
    )


def _extent(view: Any) -> int:
    """Bytes of a contiguous array."""
    total = int(view.dtype.itemsize)
    for n in view.shape:
        total *= n
    return total


def _overlap(device: Device, x: Any, out: Any) -> bool:
    return views_overlap(device.view(x), device.view(out))
