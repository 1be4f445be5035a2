"""The command ``portable tune``; what can be tuned comes from the group ``portable.tunables``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.metadata import entry_points
from time import monotonic
from typing import Any, Final, Self

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from portable import registry
from portable.backend import Device
from portable.dtypes import DType, dtype
from portable.errors import DeviceFaultError, PortableError
from portable.system import isolation
from portable.tune.search import Search, Trial
from portable.tune.space import Parameters
from portable.tune.stopwatch import Stopwatch
from portable.tune.table import device_keys, lookup, record
from portable.tune.tunable import Problem, Size, Tunable

# Verifies and times one choice on a device.
#
# `Isolated` does so in a process of its own, so that a choice which kills or blocks it ends no
# search.


TUNABLES: Final = "portable.tunables"
"""The group of entry points by which kernels that can be tuned are found."""

_SAMPLES: Final = 5
_SHORTEST: Final = 0.005
_MOST_REPEATS: Final = 100
_HOPELESS: Final = 1.5


class Evaluator:
    """Tries choices on one problem; each is verified before it is timed.

    Parameters
    ----------
    problem : Problem
        What to run.
    device : Device
        Where.
    clock : callable
        The host's clock.
    """

    def __init__(
        self, problem: Problem, device: Device, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._problem = problem
        self._stopwatch = Stopwatch(device, clock)

    def __call__(self, choice: Parameters, best: float) -> Trial:
        """The choice's time, or why it failed.

        Raises
        ------
        DeviceFaultError
            After which the device may do no more work for this process.
        """
        try:
            self._problem.run(choice)
            error = self._problem.error()
            if not error <= 1:
                return Trial(choice, failure=f"wrong by {error:.3g} times the error allowed")
            return Trial(choice, self._seconds(choice, best))
        except DeviceFaultError:
            raise
        except Exception as error:  # noqa: BLE001  (drivers raise whatever they like)
            return Trial(choice, failure=str(error).partition("\n")[0] or type(error).__name__)

    def _seconds(self, choice: Parameters, best: float) -> float:
        """The least of several samples; one is enough for a choice far behind the best."""

        def work() -> None:
            self._problem.run(choice)

        once = self._stopwatch.run(work).seconds
        if once > _HOPELESS * best:
            return once
        repeats = min(max(int(_SHORTEST / max(once, 1e-9)), 1), _MOST_REPEATS)
        return min(self._stopwatch.run(work, repeats).seconds for _ in range(_SAMPLES))


def evaluator_for(
    problem: Callable[[Device, DType, Size], Problem], device: str, kind: str, size: Size
) -> Evaluator:
    """The evaluator for a problem by names, on what becomes the device in use of this process.

    Parameters
    ----------
    problem : callable
        `Tunable.problem`.
    device, kind : str
        The names of the device and of the dtype.
    size : tuple of int
        The problem's.
    """
    chosen = registry.use(device).device  # NumPy arrays run on the device in use
    return Evaluator(problem(chosen, dtype(kind), size), chosen)


def evaluator_of(kernel: str, *names: Any) -> Evaluator:
    """The same of a kernel by its name in the group of entry points, the others as before.

    For processes of their own: what a `Tunable` is made of need not be pickled.
    """
    entry = next(iter(entry_points(group=TUNABLES, name=kernel)))
    return evaluator_for(entry.load().problem, *names)


Evaluate = Callable[[Parameters, float], Trial]
"""Verifies and times one choice, given the best time so far."""


class Isolated(isolation.Isolated[Trial]):
    """An evaluator in a process of its own; a new one takes the place of one that is lost.

    A context manager, which starts the process and ends it.

    Parameters
    ----------
    make : callable
        Makes the evaluator over there; it is pickled.
    patience : float
        Seconds after which a choice is given up.
    """

    def __init__(self, make: Callable[[], Evaluate], *, patience: float = 60.0) -> None:
        super().__init__(make, patience=patience, what="what is to be tuned")

    def __call__(self, *asked: Any) -> Trial:
        """The time of a choice, given with the best one so far, or why there is none."""
        choice, best = asked
        try:
            return super().__call__(dict(choice), best)
        except isolation.LostError as error:
            return Trial(choice, failure=str(error))


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
        self._console = Console(stderr=True)
        self._progress = _progress(self._console)
        self._all = self._progress.add_task(f"all {count} searches", total=count * budget, best="")
        self._done = 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def say(self, text: str) -> None:
        """A line above the progress."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

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
        task = self._progress.add_task(label, total=self._budget, best="")
        began = monotonic()
        try:
            for _ in search.run():
                spent = min(monotonic() - began, self._budget)
                best = _rate(self._tunable, size, search.best)
                self._progress.update(task, completed=spent, best=best)
                self._progress.update(self._all, completed=self._done * self._budget + spent)
        except KeyboardInterrupt:
            self._interrupt()
        self._done += 1
        self._progress.update(self._all, completed=self._done * self._budget)
        self._progress.remove_task(task)
        for line in _summary(label, self._tunable, size, search):
            self.say(line)
        return self._tunable.entry(size, search.best.choice) if search.best else None


def _in_use(tunable: Tunable, device: Device, dtype: DType) -> list[Parameters]:
    """The table's choices, without what is no matter of the search."""
    listed = lookup(tunable.space, dtype, device.capabilities)
    return [{name: choice[name] for name in tunable.space.values} for choice in listed]


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("time left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[best]}"),
        console=console,
        transient=True,
    )


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
