"""Blocks of Householder reflectors: made of matrices, and applied to others by products."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType
from portable.lang.launch.geometry import groups
from portable.linalg.dense.kernels import clear
from portable.linalg.factorisations.ahead import look_ahead
from portable.linalg.factorisations.holding import Share, share_for
from portable.linalg.factorisations.layout import WIDE, Layout, layout_of
from portable.linalg.factorisations.matrices import copied, turned, workspace
from portable.linalg.factorisations.products import multiplied, subtract_product
from portable.linalg.factorisations.reflector_panel_kernels import (
    factor_columns,
)
from portable.linalg.factorisations.reflector_slice_kernels import reflect_slices, start_factor
from portable.linalg.factorisations.triangle_kernels import Triangle
from portable.linalg.factorisations.triangles import solved_in_place
from portable.linalg.products.plan import beside_work
from portable.tune.ways import Way, Ways

_LINE: Final = 64
_FEWEST: Final = 16
"""Blocks of columns that a processor makes at least."""

_TILE: Final = (32, 8, 1)
_GRAM_FACTOR: Final = Triangle(backward=True, turned=True, conjugate=True, unit=False)
"""Of a Hermitian matrix, whose lower triangle lies the way it is read."""


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
    w : array, shape (batch, m, k)
        V T of each block.
    kind : DType
        Of the elements.
    wide : int
        Columns of a block.
    rooms : three arrays, shape (batch, wide, most columns)
        Where products lie meanwhile: the second is for what is done beside the making of a block,
        the others are for blocks, and for parts of those that are being made.
    """

    device: Device
    v: Any
    t: Any
    w: Any
    kind: DType
    wide: int
    rooms: tuple[Any, ...]

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

    def join(self, first: int, stop: int) -> None:
        """Makes V T of a block, which spares a product whenever it is applied."""
        t = self.t[:, first:stop, : stop - first]
        multiplied(self.device, self.w[:, first:, first:stop], self.v[:, first:, first:stop], t)

    def apply_block(self, first: int, stop: int, c: Any, *, adjoint: bool, room: int = 0) -> None:
        """The reflectors of a block, applied to rows from `first` on."""
        left, right = (x[:, first:, first:stop] for x in (self.w, self.v))
        if adjoint:
            left, right = right, left
        if 0 not in c.shape:
            products = self.rooms[room][:, : stop - first, : int(c.shape[2])]
            multiplied(self.device, products, right, c, adjoint=True)
            subtract_product(self.device, c, left, products)

    def apply_part(self, first: int, stop: int, c: Any) -> None:
        """The adjoint of reflectors of a part of a block, applied to rows from `first` on."""
        v, base = self.v[:, first:, first:stop], first % self.wide
        t = self.t[:, first:stop, base : base + stop - first]
        if 0 not in c.shape:
            products, shares = (x[:, : stop - first, : int(c.shape[2])] for x in self.rooms[::2])
            multiplied(self.device, products, v, c, adjoint=True)
            multiplied(self.device, shares, t, products, adjoint=True)
            subtract_product(self.device, c, v, shares)


