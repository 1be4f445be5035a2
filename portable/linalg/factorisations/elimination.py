"""LU with partial pivoting of matrices on their device, and systems solved by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType
from portable.lang.launch.geometry import groups
from portable.linalg.dense.kernels import clear
from portable.linalg.factorisations.ahead import look_ahead
from portable.linalg.factorisations.held_panel_kernels import (
    NARROWEST,
    eliminate_in_registers,
    exchange_and_solve,
)
from portable.linalg.factorisations.holding import board_for, panel_of, share_for
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
    exchange_rows,
)
from portable.linalg.factorisations.products import subtract_product
from portable.linalg.factorisations.right_sides import RightSides
from portable.linalg.factorisations.triangles import Triangle, solved_in_place
from portable.linalg.products.repeats import kept_plan, repeated

_UNIT_LOWER: Final = Triangle(backward=False, turned=False, conjugate=False, unit=True)
_UPPER: Final = Triangle(backward=True, turned=False, conjugate=False, unit=False)
_LINE: Final = 64
_STRIP: Final = 16
"""Columns that a workgroup exchanges rows in."""


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
        Of the matrices.
    sides : array, shape (batch, n, k), or None
        Right-hand sides, which become solutions.
    run : callable
        Enqueues all of it.
    """

    factors: Eliminated
    sides: Any
    run: Callable[[], object]


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
    made.run()
    return made.factors


def solution(device: Device, made: System, b: Any, sides: RightSides) -> Any:
    """Solves systems that are there, for right-hand sides, or for the identity."""
    if b is None:
        copied(device, made.sides[:, :0, :0], made.sides, eye=True)
    else:
        moved(device, b[:, None] if sides.is_vector else b, made.sides, from_lead=sides.lead)
    made.run()
    return sides.result(device, made.sides)


def system(device: Device, size: tuple[int, int, int], kind: DType, columns: int = 0) -> System:
    """Room for matrices of a size, which are eliminated, and what solves for right-hand sides.

    These are further columns of the matrices: when those are eliminated, L is solved for.

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
    """
    batch, m, n = size
    key = "system", size, kind, columns
    room = batch * m * (n + columns) * kind.itemsize
    return kept_plan(device, key, lambda: _system(device, size, kind, columns), room)


def _system(device: Device, size: tuple[int, int, int], kind: DType, columns: int) -> System:
    n = size[2]
    elimination = _Elimination.of(device, size, kind, columns)
    lu, pivots, failures = elimination.factors
    factors, sides = Eliminated(lu[:, :, :n], pivots, failures), lu[:, :, n:] if columns else None

    def run() -> None:
        elimination.run()
        if columns:
            solved_in_place(device, factors.lu, sides, _UPPER, elimination.layout)

    return System(factors, sides, repeated(device, run))


def factored_system(device: Device, size: tuple[int, int], kind: DType, columns: int) -> System:
    """Room for factors of so many matrices of an order, and right-hand sides, to be solved for."""
    batch, n = size
    key, room = ("factored", size, kind, columns), batch * n * (n + columns) * kind.itemsize
    return kept_plan(device, key, lambda: _factored(device, size, kind, columns), room)


def _factored(device: Device, size: tuple[int, int], kind: DType, columns: int) -> System:
    batch, n = size
    pivots = device.empty((batch, n), kl.i32)
    factors = Eliminated(workspace(device, batch, n, n, kind), pivots, None)
    sides = workspace(device, batch, n, columns, kind)
    layout = layout_of(kind, device.capabilities)

    def run() -> None:
        _exchange(device, sides, pivots, ((0, n), (0, 0)), layout)
        for which in (_UNIT_LOWER, _UPPER):
            solved_in_place(device, factors.lu, sides, which, layout)

    return System(factors, sides, repeated(device, run))


