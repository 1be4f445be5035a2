"""The command ``portable bench cliffs``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click
from rich.table import Table

from portable import registry
from portable.system.console import show
from portable.system.files import write_whole
from portable_bench.cliffs import Cliff, geometric_mean, measure, questions, worst_first
from portable_bench.environment import environment

_HALF: Final = 0.5
_SHOWN: Final = 20


@click.command()
@click.argument("functions", nargs=-1, metavar="[FUNCTION]...")
@click.option("--device", "name", default="opencl", show_default=True)
@click.option("--seconds", type=click.FloatRange(min=0), default=0.05, help="For each call.")
@click.option("--limit", type=click.IntRange(1), help="Only so many calls, evenly spread.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path))
def cliffs(
    functions: Sequence[str], name: str, seconds: float, limit: int | None, json_path: Path | None
) -> None:
    """Array functions in lopsided shapes beside NumPy (on GPUs CuPy or dpnp), the worst first.

    One extent tiny, one huge, odd ones, batches, each axis, all dtypes; every result is held
    against NumPy's before it is timed. FUNCTIONs are names such as sum, matmul or "every other";
    all by default, which takes some minutes.
    """
    asked = list(questions(functions))
    if not asked:
        known = sorted({question.name for question in questions()})
        raise click.BadParameter(f"{', '.join(functions)}; there are {', '.join(known)}")
    if limit is not None:
        asked = asked[:: -(-len(asked) // limit)]
    device = registry.device(name)
    rows = measure(device, asked, seconds, _told)
    show(_table(worst_first(rows)[:_SHOWN], f"The worst of {len(rows)} on {device.name}"))
    click.echo(_summary(rows))
    if json_path is not None:
        record = {
            "device": device.capabilities.name,
            "environment": environment([device], {"seconds": seconds}),
            "mean": geometric_mean(rows),
            "rows": [asdict(row) for row in worst_first(rows)],
        }
        write_whole(json_path, json.dumps(record, indent=1).encode())


def _told(row: Cliff) -> None:
    """Says at once what is wrong or slow: what follows may take long."""
    if row.error or (row.ratio is not None and row.ratio < _HALF):
        click.echo(f"{row.question} {row.dtype}: {_ratio(row)} {row.error}", err=True)


def _summary(rows: Sequence[Cliff]) -> str:
    below = sum(row.ratio is not None and row.ratio < _HALF for row in rows)
    failed = sum(bool(row.error) for row in rows)
    mean = geometric_mean(rows)
    return f"geometric mean {mean:.2f}, {below} of {len(rows)} below {_HALF}, {failed} failed"


def _table(rows: Sequence[Cliff], title: str) -> Table:
    table = Table(title=title)
    for heading in ("call", "dtype", "ours", "peer", "peer's time / ours"):
        table.add_column(heading, justify="left" if heading in ("call", "dtype") else "right")
    for row in rows:
        shown = row.error or _ratio(row)
        table.add_row(row.question, row.dtype, _us(row.ours), _us(row.theirs), shown)
    return table


def _ratio(row: Cliff) -> str:
    return "" if row.ratio is None else f"{row.ratio:.2f}"


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:.0f} us"
