"""Devices as a table, for the command line and for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rich.table import Table

from portable.backend.capabilities import Capabilities
from portable.system.console import literal


class _Described(Protocol):
    """What a device says of itself."""

    name: str
    capabilities: Capabilities


def device_table(devices: Sequence[_Described]) -> Table:
    """What each device is and can do, in a few words."""
    table = Table(title="Devices")
    for heading in ("name", "device", "kind", "precisions", "memory", "units", "driver"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "name")
    for device in devices:
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