@dataclass(frozen=True)
class Triangularisation(ABC):
    """What makes matrices of a size R, above their diagonals, in place.

    Attributes
    ----------
    work : array, shape (batch, m, n)
        The matrices; what is below the diagonal is of no more use afterwards.
    reflectors : Reflectors
        Of which they are Q R.
    layout : Layout
        The layout.
    grams : array, shape (batch, wide, wide)
        Products of a block's reflectors.
    panel : int
        Columns whose reflectors are made in one launch at most.
    """

    work: Any
    reflectors: Reflectors
    layout: Layout
    grams: Any
    panel: int

    @staticmethod
    def of(
        device: Device,
        size: tuple[int, int, int],
        kind: DType,
        columns: int = 0,
        *,
        work: Any = None,
        widest: int = 0,
    ) -> Triangularisation:
        """That of matrices of a size; the reflectors may be applied to so many columns.

        The matrices may be given where they lie, as `work`, and blocks have `widest` columns at
        least.
        """
        return PANELS.first(Asked(device, size, kind, columns, work, widest))

    @abstractmethod
    def make_panel(self, first: int, stop: int) -> None:
        """Makes the reflectors of a panel, and of their T the diagonal at least."""

    @abstractmethod
    def whole(self, first: int) -> int:
        """Columns from a place on whose T is made with their reflectors."""

    def units(self, first: int, stop: int) -> int:
        """Compute units that the making of a block has."""
        return 0

    def reflect(self, first: int, stop: int) -> None:
        """Makes the reflectors of a block by panels, of which each changes those after it."""
        for start in range(first, stop, self.panel):
            last = min(start + self.panel, stop)
            self.make_panel(start, last)
            if last < stop:
                self.factor(start, last)
                self.reflectors.apply_part(start, last, self.work[:, start:, last:stop])

    def factor(self, first: int, stop: int) -> None:
        """T of a block that was reflected at once, unless it was made then."""
        if stop - first > self.whole(first):
            self.join(first, stop)

    def join(self, first: int, stop: int) -> None:
        """T of a block, of its diagonal and the products of its reflectors.

        Its inverse has these above the diagonal, and reciprocals on it (T. Joffrain et al.,
        "Accumulating Householder transformations, revisited", ACM Trans. Math. Softw. 32 (2006)).
        """
        reflectors, width, base = self.reflectors, stop - first, first % self.reflectors.wide
        v, gram = reflectors.v[:, first:, first:stop], self.grams[:, :width, :width]
        t = reflectors.t[:, first:stop, base : base + width]
        multiplied(reflectors.device, gram, v, v, adjoint=True)
        start_factor[(width, width, int(t.shape[0])), _TILE](gram, t)
        solved_in_place(reflectors.device, gram, t, _GRAM_FACTOR, self.layout)

    def begin(self) -> None:
        """Forgets what was made before."""
        copied(self.reflectors.device, self.work[:, :0, :0], self.reflectors.t)

    def run(self) -> None:
        """Enqueues it."""
        reflectors = self.reflectors
        self.begin()
        n, count = int(self.work.shape[2]), int(reflectors.v.shape[2])

        def near(first: int, stop: int, following: int) -> None:
            self.change(first, stop, (stop, following), 0)

        def far(first: int, stop: int, following: int) -> None:
            with beside_work(self.units(stop, following)):
                self.change(first, stop, (following, n), 1)

        def make(first: int, stop: int) -> None:
            self.reflect(first, stop)
            self.factor(first, stop)
            reflectors.join(first, stop)

        look_ahead(reflectors.device, (0, count), reflectors.wide, make, (near, far))

    def change(self, first: int, stop: int, columns: tuple[int, int], room: int) -> None:
        """What reflectors do to some columns."""
        c = self.work[:, first:, columns[0] : columns[1]]
        self.reflectors.apply_block(first, stop, c, adjoint=True, room=room)


