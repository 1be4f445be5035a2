"""How the hops of a bulge chase are laid out on a device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal

from portable.backend import Capabilities
from portable.dtypes import DType
from portable.linalg.band_items import item_elements
from portable.linalg.band_kernels import CREW
from portable.linalg.band_ring import Ring
from portable.linalg.band_tiles import tile_shape

__all__ = ["Plan", "Stage", "plan_for", "sweeps_of_wave"]

_MOST_SWEEPS: Final = 32
_MOST_STEPS: Final = 8
_WINDOWS: Final = 768 * 1024
_ITEMS: Final = 256
"""Work-items of a sweep at most: NVIDIA's OpenCL has not the registers for more."""

_REGISTERS: Final = 2048
"""A workgroup's work-items times the bytes of an element, at most: each holds a reflector's length
of elements in registers. On an H200 twice as many took nine times as long in double precision."""

_STEP: Final = 32
"""Superdiagonals that go in each stage but the last."""

_NARROW: Final = 32
"""Superdiagonals that go at once in the last stage, where more do not fit into a ring."""

_RING_MOST: Final = 48
_RING_ITEMS: Final = 256
_RING_SWEEPS: Final = (8, 4, 2)
"""Odd numbers of sweeps share an H200's four schedulers unevenly: three take longer than two."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One reduction of a band to a narrower one.

    Attributes
    ----------
    bandwidth : int
        Superdiagonals that the hops work with, at least those of the matrix: the others are zeros.
    reflector : int
        The length of reflectors; one less superdiagonals go. At most `bandwidth`, and exactly that
        where the band becomes bidiagonal.
    residency : {"vectors", "items", "ring"}
        Where the band is worked on: by a work-item alone in `lanes` wide vectors; by work-items
        side by side, in global memory; or by them in local memory.
    lanes : int
        Rows of a vector.
    rows : int
        Vectors of rows that are combined at a time; twice `bandwidth` is a multiple of ``lanes *
        rows``.
    items : int
        Work-items of a sweep.
    sweeps : int
        Sweeps of a pack.
    every : int
        Steps between looks at the pack before, in vectors.
    ahead, behind : int
        In the ring: how many blocks are on their way in ahead of what is needed, and on their way
        out without being waited for.

    Raises
    ------
    ValueError
        For what the kernels of the residency do not hold for.
    """

    bandwidth: int
    reflector: int
    residency: Literal["vectors", "items", "ring"]
    lanes: int = 1
    rows: int = 1
    items: int = 1
    sweeps: int = 1
    every: int = 1
    ahead: int = 1
    behind: int = 0

    def __post_init__(self) -> None:
        b, whole = self.bandwidth, self.reflector == self.bandwidth
        least = min(self.lanes, self.rows, self.items, self.sweeps, self.every)
        _require(2 <= self.reflector <= b, "a reflector has 2 elements, and at most the bandwidth")
        _require(least >= 1, "lanes, rows, items, sweeps and steps are 1 at least")
        match self.residency:
            case "vectors":
                _require(whole, "work-items alone leave a bidiagonal matrix")
                _require(b % self.lanes == 0, "reflectors are whole vectors")
                _require(2 * b % (self.lanes * self.rows) == 0, "rows go in whole parts")
                _require(self.items == 1, "a work-item has a sweep to itself")
            case "ring":
                _require(whole, "the ring leaves a bidiagonal matrix")
                tile = tile_shape(b, self.items // 2)
                _require(self.items % 2 == 0 and tile is not None, "a sweep has two sub-groups")
                _require(tile is None or tile.order == b, "blocks are whole parts of sub-groups")
                _require(self.ahead >= 1, "a block is asked for before a step waits for it")
                _require(self.behind >= 0, "no block leaves before the last sweep is done with it")

    def ring(self, pitch: int, top: int) -> Ring:
        """What the kernel of the ring is told, for a working storage laid out so."""
        tile = tile_shape(self.bandwidth, self.items // 2)
        assert tile is not None
        return Ring(tile, self.sweeps, self.ahead, self.behind, pitch, top)

    @property
    def lag(self) -> int:
        """Hops between neighbouring sweeps of a pack."""
        return 2 if self.reflector == self.bandwidth else 1

    def sweep_count(self, n: int) -> int:
        """Sweeps that have a hop."""
        return n - 2 - self.bandwidth + self.reflector

    def pack_count(self, n: int) -> int:
        """Packs of them."""
        return -(-self.sweep_count(n) // self.sweeps)


@dataclass(frozen=True, slots=True)
class Plan:
    """A reduction to bidiagonal form.

    Attributes
    ----------
    stages : tuple of Stage
        One after another.
    persistent : bool
        Whether one launch makes all hops of a stage; else each wave is one.
    storage : DType
        The type of the working storage. Half precision stays in half where the band is only in
        global memory; in vectors and in the ring it is kept in single: converting costs more than
        the memory (on an H200 0.245 s instead of 0.142 s at n = 32768, b = 32).

    Raises
    ------
    ValueError
        For stages that do not follow from each other or do not end in bidiagonal form.
    """

    stages: tuple[Stage, ...]
    persistent: bool
    storage: DType

    def __post_init__(self) -> None:
        residencies = {stage.residency for stage in self.stages}
        for before, after in pairwise(self.stages):
            left = before.bandwidth - before.reflector + 1
            _require(after.bandwidth >= left, "a stage works with all that the one before leaves")
        if self.stages:
            last = self.stages[-1]
            _require(last.reflector == last.bandwidth, "the last stage leaves a bidiagonal matrix")
        if "ring" in residencies:
            _require(self.persistent, "in the ring, workgroups wait for each other")
        if "vectors" in residencies:
            b = self.stages[0].bandwidth
            _require(len(self.stages) == 1, "vectors are in a stage of their own")
            _require((self.pitch, self.top) == (3 * b, 2 * b), "vectors find columns 3 b apart")

    @property
    def top(self) -> int:
        """The diagonal's place in a column of the working storage; the vectors' way is aligned."""
        return _rounded(max((x.bandwidth + x.reflector for x in self.stages), default=1), 4)

    @property
    def pitch(self) -> int:
        """Places of a column."""
        return self.top + _rounded(max((x.reflector for x in self.stages), default=1), 4)


def _require(holds: bool, what: str) -> None:
    """What the kernels take for granted of their plan."""
    if not holds:
        raise ValueError(f"a plan that no kernel of bands was made for: {what}")


def _rounded(x: int, multiple: int) -> int:
    return -(-x // multiple) * multiple


@lru_cache(maxsize=1024)
def plan_for(u: int, n: int, dtype: DType, capabilities: Capabilities) -> Plan:
    """The layout that suits a device: vectors on a CPU, work-items elsewhere."""
    ordered = capabilities.memory_orders == "acq_rel"
    persistent = capabilities.forward_progress and ordered
    if u < 2:
        return Plan((), persistent, dtype)
    if capabilities.lone_work_items:
        return Plan((_in_vectors(u, n, dtype, capabilities),), persistent, dtype.register)
    stages = _stages(u, dtype, capabilities, persistent)
    ring = stages[-1].residency == "ring"
    return Plan(stages, persistent, dtype.register if ring else dtype)


def _in_vectors(u: int, n: int, dtype: DType, capabilities: Capabilities) -> Stage:
    """Packs small enough to have all units at work, their windows to stay in a core's own cache.

    A pack trails the one before by twice its sweeps and twice its steps between looks, and as many
    packs as there are units have to follow each other down the band: half of that is `lag`. Large
    packs wait for each other less often, which counts where a unit is taken away for a while.
    """
    size = dtype.register.itemsize
    lanes = max(4, min(capabilities.vector_bytes // size, 1 << (u - 1).bit_length()))
    bandwidth = _rounded(u, lanes)
    rows = 4 if (2 * bandwidth // lanes) % 4 == 0 else 2
    lag = n // bandwidth // (2 * capabilities.compute_units)
    fitting = _WINDOWS // (6 * bandwidth * bandwidth * size)
    sweeps = max(1, min(_MOST_SWEEPS, lag // 2, fitting))
    every = max(1, min(_MOST_STEPS, lag // 4))
    return Stage(bandwidth, bandwidth, "vectors", lanes, rows, 1, sweeps, every)


def _stages(
    u: int, dtype: DType, capabilities: Capabilities, persistent: bool
) -> tuple[Stage, ...]:
    """Down to a narrow band in steps, then to bidiagonal form at once."""
    narrow = _NARROW
    if persistent and _in_ring(_RING_MOST, dtype, capabilities):
        narrow = _RING_MOST
    stages = []
    while u > narrow:
        narrower = max(narrow, u - _STEP)
        stages.append(_by_items(u, u - narrower + 1, dtype, capabilities, persistent))
        u = narrower
    ring = _in_ring(u, dtype, capabilities) if persistent else None
    return (*stages, ring or _by_items(u, u, dtype, capabilities, persistent))


def _by_items(
    b: int, reflector: int, dtype: DType, capabilities: Capabilities, persistent: bool
) -> Stage:
    """As many work-items as rows, as many sweeps as fit."""
    size = dtype.register.itemsize
    most = min(_REGISTERS // size, capabilities.max_workgroup, capabilities.max_workgroup_shape[0])
    most -= CREW
    items = min(_rounded(b + reflector, 32), most, _ITEMS)
    room = _local_memory(capabilities) // size
    while items > 32 and item_elements(reflector, items) > room:
        items //= 2
    fitting = min(most // items, room // item_elements(reflector, items), 4)
    return Stage(b, reflector, "items", items=items, sweeps=max(1, fitting) if persistent else 1)


def _in_ring(u: int, dtype: DType, capabilities: Capabilities) -> Stage | None:
    """The ring with the most sweeps that fit, if any; only bulk copies make it worth its while."""
    tile = tile_shape(u, capabilities.sub_group_size)
    if "bulk" not in capabilities.async_copy or tile is None:
        return None
    b, items = tile.order, 2 * tile.items
    room = _local_memory(capabilities) // dtype.register.itemsize - 256
    for sweeps in _RING_SWEEPS:
        stage = Stage(b, b, "ring", items=items, sweeps=sweeps)
        if stage.ring(0, 0).elements <= room and items * sweeps <= _RING_ITEMS:
            return stage
    return None


def _local_memory(capabilities: Capabilities) -> int:
    return max(capabilities.local_memory, capabilities.local_memory_opt_in)


def sweeps_of_wave(wave: int, n: int, stage: Stage) -> tuple[int, int]:
    """The first and last sweep r that have a hop ``wave - (lag + 1) r``."""
    b, apart = stage.bandwidth, stage.lag + 1
    begin = 1 + b - stage.reflector
    first = -((n - 2 - begin - wave * b) // (apart * b - 1))
    return max(0, first), min(wave // apart, stage.sweep_count(n) - 1)
