"""How the hops of a bulge chase are laid out on a device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Final

from portable.backend import Capabilities
from portable.dtypes import DType
from portable.linalg.bands.items import ItemShape
from portable.linalg.bands.panels import PanelShape
from portable.linalg.bands.plan import Plan, Stage, rounded
from portable.linalg.bands.tiles import tile_shape

_MOST_SWEEPS: Final = 32
_MOST_STEPS: Final = 8
_WINDOWS: Final = 768 * 1024
_ITEMS: Final = 256
"""Work-items of a sweep at most: NVIDIA's OpenCL has not the registers for more."""

_REGISTERS: Final = 2048
"""A workgroup's work-items times the bytes of an element, at most: each holds a reflector's length
of elements in registers. On an H200 twice as many took nine times as long in double precision."""

_STEP: Final = 32
"""Superdiagonals that go in each stage but the last, where work-items hold reflectors."""

_PANEL: Final = 16
"""Rows of a panel, of which bands that are narrowed by panels are whole multiples. With 32 sweeps
have to be two hops apart where 32 superdiagonals are left: on an H200 1.65 times as long."""

_LEAST_CUT: Final = 96
"""Superdiagonals that products take away in a stage at least, if there are several such stages,
since each is a program of its own."""

_MOST_OF_PRODUCTS: Final = 4
"""Panels of a pack at most, where they are applied as products."""

_PANEL_ROWS: Final = (2, 1)
"""Lines that a work-item has a part of: with four an H200 took longer."""

_PANEL_BYTES: Final = 352
"""Bytes of lines and of a reflector that a work-item has in registers at most."""

_PANEL_GROUPS: Final = 16
"""Sub-groups of a panel at most: an H200's have 128 registers a work-item then."""

_NARROW: Final = 32
"""Superdiagonals that go at once in the last stage, where others go before."""

_AT_ONCE: Final = 40
"""The same where none do, if blocks have the room: one stage takes less time than two."""

_OF_RING: Final = 288
"""Bytes of a block that a work-item has in registers, at most. Twice as many were as fast in a ring
on an H200 while few packs were under way, and took a third longer when each unit had one."""

_RING_ITEMS: Final = 256
_RING_SPARE: Final = 8
_RING_SWEEPS: Final = 4
"""Of a pack: odd numbers of sweeps share an H200's four schedulers unevenly."""


@lru_cache(maxsize=1024)
def plan_for(u: int, n: int, dtype: DType, capabilities: Capabilities) -> Plan:
    """The layout that suits a device: vectors on a CPU, work-items elsewhere.

    Parameters
    ----------
    u : int
        Superdiagonals.
    n : int
        Columns.
    dtype : DType
        Of the band.
    capabilities : Capabilities
        Of the device.
    """
    ordered = capabilities.memory_orders == "acq_rel"
    persistent = capabilities.forward_progress and ordered
    if u < 2:
        return Plan((), persistent, dtype)
    if capabilities.single_work_items and persistent:
        return Plan(_alone(u, n, dtype.register, capabilities), persistent, dtype.register)
    stages = _stages(u, dtype, capabilities, persistent)
    kind = dtype.register if stages[-1].in_blocks else dtype
    return Plan(stages, persistent, kind)


