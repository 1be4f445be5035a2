"""The command ``portable bench cliffs``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from math import ceil, exp, log
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

import click
import numpy as np
from rich.table import Table

from portable import registry
from portable.backend import Device
from portable.dtypes import dtype
from portable.system.console import show
from portable.system.files import write_whole
from portable_bench import tables
from portable_bench.environment import environment
from portable_bench.peers import Library, library_beside
from portable_bench.results import paired_ratio

# Array functions in ordinary and lopsided shapes beside a peer, to find where they fall behind.
#
# Other operations of the bench are measured where they are meant to be fast; here each function is
# taken through shapes in which one extent is tiny, huge or odd, through axes, batches and dtypes.

_SHAPES: Final = (
    (1 << 20,),
    (1024, 1024),
    (1000, 777),
    (3, 300_000),
    (300_000, 3),
    (64, 128, 100),
    (64, 64, 64, 16),
)
_PRODUCTS: Final = (
    ((10_000, 8, 8), (10_000, 8, 8)),
    ((500, 33, 33), (500, 33, 33)),
    ((100_000, 50), (50, 3)),
    ((3, 50), (50, 100_000)),
    ((10, 100_000), (100_000, 10)),
    ((700, 700), (700, 700)),
    ((1000, 17), (17, 1000)),
    ((2000, 2000), (2000,)),
    ((2000,), (2000, 2000)),
    ((5, 200_000), (200_000,)),
    ((1 << 20,), (1 << 20,)),
)
_TRANSFORMS: Final = ((1 << 14,), (1 << 17,), (1000, 1000), (1000, 64), (100_000,))
_ELEMENTWISE: Final = ("sqrt", "exp", "log", "sin", "tanh", "abs")
_PAIRS: Final = ("add", "multiply", "divide", "pow", "maximum")
_MERGED: Final = ("sum", "mean", "prod", "max", "var", "argmax", "cumulative_sum")
_ORDERED: Final = ("sort", "argsort")
_FLOATS: Final = ("float32", "float64")
_REALS: Final = (*_FLOATS, "int32", "int64")
_NUMBERS: Final = (*_REALS, "complex64")
_SAMPLE: Final = 1e-3
_MOST_CALLS: Final = 20
"""Seconds of a sample at least, so that waiting for a GPU hides no kernel; calls of it at most."""

_CLOSE: Final = {"float32": 1e-3, "complex64": 1e-3, "float64": 1e-9, "complex128": 1e-9}
"""How far results may be apart, of the largest of them: a look for what is wrong, not a bound."""

Call = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Question:
    """A call that is asked of ours and of a peer.

    Attributes
    ----------
    name : str
        What is called.
    shapes : tuple of tuple of int
        Of its arrays.
    dtype : str
        Theirs.
    call : callable
        Takes a namespace and the arrays.
    note : str
        What else matters, such as an axis.
    """

    name: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    call: Call
    note: str = ""

    def __str__(self) -> str:
        extents = " by ".join("x".join(map(str, shape)) for shape in self.shapes)
        return f"{self.name} {extents} {self.note}".strip()

    def arrays(self) -> list[Any]:
        """The same ones each time, of positive numbers: sums have no cancellation."""
        random = np.random.default_rng(0)
        return [_numbers(random, shape, self.dtype) for shape in self.shapes]


@dataclass(frozen=True, slots=True)
class Cliff:
    """What was measured of a question.

    Attributes
    ----------
    question, dtype : str
    ours, theirs : float
        Seconds of a call, medians.
    ratio : float or None
        The peer's time over ours, the median of pairs; None where nothing was measured.
    error : str
        What went wrong: a wrong result is never timed.
    """

    question: str
    dtype: str
    ours: float = 0.0
    theirs: float = 0.0
    ratio: float | None = None
    error: str = ""


def questions(names: Sequence[str] = ()) -> Iterator[Question]:
    """The whole grid, or that of some functions.

    Parameters
    ----------
    names : sequence of str
        Of functions; all if empty.
    """
    for question in _grid():
        if not names or question.name in names:
            yield question


def measure(
    device: Device, asked: Sequence[Question], seconds: float, tell: Callable[[Cliff], None]
) -> list[Cliff]:
    """A row for each question, in their order.

    Parameters
    ----------
    device : Device
        Ours.
    asked : sequence of Question
    seconds : float
        For the samples of each.
    tell : callable
        Takes each row as it comes.
    """
    rows = []
    for question in asked:
        peer = library_beside(device, dtype(question.dtype))
        try:
            row = _measured(device, peer, question, seconds)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is what this looks for
            row = Cliff(str(question), question.dtype, error=f"{type(error).__name__}: {error}")
        rows.append(row)
        tell(row)
    return rows


def worst_first(rows: Sequence[Cliff]) -> list[Cliff]:
    """Failures, then the slowest beside their peers."""
    return sorted(rows, key=lambda row: (row.ratio is not None, row.ratio or 0.0))


def geometric_mean(rows: Sequence[Cliff]) -> float:
    """Of the ratios that were measured; NaN of none."""
    ratios = [row.ratio for row in rows if row.ratio]
    return exp(sum(map(log, ratios)) / len(ratios)) if ratios else float("nan")


# -- the grid ------------------------------------------------------------


def _grid() -> Iterator[Question]:
    for name in (*_ELEMENTWISE, *_PAIRS):
        takes = 2 if name in _PAIRS else 1
        for shape in _SHAPES:
            for kind in _REALS if name in ("add", "multiply", "abs", "maximum") else _FLOATS:
                yield Question(name, (shape,) * takes, kind, _function(name))
    for shape in _SHAPES:
        for kind in _NUMBERS:
            yield Question("every other", (shape,), kind, lambda xp, x: x[..., ::2] * 2)
            yield Question("transposed", (shape,), kind, _turned)
        yield from _along_axes(shape)
    for shapes in _PRODUCTS:
        for kind in (*_FLOATS, "complex64"):
            if kind != "complex64" or shapes[0] != (700, 700):
                yield Question("matmul", shapes, kind, lambda xp, a, b: a @ b)
    for shape in _TRANSFORMS:
        yield Question("fft", (shape,), "complex64", lambda xp, x: xp.fft.fft(x))


def _along_axes(shape: tuple[int, ...]) -> Iterator[Question]:
    axes = (None,) if len(shape) == 1 else (None, 0, len(shape) - 1)
    for axis in axes:
        for name in _MERGED:
            if name == "cumulative_sum" and axis is None and len(shape) > 1:
                continue
            for kind in _kinds_of(name):
                yield Question(name, (shape,), kind, _function(name, axis=axis), f"axis {axis}")
    # Of equal elements the order is the standard's default, which NumPy's is not.
    for name in _ORDERED:
        for kind in ("float32", "int64"):
            yield Question(name, (shape,), kind, _function(name, axis=-1, stable=True), "axis -1")


def _kinds_of(name: str) -> tuple[str, ...]:
    if name in ("mean", "var"):
        return _FLOATS
    return _NUMBERS if name == "sum" else _REALS


def _function(name: str, **options: Any) -> Call:
    if name == "cumulative_sum" and options["axis"] is None:
        options = {}
    return lambda xp, *arrays: getattr(xp, name)(*arrays, **options)


def _turned(xp: Any, x: Any) -> Any:
    return xp.permute_dims(x, tuple(range(x.ndim))[::-1]) + 1


def _numbers(random: Any, shape: tuple[int, ...], kind: str) -> Any:
    if kind.startswith("int"):
        return random.integers(1, 1 << 20, shape).astype(kind)
    values = random.random(shape) + 0.5
    return (values * (1 + 0.5j) if kind.startswith("complex") else values).astype(kind)


# -- one of it ------------------------------------------------------------


def _measured(device: Device, peer: Library | None, question: Question, seconds: float) -> Cliff:
    arrays = question.arrays()
    arrays_there = [device.from_numpy(x) for x in arrays]
    namespace = device.namespace()
    result = device.to_numpy(question.call(namespace, *arrays_there))
    wrong = _wrong(result, question.call(np, *arrays))
    if wrong:
        return Cliff(str(question), question.dtype, error=wrong)
    if peer is None:
        return Cliff(str(question), question.dtype)
    theirs = arrays if peer.device is None else [peer.device.from_numpy(x) for x in arrays]
    pairs = _pairs(
        lambda: question.call(namespace, *arrays_there),
        device.synchronize,
        lambda: question.call(peer.namespace, *theirs),
        (lambda: None) if peer.device is None else peer.device.synchronize,
        seconds,
    )
    ours, others = zip(*pairs, strict=True)
    ratio = paired_ratio(others, ours)
    return Cliff(str(question), question.dtype, median(ours), median(others), ratio)


def _wrong(result: Any, wanted: Any) -> str:
    """What is wrong with a result beside NumPy's, in words; nothing if it is right."""
    if result.shape != wanted.shape:
        return f"shape {result.shape}, not {wanted.shape}"
    close = _CLOSE.get(result.dtype.name)
    if close is None:
        same = np.array_equal(result, wanted)
    else:
        # NumPy's product of many floats may be infinite, as ours is then.
        scale = np.max(np.abs(wanted[np.isfinite(wanted)]), initial=0)
        least = close * scale + np.finfo(result.dtype).tiny
        same = np.allclose(result, wanted, rtol=close, atol=least, equal_nan=True)
    return "" if same else "wrong: not what NumPy gives"


