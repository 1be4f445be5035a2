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

from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.magnitude import power_bits, scaled_by

__all__ = ["TREE_BITS", "bisect", "count_table", "multisect", "squares"]

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
def squares(d: Any, e: Any, largest: Any, q: Any) -> None:
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


@function
def spread(x: Any, LANES: int) -> Any:
    """`x` in every lane; itself where there is one."""
    return x if LANES == 1 else kl.splat(x, LANES)


@function
def loaded(x: Any, index: Any, LANES: int) -> Any:
    """A number, or a vector of neighbours."""
    return x[index] if LANES == 1 else kl.vload(x, index, lanes=LANES)


@function
def stored(x: Any, index: Any, value: Any, LANES: int) -> None:
    """Stores what `loaded` loads."""
    if LANES == 1:
        x[index] = value
    else:
        kl.vstore(x, index, value)


@function
def counted(q: Any, points: Any, counts: Any, LANES: int, VECTORS: int, INT: Any) -> None:
    """How many of the squared singular values lie below each point.

    Several vectors go down the rows side by side, since each waits for its divisions. Where a
    pivot vanished, the next quotient is infinite and the one after it infinity by infinity, whose
    limit is 1.
    """
    kind = q.dtype
    sign = kind.itemsize * 8 - 1
    rest = kl.private(VECTORS, kind, lanes=LANES)
    for v in kl.static_range(VECTORS):
        rest[v] = -points[v]
        counts[v] = spread(kl.cast(0, INT), LANES)
    for i in kl.range(q.shape[1], unroll=4 if LANES == 1 else 0):
        on, off = q[0, i], q[1, i]
        for v in kl.static_range(VECTORS):
            pivot = rest[v] + spread(on, LANES)
            counts[v] = counts[v] - (kl.bitcast(pivot, INT) >> sign)
            quotient = rest[v] / pivot
            limited = kl.where(quotient == quotient, quotient, spread(kl.cast(1, kind), LANES))
            if LANES == 1:  # without a branch, so that the loads of later rows are under way
                rest[v] = kl.where(off > 0, limited * off, off) - points[v]
            elif off > 0:
                rest[v] = limited * spread(off, LANES) - points[v]
            else:
                rest[v] = -points[v]


@function
def bits_below(table: Any, kind: Any) -> Any:
    """How many bits follow those that the nodes of a table stand for."""
    levels = 31 - kl.clz(kl.cast(table.shape[0], kl.i32))
    return (31 if kind == kl.f32 else 63) - levels


@kernel
def count_table(q: Any, table: Any, *, BITS: int, LANES: int, VECTORS: int, INT: Any) -> None:
    """``table[i]``: how many squared singular values lie below the bits ``i << BITS``.

    0 for `BITS`: as many as follow from the size of the table, in a program that serves all sizes.
    """
    kind = q.dtype
    below = BITS if BITS > 0 else kl.cast(bits_below(table, kind), INT)
    first = kl.global_id(0) * (LANES * VECTORS)
    bits = kl.private(LANES, INT)
    points = kl.private(VECTORS, kind, lanes=LANES)
    counts = kl.private(VECTORS, INT, lanes=LANES)
    largest = 0x7F7FFFFF if kind == kl.f32 else 0x7FEFFFFFFFFFFFFF
    for v in kl.static_range(VECTORS):
        for lane in kl.static_range(LANES):
            node = kl.minimum(first + (v * LANES + lane), table.shape[0] - 1)
            bits[lane] = kl.minimum(kl.cast(node, INT) << below, kl.cast(largest, INT))
        points[v] = kl.bitcast(loaded(bits, 0, LANES), kind)
    counted(q, points, counts, LANES, VECTORS, INT)
    for v in kl.static_range(VECTORS):
        stored(bits, 0, counts[v], LANES)
        for lane in kl.static_range(LANES):
            node = first + (v * LANES + lane)
            if node < table.shape[0]:
                table[node] = bits[lane]


@function
def place_in_table(table: Any, rank: Any, LEVELS: int) -> Any:
    """The last node of the table below which at most `rank` values lie, along the tree's path."""
    node = 0
    for level in kl.static_range(LEVELS - 1, -1, -1):
        step = 1 << level
        if table[node + step] <= rank:
            node = node + step
    return node


