"""How the primitives' work is cut on a device; what ``portable tune`` searches of them.

A record says what its numbers mean, a space which of them are tried, in the order of the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from portable.backend import Capabilities
from portable.tune.in_use import InUse
from portable.tune.space import Parameters, Space

T = TypeVar("T")
_Fits = Callable[[Parameters, Any, Capabilities], bool]


def _in_use(space: Space, record: Callable[..., T], *, capped: bool = True) -> InUse[T]:
    """A space's choices as records; no group, which comes first, is larger than a device allows."""

    def made(choice: Parameters, capabilities: Capabilities) -> T:
        group, *others = (choice[name] for name in space.values)
        return record(min(group, capabilities.max_workgroup) if capped else group, *others)

    return InUse(space, made)


def _suits(choice: Parameters, dtype: Any, capabilities: Capabilities) -> bool:
    """Whether a choice leaves work-items to themselves just where they are best used so."""
    del dtype
    return bool((choice["GROUP"] == 1) == capabilities.lone_work_items)


def _suits_with(alone: Mapping[str, int], together: Mapping[str, int]) -> _Fits:
    """The same, and what does not count for work-items alone, or together, has one value there."""

    def fits(choice: Parameters, dtype: Any, capabilities: Capabilities) -> bool:
        settled = alone if choice["GROUP"] == 1 else together
        return _suits(choice, dtype, capabilities) and all(
            choice[name] == value for name, value in settled.items()
        )

    return fits


# Element-wise work, and matrices whose elements change places.


class RowShares(NamedTuple):
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


row_shares_for: Final = _in_use(
    Space(
        "map",
        {
            "GROUP": (1, 64, 128, 256, 512),
            "CHUNK": (4096, 8192, 16384, 32768, 65536),
            "TILE": (32, 64, 128),
            "VECTOR": (8, 16, 32),
            "LOADED": (32, 64, 128),
        },
        _suits_with({"VECTOR": 16, "LOADED": 64}, {"CHUNK": 4096, "TILE": 32}),
    ),
    RowShares,
)
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


def _square(choice: Parameters, dtype: Any, capabilities: Capabilities) -> bool:
    if choice["GROUP"] == 1:
        others = choice["BYTES"] == 4 and choice["TILE"] <= choice["EDGE"]
    else:
        others = choice["EDGE"] <= 256 and choice["TILE"] == 32
    return _suits(choice, dtype, capabilities) and others


squares_for: Final = _in_use(
    Space(
        "transpose",
        {
            "GROUP": (1, 128, 256, 512),
            "TILE": (32, 64, 128),
            "EDGE": (64, 128, 256, 512, 1024),
            "GROUPS": (1, 2, 4, 8),
            "BYTES": (4, 8, 16),
        },
        _square,
    ),
    Squares,
    capped=False,
)
"""How a device cuts matrices."""


# Reductions.


class Shares(NamedTuple):
    """How a device's workgroups share a reduction.

    Attributes
    ----------
    group : int
        Work-items of a workgroup at most.
    groups : int
        Workgroups wanted for each compute unit where each leaves its total for a second launch.
    at_once : int
        The same where the last of them combines all totals.
    ahead : int
        Vectors that a work-item reads before it combines them.
    vectors : int
        Vectors of a section at least.
    """

    group: int
    groups: int
    at_once: int
    ahead: int
    vectors: int


shares_for: Final = _in_use(
    Space(
        "reduce",
        {
            "GROUP": (1, 64, 128, 256, 512),
            "GROUPS": (4, 8, 16, 32, 64),
            "AT_ONCE": (1, 2, 4, 8, 16),
            "AHEAD": (2, 4, 8, 16),
            "VECTORS": (1024, 4096, 16384),
        },
        _suits,
    ),
    Shares,
)
"""How a device shares a reduction along neighbours."""


class Columns(NamedTuple):
    """How a device's work-items share a reduction whose neighbours lie along another axis.

    Attributes
    ----------
    group : int
        Work-items of a workgroup at most.
    width : int
        Work-items along neighbours, or vectors of a work-item that is alone.
    depth : int
        Elements of the axis for each work-item: at least so many, or if it is alone at most.
    groups : int
        Workgroups wanted for each compute unit.
    """

    group: int
    width: int
    depth: int
    groups: int


