"""How long a device takes to a bulge chase, worked out beforehand from its plan.

Packs of sweeps follow each other at a distance, so that the last one begins late, however many
units there are: the steps by which a pack trails the one before, and what it takes to hand progress
and blocks from one to the other. Nor do they follow each other faster than units are done with
packs, of which the first are the longest: the last has no hop left. A step takes a latency
(barriers, reading what a reflector is made of, a root and a division) and what the sweeps of a pack
move through local memory or caches, which they share. (E. Ringoot, R. Alomairy, A. Edelman, "A
GPU-resident memory-aware algorithm for accelerating bidiagonalization of banded matrices", arXiv
2510.12705, finds the same: the chase is bound by latencies and caches, never by arithmetic.)
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final

from portable.backend import Capabilities
from portable.dtypes import DType
from portable.linalg.bands.plan import Plan, Stage, waves_of
from portable.tune.table import device_keys

_SHARED: Final = 1.5
"""As many units do the work of so many where two panels share one, seen on an H200."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What a device was seen to do in a residency; times are in microseconds.

    Attributes
    ----------
    step : float
        A step at least: the latency of barriers, of what a reflector is made of, of a root and a
        division.
    fixed, element : float
        What a step takes where its sweeps share barriers and local memory, or caches, and what each
        thousand elements of a hop add to it, for every sweep of a pack.
    hand : float
        From the end of a pack's step to the beginning of the one in the next pack that waits for
        it, beyond what the sweeps of a pack are apart.
    launch : float
        A launch.
    alone : float
        What each thousand elements of a hop add at least, however few sweeps share the step.
    brought : float
        What each thousand elements of a hop add once for all sweeps of a pack, in vectors: they
        come out of the caches of the core that had them last.
    filled : float
        What each thousand places of the working storage take to be filled, for products.
    """

    step: float
    fixed: float
    element: float
    hand: float
    launch: float
    alone: float = 0.0
    brought: float = 0.0
    filled: float = 0.0


def predicted(plan: Plan, n: int, capabilities: Capabilities) -> float:
    """Seconds that a matrix is expected to take.

    Parameters
    ----------
    plan : Plan
        How it is reduced.
    n : int
        Columns.
    capabilities : Capabilities
        Of the device; the rates are its own, or those of devices like it.
    """
    kind = plan.storage.register
    total = sum(stage_time(x, n, plan.persistent, kind, capabilities) for x in plan.stages)
    return 1e-6 * total


def stage_time(
    stage: Stage, n: int, persistent: bool, kind: DType, capabilities: Capabilities
) -> float:
    """Microseconds of a stage.

    Parameters
    ----------
    stage : Stage
        Which.
    n : int
        Columns.
    persistent : bool
        Whether one launch makes all hops.
    kind : DType
        What is computed in.
    capabilities : Capabilities
        Of the device.
    """
    rates = _rates(stage.residency, kind, capabilities)
    units: float = max(1, capabilities.compute_units)
    if stage.residency == "panels" and stage.spare:
        units *= _SHARED
    if not persistent or stage.residency == "items":
        return _waves(stage, n, rates, units)
    step = _step(stage, rates)
    packs = stage.pack_count(n)
    apart = _apart(stage)
    length = n / stage.bandwidth
    behind = apart * step + rates.hand
    # A pack's last sweep is that much behind its first, unless one work-item makes all hops.
    beyond = 0.0 if stage.residency in ("vectors", "products") else apart
    longest, shortest = ((x + beyond) * step / min(units, packs) for x in (length, 0))
    waits = max(0.0, longest - behind) / (longest - shortest)
    first = rates.launch
    if stage.narrowing is not None:
        first += 1e-3 * n * stage.narrowing.pitch * stage.narrowing.edge * rates.filled
    return first + length * step + packs * (behind + waits * (longest - behind) / 2)


def _step(stage: Stage, rates: Rates) -> float:
    """Microseconds of a step: a hop of every sweep of the pack, one after another in vectors."""
    elements = 4e-3 * stage.bandwidth * stage.reflector * rates.element
    if stage.residency in ("panels", "products"):
        lines = 1e-3 * stage.panel * stage.length * (stage.bandwidth + stage.length)
        hop = 2 * (rates.fixed + stage.panel * rates.step + lines * rates.element)
        return hop if stage.residency == "panels" else stage.sweeps * hop
    if stage.residency == "vectors":
        brought = 4e-3 * stage.bandwidth * stage.reflector * rates.brought
        return stage.sweeps * (rates.fixed + elements) + brought
    least = 4e-3 * stage.bandwidth * stage.reflector * rates.alone
    return max(rates.step, rates.fixed + max(least, stage.sweeps * elements))


def _apart(stage: Stage) -> float:
    """Steps by which a pack trails the one before: what its sweeps take, and what follows at once.

    With blocks a step is two turns, and sweeps are three turns apart. The first sweep of a pack
    waits for a whole block that the last one of the pack before is done with, a turn later. In
    vectors the sweeps of a pack begin one after another, so that its first steps have fewer hops.
    """
    match stage.residency:
        case "vectors" | "products":
            return stage.every + (stage.lag - 1) * stage.sweeps + 1
        case "panels":
            return stage.lag
        case _:
            return 1.5 * stage.sweeps + 0.5


def _waves(stage: Stage, n: int, rates: Rates, units: float) -> float:
    """Microseconds where each wave of hops is a launch."""
    waves, apart, step = waves_of(n, stage), stage.lag + 1, _step(stage, rates)
    if stage.residency == "panels":
        apart, step = stage.lag, step / 2
    beside = n / stage.bandwidth / apart
    return waves * (rates.launch + step * max(1.0, beside / units))


@lru_cache(maxsize=64)
def _rates(residency: str, kind: DType, capabilities: Capabilities) -> Rates:
    """Those of the device, or of one like it."""
    table = _table()[kind.name]
    key = next(key for key in device_keys(capabilities) if residency in table.get(key, {}))
    return Rates(**table[key][residency])


@cache
def _table() -> Any:
    resource = files("portable_data") / "tuning" / "band_rates.json"
    return json.loads(resource.read_text(encoding="utf-8"))
