"""Several launches in turn, worked out once for arrays alike and repeated at little cost.

What a reduction launches depends on dtypes, shapes and strides alone. A `Recipe` is written down
with arrays to stand for all that are like them; what it ends with runs the launches on others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from math import prod
from typing import Any, Final, NamedTuple

from portable import recording
from portable.backend import Device
from portable.dtypes import DType
from portable.lang.arguments.arguments import ALIGNMENT
from portable.lang.arguments.structs import flattened, mapped
from portable.lang.kernel import Kernel
from portable.lang.launch.launch import Launcher
from portable.lang.launch.packing import ArgumentText, Names
from portable.lang.launch.plan import Repeatable
from portable.primitives.base.storage import Borrowed, Storage, borrowed, contiguous_strides, new

# Recipes as straight-line Python, with all in place that does not change from run to run.

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
        self._made: dict[int, tuple[Any, str, int]] = {}
        capabilities = self._device.capabilities
        self._by_address = not (capabilities.pointer_offsets or self._device.interprets)

    def make(self, like: Any) -> None:
        """The next array is new, and like this one."""
        n = self._next()
        make = self.named(self._maker(like))
        self._made[n] = like.at(None, 0), make, len(self._lines)
        self._lines.append(f"x{n} = {make}(); {self._memory(n)}")

    def _maker(self, like: Any) -> Callable[[], Any]:
        """What makes a new array like one that is known."""
        make = self._device.maker(like.shape, like.dtype)
        return partial(borrowed, self._device, make) if self._borrows else make

    def _leave_bare(self, n: int) -> None:
        """Makes array `n`, which no result is of, as the library does: its address will do."""
        like, make, line = self._made[n]
        self.values[make] = self._device.maker(like.shape, like.dtype)
        view = self.named(self._device.view)
        seen = f"x{n} = {make}(); seen = {view}(x{n})"
        self._lines[line] = f"{seen}; b{n} = seen.handle; o{n} = seen.address % {ALIGNMENT}"

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

        words = ArgumentText(handle, offset, numbers.__getitem__, self.named, known)
        arguments = launch.bound.packing.text(words)
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
        if self._borrows and self._by_address:
            for n in sorted(self._made.keys() - {at.array for _, at in results}):
                self._leave_bare(n)
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
        fixed = [self.named(v) for v in (x.new, x.device, x.dtype, x.shape, x.strides)]
        kind, device, dtype, shape, strides = fixed
        offset = self._offset(at)
        if self._borrows:
            return f"x{at.array}.viewed({shape}, {strides}, {offset}, {dtype})"
        return f"{kind}({device}, b{at.array}, {dtype}, {shape}, {strides}, {offset})"

    def _shaped(self, n: int, x: Any) -> bool:
        """Whether new array `n` is this view; if all of it in another shape, it is made in that."""
        like, make, line = self._made[n]
        if _alike(x, like):
            return True
        if not (_contiguous(x) and _contiguous(like) and _size(x) == _size(like)):
            return False
        self._made[n] = x.at(None, 0), make, line
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


# -- recipe ----------------------------------------------------------------------------------------

_MAX_PLANS: Final = 4096


@dataclass(frozen=True, slots=True)
class _Anew:
    """A `Repeatable` where a device runs kernels themselves, which take arrays and not pointers."""

    launcher: Launcher
    args: tuple[Any, ...]
    constants: dict[str, Any]

    def __call__(self, handles: Sequence[Any], offsets: Sequence[int], args: Sequence[Any]) -> None:
        """Launches it with the shapes and strides that it was made for."""
        places = zip(handles, offsets, args, strict=True)

        def placed(x: Any) -> Any:
            handle, offset, number = next(places)
            return x.interpreted(handle, offset) if isinstance(x, Storage) else number

        self.launcher(*mapped(self.args, placed), **self.constants)


def repeatable(
    launcher: Launcher, args: tuple[Any, ...], constants: dict[str, Any], *, disjoint: bool
) -> Launch:
    """A launch to be repeated with arrays like these; `disjoint`: none overlaps one written.

    Parameters
    ----------
    launcher : Launcher
        The kernel with its ndrange.
    args : tuple
        Arrays like those of later calls, numbers, and tuples and structs of both.
    constants : dict
        The kernel's keyword-only parameters.
    disjoint : bool
        Whether no array that is written overlaps another.
    """
    first = _first_array(args)
    if first.device.interprets:
        # A plan outlives the arrays that it was made for and must not keep their memory.
        return _Anew(launcher, mapped(args, _without_memory), constants)
    if isinstance(first, Borrowed):
        return launcher.repeatable_on(first.device, mapped(args, _seen), constants)
    return launcher.repeatable(args, constants, disjoint=disjoint)


def _first_array(args: tuple[Any, ...]) -> Storage:
    return next(x for x in flattened(args) if isinstance(x, Storage))


def _of_arrays(change: Callable[[Storage], Any]) -> Callable[[Any], Any]:
    """A change of arrays that leaves all else as it is."""
    return lambda x: change(x) if isinstance(x, Storage) else x


_without_memory: Final = _of_arrays(lambda x: x.at(None, 0))
_seen: Final = _of_arrays(lambda x: x.described)
_interpreted: Final = _of_arrays(lambda x: x.interpreted(x.buffer, x.offset))


def resizable(
    launcher: Launcher, args: tuple[Any, ...], constants: dict[str, Any]
) -> Callable[..., None]:
    """A launch to be repeated with arrays like these or shorter, none overlapping one written.

    It is called with the arrays and numbers, those of tuples and structs in their place.

    For results whose extent the host learns late, of kernels that do not ask for it: they need no
    plan for each.

    Parameters
    ----------
    launcher : Launcher
        The kernel with its ndrange.
    args : tuple
        Arrays of the greatest extents, numbers, and tuples and structs of both.
    constants : dict
        The kernel's keyword-only parameters.
    """
    first = _first_array(args)
    if first.device.interprets:
        return partial(_run_anew, launcher, args, constants)
    launch = repeatable(launcher, args, constants, disjoint=True)

    def repeated(*given: Any) -> None:
        handles = [getattr(x, "buffer", None) for x in given]
        launch(handles, [getattr(x, "offset", 0) for x in given], given)

    return repeated


def _run_anew(
    launcher: Launcher, like: tuple[Any, ...], constants: dict[str, Any], *given: Any
) -> None:
    """Launches it with these arrays and numbers in the places of those that it was made for."""
    leaves = iter(given)
    launcher(*mapped(like, lambda _: _interpreted(next(leaves))), **constants)


def shifted(launch: Launch, shifts: Sequence[int]) -> Launch:
    """The launch with the first arrays beginning so many bytes behind where they are said to."""
    return _Shifted(launch, tuple(shifts)) if any(shifts) else launch


@dataclass(frozen=True, slots=True)
class _Shifted:
    """The result of `shifted`."""

    launch: Launch
    shifts: tuple[int, ...]

    def __call__(self, handles: Sequence[Any], offsets: Sequence[int], args: Sequence[Any]) -> None:
        """Launches it."""
        moved = [offset + by for offset, by in zip_longest(offsets, self.shifts, fillvalue=0)]
        self.launch(handles, moved, args)


class Number:
    """Stands for a number that a recipe will be called with, as kernels take it.

    Parameters
    ----------
    like : number
        One of its type.
    """

    def __init__(self, like: Any) -> None:
        self.like: Final = like


class Recipe:
    """The steps from arrays to others.

    Parameters
    ----------
    *given : Array or Number
        Arrays like those that it will be called with: device, dtype, shape, strides and alignment
        are the same, and so is which of them share memory, and how far apart they are in it. The
        first is an array.
    """

    def __init__(self, *given: Any) -> None:
        self._arrays: list[Any] = list(given)
        self._text = RunText(given)

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """A new array in each run; what is returned stands for it."""
        made = made_like(self._arrays[0])(shape, dtype)
        self._arrays.append(made)
        self._text.make(made)
        return made

    def found(self, find: Callable[[], Any]) -> Any:
        """What a function gives in each run: arrays all alike, at the start of a buffer."""
        made = find()
        self._arrays.append(made)
        self._text.find(find)
        return made

    def launch(
        self, kernel: Kernel, ndrange: Any, workgroup: Any, *args: Any, **constants: Any
    ) -> None:
        """A launch in each run, on views of given and new arrays, none overlapping one written."""
        launcher = kernel[ndrange, workgroup]
        like = mapped(args, example_of)
        self.add(repeatable(launcher, like, constants, disjoint=True), args)

    def add(self, launch: Launch, args: Sequence[Any]) -> None:
        """A launch made elsewhere, of such views and numbers, and tuples and structs of both."""
        leaves = flattened(tuple(args))
        shifts: Sequence[int] = ()
        inner = launch
        if isinstance(launch, _Shifted):
            inner, shifts = launch.launch, launch.shifts
        places: list[Place | None] = []
        for a, by in zip_longest(leaves, shifts, fillvalue=0):
            array, start = self._place_of(a) if isinstance(a, Storage) else (-1, 0)
            places.append(None if array < 0 else Place(array, start + by))
        self._text.launch(inner, places, [self._number(a) for a in leaves])

    def finish(self, *results: Any) -> Callable[..., Any]:
        """Ends it: a run gives the array that this view stands for, or a tuple of several."""
        located = [(x, Place(*self._place_of(x))) for x in results]
        self._arrays = []
        return self._text.compiled(located)

    def _number(self, x: Any) -> str:
        """The name of a number, of None or of what else is not an array."""
        if isinstance(x, Number):
            return f"x{self._arrays.index(x)}"
        return self._text.named(None if isinstance(x, Storage) else x)

    def _place_of(self, x: Any) -> tuple[int, int]:
        """Which array a view is of, and how many bytes into it."""
        for number, array in enumerate(self._arrays):
            if isinstance(array, Storage) and _same_memory(array, x):
                return number, x.offset - array.offset
        raise ValueError("a recipe launches on its own arrays only")


def example_of(x: Any) -> Any:
    """A number for what stands for one; all else as it is."""
    return x.like if isinstance(x, Number) else x


def _same_memory(x: Storage, y: Storage) -> bool:
    """Whether both are views of one array; buffers of empty ones may be the same without that."""
    ours = x.array is y.array if isinstance(x, Borrowed) and isinstance(y, Borrowed) else True
    return ours and x.buffer is y.buffer


def _sharing(arrays: tuple[Any, ...]) -> tuple[tuple[int, int], ...]:
    """Which of several arrays have memory in common, and how far apart they begin in it."""
    first: dict[int, tuple[int, int]] = {}
    shared = []
    for x in arrays:
        sharer, start = first.setdefault(id(x.buffer), (len(first), x.offset))
        shared.append((sharer, x.offset - start))
    return tuple(shared)


def _told(work: Callable[..., Any], arrays: tuple[Any, ...], numbers: tuple[Any, ...] = ()) -> Any:
    """Does it, and reports it to the recorder if there is one."""
    if not recording.active or (recorder := recording.current()) is None:
        return work(*arrays, *numbers)
    with recording.unwatched():
        results = work(*arrays, *numbers)
    recorder.unseen(arrays, results if isinstance(results, tuple) else (results,))
    return results


class Plans:
    """Recipes, or what else is to be done, by the arrays that they are for.

    Parameters
    ----------
    write : callable
        Makes one: called with an array and the options by which it is looked up.
    """

    def __init__(self, write: Callable[..., Callable[..., Any]]) -> None:
        self._write = write
        self._known: dict[Any, Callable[..., Any]] = {}

    def __call__(self, x: Any, *options: Any) -> Any:
        """Does it to an array."""
        key = (x.device, x.dtype, x.shape, x.strides, x.offset & 15, options)
        plan = self._known.get(key)
        if plan is None:
            plan = self._new(key, x, options)
        return _told(plan, (x,))

    def run(self, arrays: tuple[Any, ...], *options: Any, numbers: tuple[Any, ...] = ()) -> Any:
        """Does it to several arrays, which `write` takes as a tuple, and numbers of each run."""
        return _told(self.plan(arrays, *options), arrays, numbers)

    def plan(self, arrays: tuple[Any, ...], *options: Any) -> Callable[..., Any]:
        """What is to be done for several arrays of a device; `write` takes them as a tuple."""
        parts: list[Any] = [arrays[0].device, options]
        for x in arrays:
            parts += (x.dtype, x.shape, x.strides, x.offset & 15)
        if len(arrays) > 1 and len({id(x.buffer) for x in arrays}) < len(arrays):
            parts.append(_sharing(arrays))
        key = tuple(parts)
        plan = self._known.get(key)
        if plan is None:
            plan = self._new(key, arrays, options)
        return plan

    def _new(self, key: Any, given: Any, options: tuple[Any, ...]) -> Callable[..., Any]:
        if len(self._known) >= _MAX_PLANS:
            self._known.clear()
        plan = self._known[key] = self._write(given, *options)
        return plan
