"""The report: one page of HTML that needs nothing else."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from portable_bench.growth import fits, models
from portable_bench.operations import OPERATIONS
from portable_bench.results import Cell, Outcome, Results, finite, time_ratio
from portable_bench.roof import Roof, attained, roofs


def page(results: Results) -> str:
    """The text of a page that shows results, its style, script and data inside."""
    template = files("portable_bench").joinpath("template")
    parts = {
        "STYLE": template.joinpath("report.css").read_text("utf-8"),
        "SCRIPT": template.joinpath("report.js").read_text("utf-8"),
        # No text of the data may end the element that it stands in.
        "DATA": _as_json(_data(results)).replace("<", "\\u003c"),
    }
    text = template.joinpath("report.html").read_text("utf-8")
    for name, part in parts.items():
        text = text.replace(f"/*{name}*/", part)
    return text


def _as_json(data: dict[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"), allow_nan=False)


def _data(results: Results) -> dict[str, Any]:
    limits = roofs(results.cells)
    return {
        "environment": finite(results.environment),
        "operations": {name: _described(name) for name in _names(results)},
        "roofs": [
            {"device": device, "dtype": dtype, "flops": roof.flops, "bytes": roof.bytes}
            for (device, dtype), roof in limits.items()
        ],
        "rows": [row for cell in results.cells for row in _rows(cell, limits)],
        "fits": [asdict(fit) for fit in fits(results.cells)],
        "models": [asdict(model) for model in models(results.cells)],
    }


def _names(results: Results) -> list[str]:
    return list(dict.fromkeys(cell.operation for cell in results.cells))


def _described(name: str) -> dict[str, Any]:
    known = OPERATIONS.get(name)
    if known is None:
        return {"axes": [], "text": ""}
    return {"axes": known.axes, "text": (known.__doc__ or "").strip().partition("\n")[0]}


def _rows(cell: Cell, limits: dict[tuple[str, str], Roof]) -> list[dict[str, Any]]:
    """A row per contender, or one that says why there are none."""
    if not cell.outcomes:
        return [_where(cell) | {"name": "portable", "peer": False, "failure": cell.failure}]
    roof = limits.get((cell.device, cell.dtype))
    return [_where(cell) | _figures(cell, outcome, roof) for outcome in cell.outcomes]


def _where(cell: Cell) -> dict[str, Any]:
    told = ("operation", "device", "dtype", "size", "label")
    return {name: getattr(cell, name) for name in told}


def _figures(cell: Cell, outcome: Outcome, roof: Roof | None) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "name": outcome.name,
        "peer": outcome.peer,
        "failure": outcome.failure,
        "error": outcome.error if outcome.error < float("inf") else None,
    }
    if not outcome.timed:
        return figures
    work, flops, moved = cell.work, cell.flop_rate(outcome), cell.byte_rate(outcome)
    ratios = {p.name: time_ratio(p, outcome) for p in cell.peers if not outcome.peer}
    return figures | {
        "seconds": outcome.seconds,
        "wall": outcome.wall,
        "spread": outcome.spread if len(outcome.samples) > 1 else None,
        "samples": len(outcome.samples),
        "flops": flops,
        "bytes": moved,
        "intensity": work.flops / work.bytes if work and work.flops and work.bytes else None,
        "roof": attained(cell, outcome, roof),
        "ratios": {name: ratio for name, ratio in ratios.items() if ratio is not None},
        "doubt": outcome.doubt,
        "doubtful": [p.name for p in cell.peers if p.doubt or outcome.doubt],
    }
