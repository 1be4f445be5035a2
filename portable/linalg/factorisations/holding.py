"""How columns stay in registers: of which work-items, and of how many workgroups."""

from __future__ import annotations

from typing import Final, NamedTuple

from portable.backend import Device
from portable.dtypes import DType
from portable.linalg.factorisations.slice_kernels import Holding
from portable.sim.launch import current

_ALONE: Final = (64, 256)
"""Work-items that hold a panel alone: few sizes, of which each is a program."""

_ALONE_BYTES: Final = 512
"""What each of them holds of it: half of the registers of an H200's compute unit."""

_ALONE_COLUMNS: Final = 32, 8
"""Columns of such a panel, at most and at least."""

_ITEMS: Final = 512
"""Work-items that hold a slice of a panel."""

_BYTES: Final = 128
"""What each of them holds of it."""

_WORKERS: Final = 48
"""Workgroups that hold slices of a panel in turn: all would wait for most of the time, where others
could run."""

_COLUMNS: Final = 8
_PANEL: Final = 256
"""Columns of a slice, and of all slices of a panel, at most."""


class Share(NamedTuple):
    """How panels are held.

    Attributes
    ----------
    panel : int
        Columns of a panel.
    columns : int
        Those that a workgroup holds at most.
    items : sequence of int
        Work-items that it may have.
    room : int
        Elements that each of them holds at most.
    alone : bool
        Whether a workgroup holds a panel.
    """

    panel: int
    columns: int
    items: tuple[int, ...]
    room: int
    alone: bool = False

    def holding(self, rows: int) -> Holding:
        """What work-items hold of a panel of so many rows; without columns where it is too high."""
        items = next((size for size in self.items if size >= rows), self.items[-1])
        held = 1
        while held * items < rows:
            held *= 2
        return Holding(held, min(self.room // held, self.columns), items, self.alone)

    def workers(self, columns: int, holding: Holding, most: int = 0) -> int:
        """Workgroups that have slices of so many columns in turn; at `most` so many if not 0."""
        return min(-(-columns // holding.columns), most or _WORKERS)


def share_for(device: Device, batch: int, rows: int, kind: DType) -> Share | None:
    """How panels of matrices of so many rows are held.

    By slices where workgroups may wait for each other, and as many run at the same time as a panel
    has slices, which are as many as a device has compute units; else by one workgroup, if its panel
    has as many columns. None where these would be too few, or work-items are alone.
    """
    can = device.capabilities
    most = min(can.max_workgroup, can.max_workgroup_shape[0])
    sizes = tuple(size for size in _ALONE if size <= most)
    if can.single_work_items or not sizes:
        return None
    alone = Share(0, _ALONE_COLUMNS[0], sizes, _ALONE_BYTES // kind.itemsize, True)
    columns = alone.holding(rows).columns
    if can.forward_progress and can.memory_orders == "acq_rel":
        at_once = current().resident if device.interprets else can.compute_units
        sliced = Share(0, _COLUMNS, (min(most, _ITEMS),), _BYTES // kind.itemsize)
        each = sliced.holding(rows).columns
        panel = min(at_once // batch * each, _PANEL)
        if panel > columns:
            return sliced._replace(panel=panel)
    if columns < _ALONE_COLUMNS[1]:
        return None
    return alone._replace(panel=columns, columns=columns)
