"""The engine: a matrix in stripes on its way to echelon form, panel by panel of 64 columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from portable import lang as kl
from portable import registry
from portable.backend import Device
from portable.gf2.elimination_kernels import (
    advance_stripes,
    apply_pivots,
    choose_pivots,
    combine_pivots,
)
from portable.gf2.layout_kernels import fill_words, from_stripes, to_stripes
from portable.gf2.matrix import BitMatrix
from portable.gf2.tuning import Shape, shape_for
from portable.lang.geometry import groups

__all__ = ["Elimination", "Order", "striped", "unstriped"]

_WORD: Final = 64
_LINE: Final = 256


@dataclass(frozen=True, slots=True)
class Order:
    """In which order columns are eliminated.

    Attributes
    ----------
    columns : int
        Of the matrix.
    backward : bool
        From the highest column to the lowest.
    """

    columns: int
    backward: bool

    @property
    def words(self) -> int:
        """Words of a row."""
        return -(-self.columns // _WORD)

    def place_of(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where columns stand: 64 times the panel, and the bit within its words."""
        return self._turned(np.asarray(column))

    def column_at(self, place: NDArray[np.int64]) -> NDArray[np.int64]:
        """The columns that stand at places, the inverse of `place_of`."""
        return self._turned(np.asarray(place))

    def _turned(self, x: NDArray[np.int64]) -> NDArray[np.int64]:
        word, bit = x // _WORD, x % _WORD
        if self.backward:
            return (self.words - 1 - word) * _WORD + bit
        return word * _WORD + (_WORD - 1 - bit)


