"""The one kernel behind every fused function that ends in reductions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.library.collectives import arrived_last
from portable.primitives.maps.elementwise_kernel import NUMBER, Body, product_of, taken, unravelled
from portable.primitives.reductions.merging import CHAIN, folded, next_stop

# The one kernel behind every fused function.

MOST_INPUTS = 12
MOST_OUTPUTS = 4


@function
def wrapped(x: kl.Scalar, kind: Any) -> Any:
    """An integer as memory of 8 or 16 bits would give it back."""
    if kind is None:
        return x
    if kind == kl.u8:
        return x & 255
    if kind == kl.u16:
        return x & 65535
    if kind == kl.i8:
        return (x << 24) >> 24
    return (x << 16) >> 16


@function
def operand(values: tuple[kl.Scalar, ...], source: Any, lanes: int) -> Any:
    """A value converted, or a constant."""
    if len(source) == 3:
        kind = source[1]
        if kind.is_complex:
            real, imag = source[0]
            return kl.complex(kl.cast(real, kind.real), kl.cast(imag, kind.real))
        return kl.splat(kl.cast(source[0], kind), lanes)
    value = values[source[0]]
    return value if source[1] is None else kl.cast(value, source[1])


@dataclass(frozen=True)
class Steps:
    """What a fused function does to each element; a constant of kernels.

    Attributes
    ----------
    how : tuple of str
        Of each input how it is to be read, as in `portable.primitives.maps.elementwise_kernel`.
    steps : tuple
        Of each step the operation, its operands, as `operand` takes them, and the integer that the
        result would be in memory, or None. Inputs and results of steps are numbered in this order.
    """

    how: Any
    steps: Any

    def values(self, arrays: Any, outer: tuple[kl.Scalar, ...], j: kl.Scalar, lanes: int) -> Any:
        """All values: the inputs' elements, or `lanes` of them, and the results of the steps."""
        values = [
            taken(x, how, None, outer, j, lanes) for x, how in zip(arrays, self.how, strict=True)
        ]
        for does, sources, kind in self.steps:
            done = does(*[operand(values, source, lanes) for source in sources])
            values = (*values, wrapped(done, kind))  # type: ignore[assignment]
        return values


@dataclass(frozen=True)
class _Elements(Body):
    """What a sweep does to one element of each array, or to a vector of them."""

    steps: Steps
    numbers: Any
    inputs: Any
    outs: Any
    streaming: bool

    def do(self, outer: tuple[kl.Scalar, ...], row: Any, j: kl.Scalar, lanes: int) -> None:
        """Works out all values and keeps those of the `numbers`."""
        values = self.steps.values(self.inputs, outer, j, lanes)
        for k in kl.static_range(len(self.numbers)):
            kept = values[self.numbers[k]]
            kl.vstore(self.outs[k], *outer, j, kept, streaming=self.streaming)


@kernel
def fused(
    inputs: Any, outs: tuple[kl.Array, ...], *, STEPS: Steps, RESULTS: Any, SHARE: Any
) -> None:
    """Does `STEPS` for each element and keeps the values numbered `RESULTS`."""
    SHARE.sweep(outs[0].shape, _Elements(STEPS, RESULTS, inputs, outs, SHARE.streaming))


# -- fused reduction kernel ------------------------------------------------------------------------

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

    def forgotten(self, totals: Any, LANES: int) -> None:
        """Sets totals to those of nothing."""
        for k in kl.static_range(len(self.merges)):
            totals[k][0] = kl.splat(self.merges[k].nothing(), LANES)

    def gathered(self, totals: Any, more: Any) -> None:
        """Merges totals into others."""
        for k in kl.static_range(len(self.merges)):
            totals[k][0] = self.merges[k](totals[k][0], more[k][0])

    def merge(self, totals: Any, seen: Any) -> None:
        """Merges the values that are reduced into what was found before."""
        for k in kl.static_range(len(self.merges)):
            value = kl.cast(seen[self.values[k]], self.merges[k].kind)
            totals[k][0] = self.merges[k](totals[k][0], value)

    def together(self, ends: Any) -> Any:
        """What the work-items of a workgroup come to."""
        return [
            kl.workgroup_reduce(self.merges[k], ends[k][0])
            for k in kl.static_range(len(self.merges))
        ]

    def finish(
        self,
        totals: tuple[kl.Scalar, ...],
        count: kl.Scalar,
        outs: tuple[kl.Array, ...],
        row: kl.Scalar,
    ) -> None:
        """Does the steps behind the reductions of so many elements, and keeps the results."""
        results = [
            totals[k] / kl.cast(count, self.merges[k].kind) if self.means[k] else totals[k]
            for k in kl.static_range(len(self.merges))
        ]
        unused = [kl.i32(0) for _ in kl.static_range(len(self.merges), MOST_REDUCTIONS)]
        after = Steps((NUMBER,) * MOST_REDUCTIONS, self.after)
        values = after.values((*results, *unused), (), 0, 1)
        if kl.local_id(0) == 0:
            for k in kl.static_range(len(self.results)):
                outs[k][row] = values[self.results[k]]


