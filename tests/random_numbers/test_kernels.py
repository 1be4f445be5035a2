"""``kl.random``: the numbers of Philox, as its authors published them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import Device

from .philox import blocks

KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pt.kernel
def known(counters: Any, keys: Any, out: Any) -> None:
    i = kl.global_id(0)
    words = kl.random.philox(
        counters[i, 0], counters[i, 1], counters[i, 2], counters[i, 3], keys[i, 0], keys[i, 1]
    )
    for w in kl.static_range(4):
        out[i, w] = words[w]


@pt.kernel
def estimate(hits: Any, seed: Any) -> None:
    i = kl.global_id(0)
    x, y, u, v = kl.random.uniform(seed, i, 3)
    hits[i] = kl.where(x * x + y * y < 1, 1, 0) + kl.where(u * u + v * v < 1, 1, 0)


def test_words_are_those_of_the_paper(device: Device) -> None:
    counters, keys, words = (np.array(part, np.uint32) for part in zip(*KNOWN, strict=True))
    out = pt.asarray(np.zeros((3, 4), np.uint32), device=device)
    known[3, 1](pt.asarray(counters, device=device), pt.asarray(keys, device=device), out)
    assert np.array_equal(pt.to_numpy(out), words)


def test_a_kernel_draws_its_own(device: Device) -> None:
    hits = pt.asarray(np.zeros(64, np.int32), device=device)
    estimate[64, 32](hits, np.uint64(2**40 + 5))
    x, y, u, v = (blocks(2**40 + 5, 0, 64, 3) >> np.uint32(8)).T * 2.0**-24
    expected = (x * x + y * y < 1).astype(int) + (u * u + v * v < 1)
    assert np.array_equal(pt.to_numpy(hits), expected)


@pytest.mark.parametrize("word", ["bits", "uniform", "uniform64", "normal", "normal64"])
def test_words_say_what_they_are(word: str) -> None:
    assert getattr(kl.random, word).__doc__
