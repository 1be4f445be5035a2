"""Where columns of a matrix stand in stripes, and the ways there and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from portable import lang as kl
from portable.backend import Device
from portable.gf2.layout_kernels import from_stripes, to_stripes
from portable.gf2.matrix import BitMatrix
from portable.gf2.tuning import Shape
from portable.lang.launch.geometry import groups

WORD: Final = 64
"""Columns of a panel, one in each bit of a word."""

_BLOCK: Final = 128
"""Rows that a workgroup moves."""


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
        return -(-self.columns // WORD)

    def by_place(self, x: NDArray[Any]) -> NDArray[Any]:
        """What is given for each column, of whole words, in the order of places."""
        words = x.reshape(self.words, WORD)
        return (words[::-1] if self.backward else words[:, ::-1]).ravel()

    def turned(self, x: NDArray[np.int64]) -> NDArray[np.int64]:
        """Columns to places, which are 64 times the panel and the bit in its words; and back."""
        word, bit = x >> 6, x & (WORD - 1)  # far quicker than to divide
        if self.backward:
            return (self.words - 1 - word) * WORD + bit
        return word * WORD + (WORD - 1 - bit)


class Turn(NamedTuple):
    """Which stripes are somebody's: ``first``, ``first + size``, and so on."""

    first: int = 0
    size: int = 1


def count_of_turn(words: int, shape: Shape, turn: Turn) -> int:
    """How many stripes each turn has, those beyond the last word included.

    Parameters
    ----------
    words : int
        Of a row.
    shape : Shape
        How wide stripes are.
    turn : Turn
        How many take turns.
    """
    return max(-(-words // (shape.width * turn.size)), 1)


def striped(
    matrix: BitMatrix,
    order: Order,
    shape: Shape,
    beside: BitMatrix | None = None,
    turn: Turn = Turn(),  # noqa: B008 - a tuple of numbers
    room: Any = None,
) -> Any:
    """A copy of a matrix in stripes, `beside` following word by word, in `room` or a new array.

    Of the stripes those whose turn it is are taken, as many of each turn: beyond the last stripe
    are zeros.

    Parameters
    ----------
    matrix : BitMatrix, shape (m, n)
    order : Order
        Of its columns.
    shape : Shape
        How stripes are laid out.
    beside : BitMatrix, shape (m, k), optional
        In the same order.
    turn : Turn
        Which stripes are taken.
    room : array of uint64, shape (stripes, max(m, 1), words), optional
        Where they go.
    """
    device, rows = matrix.device, matrix.shape[0]
    count = order.words + (0 if beside is None else Order(beside.shape[1], order.backward).words)
    stripes = count_of_turn(count, shape, turn)
    work = device.empty((stripes, max(rows, 1), shape.width), kl.u64) if room is None else room
    form = {"shape": shape, "rows": _BLOCK, "backward": order.backward}
    if rows:
        launch = to_stripes[groups(-(-rows // _BLOCK), stripes), shape.workgroup]
        launch(matrix.words, work, 0, turn, **form)
        if beside is not None and beside.shape[1]:
            launch(beside.words, work, order.words, turn, **form)
    return work


def unstriped(
    work: Any,
    order: Order,
    device: Device,
    shape: Shape,
    *,
    rows: Any = None,
    first: int = 0,
    out: Any = None,
    parts: int = 1,
) -> Any:
    """The words of a matrix from its stripes, into `out` or a new array.

    Parameters
    ----------
    work : array of uint64, shape (stripes, rows, words)
    order : Order
        Of the columns of the matrix.
    device : Device
        Where the stripes are.
    shape : Shape
        How they are laid out.
    rows : array of int32, optional
        The rows to take, -1 for an empty one; all in order if left out.
    first : int
        The word of the stripes that the matrix begins with.
    out : array of uint64, shape (rows, words of a row), optional
    parts : int
        How many parts the stripes are of, one after the other: each has every so manieth stripe.
    """
    if out is None:
        count = int(work.shape[1]) if rows is None else int(rows.shape[0])
        out = device.empty((count, order.words), kl.u64)
    if 0 not in out.shape:
        end = first + int(out.shape[1])
        stripes = -(-end // shape.width) - first // shape.width
        from_stripes[groups(-(-int(out.shape[0]) // _BLOCK), stripes), shape.workgroup](
            work, rows, out, first, parts, shape=shape, rows=_BLOCK, backward=order.backward
        )
    return out
