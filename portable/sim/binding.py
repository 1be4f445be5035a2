"""From the arguments of a launch, and the kernel's own arrays, to buffers with shadows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from portable.dtypes import NARROW
from portable.errors import DTypeError, LaunchError, ShapeError
from portable.lang.ir.types import Array, Layout, lanes_of, scalar_of
from portable.sim import allocations
from portable.sim.in_flight import Flights
from portable.sim.launch import Launch
from portable.sim.memory import Buffer
from portable.sim.races import RaceCells
from portable.sim.shadow import Shadow
from portable.sim.values import Value


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a launch was given, as its workgroups take it.

    Attributes
    ----------
    buffers : dict of Array to Buffer
        Global arrays.
    scalars, blank : dict of str to numpy.ndarray
        Scalar parameters, and variables before their first assignment, for each work-item.
    records : list
        Memory that has a record of what was written: address, granule in bytes, the record.
    """

    buffers: dict[Array, Buffer]
    scalars: dict[str, Value]
    blank: dict[str, Value]
    records: list[tuple[int, int, Value]]


def bind(launch: Launch, given: Sequence[Any], unwritten: frozenset[str]) -> Arguments:
    """The arguments of a launch, one per parameter; the arrays named `unwritten` hold nothing.

    Parameters
    ----------
    launch : Launch
    given : sequence
        NumPy arrays and numbers.
    unwritten : set of str
        Names of array parameters.

    Raises
    ------
    LaunchError
        If they are not what the kernel takes.
    """
    kernel, size = launch.kernel, launch.threads.work_items
    if len(given) != len(kernel.parameters):
        raise LaunchError(
            f"{kernel.name} takes {len(kernel.parameters)} arguments, not {len(given)}"
        )
    arrays: dict[Array, Any] = {}
    scalars: dict[str, Value] = {}
    for parameter, argument in zip(kernel.parameters, given, strict=True):
        if isinstance(parameter, Array):
            arrays[parameter] = argument
        else:
            kind = parameter.type.numpy  # type: ignore[union-attr]
            scalars[parameter.name] = np.full(size, argument, kind)
    blank = {v.name: _blank(v.type, size) for v in kernel.variables}
    records: list[tuple[int, int, Value]] = []
    return Arguments(_bind_arrays(launch, arrays, unwritten, records), scalars, blank, records)


def _blank(kind: Any, size: int) -> Value:
    """Zeros of a type, for variables before their first assignment."""
    lanes = lanes_of(kind)
    return np.zeros((size,) if lanes == 1 else (size, lanes), scalar_of(kind).numpy)


def allocate(array: Array, work_items: int, launch: Launch) -> Buffer:
    """The memory of a local or private array, holding nothing in particular.

    Parameters
    ----------
    array : Array
    work_items : int
        Of a workgroup, each of which has its own of a private array.
    launch : Launch
        What is checked in it.
    """
    layout = array.layout or Layout.row_major(array.shape)
    width = 2 if array.dtype.is_complex else array.lanes
    private = array.space == "private"
    components = layout.size * width * (work_items if private else 1)
    kind = array.dtype.real.numpy
    data: Value = np.full(components * kind.itemsize, 0xFF, np.uint8).view(kind)
    return Buffer(
        array,
        data,
        array.shape,
        layout.strides,
        width=width,
        row=layout.size if private else 0,
        swizzle=layout.swizzle,
        shadow=_own_shadow(launch, components, private),
    )


def _own_shadow(launch: Launch, components: int, private: bool) -> Shadow | None:
    written = np.zeros(components, np.bool_) if launch.settings.uninitialised else None
    racing = launch.settings.races and not private and launch.threads.work_items > 1
    return _shadow(launch, components, written, racing and launch.survey.storing, not private)


def _shadow(
    launch: Launch, granules: int, written: Value | None, racing: bool, shared: bool
) -> Shadow | None:
    races = RaceCells(granules, launch.threads.stride, launch.survey.ordered) if racing else None
    copying = launch.settings.copies and launch.survey.copying and shared
    shadow = Shadow(written, races, Flights(granules) if copying else None)
    return None if shadow.idle else shadow


@dataclass(slots=True)
class _Bound:
    """An array argument and where its memory lies."""

    buffer: Buffer
    low: int
    high: int
    component: int
    writes: bool
    blank: bool


