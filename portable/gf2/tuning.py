"""How elimination and products over GF(2) are laid out on a device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from portable.backend import Capabilities
from portable.dtypes import DType, uint64
from portable.errors import PortableError
from portable.tune.space import Parameters, Space
from portable.tune.table import lookup, state

_WORD: Final = 64
_MOST_IN_BATCH: Final = 256
"""Work-items of the one workgroup that chooses pivots: more wait longer for each other."""

_AHEAD: Final = 4
"""Panels for which a lone work-item goes through its rows once: their tables fit into L2 caches."""

_CHOICE_BYTES: Final = 4096
"""What else is kept beside tables: pivots of a panel, and what work-items find together."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One layout.

    Attributes
    ----------
    bits : int
        Rows that one table combines: it has ``2 ** bits`` entries.
    width : int
        Words of a stripe.
    lanes : int
        Words that a work-item takes at once.
    workgroup : (int, int)
        Work-items along a stripe and along rows; (1, 1) where one has a stripe to itself.
    rows : int
        Rows that a workgroup combines with one set of tables at most, where workgroups share a
        stripe.
    batch : int
        Rows among which pivots are looked for at a time.
    """

    bits: int
    width: int
    lanes: int
    workgroup: tuple[int, int]
    rows: int
    batch: int

    @property
    def tables(self) -> int:
        """Tables that 64 rows make."""
        return -(-_WORD // self.bits)

    @property
    def ahead(self) -> int:
        """Panels of which tables are kept at once, where a work-item has a stripe to itself."""
        return _AHEAD if self.alone else 1

    @property
    def abreast(self) -> int:
        """Rows that a work-item takes at once where pivots are chosen."""
        return self.lanes if self.alone else 1

    @property
    def stride(self) -> int:
        """Rows of a batch that are gone through before the next one is searched for."""
        return self.batch if self.alone else 16

    @property
    def copies(self) -> int:
        """Of the bodies of loops that a work-item of many goes through once: instructions cost.

        0 leaves it to the compiler.
        """
        return 0 if self.alone else 1

    @property
    def names(self) -> Shape:
        """For tables of single words."""
        return replace(self, width=1, lanes=1)

    def of_width(self, width: int) -> Shape:
        """The same for stripes of another width, which is a power of two."""
        lanes, items = min(self.lanes, width), self.workgroup[0] * self.workgroup[1]
        across = 1 if self.alone else width // lanes
        return replace(self, width=width, lanes=lanes, workgroup=(across, items // across))

    @property
    def slice(self) -> Shape:
        """For tables of what one work-item takes of a row."""
        return replace(self, width=self.lanes)

    @property
    def alone(self) -> bool:
        """Whether a work-item has a stripe to itself."""
        return self.workgroup == (1, 1)

    def resident(self, capabilities: Capabilities) -> int:
        """Workgroups of a product that a compute unit has local memory for, of one at least."""
        room = max(capabilities.local_memory, capabilities.local_memory_opt_in)
        taken = 8 * (self.width * ((self.tables << self.bits) + _WORD) + self.rows)
        return max(room // taken, 1)


def _local_bytes(choice: Parameters) -> int:
    """What the largest kernel takes of local memory."""
    bits, width, lanes, items = (int(choice[x]) for x in ("K", "W", "LANES", "WORKGROUP"))
    entries = -(-_WORD // bits) << bits
    tables = 8 * width * ((_AHEAD if items == 1 else 1) * entries + _WORD)
    batch = _WORD if items == 1 else min(items, _MOST_IN_BATCH)
    chooses = tables + 8 * entries + 16 * batch + _CHOICE_BYTES
    if items == 1:
        return chooses
    multiplies = tables + 8 * int(choice["ROWS"])
    solves = 8 * lanes * (_WORD * width + entries) + 4 * _WORD * width
    return max(chooses, multiplies, solves)


def _fits(choice: Parameters, dtype: DType, capabilities: Capabilities) -> bool:
    del dtype
    width, lanes, items = choice["W"], choice["LANES"], choice["WORKGROUP"]
    room = max(capabilities.local_memory, capabilities.local_memory_opt_in)
    if lanes > width or items > capabilities.max_workgroup or _local_bytes(choice) > room:
        return False
    if (items == 1) == capabilities.local_memory_dedicated:
        return False
    return bool(items == 1 or items % (width // lanes) == 0)


SPACE: Final = Space(
    "gf2",
    {
        "K": (4, 5, 6, 7, 8),
        "W": (4, 8, 16, 32),
        "LANES": (1, 2, 4, 8),
        "WORKGROUP": (1, 64, 128, 256, 512),
        "ROWS": (256, 512, 1024, 2048, 4096, 8192),
    },
    _fits,
)


def shape_for(capabilities: Capabilities) -> Shape:
    """The first layout of the table that the device has room for."""
    return _shape_for(capabilities, state())


@lru_cache(maxsize=256)
def _shape_for(capabilities: Capabilities, table: Any) -> Shape:
    """As of one state of the user's table."""
    del table
    for choice in lookup(SPACE, uint64, capabilities):
        if _fits(choice, uint64, capabilities):
            return shape_of(choice)
    raise PortableError(
        f"no layout for bits fits {capabilities.name}, which has {capabilities.local_memory} bytes "
        "of local memory; search one with `portable tune gf2 --write`"
    )


def shape_of(choice: Parameters) -> Shape:
    """A layout by tuned parameters."""
    width, lanes, items = (int(choice[name]) for name in ("W", "LANES", "WORKGROUP"))
    across = 1 if items == 1 else width // lanes
    batch = _WORD if items == 1 else min(items, _MOST_IN_BATCH)
    return Shape(
        int(choice["K"]), width, lanes, (across, items // across), int(choice["ROWS"]), batch
    )
