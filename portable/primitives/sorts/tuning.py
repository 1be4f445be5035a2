"""How long rows are cut to be sorted; what ``portable tune sort`` searches."""

from __future__ import annotations

from typing import Final, NamedTuple

from portable.backend import Capabilities
from portable.tune.in_use import InUse
from portable.tune.space import Parameters, Space


class Pieces(NamedTuple):
    """What a device's workgroups hold of a row, or work-items that are alone.

    Attributes
    ----------
    group : int
        Work-items of a workgroup at most.
    each : int
        Elements that a work-item of a workgroup holds at most.
    groups : int
        Workgroups, or sections where work-items are alone, that count for each compute unit.
    size : int
        Bytes of a bucket, of which a core's caches are to hold two.
    digit : int
        Bits by which a work-item that is alone moves elements at a time.
    """

    group: int
    each: int
    groups: int
    size: int
    digit: int


def _fits(choice: Parameters, dtype: object, capabilities: Capabilities) -> bool:
    del dtype
    alone = choice["GROUP"] == 1
    others = choice["EACH"] == 3 if alone else (choice["BYTES"], choice["DIGIT"]) == (1 << 16, 8)
    return bool(alone == capabilities.lone_work_items and others)


SPACE: Final = Space(
    "sort",
    {
        "GROUP": (1, 256),
        "EACH": (3, 7, 11, 15),
        "GROUPS": (1, 2, 4, 8, 16),
        "BYTES": (1 << 16, 1 << 17, 1 << 18, 1 << 19, 1 << 20),
        "DIGIT": (8, 9, 10, 11, 12),
    },
    _fits,
)


def _pieces(choice: Parameters, capabilities: Capabilities) -> Pieces:
    del capabilities
    return Pieces(*(choice[name] for name in SPACE.values))


pieces_for: Final = InUse(SPACE, _pieces)
"""How a device cuts long rows."""
