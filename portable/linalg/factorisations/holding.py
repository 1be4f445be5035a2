"""How panels stay in registers: of which work-items, and of how many workgroups."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType
from portable.linalg.factorisations.held_panel_kernels import MOST_GROUPS, NARROWEST, Holding
from portable.sim.launch import current

_ITEMS: Final = (64, 256)
"""Work-items that hold a panel: few sizes, of which each is a program."""

_HELD_BYTES: Final = 512
"""What each of them holds of it: half of the registers of an H200's compute unit."""

_PANEL: Final = 32


class Share(NamedTuple):
    """How a panel is held.

    Attributes
    ----------
    holding : Holding
        What a work-item holds.
    groups : int
        Workgroups, which run at the same time.
    """

    holding: Holding
    groups: int

    def teams(self, device: Device) -> int:
        """Sub-groups of a workgroup; 0 where there are none."""
        width = int(device.capabilities.sub_group_size)
        return -(-self.holding.items // width) if width > 1 else 0


def panel_of(kind: DType) -> int:
    """Columns of a panel at most."""
    return _PANEL // 2 if kind.is_complex else _PANEL


def share_for(device: Device, batch: int, rows: int, kind: DType) -> Share | None:
    """How panels of so many rows are held.

    Workgroups of a panel wait for each other. Where they are too many to run at the same time,
    which are as many as a device has compute units, or cannot wait, one workgroup holds more rows
    of fewer columns. None where these would be too few, or work-items are alone.
    """
    can = device.capabilities
    most = min(can.max_workgroup, can.max_workgroup_shape[0])
    sizes = [size for size in _ITEMS if size <= most]
    if can.single_work_items or not sizes:
        return None
    items = next((size for size in sizes if size >= rows), sizes[-1])
    panel, held = panel_of(kind), 1
    while held * items < rows and 2 * held * panel * kind.itemsize <= _HELD_BYTES:
        held *= 2
    groups = -(-rows // (held * items))
    at_once = current().resident if device.interprets else can.compute_units
    waits = can.forward_progress and can.memory_orders == "acq_rel"
    if groups > 1 and not (waits and groups <= MOST_GROUPS and groups * batch <= at_once):
        groups = 1
        while held * items < rows:
            held *= 2
        while held * panel * kind.itemsize > _HELD_BYTES:
            panel //= 2
    if panel < NARROWEST or held * panel * kind.itemsize > _HELD_BYTES:
        return None
    return Share(Holding(held, panel, items), groups)


def board_for(device: Device, batch: int, rows: int, kind: DType) -> Any:
    """Where workgroups tell each other what all have to know of panels of up to so many rows.

    Two places for `panel` + 1 numbers of each workgroup, and of one more.
    """
    share = share_for(device, batch, rows, kind)
    numbers = 0
    if share is not None and share.groups > 1:
        numbers = 2 * batch * (share.groups + 1) * (panel_of(kind) + 1)
    return device.empty((max(numbers * (kind.itemsize // 4), 1),), kl.u64)
