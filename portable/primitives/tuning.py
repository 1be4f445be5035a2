"""How the primitives' work is cut on a device.

Each is cut in one of two ways: as suits work-items that have cores to themselves, or workgroups. No
device that was searched, processors or GPUs, kept other numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

from portable.backend import Capabilities

T = TypeVar("T")


def _by(alone: T, together: T, whole: int | None = 1) -> Callable[[Capabilities], T]:
    """What suits a device, in groups that it allows of so many `whole` parts; None: as given."""

    @lru_cache(maxsize=256)
    def suited(capabilities: Capabilities) -> T:
        if capabilities.single_work_items or whole is None:
            return alone if capabilities.single_work_items else together
        shares: Any = together
        group = min(shares.group, capabilities.max_workgroup) // whole * whole
        return shares._replace(group=group)  # type: ignore[no-any-return]

    return suited


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
    """

    group: int
    chunk: int
    tile: int


row_shares_for: Final = _by(RowShares(1, 16384, 64), RowShares(256, 4096, 32))
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


squares_for: Final = _by(Squares(1, 64, 512, 8, 4), Squares(256, 32, 128, 2, 8), None)
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
    """

    group: int
    groups: int
    at_once: int
    ahead: int


shares_for: Final = _by(Shares(1, 8, 8, 4), Shares(256, 32, 4, 8))
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


columns_for: Final = _by(Columns(1, 512, 256, 4), Columns(256, 32, 8, 4))
"""How a device shares a reduction of columns."""


moments_for: Final = _by(Columns(1, 128, 256, 8), Columns(64, 1, 32, 8))
"""How a device shares variances of columns."""
best_for: Final = _by(Columns(1, 256, 1024, 8), Columns(64, 1, 32, 8))
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


lines_for: Final = _by(Lines(1, 8, 1 << 20, 1, 8192, 16384), Lines(128, 3, 224, 3, 0, 4096), None)
"""How a device shares long rows."""


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


scanned_columns_for: Final = _by(ScannedColumns(1, 256, 2, 64), ScannedColumns(256, 16, 2, 256))
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


sections_for: Final = _by(Sections(1, 8, 16384, 4, 16), Sections(256, 8, 4096, 8, 2), 32)
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


pieces_for: Final = _by(Pieces(1, 3, 1, 1 << 18, 10), Pieces(256, 15, 8, 1 << 16, 8), None)
"""How a device cuts long rows."""
