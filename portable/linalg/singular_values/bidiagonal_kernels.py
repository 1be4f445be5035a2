"""The kernels behind `portable.linalg.bidiagonal_svdvals`: bisection by Sturm counts.

The number of singular values of an upper bidiagonal B below x is the number of negative pivots of
``B^T B - x^2``. The differential (stationary quotient-difference) form of that elimination needs
only the squares of B's entries and commits errors that a few units in the last place of each entry
explain, so that every singular value comes out to high relative accuracy, however small beside the
largest.

Squares are bisected as bit patterns, which positive floating-point numbers are ordered by: as many
steps as the type has bits reach any of them. All values go down the same tree of midpoints, hence
they come out sorted even where a count is off by rounding; the counts at the tree's upper nodes
are worked out once for all in a table.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.magnitude import power_bits, scaled_by

TREE_BITS: Final = {"f32": 31, "f64": 63}
"""Bits that order the positive numbers of a type."""


@function
def scaled_target(kind: Any) -> int:
    """The exponent that the largest entry is scaled to.

    What a small pivot carries to the next row then overflows only where it is so large that nothing
    added to it would count.
    """
    return 48 if kind == kl.f32 else 480


@kernel
def squares(d: kl.Array, e: kl.Array | None, largest: kl.Array, q: kl.Array) -> None:
    """``q[0] = d^2`` and ``q[1] = e^2``, scaled by a power of two; `e` may be None."""
    i = kl.global_id(0)
    if i < q.shape[1]:
        field = power_bits(largest[0], scaled_target(q.dtype))
        on = scaled_by(kl.cast(d[i], q.dtype), field, 1)
        q[0, i] = on * on
        q[1, i] = 0
        if e is not None and i < e.shape[0]:
            off = scaled_by(kl.cast(e[i], q.dtype), field, 1)
            q[1, i] = off * off


class Search(NamedTuple):
    """How the tree of midpoints is searched, a constant of kernels.

    Attributes
    ----------
    bits, left : int
        Levels of the tree, of which the lowest `left` are not searched: the middle of what is left
        then is as accurate as promised.
    split : int
        Levels in a pass; where there are several, neighbouring work-items count at their nodes.
    lanes, vectors : int
        Neighbouring values of a vector, and vectors of a work-item.
    integer : DType
        Of bits and counts, as wide as the numbers.
    """

    bits: int
    left: int
    split: int
    lanes: int
    vectors: int
    integer: Any

    @property
    def values(self) -> int:
        """Values of a work-item, or of those that share a pass."""
        return self.lanes * self.vectors

    @property
    def team(self) -> int:
        """Work-items that share a pass."""
        return team_of(self.split)


def team_of(split: int) -> int:
    """Work-items that share a pass of so many levels: one for each node, and one more of several.

    Parameters
    ----------
    split : int
        How many.
    """
    return 1 << split if split > 1 else 1


@function
def counted(q: kl.Array, points: kl.Array, counts: kl.Array, SEARCH: Search) -> None:
    """How many of the squared singular values lie below each point.

    Several vectors go down the rows side by side, since each waits for its divisions. Where a
    pivot vanished, the next quotient is infinite and the one after it infinity by infinity, whose
    limit is 1.
    """
    kind, LANES, INT, VECTORS = q.dtype, SEARCH.lanes, SEARCH.integer, points.shape[0]
    sign = kind.itemsize * 8 - 1
    rest = kl.private(VECTORS, kind, lanes=LANES)
    for v in kl.static_range(VECTORS):
        rest[v] = -points[v]
        counts[v] = kl.splat(kl.cast(0, INT), LANES)
    for i in kl.range(q.shape[1], unroll=4 if LANES == 1 else 0):
        on, off = q[0, i], q[1, i]
        for v in kl.static_range(VECTORS):
            pivot = rest[v] + kl.splat(on, LANES)
            counts[v] = counts[v] - (kl.bitcast(pivot, INT) >> sign)
            quotient = rest[v] / pivot
            limited = kl.where(quotient == quotient, quotient, kl.splat(kl.cast(1, kind), LANES))
            if LANES == 1:  # without a branch, so that the loads of later rows are under way
                rest[v] = kl.where(off > 0, limited * off, off) - points[v]
            elif off > 0:
                rest[v] = limited * kl.splat(off, LANES) - points[v]
            else:
                rest[v] = -points[v]


@function
def bits_below(table: kl.Array, SEARCH: Search) -> Any:
    """How many bits follow those that the nodes of a table stand for, a power of two of them."""
    return SEARCH.bits + kl.clz(kl.cast(table.shape[0], kl.i32)) - 31


@kernel
def count_table(q: kl.Array, table: kl.Array, *, SEARCH: Search) -> None:
    """``table[i]``: how many squared singular values lie below i and zeros in all lower bits."""
    kind, LANES, VECTORS, INT = q.dtype, SEARCH.lanes, SEARCH.vectors, SEARCH.integer
    first = kl.global_id(0) * SEARCH.values
    below = kl.cast(bits_below(table, SEARCH), INT)
    bits = kl.private(LANES, INT)
    points = kl.private(VECTORS, kind, lanes=LANES)
    counts = kl.private(VECTORS, INT, lanes=LANES)
    largest = 0x7F7FFFFF if kind == kl.f32 else 0x7FEFFFFFFFFFFFFF
    for v in kl.static_range(VECTORS):
        for lane in kl.static_range(LANES):
            node = kl.minimum(first + (v * LANES + lane), table.shape[0] - 1)
            bits[lane] = kl.minimum(kl.cast(node, INT) << below, kl.cast(largest, INT))
        points[v] = kl.bitcast(kl.vload(bits, 0, lanes=LANES), kind)
    counted(q, points, counts, SEARCH)
    for v in kl.static_range(VECTORS):
        for lane in kl.static_range(LANES):
            node = first + (v * LANES + lane)
            if node < table.shape[0]:
                table[node] = counts[v][lane]


@function
def place_in_table(table: kl.Array, rank: kl.Scalar) -> Any:
    """The last node of the table below which at most `rank` values lie, along the tree's path."""
    node = 0
    step = kl.cast(table.shape[0], kl.i32) >> 1
    while step > 0:
        if table[node + step] <= rank:
            node = node + step
        step = step >> 1
    return node


