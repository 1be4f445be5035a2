"""How the hops of a bulge chase are laid out on a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from portable.backend import Capabilities
from portable.dtypes import DType
from portable.linalg.band_window import window_elements

__all__ = ["Shape", "shape_for"]

_MOST_SWEEPS: Final = 8
_WINDOWS: Final = 512 * 1024
_ITEMS: Final = 256
"""Work-items of a workgroup at most: NVIDIA's OpenCL has not the registers for more."""

_WIDEST_WINDOW: Final = 64


@dataclass(frozen=True, slots=True)
class Shape:
    """One layout.

    Attributes
    ----------
    bandwidth : int
        Superdiagonals that the hops work with, at least those of the matrix: the others are zeros.
    lanes : int
        Rows of a vector where one work-item makes a hop; 1 where a workgroup does.
    rows : int
        Vectors of rows that are combined at a time; twice `bandwidth` is a multiple of ``lanes *
        rows``.
    items : int
        Work-items of a hop.
    sweeps : int
        Sweeps of a pack.
    every : int
        Steps between looks at the pack before.
    persistent : bool
        Whether one launch makes all hops; else each wave is one.
    storage : DType
        The type of the working storage: half precision is kept in half across work-items, and in
        single in vectors, where to convert costs more than the memory.
    """

    bandwidth: int
    lanes: int
    rows: int
    items: int
    sweeps: int
    every: int
    persistent: bool
    storage: DType
    window: bool = False


def shape_for(u: int, n: int, dtype: DType, capabilities: Capabilities) -> Shape:
    """The layout that suits a device: vectors on a CPU, work-items elsewhere."""
    ordered = capabilities.memory_orders == "acq_rel"
    persistent = capabilities.forward_progress and ordered
    if capabilities.kind == "cpu":
        return _in_vectors(u, n, dtype, capabilities, persistent)
    return _across_items(u, dtype, capabilities, persistent)


def _in_vectors(
    u: int, n: int, dtype: DType, capabilities: Capabilities, persistent: bool
) -> Shape:
    """Packs small enough to have all units at work, their windows to stay in a core's own cache."""
    size = dtype.register.itemsize
    lanes = max(4, min(capabilities.vector_bytes // size, 1 << (u - 1).bit_length()))
    bandwidth = -(-u // lanes) * lanes
    rows = 4 if (2 * bandwidth // lanes) % 4 == 0 else 2
    lag = n // bandwidth // (2 * capabilities.compute_units)
    fitting = _WINDOWS // (9 * bandwidth * bandwidth * size)
    sweeps = max(1, min(_MOST_SWEEPS, lag // 4, fitting))
    every = max(1, min(_MOST_SWEEPS, lag // 4))
    return Shape(bandwidth, lanes, rows, 1, sweeps, every, persistent, dtype.register)


def _across_items(u: int, dtype: DType, capabilities: Capabilities, persistent: bool) -> Shape:
    """The window in local memory where it and a row a work-item in registers fit."""
    most = min(_ITEMS, capabilities.max_workgroup, capabilities.max_workgroup_shape[0])
    items = min(2 * u, most)
    sweeps = max(1, min(4, _ITEMS // items)) if persistent else 1
    memory = max(capabilities.local_memory, capabilities.local_memory_opt_in)
    room = memory // dtype.register.itemsize
    while sweeps > 1 and window_elements(u, sweeps) > room:
        sweeps -= 1
    window = persistent and u <= _WIDEST_WINDOW and window_elements(u, sweeps) <= room
    return Shape(u, 1, 1, items, sweeps, 1, persistent, dtype, window)
