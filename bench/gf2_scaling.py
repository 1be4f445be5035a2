"""How the special elimination scales: ``portable bench scale --gf2``, and a model of its costs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import linear_regression, median
from time import perf_counter
from typing import Any, Final

import click
from rich.table import Table

from portable import gf2
from portable.errors import PortableError
from portable.gf2.eliminate import checked_owners
from portable.gf2.elimination import Elimination, Part
from portable.gf2.layout import Order, Turn
from portable.gf2.made_up import random_problem
from portable.gf2.shared_out import room_for_told, run_stripes
from portable.gf2.tuning import shape_for
from portable.parallel import Group, Member
from portable.system.console import show
from portable.system.files import write_whole
from portable_bench import tables
from portable_bench.environment import environment
from portable_bench.operation import parse_sizes

Shape = tuple[int, int, int]
"""Columns, eliminators, rows."""

_ROUNDS: Final = 3


@dataclass(frozen=True, slots=True)
class Costs:
    """What the parts of the work cost, in seconds.

    Attributes
    ----------
    chooses : float
        To choose the pivots of a stripe.
    solves : float
        To bring the rows of a stripe's pivots up to date in others, before they are applied.
    begins : float
        To begin to apply a stripe's pivots to others, however many.
    applies : float
        To apply them to one other stripe.
    tells : float
        To tell all members of a stripe's pivots.
    """

    chooses: float
    solves: float
    begins: float
    applies: float
    tells: float


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of one group.

    Attributes
    ----------
    members : int
    whole : float
        Seconds from packed rows on the first device to packed rows there.
    stripes : float
        The same without bringing matrices to the members, and results back.
    predicted : float
        Seconds that the model gives the stripes.
    costs : Costs
        Of its parts.
    """

    members: int
    whole: float
    stripes: float
    predicted: float
    costs: Costs


def predicted(stripes: int, members: int, costs: Costs) -> float:
    """Seconds for all stripes, by the schedule of `portable.gf2.shared_out.run_stripes`.

    Broadcasts travel while a member works, and are waited for afterwards.

    Parameters
    ----------
    stripes : int
    members : int
    costs : Costs
        Of the parts.
    """
    now = [0.0] * members

    def apply(rank: int, first: int, last: int) -> None:
        count = len(_held(rank, members, first, last))
        now[rank] += (costs.solves + costs.begins + costs.applies * count) if count else 0.0

    for stripe in range(stripes):
        root = stripe % members
        now[root] += costs.chooses
        arrives = now[root] + (costs.tells if members > 1 else 0.0)
        for rank in range(members):
            if stripe and members > 1:
                apply(rank, stripe + 1, stripes)
            if rank != root:
                now[rank] = max(now[rank], arrives)
            if (stripe + 1) % members == rank:
                apply(rank, stripe + 1, stripes if members == 1 else min(stripe + 2, stripes))
    return max(now)


def _held(rank: int, members: int, first: int, stripes: int) -> range:
    """A member's stripes from `first` on."""
    return range(first + (rank - first) % members, stripes, members)


def measure(groups: Sequence[Group], shape: Shape) -> Iterator[Row]:
    """A row for each group; results are verified first.

    Raises
    ------
    PortableError
        If a result is wrong.
    """
    for group in groups:
        known, rows = random_problem(*shape, device=group.devices[0])
        expected = gf2.eliminate(known, rows).rows
        if gf2.eliminate(known, rows, group=group).rows != expected:
            raise PortableError(f"the result of {group.size} members is wrong")
        yield group.run(_row, known, rows, _whole(group, known, rows))[0]


def _whole(group: Group, known: gf2.BitMatrix, rows: gf2.BitMatrix) -> float:
    def eliminate() -> None:
        gf2.eliminate(known, rows, group=group)
        rows.device.synchronize()

    return median(_seconds(eliminate) for _ in range(_ROUNDS))


def _row(member: Member, known: gf2.BitMatrix, rows: gf2.BitMatrix, whole: float) -> Row:
    """What a member finds of its group."""
    matrices = known.to(member.device), rows.to(member.device)
    owners = checked_owners(matrices[0], Order(rows.shape[1], backward=True))
    alone = _alone(member, *matrices, owners) if member.rank == 0 else None
    costs = member.exchange(alone)[0]
    if member.size > 1:
        costs = replace(costs, tells=_told(member, rows.shape[0]))
    told = room_for_told(member, shape_for(member.device.capabilities), rows.shape[0])
    part = Part(Turn(member.rank, member.size), told=told.array)
    times = []
    for _ in range(_ROUNDS):
        work = _begun(member, *matrices, owners, part)
        count = work.layout.stripes
        times.append(_together(member, partial(run_stripes, work, member, told, 0, count)))
    return Row(member.size, whole, median(times), predicted(count, member.size, costs), costs)


