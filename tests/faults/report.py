"""``python -m tests.faults.report``: every planted fault, what found it, and the share found.

The words that follow are parts of names of faults; ``--device cpu:native`` tries them on a
processor, whose results and checks (``PORTABLE_CHECK``) find some of what the simulator does.
"""

from __future__ import annotations

import sys

import click

from portable.system.tables import Table, show
from tests.faults.fault import Fault
from tests.faults.table import FAULTS
from tests.faults.trials import Outcome, trials


def main(given: list[str]) -> int:
    """Prints the list; 0 if all were found as the table says."""
    device, chosen = "simulator", given
    if given[:1] == ["--device"]:
        device, chosen = given[1], given[2:]
    faults = [x for x in FAULTS if not chosen or any(part in x.name for part in chosen)]
    rows: list[tuple[Fault, Outcome]] = []
    with trials(device) as worker:
        for fault in faults:
            rows.append((fault, worker.outcome(fault.name)))
            click.echo(".", nl=False)
    click.echo()
    show(_table(rows))
    for fault, outcome in rows:
        if outcome.found_by != fault.found_by:
            click.echo(f"\n{fault.name}\n{outcome.message}")
    found = sum(outcome.found_by not in ("", "other") for _, outcome in rows)
    as_told = sum(outcome.found_by == fault.found_by for fault, outcome in rows)
    seconds = sum(outcome.seconds for _, outcome in rows)
    click.echo(
        f"{found} of {len(rows)} faults found, {as_told} by what the table names, "
        f"in {seconds:.1f} s."
    )
    return 0 if as_told == len(rows) else 1


def _table(rows: list[tuple[Fault, Outcome]]) -> Table:
    table = Table()
    table.add_columns("fault", "in", "found by", "expected", "s")
    for fault, outcome in rows:
        told = outcome.found_by or "nothing"
        where = fault.change.where.removeprefix("portable.")
        table.add_row(fault.name, where, told, fault.found_by, f"{outcome.seconds:.1f}")
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
