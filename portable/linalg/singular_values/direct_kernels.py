"""The kernels that reduce a dense matrix straight to bidiagonal form.

Householder reflectors eliminate a column and a row in turn (G. Golub, W. Kahan, J. SIAM Numer.
Anal. 2 (1965)), in one pass over the matrix for both: a row is changed by the column's reflector,
multiplied with the row's reflector and changed by that, and its share of the products that the next
column's reflector needs is added up while it is at hand (G. Howell, J. Demmel, C. Fulton, S.
Hammarling, K. Marmolejo, "Cache efficient bidiagonalization using BLAS 2.5 operators", ACM TOMS 34
(2008)). Of a matrix that stays in a cache this takes less time than a band on the way.

A step's pass is shared out by rows, a block of neighbouring ones at a time to a team: neighbouring
work-items that go through the columns side by side. Each workgroup makes the reflectors for itself
from what all have added up in the step before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.parts import absolute_square, conjugate, real_part
from portable.linalg.base.sums import lane_sum
from portable.linalg.reflectors.householder import reflector_of

_AHEAD: Final = 8
"""Sums that are loaded side by side where work-items are many, which wait long for each load."""


@dataclass(frozen=True, slots=True)
class DirectShape:
    """How a pass is shared out.

    Attributes
    ----------
    lanes : int
        Columns of a vector.
    rows : int
        Rows of a block.
    team : int
        Work-items that share a block.
    teams : int
        Of a workgroup.
    """

    lanes: int
    rows: int
    team: int
    teams: int

    @property
    def ahead(self) -> int:
        """Sums that are loaded side by side: teams, or workgroups, had better be a multiple."""
        return _AHEAD if self.items > 1 else 1

    @property
    def unrolled(self) -> int:
        """How often loops over columns are: work-items that are many wait long for each load."""
        return 4 if self.items > 1 else 0

    @property
    def items(self) -> int:
        """Work-items of a workgroup."""
        return self.team * self.teams


class Scratch(NamedTuple):
    """What workgroups write down on the way for a matrix; `pitch` columns are whole vectors.

    Attributes
    ----------
    left, right : array, shape (groups, pitch)
        What rows lose: `left` as often as their element of column `k` says, then `right`, the
        row's reflector, as often as their product with it says. Zeros up to column `k`.
    sums : array, shape (groups, teams, pitch), or None
        Each team's rows, times their elements of the next column, added up; None of one workgroup.
    totals : array, shape (2, groups, pitch)
        Each workgroup's such sums, after this step and the one before in turn; each team's, shape
        (2, teams, pitch), of one workgroup.
    """

    left: Any
    right: Any
    sums: Any
    totals: Any


class KeptReflectors(NamedTuple):
    """What is kept of reflectors, where their vectors are wanted.

    Columns' reflectors stay below the diagonal of the matrix, but for a factor and their first
    element, which is 1.

    Attributes
    ----------
    rows : array, shape (n, pitch)
        What is in the rows before their reflectors, from the element beside the diagonal on.
    taus : array, shape (2, n)
        Of the columns' and the rows' reflectors; 0 where none is needed.
    factors : array, shape (2, n)
        By which what lies behind the first element of vectors is multiplied.
    """

    rows: Any
    taus: Any
    factors: Any


@kernel
def bidiagonalize(
    a: kl.Array,
    scratch: Scratch,
    d: kl.Array,
    e: kl.Array,
    kept: KeptReflectors | None,
    first: kl.Scalar,
    last: kl.Scalar,
    *,
    SHAPE: DirectShape,
) -> None:
    """Makes steps `first` to ``last - 1`` of -1 to ``n - 1``; step -1 only adds up.

    Several workgroups make one step in a launch. Step k leaves ``d[k]`` and ``e[k]``. Columns of
    `a` are whole vectors; zeros follow its rows, as many as a block has. Reflectors go to `kept`,
    unless it is None. Each array has a first dimension more, of matrices; so has the ndrange, last.
    """
    matrix = kl.group_id(1)
    sums = None if scratch.sums is None else scratch.sums[matrix]
    mine = Scratch(scratch.left[matrix], scratch.right[matrix], sums, scratch.totals[matrix])
    reflectors = None
    if kept is not None:
        reflectors = KeptReflectors(kept.rows[matrix], kept.taus[matrix], kept.factors[matrix])
    for k in range(first, last):
        tau = make_reflectors(a[matrix], mine, (d[matrix], e[matrix]), reflectors, k, SHAPE)
        kl.barrier()
        if k + 1 < d.shape[1]:
            change_rows(a[matrix], mine, k, tau, SHAPE)
            kl.barrier()
            if mine.sums is not None:
                add_teams(mine, k, SHAPE)
                kl.barrier()


@function
def make_reflectors(
    a: kl.Array,
    scratch: Scratch,
    out: tuple[kl.Array, ...],
    kept: KeptReflectors | None,
    k: kl.Scalar,
    SHAPE: DirectShape,
) -> Any:
    """The reflectors of column `k` and of what that leaves of row `k`, as `Scratch` has them.

    Returns tau of the row's.
    """
    d, e = out
    left, right = scratch.left[kl.group_id(0)], scratch.right[kl.group_id(0)]
    first, turn = kl.local_id(0) == 0 and kl.group_id(0) == 0, kl.cast(0, a.dtype.real)
    heads = kl.local(2, a.dtype)
    if k < 0:
        for j in range(kl.local_id(0), a.shape[1], SHAPE.items):
            left[j], right[j] = 0, 0
    else:
        pivot, head = a[k, k], a[k, kl.minimum(k + 1, a.shape[1] - 1)]
        add_totals(left, heads, scratch.totals, k, SHAPE)
        kl.barrier()
        beta, tau, factor = reflector_of(pivot, real_part(heads[0]))
        if first:
            d[k] = beta
            if kept is not None:
                kept.taus[0, k], kept.factors[0, k] = tau, factor
                kept.taus[1, k], kept.factors[1, k] = 0, 0
        if k + 1 < d.shape[0]:
            head = head - tau * (head + conjugate(factor) * heads[1])
            share = left_row(a, left, right, kept, k, (tau, factor), SHAPE)
            tail = kl.workgroup_reduce(kl.add, share)
            beta, tau, factor = reflector_of(head, tail)
            turn = tau * absolute_square(factor)
            if kl.local_id(0) == ((k + 1) // SHAPE.lanes - k // SHAPE.lanes) % SHAPE.items:
                right[k + 1] = head - beta
            if first:
                e[k] = beta
                if kept is not None:
                    kept.taus[1, k], kept.factors[1, k] = tau, factor
    return turn


@function
def add_totals(
    left: kl.Array, heads: kl.Array, totals: kl.Array, k: kl.Scalar, SHAPE: DirectShape
) -> None:
    """What all added up for step `k`, in `left`; that of columns `k` and ``k + 1`` in `heads`."""
    LANES, slot, start = SHAPE.lanes, k % 2, k // SHAPE.lanes * SHAPE.lanes
    for j in range(start + kl.local_id(0) * LANES, left.shape[0], SHAPE.items * LANES):
        total = kl.splat(kl.cast(0, totals.dtype), LANES)
        for part in kl.range(totals.shape[1], unroll=SHAPE.ahead):
            total = total + kl.vload(totals, slot, part, j, lanes=LANES)
        kl.vstore(left, j, total)
        if j <= k + 1:
            for lane in kl.static_range(LANES):
                if j + lane >= k and j + lane <= k + 1:
                    heads[j + lane - k] = total if LANES == 1 else total[lane]


@function
def left_row(
    a: kl.Array,
    left: kl.Array,
    right: kl.Array,
    kept: KeptReflectors | None,
    k: kl.Scalar,
    by: tuple[kl.Scalar, ...],
    SHAPE: DirectShape,
) -> Any:
    """What a column's reflector subtracts from rows, and what it leaves of its own.

    Returns a work-item's part of the squares of that, but for its first element.
    """
    LANES, start = SHAPE.lanes, k // SHAPE.lanes * SHAPE.lanes
    tau, factor = by
    squares = kl.splat(kl.cast(0, a.dtype.real), LANES)
    for j in range(start + kl.local_id(0) * LANES, a.shape[1], SHAPE.items * LANES):
        row = kl.vload(a, k, j, lanes=LANES)
        share = tau * (row + conjugate(factor) * kl.vload(left, j, lanes=LANES))
        rest, share = row - share, factor * share
        if j <= k + 1:
            rest, share = zeros_up_to(rest, k + 1 - j), zeros_up_to(share, k - j)
        kl.vstore(left, j, share)
        kl.vstore(right, j, rest)
        if kept is not None and kl.group_id(0) == 0:
            kl.vstore(kept.rows, k, j, rest)
        squares = squares + absolute_square(rest)
    return lane_sum(squares)


@function
def zeros_up_to(x: kl.Scalar, last: kl.Scalar) -> Any:
    """A vector with zeros in its lanes up to `last`."""
    zero = kl.cast(0, x.dtype)
    if x.dtype.is_complex or x.lanes == 1:
        return kl.where(last < 0, x, zero)
    return kl.vector(*[kl.where(last < i, x[i], zero) for i in kl.static_range(x.lanes)])


@function
def with_number(x: kl.Scalar, lane: kl.Scalar, number: kl.Scalar) -> Any:
    """A vector with a number in its lane `lane`."""
    if x.dtype.is_complex or x.lanes == 1:
        return kl.where(lane == 0, number, x)
    return kl.vector(*[kl.where(lane == i, number, x[i]) for i in kl.static_range(x.lanes)])


class Block(NamedTuple):
    """Neighbouring rows, and a number of each.

    Attributes
    ----------
    first : int
        The first row.
    own : array, shape (rows,)
        Their elements of column `k`, by which they take what the column's reflector subtracts.
    x : array, shape (rows,)
        By which they take the row's reflector.
    c : array, shape (rows,)
        Their changed elements of column ``k + 1``, which are stored as they are here: where much
        cancels, another one worked out alike may be another number, and no reflector of that.
    """

    first: Any
    own: Any
    x: Any
    c: Any


class Step(NamedTuple):
    """What a work-item changes rows of `a` by in step `k`: reflectors from column `start` on."""

    a: Any
    left: Any
    right: Any
    k: Any
    start: Any


@function
def change_rows(
    a: kl.Array, scratch: Scratch, k: kl.Scalar, tau: kl.Scalar, SHAPE: DirectShape
) -> None:
    """Changes the rows below `k`, and adds them up for the next step.

    A block is the same team's in every step: a core's cache has it.
    """
    kind, LANES, ROWS, TEAM, TEAMS = a.dtype, SHAPE.lanes, SHAPE.rows, SHAPE.team, SHAPE.teams
    group, team, lane = kl.group_id(0), kl.local_id(0) // TEAM, kl.local_id(0) % TEAM
    left, right = scratch.left[group], scratch.right[group]
    by_left, by_right = left[k + 1], right[k + 1]
    alone = scratch.sums is None
    sums = scratch.totals[(k + 1) % 2, team] if alone else scratch.sums[group, team]
    start = (k + 1) // LANES * LANES + lane * LANES
    for j in range(start, a.shape[1], TEAM * LANES):
        kl.vstore(sums, j, kl.splat(kl.cast(0, kind), LANES))
    step = Step(a, left, right, k, start)
    numbers, x, c = kl.private(ROWS, kind), kl.private(ROWS, kind), kl.private(ROWS, kind)
    products = kl.private(ROWS, kind, lanes=LANES)
    zeros, everyone, begun = a.shape[0] - 1, kl.num_groups(0) * TEAMS, (k + 1) // ROWS
    ahead = (group * TEAMS + team + everyone - begun % everyone) % everyone
    for begin in range(begun * ROWS, zeros - ROWS + 1, everyone * ROWS):
        block = Block(begin + ahead * ROWS, numbers, x, c)
        there, whole = block.first + ROWS <= zeros, block.first > k
        for r in kl.static_range(ROWS):
            numbers[r], c[r] = 0, 0
            products[r] = kl.splat(kl.cast(0, kind), LANES)
        if there:
            if whole:
                multiply(step, block, products, SHAPE, True)
            else:
                multiply(step, block, products, SHAPE, False)
        for r in kl.static_range(ROWS):
            x[r] = tau * kl.workgroup_reduce(kl.add, lane_sum(products[r]), width=TEAM)
            c[r] = c[r] - numbers[r] * by_left - x[r] * by_right
        kl.barrier()
        if there:
            if whole:
                change(step, block, sums, SHAPE, True)
            else:
                change(step, block, sums, SHAPE, False)


@function
def row_of(a: kl.Array, block: Block, r: int, k: kl.Scalar, WHOLE: bool) -> Any:
    """A row of a block; in place of one up to row `k`, which there are unless `WHOLE`, zeros."""
    row = block.first + r
    return row if WHOLE else kl.where(row > k, row, a.shape[0] - 1)


@function
def multiply(step: Step, block: Block, products: kl.Array, SHAPE: DirectShape, WHOLE: bool) -> None:
    """A work-item's part of the products of a block, changed from the left, with the reflector."""
    LANES, ROWS = SHAPE.lanes, SHAPE.rows
    (a, left, right, k, start), (_, matrix, _, c) = step, block
    for r in kl.static_range(ROWS):
        i = row_of(a, block, r, k, WHOLE)
        matrix[r], c[r] = a[i, kl.maximum(k, 0)], a[i, k + 1]
    for j in kl.range(start, a.shape[1], SHAPE.team * LANES, unroll=SHAPE.unrolled):
        by_left, by_right = kl.vload(left, j, lanes=LANES), kl.vload(right, j, lanes=LANES)
        for r in kl.static_range(ROWS):
            i = row_of(a, block, r, k, WHOLE)
            value = kl.vload(a, i, j, lanes=LANES) - matrix[r] * by_left
            products[r] = products[r] + value * conjugate(by_right)


