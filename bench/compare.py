"""Two runs side by side: what became faster or slower beyond the noise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import hypot, log
from typing import Any, Final, Literal

from portable.errors import DataError
from portable_bench.environment import differences
from portable_bench.results import Cell, Outcome, Results

# A run that was cut short, completed by later ones on the same machine.

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


# Two runs side by side: what became faster or slower beyond the noise.

_FLOOR: Final = 0.03
"""A difference as small as this is noise whatever the samples say: runs differ in memory layout."""

_FEW: Final = 3
_FLOOR_OF_FEW: Final = 0.3
"""The same with fewer samples than `_FEW`, which say little about their spread."""

_SIGMAS: Final = 3
_DEVIATION: Final = 1.4826
"""Standard deviation of a normal distribution in units of its median distance from the median."""

Verdict = Literal["faster", "slower", "same", "broken", "mended", "failing", "new", "gone"]
_Key = tuple[str, str, str, tuple[int, ...], str]


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one contender.

    Attributes
    ----------
    cell : Cell
        Of the later run; of the earlier one if it is gone.
    name : str
        The contender's.
    peer : bool
        Whether it is a library.
    before, after : Outcome or None
        None where it was not measured.
    ratio : float or None
        The later speed by the earlier one.
    noise : float or None
        By how much the ratio may differ from 1 with nothing changed.
    verdict : str
        In a word.
    """

    cell: Cell
    name: str
    peer: bool
    before: Outcome | None
    after: Outcome | None
    ratio: float | None
    noise: float | None
    verdict: Verdict


def changes(before: Iterable[Cell], after: Iterable[Cell]) -> list[Change]:
    """Every contender of either run, in the order of the later one."""
    old, new = _outcomes(before), _outcomes(after)
    return [_change(old.get(key), new.get(key)) for key in dict.fromkeys([*new, *old])]


def regressions(cells: Sequence[Change], least: float) -> list[Change]:
    """Those of ours that fail now, or whose ratio is below `least` and not by noise."""
    return [c for c in cells if not c.peer and _worse(c, least)]


def _worse(change: Change, least: float) -> bool:
    if change.verdict == "broken":
        return True
    return change.verdict == "slower" and change.ratio is not None and change.ratio < least


def _outcomes(cells: Iterable[Cell]) -> dict[_Key, tuple[Cell, Outcome]]:
    return {
        (cell.operation, cell.device, cell.dtype, cell.size, outcome.name): (cell, outcome)
        for cell in cells
        for outcome in cell.outcomes or [Outcome("portable", peer=False, failure=cell.failure)]
    }


def _change(old: tuple[Cell, Outcome] | None, new: tuple[Cell, Outcome] | None) -> Change:
    cell, outcome = new or old or (None, None)
    assert cell is not None
    assert outcome is not None
    before, after = (x[1] if x else None for x in (old, new))
    if not (before and after and before.timed and after.timed):
        verdict = _without_times(before, after)
        return Change(cell, outcome.name, outcome.peer, before, after, None, None, verdict)
    ratio = before.seconds / after.seconds
    few = min(len(before.samples), len(after.samples)) < _FEW
    floor = _FLOOR_OF_FEW if few else _FLOOR
    noise = max(floor, _SIGMAS * _DEVIATION * hypot(before.spread, after.spread))
    verdict = "same" if abs(log(ratio)) <= noise else "faster" if ratio > 1 else "slower"
    return Change(cell, outcome.name, outcome.peer, before, after, ratio, noise, verdict)


def _without_times(before: Outcome | None, after: Outcome | None) -> Verdict:
    if before is None:
        return "new"
    if after is None:
        return "gone"
    if not before.timed and not after.timed:
        return "failing"
    return "mended" if after.timed else "broken"
