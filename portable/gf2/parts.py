"""Eliminations of which a device holds some stripes: several processes, or batches of columns.

A process that holds a stripe chooses its pivots, for which it needs no other stripe, and tells all
how each row is changed by them: a word a row for 64 columns. The others apply that to the
stripes that they hold. Whatever the parts, the same is done to each stripe in the same order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from portable import lang as kl
from portable import registry
from portable.backend import Device
from portable.gf2.election_kernels import State
from portable.gf2.elimination import Order, striped, unstriped
from portable.gf2.elimination_kernels import (
    advance_stripes,
    apply_pivots,
    choose_pivots,
    combine_pivots,
)
from portable.gf2.matrix import BitMatrix
from portable.gf2.packing import Words
from portable.gf2.tuning import Shape
from portable.lang.geometry import groups

__all__ = ["Part", "Pivots", "words_held"]

_WORD: Final = 64


class Pivots(NamedTuple):
    """What is to be known of a stripe's pivots, on the host; the last fields of `State`."""

    rests: NDArray[np.int32]
    sources: NDArray[np.int32]
    finals: Words
    reduced: Words
    found: Words
    bits: Words

    @classmethod
    def empty(cls, rows: int, width: int) -> Pivots:
        """With room for the pivots of `width` panels."""
        return cls(
            np.empty(rows, np.int32),
            np.empty((width, _WORD), np.int32),
            np.empty((width, _WORD), np.uint64),
            np.empty((width, _WORD), np.uint64),
            np.empty(width, np.uint64),
            np.empty((width, rows), np.uint64),
        )

    def packed(self) -> NDArray[np.uint8]:
        """All of it as bytes."""
        return np.concatenate([np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in self])

    def unpacked(self, data: NDArray[np.uint8]) -> Pivots:
        """What `packed` gave of one of the same shape."""
        ends = np.cumsum([x.nbytes for x in self])
        parts = np.split(data, ends[:-1])
        like: list[NDArray[Any]] = list(self)
        made = (p.copy().view(x.dtype).reshape(x.shape) for p, x in zip(parts, like, strict=True))
        return Pivots(*made)


def words_held(held: Sequence[int], width: int, order: Order) -> NDArray[np.int64]:
    """The words of a row that stripes hold, ascending; the columns are taken from the highest."""
    places = [p for s in held for p in range(s * width, min((s + 1) * width, order.words))]
    return order.words - 1 - np.array(places[::-1], np.int64)


class Part:
    """Stripes of an elimination in the memory of one device.

    Parameters
    ----------
    rows, eliminators : array of uint64
        Their words that `words_held` names.
    owners : array of int32, shape (64 panels,)
        Of all columns; see `State`.
    held : sequence of int
        The numbers of the stripes, ascending.
    order : Order
        Of all columns, from the highest.
    device : Device
        Where.
    shape : Shape
        The layout.
    """

    def __init__(
        self,
        rows: Words,
        eliminators: Words,
        owners: NDArray[np.int32],
        held: Sequence[int],
        order: Order,
        device: Device,
        shape: Shape,
    ) -> None:
        self.held: Final = list(held)
        self.order: Final = order
        self.device: Final = device
        self.width: Final = shape.width
        self._shape: Final = shape
        self._rows: Final = len(rows)
        self._blank: Final = Pivots.empty(len(rows), shape.width)
        with registry.use(device):
            self._work = self._striped(rows)
            self._eliminators = self._striped(eliminators)
            self._owners = device.from_numpy(owners)

    def _striped(self, words: Words) -> Any:
        if not words.size:
            return self.device.empty((1, max(len(words), 1), self.width), kl.u64)
        order = Order(_WORD * words.shape[1], backward=True)
        matrix = BitMatrix.from_words(
            np.ascontiguousarray(words), order.columns, device=self.device
        )
        return striped(matrix, order, self.width)

    def _state(self, pivots: Pivots) -> State:
        """With what is known of a stripe's pivots, or room for it."""
        arrays = (self.device.from_numpy(x) for x in pivots)
        return State(self._work, self._eliminators, self._owners, *arrays)

    # -- what is done to stripes ----------------------------------------------------------------

    def choose(self, stripe: int, rests: NDArray[np.int32]) -> Pivots:
        """The pivots of a stripe that is held, to which those of all before have been applied.

        `rests` says which rows are pivots by now.
        """
        device, shape, own = self.device, self._shape, self.held.index(stripe)
        with registry.use(device):
            state = self._state(self._blank._replace(rests=rests))
            if shape.alone:
                advance_stripes[groups(1), 1](
                    state, stripe - 1, own, 0, 1, shape=shape, reduced=False
                )
            else:
                for panel in self._panels(stripe):
                    choose_pivots[groups(1), shape.batch](
                        state, own, panel, shape=shape, reduced=False
                    )
                    self._apply(state, panel, own, 1, notes=True)
            return Pivots(*(device.to_numpy(x) for x in state[-len(Pivots._fields) :]))

    def follow(self, stripe: int, pivots: Pivots, first: int, last: int) -> None:
        """Applies the pivots of a stripe to those held from number `first` on before `last`."""
        start, stop = bisect_right(self.held, first - 1), bisect_right(self.held, last - 1)
        if start >= stop:
            return
        with registry.use(self.device):
            state, count = self._state(pivots), stop - start
            if self._shape.alone:
                advance_stripes[groups(count), 1](
                    state, stripe, start, 1, 0, shape=self._shape, reduced=False
                )
            else:
                for panel in self._panels(stripe):
                    self._apply(state, panel, start, count, notes=False)

    def _panels(self, stripe: int) -> range:
        return range(stripe * self.width, min((stripe + 1) * self.width, self.order.words))

    def _apply(self, state: State, panel: int, first: int, count: int, *, notes: bool) -> None:
        """A panel's pivots to stripes that workgroups share."""
        shape = self._shape
        blocks = -(-self._rows // shape.rows)
        made = self.device.empty((int(self._work.shape[0]), _WORD, shape.width), kl.u64)
        combine_pivots[groups(count + blocks * notes), shape.workgroup](
            state, made, first, count, panel, shape=shape, reduced=False
        )
        apply_pivots[groups(blocks, count), shape.workgroup](state, made, first, panel, shape=shape)

    def blank(self) -> Pivots:
        """Room for a stripe's pivots."""
        return Pivots.empty(self._rows, self.width)

    def words(self) -> Words:
        """The words of the rows that are held, as they are now."""
        held = words_held(self.held, self.width, self.order)
        if not held.size or not self._rows:
            return np.empty((self._rows, held.size), np.uint64)
        order = Order(_WORD * held.size, backward=True)
        with registry.use(self.device):
            return self.device.to_numpy(unstriped(self._work, order, self.device))
