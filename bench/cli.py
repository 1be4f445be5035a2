"""The command ``portable bench``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from portable_bench.environment import environment
from portable_bench.harness import Harness, Pace
from portable_bench.matrix import measure_all
from portable_bench.operation import Effort, Operation
from portable_bench.plan import devices_named, dtypes_named, operations_named, plan
from portable_bench.report import tables
from portable_bench.results import Cell, write

__all__ = ["bench"]

_PLAIN_WIDTH: Final = 200
_QUICK: Final = 100.0


@click.command()
@click.argument("operations", nargs=-1, metavar="[OPERATION]...")
@click.option("--device", "device_names", default="all", help="Names, separated by commas.")
@click.option("--dtype", "dtype_names", help="Such as f16,f32,f64.")
@click.option("--size", "size_names", help="Separated by commas; 256..4096 doubles; gemm: MxNxK.")
@click.option("--quick", "effort", flag_value="quick", default=True, help="A look at everything.")
@click.option("--full", "effort", flag_value="full", help="More sizes, more samples.")
@click.option("--sweep", "effort", flag_value="sweep", help="Many sizes, exponents fitted.")
@click.option("--ladder", is_flag=True, help="Every algorithm from the plainest to the fastest.")
@click.option("--seconds", help="Time for the samples of a cell.", type=click.FloatRange(min=0))
@click.option("--budget", help="Time for the whole run.", type=click.FloatRange(min=0))
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path))
def bench(
    operations: Sequence[str],
    device_names: str,
    dtype_names: str | None,
    size_names: str | None,
    effort: Effort,
    ladder: bool,
    seconds: float | None,
    budget: float | None,
    json_path: Path | None,
) -> None:
    """Measure operations on the devices found here, beside the libraries of their vendors.

    Every result is verified before it is timed. Without an OPERATION all are measured, in less
    than two minutes unless --full or --sweep is given.
    """
    options = _plain(click.get_current_context().params)
    try:
        chosen = operations_named(operations)
        if ladder:
            chosen = _with_ladder(chosen)
        devices = devices_named(device_names)
        planned = plan(chosen, devices, dtypes_named(dtype_names), size_names, effort)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if json_path is not None:
        _check_writable(json_path)
    quick = effort == "quick" and not (ladder or size_names)
    if budget is None and quick:
        budget = _QUICK
    harness = Harness(Pace(cell=seconds if seconds is not None else 1.0 if quick else 2.0))
    cells = measure_all(planned, harness, ladder=ladder, budget=budget)
    _show(cells, ladder)
    if json_path is not None:
        write(json_path, cells, environment(devices, options))


def _with_ladder(operations: Sequence[Operation]) -> list[Operation]:
    found = [op for op in operations if type(op).ladder is not Operation.ladder]
    if not found:
        raise ValueError("--ladder: only gemm has several algorithms")
    return found


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    return {k: str(v) if isinstance(v, Path) else v for k, v in options.items()}


def _show(cells: Sequence[Cell], ladder: bool) -> None:
    console = Console()
    plain = not console.is_terminal
    if plain:
        console = Console(width=_PLAIN_WIDTH, color_system=None)
    for table in tables(cells, ladder=ladder):
        if plain:
            table.box = None
            table.pad_edge = False
        console.print(table)
        console.print()


def _check_writable(path: Path) -> None:
    """Found out before the run rather than after it."""
    folder = path.absolute().parent
    if not (os.access(path, os.W_OK) if path.exists() else os.access(folder, os.W_OK)):
        raise click.UsageError(f"--json {path}: cannot be written")