columns_for: Final = _in_use(
    Space(
        "reduce_columns",
        {
            "GROUP": (1, 128, 256, 512),
            "WIDTH": (16, 32, 64, 128, 256, 512, 1024),
            "DEPTH": (4, 8, 16, 64, 128, 256, 512),
            "GROUPS": (2, 4, 8),
        },
        _suits,
    ),
    Columns,
)
"""How a device shares a reduction of columns."""


def _stateful(kernel: str) -> InUse[Columns]:
    """Reductions of columns that remember more than a number, a vector for each work-item."""
    values = {
        "GROUP": (1, 64, 128, 256),
        "WIDTH": (1, 64, 128, 256, 512),
        "DEPTH": (32, 64, 128, 256, 512, 1024, 2048),
        "GROUPS": (4, 8, 16),
    }
    return _in_use(Space(kernel, values, _suits_with({}, {"WIDTH": 1})), Columns)


moments_for: Final = _stateful("variance_columns")
"""How a device shares variances of columns."""
best_for: Final = _stateful("argmax_columns")
"""How a device shares a search for the greatest elements of columns."""


# Running totals.


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


def _line(choice: Parameters, dtype: Any, capabilities: Capabilities) -> bool:
    """Whether what counts for others alone is left at its first value, and caches are caches."""
    if choice["GROUP"] == 1:
        fit = choice["SPAN"] == 1 and choice["BYTES"] > 4096
    else:
        fit = choice["AHEAD"] == 0 and choice["SHORTEST"] == 4096
        fit = fit and choice["BYTES"] < 4096 and choice["GROUP"] >= 8 * choice["SPAN"]
    return _suits(choice, dtype, capabilities) and fit


lines_for: Final = _in_use(
    Space(
        "scan",
        {
            "GROUP": (1, 64, 128, 256),
            "GROUPS": (1, 2, 3, 4, 8, 16),
            "BYTES": (64, 128, 224, 1 << 18, 1 << 19, 1 << 20, 1 << 21),
            "SPAN": (1, 2, 3, 4),
            "AHEAD": (0, 4096, 8192, 16384),
            "SHORTEST": (4096, 16384, 65536),
        },
        _line,
    ),
    Lines,
    capped=False,
)
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


rows_for: Final = _in_use(
    Space(
        "scan_rows",
        {"GROUP": (64, 128, 256, 512), "BYTES": (32, 64, 128, 256), "NEIGHBOURS": (4, 8, 16, 32)},
        lambda choice, dtype, capabilities: choice["GROUP"] >= choice["NEIGHBOURS"],
    ),
    Rows,
)
"""How a device's workgroups hold whole rows."""


class ScannedColumns(NamedTuple):
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


def _scanned(choice: Parameters, dtype: Any, capabilities: Capabilities) -> bool:
    alone = choice["GROUP"] == 1
    fit = choice["BYTES"] == 64 if alone else 2 * choice["WIDTH"] <= choice["GROUP"]
    return _suits(choice, dtype, capabilities) and fit


scanned_columns_for: Final = _in_use(
    Space(
        "scan_columns",
        {
            "GROUP": (1, 128, 256, 512),
            "WIDTH": (8, 16, 32, 64, 128, 256, 512),
            "GROUPS": (1, 2, 3, 4),
            "BYTES": (64, 128, 256),
        },
        _scanned,
    ),
    ScannedColumns,
)
"""How a device shares running totals of columns."""


# Masks and sorts.


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


def _section(group: int, *others: int) -> Sections:
    return Sections(group if group == 1 else group // 32 * 32, *others)


sections_for: Final = _in_use(
    Space(
        "compact",
        {
            "GROUP": (1, 64, 128, 256, 512),
            "GROUPS": (2, 4, 8, 16),
            "SHORTEST": (4096, 16384, 65536),
            "AHEAD": (4, 8, 16),
            "FEW": (2, 4, 8, 16, 32),
        },
        _suits_with({"AHEAD": 4}, {"GROUPS": 8, "SHORTEST": 4096}),
    ),
    _section,
)
"""How a device cuts masks."""


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


pieces_for: Final = _in_use(
    Space(
        "sort",
        {
            "GROUP": (1, 256),
            "EACH": (3, 7, 11, 15),
            "GROUPS": (1, 2, 4, 8, 16),
            "BYTES": (1 << 16, 1 << 17, 1 << 18, 1 << 19, 1 << 20),
            "DIGIT": (8, 9, 10, 11, 12),
        },
        _suits_with({"EACH": 3}, {"BYTES": 1 << 16, "DIGIT": 8}),
    ),
    Pieces,
    capped=False,
)
"""How a device cuts long rows."""
