"""The one kernel behind every fused function that ends in reductions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.array.fused_kernel import Steps
from portable.lang.arrivals import arrived_last
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import NUMBER, product_of, unravelled
from portable.primitives.reductions.merging import folded

__all__ = ["MOST_DIMENSIONS", "MOST_REDUCTIONS", "Reductions", "fused_reduction"]

MOST_DIMENSIONS = 4
"""Of what is left of arrays once dimensions that are one in memory are taken together."""
MOST_REDUCTIONS = 4


@dataclass(frozen=True)
class Reductions:
    """What a fused function does that ends in reductions; a constant of the kernel.

    Attributes
    ----------
    steps : Steps
        What is done to each element.
    values : tuple of int
        The numbers of the values that are reduced.
    merges : tuple of Merge
        How each is.
    means : tuple of bool
        Whether the total is then divided by how many there were.
    after : tuple
        The steps that follow, whose first `MOST_REDUCTIONS` inputs are what the reductions give.
    results : tuple of int
        The numbers of those of their values that are kept.
    """

    steps: Steps
    values: Any
    merges: Any
    means: Any
    after: Any
    results: Any

    @function
    def merge(self, totals: Any, found: Any) -> None:
        """Merges the values that are reduced into what was found before."""
        for k in kl.static_range(len(self.merges)):
            value = kl.cast(found[self.values[k]], self.merges[k].kind)
            totals[k][0] = self.merges[k](totals[k][0], value)

    @function
    def together(self, ends: Any) -> Any:
        """What the work-items of a workgroup come to."""
        return [
            kl.workgroup_reduce(self.merges[k], ends[k][0])
            for k in kl.static_range(len(self.merges))
        ]

    @function
    def finish(self, totals: Any, count: Any, outs: Any, row: Any) -> None:
        """Does the steps behind the reductions of so many elements, and keeps the results."""
        found = [
            totals[k] / kl.cast(count, self.merges[k].kind) if self.means[k] else totals[k]
            for k in kl.static_range(len(self.merges))
        ]
        unused = [kl.i32(0) for _ in kl.static_range(len(self.merges), MOST_REDUCTIONS)]
        after = Steps((NUMBER,) * MOST_REDUCTIONS, self.after)
        values = after.values((*found, *unused), (), 0, 1)
        if kl.local_id(0) == 0:
            for k in kl.static_range(len(self.results)):
                outs[k][row] = values[self.results[k]]


@kernel
def fused_reduction(
    inputs: Any,
    parts: Any,
    counts: Any,
    outs: Any,
    extents: Any,
    sections: Any,
    count: Any,
    *,
    REDUCTIONS: Any,
    KEPT: int,
    LANES: int,
    WIDTH: int,
) -> None:
    """Does the steps for each element, merges what is reduced and does the steps that follow.

    The first `KEPT` of the extents are those of the results, the rest is merged: a workgroup does
    one of so many `sections` for one result. The last one to come merges all sections where
    `counts` are given, zeros which are left so; else `parts` are all that is written (or where
    there are none results, of `count` elements each).
    """
    MERGES = REDUCTIONS.merges
    kept, inner = extents[:KEPT], extents[len(extents) - 1]
    lead = extents[KEPT : len(extents) - 1]
    item, group = kl.local_id(0), kl.group_id(0)
    s, row = group % sections, group // sections
    index = unravelled(row, kept)
    totals = [kl.private((1,), merge.kind, lanes=LANES) for merge in MERGES]
    for k in kl.static_range(len(MERGES)):
        totals[k][0] = kl.splat(MERGES[k].nothing(), LANES)
    along = inner // LANES
    pieces = product_of(lead) * along
    section = kl.cdiv(pieces, sections)
    begin = kl.minimum(s * section, pieces)
    stop = kl.minimum(begin + section, pieces)
    for p in kl.range(begin + item, stop, WIDTH):
        if len(lead) > 0:
            outer = (*index, *unravelled(p // along, lead))
            values = REDUCTIONS.steps.values(inputs, outer, p % along * LANES, LANES)
            REDUCTIONS.merge(totals, values)
        else:
            REDUCTIONS.merge(totals, REDUCTIONS.steps.values(inputs, index, p * LANES, LANES))
    ends = [kl.private((1,), merge.kind) for merge in MERGES]
    for k in kl.static_range(len(MERGES)):
        ends[k][0] = folded(totals[k][0], LANES, MERGES[k])
    if LANES > 1 and len(lead) == 0 and s == sections - 1:
        for j in kl.range(along * LANES + item, inner, WIDTH):
            REDUCTIONS.merge(ends, REDUCTIONS.steps.values(inputs, index, j, 1))
    own = REDUCTIONS.together(ends)
    if len(parts) == 0:
        REDUCTIONS.finish(own, count, outs, row)
    else:
        if item == 0:
            for k in kl.static_range(len(MERGES)):
                parts[k][row, s] = own[k]
        if counts is not None and arrived_last(counts, row, sections):
            for k in kl.static_range(len(MERGES)):
                ends[k][0] = MERGES[k].nothing()
                for q in kl.range(item, sections, WIDTH):
                    ends[k][0] = MERGES[k](ends[k][0], parts[k][row, q])
            REDUCTIONS.finish(REDUCTIONS.together(ends), count, outs, row)
