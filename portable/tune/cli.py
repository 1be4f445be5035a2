"""The command ``portable tune``; what can be tuned comes from the group ``portable.tunables``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from importlib.metadata import entry_points
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from portable import registry
from portable.backend import Device
from portable.dtypes import DType
from portable.errors import PortableError
from portable.tune.evaluate import evaluator_for
from portable.tune.isolation import Isolated
from portable.tune.search import Search, Trial
from portable.tune.space import Parameters
from portable.tune.table import device_keys, lookup, record
from portable.tune.tunable import Size, Tunable

__all__ = ["tune"]

_GROUP: Final = "portable.tunables"
_SECONDS: Final = click.FloatRange(min=0, min_open=True)


@click.command()
@click.argument("kernel")
@click.option("--device", "device_name", help="A device's name; the one in use, if left out.")
@click.option("--dtype", "dtype_names", help="Such as f16,f32,f64; all, if left out.")
@click.option("--size", "size_names", help="From large to small, separated by commas.")
@click.option(
    "--budget", default=60.0, show_default=True, type=_SECONDS, help="Seconds per type and size."
)
@click.option(
    "--patience", default=60.0, show_default=True, type=_SECONDS, help="Seconds for one choice."
)
@click.option("--write", is_flag=True, help="Keep what was found in your own table.")
def tune(
    kernel: str,
    device_name: str | None,
    dtype_names: str | None,
    size_names: str | None,
    budget: float,
    patience: float,
    write: bool,
) -> None:
    """Search the fastest parameters of KERNEL (such as gemm) on a device.

    Prints what was found as an entry of the table of tuned parameters. Choices are tried in a
    process of their own, so that one which kills its compiler or does not end is passed over.
    """
    tunable = _known(kernel)
    device = _device(device_name)
    sizes = _sizes(tunable, size_names) or list(tunable.sizes(device.capabilities))
    key = device_keys(device.capabilities)[0]
    found: dict[str, dict[str, list[Parameters]]] = {}
    for dtype in _dtypes(tunable, device, dtype_names):
        best = partial(_best, tunable, device, dtype, budget=budget, patience=patience)
        choices = _unique([best(size) for size in sizes])
        if choices:
            found[dtype.name] = {key: choices}
        if choices and write:
            path = record(kernel, dtype, key, choices)
            click.echo(f"kept in {path}", err=True)
    if not found:
        raise click.ClickException("no choice worked")
    click.echo(json.dumps(found, indent=1))


def _best(
    tunable: Tunable, device: Device, dtype: DType, size: Size, budget: float, patience: float
) -> Parameters | None:
    """The fastest choice for one problem, progress shown; an interrupt keeps what was found."""
    make = partial(evaluator_for, tunable.problem, device.name, dtype.name, size)
    with Isolated(make, patience=patience) as evaluate:
        search = Search(
            list(tunable.space.choices(dtype, device.capabilities)),
            tunable.space.values,
            evaluate,
            budget=budget,
            first=lookup(tunable.space.kernel, dtype, device.capabilities),
        )
        return _searched(search, tunable, dtype, size, budget)


def _searched(
    search: Search, tunable: Tunable, dtype: DType, size: Size, budget: float
) -> Parameters | None:
    console = Console(stderr=True)
    label = f"{tunable.space.kernel} {dtype.short} {'x'.join(map(str, size))}"
    with _progress(console) as progress:
        task = progress.add_task(label, total=budget, best="")
        try:
            for _ in search.run():
                progress.update(
                    task,
                    completed=min(progress.tasks[0].elapsed or 0.0, budget),
                    best=_rate(tunable, size, search.best),
                )
        except KeyboardInterrupt:
            console.print("interrupted: going on with what was found")
    _summary(console, label, tunable, size, search)
    return search.best.choice if search.best else None


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[best]}"),
        console=console,
        transient=True,
    )


def _rate(tunable: Tunable, size: Size, best: Trial | None) -> str:
    return f"best {1e-9 * tunable.flops(size) / best.seconds:,.0f} GFLOP/s" if best else ""


def _summary(console: Console, label: str, tunable: Tunable, size: Size, search: Search) -> None:
    failed = [t.failure for t in search.trials.values() if t.failure]
    text = f"{label}: {len(search.trials)} tried, {len(failed)} failed"
    console.print(f"{text}; {_rate(tunable, size, search.best)}", highlight=False)
    for reason in sorted(set(failed), key=failed.count, reverse=True)[:3]:
        console.print(f"  {failed.count(reason)} x {reason[:160]}", highlight=False, markup=False)


def _unique(choices: Sequence[Parameters | None]) -> list[Parameters]:
    """Without repetitions, in order."""
    kept: list[Parameters] = []
    for choice in choices:
        if choice is not None and choice not in kept:
            kept.append(choice)
    return kept


# -- options ------------------------------------------------------------------------------------


def _known(kernel: str) -> Tunable:
    entries = {entry.name: entry for entry in entry_points(group=_GROUP)}
    if kernel not in entries:
        raise click.UsageError(f"unknown kernel {kernel!r}; there are {', '.join(sorted(entries))}")
    tunable: Any = entries[kernel].load()
    assert isinstance(tunable, Tunable)
    return tunable


def _device(name: str | None) -> Device:
    try:
        return registry.device(name)
    except PortableError as error:
        raise click.UsageError(str(error)) from None


def _dtypes(tunable: Tunable, device: Device, names: str | None) -> list[DType]:
    can = [d for d in tunable.dtypes if d.itemsize < 8 or device.capabilities.float64]
    if names is None:
        return can
    spellings = {spelling: d for d in can for spelling in (d.short, d.name)}
    wanted = [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in spellings:
            known = ", ".join(d.short for d in can)
            raise click.UsageError(f"--dtype {name}: {device.name} tunes {known}")
    return [spellings[name] for name in wanted]


def _sizes(tunable: Tunable, names: str | None) -> list[Size]:
    if names is None:
        return []
    try:
        return [tunable.parse_size(name.strip()) for name in names.split(",")]
    except ValueError as error:
        raise click.UsageError(f"--size {names}: {error}") from None
