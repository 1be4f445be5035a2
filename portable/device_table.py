"""Devices as a table, for the command line and for notebooks."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from portable.backend import Capabilities, Device
from portable.console import html, literal

__all__ = ["DeviceList", "device_table"]


class DeviceList(tuple[Device, ...]):
    """Devices in order; notebooks show them as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return html(device_table(self))


def device_table(found: Sequence[Device]) -> Table:
    """What each device is and can do, in a few words."""
    table = Table(title="Devices")
    for heading in ("name", "device", "kind", "precisions", "memory", "units", "driver"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "name")
    for device in found:
        can = device.capabilities
        memory = f"{can.global_memory / 2**30:.1f} GiB" if can.global_memory else ""
        cells = (
            device.name,
            can.name,
            can.kind,
            _precisions(can),
            memory,
            str(can.compute_units),
            can.driver,
        )
        table.add_row(*map(literal, cells))
    return table


def _precisions(can: Capabilities) -> str:
    half = "f16" if can.native_half else "f16 (storage)"
    return f"{half} f32" + (" f64" if can.float64 else "")
