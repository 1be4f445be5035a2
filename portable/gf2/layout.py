"""Where columns of a matrix stand in stripes, and the ways there and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from portable import lang as kl
from portable.backend import Device
from portable.gf2.blocks import nothing
from portable.gf2.matrix import BitMatrix
from portable.gf2.tuning import Shape
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups

# Kernels between rows of words, as users have them, and stripes in the order of elimination.
#
# In stripes the highest bit of the first word is eliminated first. That is the highest column of a
# matrix `BACKWARD`, whose words are in reverse order; else the lowest, and bits are reversed.

HALVES: Final = (
    (32, 0x00000000FFFFFFFF),
    (16, 0x0000FFFF0000FFFF),
    (8, 0x00FF00FF00FF00FF),
    (4, 0x0F0F0F0F0F0F0F0F),
    (2, 0x3333333333333333),
    (1, 0x5555555555555555),
)
"""Numbers of bits, and a word with the lower half of every twice as many bits set."""


@function
def reversed_bits(x: kl.Scalar) -> Any:
    """The word's bits from the last to the first."""
    for step, mask in HALVES:
        x = ((x >> step) & mask) | ((x & mask) << step)
    return x


@kernel
def to_stripes(
    words: kl.Array,
    work: kl.Array,
    first: kl.Scalar,
    turn: Any,
    *,
    shape: Shape,
    rows: int,
    backward: bool,
) -> None:
    """Words of rows to stripes, from place `first` on; what lies beyond them is zero.

    The stripes are `turn.first`, ``turn.first + turn.size`` and so on of all; a workgroup has so
    many `rows` of one.
    """
    s, lanes = kl.group_id(1), shape.lanes
    begin = (turn.first + s * turn.size) * shape.width - first
    last = kl.minimum((kl.group_id(0) + 1) * rows, words.shape[0])
    for row in range(kl.group_id(0) * rows + kl.local_id(1), last, kl.local_size(1)):
        for part in kl.static_range(0, shape.width, kl.local_size(0) * lanes):
            at = kl.local_id(0) * lanes + part
            position = begin + at
            if position >= 0 and position + lanes <= words.shape[1]:
                values = transposed_words(words, row, position, lanes, backward)
                kl.vstore(work, s, row, at, values)
            else:
                for i in kl.static_range(lanes):
                    if position + i >= 0:
                        word = kl.cast(0, kl.u64)
                        if position + i < words.shape[1]:
                            word = transposed_words(words, row, position + i, 1, backward)
                        work[s, row, at + i] = word


@function
def transposed_words(
    words: kl.Array, row: kl.Scalar, position: kl.Scalar, lanes: int, backward: bool
) -> Any:
    """The words of a row at some places in the order of elimination."""
    if not backward:
        return reversed_bits(kl.vload(words, row, position, lanes=lanes))
    values = kl.vload(words, row, words.shape[1] - lanes - position, lanes=lanes)
    return reversed_lanes(values, lanes)


@function
def reversed_lanes(words: kl.Scalar, lanes: int) -> Any:
    """The last lane first."""
    if lanes == 1:
        return words
    return kl.shuffle2(words, words, tuple(lanes - 1 - i for i in range(lanes)))


