"""What a run found: per cell and contender the raw samples, or the reason why there are none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import inf, isfinite
from pathlib import Path
from typing import Any, Final

from portable.tune.stopwatch import Timing
from portable_bench.operation import Work
from portable_bench.statistics import median, paired_ratio, spread

__all__ = ["SCHEMA", "Cell", "Outcome", "time_ratio", "write"]

SCHEMA: Final = 1
"""Version of the files that `write` makes."""


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
        """Whether there is anything to show."""
        return bool(self.samples) and not self.failure

    @property
    def seconds(self) -> float:
        """Median time of a run."""
        return median(s.seconds for s in self.samples)

    @property
    def spread(self) -> float:
        """Of its samples, as a fraction of their median."""
        return spread([s.seconds for s in self.samples])


@dataclass(slots=True)
class Cell:
    """One problem on one device, and how the contenders did."""

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

    def rate(self, outcome: Outcome) -> float | None:
        """Its GFLOP/s; None without samples or where the operation counts no work."""
        if not outcome.timed or self.work is None:
            return None
        return 1e-9 * self.work.flops / outcome.seconds


def time_ratio(over: Outcome, under: Outcome) -> float | None:
    """How many times as long `over` took; None unless both have samples."""
    if not (over.timed and under.timed):
        return None
    both = over.samples + under.samples
    by_device = all(s.device is not None for s in both)
    return paired_ratio(*([_time(s, by_device) for s in o.samples] for o in (over, under)))


def _time(sample: Timing, by_device: bool) -> float:
    return sample.seconds if by_device else sample.wall


def write(path: Path, cells: Sequence[Cell], environment: dict[str, Any]) -> None:
    """Write everything to a JSON file."""
    content = {
        "schema": SCHEMA,
        "environment": environment,
        "cells": [_finite(asdict(cell)) for cell in cells],
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _finite(value: Any) -> Any:
    """The same with null for what JSON has no word for."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not isfinite(value) else value
