"""The command ``portable svd``."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from rich.table import Table

from portable import registry
from portable.backend import Device
from portable.dtypes import DType, float16, float32, float64
from portable.dtypes import dtype as dtype_of
from portable.errors import PortableError
from portable.linalg.singular_values.svdvals import Progress as Follow
from portable.linalg.singular_values.svdvals import svdvals
from portable.linalg.spectral.decompositions import svd as decomposed
from portable.system.console import printable, show, stages_bar
from portable.system.files import write_whole

_DTYPES: Final = (float16, float32, float64)
_LISTED: Final = 20
_LARGE: Final = 1024
_STAGES: Final = {
    "band": "dense to banded",
    "bidiagonal": "banded to bidiagonal",
    "values": "bidiagonal to singular values",
}
_SEPARATORS: Final = {".csv": ",", ".txt": None}
_Array = NDArray[Any]


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write the singular values, as a .npy file.",
)
@click.option(
    "--vectors",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write singular vectors too, as a .npz file of u, s and vh.",
)
@click.option("--device", "device_name", help="A device's name; the one in use, if left out.")
@click.option(
    "--dtype",
    "dtype_name",
    type=click.Choice([name for kind in _DTYPES for name in (kind.short, kind.name)]),
    help="What to convert the matrix to; left as it is, if left out.",
)
def svd(
    file: Path,
    out: Path | None,
    vectors: Path | None,
    device_name: str | None,
    dtype_name: str | None,
) -> None:
    """Singular values of the matrix (or matrices, in the last two dimensions) in FILE.

    FILE is a .npy file, or text: a row a line, numbers separated by commas (.csv) or spaces (.txt).
    Up to 20 are listed, the largest first; of more, and of several matrices, a summary is given.
    """
    for option, written in (("--out", out), ("--vectors", vectors)):
        if written is not None and _same(file, written):
            raise click.UsageError(
                f"{option} names {printable(str(written))}, which is what is read"
            )
    device = _device(device_name)
    a = _converted(_read(file), device, dtype_name, file)
    if vectors is None:
        values = _computed(device, a)
    else:
        u, values, vh = _decomposed(device, a)
        _write(vectors, partial(np.savez, u=u, s=values, vh=vh))
    if out is not None:
        _write(out, partial(np.save, arr=values))
    show(_table(values, a.shape))
    for written in (out, vectors):
        if written is not None:
            click.echo(f"Written to {printable(str(written))}.")


def _same(file: Path, out: Path) -> bool:
    """Whether two names are of one file; a link to it counts, and so does another link to both."""
    return out.exists() and file.samefile(out)


def _device(name: str | None) -> Device:
    try:
        return registry.device(name)
    except PortableError as error:
        raise click.UsageError(str(error)) from None


def _read(file: Path) -> _Array:
    matrix = _read_text(file) if file.suffix.lower() in _SEPARATORS else _read_npy(file)
    if not isinstance(matrix, np.ndarray):
        names = ", ".join(matrix.files)
        matrix.close()
        raise click.ClickException(
            f"{file} is an archive of several arrays ({names}); save the one matrix with numpy.save"
        )
    if matrix.ndim < 2:
        raise click.ClickException(f"{file} holds shape {matrix.shape}; expected a matrix (m, n)")
    return matrix


def _read_npy(file: Path) -> Any:
    """What numpy.load finds; where a file cannot hold what it declares, no memory is asked for."""
    try:
        _check_size(file)
        return np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError) as error:
        reason = str(error).replace("with `allow_pickle=False`", "").strip() or "it is too large"
        raise click.ClickException(
            f"{file} cannot be read as a .npy file ({reason}); write one with numpy.save, or name "
            "text .csv or .txt"
        ) from None


def _check_size(file: Path) -> None:
    """Refuses a .npy file that is shorter than its header says."""
    with file.open("rb") as opened:
        if opened.read(len(npy.MAGIC_PREFIX)) != npy.MAGIC_PREFIX:
            return
        opened.seek(0)
        version = npy.read_magic(opened)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read(opened)
        declared = prod(shape) * dtype.itemsize
        there = file.stat().st_size - opened.tell()
    if declared > there and file.is_file():
        raise ValueError(f"it declares {declared} bytes of {dtype} and holds {there}")


def _read_text(file: Path) -> _Array:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of files without a number, which are refused below
            matrix = np.loadtxt(file, delimiter=_SEPARATORS[file.suffix.lower()], ndmin=2)
    except (OSError, ValueError, UnicodeError, MemoryError) as error:
        raise click.ClickException(
            f"{file} cannot be read as a table of numbers ({error})"
        ) from None
    if not matrix.size:
        raise click.ClickException(f"{file} holds no numbers")
    return matrix


def _converted(a: _Array, device: Device, name: str | None, file: Path) -> _Array:
    """The array in a type that the device computes in."""
    if a.dtype.kind not in "biuf":
        raise click.ClickException(f"{file} holds {a.dtype}; expected real numbers")
    widest = float64 if device.capabilities.float64 else float32
    if name is not None:
        wanted = dtype_of(name)
    elif a.dtype.kind in "biu":
        wanted = widest
    else:
        wanted = _floating(a.dtype, file)
    if wanted.itemsize > widest.itemsize:
        raise click.ClickException(f"{device.name} lacks float64; give --dtype float32")
    with np.errstate(over="ignore"):
        converted = a.astype(wanted.numpy, copy=False)
    if not np.isfinite(a).all():
        raise click.ClickException(f"{file} holds NaN or infinities")
    if not np.isfinite(converted).all():
        raise click.ClickException(f"{file} holds numbers beyond the range of {wanted.name}")
    return converted


def _floating(kind: np.dtype[Any], file: Path) -> DType:
    if kind.itemsize > float64.itemsize:
        raise click.ClickException(f"{file} holds {kind}; give --dtype float64")
    return dtype_of(kind.newbyteorder("="))


def _computed(device: Device, a: _Array) -> _Array:
    try:
        with registry.use(device), _followed(a) as follow:
            given = a if device.owns(a) else device.from_numpy(a)
            return device.to_numpy(svdvals(given, check_finite=False, progress=follow))
    except PortableError as error:
        raise click.ClickException(str(error)) from None


def _decomposed(device: Device, a: _Array) -> tuple[_Array, _Array, _Array]:
    try:
        with registry.use(device):
            given = a if device.owns(a) else device.from_numpy(a)
            u, s, vh = (device.to_numpy(x) for x in decomposed(given))
            return u, s, vh
    except PortableError as error:
        raise click.ClickException(str(error)) from None


@contextmanager
def _followed(a: _Array) -> Iterator[Follow | None]:
    """What shows how far the work is, for one large matrix, on the error output."""
    if a.ndim > 2 or min(a.shape) < _LARGE:
        yield None
        return
    with stages_bar() as bar:
        tasks = {stage: bar.add_task(text, total=1.0) for stage, text in _STAGES.items()}
        yield lambda stage, done: bar.update(tasks[stage], completed=done)


def _write(out: Path, save: Callable[[io.BytesIO], object]) -> None:
    buffer = io.BytesIO()
    save(buffer)
    try:
        write_whole(out, buffer.getvalue())
    except OSError as error:
        raise click.ClickException(f"{out} cannot be written: {error.strerror}") from None


# -- tables ---------------------------------------------------------------------------------------


def _table(values: _Array, shape: tuple[int, ...]) -> Table:
    size = "x".join(map(str, shape))
    if values.ndim == 1 and values.size <= _LISTED:
        return _listed(values, size)
    return _summary(values.reshape(-1, values.shape[-1]), shape, size)


def _listed(values: _Array, size: str) -> Table:
    table = Table(title=f"Singular values of {size}")
    table.add_column("number", justify="right")
    table.add_column("value", justify="right")
    for i, value in enumerate(values, 1):
        table.add_row(str(i), _number(value))
    return table


def _summary(rows: _Array, shape: tuple[int, ...], size: str) -> Table:
    """A row for each matrix, up to so many."""
    table = Table(title=f"Singular values of {size}")
    for heading in ("matrix", "count", "largest", "median", "smallest", "condition", "rank"):
        table.add_column(heading, justify="right")
    for i, values in enumerate(rows[:_LISTED], 1):
        table.add_row(str(i), str(values.size), *_described(values, shape))
    if len(rows) > _LISTED:
        table.caption = f"and {len(rows) - _LISTED} more"
    return table


def _described(values: _Array, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Largest, median, smallest, their ratio, and the rank by NumPy's measure."""
    if values.size == 0:
        return ("", "", "", "", "0")
    largest, smallest = float(values[0]), float(values[-1])
    ratio = largest / smallest if smallest > 0 else np.inf
    threshold = largest * max(shape[-2:]) * float(np.finfo(values.dtype).eps)
    rank = int(np.count_nonzero(values > threshold))
    shown = (largest, float(np.median(values)), smallest, ratio)
    return (*(_number(x) for x in shown), str(rank))


def _number(x: Any) -> str:
    return f"{float(x):.8g}"
