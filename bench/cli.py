"""The command ``portable bench``, and those under it: ``cliffs``, ``compare``, ``join`` ..."""

from __future__ import annotations

import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from errno import EPIPE
from pathlib import Path
from tempfile import TemporaryFile
from types import FrameType
from typing import Any, Final, NoReturn, Self

import click
from rich.table import Table

from portable.errors import DataError, PortableError
from portable.system.console import show
from portable.system.files import write_whole
from portable_bench.cliffs_cli import cliffs
from portable_bench.environment import differences
from portable_bench.growth import fits, models
from portable_bench.harness import Pace
from portable_bench.operation import Effort, Operation
from portable_bench.operations import OPERATIONS
from portable_bench.page import page
from portable_bench.plan import (
    PRECISIONS,
    devices_apart,
    devices_named,
    dtypes_named,
    operations_named,
    plan,
)
from portable_bench.plots import plot_heat, plot_ladders
from portable_bench.results import Cell, Results, changes, joined, load, regressions, write
from portable_bench.roof import roofs, with_roofs
from portable_bench.run import Job, measured
from portable_bench.scale_cli import scale
from portable_bench.tables import (
    change_table,
    fit_table,
    ladder_table,
    model_table,
    peer_tables,
    remarks,
    tables,
)

# Ctrl-C, and signals to end: a run keeps what it has, and says by its status what ended it.

_SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


class Endings:
    """A block in which signals to end raise KeyboardInterrupt.

    Attributes
    ----------
    status : int
        What the process is to exit with: 128 and the signal's number, as shells have it; 0 if
        there was none.
    """

    def __init__(self) -> None:
        self.status = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                # One that is ignored, as by nohup, stays so.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._end)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _end(self, number: int, frame: FrameType | None) -> NoReturn:
        self.status = 128 + number
        raise KeyboardInterrupt


# -- the command -----------------------------------------------------------------------------------

_QUICK: Final = 57.0
_PATH: Final = click.Path(dir_okay=False, path_type=Path)
_GIVEN: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_CHOICES: Final = (
    f"Operations: {', '.join(sorted(OPERATIONS))}. Of these copy, fma and lookup show what the "
    "device can do, mlp and train are a network's outputs and its training. Precisions: "
    f"{', '.join(sorted(PRECISIONS))}."
)
_LEFT_OUT: Final = 3
"""The status of a strict run that left cells out."""
_PICTURES: Final = (".png", ".svg", ".pdf")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What ``portable bench`` was told, by the names of its options."""

    operations: Sequence[str]
    device_names: str | None
    dtype_names: str | None
    size_names: str | None
    effort: Effort
    ladder: bool
    roof: bool
    seconds: float | None
    budget: float | None
    patience: float | None
    json_path: Path | None
    html_path: Path | None
    plot_path: Path | None
    baseline_path: Path | None
    strict: bool

    @property
    def is_look(self) -> bool:
        """Whether it is a look at everything, in which a cell gets little time."""
        return self.effort == "quick" and not (self.ladder or self.size_names)


class _Bench(click.Group):
    """A group that measures where no other of its commands is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in self.commands:
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Bench)
def bench() -> None:
    """Measure operations on the devices found here, beside the libraries of their vendors."""


bench.add_command(scale)
bench.add_command(cliffs)


