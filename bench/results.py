"""What a run found: per cell and contender the raw samples, or the reason why there are none.

The format of the files is described by ``schema.json`` beside this module, a JSON Schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from math import hypot, inf, isfinite, log
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal

from portable.errors import DataError
from portable.system.console import html
from portable.system.files import write_whole
from portable.tune.stopwatch import Timing
from portable_bench.environment import differences
from portable_bench.operation import Work

# Robust figures from few samples.


def spread(samples: Sequence[float]) -> float:
    """Median distance from the median, as a fraction of the median; outliers count little."""
    middle = median(samples)
    return median(abs(x - middle) for x in samples) / middle if middle else 0.0


def paired_ratio(over: Sequence[float], under: Sequence[float]) -> float | None:
    """Median of the ratios of samples taken side by side; None where no pair has both times.

    Both members of a pair meet the same clock frequency and the same neighbours, so a machine that
    slows down during a run does not bend the ratio.
    """
    ratios = [x / y for x, y in zip(over, under, strict=False) if x > 0 and y > 0]
    return median(ratios) if ratios else None


# -- results ---------------------------------------------------------------------------------------

SCHEMA: Final = 2
"""Version of the files that `write` makes and `load` takes."""


DISAGREE: Final = 0.2
"""From what spread on samples say little: more are taken, and then the time is marked."""


@dataclass(slots=True)
class Outcome:
    """How one contender did.

    Attributes
    ----------
    name : str
        The contender's.
    peer : bool
        Whether it is a library that ours are compared with.
    error : float
        Worst error as a multiple of what is allowed; infinite if there was no result.
    failure : str
        Why it has no samples; empty if it has.
    repeats : int
        Runs in a row per sample.
    samples : list of Timing
        In the order in which they were taken.
    """

    name: str
    peer: bool
    error: float = inf
    failure: str = ""
    repeats: int = 1
    samples: list[Timing] = field(default_factory=list)

    @property
    def verified(self) -> bool:
        """Whether its result was right."""
        return self.error <= 1

    @property
    def timed(self) -> bool:
        """Whether there is anything to show: a clock that saw no time pass shows nothing."""
        return bool(self.samples) and not self.failure and self.seconds > 0

    @property
    def seconds(self) -> float:
        """Median time of a run."""
        return median(s.seconds for s in self.samples)

    @property
    def wall(self) -> float:
        """Median time of a run by the host's clock, from an idle device until it is idle again."""
        return median(s.wall for s in self.samples)

    @property
    def spread(self) -> float:
        """Of its samples, as a fraction of their median; 0 for a single one."""
        return spread([s.seconds for s in self.samples])

    @property
    def doubt(self) -> str:
        """Why its time may be another's work; empty where samples agree."""
        if not self.timed:
            return ""
        if len(self.samples) == 1:
            return "one sample"
        return "samples disagree" if self.spread > DISAGREE else ""


@dataclass(slots=True)
class Cell:
    """One problem on one device, and how the contenders did.

    Attributes
    ----------
    operation, device, dtype : str
        Names; the element type's short one.
    size : tuple of int
        Extents.
    label : str
        The size as it is shown.
    work : Work or None
        What the problem costs.
    model : dict
        What the operation's performance model counts.
    outcomes : list of Outcome
        Ours first.
    failure : str
        Why there are none.
    """

    operation: str
    device: str
    dtype: str
    size: tuple[int, ...]
    label: str
    work: Work | None
    model: dict[str, float] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    failure: str = ""

    @property
    def ours(self) -> list[Outcome]:
        """The contenders that are no peers."""
        return [o for o in self.outcomes if not o.peer]

    @property
    def peers(self) -> list[Outcome]:
        """The peers."""
        return [o for o in self.outcomes if o.peer]

    def flop_rate(self, outcome: Outcome) -> float | None:
        """Its operations per second; None without samples or where none are counted."""
        counted = outcome.timed and self.work and self.work.flops
        return self.work.flops / outcome.seconds if counted and self.work else None

    def byte_rate(self, outcome: Outcome) -> float | None:
        """Its bytes of operands and result per second; None as above."""
        counted = outcome.timed and self.work and self.work.bytes
        return self.work.bytes / outcome.seconds if counted and self.work else None


