"""The engine: a matrix in stripes on its way to echelon form, panel by panel of 64 columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from portable import lang as kl
from portable import registry
from portable.backend import Device
from portable.gf2.election_kernels import State
from portable.gf2.elimination_kernels import (
    advance_stripes,
    apply_pivots,
    choose_pivots,
    combine_pivots,
)
from portable.gf2.layout_kernels import fill_words, find_beyond, from_stripes, to_stripes
from portable.gf2.matrix import BitMatrix
from portable.gf2.tuning import Shape, shape_for
from portable.lang.geometry import groups

__all__ = ["Elimination", "Order", "Progress", "striped", "unstriped"]

Progress = Callable[[float], None]
"""Is told which part of the work is done, from 0 to 1."""

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

    def turned(self, x: NDArray[np.int64]) -> NDArray[np.int64]:
        """Columns to places, which are 64 times the panel and the bit in its words; and back."""
        word, bit = x // _WORD, x % _WORD
        if self.backward:
            return (self.words - 1 - word) * _WORD + bit
        return word * _WORD + (_WORD - 1 - bit)


def striped(matrix: BitMatrix, order: Order, width: int, beside: BitMatrix | None = None) -> Any:
    """A copy of a matrix in stripes of `width` words, `beside` following word by word."""
    device, rows = matrix.device, matrix.shape[0]
    count = order.words + (0 if beside is None else Order(beside.shape[1], order.backward).words)
    stripes = max(-(-count // width), 1)
    work = device.empty((stripes, rows, width), kl.u64)
    if rows:
        to_stripes[(stripes * width, rows), _tile(device)](
            matrix.words, work, 0, BACKWARD=order.backward
        )
        if beside is not None and beside.shape[1]:
            to_stripes[(stripes * width - order.words, rows), _tile(device)](
                beside.words, work, order.words, BACKWARD=order.backward
            )
    return work


def unstriped(
    work: Any,
    order: Order,
    device: Device,
    *,
    rows: Any = None,
    first: int = 0,
    out: Any = None,
) -> Any:
    """The words of a matrix from its stripes, from word `first` on, into `out` or a new array.

    `rows` are the rows of the stripes to take, -1 for an empty one; all in order if left out.
    """
    if out is None:
        count = int(work.shape[1]) if rows is None else int(rows.shape[0])
        out = device.empty((count, order.words), kl.u64)
    if 0 not in out.shape:
        from_stripes[(int(out.shape[1]), int(out.shape[0])), _tile(device)](
            work, rows, out, first, BACKWARD=order.backward
        )
    return out


def _tile(device: Device) -> tuple[int, int]:
    """A workgroup of moves: some words of some rows."""
    return (16, min(16, device.capabilities.max_workgroup // 16))


class Elimination:
    """The state of an elimination, and the launches that bring it forward.

    Parameters
    ----------
    rows : BitMatrix
        The rows to be eliminated, not empty; it is copied.
    order : Order
        Of its columns.
    eliminators : BitMatrix, optional
        Pivots that are there from the beginning, on the same device.
    leads : array of int64, optional
        Of each eliminator, its first column in the order of elimination.
    beside : BitMatrix, optional
        What follows the columns of `rows`, in the same order, and is changed along with them.
    reduced : bool
        Whether pivots' columns are eliminated from earlier pivots too.
    shape : Shape, optional
        The layout; the tuned one if left out.
    """

    def __init__(
        self,
        rows: BitMatrix,
        order: Order,
        *,
        eliminators: BitMatrix | None = None,
        leads: NDArray[np.int64] | None = None,
        beside: BitMatrix | None = None,
        reduced: bool = False,
        shape: Shape | None = None,
    ) -> None:
        self.device: Final = rows.device
        self.order: Final = order
        self._shape: Final = shape or shape_for(self.device.capabilities)
        self._reduced: Final = reduced
        with registry.use(self.device):
            work = striped(rows, order, self._shape.width, beside)
            self.state: Final = self._placed(work, eliminators, leads)

    def _placed(
        self, work: Any, eliminators: BitMatrix | None, leads: NDArray[np.int64] | None
    ) -> State:
        """Everything in the device's memory, in the order in which the kernels take it."""
        empty, width = self.device.empty, self._shape.width
        panels, rows = self.order.words, int(work.shape[1])
        owners = np.full(panels * _WORD, -1, np.int32)
        held = empty((1, 1, width), kl.u64)
        if eliminators is not None and leads is not None and leads.size:
            owners[self.order.turned(leads)] = np.arange(leads.size)
            held = striped(eliminators, self.order, width)
        rests = empty((rows,), kl.i32)
        fill_words[rows, _LINE](rests, -1)
        return State(
            work=work,
            eliminators=held,
            owners=self.device.from_numpy(owners),
            rests=rests,
            sources=empty((panels, _WORD), kl.i32),
            finals=empty((panels, _WORD), kl.u64),
            reduced=empty((panels, _WORD), kl.u64),
            found=empty((panels,), kl.u64),
            bits=empty((2 * width if self._shape.alone else 1, rows), kl.u64),
        )

    # -- launches -------------------------------------------------------------------------------

    def run(self, progress: Progress | None = None) -> None:
        """Eliminates all columns; `progress` is told the part of the work that is done."""
        with registry.use(self.device):
            steps = self._stripe_each() if self._shape.alone else self._shared()
            for panels in steps:
                if progress is not None:
                    self.device.synchronize()
                    progress(1 - (1 - min(panels / self.order.words, 1.0)) ** 2)

    def _stripe_each(self) -> Iterator[int]:
        """Launches for all columns, a stripe at a time; gives the panels that are done."""
        for stripe in range(-1, -(-self.order.words // self._shape.width)):
            self._advance(stripe)
            yield (stripe + 1) * self._shape.width

    def _shared(self) -> Iterator[int]:
        """The same, a panel at a time; gives the panels that are done now and then."""
        stripes, width = int(self.state.work.shape[0]), self._shape.width
        made = self.device.empty((stripes, _WORD, width), kl.u64)
        for panel in range(self.order.words):
            self._share(made, panel)
            if (panel + 1) % width == 0:
                yield panel + 1

    def _advance(self, stripe: int) -> None:
        """Applies the pivots of a stripe, a workgroup to each stripe after it."""
        count = int(self.state.work.shape[0]) - stripe - 1 if stripe >= 0 else 1
        if count > 0:
            advance_stripes[groups(count), 1](
                self.state, stripe, stripe + 1, int(stripe >= 0), 1,
                shape=self._shape, reduced=self._reduced,
            )  # fmt: skip

    def _share(self, made: Any, panel: int) -> None:
        """Eliminates a panel, workgroups sharing each stripe from the panel's on."""
        shape, state, reduced = self._shape, self.state, self._reduced
        own = panel // shape.width
        stripes = int(state.work.shape[0]) - own
        blocks = -(-int(state.work.shape[1]) // shape.rows)
        choose_pivots[groups(1), shape.batch](state, own, panel, shape=shape, reduced=reduced)
        combine_pivots[groups(stripes + blocks), shape.workgroup](
            state, made, own, stripes, panel, shape=shape, reduced=reduced
        )
        apply_pivots[groups(blocks, stripes), shape.workgroup](state, made, own, panel, shape=shape)

    # -- results --------------------------------------------------------------------------------

    def pivots(self) -> NDArray[np.int64]:
        """Of each row the column that it is the pivot of, -1 of others."""
        rests = self.device.to_numpy(self.state.rests).astype(np.int64)
        return np.where(rests < 0, -1, self.order.turned(np.maximum(rests, 0)))

    def matrix(
        self, out: BitMatrix | None = None, rows: NDArray[np.int64] | None = None
    ) -> BitMatrix:
        """The rows as they are now, or those that `rows` names (-1: an empty one), in `out`."""
        return self._taken(0, self.order, out, rows)

    def beside(self, columns: int, rows: NDArray[np.int64]) -> BitMatrix:
        """The same of what stands beside the rows, of so many columns."""
        return self._taken(self.order.words, Order(columns, self.order.backward), None, rows)

    def _taken(
        self, first: int, order: Order, out: BitMatrix | None, rows: NDArray[np.int64] | None
    ) -> BitMatrix:
        device, held = self.device, None if out is None else out.words
        with registry.use(device):
            places = None if rows is None else device.from_numpy(rows.astype(np.int32))
            words = unstriped(self.state.work, order, device, rows=places, first=first, out=held)
        return BitMatrix(words, order.columns, device=device) if out is None else out

    def unreduced(self) -> NDArray[np.int64]:
        """Rows that became no pivot and are not empty in what stands beside them."""
        rows = int(self.state.work.shape[1])
        with registry.use(self.device):
            flags = self.device.empty((rows,), kl.i32)
            find_beyond[rows, _LINE](self.state.work, self.state.rests, flags, self.order.words)
            return np.flatnonzero(self.device.to_numpy(flags))
