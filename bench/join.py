"""A run that was cut short, completed by later ones on the same machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from portable.errors import DataError
from portable_bench.environment import differences
from portable_bench.results import Cell, Results

Named = tuple[str, Results]


def joined(first: Results, more: Sequence[Named]) -> Results:
    """A run with what it lacks from later ones, each of which has the name of its file.

    A cell of a later run replaces one without timings of ours, and stands at the end where there
    was none; one that has timings stays. The environment is the first run's, with the devices
    that only later ones have and, as ``completed``, the files and times of those that cells were
    taken from.

    Raises
    ------
    DataError
        If the runs differ in machine, devices, versions or commit, with all that differs.
    """
    environment = _common(first.environment, more)
    completed = [*environment.get("completed", [])]
    cells = {_key(cell): cell for cell in first.cells}
    for name, later in more:
        missing = {
            key: cell
            for cell in later.cells
            if (key := _key(cell)) not in cells or not _timed(cells[key])
        }
        if missing:
            completed.append({"file": name, "time": later.environment["time"]})
            completed += later.environment.get("completed", [])
        cells |= missing
    return Results(environment | {"completed": completed}, list(cells.values()))


def _common(environment: Mapping[str, Any], more: Sequence[Named]) -> dict[str, Any]:
    """The first one, with the devices of all."""
    differing, common = list[str](), dict(environment)
    for name, later in more:
        differing += [
            f"{what} is {other or 'none'} in {name}, not {one or 'none'}"
            for what, one, other in differences(common, later.environment)
        ]
        common["devices"] = later.environment["devices"] | common["devices"]
        if "peers" in common and "peers" in later.environment:
            common["peers"] = _both(common["peers"], later.environment["peers"])
    if differing:
        raise DataError(
            f"runs to be joined must be of one machine and commit: {'; '.join(differing)}"
        )
    return common


def _both(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """What libraries ran with in either run."""

    def listed(part: str) -> list[Any]:
        return [*one[part], *(x for x in other[part] if x not in one[part])]

    taken = {**other["taken_away"], **one["taken_away"]}
    libraries, held_back = listed("libraries"), listed("held_back")
    return {"taken_away": taken, "libraries": libraries, "held_back": held_back}


def _key(cell: Cell) -> tuple[str, str, str, tuple[int, ...]]:
    return cell.operation, cell.device, cell.dtype, cell.size


def _timed(cell: Cell) -> bool:
    return any(outcome.timed for outcome in cell.ours)
