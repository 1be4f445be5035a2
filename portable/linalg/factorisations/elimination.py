"""LU with partial pivoting of matrices on their device, and systems solved by it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType
from portable.lang.launch.geometry import groups
from portable.linalg.dense.kernels import clear
from portable.linalg.factorisations.ahead import look_ahead
from portable.linalg.factorisations.holding import Share, share_for
from portable.linalg.factorisations.layout import PANEL, WIDE, Layout, layout_of
from portable.linalg.factorisations.matrices import (
    batch_of,
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
from portable.linalg.factorisations.slice_kernels import eliminate_slices, exchange
from portable.linalg.factorisations.triangle_kernels import UPPER_TRIANGLE, Triangle
from portable.linalg.factorisations.triangles import solved_in_place
from portable.linalg.products.repeats import cached_plan, repeated
from portable.tune.ways import Way, Ways

_UNIT_LOWER: Final = Triangle(backward=False, turned=False, conjugate=False, unit=True)
_LINE: Final = 64
_STRIP: Final = 16
"""Columns that a workgroup exchanges rows in at most."""

_WORKERS_OF_SINGLES: Final = 120
"""Workgroups that have slices of single columns in turn: each takes all those before it into
account, which are so many that this is what takes long."""

_VECTORS: Final = 2
"""Vectors of a panel's row: of four elimination took a tenth longer."""

_STRIP_BYTES: Final = 32 << 10
"""What they may have in local memory."""


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


def eliminated(device: Device, a: Any, kind: DType) -> Eliminated:
    """The factors of matrices that are not empty.

    Parameters
    ----------
    device : Device
        Where.
    a : array, shape (..., m, n)
        The matrices.
    kind : DType
        What is computed in.
    """
    lead = lead_of(a.shape)
    m, n = (int(x) for x in a.shape[-2:])
    made = system(device, (batch_of((*lead, m, n)), m, n), kind)
    moved(device, a, made.factors.lu, from_lead=lead)
    made.run()
    return made.factors


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

    def made() -> System:
        elimination = ELIMINATIONS.first(Asked(device, size, kind, columns))
        lu, pivots, failures = elimination.factors
        factors = Eliminated(lu[:, :, :n], pivots, failures)
        sides = lu[:, :, n:] if columns else None

        def run() -> None:
            elimination.run()
            if columns:
                solved_in_place(device, factors.lu, sides, UPPER_TRIANGLE, elimination.layout)

        return System(factors, sides, repeated(device, run))

    return cached_plan(device, key, made, room)


def factored_system(device: Device, size: tuple[int, int], kind: DType, columns: int) -> System:
    """Room for factors of so many matrices of an order, and right-hand sides, to be solved for."""
    batch, n = size
    key, room = ("factored", size, kind, columns), batch * n * (n + columns) * kind.itemsize

    def made() -> System:
        pivots = device.empty((batch, n), kl.i32)
        factors = Eliminated(workspace(device, batch, n, n, kind), pivots, None)
        sides = workspace(device, batch, n, columns, kind)
        layout = layout_of(kind, device.capabilities)

        def run() -> None:
            _exchange(device, sides, pivots, ((0, n), (0, 0)), layout)
            for which in (_UNIT_LOWER, UPPER_TRIANGLE):
                solved_in_place(device, factors.lu, sides, which, layout)

        return System(factors, sides, repeated(device, run))

    return cached_plan(device, key, made, room)


