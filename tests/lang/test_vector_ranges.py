"""Loops over whole vectors, and over what is left of a range: `kl.vector_range`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import Device
from tests.support.launch import run
from tests.support.refusals import F32, INT, refused

BOUNDS = [(0, 0), (0, 1), (0, 3), (0, 4), (1, 12), (3, 19), (5, 3), (19, 2), (7, 7)]


@pt.kernel
def visited(x, bounds, out, *, LANES):
    """Twice each element, and how many lanes it was in; rounds from 11 on are left out.

    The names are those of the translator's own parameters, with which users' must not be confused.
    """
    for node in range(out.shape[0]):
        for over, kind in kl.vector_range(bounds[node, 0], bounds[node, 1], lanes=LANES):
            if over == 11:
                continue
            kl.vstore(out, node, over, 2 * kl.vload(x, over, lanes=kind) + 100 * kind)


@pytest.mark.parametrize("lanes", [1, 4])
def test_vectors_and_then_what_is_left(device: Device, lanes: int) -> None:
    x = np.arange(20, dtype=np.int32)
    expected = np.zeros((len(BOUNDS), 20), np.int32)
    for row, (start, stop) in enumerate(BOUNDS):
        middle = start + max(stop - start, 0) // lanes * lanes
        for i in (*range(start, middle, lanes), *range(middle, stop)):
            width = lanes if i < middle else 1
            if i != 11:
                expected[row, i : i + width] = 2 * x[i : i + width] + 100 * width
    bounds = np.array(BOUNDS, np.int32)
    out = np.zeros_like(expected)
    *_, found = run(device, visited[1, 1], x, bounds, out, LANES=lanes)
    np.testing.assert_array_equal(found, expected)


@pt.function
def folded(values, lanes):
    total = values[0]
    for lane in kl.static_range(1, lanes):
        total = total + values[lane]
    return total


@pt.kernel
def carried(x, out, first, *, LANES):
    """A number that goes on from loop to loop, ranges of one argument, of u32, and in helpers."""
    total, rounds = 0, kl.u32(0)
    for i, lanes in kl.vector_range(x.shape[0], lanes=LANES, unroll=1):
        total = total + folded(kl.vload(x, i, lanes=lanes), lanes)
        rounds += 1
    out[0], out[1] = total, kl.i32(rounds)
    for i, lanes in kl.vector_range(kl.u32(first), kl.u32(x.shape[0]), lanes=3):
        for u in kl.static_range(lanes):
            out[2] = 10 * out[2] + x[i + u]
    spread = kl.splat(kl.i32(1), LANES)
    for i, lanes in kl.vector_range(2, lanes=2):  # vectors across it have other lanes
        for _ in kl.static_range(lanes):
            spread = spread * 2 + x[i]
    out[3] = spread[LANES - 1]


def test_what_is_carried_along(device: Device) -> None:
    x = np.arange(1, 7, dtype=np.int32)
    _, found = run(device, carried[1, 1], x, np.zeros(4, np.int32), 2, LANES=4)
    np.testing.assert_array_equal(found, [21, 3, 3456, 7])
    _, found = run(device, carried[1, 1], x, np.zeros(4, np.int32), 9, LANES=4)
    np.testing.assert_array_equal(found, [21, 3, 0, 7])


@pt.function
def more(sums, x):
    return sums + x


def summed(x, n):
    total = kl.splat(kl.f32(0), 8)
    for i, lanes in kl.vector_range(n, lanes=8):
        total = total * x[0] + kl.vload(x, i, lanes=lanes)  # here
    kl.vstore(x, 0, total)


def summed_by_helper(x, n):
    total = kl.splat(kl.f32(0), 8)
    for i, lanes in kl.vector_range(n, lanes=8):
        total = more(total, kl.vload(x, i, lanes=lanes))
    kl.vstore(x, 0, total)


def widened(x, n):
    total = kl.f32(0)
    for i, lanes in kl.vector_range(n, lanes=8):
        total = kl.maximum(total, kl.vload(x, i, lanes=lanes))  # here
    kl.vstore(x, 0, total)


def kept(x, n):
    last = kl.splat(kl.f32(0), 8)
    for i, lanes in kl.vector_range(n, lanes=8):
        last = kl.vload(x, i, lanes=lanes)  # here
    kl.vstore(x, 0, last)


def chosen(x, n):
    last = kl.splat(kl.f32(0), 8)
    for i, lanes in kl.vector_range(n, lanes=8):
        last = kl.where(kl.vload(x, i, lanes=lanes) > 0, last, -last)  # here
    kl.vstore(x, 0, last)


def stored(x, n):
    sums = kl.private(1, kl.f32, lanes=8)
    for i, lanes in kl.vector_range(n, lanes=8):
        sums[0] = kl.vload(x, i, lanes=lanes)  # here
    kl.vstore(x, 0, sums[0])


@pytest.mark.parametrize(
    ("function", "name"),
    [(summed, "total"), (widened, "total"), (kept, "last"), (chosen, "last"), (stored, "sums")],
)
def test_vectors_that_would_take_one_number(function: Callable[..., Any], name: str) -> None:
    error = str(refused(function, F32, INT))
    assert f"{name} has 8 lanes, and here takes one number" in error
    assert "folding" in error


def test_vectors_that_would_take_one_number_in_a_helper() -> None:
    with pytest.raises(AssertionError, match="total has 8 lanes(.|\n)*in more, called at"):
        refused(summed_by_helper, F32, INT)


def left(x, n):
    for i, lanes in kl.vector_range(n, lanes=8):
        if x[i] > 0:
            break  # here
        x[i] = lanes


def one_name(x, n):
    for i in kl.vector_range(n, lanes=8):  # here
        x[i] = 1


def no_constant(x, n):
    for i, lanes in kl.vector_range(8, lanes=n):  # here kl.vector_range
        x[i] = lanes


def comprehended(x, n):
    x[0] = [i for i, _ in kl.vector_range(8, lanes=2)][0]  # noqa: RUF015  # here


def after(x, n):
    for i, lanes in kl.vector_range(n, lanes=2):
        x[i] = lanes
    x[0] = lanes  # here lanes


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (left, "break in a loop over kl.vector_range, which becomes two loops"),
        (one_name, "kl.vector_range gives two names: for i, lanes in"),
        (no_constant, "takes a positive constant as lanes, not a number of type"),
        (comprehended, "a comprehension runs over a tuple, not the range of a loop"),
        (after, "belongs to the loop"),
    ],
)
def test_what_is_refused(function: Callable[..., Any], reason: str) -> None:
    assert reason in str(refused(function, F32, INT))