def _bind_arrays(
    launch: Launch,
    arguments: dict[Array, Any],
    unwritten: frozenset[str],
    records: list[tuple[int, int, Value]],
) -> dict[Array, Buffer]:
    """Buffers for the global arrays; those that overlap in memory share a shadow."""
    bound = [
        _bind(array, argument, array in launch.survey.written, array.name in unwritten)
        for array, argument in arguments.items()
    ]
    for region in _regions([b for b in bound if b.high > b.low]):
        _share_shadow(launch, region, records)
    return {b.buffer.array: b.buffer for b in bound}


def _bind(array: Array, x: Any, writes: bool, blank: bool) -> _Bound:
    _accept(array, x, writes)
    width = 2 if array.dtype.is_complex else 1
    kind = array.dtype.real.numpy
    strides = tuple(stride // x.itemsize for stride in x.strides)
    if x.size == 0:
        buffer = Buffer(array, np.zeros(0, kind), x.shape, strides, width=width)
        return _Bound(buffer, 0, 0, kind.itemsize, writes, blank)
    reach = [(extent - 1) * stride for extent, stride in zip(x.shape, strides, strict=True)]
    origin = -sum(r for r in reach if r < 0)
    span = origin + sum(r for r in reach if r > 0) + 1
    # An ellipsis, or an array without dimensions would give a copy of its element.
    corner = x[..., *(slice(-1, None) if r < 0 else slice(0, 1) for r in reach)]
    if array.dtype in NARROW:  # which NumPy does not know by their names
        corner = corner.view(f"u{x.itemsize}")
    data = as_strided(corner, (span,), (x.itemsize,)).view(kind)
    low = x.__array_interface__["data"][0] - origin * x.itemsize
    buffer = Buffer(array, data, x.shape, strides, origin, width)
    return _Bound(buffer, low, low + span * x.itemsize, kind.itemsize, writes, blank)


def _accept(array: Array, x: Any, writes: bool) -> None:
    if not isinstance(x, np.ndarray):
        raise LaunchError(f"{array.name} must be a NumPy array, not {type(x).__name__}")
    if x.dtype != array.dtype.numpy:
        raise DTypeError(f"{array.name} must be of {array.dtype.name}, not {x.dtype}")
    if x.ndim != array.ndim:
        raise ShapeError(f"{array.name} must have {array.ndim} dimensions, not {x.ndim}")
    if any(stride % x.itemsize for stride in x.strides):
        raise LaunchError(f"{array.name} has strides that are no multiples of its elements")
    if writes and not x.flags.writeable:
        raise LaunchError(f"{array.name} is read-only and the kernel writes it")


def _regions(bound: list[_Bound]) -> list[list[_Bound]]:
    """The arrays in groups that overlap in memory, directly or through others."""
    groups: list[list[_Bound]] = []
    end = 0
    for one in sorted(bound, key=lambda b: b.low):
        if groups and one.low < end:
            groups[-1].append(one)
        else:
            groups.append([one])
        end = max(end, one.high)
    return groups


def _share_shadow(
    launch: Launch, region: list[_Bound], records: list[tuple[int, int, Value]]
) -> None:
    low, high = min(b.low for b in region), max(b.high for b in region)
    granule = math.gcd(*(b.component for b in region), *(b.low - low for b in region))
    written = _written(region, low, high, granule) if launch.settings.uninitialised else None
    racing = launch.settings.races and any(b.writes for b in region)
    shadow = _shadow(launch, (high - low) // granule, written, racing, True)
    for b in region:
        b.buffer.shadow = shadow
        b.buffer.spans = b.component // granule
        b.buffer.shift = (b.low - low) // granule
    if written is not None:
        records.append((low, granule, written))


def _written(region: list[_Bound], low: int, high: int, granule: int) -> Value | None:
    """Which granules hold something; None where all do."""
    unwritten = allocations.within(low, high)
    for b in region:
        if b.blank:
            if unwritten is None:
                unwritten = np.zeros(high - low, np.bool_)
            unwritten[b.low - low : b.high - low] = True
    if unwritten is None:
        return None
    return np.logical_not(unwritten.reshape(-1, granule).any(axis=1))


def keep_written(arguments: Arguments) -> None:
    """Remember beyond the launch which memory of `allocations.empty` it has written."""
    for low, granule, written in arguments.records:
        allocations.wrote(low, np.repeat(written, granule))