def _begun(
    member: Member,
    known: gf2.BitMatrix,
    rows: gf2.BitMatrix,
    owners: Any,
    part: Part,
) -> Elimination:
    order = Order(rows.shape[1], backward=True)
    shape = shape_for(member.device.capabilities)
    return Elimination.of(rows, order, eliminators=known, owners=owners, shape=shape, part=part)


def _alone(member: Member, known: gf2.BitMatrix, rows: gf2.BitMatrix, owners: Any) -> Costs:
    """What the parts cost where one has all stripes, by the device's clock."""
    work = _begun(member, known, rows, owners, Part())
    count, mark = work.layout.stripes, member.device.mark
    seen = []
    for stripe in range(count):
        marks = [mark()]
        work.choose(stripe)
        marks.append(mark())
        work.solve(stripe, stripe + 1, count)
        marks.append(mark())
        work.add(stripe, stripe + 1, count)
        marks.append(mark())
        seen.append(marks)
    chosen, solved, applied = (
        [after.seconds_after(before) for before, after in zip(*pair, strict=True)]
        for pair in pairwise(zip(*seen, strict=True))
    )
    lasting = [(count - 1 - i, seconds) for i, seconds in enumerate(applied[:-1])]
    begins, applies = _line(lasting)
    return Costs(sum(chosen) / count, sum(solved) / count, begins, applies, 0.0)


def _line(points: list[tuple[int, float]]) -> tuple[float, float]:
    """Seconds at no stripes and for each one, by least squares."""
    if len(points) < 2:
        return 0.0, sum(seconds for _, seconds in points)
    each, begins = linear_regression(*zip(*points, strict=True))
    return max(begins, 0.0), each


def _told(member: Member, rows: int) -> float:
    """Seconds for one broadcast of a stripe's pivots."""
    told = room_for_told(member, shape_for(member.device.capabilities), rows)
    told.array[...] = 0
    tell = partial(told.start_broadcast, 0, 0)
    return median(_together(member, lambda: tell().wait()) for _ in range(2 * _ROUNDS))


def _together(member: Member, work: Callable[[], Any]) -> float:
    """Seconds of the slowest member."""
    member.barrier()
    start = perf_counter()
    work()
    member.device.synchronize()
    return float(max(member.exchange(perf_counter() - start)))


def _seconds(work: Callable[[], Any]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def scale_elimination(
    groups: Sequence[Group], first: bool, text: str, json_path: Path | None
) -> None:
    """Measures groups, and shows and writes it where this process is the first.

    Parameters
    ----------
    groups : sequence of Group
    first : bool
        Whether this process is the first.
    text : str
        The sizes, COLUMNSxELIMINATORSxROWS.
    json_path : path or None
        Where to write the results.

    Raises
    ------
    click.UsageError
        For sizes that are none.
    """
    try:
        ((columns, eliminators, rows),) = parse_sizes(text)
    except ValueError as error:
        raise click.UsageError(
            f"--gf2 {text}: expected COLUMNSxELIMINATORSxROWS ({error})"
        ) from None
    result = list(measure(groups, (columns, eliminators, rows)))
    if not first:
        return
    show(_table(result, text))
    if json_path is not None:
        write_rows(json_path, {"gf2": [columns, eliminators, rows]}, groups, result)


def write_rows(path: Path, job: dict[str, Any], groups: Sequence[Group], rows: Any) -> None:
    """Writes what was measured as JSON.

    Parameters
    ----------
    path : path
    job : dict
        What was done.
    groups : sequence of Group
        By whom.
    rows : sequence of dataclasses
        What came of it.
    """
    devices = groups[0].devices
    where = {"device": devices[0].capabilities.name, "environment": environment(devices, {})}
    record = {**job, **where, "rows": [asdict(row) for row in rows]}
    write_whole(path, json.dumps(record, indent=1).encode())


def _table(rows: Sequence[Row], text: str) -> Table:
    table = Table(title=f"The special elimination over a group, {text}")
    for heading in (
        "members", "whole", "times one", "stripes", "times one", "predicted",
        "choosing", "solving", "beginning", "applying", "telling",
    ):  # fmt: skip
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            str(row.members),
            tables.seconds(row.whole),
            f"{rows[0].whole / row.whole:.2f}",
            tables.seconds(row.stripes),
            f"{rows[0].stripes / row.stripes:.2f}",
            tables.seconds(row.predicted),
            *map(tables.seconds, astuple(row.costs)),
        )
    table.caption = "from choosing on: of one stripe, whose pivots are applied to one other"
    return table