def _exchange(
    device: Device, a: Any, pivots: Any, where: tuple[tuple[int, int], ...], layout: Layout
) -> None:
    """Rows change places as pivots of some columns have it, in all columns but some."""
    strip = layout.strip if device.capabilities.single_work_items else 1
    strips = -(-int(a.shape[2]) // strip)
    exchange_rows[int(a.shape[0]) * strips, layout.items](
        a, pivots, *where, strips, STRIP=strip, LANES=layout.lanes
    )


# -- the factorisation ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Elimination(ABC):
    """A factorisation, and what it works with."""

    device: Device
    factors: Eliminated
    kind: DType
    layout: Layout

    @abstractmethod
    def run(self) -> None:
        """Enqueues it."""

    def solve(self, first: int, last: int, begin: int, end: int) -> None:
        """U right of a triangle of L, in some columns."""
        lu = self.factors.lu
        triangle, rows = lu[:, first:last, first:last], lu[:, first:last, begin:end]
        solved_in_place(self.device, triangle, rows, _UNIT_LOWER, self.layout)

    def change(self, done: tuple[int, int], columns: tuple[int, int]) -> None:
        """What columns that are done leave of some right of them, below their U."""
        ((first, last), (begin, end)), lu = (done, columns), self.factors.lu
        if begin < end:
            above = lu[:, first:last, begin:end]
            subtract_product(self.device, lu[:, last:, begin:end], lu[:, last:, first:last], above)


@dataclass(frozen=True)
class _InRegisters(_Elimination):
    """By panels whose columns registers hold, a slice of them a workgroup.

    Attributes
    ----------
    share : Share
        How columns are held.
    counts : array of i32, shape (batch * panels of all columns,)
        How many slices of panels are done.
    moves : array of i32, shape (2, batch, panels, 2 * panel, 2)
        Which rows are to go where, of the panels of two blocks.
    """

    share: Share
    counts: Any
    moves: Any

    @staticmethod
    def of(asked: Asked) -> _InRegisters:
        """That of matrices of a size."""
        device, (batch, m, n), kind, further = asked
        layout, share = layout_of(kind, device.capabilities), share_for(device, batch, m, kind)
        assert share is not None
        lu, least = turned(workspace(device, batch, n + further, m, kind)), min(m, n)
        panels = -(-min(WIDE, least) // share.panel)
        return _InRegisters(
            device,
            _factors(device, lu, least),
            kind,
            layout,
            share,
            device.empty((batch * -(-least // WIDE) * panels,), kl.i32),
            device.empty((2, batch, panels, 2 * share.panel, 2), kl.i32),
        )

    def run(self) -> None:
        """Enqueues it."""
        batch, _, n = (int(x) for x in self.factors.lu.shape)
        clear[batch, _LINE](self.factors.failures)
        clear[int(self.counts.shape[0]), _LINE](self.counts)

        def near(first: int, last: int, following: int) -> None:
            begin = first if self._is_panel(first, last) else last
            self._change_right((first, last), (last, following), begin)

        def far(first: int, last: int, following: int) -> None:
            own = following == last and self._is_panel(first, last)
            self._exchange(self._moves(first, last), 0, last if own else first)
            self._change_right((first, last), (following, n), following)

        columns = 0, int(self.factors.pivots.shape[1])
        look_ahead(self.device, columns, WIDE, self._block, (near, far))

    def _block(self, first: int, last: int) -> None:
        """Factors some columns by panels; rows change places in these alone, or of one panel later.

        They do so then in a launch with the columns right of it.
        """
        (lu, pivots, failures), panel = self.factors, self.share.panel
        batch, m = (int(x) for x in lu.shape[:2])
        each = int(self.moves.shape[2])
        for number, start in enumerate(range(first, last, panel)):
            stop, holding = min(start + panel, last), self.share.holding(m - start)
            moves = self._moves(first, last)[:, number : number + 1]
            most = _WORKERS_OF_SINGLES if holding.columns == 1 else 0
            workers = self.share.workers(stop - start, holding, most)
            eliminate_slices[groups(batch * workers), holding.items](
                lu, pivots, failures, moves[:, 0], self.counts,
                (start, stop, first // WIDE * each + number, workers), HOLDING=holding,
            )  # fmt: skip
            if not self._is_panel(first, last):
                self._exchange(moves, first, last)
            if stop < last:
                self.solve(start, stop, stop, last)
                self.change((start, stop), (stop, last))

    def _is_panel(self, first: int, last: int) -> bool:
        """Whether a block of columns is one panel."""
        return last - first <= self.share.panel

    def _moves(self, first: int, last: int) -> Any:
        """Those of a block's panels."""
        count = -(-(last - first) // self.share.panel)
        return self.moves[first // WIDE % 2][:, :count]

    def _change_right(self, done: tuple[int, int], columns: tuple[int, int], begin: int) -> None:
        """What a block of columns that is done does to some right of it.

        Rows change places from the column `begin` on.
        """
        if columns[0] < columns[1]:
            self._exchange(self._moves(*done), begin, columns[1])
            self.solve(*done, *columns)
            self.change(done, columns)

    def _exchange(self, moves: Any, begin: int, end: int) -> None:
        """Rows change places in some columns, as panels have it."""
        lu, rows = self.factors.lu, int(moves.shape[2])
        strip = max(min(_STRIP, _STRIP_BYTES // (rows * self.kind.itemsize)), 1)
        strips = -(-(end - begin) // strip)
        if strips:
            exchange[groups(int(lu.shape[0]) * strips), self.layout.items](
                lu, moves, begin, end, STRIP=strip, ROWS=rows
            )


@dataclass(frozen=True)
class _ByHalves(_Elimination):
    """By halves of the columns, of which `room` holds the narrowest, (batch, m, panel)."""

    room: Any

    @staticmethod
    def of(asked: Asked) -> _ByHalves:
        """That of matrices of a size."""
        device, (batch, m, n), kind, further = asked
        layout = layout_of(kind, device.capabilities)
        layout = replace(layout, panel=max(PANEL, _VECTORS * layout.lanes))
        lu = workspace(device, batch, m, n + further, kind)
        room = device.empty((batch, m, layout.panel), kind)
        return _ByHalves(device, _factors(device, lu, min(m, n)), kind, layout, room)

    def run(self) -> None:
        """Enqueues it."""
        batch, _, n = (int(x) for x in self.factors.lu.shape)
        clear[batch, _LINE](self.factors.failures)
        least = int(self.factors.pivots.shape[1])
        self._columns(0, least)
        if n > least:
            self.solve(0, least, least, n)

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
        self.solve(first, middle, middle, stop)
        self.change((first, middle), (middle, stop))
        self._columns(middle, stop)

    def _panel(self, first: int, stop: int) -> None:
        layout, (lu, pivots, failures) = self.layout, self.factors
        eliminate_panel[groups(int(lu.shape[0])), layout.items](
            lu, self.room, pivots, failures, first, stop, LAYOUT=layout
        )
        _exchange(self.device, lu, pivots, ((first, stop), (first, stop)), layout)


def _factors(device: Device, lu: Any, count: int) -> Eliminated:
    """Room for exchanges, beside that for matrices."""
    batch = int(lu.shape[0])
    return Eliminated(lu, device.empty((batch, count), kl.i32), device.empty((batch,), kl.i32))


class Asked(NamedTuple):
    """What ways of eliminating are told: where, of which size (batch, m, n), computed in what.

    There are so many further columns behind these.
    """

    device: Device
    size: tuple[int, int, int]
    kind: DType
    further: int


ELIMINATIONS: Final = Ways[Asked, _Elimination](
    "elimination",
    Way(
        "in registers",
        "eliminate_slices exchange",
        lambda x: iter((_InRegisters.of(x),)),
        lambda x: share_for(x.device, x.size[0], x.size[1], x.kind) is not None,
    ),
    Way("by halves", "eliminate_panel exchange_rows", lambda x: iter((_ByHalves.of(x),))),
)
"""How matrices are eliminated with pivots."""
