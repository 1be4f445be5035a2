"""What steps of reductions share, which are made in panels by workgroups that meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.sums import lane_sum
from portable.linalg.singular_values.direct_kernels import zeros_up_to

__all__ = [
    "StepShape",
    "both_added",
    "line_sums",
    "multiply_rows",
    "subtract",
    "total_of",
]


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
    def items(self) -> int:
        """Work-items of a workgroup."""
        return self.team * self.teams


@function
def both_added(x: Any, y: Any) -> Any:
    """The sums of two pairs."""
    return x[0] + y[0], x[1] + y[1]


@function
def total_of(shares: Any, SHAPE: StepShape) -> Any:
    """The sum of what workgroups have."""
    total = kl.cast(0, shares.dtype)
    for part in range(kl.local_id(0), SHAPE.groups, SHAPE.items):
        total = total + shares[part]
    return kl.workgroup_reduce(kl.add, total)


@function
def line_sums(a: Any, lines: Any, i: Any, by: Any, parts: Any, SHAPE: StepShape) -> Any:
    """A vector of lines' sums, times two rows of coefficients, for the first team of a workgroup.

    Teams take the lines in turn.

    Parameters
    ----------
    a : array, shape (rows, pitch)
    lines : (int, int)
        The row in which they begin, and how many they are.
    i : int
        The vector's first column.
    by : array, shape (2, lines)
        The coefficients.
    parts : array, shape (teams, 2, columns of a workgroup)
        Room in local memory, which nobody uses.
    """
    ACROSS, TEAMS, kind = SHAPE.across, SHAPE.teams, a.dtype
    first, count = lines
    team, column = kl.local_id(0) // SHAPE.team, kl.local_id(0) % SHAPE.team * ACROSS
    one = kl.splat(kl.cast(0, kind), ACROSS)
    other = one
    if i < a.shape[1]:
        for line in kl.range(team, count, TEAMS, unroll=SHAPE.unrolled):
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
def multiply_rows(a: Any, rows: Any, x: Any, at: Any, sums: Any, SHAPE: StepShape) -> None:
    """Products of a team's rows with what is behind element `at` of `x`, for all its work-items.

    Parameters
    ----------
    a : array, shape (rows, pitch)
    rows : (int, int)
        The team's first row, and the one behind the last that there is.
    x : array, shape (pitch,)
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
            if j <= at:
                by = zeros_up_to(by, at - j)
            for r in kl.static_range(SHAPE.rows):
                row = kl.minimum(first + r, end - 1)
                totals[r] = totals[r] + kl.vload(a, row, j, lanes=LANES) * by
    for r in kl.static_range(SHAPE.rows):
        sums[r] = kl.workgroup_reduce(kl.add, lane_sum(totals[r]), width=SHAPE.team)


@kernel
def subtract(product: Any, x: Any) -> None:
    """Takes a product off matrices; dimension 2 is the matrices."""
    column, row, matrix = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    if matrix < x.shape[0] and row < x.shape[1] and column < x.shape[2]:
        x[matrix, row, column] = x[matrix, row, column] - product[matrix, row, column]
