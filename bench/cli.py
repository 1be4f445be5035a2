"""The command ``portable bench``."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from portable import registry
from portable.backend import Device
from portable.dtypes import DType, dtype
from portable.errors import PortableError
from portable_bench.environment import environment
from portable_bench.harness import Effort, Harness
from portable_bench.operation import Case, Operation
from portable_bench.operations import OPERATIONS
from portable_bench.report import tables
from portable_bench.results import Cell, write

__all__ = ["bench"]

_PLAIN_WIDTH: Final = 200
_Planned = tuple[Operation, Case]


@click.command()
@click.argument("operations", nargs=-1, metavar="[OPERATION]...")
@click.option("--device", "device_names", default="all", help="Names, separated by commas.")
@click.option("--dtype", "dtype_names", help="Such as f16,f32,f64.")
@click.option("--size", "size_names", help="Separated by commas; gemm takes n or MxNxK.")
@click.option("--ladder", is_flag=True, help="Every algorithm from the plainest to the fastest.")
@click.option("--seconds", default=1.0, show_default=True, help="Time to spend on each cell.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path))
def bench(
    operations: Sequence[str],
    device_names: str,
    dtype_names: str | None,
    size_names: str | None,
    ladder: bool,
    seconds: float,
    json_path: Path | None,
) -> None:
    """Measure operations on the devices found here, beside the libraries of their vendors.

    Every result is verified before it is timed. OPERATION is gemm or launch; all, if none is named.
    """
    options = dict(click.get_current_context().params, json_path=str(json_path or ""))
    chosen = [_known(name) for name in operations] or list(OPERATIONS.values())
    if ladder:
        chosen = [op for op in chosen if type(op).ladder is not Operation.ladder]
        if not chosen:
            raise click.UsageError("--ladder: only gemm has several algorithms")
    devices = _devices(device_names)
    planned = _plan(chosen, devices, _dtypes(dtype_names), size_names)
    if json_path is not None:
        _check_writable(json_path)
    cells = run(planned, Harness(Effort(cell=seconds)), ladder=ladder)
    _show(cells, ladder)
    if json_path is not None:
        write(json_path, cells, environment(devices, options))


def run(planned: Sequence[_Planned], harness: Harness, *, ladder: bool = False) -> list[Cell]:
    """Measure one case after the other; an interrupt ends the run and keeps what is finished."""
    cells: list[Cell] = []
    with _progress() as progress:
        task = progress.add_task("", total=len(planned))
        try:
            for operation, case in planned:
                label = operation.label(case.size)
                under_way = f"{operation.name} {label} {case.dtype.short} on {case.device.name}"
                progress.update(task, description=under_way)
                cells.append(harness.measure(operation, case, ladder=ladder))
                progress.advance(task)
        except KeyboardInterrupt:
            progress.console.print(f"interrupted after {len(cells)} of {len(planned)} cells")
    return cells


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )


def _show(cells: Sequence[Cell], ladder: bool) -> None:
    console = Console()
    plain = not console.is_terminal
    if plain:
        console = Console(width=_PLAIN_WIDTH, color_system=None)
    for table in tables(cells, ladder=ladder):
        if plain:
            table.box = None
            table.pad_edge = False
        console.print(table)
        console.print()


# -- options ------------------------------------------------------------------------------------


def _plan(
    operations: Iterable[Operation],
    devices: Iterable[Device],
    dtypes: Sequence[DType] | None,
    size_names: str | None,
) -> list[_Planned]:
    planned: list[_Planned] = []
    wanted = list(devices)
    for operation in operations:
        sizes = _sizes(operation, size_names)
        for device in wanted:
            planned += [
                (operation, Case(device, kind, size))
                for kind in operation.dtypes
                if dtypes is None or kind in dtypes
                for size in sizes or operation.sizes(device.capabilities)
            ]
    if not planned:
        raise click.UsageError("nothing to measure: no operation takes such element types")
    return planned


def _known(name: str) -> Operation:
    if name not in OPERATIONS:
        raise click.UsageError(_unknown("operation", name, OPERATIONS))
    return OPERATIONS[name]


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(name, names, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"unknown {what} {name!r}; there are {', '.join(names)}{hint}"


def _devices(names: str) -> list[Device]:
    """The named ones; by default all but the simulator, which is not made for speed."""
    if names == "all":
        return [d for d in registry.devices() if d.capabilities.kind != "simulator"]
    try:
        return [registry.device(name.strip()) for name in names.split(",")]
    except PortableError as error:
        raise click.UsageError(str(error)) from None


def _dtypes(names: str | None) -> list[DType] | None:
    if names is None:
        return None
    known = {kind for operation in OPERATIONS.values() for kind in operation.dtypes}
    spellings = {s: kind for kind in known for s in (kind.short, kind.name)}
    found = [name.strip() for name in names.split(",")]
    for name in found:
        if name not in spellings:
            raise click.UsageError(_unknown("element type", name, sorted(k.short for k in known)))
    return [dtype(name) for name in found]


def _sizes(operation: Operation, names: str | None) -> list[tuple[int, ...]]:
    if names is None:
        return []
    try:
        return [operation.parse_size(name.strip()) for name in names.split(",")]
    except ValueError as error:
        raise click.UsageError(f"--size {names} for {operation.name}: {error}") from None


def _check_writable(path: Path) -> None:
    """Found out before the run rather than after it."""
    folder = path.absolute().parent
    if not (os.access(path, os.W_OK) if path.exists() else os.access(folder, os.W_OK)):
        raise click.UsageError(f"--json {path}: cannot be written")
