"""The command ``portable tune``; what can be tuned comes from the group ``portable.tunables``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.metadata import entry_points
from time import monotonic
from typing import Any, Final, Self

import click

from portable import registry
from portable.backend import Device
from portable.dtypes import DType
from portable.errors import PortableError
from portable.system.console import Progress
from portable.tune.evaluate import TUNABLES, Isolated, evaluator_of
from portable.tune.search import Search, Trial
from portable.tune.space import Parameters
from portable.tune.table import device_keys, lookup, record
from portable.tune.tunable import Size, Tunable

_INTERRUPTED: Final = 130
"""What a shell sees of a command that Ctrl-C ended."""
_SECONDS: Final = click.FloatRange(min=0, min_open=True)


class _Tune(click.Command):
    """A command whose help lists what can be tuned."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = sorted(entry.name for entry in entry_points(group=TUNABLES))
        formatter.write_paragraph()
        formatter.write_text(f"Kernels: {', '.join(names)}.")


@click.command(cls=_Tune)
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
    Ctrl-C ends the search; what was found until then is printed, and kept with --write.
    """
    tunable = _known(kernel)
    device = _device(device_name)
    sizes = _sizes(tunable, size_names) or list(tunable.sizes(device.capabilities))
    dtypes = _dtypes(tunable, device, dtype_names)
    key = device_keys(device.capabilities)[0]
    results: dict[str, dict[str, list[Parameters]]] = {}
    count = len(dtypes) * len(sizes)
    with _Searches(kernel, tunable, device, budget, patience, count) as searches:
        for dtype in dtypes:
            choices = _unique(searches.choices(dtype, sizes))
            if choices:
                results[dtype.name] = {key: choices}
            if choices and write:
                searches.say(f"kept in {record(kernel, dtype, key, choices)}")
    if results:
        click.echo(json.dumps(results, indent=1))
    if searches.interrupted:
        click.get_current_context().exit(_INTERRUPTED)
    if not results:
        raise click.ClickException("no choice worked")


class _Searches:
    """One search after the other, progress shown; an interrupt ends them and keeps what was found.

    A context manager, which shows the progress.
    """

    def __init__(
        self,
        kernel: str,
        tunable: Tunable,
        device: Device,
        budget: float,
        patience: float,
        count: int,
    ) -> None:
        self.interrupted = False
        self._kernel = kernel
        self._tunable = tunable
        self._device = device
        self._budget = budget
        self._patience = patience
        self._count = count
        self._progress = Progress()
        self._done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.__exit__()

    def say(self, text: str) -> None:
        """A line above the progress."""
        self._progress.say(text)

    def choices(self, dtype: DType, sizes: Sequence[Size]) -> list[Parameters]:
        """The fastest choice for each size for which one worked."""
        choices: list[Parameters] = []
        for size in sizes:
            if self.interrupted:
                break
            try:
                best = self._best(dtype, size)
            except KeyboardInterrupt:  # before the search began
                self._interrupt()
                break
            if best is not None:
                choices.append(best)
        return choices

    def _interrupt(self) -> None:
        self.interrupted = True
        self.say("interrupted: going on with what was found")

    def _best(self, dtype: DType, size: Size) -> Parameters | None:
        tunable, device = self._tunable, self._device
        make = partial(evaluator_of, self._kernel, device.name, dtype.name, size)
        with Isolated(make, patience=self._patience) as evaluate:
            search = Search(
                list(tunable.space.choices(dtype, device.capabilities)),
                tunable.space.values,
                evaluate,
                budget=self._budget,
                first=_in_use(tunable, device, dtype),
            )
            return self._searched(search, dtype, size)

    def _searched(self, search: Search, dtype: DType, size: Size) -> Parameters | None:
        label = f"{self._tunable.space.kernel} {dtype.short} {'x'.join(map(str, size))}"
        began, whole = monotonic(), self._count * self._budget
        try:
            for _ in search.run():
                spent = min(monotonic() - began, self._budget)
                best = _rate(self._tunable, size, search.best)
                share = (self._done * self._budget + spent) / whole if whole else None
                self._progress.update(f"{label} {best}", share)
        except KeyboardInterrupt:
            self._interrupt()
        self._done += 1
        for line in _summary(label, self._tunable, size, search):
            self.say(line)
        return self._tunable.entry(size, search.best.choice) if search.best else None


def _in_use(tunable: Tunable, device: Device, dtype: DType) -> list[Parameters]:
    """The table's choices, without what is no matter of the search."""
    listed = lookup(tunable.space, dtype, device.capabilities)
    return [{name: choice[name] for name in tunable.space.values} for choice in listed]


def _rate(tunable: Tunable, size: Size, best: Trial | None) -> str:
    return f"best {1e-9 * tunable.flops(size) / best.seconds:,.0f} GFLOP/s" if best else ""


def _summary(label: str, tunable: Tunable, size: Size, search: Search) -> Iterator[str]:
    """How a search went, and what most failures were."""
    failed = [t.failure for t in search.trials.values() if t.failure]
    text = f"{label}: {len(search.trials)} tried, {len(failed)} failed"
    yield f"{text}; {_rate(tunable, size, search.best)}"
    for reason in sorted(set(failed), key=failed.count, reverse=True)[:3]:
        yield f"  {failed.count(reason)} x {reason[:160]}"


def _unique(choices: Sequence[Parameters]) -> list[Parameters]:
    """Without repetitions, in order."""
    kept: list[Parameters] = []
    for choice in choices:
        if choice not in kept:
            kept.append(choice)
    return kept


# -- options ------------------------------------------------------------------------------------


def _known(kernel: str) -> Tunable:
    entries = {entry.name: entry for entry in entry_points(group=TUNABLES)}
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