def striped(matrix: BitMatrix, order: Order, width: int) -> Any:
    """A copy of a matrix in stripes of `width` words, in the order of elimination."""
    device, rows = matrix.device, matrix.shape[0]
    stripes = -(-order.words // width)
    work = device.empty((stripes, rows, width), kl.u64)
    if rows:
        to_stripes[(stripes * width, rows), _tile(device)](
            matrix.words, work, BACKWARD=order.backward
        )
    return work


def unstriped(work: Any, order: Order, device: Device, out: Any = None) -> Any:
    """The words of a matrix from its stripes, into `out` or a new array."""
    rows = int(work.shape[1])
    words = device.empty((rows, order.words), kl.u64) if out is None else out
    if rows and order.words:
        from_stripes[(order.words, rows), _tile(device)](work, words, BACKWARD=order.backward)
    return words


def _tile(device: Device) -> tuple[int, int]:
    """A workgroup of moves: a whole line of words, or a few of several rows."""
    return (16, min(16, device.capabilities.max_workgroup // 16))


class Elimination:
    """The state of an elimination, and the launches that bring it forward.

    Parameters
    ----------
    rows : BitMatrix
        The rows to be eliminated; it is copied.
    eliminators : BitMatrix or None
        Pivots that are there from the beginning, on the same device.
    leads : array of int64
        Of each eliminator, its first column in the order of elimination.
    order : Order
        Of the columns.
    panels : int, optional
        How many words' columns are eliminated, of the first; all of them if left out.
    reduced : bool
        Whether pivots' columns are eliminated from earlier pivots too.
    shape : Shape, optional
        The layout; the tuned one if left out.
    """

    def __init__(
        self,
        rows: BitMatrix,
        eliminators: BitMatrix | None,
        leads: NDArray[np.int64],
        order: Order,
        *,
        panels: int | None = None,
        reduced: bool = False,
        shape: Shape | None = None,
    ) -> None:
        self.device: Final = rows.device
        self.order: Final = order
        self.panels: Final = order.words if panels is None else panels
        self._shape: Final = shape or shape_for(self.device.capabilities)
        self._reduced: Final = reduced
        with registry.use(self.device):
            self._place(rows, eliminators, leads)

    def _place(
        self, rows: BitMatrix, eliminators: BitMatrix | None, leads: NDArray[np.int64]
    ) -> None:
        """Everything in the device's memory, in the order in which the kernels take it."""
        width, count = self._shape.width, self.panels
        self.work = striped(rows, self.order, width)
        held = None if eliminators is None or not eliminators.shape[0] else eliminators
        self._eliminators = (
            self.device.empty((1, 1, width), kl.u64)
            if held is None
            else striped(held, self.order, width)
        )
        owners = np.full(count * _WORD, -1, np.int32)
        owners[self.order.place_of(leads)] = np.arange(leads.size)
        self._owners = self.device.from_numpy(owners)
        self.rests = self._filled((rows.shape[0],), kl.i32, -1)
        self._sources = self.device.empty((count, _WORD), kl.i32)
        self._finals = self.device.empty((count, _WORD), kl.u64)
        self._combined = self.device.empty((count, _WORD), kl.u64)
        self._found = self.device.empty((count,), kl.u64)
        slots = 2 * width if self._shape.alone else 1
        self._bits = self.device.empty((slots, rows.shape[0]), kl.u64)

    def _filled(self, shape: tuple[int], kind: Any, value: int) -> Any:
        out = self.device.empty(shape, kind)
        fill_words[shape[0], _LINE](out, value)
        return out

    def run(self) -> None:
        """Eliminates all columns."""
        with registry.use(self.device):
            if self._shape.alone:
                for stripe in range(-1, -(-self.panels // self._shape.width)):
                    self._advance(stripe)
            else:
                self._made = self.device.empty(
                    (int(self.work.shape[0]), _WORD, self._shape.width), kl.u64
                )
                for panel in range(self.panels):
                    self._share(panel)

    def _advance(self, stripe: int) -> None:
        """Applies the pivots of a stripe, a workgroup to each stripe after it."""
        shape = self._shape
        count = int(self.work.shape[0]) - stripe - 1 if stripe >= 0 else 1
        if count <= 0:
            return
        advance_stripes[groups(count), 1](
            self.work, self._eliminators, self._owners, self.rests, self._sources,
            self._finals, self._combined, self._found, self._bits, stripe,
            K=shape.bits, W=shape.width, LANES=shape.lanes, BATCH=shape.batch,
            REDUCED=self._reduced,
        )  # fmt: skip

    def _share(self, panel: int) -> None:
        """Eliminates a panel, workgroups sharing each stripe from the panel's on."""
        shape, rows = self._shape, int(self.work.shape[1])
        stripes = int(self.work.shape[0]) - panel // shape.width
        blocks = -(-rows // shape.rows)
        choose_pivots[groups(1), shape.batch](
            self.work, self._eliminators, self._owners, self.rests, self._sources,
            self._finals, self._combined, self._found, panel,
            BATCH=shape.batch, REDUCED=self._reduced,
        )  # fmt: skip
        combine_pivots[groups(stripes + blocks), shape.workgroup](
            self.work, self._eliminators, self.rests, self._sources, self._finals,
            self._combined, self._found, self._bits, self._made, panel,
            K=shape.bits, W=shape.width, LANES=shape.lanes, ROWS=shape.rows,
            REDUCED=self._reduced,
        )  # fmt: skip
        apply_pivots[groups(blocks, stripes), shape.workgroup](
            self.work, self._bits, self._made, self._found, panel,
            K=shape.bits, W=shape.width, LANES=shape.lanes, ROWS=shape.rows,
        )  # fmt: skip

    def words(self, out: Any = None) -> Any:
        """The words of the rows as they are now."""
        with registry.use(self.device):
            return unstriped(self.work, self.order, self.device, out)

    def pivots(self) -> NDArray[np.int64]:
        """Of each row the column that it is the pivot of, -1 of others."""
        rests = self.device.to_numpy(self.rests).astype(np.int64)
        return np.where(rests < 0, -1, self.order.column_at(np.maximum(rests, 0)))