@bench.command(epilog=_CHOICES)
@click.argument("operations", nargs=-1, metavar="[OPERATION]...")
@click.option("--device", "device_names", help="Names, separated by commas, or all.")
@click.option("--dtype", "dtype_names", help="Such as f16,f32,f64.")
@click.option("--size", "size_names", help="Such as 512,1024; 256..4096 doubles; 1024..8192x32.")
@click.option("--quick", "effort", flag_value="quick", default=True, help="A look at everything.")
@click.option("--full", "effort", flag_value="full", help="More sizes, more samples.")
@click.option("--sweep", "effort", flag_value="sweep", help="Many sizes, to see how times grow.")
@click.option("--ladder", is_flag=True, help="Every algorithm from the plainest to the fastest.")
@click.option("--roof/--no-roof", "roof", default=True, help="Measure what devices can do, too.")
@click.option("--seconds", type=click.FloatRange(min=0), help="Time for the samples of a cell.")
@click.option("--budget", type=click.FloatRange(min=0), help="Time for the whole run, in seconds.")
@click.option(
    "--patience",
    type=click.FloatRange(min=0),
    help="Seconds after which a cell is given up: 600, but 60 in a look at everything.",
)
@click.option("--json", "json_path", type=_PATH, help="Write all samples to this file.")
@click.option("--html", "html_path", type=_PATH, help="Write a report to this file.")
@click.option("--plot", "plot_path", type=_PATH, help="Draw the ladder: .png, .svg or .pdf.")
@click.option("--baseline", "baseline_path", type=_GIVEN, help="Results to compare with.")
@click.option("--strict", is_flag=True, help="End with status 3 if cells were left out.")
def run(**options: Any) -> None:
    """Measure operations on the devices found here, beside the libraries of their vendors.

    Every result is verified before it is timed. Without further options it is a look, of a
    minute: without an OPERATION at those that compile soon, and without a --device at the first
    of several backends that reach the same hardware by the same driver. --full and --sweep
    measure all.

    Further commands, each with a --help: portable bench compare (two files of results), report (a
    page of one), join (a run that was cut short, and its rest), cliffs (array functions in
    lopsided shapes), scale (over several devices).
    """
    asked = _Asked(**options)
    try:
        job, chosen = _job_of(asked, _plain(options))
        baseline = load(asked.baseline_path) if asked.baseline_path else None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    _check_plot(asked.plot_path, asked.ladder)
    for path in (asked.json_path, asked.html_path, asked.plot_path):
        _check_writable(path)
    with Endings() as endings:
        try:
            results, finish = measured(job, asked.json_path, _tell)
            cells = results.cells
            names = {operation.name for operation in chosen} if asked.ladder else set()
            ladders = [c for c in cells if c.operation in names]
            outputs: list[_Output] = [
                (asked.json_path, finish),
                (asked.html_path, lambda: _write_page(asked.html_path, results)),
                (asked.plot_path, lambda: _plot(asked.plot_path, cells, ladders)),
            ]
            made = _tables(cells, ladders)
            if baseline:
                made.append(change_table(changes(baseline.cells, cells)))
            _put_out(outputs, made, results)
        except KeyboardInterrupt:
            _tell("interrupted")
        except PortableError as error:  # no process to measure in
            raise click.ClickException(str(error)) from None
    if not endings.status and _tell_left_out(results.cells) and asked.strict:
        click.get_current_context().exit(_LEFT_OUT)
    if endings.status:
        click.get_current_context().exit(endings.status)


@bench.command()
@click.argument("before", type=_GIVEN)
@click.argument("after", type=_GIVEN)
@click.option("--fail-below", type=float, help="Fail if a speed is below this part of the former.")
def compare(before: Path, after: Path, fail_below: float | None) -> None:
    """Show what became faster or slower beyond the noise from one file of results to another."""
    old, new = _loaded(before), _loaded(after)
    for what, first, second in differences(old.environment, new.environment):
        if what != "the commit":  # which two runs are compared for
            click.echo(f"{what} differs: {first} before, {second} after", err=True)
    result = changes(old.cells, new.cells)
    _show([change_table(result)])
    if not any(change.ratio for change in result):
        click.echo("No cell was timed in both runs: there is nothing to compare.", err=True)
    worse = regressions(result, fail_below) if fail_below is not None else []
    if worse:
        raise click.ClickException(f"{len(worse)} below {fail_below:g} of the former speed")


@bench.command()
@click.argument("first", type=_GIVEN)
@click.argument("more", type=_GIVEN, nargs=-1, required=True)
@click.option("--json", "out", type=_PATH, required=True, help="Write the whole run to this file.")
def join(first: Path, more: Sequence[Path], out: Path) -> None:
    """Complete a run that was cut short by later ones of the same machine and commit.

    Cells of MORE replace those of FIRST without timings of ours, and are added where it has none.
    """
    _check_writable(out)
    try:
        whole = joined(_loaded(first), [(path.name, _loaded(path)) for path in more])
    except DataError as error:
        raise click.ClickException(str(error)) from None
    write(out, whole)


@bench.command()
@click.argument("results", type=_GIVEN)
@click.argument("out", type=_PATH)
def report(results: Path, out: Path) -> None:
    """Write the report of a file of results: a page, or its heat map as .png, .svg or .pdf."""
    _check_writable(out)
    results_read = _loaded(results)
    if out.suffix in _PICTURES:
        plot_heat(results_read, out)
    else:
        _write_page(out, results_read)


# -- the options --------------------------------------------------------------------------------


