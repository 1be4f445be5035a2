"""LU with partial pivoting of matrices on their device, and systems solved by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType
from portable.lang.launch.geometry import groups
from portable.linalg.dense.kernels import clear
from portable.linalg.factorisations.held_panel_kernels import (
    eliminate_in_registers,
    exchange_and_solve,
)
from portable.linalg.factorisations.holding import holding_for, panel_of
from portable.linalg.factorisations.layout import Layout, layout_of
from portable.linalg.factorisations.matrices import (
    batch_of,
    copied,
    lead_of,
    moved,
    turned,
    workspace,
)
from portable.linalg.factorisations.panel_kernels import (
    eliminate_panel,
    exchange_alone,
    exchange_rows,
    gather_rows,
    order_rows,
)
from portable.linalg.factorisations.products import subtract_product
from portable.linalg.factorisations.right_sides import RightSides
from portable.linalg.factorisations.triangles import Triangle, solved_in_place
from portable.linalg.products.repeats import kept_plan, repeated

_UNIT_LOWER: Final = Triangle(backward=False, turned=False, conjugate=False, unit=True)
_UPPER: Final = Triangle(backward=True, turned=False, conjugate=False, unit=False)
_LINE: Final = 64
_TILE: Final = (32, 8, 1)
_TILE_ALONE: Final = (64, 1, 1)
_ORDERED_BYTES: Final = 32 * 1024


class Eliminated(NamedTuple):
    """Factors of a batch on their device, until this thread eliminates the next one.

    Attributes
    ----------
    lu : array, shape (batch, m, n)
        L and U.
    pivots : array of i32, shape (batch, min(m, n))
        Exchanges.
    failures : array of i32, shape (batch,)
        For each matrix 0, or the first column without a pivot, counted from 1.
    """

    lu: Any
    pivots: Any
    failures: Any


class System(NamedTuple):
    """Arrays for matrices and right-hand sides of a size, and what works on them.

    Attributes
    ----------
    factors : Eliminated
    given : array, shape (batch, n, k), or None
        Where right-hand sides are to go; None for the identity.
    found : array, shape (batch, n, k), or None
        Where solutions come.
    eliminate, substitute : callable
        Enqueue the factorisation, and the solution by factors.
    """

    factors: Eliminated
    given: Any
    found: Any
    eliminate: Callable[[], object]
    substitute: Callable[[], object]


def eliminated(
    device: Device, a: Any, kind: DType, lead: tuple[int, ...] | None = None
) -> Eliminated:
    """The factors of matrices that are not empty.

    Parameters
    ----------
    device : Device
        Where.
    a : array, shape (..., m, n)
        The matrices.
    kind : DType
        What is computed in.
    lead : tuple of int, optional
        Leading dimensions that those of `a` broadcast to.
    """
    lead = lead_of(a.shape) if lead is None else lead
    m, n = (int(x) for x in a.shape[-2:])
    made = system(device, (batch_of((*lead, m, n)), m, n), kind)
    moved(device, a, made.factors.lu, from_lead=lead)
    made.eliminate()
    return made.factors


def solution(device: Device, made: System, b: Any, sides: RightSides) -> Any:
    """Solves systems whose factors are there, for right-hand sides, or for the identity."""
    if b is not None:
        columns = b[:, None] if sides.is_vector else b
        copied(device, columns, made.given, from_lead=sides.lead)
    made.substitute()
    return sides.result(device, made.found)


def system(
    device: Device, size: tuple[int, int, int], kind: DType, columns: int = 0, *, eye: bool = False
) -> System:
    """Room for matrices of a size.

    Parameters
    ----------
    device : Device
        Where.
    size : (int, int, int)
        How many matrices, and their rows and columns.
    kind : DType
        What is computed in.
    columns : int
        Of right-hand sides.
    eye : bool
        Whether these are columns of the identity.
    """
    batch, m, n = size
    key = "system", size, kind, columns, eye
    room = batch * m * (n + 2 * columns) * kind.itemsize
    return kept_plan(device, key, lambda: _system(device, size, kind, columns, eye), room)


def _system(
    device: Device, size: tuple[int, int, int], kind: DType, columns: int, eye: bool
) -> System:
    batch, m = size[:2]
    elimination = _Elimination.of(device, size, kind)
    factors = elimination.factors
    eliminate = repeated(device, elimination.run)
    if not columns:
        return System(factors, None, None, eliminate, eliminate)
    given = None if eye else workspace(device, batch, m, columns, kind)
    copies = workspace(device, batch, m, columns, kind)
    orders = device.empty((batch, m), kl.i32)
    substitute = partial(_substitute, device, factors, given, copies, orders, elimination.layout)
    return System(factors, given, copies, eliminate, repeated(device, substitute))


def _substitute(
    device: Device, factors: Eliminated, given: Any, eliminated: Any, orders: Any, layout: Layout
) -> None:
    batch, n, columns = (int(x) for x in eliminated.shape)
    _order(device, factors.pivots, orders)
    tile = _TILE_ALONE if device.capabilities.lone_work_items else _TILE
    gather_rows[(columns, n, batch), tile](given, None, orders, eliminated, EYE=given is None)
    solved_in_place(device, factors.lu, eliminated, _UNIT_LOWER, layout)
    solved_in_place(device, factors.lu, eliminated, _UPPER, layout)


def _order(device: Device, pivots: Any, orders: Any) -> None:
    """Which row stands where after all exchanges: `orders` of i32, shape (batch, m)."""
    can = device.capabilities
    items = 1 if can.lone_work_items else min(64, can.max_workgroup)
    held = min(_ORDERED_BYTES, can.local_memory) // 8
    order_rows[groups(int(orders.shape[0])), items](pivots, orders, HELD=held)


# -- the factorisation ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Elimination:
    """A factorisation, and what it works with."""

    device: Device
    factors: Eliminated
    kind: DType
    layout: Layout
    room: Any
    moves: Any
    triangles: Any

    @staticmethod
    def of(device: Device, size: tuple[int, int, int], kind: DType) -> _Elimination:
        """That of matrices of a size."""
        batch, m, n = size
        layout = layout_of(kind, device.capabilities)
        held, panel = holding_for(device, m, kind) is not None, panel_of(kind)
        factors = Eliminated(
            turned(workspace(device, batch, n, m, kind))
            if held
            else workspace(device, batch, m, n, kind),
            device.empty((batch, min(m, n)), kl.i32),
            device.empty((batch,), kl.i32),
        )
        return _Elimination(
            device,
            factors,
            kind,
            layout,
            None if held else device.empty((batch, m, layout.panel), kind),
            device.empty((batch, 2 * panel + 1, 2), kl.i32) if held else None,
            device.empty((batch, panel, panel), kind) if held else None,
        )

    def run(self) -> None:
        """Enqueues it."""
        (lu, _, failures), (batch, m, n) = self.factors, self.factors.lu.shape
        clear[int(batch), _LINE](failures)
        least, wide = min(int(m), int(n)), self.layout.wide
        if self.moves is None:
            self._columns(0, least)
            if n > least:
                self._solve(0, least, int(n))
            return
        for first in range(0, least, wide):
            last = min(first + wide, least)
            self._block(first, last)
            if last < n:
                self._solve(first, last, int(n))
                _change(self.device, lu, first, last, int(n))

    def _block(self, first: int, last: int) -> None:
        """Factors some columns by panels in registers; rows change places in all columns."""
        (lu, pivots, failures), batch = self.factors, int(self.factors.lu.shape[0])
        m, n = (int(x) for x in lu.shape[1:])
        strip, panel = self.layout.strip // 2, panel_of(self.kind)
        strips = -(-n // strip)
        for start in range(first, last, panel):
            stop = min(start + panel, last)
            result = holding_for(self.device, m - start, self.kind)
            assert result is not None
            holding, items = result
            eliminate_in_registers[groups(batch), items](
                lu, pivots, failures, self.moves, self.triangles, start, stop, HOLDING=holding
            )
            exchange_and_solve[groups(batch * strips), self.layout.items](
                lu, self.moves, self.triangles, (start, stop, last), strips,
                STRIP=strip, COUNT=panel,
            )  # fmt: skip
            _change(self.device, lu, start, stop, last)

    def _columns(self, first: int, stop: int) -> None:
        """Factors columns from the diagonal down: the left half, then what it leaves of the right.

        Rows change places in all columns.
        """
        panel = self.layout.panel
        if stop - first <= panel:
            self._panel(first, stop)
            return
        middle = first + panel * -(-(stop - first) // (2 * panel))
        self._columns(first, middle)
        self._solve(first, middle, stop)
        _change(self.device, self.factors.lu, first, middle, stop)
        self._columns(middle, stop)

    def _solve(self, first: int, middle: int, stop: int) -> None:
        """U right of a triangle of L."""
        triangle = self.factors.lu[:, first:middle, first:middle]
        rows = self.factors.lu[:, first:middle, middle:stop]
        solved_in_place(self.device, triangle, rows, _UNIT_LOWER, self.layout)

    def _panel(self, first: int, stop: int) -> None:
        layout, (lu, pivots, failures) = self.layout, self.factors
        eliminate_panel[groups(int(lu.shape[0])), layout.items](
            lu, self.room, pivots, failures, first, stop, LAYOUT=layout
        )
        others = int(lu.shape[2]) - (stop - first)
        if others > 0:
            self._exchange(first, stop, others)

    def _exchange(self, first: int, stop: int, others: int) -> None:
        """Rows of all columns but a panel's change places as it has it."""
        layout, (lu, pivots, _) = self.layout, self.factors
        batch, strip = int(lu.shape[0]), layout.strip
        if self.device.capabilities.lone_work_items:
            strips = -(-int(lu.shape[2]) // strip)
            exchange_alone[groups(batch * strips), 1](
                lu, pivots, first, stop, strips, STRIP=strip, LANES=layout.lanes
            )
            return
        strips = -(-others // strip)
        exchange_rows[groups(batch * strips), layout.items](
            lu, pivots, first, stop, strips, STRIP=strip, COUNT=layout.panel
        )


def _change(device: Device, lu: Any, first: int, middle: int, stop: int) -> None:
    """What columns that are done leave of those right of them, below their U."""
    subtract_product(
        device,
        lu[:, middle:, middle:stop],
        lu[:, middle:, first:middle],
        lu[:, first:middle, middle:stop],
    )
