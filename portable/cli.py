"""The command ``portable``; sub-commands come from the entry-point group ``portable.commands``."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import EntryPoint, entry_points, version
from typing import Any

import click
from rich.table import Table

from portable import registry
from portable.backend import Device, profiles
from portable.backend.profiles import device_table
from portable.errors import BackendUnavailableError, DeviceError
from portable.system.console import literal, printable, show

_GROUP = "portable.commands"


class _Commands(click.Group):
    """A group whose registered sub-commands are imported only when run or described."""

    def invoke(self, ctx: click.Context) -> Any:
        """Runs a command; names in its errors steer no terminal."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            vars(error)["message"] = printable(error.message)
            raise

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
    """The command; one that says what is wrong where it cannot be had."""
    try:
        command: Any = entry.load()
    except Exception as error:  # noqa: BLE001  (a broken third-party package stops no other)
        return _Broken(entry, f"cannot be loaded: {type(error).__name__}: {error}")
    if not isinstance(command, click.Command):
        return _Broken(entry, f"{entry.value} is no click command")
    return command


class _Broken(click.Command):
    """In the place of a command that cannot be loaded."""

    def __init__(self, entry: EntryPoint, reason: str) -> None:
        self._reason = printable(reason)
        super().__init__(entry.name, short_help=f"({self._reason})", add_help_option=False)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        raise click.ClickException(f"'portable {self.name}' {self._reason}")


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
        listed = tuple(map(registry.device, names)) if names else registry.devices()
    except (DeviceError, BackendUnavailableError) as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(json.dumps(profiles.document(map(_measured, listed)), indent=1))
        return
    show(device_table(listed))
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
        rows = [(x.backend, x.reason, x.remedy) for x in missing]
        show(_listed("Not available", ("backend", "reason", "to get it"), rows))
    refused = registry.refused()
    if verbose and refused:
        show(_listed("Refused", ("device", "reason"), ((x.name, x.reason) for x in refused)))
    further = registry.further()
    if further:
        click.echo(f"By name alone: {', '.join(further)}")


def _listed(title: str, headings: Sequence[str], rows: Iterable[Iterable[str]]) -> Table:
    table = Table(title=title)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*map(literal, row))
    return table
