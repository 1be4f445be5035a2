"""What ``portable bench scale --gf2`` shows and writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path

import click
from rich.table import Table

from portable.parallel import Group
from portable.system.console import show
from portable.system.files import write_whole
from portable_bench.environment import environment
from portable_bench.gf2_scaling import Row, as_json, measure
from portable_bench.sizes import parse_sizes

__all__ = ["scale_elimination"]


def scale_elimination(
    groups: Sequence[Group], first: bool, text: str, json_path: Path | None
) -> None:
    """Measures groups, and shows and writes it where this process is the first.

    Parameters
    ----------
    groups : sequence of Group
    first : bool
        Whether this process is the first.
    text : str
        The sizes, COLUMNSxELIMINATORSxROWS.
    json_path : path or None
        Where to write the results.

    Raises
    ------
    click.UsageError
        For sizes that are none.
    """
    try:
        ((columns, eliminators, rows),) = parse_sizes(text)
    except ValueError as error:
        raise click.UsageError(
            f"--gf2 {text}: expected COLUMNSxELIMINATORSxROWS ({error})"
        ) from None
    found = list(measure(groups, (columns, eliminators, rows)))
    if not first:
        return
    show(_table(found, text))
    if json_path is not None:
        device = groups[0].devices[0]
        record = {
            "gf2": [columns, eliminators, rows],
            "device": device.capabilities.name,
            "environment": environment(groups[0].devices, {}),
            "rows": as_json(found),
        }
        write_whole(json_path, json.dumps(record, indent=1).encode())


def _table(rows: Sequence[Row], text: str) -> Table:
    table = Table(title=f"The special elimination over a group, {text}")
    for heading in (
        "members", "whole", "times one", "stripes", "times one", "predicted",
        "choosing", "solving", "beginning", "applying", "telling",
    ):  # fmt: skip
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            str(row.members),
            _ms(row.whole),
            f"{rows[0].whole / row.whole:.2f}",
            _ms(row.stripes),
            f"{rows[0].stripes / row.stripes:.2f}",
            _ms(row.predicted),
            *map(_us, astuple(row.costs)),
        )
    table.caption = "from choosing on: of one stripe, whose pivots are applied to one other"
    return table


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f} ms"


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:.0f} us"
