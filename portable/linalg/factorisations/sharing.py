"""Whether several workgroups factor a panel together, and how many."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType
from portable.linalg.factorisations.layout import Layout
from portable.linalg.factorisations.shared_panel_kernels import Sharing
from portable.sim.launch import current

_HELD_BYTES: Final = 256
"""What a work-item has of a panel in registers at most."""
_ROWS: Final = 4
_FEWEST: Final = 32
_ITEMS: Final = 512


class Board(NamedTuple):
    """Where workgroups that work together put what all have to know.

    Attributes
    ----------
    rows : array, shape (batch, 2, groups + 1, panel)
        Of numbers like the matrix'.
    counts : array of i32, shape (panels * batch,)
        How often they have met, zeros at first.
    """

    rows: Any
    counts: Any


def sharing_for(
    device: Device, batch: int, rows: int, kind: DType, layout: Layout
) -> tuple[Sharing, int] | None:
    """How panels of so many rows are shared, and by how many work-items a workgroup.

    None where they had better not be: matrices are many, work-items are few, or workgroups cannot
    wait for each other, which takes that all of them run at once. A device runs one for each
    compute unit; what was launched before ends by itself.
    """
    can = device.capabilities
    if can.lone_work_items or batch > 1:
        return None
    most = min(_ITEMS, can.max_workgroup, can.max_workgroup_shape[0])
    items = _FEWEST
    while items < most and items < rows:
        items *= 2
    held = max(1, min(_ROWS, _HELD_BYTES // (layout.panel * kind.itemsize)))
    count = -(-rows // (items * held))
    if count > 1 and not (can.forward_progress and can.memory_orders == "acq_rel"):
        return None
    at_once = current().resident if device.interprets else can.compute_units
    if items < layout.panel or (count > 1 and count * batch > at_once):
        return None
    return Sharing(count, held, layout.panel), items


def board_for(device: Device, batch: int, rows: int, panels: int, kind: DType, panel: int) -> Board:
    """A board for all panels of matrices, which are at most so many rows long."""
    most = -(-rows // _FEWEST)
    rows = device.empty((batch, 2, most + 1, panel), kind)
    return Board(rows, device.empty((panels * batch,), kl.i32))
