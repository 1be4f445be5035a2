"""The command ``portable gf2``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
import numpy as np

from portable import registry
from portable.backend import Device
from portable.errors import PortableError
from portable.gf2.algebra import rank as rank_of
from portable.gf2.batches import Stages
from portable.gf2.files import eliminate_file, read_matrix, write_matrix
from portable.gf2.made_up import ELIMINATOR_DENSITY, ROW_DENSITY, random_problem
from portable.parallel.meeting import world
from portable.system.console import stages_bar

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_STAGES: Final = {
    "eliminators": "reading eliminators",
    "rows": "reading rows",
    "elimination": "eliminating",
    "result": "writing the result",
}


def _device(context: click.Context, parameter: click.Parameter, name: str | None) -> Device | None:
    """The device of an option; None, the one in use, without it."""
    del context
    try:
        return None if name is None else registry.device(name)
    except PortableError as error:
        raise click.BadParameter(str(error), param=parameter) from None


_on_device = click.option(
    "--device", callback=_device, help="A device's name; the one in use, if left out."
)


_of_columns = click.option(
    "--columns",
    type=click.IntRange(min=0),
    help="How many columns there are; for text one more than the highest, if left out.",
)


@click.group()
def gf2() -> None:
    """Matrices over GF(2), in files of text or packed words (.gf2).

    Text has a row a line: the columns of its ones, descending and separated by blanks.
    """


@gf2.command()
@click.argument("eliminators", type=_FILE)
@click.argument("rows", type=_FILE)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="Where to write the reduced rows: packed if it ends in .gf2, else as text.",
)
@click.option(
    "--memory",
    type=click.FloatRange(min=0, min_open=True),
    help="GiB of columns to hold at a time: matrices larger than memory, in batches.",
)
@_of_columns
@_on_device
def eliminate(
    eliminators: Path,
    rows: Path,
    out: Path,
    memory: float | None,
    columns: int | None,
    device: Device | None,
) -> None:
    """Reduce each of ROWS in order by ELIMINATORS and by earlier rows that became such.

    Started by mpiexec, the processes share the work out, each on a device of its own. In batches,
    what was ended goes on from the last finished one when the same command is given again.
    """
    with _errors_told(), _followed() as stages:
        promoted = eliminate_file(
            eliminators,
            rows,
            out,
            columns=columns,
            device=device,
            stages=stages,
            comm=world(),
            memory=None if memory is None else max(int(memory * 2**30), 1),
        )
    came, left = int(np.count_nonzero(promoted)), int(np.count_nonzero(~promoted))
    if _is_first():
        click.echo(
            f"{came + left} rows: {came} became pivots, {left} reduced to zero. Written to {out}."
        )


def _is_first() -> bool:
    """Whether this process is the one that speaks."""
    comm = world()
    return comm is None or comm.Get_rank() == 0


@gf2.command()
@click.argument("file", type=_FILE)
@_of_columns
@_on_device
def rank(file: Path, columns: int | None, device: Device | None) -> None:
    """The rank of the matrix in FILE."""
    with _errors_told():
        matrix = read_matrix(file, columns=columns, device=device)
        matrix_rank = rank_of(matrix)
    click.echo(f"{matrix.shape[0]}x{matrix.shape[1]} matrix of rank {matrix_rank}")


@gf2.command()
@click.option("--shape", required=True, help="COLUMNSxELIMINATORSxROWS, such as 2000x1500x1000.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    help="The folder for eliminators and rows; the current one, if left out.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--density",
    nargs=2,
    type=click.FloatRange(0, 1),
    default=(ELIMINATOR_DENSITY, ROW_DENSITY),
    show_default=True,
    help="Of eliminators and of rows.",
)
@click.option("--packed", is_flag=True, help="Write .gf2 instead of .txt.")
@_on_device
def random(
    shape: str,
    out: Path,
    seed: int,
    density: tuple[float, float],
    packed: bool,
    device: Device | None,
) -> None:
    """Write made-up eliminators and rows of a given shape."""
    ending = "gf2" if packed else "txt"
    with _errors_told():
        matrices = random_problem(*_extents(shape), densities=density, seed=seed, device=device)
        out.mkdir(parents=True, exist_ok=True)
        for name, matrix in zip(("eliminators", "rows"), matrices, strict=True):
            write_matrix(out / f"{name}.{ending}", matrix)
    click.echo(f"Written to {out / f'eliminators.{ending}'} and {out / f'rows.{ending}'}.")


def _extents(shape: str) -> tuple[int, int, int]:
    try:
        columns, eliminators, rows = (int(part) for part in shape.split("x"))
    except ValueError:
        raise click.UsageError(
            f"--shape {shape}: expected COLUMNSxELIMINATORSxROWS, such as 2000x1500x1000"
        ) from None
    return columns, eliminators, rows


@contextmanager
def _errors_told() -> Iterator[None]:
    """Errors of data and files end the command with their message."""
    try:
        yield
    except (PortableError, ValueError, OSError) as error:
        if not _is_first():
            raise click.exceptions.Exit(1) from None
        text = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        raise click.ClickException(text) from None


@contextmanager
def _followed() -> Iterator[Stages | None]:
    """What shows how far the work is, on the error output."""
    if not _is_first():
        yield None
        return
    tasks: dict[str, Any] = {}
    with stages_bar() as bar:

        def follow(stage: str, done: float) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(_STAGES[stage], total=1.0)
            bar.update(tasks[stage], completed=done)

        yield follow