@dataclass(slots=True)
class Results:
    """A run: the machine and its options, and the cells."""

    environment: dict[str, Any]
    cells: list[Cell]

    def _repr_html_(self) -> str:
        """For notebooks: the tables that the command prints."""
        from portable_bench.tables import tables

        return html(*tables(self.cells))


def time_ratio(over: Outcome, under: Outcome) -> float | None:
    """How many times as long `over` took; None unless both have times."""
    if not (over.timed and under.timed):
        return None
    both = over.samples + under.samples
    by_device = all(s.device is not None for s in both)
    return paired_ratio(*([_time(s, by_device) for s in o.samples] for o in (over, under)))


def _time(sample: Timing, by_device: bool) -> float:
    return sample.seconds if by_device else sample.wall


# -- files --------------------------------------------------------------------------------------


def write(path: Path, results: Results) -> None:
    """Write everything to a JSON file, a line per cell; a failure leaves what was there."""
    write_lines(path, results.environment, [line(cell) for cell in results.cells])


def line(cell: Cell) -> str:
    """A cell as `write_lines` takes it."""
    return json.dumps(finite(asdict(cell)))


def write_lines(path: Path, environment: dict[str, Any], cells: Sequence[str]) -> None:
    """`write` of cells that are text by now.

    Parameters
    ----------
    path : path
    environment : dict
        What the cells were measured with.
    cells : sequence of str
        Each as JSON.
    """
    where, lines = json.dumps(finite(environment), indent=1), ",\n".join(cells)
    text = f'{{"schema": {SCHEMA},\n"environment": {where},\n"cells": [\n{lines}\n]}}\n'
    write_whole(path, text.encode())


def load(path: Path) -> Results:
    """Read what `write` wrote.

    Raises
    ------
    DataError
        If the file cannot be read, is damaged, or is of another version.
    """
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text, parse_constant=_no_number, parse_float=_number)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read as results: {error}") from None
    if isinstance(content, dict) and content.get("schema", SCHEMA) != SCHEMA:
        schema = content["schema"]
        raise DataError(f"{path} is of version {schema}, not {SCHEMA}; measure again")
    _check(path, content)
    return Results(content["environment"], [_cell(entry) for entry in content["cells"]])


def _no_number(word: str) -> None:
    """Of NaN and infinities, which are no JSON; null, as they are written."""


def _number(text: str) -> float | None:
    return number if isfinite(number := float(text)) else None


def _check(path: Path, content: Any) -> None:
    try:
        import jsonschema
    except ImportError:
        raise DataError(
            f"{path} is not read unchecked, and jsonschema is not installed; "
            "pip install 'portable-arrays[bench]'"
        ) from None
    schema = json.loads(files("portable_bench").joinpath("schema.json").read_text("utf-8"))
    error = jsonschema.exceptions.best_match(
        jsonschema.Draft202012Validator(schema).iter_errors(content)
    )
    if error is not None:
        raise DataError(f"{path} is damaged: {error.json_path}: {error.message[:200]}")


def _cell(entry: dict[str, Any]) -> Cell:
    work = Work(**entry["work"]) if entry["work"] else None
    outcomes = [_outcome(o) for o in entry["outcomes"]]
    return Cell(**{**entry, "size": tuple(entry["size"]), "work": work, "outcomes": outcomes})


def _outcome(entry: dict[str, Any]) -> Outcome:
    error = inf if entry["error"] is None else entry["error"]
    samples = [Timing(s["wall"], s["device"]) for s in entry["samples"]]
    return Outcome(**{**entry, "error": error, "samples": samples})


def finite(value: Any) -> Any:
    """The same with null for what JSON has no word for."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not isfinite(value) else value


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
