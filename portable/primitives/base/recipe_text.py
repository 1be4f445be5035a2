"""Recipes as straight-line Python, with all in place that does not change from run to run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, Final, NamedTuple

from portable.backend import Device
from portable.lang.launch.filling import Names, Wording
from portable.lang.launch.launch import Repeatable
from portable.primitives.base.borrowed import Borrowed, borrowed, new
from portable.primitives.base.storage import Storage, contiguous_strides

Launch = Callable[[Sequence[Any], Sequence[int], Sequence[Any]], None]

_SOURCE: Final = """\
def make({names}):
    def run({given}):
        {lines}
    return run
"""


class Place(NamedTuple):
    """Which array of a recipe, and how many bytes into it."""

    array: int
    by: int


class RunText(Names):
    """The text of one run in the making, and what the names in it stand for.

    Array `n` is ``x<n>``, its memory ``b<n>``, and ``o<n>`` where in it it begins; new ones of the
    library's own begin at the start.

    Parameters
    ----------
    given : sequence of Array or Number
        What a run is called with.
    """

    def __init__(self, given: Sequence[Any]) -> None:
        super().__init__()
        self._given = len(given)
        self._count = self._given
        self._device: Device = given[0].device
        self._borrows = isinstance(given[0], Borrowed)
        self._lines = [
            f"b{n}, o{n} = x{n}.buffer, x{n}.offset"
            for n, x in enumerate(given)
            if isinstance(x, Storage)
        ]
        self._made: dict[int, tuple[Any, str]] = {}

    def make(self, like: Any) -> None:
        """The next array is new, and like this one."""
        n = self._next()
        make = self.named(self._maker(like))
        self._lines.append(f"x{n} = {make}(); {self._memory(n)}")
        self._made[n] = like.at(None, 0), make

    def _maker(self, like: Any) -> Callable[[], Any]:
        """What makes a new array like one that is known."""
        make = self._device.maker(like.shape, like.dtype)
        return partial(borrowed, self._device, make) if self._borrows else make

    def find(self, function: Callable[[], Any]) -> None:
        """The next array is what a function gives."""
        n = self._next()
        self._lines.append(f"x{n} = {self.named(function)}(); {self._memory(n)}")

    def _memory(self, n: int) -> str:
        return f"b{n} = x{n}.buffer" + (f"; o{n} = x{n}.offset" if self._borrows else "")

    def launch(
        self, launch: Launch, places: Sequence[Place | None], numbers: Sequence[str]
    ) -> None:
        """A launch of arrays at places, None standing for numbers, which go by name."""
        handles = ["None" if at is None else f"b{at.array}" for at in places]
        if not isinstance(launch, Repeatable):
            offsets = ["0" if at is None else self._offset(at) for at in places]
            given = ", ".join(f"[{', '.join(part)}]" for part in (handles, offsets, numbers))
            self._lines.append(f"{self.named(launch)}({given})")
            return

        def handle(arg: int) -> str:
            return self._pointer(handles[arg], places[arg])

        def offset(arg: int) -> str:
            at = places[arg]
            assert at is not None
            return self._offset(at)

        def known(number: str) -> tuple[Any, ...]:
            return (self.values[number],) if number in self.values else ()

        words = Wording(handle, offset, numbers.__getitem__, self.named, known)
        arguments = launch.bound.filling.text(words)
        function = self.named(launch.bound.executable.launch)
        groups = self.named(launch.groups)
        self._lines.append(f"{function}({groups}, {arguments})")

    def _pointer(self, handle: str, at: Place | None) -> str:
        """What a program gets for an array: a place in its memory only if it takes no offsets."""
        if at is None or not at.by or self._device.capabilities.pointer_offsets:
            return handle
        return f"{self.named(self._device.behind)}({handle}, {at.by})"

    def compiled(self, results: Sequence[tuple[Any, Place]]) -> Callable[..., Any]:
        """The function, which gives the views at places, a tuple if there are several."""
        returned = ", ".join(self._result(*result) for result in results)
        self._lines.append(f"return {returned}")
        made: Callable[..., Any] = self.function(
            _SOURCE,
            given=", ".join(f"x{n}" for n in range(self._given)),
            lines="\n        ".join(self._lines),
        )
        return made

    def _result(self, x: Any, at: Place) -> str:
        if at.array in self._made and not at.by and self._shaped(at.array, x):
            return f"x{at.array}"
        fixed = [self.named(v) for v in (type(x), x.device, x.dtype, x.shape, x.strides)]
        kind, device, dtype, shape, strides = fixed
        offset = self._offset(at)
        if self._borrows:
            return f"x{at.array}.viewed({shape}, {strides}, {offset}, {dtype})"
        return f"{kind}({device}, b{at.array}, {dtype}, {shape}, {strides}, {offset})"

    def _shaped(self, n: int, x: Any) -> bool:
        """Whether new array `n` is this view; if all of it in another shape, it is made in that."""
        like, make = self._made[n]
        if _alike(x, like):
            return True
        if not (_contiguous(x) and _contiguous(like) and _size(x) == _size(like)):
            return False
        self._made[n] = x.at(None, 0), make
        self.values[make] = self._maker(x)
        return True

    def _next(self) -> int:
        self._count += 1
        return self._count - 1

    def _offset(self, at: Place) -> str:
        if at.array >= self._given and not self._borrows:
            return str(at.by)
        return f"o{at.array} + {at.by}" if at.by else f"o{at.array}"


def made_like(x: Any) -> Callable[..., Any]:
    """What makes new arrays of the library that `x` is of, by shape and dtype."""
    return partial(new, x.device) if isinstance(x, Borrowed) else x.device.empty


def _contiguous(x: Any) -> bool:
    strides: bool = x.strides == contiguous_strides(x.shape, x.dtype.itemsize)
    return strides


def _size(x: Any) -> tuple[Any, int]:
    return x.dtype, prod(x.shape)


def _alike(x: Any, y: Any) -> bool:
    return (x.dtype, x.shape, x.strides) == (y.dtype, y.shape, y.strides)
