"""Two runs side by side: what became faster or slower beyond the noise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import hypot, log
from typing import Final, Literal

from portable_bench.results import Cell, Outcome

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
