"""How element-wise work is cut; what ``portable tune map`` and ``transpose`` search."""

from __future__ import annotations

from typing import Final, NamedTuple

from portable.backend import Capabilities
from portable.tune.in_use import InUse
from portable.tune.space import Parameters, Space


class Shares(NamedTuple):
    """How a device shares element-wise work along rows.

    Attributes
    ----------
    group : int
        Work-items of a workgroup at most.
    chunk : int
        Elements for a work-item that is alone.
    tile : int
        Edge of the squares for one where an operand's neighbours do not lie along rows, whose
        cache lines then serve a square's worth of rows.
    vector : int
        Bytes of a result that a work-item of a workgroup writes at a time at least.
    loaded : int
        Bytes of an operand that it loads for that at most.
    """

    group: int
    chunk: int
    tile: int
    vector: int
    loaded: int


def _fits(choice: Parameters, dtype: object, capabilities: Capabilities) -> bool:
    del dtype
    alone = choice["GROUP"] == 1
    if alone:
        others = (choice["VECTOR"], choice["LOADED"]) == (16, 64)
    else:
        others = (choice["CHUNK"], choice["TILE"]) == (4096, 32)
    return bool(alone == capabilities.lone_work_items and others)


MAP: Final = Space(
    "map",
    {
        "GROUP": (1, 64, 128, 256, 512),
        "CHUNK": (4096, 8192, 16384, 32768, 65536),
        "TILE": (32, 64, 128),
        "VECTOR": (8, 16, 32),
        "LOADED": (32, 64, 128),
    },
    _fits,
)


def _shares(choice: Parameters, capabilities: Capabilities) -> Shares:
    group = min(choice["GROUP"], capabilities.max_workgroup)
    return Shares(group, choice["CHUNK"], choice["TILE"], choice["VECTOR"], choice["LOADED"])


shares_for: Final = InUse(MAP, _shares)
"""How a device shares element-wise work."""


class Squares(NamedTuple):
    """How a device cuts matrices whose elements change places.

    Attributes
    ----------
    group : int
        Work-items of a workgroup.
    tile : int
        Work-items along a tile's edge at most; or the edge of the squares within which one that is
        alone stays, so that lines of its caches serve it whole.
    edge : int
        Elements along a tile's edge at most, or along that of what one has to do that is alone.
    groups : int
        Workgroups, or squares, for each compute unit at least, before tiles are made larger.
    size : int
        Bytes that a work-item of a workgroup moves at a time even of the narrowest operand.
    """

    group: int
    tile: int
    edge: int
    groups: int
    size: int


def _square(choice: Parameters, dtype: object, capabilities: Capabilities) -> bool:
    del dtype
    alone = choice["GROUP"] == 1
    if alone:
        others = choice["BYTES"] == 4 and choice["TILE"] <= choice["EDGE"]
    else:
        others = choice["EDGE"] <= 256 and choice["TILE"] == 32
    return bool(alone == capabilities.lone_work_items and others)


TRANSPOSE: Final = Space(
    "transpose",
    {
        "GROUP": (1, 128, 256, 512),
        "TILE": (32, 64, 128),
        "EDGE": (64, 128, 256, 512, 1024),
        "GROUPS": (1, 2, 4, 8),
        "BYTES": (4, 8, 16),
    },
    _square,
)


def _squares(choice: Parameters, capabilities: Capabilities) -> Squares:
    del capabilities
    return Squares(*(choice[name] for name in TRANSPOSE.values))


squares_for: Final = InUse(TRANSPOSE, _squares)
"""How a device cuts matrices."""
