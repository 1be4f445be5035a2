"""Kernels that fill arrays with random numbers: one block of four words a work-item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from portable.dtypes import uint32, uint64
from portable.lang import random
from portable.lang import words as kl
from portable.lang.function import function
from portable.lang.kernel import kernel


class Place(NamedTuple):
    """Where numbers come from: what `portable.lang.random` takes."""

    seed: Any
    block: Any
    stream: Any


@kernel
def fill(out: Any, first: Place, low: Any, size: Any, *, DRAW: Any) -> None:
    """``out[C i:C (i + 1)]`` of block i from the `first` on, C being ``DRAW.count``.

    Parameters
    ----------
    out : array
        In one dimension.
    first : Place
        The first block.
    low, size : number
        Told to ``DRAW.numbers``.
    DRAW : Floats or Integers
        What to draw.
    """
    i, COUNT = kl.global_id(0), DRAW.count
    if i * COUNT < out.shape[0]:
        origin = Place(first.seed, first.block + uint64(i), first.stream)
        numbers = DRAW.numbers(origin, low, size)
        if (i + 1) * COUNT <= out.shape[0]:
            kl.vstore(out, i * COUNT, kl.vector(*numbers))
        else:
            for lane in kl.static_range(COUNT):
                if i * COUNT + lane < out.shape[0]:
                    out[i * COUNT + lane] = numbers[lane]


@dataclass(frozen=True)
class Floats:
    """Numbers of a distribution; a constant of `fill`.

    Attributes
    ----------
    standard : Function
        The numbers of a block, as of `portable.lang.random.uniform`.
    moved : Function
        What becomes of each, by `low` and `size`: `scaled`, `between` or `lengthened`.
    count : int
        Of a block.
    """

    standard: Any
    moved: Any
    count: int

    def numbers(self, origin: Place, low: Any, size: Any) -> Any:
        """Those of a block."""
        return [self.moved(x, low, size) for x in self.standard(*origin)]


@function
def scaled(x: Any, low: Any, size: Any) -> Any:
    """From 0 to 1, or of the standard normal distribution: from `low`, `size` times as far."""
    return low + size * x


@function
def between(x: Any, low: Any, high: Any) -> Any:
    """From 0 to 1: from `low` to `high`, which may be further apart than the largest number."""
    return low * (1 - x) + high * x


@function
def lengthened(x: Any, low: Any, scale: Any) -> Any:
    """From 0 to 1: `low` and more, of an exponential distribution.

    At most ``16.7 scale`` more in f32, and ``36.8 scale`` in f64.
    """
    return low - scale * kl.log1p(-x)


@dataclass(frozen=True)
class Integers:
    """Whole numbers, `size` of them from `low` on; a constant of `fill`.

    D. Lemire, "Fast random integer generation in an interval", ACM TOMACS 29 (2019): the upper word
    of x * size, unless the lower one is among the few that would make some results likelier.

    Attributes
    ----------
    count : int
        Of a block: 4 of one word each, `size` in u32 and not 0, or 2 of two words, `size` in u64,
        0 meaning all 2**64.
    """

    count: int

    def numbers(self, origin: Place, low: Any, size: Any) -> Any:
        """Those of a block."""
        words = random.bits(*origin)
        lanes = range(0, 4, 4 // self.count)
        return [low + low.dtype(self.bounded(words, lane, origin, size)) for lane in lanes]

    def bounded(self, words: Any, lane: int, origin: Place, size: Any) -> Any:
        """A number below `size` from the words of a block, drawn again until it is fair."""
        x = self.word(words, lane)
        attempt = uint32(0)
        if x * size < size:
            threshold = (size.dtype(0) - size) % size
            while x * size < threshold:
                attempt += 1
                x = self.word(random.bits(*origin, attempt), lane)
        upper = kl.mulhi(x, size)
        return upper if self.count == 4 else kl.where(size == 0, x, upper)

    def word(self, words: Any, lane: int) -> Any:
        """A u32, or a u64 of two."""
        if self.count == 4:
            return words[lane]
        return (uint64(words[lane]) << 32) | uint64(words[lane + 1])
