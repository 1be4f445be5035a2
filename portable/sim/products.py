"""Multiplications of warpgroups, which run beside the work-items until these wait for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from portable.sim import report
from portable.sim.clocks import WARPGROUP, Clock
from portable.sim.copies import CopyGroup
from portable.sim.in_flight import PRODUCT
from portable.sim.launch import Site
from portable.sim.memory import Access
from portable.sim.values import Value

_ITEM: Final = np.arange(WARPGROUP)
_DEPTH_BYTES: Final = 32
"""Of an operand, along the sum."""
TF32: Final = np.uint32(0xFFFFE000)
"""Sign, exponent and 10 bits."""
_NO_NUMBER: Final = -(2**31)
"""What integer registers hold while sums are worked on."""


@dataclass(slots=True, eq=False)
class Product:
    """One instruction: 64 rows, so many columns, 32 bytes in depth.

    Attributes
    ----------
    site : Site
        The statement.
    registers : tuple of str
        Of the accumulator.
    factors : (Access, Access)
        The elements of the operands in local memory.
    values : (numpy.ndarray, numpy.ndarray) or None
        What was read of them: None until it is.
    """

    site: Site
    registers: tuple[str, ...]
    factors: tuple[Access, Access]
    values: tuple[Value, Value] | None = None

    def read(self) -> None:
        """Read the operands, at the latest when they are waited for."""
        if self.values is None:
            data = self.factors[0].buffer.data
            kind = np.int32 if data.dtype.kind == "i" else np.float32
            a, b = (f.buffer.data[f.offsets].astype(kind) for f in self.factors)
            if data.dtype == np.float32:  # whose lower bits are left out
                a, b = ((x.view(np.uint32) & TF32).view(np.float32) for x in (a, b))
            depth = _DEPTH_BYTES // data.dtype.itemsize
            self.values = a.reshape(-1, depth), b.reshape(-1, depth)

    def shares(self) -> Value:
        """What each register of each work-item gains: a row per register."""
        assert self.values is not None
        product = self.values[0] @ self.values[1].T
        i = np.arange(len(self.registers))[:, None]
        row = _ITEM // 32 * 16 + (_ITEM % 32 >> 2) + 8 * (i // 2 % 2)
        column = i // 4 * 8 + (_ITEM % 32 & 3) * 2 + i % 2
        values: Value = product[row, column]
        return values


class Products:
    """The multiplications of a workgroup under way, by warpgroup.

    Until all of a warpgroup's are waited for, its accumulators hold nothing that can be used.
    """

    __slots__ = ("_closed", "_fenced", "_held", "_open")

    def __init__(self) -> None:
        self._fenced: set[int] = set()
        self._open: dict[int, list[Product]] = {}
        self._closed: dict[int, list[list[Product]]] = {}
        self._held: dict[tuple[int, tuple[str, ...]], Value] = {}

    def fence(self, warpgroup: int) -> None:
        """What a warpgroup has written to registers is ordered before its multiplications."""
        self._fenced.add(warpgroup)

    def under_way(self, warpgroup: int, register: str) -> bool:
        """Whether a warpgroup has not waited for the multiplications that sum up in a register."""
        return any(key[0] == warpgroup and register in key[1] for key in self._held)

    @property
    def left(self) -> list[Product]:
        """Those that nothing has waited for."""
        closed = [product for groups in self._closed.values() for g in groups for product in g]
        return closed + [product for group in self._open.values() for product in group]

    def add(self, w: CopyGroup, warpgroup: int, product: Product) -> None:
        """A multiplication begins."""
        if warpgroup not in self._fenced and w.settings.copies:
            raise report.registers_unfenced(w, product.site)
        first = warpgroup * WARPGROUP
        for access in product.factors:
            access.made_by(first)
            shadow = access.buffer.shadow
            if shadow is not None:
                shadow.check(w, access, "read")
                w.proxies.check(w, access, "read")
                if shadow.flights is not None:
                    shadow.flights.begin(access, False, PRODUCT)
        if w.settings.completion == "early" or (
            w.settings.completion == "random" and w.launch.chance.random() < 0.5
        ):
            product.read()
        self._open.setdefault(warpgroup, []).append(product)
        self._hold(w, warpgroup, product.registers)

    def _hold(self, w: CopyGroup, warpgroup: int, registers: tuple[str, ...]) -> None:
        """Keep the sums apart; the registers hold no number meanwhile."""
        if (warpgroup, registers) in self._held:
            return
        rows = slice(warpgroup * WARPGROUP, (warpgroup + 1) * WARPGROUP)
        self._held[warpgroup, registers] = np.stack([w.env[name][rows] for name in registers])
        for name in registers:
            w.env[name] = w.env[name].copy()
            w.env[name][rows] = np.nan if w.env[name].dtype.kind == "f" else _NO_NUMBER

    def commit(self, warpgroup: int) -> None:
        """Close the group of those that have begun."""
        self._closed.setdefault(warpgroup, []).append(self._open.pop(warpgroup, []))

    def wait(self, w: CopyGroup, warpgroup: int, pending: int) -> None:
        """Wait for all groups but so many."""
        groups = self._closed.get(warpgroup, [])
        done, left = groups[: len(groups) - pending], groups[max(len(groups) - pending, 0) :]
        if not groups or (pending and len(groups) <= pending):
            return
        self._closed[warpgroup] = left
        finished = [product for group in done for product in group]
        for product in finished:
            product.read()
            self._held[warpgroup, product.registers] += product.shares()
        self._end(w, warpgroup, finished)
        if not left and not self._open.get(warpgroup):
            self._release(w, warpgroup)

    def _end(self, w: CopyGroup, warpgroup: int, finished: list[Product]) -> None:
        """The operands may be overwritten by whoever knows of the wait."""
        thread = w.launch.threads.warpgroups + warpgroup
        for product in finished:
            for access in product.factors:
                access.made_by(thread)
                shadow = access.buffer.shadow
                if shadow is not None:
                    if shadow.flights is not None:
                        shadow.flights.end(access, False)
                    shadow.record(w, access, "read")
        known = Clock(np.zeros_like(w.clock.common.floors))
        known.tell(w.number, thread, w.clock.time, w.clock.stride)
        w.clock.tick()
        first = warpgroup * WARPGROUP
        w.clock.acquire_together(np.arange(first, min(first + WARPGROUP, w.size)), known)

    def _release(self, w: CopyGroup, warpgroup: int) -> None:
        """The registers hold the sums again, and may be written to."""
        self._fenced.discard(warpgroup)
        rows = slice(warpgroup * WARPGROUP, (warpgroup + 1) * WARPGROUP)
        for key in [key for key in self._held if key[0] == warpgroup]:
            for name, value in zip(key[1], self._held.pop(key), strict=True):
                w.env[name] = w.env[name].copy()
                w.env[name][rows] = value
