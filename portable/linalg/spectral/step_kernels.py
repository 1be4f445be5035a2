"""What steps of reductions share, which are made in panels by workgroups that meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.linalg.base.sums import lane_sum


@dataclass(frozen=True, slots=True)
class StepShape:
    """How steps are shared out.

    Attributes
    ----------
    lanes : int
        Columns of a vector, where rows are multiplied.
    across : int
        Columns of a vector, where the panel's lines are added up.
    rows : int
        Rows that a team multiplies side by side.
    team : int
        Neighbouring work-items that share rows.
    teams : int
        Of a workgroup.
    groups : int
        Workgroups of a matrix.
    block : int
        Reflectors of a panel.
    """

    lanes: int
    across: int
    rows: int
    team: int
    teams: int
    groups: int
    block: int

    @property
    def unrolled(self) -> int:
        """How often loops over columns are: work-items that are many wait long for each load."""
        return 4 if self.items > 1 else 0

    @property
    def held(self) -> int:
        """Lines of a panel that a team has."""
        return -(-2 * self.block // self.teams)

    @property
    def items(self) -> int:
        """Work-items of a workgroup."""
        return self.team * self.teams


@function
def both_added(x: tuple[kl.Scalar, ...], y: tuple[kl.Scalar, ...]) -> Any:
    """The sums of two pairs."""
    return x[0] + y[0], x[1] + y[1]


@function
def total_of(shares: kl.Array, SHAPE: StepShape) -> Any:
    """The sum of what workgroups have."""
    total = kl.cast(0, shares.dtype)
    for part in range(kl.local_id(0), SHAPE.groups, SHAPE.items):
        total = total + shares[part]
    return kl.workgroup_reduce(kl.add, total)


@function
def hold_lines(
    a: kl.Array, lines: tuple[kl.Scalar, ...], i: kl.Scalar, held: kl.Array, SHAPE: StepShape
) -> None:
    """Loads a team's elements of lines before there is need of them, where lines are shared out.

    Teams take the lines in turn; `lines` and `i` are those of `line_sums`.
    """
    first, count = lines
    if SHAPE.teams > 1 and i < a.shape[1]:
        for p in kl.static_range(SHAPE.held):
            line = kl.local_id(0) // SHAPE.team + p * SHAPE.teams
            if line < count:
                held[p] = kl.vload(a, first + line, i, lanes=SHAPE.across)


@function
def line_sums(
    a: kl.Array,
    lines: tuple[kl.Scalar, ...],
    i: kl.Scalar,
    by: kl.Array,
    room: tuple[kl.Array, ...],
    SHAPE: StepShape,
) -> Any:
    """A vector of lines' sums, times two rows of coefficients, for the first team of a workgroup.

    Parameters
    ----------
    a : array, shape (rows, pitch)
    lines : (int, int)
        The row in which they begin, and how many they are.
    i : int
        The vector's first column.
    by : array, shape (2, lines)
        The coefficients.
    room : (array, array)
        What `hold_lines` loaded, and room in local memory that nobody uses, of shape ``(teams, 2,
        columns of a workgroup)``.
    """
    ACROSS, TEAMS, kind = SHAPE.across, SHAPE.teams, a.dtype
    (first, count), (held, parts) = lines, room
    team, column = kl.local_id(0) // SHAPE.team, kl.local_id(0) % SHAPE.team * ACROSS
    one = kl.splat(kl.cast(0, kind), ACROSS)
    other = one
    if i < a.shape[1]:
        if TEAMS > 1:
            for p in kl.static_range(SHAPE.held):
                line = team + p * TEAMS
                if line < count:
                    one, other = one + held[p] * by[0, line], other + held[p] * by[1, line]
        else:
            for line in range(count):
                x = kl.vload(a, first + line, i, lanes=ACROSS)
                one, other = one + x * by[0, line], other + x * by[1, line]
    if TEAMS > 1:
        kl.vstore(parts, team, 0, column, one)
        kl.vstore(parts, team, 1, column, other)
        kl.barrier()
        if team == 0:
            for part in kl.static_range(1, TEAMS):
                one = one + kl.vload(parts, part, 0, column, lanes=ACROSS)
                other = other + kl.vload(parts, part, 1, column, lanes=ACROSS)
    return one, other


@function
def multiply_rows(
    a: kl.Array,
    rows: tuple[kl.Scalar, ...],
    x: kl.Array,
    at: kl.Scalar,
    sums: kl.Array,
    SHAPE: StepShape,
) -> None:
    """Products of a team's rows with `x`, for all its work-items.

    Parameters
    ----------
    a : array, shape (rows, pitch)
    rows : (int, int)
        The team's first row, and the one behind the last that there is.
    x : array, shape (pitch,)
        Zeros up to element `at`.
    at : int
        As said.
    sums : array, shape (SHAPE.rows,)
        Where they go.
    """
    LANES, kind = SHAPE.lanes, a.dtype
    first, end = rows
    totals = kl.private(SHAPE.rows, kind, lanes=LANES)
    for r in kl.static_range(SHAPE.rows):
        totals[r] = kl.splat(kl.cast(0, kind), LANES)
    begin = at // LANES * LANES + kl.local_id(0) % SHAPE.team * LANES
    if first < end:
        for j in kl.range(begin, a.shape[1], SHAPE.team * LANES, unroll=SHAPE.unrolled):
            by = kl.vload(x, j, lanes=LANES)
            for r in kl.static_range(SHAPE.rows):
                row = kl.minimum(first + r, end - 1)
                totals[r] = totals[r] + kl.vload(a, row, j, lanes=LANES) * by
    for r in kl.static_range(SHAPE.rows):
        sums[r] = kl.workgroup_reduce(kl.add, lane_sum(totals[r]), width=SHAPE.team)
