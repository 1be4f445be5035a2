"""The one kernel behind every fused function that ends in reductions."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.array.fused_kernel import evaluated
from portable.lang.arrivals import arrived_last
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import NUMBER, product_of, unravelled
from portable.primitives.reductions.merging import folded

__all__ = ["MOST_DIMENSIONS", "MOST_REDUCTIONS", "fused_reduction"]

MOST_DIMENSIONS = 4
"""Of what is left of arrays once dimensions that are one in memory are taken together."""
MOST_REDUCTIONS = 4


@function
def merged_into(totals: Any, values: Any, VALUES: Any, MERGES: Any) -> None:
    """Merges the values that are reduced into what was found before."""
    for k in kl.static_range(len(MERGES)):
        totals[k][0] = MERGES[k][0](totals[k][0], kl.cast(values[VALUES[k]], MERGES[k][1]))


@function
def ended(totals: Any, count: Any, AFTER: Any, MERGES: Any) -> Any:
    """The steps behind the reductions, whose inputs these are; means are divided here."""
    found = [
        totals[k] / kl.cast(count, MERGES[k][1]) if MERGES[k][3] else totals[k]
        for k in kl.static_range(len(MERGES))
    ]
    unused = [kl.i32(0) for k in kl.static_range(len(MERGES), MOST_REDUCTIONS)]
    how = (NUMBER,) * MOST_REDUCTIONS
    return evaluated((*found, *unused), (), 0, 1, how, AFTER)


@kernel
def fused_reduction(
    in0: Any,
    in1: Any,
    in2: Any,
    in3: Any,
    in4: Any,
    in5: Any,
    in6: Any,
    in7: Any,
    in8: Any,
    in9: Any,
    in10: Any,
    in11: Any,
    part0: Any,
    part1: Any,
    part2: Any,
    part3: Any,
    counts: Any,
    out0: Any,
    out1: Any,
    out2: Any,
    out3: Any,
    n0: Any,
    n1: Any,
    n2: Any,
    n3: Any,
    sections: Any,
    count: Any,
    *,
    HOW: Any,
    STEPS: Any,
    VALUES: Any,
    MERGES: Any,
    AFTER: Any,
    RESULTS: Any,
    KEPT: int,
    DIMS: int,
    LANES: int,
    WIDTH: int,
) -> None:
    """Does `STEPS` for each element, merges the values numbered `VALUES` and does `AFTER`.

    The first `KEPT` of the `DIMS` extents are those of the results, the rest is merged: a workgroup
    does one of so many `sections` for one result. The last one to come merges all sections where
    `counts` are given, zeros which are left so; else parts are all that is written (or with one
    section results). Inputs and outputs beyond those in use are None.
    """
    arrays = (in0, in1, in2, in3, in4, in5, in6, in7, in8, in9, in10, in11)
    parts, outs = (part0, part1, part2, part3), (out0, out1, out2, out3)
    extents = (n0, n1, n2, n3)
    kept, lead, inner = extents[:KEPT], extents[KEPT : DIMS - 1], extents[DIMS - 1]
    item, group = kl.local_id(0), kl.group_id(0)
    s, row = group % sections, group // sections
    index = unravelled(row, kept)
    totals = [kl.private((1,), MERGES[k][1], lanes=LANES) for k in kl.static_range(len(MERGES))]
    for k in kl.static_range(len(MERGES)):
        neutral = kl.cast(MERGES[k][2], MERGES[k][1])
        totals[k][0] = kl.splat(neutral, LANES) if LANES > 1 else neutral
    along = inner // LANES
    pieces = product_of(lead) * along
    section = kl.cdiv(pieces, sections)
    begin = kl.minimum(s * section, pieces)
    stop = kl.minimum(begin + section, pieces)
    for p in kl.range(begin + item, stop, WIDTH):
        if len(lead) > 0:
            outer = (*index, *unravelled(p // along, lead))
            values = evaluated(arrays, outer, p % along * LANES, LANES, HOW, STEPS)
            merged_into(totals, values, VALUES, MERGES)
        else:
            values = evaluated(arrays, index, p * LANES, LANES, HOW, STEPS)
            merged_into(totals, values, VALUES, MERGES)
    ends = [kl.private((1,), MERGES[k][1]) for k in kl.static_range(len(MERGES))]
    for k in kl.static_range(len(MERGES)):
        ends[k][0] = folded(totals[k][0], LANES, MERGES[k][0])
    if LANES > 1 and len(lead) == 0 and s == sections - 1:
        for j in kl.range(along * LANES + item, inner, WIDTH):
            merged_into(ends, evaluated(arrays, index, j, 1, HOW, STEPS), VALUES, MERGES)
    own = [kl.workgroup_reduce(MERGES[k][0], ends[k][0]) for k in kl.static_range(len(MERGES))]
    if parts[0] is None:
        values = ended(own, count, AFTER, MERGES)
        if item == 0:
            for k in kl.static_range(len(RESULTS)):
                outs[k][row] = values[RESULTS[k]]
    else:
        if item == 0:
            for k in kl.static_range(len(MERGES)):
                parts[k][row, s] = own[k]
        if counts is not None and arrived_last(counts, row, sections):
            for k in kl.static_range(len(MERGES)):
                ends[k][0] = kl.cast(MERGES[k][2], MERGES[k][1])
                for q in kl.range(item, sections, WIDTH):
                    ends[k][0] = MERGES[k][0](ends[k][0], parts[k][row, q])
            last = [
                kl.workgroup_reduce(MERGES[k][0], ends[k][0]) for k in kl.static_range(len(MERGES))
            ]
            values = ended(last, count, AFTER, MERGES)
            if item == 0:
                for k in kl.static_range(len(RESULTS)):
                    outs[k][row] = values[RESULTS[k]]
