"""How running totals are cut; what ``portable tune scan`` and its like search."""

from __future__ import annotations

from typing import Final, NamedTuple

from portable.backend import Capabilities
from portable.primitives.reductions.tuning import suits
from portable.tune.in_use import InUse
from portable.tune.space import Parameters, Space


class Lines(NamedTuple):
    """How a device shares long rows, in parts that are worked at in turn.

    Attributes
    ----------
    group : int
        Work-items of a workgroup.
    groups : int
        Workgroups at work for each compute unit, or blocks wanted for each where work-items are
        alone.
    size : int
        Bytes of totals that a work-item holds at most. One that is alone holds elements, in its
        core's caches: more than it costs to draw the next block, which waits until all that was
        written has left the core; less than the core's part of the last of the caches.
    span : int
        Blocks of tiles that are looked at together: about as many tiles as there are workgroups.
    ahead : int
        For so many bytes before they are read elements are sent.
    shortest : int
        Elements of a block at least.
    """

    group: int
    groups: int
    size: int
    span: int
    ahead: int
    shortest: int


LINES: Final = Space(
    "scan",
    {
        "GROUP": (1, 64, 128, 256),
        "GROUPS": (1, 2, 3, 4, 8, 16),
        "BYTES": (64, 128, 224, 1 << 18, 1 << 19, 1 << 20, 1 << 21),
        "SPAN": (1, 2, 3, 4),
        "AHEAD": (0, 4096, 8192, 16384),
        "SHORTEST": (4096, 16384, 65536),
    },
    lambda choice, dtype, capabilities: suits(choice, dtype, capabilities) and _fit(choice),
)


def _fit(choice: Parameters) -> bool:
    """Whether what counts for others alone is left at its first value, and caches are caches."""
    alone = choice["GROUP"] == 1
    if alone:
        return bool(choice["SPAN"] == 1 and choice["BYTES"] > 4096)
    others = choice["AHEAD"] == 0 and choice["SHORTEST"] == 4096
    return bool(others and choice["BYTES"] < 4096 and choice["GROUP"] >= 8 * choice["SPAN"])


def _lines(choice: Parameters, capabilities: Capabilities) -> Lines:
    del capabilities
    return Lines(*(choice[name] for name in LINES.values))


lines_for: Final = InUse(LINES, _lines)
"""How a device shares long rows."""


class Rows(NamedTuple):
    """How a device's workgroups hold whole rows.

    Attributes
    ----------
    group : int
        Work-items of a workgroup at most.
    size : int
        Bytes of totals that a work-item holds at most.
    neighbours : int
        Work-items along a row at least, before one holds several vectors.
    """

    group: int
    size: int
    neighbours: int


ROWS: Final = Space(
    "scan_rows",
    {"GROUP": (64, 128, 256, 512), "BYTES": (32, 64, 128, 256), "NEIGHBOURS": (4, 8, 16, 32)},
    lambda choice, dtype, capabilities: choice["GROUP"] >= choice["NEIGHBOURS"],
)


def _rows(choice: Parameters, capabilities: Capabilities) -> Rows:
    group = min(choice["GROUP"], capabilities.max_workgroup)
    return Rows(group, choice["BYTES"], choice["NEIGHBOURS"])


rows_for: Final = InUse(ROWS, _rows)
"""How a device's workgroups hold whole rows."""


class Columns(NamedTuple):
    """How a device shares running totals whose neighbours lie along another axis.

    Attributes
    ----------
    group : int
        Work-items of a workgroup at most.
    width : int
        Work-items along neighbours, or vectors of a work-item that is alone.
    groups : int
        Workgroups for each compute unit, or strips wanted for each where work-items are alone.
    size : int
        Bytes of totals that a work-item of a workgroup holds.
    """

    group: int
    width: int
    groups: int
    size: int


COLUMNS: Final = Space(
    "scan_columns",
    {
        "GROUP": (1, 128, 256, 512),
        "WIDTH": (8, 16, 32, 64, 128, 256, 512),
        "GROUPS": (1, 2, 3, 4),
        "BYTES": (64, 128, 256),
    },
    lambda choice, dtype, capabilities: (
        suits(choice, dtype, capabilities)
        and (
            choice["BYTES"] == 64
            if choice["GROUP"] == 1
            else 2 * choice["WIDTH"] <= choice["GROUP"]
        )
    ),
)


def _columns(choice: Parameters, capabilities: Capabilities) -> Columns:
    group = min(choice["GROUP"], capabilities.max_workgroup)
    return Columns(group, choice["WIDTH"], choice["GROUPS"], choice["BYTES"])


columns_for: Final = InUse(COLUMNS, _columns)
"""How a device shares running totals of columns."""
