"""What work-items hold of panels that stay in registers."""

from __future__ import annotations

from typing import Final

from portable.backend import Device
from portable.dtypes import DType
from portable.linalg.factorisations.held_panel_kernels import Holding

_ITEMS: Final = (64, 256, 512)
"""Work-items that hold a panel: few sizes, of which each is a program."""

_HELD_BYTES: Final = 256
"""What each of them holds of it: half of the registers of an H200's compute unit."""

_PANEL: Final = 32
_COLUMNS: Final = 8


def panel_of(kind: DType) -> int:
    """Columns of a panel."""
    return _PANEL // 2 if kind.is_complex else _PANEL


def holding_for(device: Device, rows: int, kind: DType) -> tuple[Holding, int] | None:
    """How a workgroup holds panels of so many rows, and its work-items.

    None where it cannot: work-items are alone, or rows too many.
    """
    can = device.capabilities
    if can.lone_work_items:
        return None
    most = min(can.max_workgroup, can.max_workgroup_shape[0])
    sizes = [size for size in _ITEMS if size <= most]
    if not sizes:
        return None
    items = next((size for size in sizes if size >= rows), sizes[-1])
    held = 1
    while held * items < rows:
        held *= 2
    columns = _COLUMNS
    while columns > 1 and columns * held * kind.itemsize > _HELD_BYTES:
        columns //= 2
    return None if columns == 1 else (Holding(held, columns, panel_of(kind)), items)