@function
def change(step: Step, block: Block, sums: kl.Array, SHAPE: DirectShape, WHOLE: bool) -> None:
    """Changes a block from both sides, and adds up its rows below row ``k + 1``."""
    LANES = SHAPE.lanes
    (a, left, right, k, start), (_, matrix, x, c) = step, block
    for j in kl.range(start, a.shape[1], SHAPE.team * LANES, unroll=SHAPE.unrolled):
        by_left, by_right = kl.vload(left, j, lanes=LANES), kl.vload(right, j, lanes=LANES)
        total = kl.vload(sums, j, lanes=LANES)
        for r in kl.static_range(SHAPE.rows):
            i = row_of(a, block, r, k, WHOLE)
            value = kl.vload(a, i, j, lanes=LANES) - matrix[r] * by_left - x[r] * by_right
            if j <= k + 1:
                value = with_number(value, k + 1 - j, c[r])
            kl.vstore(a, i, j, value)
            total = total + conjugate(kl.where(i == k + 1, c[r] * 0, c[r])) * value
        kl.vstore(sums, j, total)


@function
def add_teams(scratch: Scratch, k: kl.Scalar, SHAPE: DirectShape) -> None:
    """Adds up what the teams of a workgroup added up."""
    LANES, group = SHAPE.lanes, kl.group_id(0)
    start = (k + 1) // LANES * LANES + kl.local_id(0) * LANES
    for j in range(start, scratch.sums.shape[2], SHAPE.items * LANES):
        total = kl.vload(scratch.sums, group, 0, j, lanes=LANES)
        for team in kl.static_range(1, SHAPE.teams):
            total = total + kl.vload(scratch.sums, group, team, j, lanes=LANES)
        kl.vstore(scratch.totals, (k + 1) % 2, group, j, total)
