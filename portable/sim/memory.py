"""Arrays as the simulator holds them, and single accesses to them."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from portable.dtypes import DType
from portable.lang.ir.types import Array, Turns
from portable.sim import report
from portable.sim.clocks import Published
from portable.sim.launch import Group, Launch, Site, Touch
from portable.sim.races import RaceCells
from portable.sim.values import Value

# Memory that copies and multiplications under way read or write.

COPY: Final = "asynchronous copy"
PRODUCT: Final = "asynchronous multiplication"


class Flights:
    """Per granule, how much of what is under way is to write it and to read it.

    Attributes
    ----------
    count : int
        Accesses under way.
    """

    __slots__ = ("_access", "_reads", "_writes", "count")

    def __init__(self, granules: int) -> None:
        self.count = 0
        self._reads: Value = np.zeros(granules, np.int32)
        self._writes: Value = np.zeros(granules, np.int32)
        self._access: dict[int, tuple[Touch, str]] = {}

    def begin(self, access: Touch, writes: bool, what: str = COPY) -> None:
        """Something that reads or writes these granules starts."""
        self._access[id(access)] = access, what
        np.add.at(self._writes if writes else self._reads, access.granules, 1)
        self.count += 1

    def end(self, access: Touch, writes: bool) -> None:
        """It is done."""
        del self._access[id(access)]
        np.subtract.at(self._writes if writes else self._reads, access.granules, 1)
        self.count -= 1

    def touched(self, granules: Value, writes: bool) -> tuple[int, Touch, str] | None:
        """The first of these granules that must not be accessed yet, whose it is, and what is."""
        busy = self._writes[granules]
        if writes:
            busy = busy + self._reads[granules]
        hit = np.flatnonzero(busy)
        if not hit.size:
            return None
        granule = granules[hit[0]]
        flights = [x for x in self._access.values() if (x[0].granules == granule).any()]
        return int(hit[0]), *flights[-1]


# What the simulator knows about memory beside its contents: written or not, by whom, in flight.

AccessKind = Literal[
    "read", "write", "atomic read", "atomic write", "atomic update",
    "workgroup atomic read", "workgroup atomic write", "workgroup atomic update",
]  # fmt: skip
"""An atomic update both reads and writes; an atomic write only writes. Those of a workgroup are
atomic beside accesses of the same workgroup only."""

_WRITES = {kind for kind in get_args(AccessKind) if kind.endswith(("write", "update"))}
_READS = {kind for kind in get_args(AccessKind) if kind.endswith(("read", "update"))}
_RACE_KINDS = {kind: kind.replace("update", "write") for kind in get_args(AccessKind)}


class Shadow:
    """The shadow of one contiguous piece of memory; each part is None where it is not checked.

    Attributes
    ----------
    written : numpy.ndarray of bool or None
        Per granule whether it holds something.
    races : RaceCells or None
        Earlier accesses.
    flights : Flights or None
        Asynchronous copies under way.
    published : dict of int to Published
        By granule, what an acquire of the atomic there learns.
    """

    __slots__ = ("_reads", "flights", "published", "races", "written")

    def __init__(
        self, written: Value | None, races: RaceCells | None, flights: Flights | None
    ) -> None:
        self.written = written
        self._reads = 0
        self.races = races
        self.flights = flights
        self.published: dict[int, Published] = {}

    @property
    def idle(self) -> bool:
        """Whether nothing is checked."""
        return self.written is None and self.races is None and self.flights is None

    def access(self, w: Group, access: Touch, kind: AccessKind) -> None:
        """Check an access and remember it."""
        self.check(w, access, kind)
        self.record(w, access, kind)

    def check(self, w: Group, access: Touch, kind: AccessKind) -> None:
        """Report what is wrong with an access, if anything."""
        if self.flights is not None and self.flights.count:
            self._check_flights(w, access, kind)
        if self.written is not None and kind in _READS:
            self._check_written(w, access, self.written)
        if self.races is not None:
            collision = self.races.collision(w, access, _RACE_KINDS[kind])
            if collision is not None:
                raise report.race(w, access, kind, collision)

    def _check_written(self, w: Group, access: Touch, written: Value) -> None:
        """Of memory that is all written nothing is asked any more; ever more rarely it is seen."""
        known = written[access.granules]
        if np.count_nonzero(known) < known.size:  # far cheaper than `all`
            raise report.uninitialised(w, access, np.flatnonzero(~known))
        self._reads += 1
        if self._reads & (self._reads - 1) == 0 and np.count_nonzero(written) == written.size:
            self.written = None

    def _check_flights(self, w: Group, access: Touch, kind: AccessKind) -> None:
        assert self.flights is not None
        flights = self.flights.touched(access.granules, kind in _WRITES)
        if flights is not None:
            raise report.in_flight(w, access, kind, *flights)

    def record(self, w: Group, access: Touch, kind: AccessKind) -> None:
        """Remember an access that is in order."""
        if self.written is not None and kind in _WRITES:
            self.written[access.granules] = True
        if self.races is not None:
            collision = self.races.record(w, access, _RACE_KINDS[kind])
            if collision is not None:
                raise report.race(w, access, kind, collision)


# New arrays whose memory counts as never written, until a kernel or the host writes it.
#
# A host's writes are not seen as they happen. New memory therefore holds a pattern, and what no
# longer holds it has been written.

_PATTERN: Final = np.random.default_rng(20240229).integers(0x21, 0xF0, 64, np.uint8)
_LOCK: Final = threading.Lock()


class _Allocation:
    """One new array: where it lies, and which of its bytes kernels have not written."""

    __slots__ = ("_bytes", "_fine", "high", "low", "unwritten")

    def __init__(self, array: NDArray[Any], fine: bool) -> None:
        self.low = array.__array_interface__["data"][0]
        self.high = self.low + array.nbytes
        self._bytes = weakref.ref(array)
        self._fine = fine
        self.unwritten = np.ones(array.nbytes, np.bool_)

    def update(self) -> None:
        """Notice what the host has written since."""
        array = self._bytes()
        if array is None or not self.unwritten.any():
            return
        width = array.itemsize
        content = array.reshape(-1).view(np.uint8)
        same = (content == np.resize(_PATTERN, content.size)).reshape(-1, width).all(axis=1)
        same = np.repeat(same, width)
        if self._fine:
            self.unwritten &= same
        elif (self.unwritten & ~same).any():
            self.unwritten[:] = False


_ALLOCATIONS: Final[dict[int, _Allocation]] = {}


def empty(shape: tuple[int, ...], dtype: DType) -> NDArray[Any]:
    """A new C-contiguous array; kernels that read it before it is written are reported.

    Of elements narrower than four bytes, all count as written once the host has written one:
    too many values look like memory never written.

    Parameters
    ----------
    shape : tuple of int
        Extents.
    dtype : DType
        Element type.
    """
    array: NDArray[Any] = np.empty(shape, dtype.numpy)
    if array.nbytes:
        flat = array.reshape(-1).view(np.uint8)
        flat[:] = np.resize(_PATTERN, flat.size)
        key = id(array)
        with _LOCK:
            _ALLOCATIONS[key] = _Allocation(array, dtype.itemsize >= 4)
        weakref.finalize(array, _ALLOCATIONS.pop, key, None)
    return array


def _overlapping(low: int, high: int) -> list[_Allocation]:
    with _LOCK:
        return [a for a in list(_ALLOCATIONS.values()) if a.low < high and low < a.high]


def within(low: int, high: int) -> Value | None:
    """Which bytes of a range of addresses nothing has written; None where all are written."""
    out: Value | None = None
    for allocation in _overlapping(low, high):
        allocation.update()
        if allocation.unwritten.any():
            out = np.zeros(high - low, np.bool_) if out is None else out
            begin, end = max(low, allocation.low), min(high, allocation.high)
            mine = slice(begin - allocation.low, end - allocation.low)
            out[begin - low : end - low] = allocation.unwritten[mine]
    return out


def wrote(low: int, written: Value) -> None:
    """A kernel has written these bytes from an address on."""
    high = low + written.size
    for allocation in _overlapping(low, high):
        begin, end = max(low, allocation.low), min(high, allocation.high)
        mine = slice(begin - allocation.low, end - allocation.low)
        allocation.unwritten[mine] &= ~written[begin - low : end - low]


# -- memory ----------------------------------------------------------------------------------------

_INDEX: Final = np.dtype(np.int64)
_UNSIGNED: Final = np.dtype(np.uint64)


@lru_cache(4096)
def _ready(numbers: tuple[int, ...], kind: np.dtype[np.int64 | np.uint64]) -> tuple[Value, ...]:
    """Numbers as arrays, which NumPy works with in a third of the time that Python's take."""
    return tuple(np.array(n, kind) for n in numbers)