def _alone(u: int, n: int, kind: DType, capabilities: Capabilities) -> tuple[Stage, ...]:
    """By work-items alone: wide bands are made narrow by products first, if these have the room."""
    if u > _AT_ONCE:
        wide, room = rounded(u, _PANEL), capabilities.local_memory_most // kind.itemsize
        ends = _ends(wide, _NARROW, max(1, (wide - _NARROW) // _LEAST_CUT))
        steps = [_by_products(a, b, n, kind, capabilities) for a, b in pairwise(ends)]
        if all(x.product_shape.elements <= room for x in steps):
            return *steps, _in_vectors(_NARROW, n, kind, capabilities)
    return (_in_vectors(u, n, kind, capabilities),)


def _by_products(b: int, narrow: int, n: int, kind: DType, capabilities: Capabilities) -> Stage:
    """Packs small enough to have all units at work."""
    lanes = min(_PANEL, max(4, capabilities.vector_bytes // kind.itemsize))
    lag = n // b // (2 * capabilities.compute_units)
    sweeps = max(1, min(_MOST_OF_PRODUCTS, lag // 2))
    return Stage(b, b - narrow + 1, "products", lanes=lanes, rows=_PANEL, sweeps=sweeps)


def _ends(wide: int, narrow: int, count: int) -> list[int]:
    """Superdiagonals between so many stages that each take as many away, in whole panels."""
    cut = rounded(-(-(wide - narrow) // count), _PANEL)
    return [*range(wide, narrow, -cut), narrow]


def _in_vectors(u: int, n: int, dtype: DType, capabilities: Capabilities) -> Stage:
    """Packs small enough to have all units at work, their windows to stay in a core's own cache.

    A pack trails the one before by twice its sweeps and twice its steps between looks, and as many
    packs as there are units have to follow each other down the band: half of that is `lag`. Large
    packs wait for each other less often, which counts where a unit is taken away for a while.
    """
    size = dtype.register.itemsize
    lanes = max(4, min(capabilities.vector_bytes // size, 1 << (u - 1).bit_length()))
    bandwidth = rounded(u, lanes)
    parts = bandwidth // lanes
    rows = next(rows for rows in (4, 2, 1) if parts % rows == 0)
    lag = n // bandwidth // (2 * capabilities.compute_units)
    fitting = _WINDOWS // (6 * bandwidth * bandwidth * size)
    sweeps = max(1, min(_MOST_SWEEPS, lag // 2, fitting))
    every = max(1, min(_MOST_STEPS, lag // 4))
    return Stage(bandwidth, bandwidth, "vectors", lanes, rows, 1, sweeps, every)


def _stages(
    u: int, dtype: DType, capabilities: Capabilities, persistent: bool
) -> tuple[Stage, ...]:
    """Down to a narrow band in steps, by panels if these have the room, then bidiagonal at once."""
    in_blocks = persistent and capabilities.sub_group_size > 1

    def last(b: int) -> Stage | None:
        return _in_blocks(b, dtype, capabilities) if in_blocks else None

    if u <= _NARROW or (u <= _AT_ONCE and last(u)):
        return (last(u) or _by_items(u, u, dtype, capabilities),)
    steps = _panel_steps(u, _NARROW, dtype.register, capabilities)
    steps = steps or tuple(_steps(u, _NARROW, dtype, capabilities))
    return *steps, last(_NARROW) or _by_items(_NARROW, _NARROW, dtype, capabilities)


def _steps(u: int, narrow: int, dtype: DType, capabilities: Capabilities) -> Iterator[Stage]:
    """Stages of work-items side by side, each of which leaves a band narrower by the same."""
    for wide in range(u, narrow, -_STEP):
        narrower = max(narrow, wide - _STEP)
        yield _by_items(wide, wide - narrower + 1, dtype, capabilities)


def _panel_steps(u: int, narrow: int, kind: DType, capabilities: Capabilities) -> tuple[Stage, ...]:
    """Stages by panels, as few as there can be; none where sub-groups have not the room for one."""
    wide = rounded(u, _PANEL)
    for count in range(1, (wide - narrow) // _PANEL + 1):
        ends = _ends(wide, narrow, count)
        steps = [_by_panels(a, b, kind, capabilities) for a, b in pairwise(ends)]
        if all(steps):
            return tuple(x for x in steps if x)
    return ()


def _by_panels(b: int, narrow: int, kind: DType, capabilities: Capabilities) -> Stage | None:
    """A panel that fits, with as many lines in registers as there is room for."""
    size, room = capabilities.sub_group_size, capabilities.local_memory_most // kind.itemsize
    most = min(_PANEL_GROUPS, capabilities.max_workgroup // size)
    if size == 1:
        return None
    for rows in _PANEL_ROWS:
        shape = PanelShape(b, narrow, _PANEL, size, most, rows)
        held = (rows + 1) * shape.columns * kind.itemsize
        if shape.fits and held <= _PANEL_BYTES and shape.elements <= room - 256:
            parts = min(range(shape.makers + 1, most + 1), key=shape.turns)
            spare = _spare_of_panels(shape, room) if 2 * parts <= most else 0
            shared = {"items": parts * size, "sweeps": _PANEL, "parts": parts, "spare": spare}
            return Stage(b, b - narrow + 1, "panels", rows=rows, **shared)
    return None


def _spare_of_panels(shape: PanelShape, room: int) -> int:
    """Rows of local memory beyond what is needed, so that no three workgroups share a unit.

    Those that others wait for go slower by that: a band of 64 in single precision took an H200 53
    ms with two to a unit, 72 with one and 77 with up to five.
    """
    return max(0, (room // 3 - shape.elements) // (2 * shape.length) + 1)


def _by_items(b: int, reflector: int, dtype: DType, capabilities: Capabilities) -> Stage:
    """As many work-items as rows, in three quarters of a workgroup."""
    size = dtype.register.itemsize
    most = min(_REGISTERS // size, capabilities.max_workgroup, capabilities.max_workgroup_shape[0])
    items = min(rounded(b + reflector, 32), most * 3 // 4, _ITEMS)
    room = capabilities.local_memory_most // size
    while items > 32 and ItemShape(reflector, items).elements > room:
        items //= 2
    return Stage(b, reflector, "items", items=items)


def _in_blocks(u: int, dtype: DType, capabilities: Capabilities) -> Stage | None:
    """The ring where something is copied in bulk, else the stage without one; None if none fits."""
    kind, bulk = dtype.register, "bulk" in capabilities.async_copy
    room = capabilities.local_memory_most // kind.itemsize - 256
    tile = tile_shape(u, capabilities.sub_group_size, tall=not bulk)
    if tile is None or tile.rows * tile.columns * kind.itemsize > _OF_RING:
        return None
    b, items = tile.order, 2 * tile.items
    sweeps = min(_RING_SWEEPS, _RING_ITEMS // items)
    if bulk:
        stage = _alone_on_a_unit(Stage(b, b, "ring", items=items, sweeps=sweeps), room)
    else:
        stage = Stage(b, b, "direct", items=items, sweeps=sweeps, spare=_RING_SPARE)
    return stage if stage.ring.elements <= room else None


def _alone_on_a_unit(stage: Stage, room: int) -> Stage:
    """With as many spare blocks as it takes that no second workgroup fits beside this one.

    Two packs, one of which mostly waits, get into each other's way: on an H200 the chase took 1.4
    times as long.
    """
    spares = [replace(stage, spare=spare) for spare in range(_RING_SPARE + 1)]
    fitting = [x for x in spares if x.ring.elements <= room] or [stage]
    alone = (x for x in fitting[1:] if 2 * x.ring.elements > room)
    return next(alone, fitting[-1])