class Parts(NamedTuple):
    """What workgroups find that share a result.

    Attributes
    ----------
    found : tuple of array
        Of each reduction an array by results and sections; empty where each has a workgroup.
    counts : array or None
        How many have come, zeros which are left so; None where a second launch merges.
    """

    found: Any
    counts: Any


class Extents(NamedTuple):
    """What is merged.

    Attributes
    ----------
    each : tuple of int
        Those of arrays: the first of them of results, the others merged.
    sections : int
        Into how many the elements of a result are cut, a workgroup each.
    count : int
        How many elements a result is of.
    """

    each: Any
    sections: Any
    count: Any


@dataclass(frozen=True)
class Shares:
    """How work-items share elements; a constant of the kernel.

    Attributes
    ----------
    kept : int
        How many extents are those of results.
    lanes : int
        Neighbours that are taken at a time.
    width : int
        Work-items of a workgroup.
    """

    kept: int
    lanes: int
    width: int


@kernel
def fused_reduction(
    inputs: tuple[kl.Array, ...],
    parts: Parts,
    outs: tuple[kl.Array, ...],
    extents: Extents,
    *,
    REDUCTIONS: Reductions,
    SHARES: Shares,
) -> None:
    """Does the steps for each element, merges what is reduced and does the steps that follow.

    Of sections that share a result the last one to come merges all, if it is told who came.

    Parameters
    ----------
    inputs : tuple of array
        The arrays that steps begin with.
    parts : Parts
        What sections come to.
    outs : tuple of array
        The results; empty where `parts` are all that is written.
    extents : Extents
        What is merged.
    REDUCTIONS : Reductions
        What is done.
    SHARES : Shares
        How work-items share the elements.
    """
    KEPT, LANES, WIDTH, sections = SHARES.kept, SHARES.lanes, SHARES.width, extents.sections
    MERGES = REDUCTIONS.merges
    kept, inner = extents.each[:KEPT], extents.each[len(extents.each) - 1]
    lead = extents.each[KEPT : len(extents.each) - 1]
    item, group = kl.local_id(0), kl.group_id(0)
    s, row = group % sections, group // sections
    index = unravelled(row, kept)
    totals = [kl.private(1, merge.kind, lanes=LANES, fill=merge.nothing()) for merge in MERGES]
    chain = [kl.private(1, merge.kind, lanes=LANES) for merge in MERGES]
    along = inner // LANES
    pieces = product_of(lead) * along
    section = kl.cdiv(pieces, sections)
    begin = kl.minimum(s * section, pieces)
    stop = kl.minimum(begin + section, pieces)
    # In chains of bounded length: see `merging`.
    for first in kl.range(begin + item, stop, CHAIN * WIDTH):
        REDUCTIONS.forgotten(chain, LANES)
        for p in kl.range(first, next_stop(first, stop, WIDTH), WIDTH):
            if len(lead) > 0:
                outer = (*index, *unravelled(p // along, lead))
                values = REDUCTIONS.steps.values(inputs, outer, p % along * LANES, LANES)
                REDUCTIONS.merge(chain, values)
            else:
                REDUCTIONS.merge(chain, REDUCTIONS.steps.values(inputs, index, p * LANES, LANES))
        REDUCTIONS.gathered(totals, chain)
    ends = [
        kl.private(1, merge.kind, fill=folded(total[0], LANES, merge))
        for merge, total in zip(MERGES, totals, strict=True)
    ]
    if LANES > 1 and len(lead) == 0 and s == sections - 1:
        for j in kl.range(along * LANES + item, inner, WIDTH):
            REDUCTIONS.merge(ends, REDUCTIONS.steps.values(inputs, index, j, 1))
    totals_here = REDUCTIONS.together(ends)
    if len(parts.found) == 0:
        REDUCTIONS.finish(totals_here, extents.count, outs, row)
    else:
        if item == 0:
            for k in kl.static_range(len(MERGES)):
                parts.found[k][row, s] = totals_here[k]
        if parts.counts is not None and arrived_last(parts.counts, row, sections):
            for k in kl.static_range(len(MERGES)):
                ends[k][0] = MERGES[k].nothing()
                for first in kl.range(item, sections, CHAIN * WIDTH):
                    part = MERGES[k].nothing()
                    for q in kl.range(first, next_stop(first, sections, WIDTH), WIDTH):
                        part = MERGES[k](part, parts.found[k][row, q])
                    ends[k][0] = MERGES[k](ends[k][0], part)
            REDUCTIONS.finish(REDUCTIONS.together(ends), extents.count, outs, row)
