"""The command ``portable``; sub-commands come from the entry-point group ``portable.commands``."""

from __future__ import annotations

import json
import platform
from datetime import UTC, datetime
from importlib.metadata import EntryPoint, entry_points, version
from typing import Any

import click
from rich.table import Table

from portable import profiles, registry
from portable.backend import Capabilities, Device, Refused, Unavailable
from portable.console import show
from portable.errors import BackendUnavailableError, DeviceError

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
@click.argument("names", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="All capabilities, as JSON.")
@click.option("--verbose", is_flag=True, help="Also devices that were seen and refused, and why.")
def devices(names: tuple[str, ...], as_json: bool, verbose: bool) -> None:
    """List the devices found here, and how to get those that are missing.

    With NAMES, only those devices. What --json writes for one device is a profile for the
    simulator to take its place, once it is in the folder that PORTABLE_PROFILES names.
    """
    try:
        found = tuple(map(registry.device, names)) if names else registry.devices()
    except (DeviceError, BackendUnavailableError) as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(json.dumps(profiles.document(map(_measured, found)), indent=1))
        return
    show(_found(found))
    if not names:
        _show_others(verbose)


def _measured(device: Device) -> profiles.Profile:
    release = f"portable-arrays {version('portable-arrays')}"
    day = datetime.now(UTC).date().isoformat()
    source = f"measured on {platform.machine()} under {platform.system()} with {release}, {day}"
    return profiles.Profile(device.name, source, device.capabilities)


def _show_others(verbose: bool) -> None:
    """What there is besides the devices found."""
    missing = registry.unavailable()
    if missing:
        show(_missing(missing))
    refused = registry.refused()
    if verbose and refused:
        show(_refused(refused))
    further = registry.further()
    if further:
        click.echo(f"By name alone: {', '.join(further)}")


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


def _refused(refused: tuple[Refused, ...]) -> Table:
    table = Table(title="Refused")
    for heading in ("device", "reason"):
        table.add_column(heading, overflow="fold")
    for entry in refused:
        table.add_row(_escaped(entry.name), _escaped(entry.reason))
    return table


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
