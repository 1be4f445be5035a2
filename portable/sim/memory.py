"""Arrays as the simulator holds them, and single accesses to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np

from portable.lang.ir.types import Array, Turns
from portable.sim import report
from portable.sim.launch import Group, Launch, Site
from portable.sim.shadow import Shadow
from portable.sim.values import Value

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
