"""A run as pictures: the ladder of algorithms, and the heat map beside libraries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2, prod
from pathlib import Path
from typing import TYPE_CHECKING, Final

from portable_bench.results import Cell, Results, time_ratio
from portable_bench.roof import roofs
from portable_bench.tables import number, seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

# The ladder of algorithms as a picture.


def plot_ladders(cells: Sequence[Cell], ladders: Sequence[Cell], path: Path) -> None:
    """Draw GFLOP/s of each rung on a logarithmic scale, a panel per ladder.

    Parameters
    ----------
    cells : sequence of Cell
        Among them those that tell the roofs, which are drawn as lines.
    ladders : sequence of Cell
        What to draw.
    path : Path
        Where to; ``.png``, ``.svg`` or ``.pdf``.
    """
    from matplotlib.figure import Figure

    limits = roofs(cells)
    figure = Figure(figsize=(7, 0.6 + 2.2 * len(ladders)), layout="constrained")
    panels = figure.subplots(len(ladders), 1, squeeze=False, sharex=True)[:, 0]
    for axes, cell in zip(panels, ladders, strict=True):
        shown = [o for o in cell.outcomes if o.timed]
        rates = [1e-9 * (cell.flop_rate(o) or 0) for o in shown]
        colours = ["#9a9a9a" if o.peer else "#2f6fb5" for o in shown]
        bars = axes.barh([o.name for o in shown], rates, color=colours)
        axes.bar_label(bars, [number(r) for r in rates], padding=3, fontsize=8)
        roof = limits.get((cell.device, cell.dtype))
        if roof is not None and roof.flops is not None:
            axes.axvline(1e-9 * roof.flops, color="#c0392b", linestyle="--", linewidth=1)
        axes.set_xscale("log")
        axes.margins(x=0.15)
        axes.invert_yaxis()
        axes.set_title(f"{cell.operation} {cell.label} {cell.dtype} on {cell.device}", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    panels[-1].set_xlabel("GFLOP/s; the dashed line is the fastest multiply-add kernel")
    figure.savefig(path)


# The heat map of a run as a picture: operations by device and precision, beside libraries.

_SLOWER, _EVEN, _FASTER = "#c98a55", "#e6e6e6", "#2173c4"
_BLANK: Final = "#f4f4f4"
_TIMES: Final = "\N{MULTIPLICATION SIGN}"
_TWICE: Final = 2
"""Times by which the speeds differ where a colour is at its end, as a power of two."""


@dataclass(frozen=True, slots=True)
class _Field:
    """What stands in a field: one text above the other, and the colour's place from 0 to 1."""

    large: str
    small: str
    place: float | None


def plot_heat(results: Results, path: Path) -> None:
    """Draw how fast the largest problem of each operation ran beside the fastest library.

    Parameters
    ----------
    results : Results
        Of a run. Where no library was measured, the time itself is shown.
    path : Path
        Where to; ``.png``, ``.svg`` or ``.pdf``.
    """
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    fields = _fields(results.cells)
    lines = list(dict.fromkeys(line for line, _ in fields))
    devices = list(dict.fromkeys(device for _, device in fields))
    figure = Figure(figsize=(2 + 1.7 * len(devices), 1 + 0.42 * len(lines)), layout="constrained")
    axes = figure.subplots()
    colours = LinearSegmentedColormap.from_list("beside", [_SLOWER, _EVEN, _FASTER])
    for (line, device), field in fields.items():
        _draw(axes, devices.index(device), lines.index(line), field, colours)
    axes.set(xlim=(0, len(devices)), ylim=(len(lines), 0))
    axes.set_xticks([i + 0.5 for i in range(len(devices))], devices)
    axes.set_yticks([i + 0.5 for i in range(len(lines))], [" ".join(x) for x in lines])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    figure.suptitle(_title(results), fontsize=9)
    figure.savefig(path, dpi=110)


def _fields(cells: Sequence[Cell]) -> dict[tuple[tuple[str, str], str], _Field]:
    """By operation and dtype, and device: of the largest problem with a library, or the largest."""
    cells_by_field: dict[tuple[tuple[str, str], str], Cell] = {}
    for cell in cells:
        if _best(cell) is None:
            continue
        key = (cell.operation, cell.dtype), cell.device
        if key not in cells_by_field or _rank(cell) > _rank(cells_by_field[key]):
            cells_by_field[key] = cell
    return {key: _field(cell) for key, cell in cells_by_field.items()}


def _rank(cell: Cell) -> tuple[bool, int]:
    return _ratio(cell) is not None, prod(cell.size)


def _best(cell: Cell) -> float | None:
    return min((x.seconds for x in cell.ours if x.timed), default=None)


def _ratio(cell: Cell) -> float | None:
    """Our speed as a multiple of the fastest library's."""
    timed = [x for x in cell.ours if x.timed]
    if not timed:
        return None
    ours = min(timed, key=lambda x: x.seconds)
    ratios = [time_ratio(peer, ours) for peer in cell.peers]
    return min((x for x in ratios if x is not None), default=None)


def _field(cell: Cell) -> _Field:
    ratio = _ratio(cell)
    if ratio is None:
        return _Field(seconds(_best(cell)), cell.label, None)
    share = 0.5 + log2(ratio) / (2 * _TWICE)
    return _Field(f"{number(ratio)}{_TIMES}", cell.label, min(max(share, 0.0), 1.0))


def _draw(axes: Axes, column: int, line: int, field: _Field, colours: Colormap) -> None:
    from matplotlib.patches import Rectangle

    colour = _BLANK if field.place is None else colours(field.place)
    axes.add_patch(Rectangle((column + 0.02, line + 0.04), 0.96, 0.92, facecolor=colour))
    ink = "white" if field.place is not None and field.place > 0.8 else "#14161a"
    weight = "normal" if field.place is None else "bold"
    x = column + 0.06
    axes.text(x, line + 0.36, field.large, color=ink, fontsize=9, weight=weight, va="center")
    axes.text(x, line + 0.74, field.small, color=ink, fontsize=6.5, va="center")


def _title(results: Results) -> str:
    environment = results.environment
    devices = [x["name"] for x in environment["devices"].values() if x["kind"] != "cpu"]
    machine = environment["machine"]
    where = "; ".join(
        dict.fromkeys([*devices, f"{machine['processor']}, {machine['cores']} cores"])
    )
    return f"Speed beside the fastest library of each device\n{where}; {environment['time'][:10]}"