@function
def node_of(table: Any, rank: Any) -> Any:
    """As `place_in_table`, for tables of any size."""
    node, step = 0, kl.cast(table.shape[0], kl.i32) >> 1
    while step > 0:
        if table[node + step] <= rank:
            node = node + step
        step = step >> 1
    return node


@kernel
def bisect(
    q: Any,
    table: Any,
    largest: Any,
    values: Any,
    *,
    LEFT: int,
    LANES: int,
    VECTORS: int,
    INT: Any,
) -> None:
    """Finds the singular values, the largest first, a work-item ``LANES * VECTORS`` of them.

    The table holds the top levels of the tree. The lowest `LEFT` bits are not searched: the middle
    of what is left then is as accurate as promised. One program serves all sizes, and only the
    loops over vectors are unrolled, since a processor's compiler is slow.
    """
    kind = q.dtype
    n = q.shape[1]
    first = kl.global_id(0) * (LANES * VECTORS)
    below = bits_below(table, kind)
    scratch = kl.private(LANES, INT)
    low = kl.private(VECTORS, INT, lanes=LANES)
    rank = kl.private(VECTORS, INT, lanes=LANES)
    points = kl.private(VECTORS, kind, lanes=LANES)
    counts = kl.private(VECTORS, INT, lanes=LANES)
    for v in kl.static_range(VECTORS):
        for lane in kl.range(LANES, unroll=1):
            wanted = kl.maximum(n - 1 - (first + (v * LANES + lane)), 0)
            scratch[lane] = kl.cast(wanted, INT)
        rank[v] = loaded(scratch, 0, LANES)
        for lane in kl.range(LANES, unroll=1):
            node = node_of(table, scratch[lane])
            scratch[lane] = kl.cast(node, INT) << kl.cast(below, INT)
        low[v] = loaded(scratch, 0, LANES)
    for level in range(below - 1, LEFT - 1, -1):
        step = kl.cast(1, INT) << kl.cast(level, INT)
        for v in kl.static_range(VECTORS):
            points[v] = kl.bitcast(low[v] + spread(step, LANES), kind)
        counted(q, points, counts, LANES, VECTORS, INT)
        for v in kl.static_range(VECTORS):
            higher = low[v] + spread(step, LANES)
            low[v] = kl.where(counts[v] <= rank[v], higher, low[v])
    field = power_bits(largest[0], scaled_target(kind))
    for v in kl.static_range(VECTORS):
        stored(scratch, 0, low[v], LANES)
        for lane in kl.range(LANES, unroll=1):
            k = first + (v * LANES + lane)
            if k < n:
                values[k] = singular_value(scratch[lane], field, LEFT, kind, INT)


@function
def singular_value(bits: Any, field: Any, LEFT: int, kind: Any, INT: Any) -> Any:
    """What is found where all but the lowest `LEFT` bits of its square are known."""
    middle = kl.where(bits > 0, bits + kl.cast((1 << LEFT) >> 1, INT), bits)
    return scaled_by(kl.sqrt(kl.bitcast(middle, kind)), field, -1)


@kernel
def multisect(
    q: Any,
    table: Any,
    largest: Any,
    values: Any,
    *,
    LEVELS: int,
    BITS: int,
    LEFT: int,
    SPLIT: int,
    INT: Any,
) -> None:
    """As `bisect` with a value to a work-item, `SPLIT` levels of the tree in a pass.

    The counts at all nodes of those levels wait for their divisions side by side.
    """
    kind = q.dtype
    n = q.shape[1]
    POINTS = (1 << SPLIT) - 1
    k = kl.global_id(0)
    rank = kl.cast(kl.maximum(n - 1 - k, 0), INT)
    points = kl.private(POINTS, kind)
    counts = kl.private(POINTS, INT)
    low = kl.cast(place_in_table(table, rank, LEVELS), INT) << BITS
    for level in range(BITS - SPLIT, LEFT - 1, -SPLIT):
        shift = kl.cast(level, INT)
        for v in kl.static_range(POINTS):
            points[v] = kl.bitcast(low + (kl.cast(v + 1, INT) << shift), kind)
        counted(q, points, counts, 1, POINTS, INT)
        steps = kl.cast(0, INT)
        for v in kl.static_range(POINTS):
            steps = steps + kl.where(counts[v] <= rank, kl.cast(1, INT), kl.cast(0, INT))
        low = low + (steps << shift)
    if k < n:
        field = power_bits(largest[0], scaled_target(kind))
        values[k] = singular_value(low, field, LEFT, kind, INT)
