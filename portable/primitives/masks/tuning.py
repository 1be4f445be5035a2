"""How masks are cut; what ``portable tune compact`` searches."""

from __future__ import annotations

from typing import Final, NamedTuple

from portable.backend import Capabilities
from portable.tune.in_use import InUse
from portable.tune.space import Parameters, Space


class Sections(NamedTuple):
    """How a device shares what is true in a mask.

    Attributes
    ----------
    group : int
        Work-items of a workgroup at most, each with 32 elements of a section.
    groups : int
        Sections wanted for each compute unit where work-items are alone.
    shortest : int
        Elements of a section at least where they are alone.
    ahead : int
        Elements that a work-item of a workgroup reads before it writes.
    few : int
        Where less than one in so many is true, those that are true are looked for one by one.
    """

    group: int
    groups: int
    shortest: int
    ahead: int
    few: int


def _fits(choice: Parameters, dtype: object, capabilities: Capabilities) -> bool:
    del dtype
    alone = choice["GROUP"] == 1
    others = choice["AHEAD"] == 4 if alone else (choice["GROUPS"], choice["SHORTEST"]) == (8, 4096)
    return bool(alone == capabilities.lone_work_items and others)


SPACE: Final = Space(
    "compact",
    {
        "GROUP": (1, 64, 128, 256, 512),
        "GROUPS": (2, 4, 8, 16),
        "SHORTEST": (4096, 16384, 65536),
        "AHEAD": (4, 8, 16),
        "FEW": (2, 4, 8, 16, 32),
    },
    _fits,
)


def _sections(choice: Parameters, capabilities: Capabilities) -> Sections:
    group = choice["GROUP"]
    if group > 1:
        group = min(group, capabilities.max_workgroup) // 32 * 32
    return Sections(group, *(choice[name] for name in ("GROUPS", "SHORTEST", "AHEAD", "FEW")))


sections_for: Final = InUse(SPACE, _sections)
"""How a device cuts masks."""
