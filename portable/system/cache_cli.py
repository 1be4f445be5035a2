"""The command ``portable cache``."""

from __future__ import annotations

import click

from portable.system import cache as programs
from portable.system.console import printable


@click.group(invoke_without_command=True)
@click.pass_context
def cache(context: click.Context) -> None:
    """Compiled programs on disk: how many, where; `portable cache clear` removes them.

    Those that were not used for longest go where all take more than `portable cache limit`.
    """
    if context.invoked_subcommand is None:
        click.echo(_summary())
        click.echo(printable(str(programs.folder())))


@cache.command()
def where() -> None:
    """Print the folder, for use in scripts."""
    click.echo(printable(str(programs.folder())))


@cache.command()
def size() -> None:
    """Print the bytes that the programs take, for use in scripts."""
    click.echo(programs.usage().nbytes)


@cache.command()
@click.argument("mebibytes", type=click.FloatRange(min=0), required=False)
def limit(mebibytes: float | None) -> None:
    """Print how many bytes programs may take, or set it to so many MEBIBYTES.

    What is more than that goes, the programs first that were not used for longest. It is kept in
    the folder of the cache, for all processes that use it.
    """
    if mebibytes is None:
        click.echo(programs.limit())
        return
    if not programs.enabled():
        raise click.ClickException("no programs are kept: PORTABLE_CACHE=0")
    try:
        programs.set_limit(int(min(mebibytes, 2**40) * 2**20))
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from None
    click.echo(_summary())


@cache.command()
def clear() -> None:
    """Remove all compiled programs; they are compiled again when they are needed."""
    summary, left = _summary(), programs.clear()
    if left:
        raise click.ClickException(f"{left} of the programs could not be removed")
    click.echo(f"Removed {summary}" if not summary.startswith("no ") else "Nothing to remove.")


def _summary() -> str:
    if not programs.enabled():
        return "no programs are kept: PORTABLE_CACHE=0."
    usage = programs.usage()
    if not usage.programs:
        return "no programs are kept so far."
    most = programs.limit() / 2**20
    return f"{usage.programs} programs, {usage.nbytes / 2**20:.1f} MiB of at most {most:,.1f}."