@kernel
def bisect(
    q: kl.Array, table: kl.Array, largest: kl.Array, values: kl.Array, *, SEARCH: Search
) -> None:
    """Finds the singular values, the largest first, ``SEARCH.values`` of them by each team.

    A work-item alone takes vectors of values and a level in a pass, so that no count is for
    nothing, and only loops over vectors are unrolled, since a processor's compiler is slow. Many
    work-items count at all nodes of several levels at once, since they wait for divisions anyhow.
    """
    kind, n, LANES, VECTORS, INT = q.dtype, q.shape[1], SEARCH.lanes, SEARCH.vectors, SEARCH.integer
    TEAM, SPLIT = SEARCH.team, SEARCH.split
    first, below = kl.global_id(0) // TEAM * SEARCH.values, bits_below(table, SEARCH)
    item = kl.cast(kl.local_id(0) % TEAM + 1, INT)
    one, zero = kl.cast(1, INT), kl.cast(0, INT)
    scratch = kl.private(LANES, INT)
    low, rank = kl.private(VECTORS, INT, lanes=LANES), kl.private(VECTORS, INT, lanes=LANES)
    points, counts = kl.private(VECTORS, kind, lanes=LANES), kl.private(VECTORS, INT, lanes=LANES)
    for v in kl.static_range(VECTORS):
        for lane in kl.range(LANES, unroll=1):
            wanted = kl.maximum(n - 1 - (first + (v * LANES + lane)), 0)
            scratch[lane] = kl.cast(wanted, INT)
        rank[v] = kl.vload(scratch, 0, lanes=LANES)
        for lane in kl.range(LANES, unroll=1):
            node = place_in_table(table, scratch[lane])
            scratch[lane] = kl.cast(node, INT) << kl.cast(below, INT)
        low[v] = kl.vload(scratch, 0, lanes=LANES)
    for level in range(below - SPLIT, SEARCH.left - 1, -SPLIT):
        shift = kl.cast(level, INT)
        for v in kl.static_range(VECTORS):
            points[v] = kl.bitcast(low[v] + kl.splat(item << shift, LANES), kind)
        counted(q, points, counts, SEARCH)
        for v in kl.static_range(VECTORS):
            steps = kl.where(counts[v] <= rank[v], one, zero)
            if TEAM > 1:
                steps = kl.workgroup_reduce(kl.add, kl.where(item < TEAM, steps, zero), width=TEAM)
            low[v] = low[v] + (steps << shift)
    field = power_bits(largest[0], scaled_target(kind))
    for v in kl.static_range(VECTORS):
        kl.vstore(scratch, 0, low[v])
        for lane in kl.range(LANES, unroll=1):
            k = first + (v * LANES + lane)
            if k < n and item == 1:
                values[k] = singular_value(scratch[lane], field, kind, SEARCH)


@function
def singular_value(bits: kl.Scalar, field: kl.Scalar, kind: Any, SEARCH: Search) -> Any:
    """What is found where all but the lowest bits of its square are known."""
    half = kl.cast((1 << SEARCH.left) >> 1, SEARCH.integer)
    middle = kl.where(bits > 0, bits + half, bits)
    return scaled_by(kl.sqrt(kl.bitcast(middle, kind)), field, -1)
