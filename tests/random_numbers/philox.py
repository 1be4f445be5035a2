"""Philox 4x32-10 in NumPy: what every device is held against."""

from __future__ import annotations

from typing import Any

import numpy as np

Words = np.ndarray[Any, Any]
LOW = np.uint64(0xFFFFFFFF)


def philox(counter: Words, key: Words) -> Words:
    """Words of shape (..., 4) of counters (..., 4) and keys (..., 2)."""
    c, k = counter.astype(np.uint64), key.astype(np.uint64)
    for _ in range(10):
        a, b = c[..., 0] * np.uint64(0xD2511F53), c[..., 2] * np.uint64(0xCD9E8D57)
        c = np.stack(
            [
                (b >> np.uint64(32)) ^ c[..., 1] ^ k[..., 0],
                b & LOW,
                (a >> np.uint64(32)) ^ c[..., 3] ^ k[..., 1],
                a & LOW,
            ],
            axis=-1,
        )
        k = (k + np.array([0x9E3779B9, 0xBB67AE85], np.uint64)) & LOW
    return c.astype(np.uint32)


def blocks(seed: int, first: int, count: int, stream: int = 0, attempt: int = 0) -> Words:
    """Words of shape (count, 4) of consecutive blocks."""
    counters = [
        [at & 0xFFFFFFFF, at >> 32, stream, attempt]
        for at in ((first + i) % 2**64 for i in range(count))
    ]
    key = np.array([seed & 0xFFFFFFFF, seed >> 32])
    return philox(np.array(counters, np.uint64).reshape(count, 4), key)


def lemire32(seed: int, block: int, lane: int, size: int) -> int:
    """A number below `size`, from a word of a block."""
    return _lemire(lambda attempt: int(blocks(seed, block, 1, 0, attempt)[0, lane]), size, 32)


def lemire64(seed: int, block: int, lane: int, size: int) -> int:
    """The same from two words."""

    def draw(attempt: int) -> int:
        high, low = blocks(seed, block, 1, 0, attempt)[0, lane : lane + 2]
        return int(high) << 32 | int(low)

    return _lemire(draw, size, 64)


def _lemire(draw: Any, size: int, width: int) -> int:
    attempt = 0
    while (draw(attempt) * size) % 2**width < 2**width % size:
        attempt += 1
    return draw(attempt) * size >> width
