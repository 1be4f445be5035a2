"""How far from a device's limits: the roofline model, its roofs measured in the same run.

S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model for
multicore architectures", Communications of the ACM 52 (2009).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from portable_bench.operation import Case
from portable_bench.operations import OPERATIONS
from portable_bench.plan import Planned
from portable_bench.results import Cell, Outcome

_COPY: Final = OPERATIONS["copy"]
_NOISE: Final = 1.1


@dataclass(frozen=True, slots=True)
class Roof:
    """The fastest that kernels of ours were seen to be on a device.

    Attributes
    ----------
    flops : float or None
        Operations per second in an element type.
    bytes : float or None
        Bytes per second, read and written.
    """

    flops: float | None
    bytes: float | None


def with_roofs(planned: Sequence[Planned]) -> list[Planned]:
    """The same after what measures the roofs that they are compared with."""
    compared = [p for p in planned if p[0].work(p[1]) is not None]
    asked = {(operation.name, case.device, case.dtype) for operation, case in planned}
    wanted = dict.fromkeys(
        (roof, case.device, dtype)
        for operation, case in compared
        for roof, dtype in ((_COPY, _COPY.dtypes[0]), (OPERATIONS[operation.roof], case.dtype))
    )
    added = [
        (roof, Case(device, dtype, size))
        for roof, device, dtype in wanted
        if (roof.name, device, dtype) not in asked and device.capabilities.kind != "simulator"
        for size in roof.sizes_for(device.capabilities.kind, "quick")
    ]
    return [*added, *planned]


def roofs(cells: Sequence[Cell]) -> dict[tuple[str, str], Roof]:
    """By device and element type; one that kernels of ours went through is none."""
    arithmetic = {operation.roof for operation in OPERATIONS.values()}
    flops: dict[tuple[str, str], float] = {}
    bytes_: dict[str, float] = {}
    for cell in cells:
        for outcome in cell.ours:
            if cell.operation in arithmetic and outcome.timed and cell.work:
                key = (cell.device, cell.dtype)
                flops[key] = max(flops.get(key, 0), cell.work.flops / _fastest(outcome))
            if cell.operation == _COPY.name and outcome.timed and cell.work:
                rate = cell.work.bytes / _fastest(outcome)
                bytes_[cell.device] = max(bytes_.get(cell.device, 0), rate)
    flops = {key: rate for key, rate in flops.items() if not _passed(key, rate, cells)}
    keys = dict.fromkeys([*flops, *((device, _COPY.dtypes[0].short) for device in bytes_)])
    return {key: Roof(flops.get(key), bytes_.get(key[0])) for key in keys}


def attained(cell: Cell, outcome: Outcome, roof: Roof | None) -> float | None:
    """The fraction of what the roofline allows; None where that is not known.

    Parameters
    ----------
    cell : Cell
        What was measured, with its work.
    outcome : Outcome
        A contender's time.
    roof : Roof or None
        What the device can do.
    """
    if roof is None or cell.work is None or not outcome.timed:
        return None
    least = 0.0
    if cell.work.flops:
        if roof.flops is None:
            return None
        least = cell.work.flops / roof.flops
    if roof.bytes is not None:
        least = max(least, cell.work.bytes / roof.bytes)
    return least / outcome.seconds if least else None


def _passed(key: tuple[str, str], rate: float, cells: Iterable[Cell]) -> bool:
    """Whether ours were faster than the roof is high, beyond noise: it was measured badly then."""
    cells_alike = (cell for cell in cells if (cell.device, cell.dtype) == key)
    rates = (cell.flop_rate(outcome) or 0 for cell in cells_alike for outcome in cell.ours)
    return any(rate_seen > _NOISE * rate for rate_seen in rates)


def _fastest(outcome: Outcome) -> float:
    """A roof is what is possible, so that the best sample counts."""
    return min(s.seconds for s in outcome.samples if s.seconds > 0)
