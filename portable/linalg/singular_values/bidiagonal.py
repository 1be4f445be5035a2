"""Singular values of bidiagonal matrices: bisection by Sturm counts.

The number of singular values of an upper bidiagonal B below x is the number of negative pivots of
``B^T B - x^2``. The differential (stationary quotient-difference) form of that elimination needs
only the squares of B's entries and commits errors that a few units in the last place of each entry
explain, so that every singular value comes out to high relative accuracy, however small beside the
largest.

Squares are bisected as bit patterns, which positive floating-point numbers are ordered by: as many
steps as the type has bits reach any of them. All values go down the same tree of midpoints, hence
they come out sorted even where a count is off by rounding; the counts at the tree's upper nodes
are worked out once for all in a table.

Where small values need be no more accurate than the largest, work-items that are many count changes
of sign among the leading minors of ``B^T B - x^2`` instead, which are two products and a sum each,
without a division (J. Wilkinson, "The Algebraic Eigenvalue Problem", 5.38).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Capabilities, Device
from portable.dtypes import DType
from portable.errors import ShapeError
from portable.interchange.libraries import takes_other_libraries
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.magnitude import largest_magnitude, power_bits, require_finite, scaled_by
from portable.linalg.base.operands import common_dtype
from portable.namespace import device_of_arrays
from portable.typing import ArrayT

TREE_BITS: Final = {"f32": 31, "f64": 63}
"""Bits that order the positive numbers of a type."""

_MINOR_BITS: Final = {"f32": 28, "f64": 58}
"""Of numbers below 2: what is left of them is a quarter of a type's roundoff of 1 at most."""

_LINES: Final = 4
"""Rows after which minors are scaled."""


_MINORS_TARGET: Final = -1
"""The exponent that the largest entry is scaled to for minors: squares are below 1."""


@function
def pivots_target(kind: Any) -> int:
    """The same for pivots.

    What a small pivot carries to the next row overflows only where it is so large that nothing
    added to it would count.
    """
    return 48 if kind == kl.f32 else 480


@kernel
def squares(d: kl.Array, e: kl.Array | None, largest: kl.Array, q: kl.Array) -> None:
    """``q[0] = d^2`` and ``q[1] = e^2``, scaled by a power of two; `e` may be None."""
    i = kl.global_id(0)
    if i < q.shape[1]:
        field = power_bits(largest[0], pivots_target(q.dtype))
        on = scaled_by(kl.cast(d[i], q.dtype), field, 1)
        q[0, i] = on * on
        q[1, i] = 0
        if e is not None and i < e.shape[0]:
            off = scaled_by(kl.cast(e[i], q.dtype), field, 1)
            q[1, i] = off * off