@kernel
def from_stripes(
    work: kl.Array,
    sources: kl.Array | None,
    words: kl.Array,
    first: kl.Scalar,
    parts: kl.Scalar,
    *,
    shape: Shape,
    rows: int,
    backward: bool,
) -> None:
    """The inverse: row i is row ``sources[i]`` of the stripes, empty for -1; None: row i.

    Stripe s is in part ``s % parts``; the parts follow each other.
    """
    stripe, lanes = first // shape.width + kl.group_id(1), shape.lanes
    held = stripe % parts * (work.shape[0] // parts) + stripe // parts
    last = kl.minimum((kl.group_id(0) + 1) * rows, words.shape[0])
    for row in range(kl.group_id(0) * rows + kl.local_id(1), last, kl.local_size(1)):
        source = row + 0
        if sources is not None:
            source = sources[row]
        for part in kl.static_range(0, shape.width, kl.local_size(0) * lanes):
            at = kl.local_id(0) * lanes + part
            position = stripe * shape.width + at - first
            values = nothing(lanes)
            if source >= 0:
                values = kl.vload(work, held, source, at, lanes=lanes)
            if position >= 0 and position + lanes <= words.shape[1]:
                put_transposed(words, row, position, values, lanes, backward)
            else:
                for i in kl.static_range(lanes):
                    if position + i >= 0 and position + i < words.shape[1]:
                        word = values[i] if lanes > 1 else values
                        put_transposed(words, row, position + i, word, 1, backward)


@function
def put_transposed(
    words: kl.Array,
    row: kl.Scalar,
    position: kl.Scalar,
    word: kl.Scalar,
    lanes: int,
    backward: bool,
) -> None:
    """Writes what `transposed_words` reads."""
    if backward:
        at = words.shape[1] - lanes - position
        kl.vstore(words, row, at, reversed_lanes(word, lanes))
    else:
        kl.vstore(words, row, position, reversed_bits(word))


@kernel
def begin_marks(marks: kl.Array, rows: kl.Scalar) -> None:
    """-1 to each of so many rows, and 0 to what follows."""
    i = kl.global_id(0)
    if i < marks.shape[0]:
        marks[i] = kl.where(i < rows, -1, 0)


@kernel
def find_beyond(work: kl.Array, rests: kl.Array, flags: kl.Array, first: kl.Scalar) -> None:
    """Marks rows that became no pivot and have ones in words from place `first` on."""
    row = kl.global_id(0)
    if row < rests.shape[0]:
        seen = kl.cast(0, kl.u64)
        if rests[row] < 0:
            for position in range(first, work.shape[0] * work.shape[2]):
                seen = seen | work[position // work.shape[2], row, position % work.shape[2]]
        flags[row] = kl.where(seen != 0, 1, 0)


@kernel
def take_rows(words: kl.Array, rows: kl.Array, units: kl.Array, out: kl.Array) -> None:
    """Row i of `out`: row ``rows[i]``, and a one at column ``units[i]``; -1 stands for neither."""
    word, row = kl.global_id(0), kl.global_id(1)
    if word < out.shape[1] and row < out.shape[0]:
        value = kl.cast(0, kl.u64)
        if rows[row] >= 0:
            value = words[rows[row], word]
        unit = units[row]
        if unit >= 0 and unit // 64 == word:
            value = value | (kl.cast(1, kl.u64) << kl.cast(unit % 64, kl.u64))
        out[row, word] = value


@kernel
def transpose_blocks(words: kl.Array, out: kl.Array) -> None:
    """The transpose, a workgroup to each block of 64 rows and a word.

    Quarters of a block off its diagonal change places, then those of its quarters, and so on
    (H. Warren, "Hacker's Delight", 7-3).
    """
    block = kl.local(64, kl.u64)
    items, item = kl.local_size(0), kl.local_id(0)
    word, top = kl.group_id(0), kl.group_id(1) * 64
    for i in range(item, 64, items):
        bits = kl.cast(0, kl.u64)
        if top + i < words.shape[0]:
            bits = words[top + i, word]
        block[i] = bits
    kl.barrier()
    for half, mask in HALVES:
        for pair in range(item, 32, items):
            i = pair // half * (2 * half) + pair % half
            moved = ((block[i] >> half) ^ block[i + half]) & mask
            block[i] = block[i] ^ (moved << half)
            block[i + half] = block[i + half] ^ moved
        kl.barrier()
    for i in range(item, 64, items):
        if word * 64 + i < out.shape[0]:
            out[word * 64 + i, kl.group_id(1)] = block[i]


@kernel
def random_words(
    words: kl.Array, columns: kl.Scalar, seed: kl.Scalar, density: kl.Scalar, *, STEPS: int
) -> None:
    """Bits that are ones with probability ``density / 2^STEPS``, zeros beyond `columns`.

    A random bit for each binary digit of the density, from the last: ones are added where the digit
    is 1, and taken where it is 0, so that each step halves the difference.
    """
    word, row = kl.global_id(0), kl.global_id(1)
    if word < words.shape[1] and row < words.shape[0]:
        index = kl.cast(row, kl.u64) * kl.cast(words.shape[1], kl.u64) + kl.cast(word, kl.u64)
        bits_so_far = kl.cast(0, kl.u64)
        for pair in kl.static_range(STEPS // 2):
            a, b, c, d = kl.random.bits(seed, index, pair)
            for half in kl.static_range(2):
                high, low = ((a, b), (c, d))[half]
                bits = (kl.cast(high, kl.u64) << 32) | kl.cast(low, kl.u64)
                adds = (density >> (2 * pair + half)) & 1 != 0
                bits_so_far = kl.where(adds, bits_so_far | bits, bits_so_far & bits)
        if density >> STEPS != 0:
            bits_so_far = kl.cast(0xFFFFFFFFFFFFFFFF, kl.u64)
        left = columns - word * 64
        if left < 64:
            bits_so_far = bits_so_far & ((kl.cast(1, kl.u64) << kl.cast(left, kl.u64)) - 1)
        words[row, word] = bits_so_far


# -- layout ----------------------------------------------------------------------------------------

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
        How many parts the stripes are of, one after the other: each of n has every n-th stripe.
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
