"""How rows of reals are recombined; what ``portable tune rfft`` searches."""

from __future__ import annotations

from typing import Final, NamedTuple

from portable.backend import Capabilities
from portable.tune.in_use import InUse
from portable.tune.space import Parameters, Space


class Halves(NamedTuple):
    """How a device shares rows that are merged or split in a launch of their own.

    Attributes
    ----------
    group : int
        Work-items of a workgroup at most.
    chunk : int
        Elements for each of them, beside as many that are mirrored to these.
    """

    group: int
    chunk: int


SPACE: Final = Space(
    "rfft",
    {"GROUP": (1, 64, 128, 256, 512), "CHUNK": (1, 256, 512, 1024, 2048, 4096)},
    lambda choice, dtype, capabilities: (
        (choice["GROUP"] == 1) == (choice["CHUNK"] > 1) == capabilities.lone_work_items
    ),
)


def _halves(choice: Parameters, capabilities: Capabilities) -> Halves:
    return Halves(min(choice["GROUP"], capabilities.max_workgroup), choice["CHUNK"])


halves_for: Final = InUse(SPACE, _halves)
"""How a device recombines rows."""