@kernel
def tridiagonal(d: kl.Array, e: kl.Array | None, largest: kl.Array, q: kl.Array) -> None:
    """The diagonal of ``B^T B`` and squares of what is beside it; `_LINES` rows of both in a row.

    Squares that would let minors vanish are made as large as does no harm. Rows behind the matrix
    change no sign.
    """
    i, n, kind = kl.global_id(0), d.shape[0], q.dtype
    if i < q.shape[0] * _LINES:
        on, off = kl.cast(2, kind), kl.cast(0, kind)
        if i < n:
            field, before = power_bits(largest[0], _MINORS_TARGET), off
            own = scaled_by(kl.cast(d[i], kind), field, 1)
            if e is not None and i > 0:
                before = scaled_by(kl.cast(e[i - 1], kind), field, 1)
                off = before * scaled_by(kl.cast(d[i - 1], kind), field, 1)
            on = kl.fma(before, before, own * own)
            off = kl.maximum(off * off, least_pivot(kind) * least_pivot(kind) / 4)
        q[i // _LINES, i % _LINES] = on
        q[i // _LINES, _LINES + i % _LINES] = off


@function
def least_pivot(kind: Any) -> Any:
    """What pivots are made at least, by a quarter of a roundoff of the largest number."""
    return kl.cast(2.0**-26 if kind == kl.f32 else 2.0**-55, kind)


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
    minors : bool
        Whether minors are counted, and numbers bisected as they are.
    """

    bits: int
    left: int
    split: int
    lanes: int
    vectors: int
    integer: Any
    minors: bool = False

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
def divided_by_roots(x: kl.Scalar, by: kl.Scalar) -> Any:
    """A quotient by an inverse root, since an H200 divides very large numbers in branches.

    What it leaves of `x` is divided in the same way: approximate roots of a GPU err to one side,
    which n rows would add up. Where that is no number, the quotient is infinite, or none itself.
    """
    root = kl.rsqrt(kl.abs(by))
    signed = kl.copysign(root, by)
    quotient = x * signed * root
    corrected = kl.fma(kl.fma(-quotient, by, x) * signed, root, quotient)
    return kl.where(corrected == corrected, corrected, quotient)


@function
def changes_of_sign(q: kl.Array, point: kl.Scalar, INT: Any) -> Any:
    """How many of the squared singular values lie below a point, by minors.

    Of two neighbours one is no smaller than a pivot times the larger of those before, so that no
    four rows leave a type's range.
    """
    kind, zero = q.dtype, kl.cast(0, q.dtype)
    least, bits = least_pivot(kind), kind.itemsize * 8
    mantissa, bias = (23, 127) if kind == kl.f32 else (52, 1023)
    minor, before, changes = zero + 1, zero, 0
    for line in kl.range(q.shape[0], unroll=4):
        on, off = kl.vload(q, line, 0, lanes=_LINES), kl.vload(q, line, _LINES, lanes=_LINES)
        for i in kl.static_range(_LINES):
            pivot = on[i] - point
            pivot = kl.where(kl.abs(pivot) > least, pivot, kl.copysign(least, pivot))
            following = kl.fma(pivot, minor, -(off[i] * before))
            changed = kl.bitcast(following, INT) ^ kl.bitcast(minor, INT)
            changes = changes - kl.cast(changed >> (bits - 1), kl.i32)
            before, minor = minor, following
        own, other = (kl.bitcast(kl.abs(x), INT) for x in (minor, before))
        exponent = kl.maximum(own, other) >> mantissa  # as positive numbers are ordered by bits
        scale = kl.bitcast((kl.cast(2 * bias, INT) - exponent) << mantissa, kind)
        minor, before = minor * scale, before * scale
    return kl.cast(changes, INT)


@function
def counted(q: kl.Array, points: kl.Array, counts: kl.Array, SEARCH: Search) -> None:
    """How many of the squared singular values lie below each point."""
    if SEARCH.minors:
        counts[0] = changes_of_sign(q, points[0], SEARCH.integer)
    else:
        count_pivots(q, points, counts, SEARCH)


@function
def count_pivots(q: kl.Array, points: kl.Array, counts: kl.Array, SEARCH: Search) -> None:
    """The same by pivots.

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
            if LANES == 1 and kind == kl.f32:
                quotient = divided_by_roots(rest[v], pivot)
            else:
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


@function
def number_of(bits: kl.Scalar, kind: Any, SEARCH: Search) -> Any:
    """The square that stands for bits."""
    if SEARCH.minors:
        return kl.cast(bits, kind) * 2.0 ** (1 - SEARCH.bits)
    return kl.bitcast(bits, kind)


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
        points[v] = number_of(kl.vload(bits, 0, lanes=LANES), kind, SEARCH)
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
    kind, LANES, VECTORS, INT = q.dtype, SEARCH.lanes, SEARCH.vectors, SEARCH.integer
    n = values.shape[0]
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
            points[v] = number_of(low[v] + kl.splat(item << shift, LANES), kind, SEARCH)
        counted(q, points, counts, SEARCH)
        for v in kl.static_range(VECTORS):
            steps = kl.where(counts[v] <= rank[v], one, zero)
            if TEAM > 1:
                steps = kl.workgroup_reduce(kl.add, kl.where(item < TEAM, steps, zero), width=TEAM)
            low[v] = low[v] + (steps << shift)
    target = _MINORS_TARGET if SEARCH.minors else pivots_target(kind)
    field = power_bits(largest[0], target)
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
    return scaled_by(kl.sqrt(number_of(middle, kind, SEARCH)), field, -1)


_DTYPES: Final = (kl.f16, kl.f32, kl.f64)
_LEFT: Final = {"f32": 1, "f64": 2}
_LEFT_OF_MINORS: Final = 1
_WORKGROUP: Final = 64
SPLITS: Final = (5, 4, 3, 2, 1)
"""Levels of a pass that are tried: the nodes of five are a sub-group of 32 work-items."""

_VECTORS: Final = 4
_MORE_LEVELS: Final = 16
"""Levels of a table beyond those that n takes: fewer than so many are tried."""

_ITEMS_PER_UNIT: Final = 512
"""Work-items of a unit beyond which they wait for each other rather than for their divisions."""

_ITEMS_OF_MINORS: Final = 256
"""The same without divisions."""


@takes_other_libraries
def bidiagonal_svdvals(d: ArrayT, e: ArrayT, *, check_finite: bool = True) -> ArrayT:
    """The singular values of a bidiagonal matrix, to high relative accuracy.

    Parameters
    ----------
    d : array, shape (n,)
        The diagonal; ``float16``, ``float32`` or ``float64``.
    e : array, shape (n - 1,)
        The diagonal next to it, above or below; of the same dtype and device. Of shape (0,) if n
        is 0.
    check_finite : bool
        Whether to look for NaN and infinities, which reads one number from the device.

    Returns
    -------
    array, shape (n,)
        The singular values, the largest first, on the device of `d`; ``float32`` for ``float16``.
        Each within a modest multiple of the unit roundoff of itself, as long as it is not below
        the largest by more than the square root of the type's range.

    Raises
    ------
    ShapeError
        Unless `d` and `e` are vectors of fitting lengths.
    DTypeError
        For mixed or other dtypes.
    ValueError
        For NaN or infinities.

    Notes
    -----
    Bisection by Sturm counts of ``B^T B`` in differential form, as J. Demmel and W. Kahan,
    "Accurate singular values of bidiagonal matrices", SIAM J. Sci. Stat. Comput. 11 (1990), and K.
    Fernando and B. Parlett, Numer. Math. 67 (1994), show to be accurate. On a CPU each of n values
    takes the bits of the type, less log2(n), in passes over the matrix, one division a row: about
    ``n^2 (30 - log2 n)`` divisions in single and ``n^2 (61 - log2 n)`` in double precision, whose
    rate is the floor. On a GPU the latency of ``n`` dependent divisions a pass is, up to some ten
    thousand values, of inverse roots in single precision: there a table of all units' making stands
    for the first 14 to 17 passes, and up to five bits are found in each of the others, of 4096
    values in 4 in single and 11 in double precision.

    Examples
    --------
    >>> import numpy as np
    >>> import portable
    >>> portable.linalg.bidiagonal_svdvals(np.array([3.0, 0.0]), np.array([4.0]))
    array([5., 0.])
    """
    device = device_of_arrays(d, e)
    kind = common_dtype("bidiagonal_svdvals", _DTYPES, d=d, e=e)
    n = checked_length("bidiagonal_svdvals", d, e)
    values = device.empty((n,), kind.register)
    if n == 0:
        return values  # type: ignore[no-any-return]
    arrays = (d, e) if n > 1 else (d,)
    largest = largest_magnitude(device, *arrays)
    if check_finite:
        require_finite(device, largest, "bidiagonal_svdvals")
    bisected(device, (d, e), largest, values)
    return values  # type: ignore[no-any-return]


def checked_length(operation: str, d: Any, e: Any) -> int:
    """The order of a bidiagonal matrix.

    Raises
    ------
    ShapeError
        Unless diagonals fit each other.
    """
    if d.ndim != 1 or e.ndim != 1 or e.shape[0] != max(d.shape[0] - 1, 0):
        raise ShapeError(
            f"{operation} takes the diagonal, shape (n,), and its neighbour, shape (n - 1,), "
            f"not {tuple(d.shape)} and {tuple(e.shape)}"
        )
    return int(d.shape[0])


def bisected(
    device: Device,
    diagonals: tuple[Any, Any],
    largest: Any,
    values: Any,
    *,
    relative: bool = True,
) -> None:
    """Puts the singular values of a bidiagonal matrix that is not empty into `values`.

    Parameters
    ----------
    device : Device
        Where.
    diagonals : (array, array)
        The diagonal and its neighbour, shapes (n,) and (n - 1,).
    largest : array, shape (1,)
        A number that no entry exceeds by much, and that they do not stay far below.
    values : array, shape (n,)
        Where the values go, the largest first.
    relative : bool
        Whether small values are to be as accurate as large ones, and not their squares beside that
        of `largest`, which none exceeds then.
    """
    n, can = int(values.shape[0]), device.capabilities
    d, e = diagonals[0], diagonals[1] if n > 1 else None
    kind = kl.f32 if values.dtype.itemsize == 4 else kl.f64
    search, levels, workgroup = search_for(n, kind, can, relative or can.single_work_items)
    lines = -(-n // _LINES)
    q = device.empty((lines, 2 * _LINES) if search.minors else (2, n), kind)
    (tridiagonal if search.minors else squares)[lines * _LINES, _WORKGROUP](d, e, largest, q)
    table = device.empty((1 << levels,), search.integer)
    items = -(-(1 << levels) // search.values), -(-n // search.values) * search.team
    count_table[items[0], workgroup](q, table, SEARCH=search)
    bisect[items[1], workgroup](q, table, largest, values, SEARCH=search)


@lru_cache(maxsize=1024)
def search_for(
    n: int, kind: DType, can: Capabilities, relative: bool = True
) -> tuple[Search, int, int]:
    """How n values are searched for: by a table of how many levels, in workgroups of how many.

    Across vector lanes where a work-item has a core to itself, and several vectors hide each
    other's divisions. Half the widest registers do as well, and PoCL 3.0 fails on comparisons of
    whole ones. Where work-items are many, the table has as many levels as make it and the passes
    that are left, all of them whole, take the least time.

    Parameters
    ----------
    n : int
        How many.
    kind : DType
        Of the matrix.
    can : Capabilities
        Of the device.
    relative : bool
        As of `bisected`; work-items alone know no other way.
    """
    bits, left = TREE_BITS[kind.short], _LEFT[kind.short]
    if not relative:
        bits, left = _MINOR_BITS[kind.short], _LEFT_OF_MINORS
    integer = kl.i32 if kind is kl.f32 else kl.i64
    levels = max(1, (n - 1).bit_length())
    if can.single_work_items:
        lanes = min(can.vector_bytes, 32) // kind.itemsize
        return Search(bits, left, 1, lanes, _VECTORS, integer), levels, 1
    room = can.compute_units * (_ITEMS_PER_UNIT if relative else _ITEMS_OF_MINORS)
    split, levels = _levels_together(n, levels, bits - left, room)
    return Search(bits, left, split, 1, 1, integer, not relative), levels, _WORKGROUP


def _levels_together(n: int, least: int, bits: int, room: int) -> tuple[int, int]:
    """Levels of a pass, and of the table, at least so many: those that take the least time.

    More of them take fewer passes, until units have no time for all nodes: for more work-items than
    they have room for.
    """

    def time(choice: tuple[int, int]) -> float:
        split, levels = choice
        passes = (bits - levels) // split * max(1.0, n * team_of(split) / room)
        return max(1.0, (1 << levels) / room) + passes

    choices = ((split, levels) for split in SPLITS for levels in range(least, least + _MORE_LEVELS))
    return min((x for x in choices if (bits - x[1]) % x[0] == 0), key=time)