@dataclass(frozen=True)
class _InRegisters(Triangularisation):
    """By panels whose columns registers hold, a slice of them a workgroup.

    Attributes
    ----------
    share : Share
        How columns are held.
    counts : array of i32, shape (batch * panels of all columns,)
        How many slices of panels are done.
    block : int
        Columns of the blocks whose reflectors are made at a time.
    """

    share: Share
    counts: Any
    block: int

    @staticmethod
    def made(asked: Asked) -> _InRegisters:
        """That of matrices of a size."""
        common = _common(asked, _by_columns)
        device, (batch, m, n), kind, *_ = asked
        share, block = share_for(device, batch, m, kind), asked.widest or common[1].wide
        assert share is not None
        panels = -(-min(m, n) // block) * -(-block // share.panel)
        counts = device.empty((batch * panels,), kl.i32)
        return _InRegisters(*common, share.panel, share, counts, block)

    def begin(self) -> None:
        """Forgets what was made before."""
        clear[int(self.counts.shape[0]), _LINE](self.counts)
        super().begin()

    def make_panel(self, first: int, stop: int) -> None:
        """By slices, a workgroup each."""
        reflectors, (batch, m) = self.reflectors, (int(x) for x in self.work.shape[:2])
        can, holding = reflectors.device.capabilities, self.share.holding(m - first)
        workers = self.share.workers(stop - first, holding)
        number = first // self.block * -(-self.block // self.panel)
        number += first % self.block // self.panel
        teams = holding.items // can.sub_group_size if can.sub_group_size > 1 else 0
        reflect_slices[groups(batch * workers), holding.items](
            self.work, reflectors.v, reflectors.t, self.counts,
            (first, stop, first % reflectors.wide, number, workers),
            HOLDING=holding, TEAMS=teams,
        )  # fmt: skip

    def units(self, first: int, stop: int) -> int:
        """Of panels one after the other: those of the first one's slices, at most half of all."""
        if first == stop:
            return 0
        last = min(first + self.panel, stop)
        holding = self.share.holding(int(self.work.shape[1]) - first)
        workers = int(self.work.shape[0]) * self.share.workers(last - first, holding)
        return min(workers, self.reflectors.device.capabilities.compute_units // 2)

    def whole(self, first: int) -> int:
        """Those of a slice."""
        return self.share.holding(int(self.work.shape[1]) - first).columns


@dataclass(frozen=True)
class _InMemory(Triangularisation):
    """By panels in memory, of which a workgroup has one: `room`, (batch, m, panel)."""

    room: Any

    @staticmethod
    def made(asked: Asked) -> _InMemory:
        """That of matrices of a size."""
        common = _common(asked, workspace)
        (batch, m, _), panel = asked.size, common[2].panel
        return _InMemory(*common, panel, asked.device.empty((batch, m, panel), asked.kind))

    def make_panel(self, first: int, stop: int) -> None:
        """Column by column."""
        layout, reflectors = self.layout, self.reflectors
        factor_columns[groups(int(self.work.shape[0])), layout.items](
            self.work, reflectors.v, reflectors.t, self.room,
            (first, stop, first % reflectors.wide), LAYOUT=layout,
        )  # fmt: skip

    def whole(self, first: int) -> int:
        """Those of a panel."""
        return self.panel


def _by_columns(device: Device, batch: int, m: int, n: int, kind: DType) -> Any:
    """Room for matrices whose columns lie together: work-items hold rows of them."""
    return turned(workspace(device, batch, n, m, kind))


class Asked(NamedTuple):
    """What ways of making reflectors are told: where, of which size (batch, m, n), made in what.

    They may be applied to so many columns; the matrices are `work` unless that is None, and blocks
    have `widest` columns at least.
    """

    device: Device
    size: tuple[int, int, int]
    kind: DType
    columns: int
    work: Any = None
    widest: int = 0


def _common(asked: Asked, room: Callable[..., Any]) -> tuple[Any, Reflectors, Layout, Any]:
    """What all ways have, of matrices in such room."""
    device, (batch, m, n), kind, columns, work, widest = asked
    layout, count = layout_of(kind, device.capabilities), min(m, n)
    wide, most = layout.panel, count
    if device.capabilities.single_work_items:
        most = -(-count // _FEWEST)  # joining wide blocks is work that nobody waits beside
    while wide < max(min(WIDE, most), widest):
        wide *= 2
    if work is None:
        work = room(device, batch, m, n, kind)
    v = room(device, batch, m, count, kind)
    copied(device, work[:, :0, :0], v)
    t, w = room(device, batch, count, wide, kind), room(device, batch, m, count, kind)
    rooms = tuple(room(device, batch, wide, max(n, columns, 1), kind) for _ in range(3))
    grams = workspace(device, batch, wide, wide, kind)
    return work, Reflectors(device, v, t, w, kind, wide, rooms), layout, grams


PANELS: Final = Ways[Asked, Triangularisation](
    "panels of reflectors",
    Way(
        "in registers",
        "reflect_slices start_factor",
        lambda x: iter((_InRegisters.made(x),)),
        lambda x: share_for(x.device, x.size[0], x.size[1], x.kind) is not None,
    ),
    Way("in memory", "factor_columns", lambda x: iter((_InMemory.made(x),))),
)
"""How the reflectors of matrices are made."""
