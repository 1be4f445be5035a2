"""``python -m tests.support.ordinary --device D``: the cases, and what failed by function."""

from __future__ import annotations

from collections import Counter

import click

import portable
from tests.support.ordinary.run import cases, run


@click.command(help=__doc__)
@click.option("--device", "device_name", default=None, help="Where to run; the default device.")
@click.option("--only", default="", help="Functions whose names hold this.")
@click.option("--whole", is_flag=True, help="Each dtype in each shape, not in some in turn.")
@click.option("--every", default=1, help="One case in so many.")
@click.option("--minutes", default=30.0, help="When to stop.")
def main(device_name: str | None, only: str, whole: bool, every: int, minutes: float) -> None:
    """Runs them; ends with 1 if any failed."""
    device = portable.device(device_name)
    chosen = list(cases(only, whole))[::every]
    with portable.use(device):
        outcome = run(device, chosen, click.echo, 60 * minutes)
    for seconds, case in outcome.slowest[:10]:
        click.echo(f"{seconds:6.2f} s  {case}")
    by_function = Counter(case.function.name for case, _ in outcome.failed)
    for name, count in by_function.most_common():
        click.echo(f"{count:4}  {name}")
    missed = len(chosen) - outcome.passed - outcome.left_out - len(outcome.failed)
    click.echo(
        f"{device.name}: {outcome.passed} as NumPy's, {len(outcome.failed)} failed, "
        f"{outcome.left_out} of what it lacks, {missed} not reached"
    )
    raise SystemExit(bool(outcome.failed))


if __name__ == "__main__":
    main()