@dataclass(slots=True, eq=False)
class Buffer:
    """The memory of one array.

    Attributes
    ----------
    array : Array
        The kernel's array.
    data : numpy.ndarray
        Memory in one dimension, in components: the halves of complex elements, the lanes of
        vector elements, else the elements themselves.
    extents : tuple of int
        The shape.
    strides : tuple of int
        In elements.
    origin : int
        The element at index 0.
    width : int
        Components per element.
    row : int
        Elements of one work-item, for private arrays; else 0.
    swizzle : int
        As of `portable.lang.ir.types.Layout`.
    shadow : Shadow or None
        What is known of the memory, where something is checked.
    spans, shift : int
        Component ``c`` is the `spans` granules of the shadow from ``c * spans + shift`` on.
    limits : tuple of numpy.ndarray
        The extents, of no dimension, to compare indices with.
    """

    array: Array
    data: Value
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    origin: int = 0
    width: int = 1
    row: int = 0
    swizzle: int = 0
    shadow: Shadow | None = None
    spans: int = 1
    shift: int = 0
    _steps: tuple[Value, ...] = field(init=False)
    limits: tuple[Value, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._steps = _ready(self.strides, _INDEX)
        self.limits = _ready(self.extents, _UNSIGNED)

    def elements(self, index: tuple[Value, ...]) -> Value | int:
        """Where elements lie, in elements."""
        out: Value | int = self.origin
        for i, stride, step in zip(index, self.strides, self._steps, strict=True):
            further = i if stride == 1 else i * step
            out = out + further if isinstance(out, np.ndarray) or out else further
        if self.swizzle:
            order = sorted(range(len(self.strides)), key=lambda d: self.strides[d])
            turns = Turns.of(self.swizzle, self.data.itemsize)
            out = turns.turned(out, index[order[1]])
        return out


@dataclass(slots=True, eq=False)
class Access:
    """Components of a buffer that work-items access in one statement.

    Attributes
    ----------
    site : Site
        The statement.
    buffer : Buffer
        The memory.
    index : tuple of numpy.ndarray
        The index of each component's element, per dimension.
    items : numpy.ndarray
        Which work-item, or other thread of the workgroup, accesses each.
    offsets : numpy.ndarray
        Where each lies in `Buffer.data`.
    kept : numpy.ndarray of bool or None
        Of all components asked for, which are inside the array; None where all are.
    together : bool
        Whether the workgroup shares the accesses out among its work-items in an unknown way.
    """

    site: Site
    buffer: Buffer
    index: tuple[Value, ...]
    items: Value
    offsets: Value
    kept: Value | None
    together: bool = False
    _granules: Value | None = None
    _threads: Value | None = None

    def made_by(self, thread: int) -> None:
        """Say that one thread of the workgroup makes all of it."""
        self.items = np.full_like(self.items, thread)
        self._threads = None

    @property
    def array(self) -> Array:
        """The kernel's array."""
        return self.buffer.array

    @property
    def granules(self) -> Value:
        """The granules of the buffer's shadow that are accessed."""
        if self._granules is None:
            b = self.buffer
            if b.spans == 1:
                self._granules = self.offsets + b.shift if b.shift else self.offsets
            else:
                first = self.offsets * b.spans + b.shift
                self._granules = (first[:, None] + np.arange(b.spans)).reshape(-1)
        return self._granules

    def threads(self, w: Group) -> Value:
        """The thread that accesses each granule."""
        if self._threads is None:
            threads = self.items + w.number * w.clock.stride
            spans = self.buffer.spans
            self._threads = np.repeat(threads, spans) if spans > 1 else threads
        return self._threads

    def element(self, position: int) -> tuple[int, ...]:
        """The index of the component that a position among the granules belongs to."""
        return tuple(int(i[position // self.buffer.spans]) for i in self.index)

    def item(self, position: int) -> int:
        """Who accesses the granule at a position."""
        return int(self.items[position // self.buffer.spans])

    def complete(self, values: Value) -> Value:
        """The found components among all that were asked for; zero outside the array."""
        if self.kept is None:
            return values
        out = np.zeros(self.kept.size, values.dtype)
        out[self.kept] = values
        return out

    def inside(self, values: Value) -> Value:
        """Of values for all components asked for, those inside the array."""
        return values if self.kept is None else values[self.kept]


class MemoryGroup(Group):
    """A workgroup with the memory of the kernel's arrays.

    Attributes
    ----------
    buffers : dict of Array to Buffer
        Global, local and private arrays.
    """

    def __init__(self, launch: Launch, number: int) -> None:
        super().__init__(launch, number)
        self.buffers: dict[Array, Buffer] = {}

    def changed(self, buffer: Buffer) -> None:
        """Note that memory has changed; other workgroups may be waiting for it."""
        self.changes += 1
        if buffer.array.space == "global":
            self.launch.version += 1


def locate(
    w: MemoryGroup,
    site: Site,
    index: tuple[Value, ...],
    items: Value,
    component: Value | int = 0,
    clip: bool = False,
) -> Access:
    """Find components by index, one per entry; outside the array is a fault unless `clip`.

    Parameters
    ----------
    w : MemoryGroup
    site : Site
        The statement, with its array.
    index : tuple of numpy.ndarray
        For each dimension.
    items : numpy.ndarray of int
        Who accesses each.
    component : numpy.ndarray of int, or int
        The part of each element, as of `Buffer.data`.
    clip : bool
    """
    assert site.array is not None
    buffer = w.buffers[site.array]
    wide = tuple([i if i.dtype is _INDEX else i.astype(_INDEX) for i in index])
    kept = _inside(w, site, buffer, wide, items, clip)
    if kept is not None:
        wide, items = tuple(i[kept] for i in wide), items[kept]
        component = component if isinstance(component, int) else component[kept]
    offsets = buffer.elements(wide)
    if not isinstance(offsets, np.ndarray) or offsets.shape != items.shape:
        offsets = np.broadcast_to(np.asarray(offsets, np.int64), items.shape)
    if buffer.row:
        offsets = offsets + items * buffer.row
    if buffer.width > 1:
        offsets = offsets * buffer.width + component
    return Access(site, buffer, wide, items, offsets, kept)


def _inside(
    w: MemoryGroup, site: Site, buffer: Buffer, index: tuple[Value, ...], items: Value, clip: bool
) -> Value | None:
    """Which elements are inside the array; None where all are."""
    bad: Value | None = None
    for i, limit in zip(index, buffer.limits, strict=True):
        outside = i.view(_UNSIGNED) >= limit
        if np.count_nonzero(outside):  # far cheaper than `any`
            bad = outside if bad is None else bad | outside
    if bad is None:
        return None
    if w.settings.bounds and not clip:
        raise report.out_of_bounds(w, site, buffer.extents, index, items, bad)
    return ~bad


def read(w: MemoryGroup, access: Access) -> Value:
    """The components' values, checked."""
    shadow = access.buffer.shadow
    if shadow is not None:
        shadow.access(w, access, "read")
    return access.complete(access.buffer.data[access.offsets])


def write(w: MemoryGroup, access: Access, values: Value) -> None:
    """Give the components new values, checked; the later of two work-items prevails.

    Parameters
    ----------
    w : MemoryGroup
    access : Access
    values : numpy.ndarray
        For all components that were asked for.
    """
    shadow = access.buffer.shadow
    if shadow is not None:
        shadow.access(w, access, "write")
    access.buffer.data[access.offsets] = access.inside(values)
    w.changed(access.buffer)


def indexed(buffer: Buffer, offsets: Value) -> tuple[Value, ...]:
    """The index of elements of a local array by where they lie, the last dimension fastest."""
    if buffer.swizzle:
        turns = Turns.of(buffer.swizzle, buffer.data.itemsize)
        offsets = turns.turned(offsets, offsets // (turns.chunk * buffer.swizzle))
    return tuple(np.unravel_index(offsets, buffer.extents))


def advanced(index: list[Value], steps: Value, extents: tuple[int, ...]) -> tuple[Value, ...]:
    """Indices so many elements further, the last dimension fastest, the first without end.

    Parameters
    ----------
    index : list of numpy.ndarray
        For each dimension.
    steps : numpy.ndarray of int
        How many elements.
    extents : tuple of int
    """
    out = list(index)
    carry = steps
    for d in range(len(index) - 1, 0, -1):
        fits = (out[d] >= 0) & (out[d] < extents[d])
        total = out[d] + carry
        out[d] = np.where(fits, total % max(extents[d], 1), total)
        carry = np.where(fits, total // max(extents[d], 1), 0)
    out[0] = out[0] + carry
    return tuple(out)
