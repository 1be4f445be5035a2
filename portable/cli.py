"""The command ``portable``; sub-commands come from the entry-point group ``portable.commands``."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

import click
from rich.table import Table

from portable import registry
from portable.backend import Capabilities, Device, Unavailable
from portable.console import show

__all__ = ["main"]

_GROUP = "portable.commands"


class _Commands(click.Group):
    """A group whose registered sub-commands are imported only when run or described."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *(e.name for e in _registered())})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        built_in = super().get_command(ctx, cmd_name)
        if built_in is not None:
            return built_in
        entry = next((e for e in _registered() if e.name == cmd_name), None)
        return None if entry is None else _load(entry)


def _registered() -> list[EntryPoint]:
    return list(entry_points(group=_GROUP))


def _load(entry: EntryPoint) -> click.Command:
    try:
        command: Any = entry.load()
    except ImportError as error:
        raise click.ClickException(f"'portable {entry.name}' cannot be loaded: {error}") from error
    if not isinstance(command, click.Command):
        raise click.ClickException(f"{entry.value} is no click command")
    return command


@click.group(cls=_Commands)
@click.version_option(package_name="portable-arrays", prog_name="portable")
def main() -> None:
    """Array and kernel code in Python, written once, fast on every device."""


@main.command()
def devices() -> None:
    """List the devices found here, and how to get those that are missing."""
    show(_found(registry.devices()))
    missing = registry.unavailable()
    if missing:
        show(_missing(missing))


def _found(found: tuple[Device, ...]) -> Table:
    table = Table(title="Devices")
    for heading in ("name", "device", "kind", "precisions", "memory", "units", "driver"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "name")
    for device in found:
        can = device.capabilities
        memory = f"{can.global_memory / 2**30:.1f} GiB" if can.global_memory else ""
        table.add_row(
            device.name,
            can.name,
            can.kind,
            _precisions(can),
            memory,
            str(can.compute_units),
            can.driver,
        )
    return table


def _precisions(can: Capabilities) -> str:
    half = "f16" if can.native_half else "f16 (storage)"
    return f"{half} f32" + (" f64" if can.float64 else "")


def _missing(missing: tuple[Unavailable, ...]) -> Table:
    table = Table(title="Not available")
    for heading in ("backend", "reason", "to get it"):
        table.add_column(heading, overflow="fold")
    for entry in missing:
        # Square brackets are pip's extras here, not rich's markup.
        table.add_row(entry.backend, _escaped(entry.reason), _escaped(entry.remedy))
    return table


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