def _exchange(
    device: Device, a: Any, pivots: Any, where: tuple[tuple[int, int], ...], layout: Layout
) -> None:
    """Rows change places as pivots of some columns have it, in all columns but some."""
    strip = layout.strip if device.capabilities.lone_work_items else 1
    strips = -(-int(a.shape[2]) // strip)
    exchange_rows[int(a.shape[0]) * strips, layout.items](
        a, pivots, *where, strips, STRIP=strip, LANES=layout.lanes
    )


# -- the factorisation ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Held:
    """What panels in registers are worked on with.

    Attributes
    ----------
    board : array of u64
        Where workgroups tell each other rows.
    counts : array of i32, shape (batch * panels of all columns,)
        How many workgroups have loaded panels.
    moves : array of i32, shape (2, batch, panels, 2 * panel, 2)
        Which rows are to go where, of the panels of two blocks.
    triangles : array, shape (2, batch, panel, panel)
        L of a panel's pivots, in turn.
    """

    board: Any
    counts: Any
    moves: Any
    triangles: Any

    @staticmethod
    def of(device: Device, size: tuple[int, int], kind: DType, wide: int) -> _Held:
        """That for blocks of so many columns."""
        (batch, rows), panel = size, panel_of(kind)
        return _Held(
            board_for(device, batch, rows, kind),
            device.empty((batch * -(-rows // NARROWEST),), kl.i32),
            device.empty((2, batch, -(-wide // NARROWEST), 2 * panel, 2), kl.i32),
            device.empty((2, batch, panel, panel), kind),
        )


@dataclass(frozen=True)
class _Elimination:
    """A factorisation, and what it works with."""

    device: Device
    factors: Eliminated
    kind: DType
    layout: Layout
    room: Any
    held: _Held | None

    @staticmethod
    def of(
        device: Device, size: tuple[int, int, int], kind: DType, further: int = 0
    ) -> _Elimination:
        """That of matrices of a size, which have so many further columns behind these."""
        (batch, m, n), columns = size, size[2] + further
        layout = layout_of(kind, device.capabilities)
        held = None
        if share_for(device, batch, m, kind) is not None:
            held = _Held.of(device, (batch, m), kind, min(layout.wide, m, n))
        lu = workspace(device, batch, *((m, columns) if held is None else (columns, m)), kind)
        factors = Eliminated(
            lu if held is None else turned(lu),
            device.empty((batch, min(m, n)), kl.i32),
            device.empty((batch,), kl.i32),
        )
        room = device.empty((batch, m, layout.panel), kind) if held is None else None
        return _Elimination(device, factors, kind, layout, room, held)

    def run(self) -> None:
        """Enqueues it."""
        batch, _, n = (int(x) for x in self.factors.lu.shape)
        clear[batch, _LINE](self.factors.failures)
        least, wide = int(self.factors.pivots.shape[1]), self.layout.wide
        if self.held is None:
            self._columns(0, least)
            if n > least:
                self._solve(0, least, n)
            return
        clear[int(self.held.board.shape[0]), _LINE](self.held.board)
        clear[int(self.held.counts.shape[0]), _LINE](self.held.counts)

        def far(first: int, last: int, following: int) -> None:
            self._exchange_block(first, last, 0, first)
            self._change_right(first, last, following, n)

        look_ahead(self.device, (0, least), wide, self._block, (self._change_next, far))

    def _block(self, first: int, last: int) -> None:
        """Factors some columns by panels in registers; rows change places in these alone."""
        (lu, pivots, failures), batch, held = self.factors, int(self.factors.lu.shape[0]), self.held
        share = share_for(self.device, batch, int(lu.shape[1]) - first, self.kind)
        assert share is not None
        assert held is not None
        panel, moves = share.holding.panel, held.moves[first // self.layout.wide % 2]
        triangles = held.triangles[:, :, :panel, :panel]

        def make(start: int, stop: int) -> None:
            eliminate_in_registers[groups(batch * share.groups), share.holding.items](
                lu, pivots, failures, moves[:, :, : 2 * panel], triangles,
                (held.board, held.counts),
                (start, stop, share.groups, (start - first) // panel),
                HOLDING=share.holding,
            )  # fmt: skip

        def change(start: int, stop: int, begin: int, end: int) -> None:
            number = (start - first) // panel
            one = moves[:, number : number + 1]
            self._exchange_held(one, (start, stop, begin, end), panel, number % 2)
            _change(self.device, lu, (start, stop), (max(begin, stop), end))

        def far(start: int, stop: int, following: int) -> None:
            change(start, stop, first, start)
            change(start, stop, following, last)

        look_ahead(self.device, (first, last), panel, make, (_nothing, far))

    def _exchange_held(
        self, moves: Any, where: tuple[int, int, int, int], panel: int, turn: int = 0
    ) -> None:
        """Rows change places in some columns, as panels have it, and U is solved for."""
        assert self.held is not None
        lu, triangles = self.factors.lu, self.held.triangles[turn, :, :panel, :panel]
        strips = -(-(where[3] - where[2]) // _STRIP)
        if strips > 0:
            exchange_and_solve[groups(int(lu.shape[0]) * strips), self.layout.items](
                lu, moves[:, :, : 2 * panel], triangles, where, STRIP=_STRIP, COUNT=panel
            )

    def _change_next(self, first: int, last: int, following: int) -> None:
        self._change_right(first, last, last, following)

    def _change_right(self, first: int, last: int, begin: int, end: int) -> None:
        """What a block of columns that is done does to some right of it."""
        if begin < end:
            self._exchange_block(first, last, begin, end)
            lu = self.factors.lu
            triangle, rows = lu[:, first:last, first:last], lu[:, first:last, begin:end]
            solved_in_place(self.device, triangle, rows, _UNIT_LOWER, self.layout)
            _change(self.device, lu, (first, last), (begin, end))

    def _exchange_block(self, first: int, last: int, begin: int, end: int) -> None:
        """Rows change places in some columns, as all panels of a block have it."""
        batch, m, n = (int(x) for x in self.factors.lu.shape)
        share = share_for(self.device, batch, m - first, self.kind)
        assert share is not None
        assert self.held is not None
        panel = share.holding.panel
        moves = self.held.moves[first // self.layout.wide % 2]
        self._exchange_held(moves[:, : -(-(last - first) // panel)], (n, n, begin, end), panel)

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
        _change(self.device, self.factors.lu, (first, middle), (middle, stop))
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
        _exchange(self.device, lu, pivots, ((first, stop), (first, stop)), layout)


def _nothing(*_: int) -> None:
    """What panels in registers do to the next one: it takes them into account when it is loaded."""


def _change(device: Device, lu: Any, done: tuple[int, int], columns: tuple[int, int]) -> None:
    """What columns that are done leave of some right of them, below their U."""
    (first, last), (begin, end) = done, columns
    if begin < end:
        above = lu[:, first:last, begin:end]
        subtract_product(device, lu[:, last:, begin:end], lu[:, last:, first:last], above)