def _pairs(
    ours: Call, wait: Call, theirs: Call, wait_for_theirs: Call, seconds: float
) -> list[tuple[float, float]]:
    """Times of both side by side, so that a busy machine bends neither; three pairs at least."""
    _timed(ours, wait, 1)
    _timed(theirs, wait_for_theirs, 1)
    least = min(_timed(ours, wait, 1), _timed(theirs, wait_for_theirs, 1))
    calls = min(_MOST_CALLS, ceil(_SAMPLE / least))
    pairs: list[tuple[float, float]] = []
    until = perf_counter() + seconds
    while len(pairs) < 3 or perf_counter() < until:
        pairs.append((_timed(ours, wait, calls), _timed(theirs, wait_for_theirs, calls)))
    return pairs


def _timed(run: Call, wait: Call, calls: int) -> float:
    """Seconds of a call, of several enqueued after each other."""
    start = perf_counter()
    for _ in range(calls):
        run()
    wait()
    return (perf_counter() - start) / calls


# -- cliffs: the command ---------------------------------------------------------------------------

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
        table.add_row(row.question, row.dtype, *map(tables.seconds, (row.ours, row.theirs)), shown)
    return table


def _ratio(row: Cliff) -> str:
    return "" if row.ratio is None else f"{row.ratio:.2f}"
