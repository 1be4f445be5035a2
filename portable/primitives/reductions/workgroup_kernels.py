"""Reductions along the last axis in which the work-items of a workgroup share the work.

Neighbouring work-items read neighbouring vectors, and combine what they found.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.library.arrivals import arrived_last
from portable.primitives.maps.elementwise_kernel import unravelled
from portable.primitives.reductions.merging import CHAINS, LEVELS


@kernel
def reduce_by_workgroup(arrays: Any, outs: Any, *, FOLD: Any, CUT: Any) -> None:
    """Reduces sections of the last axis.

    Parameters
    ----------
    arrays : tuple
        What is read, the first of them an array of rows; with what `FOLD` needs to know of it.
    outs : tuple
        What `FOLD` writes totals to.
    FOLD : Merge, Best or Spread
        What is done: it makes two totals one, ``FOLD.nothing`` being neutral, ``FOLD.of_section``
        is what a work-item's own elements come to, and ``FOLD.put`` writes a total.
    CUT : Sections
        How rows are cut, and shared.
    """
    shape = arrays[0].shape
    lead, length = shape[: len(shape) - 1], shape[len(shape) - 1]
    if CUT.rows == 1:
        reduce_section(arrays, outs, CUT.own(lead, length), FOLD, CUT)
    else:
        for turn in range(CUT.rows):
            reduce_section(arrays, outs, CUT.own(lead, length, turn), FOLD, CUT)


@function
def reduce_section(arrays: Any, outs: Any, section: Any, FOLD: Any, CUT: Any) -> None:
    """Reduces one section for each row of a workgroup."""
    total = FOLD.nothing()
    if section.inside:
        total = FOLD.of_section(arrays, section, CUT.width)
    total = kl.workgroup_reduce(FOLD, total, width=CUT.width)
    if section.inside and kl.local_id(0) % CUT.width == 0:
        FOLD.put(outs, section, total)


@kernel
def reduce_at_once(
    x: kl.Array,
    parts: kl.Array,
    counts: kl.Array,
    out: kl.Array,
    *,
    MERGE: Any,
    WIDTH: int,
    AHEAD: int,
) -> None:
    """Merges the last axis: each workgroup a part, the last one of a row to come all of them.

    Nobody waits.

    Parameters
    ----------
    x : array
        What is read.
    parts : array
        What the parts of each row come to: whole tiles, of `AHEAD` vectors for each work-item.
    counts : array
        A place for each row; all are 0, and are left so.
    out : array
        What rows come to.
    MERGE : Merge
        What is done.
    WIDTH, AHEAD : int
        Work-items of a workgroup, and vectors that each reads before it merges them.
    """
    lead = x.shape[: x.ndim - 1]
    sections = parts.shape[parts.ndim - 1]
    item = kl.local_id(0)
    group = kl.group_id(0)
    s, row = group % sections, group // sections
    outer = unravelled(row, lead)
    length, tile = x.shape[x.ndim - 1], AHEAD * WIDTH * MERGE.lanes
    section = kl.cdiv(kl.cdiv(length, tile), sections) * tile
    begin = s * section
    stop = begin + kl.minimum(section, length - begin)
    total = MERGE.along(x, outer, begin, stop, tile, WIDTH, AHEAD, LEVELS)
    total = kl.workgroup_reduce(MERGE, total)
    if item == 0:
        parts[*outer, s] = total
    if arrived_last(counts, row, sections):
        rest = MERGE.nothing()
        if WIDTH == 1:
            # Work-items that are alone have many sections, since each adds up a short one.
            jump, merge = CHAINS * MERGE.lanes, MERGE.taking(MERGE.lanes)
            rest = merge.along(parts, outer, 0, sections, jump, 1, CHAINS, LEVELS)
        else:
            for q in range(item, sections, WIDTH):
                rest = MERGE(rest, parts[*outer, q])
        rest = kl.workgroup_reduce(MERGE, rest)
        if item == 0:
            out[*outer] = rest
