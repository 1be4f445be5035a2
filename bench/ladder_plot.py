"""The ladder of algorithms as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from portable_bench.figures import number
from portable_bench.results import Cell
from portable_bench.roof import roofs


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