def _job_of(asked: _Asked, told: dict[str, Any]) -> tuple[Job, Sequence[Operation]]:
    """What is to be measured, and the operations that were named."""
    chosen = operations_named(asked.operations, asked.effort)
    if asked.ladder:
        chosen = _with_ladder(chosen)
    found, dtypes = devices_named(asked.device_names or "all"), dtypes_named(asked.dtype_names)
    devices = devices_apart(found) if asked.is_look and not asked.device_names else found
    if others := ", ".join(device.name for device in found if device not in devices):
        _tell(f"left out: {others}, by whose driver others are measured; see --device all")
    planned = plan(chosen, devices, dtypes, asked.size_names, asked.effort)
    limit = _QUICK if asked.budget is None and asked.is_look else asked.budget
    seconds, patience = (0.1, 60.0) if asked.is_look else (0.7, 600.0)
    job = Job(
        planned=with_roofs(planned) if asked.roof else planned,
        devices=devices,
        options=told,
        pace=Pace(cell=seconds if asked.seconds is None else asked.seconds),
        patience=patience if asked.patience is None else asked.patience,
        ladder=asked.ladder,
        ahead=not asked.operations or limit is not None,
        budget=limit,
    )
    return job, chosen


def _with_ladder(operations: Sequence[Operation]) -> list[Operation]:
    shown = [op for op in operations if type(op).ladder is not Operation.ladder]
    if not shown:
        raise ValueError("--ladder: only gemm has several algorithms")
    return shown


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """What was measured and how; where it is written says nothing to who reads it."""
    return {k: v for k, v in options.items() if not k.endswith("_path")}


def _check_plot(path: Path | None, ladder: bool) -> None:
    if path is None:
        return
    if not ladder:
        raise click.UsageError("--plot draws the ladder; add --ladder")
    if path.suffix not in _PICTURES:
        raise click.UsageError(f"--plot {path}: expected .png, .svg or .pdf")


def _check_writable(path: Path | None) -> None:
    """Found out before the run rather than after it."""
    if path is None or (path.exists() and not path.is_file()):
        return
    try:
        with TemporaryFile(dir=path.absolute().parent):
            pass
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {error.strerror}") from None


def _loaded(path: Path) -> Results:
    try:
        return load(path)
    except DataError as error:
        raise click.ClickException(str(error)) from None


# -- what is written and printed ----------------------------------------------------------------

_Output = tuple[Path | None, Callable[[], None]]
"""A file and what writes it."""


def _put_out(outputs: Sequence[_Output], made: Sequence[Table], results: Results) -> None:
    """Files first, then tables: whoever reads those may have gone. What fails stops no other."""
    failures = []
    for path, put in outputs:
        try:
            if path is not None:
                put()
        except OSError as error:
            failures.append(f"{path} cannot be written: {error.strerror}")
    try:
        _show([*made, *peer_tables(results.environment)])
        for line in remarks(results.environment):
            click.echo(line)
        sys.stdout.flush()
    except OSError as error:
        if error.errno == EPIPE:
            raise  # click ends quietly
        failures.append(f"the tables cannot be printed: {error.strerror}")
    if failures:
        raise click.ClickException("; ".join(failures))


def _write_page(path: Path | None, results: Results) -> None:
    assert path
    write_whole(path, page(results).encode())


def _plot(path: Path | None, cells: Sequence[Cell], ladders: Sequence[Cell]) -> None:
    assert path
    plot_ladders(cells, ladders, path)


def _tables(cells: Sequence[Cell], ladders: Sequence[Cell]) -> list[Table]:
    limits = roofs(cells)
    apart = [cell for cell in cells if cell not in ladders]
    made = [*tables(apart), *(ladder_table(cell, limits) for cell in ladders)]
    fitted, modelled = fits(apart), models(apart)
    if fitted:
        made.append(fit_table(fitted))
    if modelled:
        made.append(model_table(modelled))
    return made


def _show(made: Sequence[Table]) -> None:
    for table in made:
        show(table)
        click.echo()


def _tell_left_out(cells: Sequence[Cell]) -> bool:
    """Says last how many cells have no time of ours, and why most of them."""
    out = [cell for cell in cells if not any(outcome.timed for outcome in cell.ours)]
    if not out:
        return False
    reasons = Counter(
        cell.failure or next((o.failure for o in cell.ours), "no result") for cell in out
    )
    reason, count = reasons.most_common(1)[0]
    most = "" if count == len(out) else f" ({count} of them)"
    _tell(f"{len(out)} of {len(cells)} cells were left out: {reason}{most}")
    return True


def _tell(line: str) -> None:
    click.echo(line, err=True)
