"""Kernels that fill arrays with random numbers: one block of four words a work-item."""

from __future__ import annotations

from typing import Any

from portable.dtypes import int64, uint32, uint64
from portable.lang import random
from portable.lang import words as kl
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = [
    "exponential32",
    "exponential64",
    "fill",
    "integers32",
    "integers64",
    "normal32",
    "normal64",
    "uniform32",
    "uniform64",
]


@kernel
def fill(
    out: Any, seed: Any, block: Any, stream: Any, low: Any, size: Any, *, DRAW: Any, COUNT: int
) -> None:
    """``out[COUNT i:COUNT (i + 1)]`` from block ``block + i``; `low` and `size` go to `DRAW`."""
    i = kl.global_id(0)
    if i * COUNT < out.shape[0]:
        numbers = DRAW(seed, block + uint64(i), stream, low, size)
        if (i + 1) * COUNT <= out.shape[0]:
            kl.vstore(out, i * COUNT, kl.vector(*numbers))
        else:
            for lane in kl.static_range(COUNT):
                if i * COUNT + lane < out.shape[0]:
                    out[i * COUNT + lane] = numbers[lane]


@function
def uniform32(seed: Any, index: Any, stream: Any, low: Any, size: Any) -> Any:
    """Four f32 from `low` to ``low + size``."""
    return [low + size * x for x in random.uniform(seed, index, stream)]


@function
def uniform64(seed: Any, index: Any, stream: Any, low: Any, size: Any) -> Any:
    """Two f64 from `low` to ``low + size``."""
    return [low + size * x for x in random.uniform64(seed, index, stream)]


@function
def normal32(seed: Any, index: Any, stream: Any, mean: Any, deviation: Any) -> Any:
    """Four f32 of a normal distribution."""
    return [mean + deviation * x for x in random.normal(seed, index, stream)]


@function
def normal64(seed: Any, index: Any, stream: Any, mean: Any, deviation: Any) -> Any:
    """Two f64 of a normal distribution."""
    return [mean + deviation * x for x in random.normal64(seed, index, stream)]


@function
def exponential32(seed: Any, index: Any, stream: Any, low: Any, scale: Any) -> Any:
    """Four f32, `low` and more, of an exponential distribution: at most ``16.7 scale`` more."""
    return [low - scale * kl.log1p(-x) for x in random.uniform(seed, index, stream)]


@function
def exponential64(seed: Any, index: Any, stream: Any, low: Any, scale: Any) -> Any:
    """Two f64, `low` and more, of an exponential distribution: at most ``36.8 scale`` more."""
    return [low - scale * kl.log1p(-x) for x in random.uniform64(seed, index, stream)]


# -- integers -------------------------------------------------------------------------------------
#
# D. Lemire, "Fast random integer generation in an interval", ACM TOMACS 29 (2019): the upper word
# of x * size, unless the lower one is among the few that would make some results likelier.


@function
def integers32(seed: Any, index: Any, stream: Any, low: Any, size: Any) -> Any:
    """Four i64 from `low` to ``low + size - 1``, `size` from 1 to 2**32 - 1 in u32."""
    words = random.bits(seed, index, stream)
    return [
        low + int64(bounded32(words, lane, seed, index, stream, size))
        for lane in kl.static_range(4)
    ]


@function
def bounded32(words: Any, lane: int, seed: Any, index: Any, stream: Any, size: Any) -> Any:
    """A number below `size` from word `lane` of a block, drawn again until it is fair."""
    x = words[lane]
    attempt = uint32(0)
    if x * size < size:
        threshold = (uint32(0) - size) % size
        while x * size < threshold:
            attempt += 1
            x = random.bits(seed, index, stream, attempt)[lane]
    return kl.mulhi(x, size)


@function
def integers64(seed: Any, index: Any, stream: Any, low: Any, size: Any) -> Any:
    """Two 64-bit integers from `low` on, `size` of them in u64; 0 means all 2**64."""
    words = random.bits(seed, index, stream)
    return [low + low.dtype(bounded64(words, lane, seed, index, stream, size)) for lane in (0, 2)]


@function
def bounded64(words: Any, lane: int, seed: Any, index: Any, stream: Any, size: Any) -> Any:
    """As `bounded32`, of words `lane` and ``lane + 1``."""
    x = joined(words[lane], words[lane + 1])
    attempt = uint32(0)
    if x * size < size:
        threshold = (uint64(0) - size) % size
        while x * size < threshold:
            attempt += 1
            again = random.bits(seed, index, stream, attempt)
            x = joined(again[lane], again[lane + 1])
    return kl.where(size == 0, x, kl.mulhi(x, size))


@function
def joined(high: Any, low: Any) -> Any:
    """A u64 of two u32."""
    return (uint64(high) << 32) | uint64(low)
