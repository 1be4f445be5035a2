"""The command ``portable bench scale``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, replace
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from portable.dtypes import dtype
from portable.parallel import Group, group
from portable.system.console import show
from portable_bench.gf2_scaling import scale_elimination, write_rows
from portable_bench.group_scaling import LAYERS, Network, Row, measure, measure_training


@click.command()
@click.option("--group", "names", help="Devices, separated by commas; else the processes of MPI.")
@click.option("--dtype", "kind", default="f32", show_default=True)
@click.option("--layers", "count", type=click.IntRange(1, len(LAYERS)), help="Only the first.")
@click.option("--images", type=click.IntRange(1), help="Of each layer, instead of 64 or 128.")
@click.option("--algorithm", default="auto", show_default=True)
@click.option(
    "--gf2", "shape", help="COLUMNSxELIMINATORSxROWS: the special elimination, not convolutions."
)
@click.option(
    "--training", "steps", help="BATCHxWIDTHS, as 8192x1024-4096-1024: a network's training."
)
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--plot", "plot_path", type=click.Path(dir_okay=False, path_type=Path))
def scale(
    names: str | None,
    kind: str,
    count: int | None,
    images: int | None,
    algorithm: str,
    shape: str | None,
    steps: str | None,
    json_path: Path | None,
    plot_path: Path | None,
) -> None:
    """How convolutions scale over a group: 1, 2, 4, ... members, up to all of them.

    Strong scaling shares the images out, weak scaling gives each member as many as one alone has.
    As threads: portable bench scale --group cuda:0,cuda:1. As processes: mpiexec -n 4 portable
    bench scale. With --gf2 it is the special elimination that scales, whose columns are shared out;
    with --training a network's steps, whose samples are.
    """
    groups, first = _groups_of(names.split(",")) if names else _groups_of_processes()
    if shape is not None:
        scale_elimination(groups, first, shape, json_path)
        return
    result: dict[str, Any] = {"dtype": kind}
    if steps is not None:
        network = _network(steps)
        result |= {"job": "training", **asdict(network)}
        rows = _told(measure_training(groups, network, dtype(kind)), aloud=first)
    else:
        layers = [replace(layer, n=images or layer.n) for layer in LAYERS[:count]]
        result |= {"algorithm": algorithm, "layers": [list(astuple(x)) for x in layers]}
        rows = _told(measure(groups, layers, dtype(kind), algorithm), aloud=first)
    if not first:
        return
    job = "Convolutions" if steps is None else "Steps of training"
    show(_table(rows, f"{job} over a group, {kind}"))
    if json_path is not None:
        write_rows(json_path, result, groups, rows)
    if plot_path is not None:
        _plot(rows, plot_path)


def _told(rows: Iterable[Row], *, aloud: bool) -> list[Row]:
    """All rows, each said as it comes: what follows may take long."""
    parts = []
    for row in rows:
        parts.append(row)
        if aloud:
            click.echo(
                f"{row.members} {row.scaling}: {_ms(row.own)} apart, {_ms(row.gathered)} together"
            )
    return parts


def _network(text: str) -> Network:
    try:
        batch, widths = text.split("x")
        return Network(tuple(int(n) for n in widths.split("-")), int(batch))
    except ValueError:
        raise click.BadParameter(f"{text!r}: expected one like 8192x1024-4096-1024") from None


def _sizes(most: int) -> list[int]:
    return [*(2**i for i in range(most.bit_length()) if 2**i < most), most]


def _groups_of(names: Sequence[str]) -> tuple[list[Group], bool]:
    return [group(names[:n]) for n in _sizes(len(names))], True


def _groups_of_processes() -> tuple[list[Group], bool]:
    """Those that this process is in, of the first processes of the world."""
    try:
        from mpi4py import MPI
    except ImportError:
        raise click.UsageError(
            "name devices by --group, or pip install 'portable-arrays[mpi]' and start by mpiexec"
        ) from None
    world = MPI.COMM_WORLD
    groups = []
    whole = group(world)
    for n in _sizes(world.Get_size()):
        part = world.Split(0 if world.Get_rank() < n else 1, world.Get_rank())
        if world.Get_rank() < n:
            groups.append(group(part, device=whole.devices[0]))
    return groups, world.Get_rank() == 0


def _table(rows: Sequence[Row], title: str) -> Table:
    table = Table(title=title)
    headings = ("members", "scaling", "apart", "times one", "together", "times one", "collectives")
    for heading in (*headings, "predicted"):
        table.add_column(heading, justify="left" if heading == "scaling" else "right")
    for row in rows:
        table.add_row(
            str(row.members),
            row.scaling,
            _ms(row.own),
            f"{_speed(rows[0], row, row.own):.2f}",
            _ms(row.gathered),
            f"{_speed(rows[0], row, row.gathered):.2f}",
            _ms(row.collectives),
            _ms(row.predicted),
        )
    return table


def _speed(one: Row, row: Row, seconds: float) -> float:
    """Images in the time of one member's, without a gather."""
    more = row.members if row.scaling == "weak" else 1
    return more * one.own / seconds


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f} ms"


def _plot(rows: Sequence[Row], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes: Any = figure.subplots()
    most = max(row.members for row in rows)
    axes.plot([1, most], [1, most], color="0.7", linestyle="--", label="as many times as members")
    for scaling, colour in (("strong", "#2f6fb5"), ("weak", "#c0392b")):
        shown = [rows[0], *(row for row in rows[1:] if row.scaling == scaling)]
        members = [row.members for row in shown]
        speeds = [_speed(rows[0], row, row.own) for row in shown]
        gathered = [_speed(rows[0], row, row.gathered) for row in shown]
        axes.plot(members, speeds, "o-", color=colour, label=f"{scaling}, results apart")
        axes.plot(members, gathered, "s:", color=colour, label=f"{scaling}, together")
    axes.set(xlabel="members", ylabel="times one member")
    axes.legend(fontsize=8)
    figure.savefig(path)
