"""What workgroups that take turns tell each other: tickets, and totals in words with a mark.

Totals are published in pieces of 32 bits, each in one word with a mark above it, so that atomics
need no order. Lone work-items are workgroups too, to which none of this costs more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from portable import lang as kl
from portable.backend import Device
from portable.lang.function import function
from portable.primitives.base.recipe import Recipe
from portable.primitives.base.storage import ByQueue, stored
from portable.primitives.reductions.merging import CHAIN

# Running totals by levels, as numbers are counted by digits: no chain of additions becomes long.
#
# A total that goes on from element to element is rounded at each, and drifts. So a chain of
# additions ends after `CHAIN` of them; what it comes to goes to the first level, after `CHAIN`
# chains that level's total to the second, and so on. The total so far is that of all levels, the
# last one first: its error grows with the logarithm of the length, for a few additions in `CHAIN`.
# See `portable.primitives.reductions.merging` on sums.


def levels_over(chains: int) -> int:
    """In how many levels the totals of so many chains are kept, a constant of kernels."""
    return 1 if chains <= CHAIN else 1 + levels_over(-(-chains // CHAIN))


@function
def levels_of(nothing: kl.Scalar, COUNT: int) -> Any:
    """Totals of so many levels, of nothing yet."""
    return tuple([nothing for _ in range(COUNT)])


@function
def chain_added(levels: Any, number: kl.Scalar, total: Any, nothing: Any, op: Any) -> Any:
    """The levels' totals, the first level first, once the `number`-th chain came to `total`."""
    first = op(levels[0], total)
    if len(levels) == 1:
        return (first,)
    others = levels[1:]
    if number % CHAIN == CHAIN - 1:
        others = chain_added(others, number // CHAIN, first, nothing, op)
        first = nothing
    return (first, *others)


@function
def total_of_levels(levels: Any, op: Any) -> Any:
    """What all levels come to: small totals first, which are rounded less."""
    total = levels[0]
    for k in kl.static_range(1, len(levels)):
        total = op(levels[k], total)
    return total


# What workgroups that take turns at tiles tell each other by, from launch to launch.


def kept_state(recipe: Recipe, device: Device, numbers: int, itemsize: int) -> Any:
    """A word of 64 bits for tickets, and one for each 32 bits of so many numbers.

    They hold zeros before the first run of the recipe; each leaves them ready for the next, which
    is over arrays alike, in one queue.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    device : Device
        Where.
    numbers : int
        How many totals.
    itemsize : int
        Bytes of one.
    """
    words = np.zeros(1 + numbers * (itemsize // 4), np.uint64)
    return recipe.found(ByQueue(device, lambda: stored(device, device.from_numpy(words))))


# -- board kernels ---------------------------------------------------------------------------------

_LOW = 0xFFFFFFFF
"""The lower half of a word."""


@function
def drawn(state: kl.Array) -> Any:
    """A ticket for the first work-item: the number of a tile, above it that of the launch."""
    ticket = kl.cast(0, kl.u64)
    if kl.local_id(0) == 0:
        ticket = kl.atomic_add(state, 0, 1)
    return ticket


@function
def pieces_of(value: kl.Scalar, KIND: Any) -> Any:
    """The bits of a number, 32 at a time."""
    if KIND.is_complex:
        return (*pieces_of(kl.real(value), KIND.real), *pieces_of(kl.imag(value), KIND.real))
    if KIND.itemsize == 4:
        return (kl.cast(kl.bitcast(value, kl.u32), kl.u64),)
    bits = kl.bitcast(value, kl.u64)
    return (bits & _LOW, bits >> 32)


@function
def joined(words: kl.Array, first: int, KIND: Any) -> Any:
    """The number whose pieces are in the lower halves of `words` from `first` on."""
    if KIND.is_complex:
        real = joined(words, first, KIND.real)
        imag = joined(words, first + KIND.real.itemsize // 4, KIND.real)
        return kl.complex(real, imag)
    low = words[first] & _LOW
    if KIND.itemsize == 4:
        return kl.bitcast(kl.cast(low, kl.u32), KIND)
    return kl.bitcast(low | (words[first + 1] << 32), KIND)


@dataclass(frozen=True)
class Board:
    """Where tickets are drawn and totals are published.

    Attributes
    ----------
    state : array
        A word for the tickets, and behind it one for each piece of a total.
    draws : int
        How many tickets are drawn in a launch.
    mark : int
        That of this launch.
    kind : DType
        Of totals; a constant.
    apart : int
        How far the pieces of a total are apart; a constant.
    """

    state: Any
    draws: Any
    mark: Any
    kind: Any
    apart: Any

    def number_on(self, ticket: kl.Scalar) -> Any:
        """The tile on the first work-item's ticket; after the last ticket comes the next launch."""
        number = kl.workgroup_uniform(ticket) & _LOW
        if kl.local_id(0) == 0 and number + 1 == kl.cast(self.draws, kl.u64):
            kl.atomic_add(self.state, 0, _LOW - number)
        return kl.cast(number, self.draws.dtype)

    def slot(self, number: kl.Scalar) -> Any:
        """The first word about a tile, behind that for the tickets."""
        return 1 + number * (self.kind.itemsize // 4)

    def publish(self, first: kl.Scalar, value: kl.Scalar) -> None:
        """Lets others see a total, whose pieces go to words from `first` on."""
        pieces = pieces_of(value, self.kind)
        for p in kl.static_range(len(pieces)):
            kl.atomic_store(self.state, first + p * self.apart, pieces[p] | (self.mark << 32))

    def looked_at(self, first: kl.Scalar, words: kl.Array, slot: int = 0, COUNT: int = 1) -> Any:
        """Whether so many totals have been published; their pieces go into `words`."""
        PIECES = COUNT * (self.kind.itemsize // 4)
        complete = True
        for p in kl.static_range(PIECES):
            words[slot + p] = kl.atomic_load(self.state, first + p * self.apart)
        for p in kl.static_range(PIECES):
            complete = complete & ((words[slot + p] >> 32) == self.mark)
        return complete


@function
def opened(state: kl.Array, draws: kl.Scalar, KIND: Any, STRIDE: int = 1) -> Any:
    """The board of a launch, and the number on this workgroup's first ticket."""
    ticket = drawn(state)
    mark = ((kl.workgroup_uniform(ticket) >> 32) + 1) & _LOW
    board = Board(state, draws, mark, KIND, STRIDE)
    return board, board.number_on(ticket)
