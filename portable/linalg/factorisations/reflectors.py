"""Blocks of Householder reflectors: made of matrices, and applied to others by products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from portable.backend import Device
from portable.dtypes import DType
from portable.lang.launch.geometry import groups
from portable.linalg.factorisations.layout import Layout, layout_of
from portable.linalg.factorisations.matrices import copied, workspace
from portable.linalg.factorisations.products import multiplied, subtract_product
from portable.linalg.factorisations.reflector_panel_kernels import factor_columns
from portable.linalg.factorisations.shared_panel_kernels import reflect_together
from portable.linalg.factorisations.sharing import Board, board_for, sharing_for

__all__ = ["Reflectors", "triangularised"]

_LOCAL_BYTES: Final = 16 * 1024
"""Local memory that a panel may take, so that several workgroups have room."""


@dataclass(frozen=True)
class Reflectors:
    """``Q = (I - V_1 T_1 V_1^H) (I - V_2 T_2 V_2^H) ...`` of a batch, so many columns a block.

    Attributes
    ----------
    device : Device
        Where.
    v : array, shape (batch, m, k)
        The V side by side, zeros above their diagonals.
    t : array, shape (batch, k, wide)
        The T below each other.
    kind : DType
        Of the elements.
    wide : int
        Columns of a block.
    """

    device: Device
    v: Any
    t: Any
    kind: DType
    wide: int

    def apply(self, c: Any, *, adjoint: bool, unit: bool = False) -> None:
        """``C = Q C`` or ``Q^H C``, for `c` of shape (batch, m, columns).

        `unit` says that `c` begins as columns of the identity, of which some products are known.
        """
        count = int(self.v.shape[2])
        starts = range(0, count, self.wide)
        for first in starts if adjoint else reversed(starts):
            stop = min(first + self.wide, count)
            left = first if unit else 0
            self.apply_block(first, stop, c[:, first:, left:], adjoint=adjoint)

    def apply_block(
        self, first: int, stop: int, c: Any, *, adjoint: bool, row: int | None = None
    ) -> None:
        """The reflectors of some columns of a block, applied to rows from `first` on."""
        row = first if row is None else row
        v, base = self.v[:, row:, first:stop], first % self.wide
        t = self.t[:, first:stop, base : base + stop - first]
        batch, width, columns = int(c.shape[0]), stop - first, int(c.shape[2])
        if columns == 0:
            return
        products = workspace(self.device, batch, width, columns, self.kind)
        shares = workspace(self.device, batch, width, columns, self.kind)
        multiplied(self.device, products, v, c, adjoint=True)
        multiplied(self.device, shares, t, products, adjoint=adjoint)
        subtract_product(self.device, c, v, shares)


def triangularised(device: Device, work: Any, kind: DType) -> Reflectors:
    """Makes matrices R, above their diagonals, in place.

    Parameters
    ----------
    device : Device
        Where.
    work : array, shape (batch, m, n)
        The matrices; what is below the diagonal is of no more use.
    kind : DType
        Of the elements.

    Returns
    -------
    Reflectors
        Of which the matrices were Q R.
    """
    batch, m, n = (int(x) for x in work.shape)
    layout = layout_of(kind, device.capabilities)
    count = min(m, n)
    wide = layout.panel
    while wide < min(layout.wide, count):
        wide *= 2
    v = copied(device, work[:, :0, :0], workspace(device, batch, m, count, kind))
    t = copied(device, work[:, :0, :0], workspace(device, batch, count, wide, kind))
    reflectors = Reflectors(device, v, t, kind, wide)
    room = device.empty((batch, m, layout.panel), kind)
    board = None
    if sharing_for(device, batch, m, kind, layout) is not None:
        board = board_for(device, batch, m, 2 * -(-count // layout.panel), kind, layout.panel)
    making = _Making(device, work, reflectors, room, layout, board)
    for first in range(0, count, wide):
        stop = min(first + wide, count)
        making.columns(first, stop)
        reflectors.apply_block(first, stop, work[:, first:, stop:], adjoint=True)
    return reflectors


@dataclass(frozen=True)
class _Making:
    """Reflectors on their way."""

    device: Device
    work: Any
    reflectors: Reflectors
    room: Any
    layout: Layout
    board: Board | None

    def columns(self, first: int, stop: int) -> None:
        """Columns of one block: the left half, what it leaves of the right one, both T in one."""
        panel = self.layout.panel
        if stop - first <= panel:
            self._panel(first, stop)
            return
        middle = first + panel * -(-(stop - first) // (2 * panel))
        self.columns(first, middle)
        right = self.work[:, first:, middle:stop]
        self.reflectors.apply_block(first, middle, right, adjoint=True)
        self.columns(middle, stop)
        self._join(first, middle, stop)

    def _join(self, first: int, middle: int, stop: int) -> None:
        """T of both halves: ``T_12 = -T_1 (V_1^H V_2) T_2``."""
        own, device = self.reflectors, self.device
        batch, base = int(self.work.shape[0]), first % own.wide
        width, rest = middle - first, stop - middle
        t = own.t
        upper = t[:, first:middle, base : base + width]
        lower = t[:, middle:stop, base + width : base + width + rest]
        corner = t[:, first:middle, base + width : base + width + rest]
        gram = workspace(device, batch, width, rest, own.kind)
        shares = workspace(device, batch, width, rest, own.kind)
        left, right = own.v[:, middle:, first:middle], own.v[:, middle:, middle:stop]
        multiplied(device, gram, left, right, adjoint=True)
        multiplied(device, shares, upper, gram)
        subtract_product(device, corner, shares, lower)

    def _panel(self, first: int, stop: int) -> None:
        layout, own = self.layout, self.reflectors
        batch, m = int(self.work.shape[0]), int(self.work.shape[1]) - first
        sharing = sharing_for(self.device, batch, m, own.kind, layout)
        if self.board is not None and sharing is not None:
            how, items = sharing
            place = first // layout.panel * batch
            reflect_together[groups(batch * how.groups), items](
                self.work, own.v, own.t, self.board.rows, self.board.counts,
                (first, stop, first % own.wide, place), SHARING=how,
            )  # fmt: skip
            return
        rows = 0
        if not self.device.capabilities.lone_work_items:
            rows = _held_rows(m, layout.panel * own.kind.itemsize)
        factor_columns[groups(batch), layout.items](
            self.work, own.v, own.t, self.room, (first, stop, first % own.wide),
            LAYOUT=layout, ROWS=rows,
        )  # fmt: skip


def _held_rows(rows: int, row_bytes: int) -> int:
    """Rows of a panel in local memory, a power of two; 0 where they have no room."""
    held = 16
    while held < rows:
        held *= 2
    return held if held * row_bytes <= _LOCAL_BYTES else 0
