"""Loops, branches, conditional expressions, tuples and helper functions."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import Device
from tests.support.launch import run

FACTOR = 3


@pt.kernel
def summed(out, start, stop, step):
    total = 0
    for k in range(start, stop, step):
        total = 10 * total + k
    out[0] = total


RANGES = [(0, 5, 1), (0, 7, 3), (5, 0, -1), (5, -3, -3), (3, 3, 1), (4, 0, 1)]
RANGES += [(0, 4, -1), (0, 9, 0)]


@pytest.mark.parametrize(("start", "stop", "step"), RANGES)
def test_ranges_with_run_time_bounds_and_steps(
    device: Device, start: int, stop: int, step: int
) -> None:
    expected = 0
    for k in range(start, stop, step) if step else ():
        expected = 10 * expected + k
    (found,) = run(device, summed[1, 1], np.zeros(1, np.int64), start, stop, step)
    assert found[0] == expected


@pt.kernel
def constant_ranges(out, n):
    for k in range(n, -1, -2):
        out[0] = 10 * out[0] + k
    for k in kl.range(n, unroll=4):
        out[1] = 10 * out[1] + k
    for k in range(3):
        out[2] += k
    for k in kl.static_range(4, 0, -1):
        out[3] = 10 * out[3] + k
    for k in (7, 1, 5):
        out[4] = 10 * out[4] + k
    for k in kl.range(5, unroll=-1):
        out[5] += k * k


def test_ranges_with_constant_steps(device: Device) -> None:
    (found,) = run(device, constant_ranges[1, 1], np.zeros(6, np.int32), 6)
    np.testing.assert_array_equal(found, [6420, 12345, 3, 4321, 715, 30])


@pt.kernel
def edges(out):
    for k in range(2147483640, 2147483647, 5):
        out[0] += 1
        out[1] = k
    for k in range(-2147483640, -2147483647, -5):
        out[2] += 1
        out[3] = k


def test_ranges_that_end_next_to_the_limits_of_their_type(device: Device) -> None:
    (found,) = run(device, edges[1, 1], np.zeros(4, np.int32))
    np.testing.assert_array_equal(found, [2, 2147483645, 2, -2147483645])


@pt.kernel
def collatz(x, out):
    i = kl.global_id(0)
    if i < x.shape[0]:
        n = x[i]
        steps = 0
        while n != 1:
            if steps >= 200:
                break
            steps += 1
            if n % 2 == 0:
                n //= 2
                continue
            n = 3 * n + 1
        out[i] = steps


def test_while_break_and_continue(device: Device) -> None:
    def steps(n: int) -> int:
        count = 0
        while n != 1 and count < 200:
            n, count = (n // 2 if n % 2 == 0 else 3 * n + 1), count + 1
        return count

    x = np.arange(1, 30, dtype=np.int32)
    _, found = run(device, collatz[29, 8], x, np.zeros(29, np.int32))
    np.testing.assert_array_equal(found, [steps(int(n)) for n in x])


@pt.kernel
def nested(out, n):
    for a in range(n):
        if a == 4:
            break
        for b in range(n):
            if b > a:
                break
            if b == 1:
                continue
            out[0] += 10 * a + b
        out[1] += 1
    forever = 0
    while True:
        forever += 1
        if forever == n:
            break
    out[2] = forever


def test_nested_loops(device: Device) -> None:
    total = sum(10 * a + b for a in range(4) for b in range(a + 1) if b != 1)
    (found,) = run(device, nested[1, 1], np.zeros(3, np.int32), 9)
    np.testing.assert_array_equal(found, [total, 4, 9])


@pt.kernel
def branches(x, out, *, MODE):
    i = kl.global_id(0)
    if i >= x.shape[0]:
        return
    v = x[i]
    if v < 0:
        kind = -1
        size = -v
    elif v == 0:
        kind = 0
        size = 0
    else:
        kind = 1
        size = v
    if MODE == "both":
        out[i] = 100 * kind + size
    elif MODE == "kind":
        out[i] = kind
    else:
        out[i] = no_such_name  # noqa: F821 - a branch not taken at compile time


@pytest.mark.parametrize("mode", ["both", "kind"])
def test_branches_at_run_time_and_at_compile_time(device: Device, mode: str) -> None:
    x = np.arange(-5, 6, dtype=np.int32)
    _, found = run(device, branches[11, 4], x, np.zeros(11, np.int32), MODE=mode)
    expected = np.sign(x) * 100 + np.abs(x) if mode == "both" else np.sign(x)
    np.testing.assert_array_equal(found, expected)


@pt.kernel
def guarded(index, x, out):
    i = kl.global_id(0)
    if i < index.shape[0]:
        k = index[i]
        inside = k >= 0 and k < x.shape[0]
        out[i, 0] = 1 if inside and x[k] > 0 else 0
        out[i, 1] = 1 if not inside or x[k] > 0 else 0
        out[i, 2] = x[k] if 0 <= k < x.shape[0] else -9
        out[i, 3] = 1 if (k == 2 or inside and x[k] == 4) and not k == 0 else 0
        out[i, 4] = 1 if -1 < k < x.shape[0] > 0 < x[k] else 0


def test_short_circuits_guard_loads(device: Device) -> None:
    index = np.array([-1, 0, 1, 2, 3, 4, 1000], np.int32)
    x = np.array([5, -5, 0, 4], np.int32)
    _, _, found = run(device, guarded[7, 8], index, x, np.zeros((7, 5), np.int32))
    inside = (index >= 0) & (index < 4)
    at = x[np.where(inside, index, 0)]
    np.testing.assert_array_equal(found[:, 0], inside & (at > 0))
    np.testing.assert_array_equal(found[:, 1], ~inside | (at > 0))
    np.testing.assert_array_equal(found[:, 2], np.where(inside, at, -9))
    np.testing.assert_array_equal(found[:, 3], ((index == 2) | inside & (at == 4)) & (index != 0))
    np.testing.assert_array_equal(found[:, 4], inside & (at > 0))


class Mode(Enum):
    PLAIN = 1
    FANCY = 2


@pt.kernel
def python_at_compile_time(x, out, *, mode):
    for d, extent in enumerate(x.shape):
        out[d] = extent
    for d, number in zip((2, 3), sorted((7, 5)), strict=True):
        out[d] = number
    for d in reversed((4, 5)):
        out[d] = 1 if mode == Mode.FANCY else 2


def test_pythons_own_functions_on_constants(device: Device) -> None:
    x = np.zeros((3, 5), np.float32)
    launch = python_at_compile_time[1, 1]
    _, found = run(device, launch, x, np.zeros(6, np.int32), mode=Mode.FANCY)
    np.testing.assert_array_equal(found, [3, 5, 5, 7, 1, 1])


@pt.kernel
def tuples(out, n):
    pair = (1, 2)
    for _ in range(n):
        pair = (pair[1], pair[0] + pair[1])
    a, b = pair
    a, b = b, a
    out[0] = a
    out[1] = b
    x = y = a + 1
    x += 5
    out[2] = x
    out[3] = y
    (p, (q, r)), s = (1, (2, 3)), 4
    out[4] = 1000 * p + 100 * q + 10 * r + s
    rest = (7, *pair, 9)
    out[5] = rest[0] + rest[-1] + len(rest)
    out[6] = pair[0] if n > 3 else pair[1]
    if n > 3:
        pair = (0, pair[0])
    out[7] = pair[1]


def test_tuples_of_scalars(device: Device) -> None:
    (found,) = run(device, tuples[1, 1], np.zeros(8, np.int32), 7)
    np.testing.assert_array_equal(found, [55, 34, 61, 56, 1234, 20, 34, 34])


@pt.function
def sign_of(x):
    if x < 0:
        return -1
    if x > 0:
        return 1
    return 0


@pt.function
def choose(x, *, twice=False):
    if twice:
        if x > 2:
            return 2 * x
    return x


@pt.function
def minmax(a, b):
    """A tuple, smaller first."""
    return (a, b) if a < b else (b, a)


@pt.function
def count_down(x):
    total = 0
    while x > 0:
        x -= 2
        total += 1
    return total


@pt.function
def scaled(x, by=FACTOR):
    return x * by


@pt.function
def power_of(x, n):
    return 1 if n == 0 else x * power_of(x, n - 1)


@pt.function
def put(row, value):
    row[0] = value
    if value > 1:
        return
    row[1] = value


@pt.kernel
def calls(x, out):
    i = kl.global_id(0)
    if i < x.shape[0]:
        v = x[i]
        out[i, 0] = sign_of(v)
        out[i, 1] = choose(v) + 100 * choose(v, twice=True)
        low, high = minmax(v, 3 - v)
        out[i, 2] = 10 * low + high
        out[i, 3] = count_down(v)
        out[i, 4] = scaled(v) + scaled(by=v, x=2)
        out[i, 5] = power_of(v, 3)
        put(out[i, 6:8], v)


def test_helper_functions(device: Device) -> None:
    x = np.arange(-2, 6, dtype=np.int32)
    _, found = run(device, calls[8, 4], x, np.zeros((8, 8), np.int32))
    for v, row in zip(x.tolist(), found.tolist(), strict=True):
        low, high = sorted((v, 3 - v))
        assert row == [
            (v > 0) - (v < 0),
            v + 100 * (2 * v if v > 2 else v),
            10 * low + high,
            max(0, (v + 1) // 2),
            5 * v,
            v**3,
            v,
            0 if v > 1 else v,
        ]


@pt.function
def relu(x):
    return kl.maximum(x, 0)


@pt.function
def plain(x):
    return x


@pt.kernel
def mapped(f, x, out, *, AFTER=plain):
    i = kl.global_id(0)
    if i < x.shape[0]:
        out[i] = AFTER(f(x[i]))


def test_functions_as_arguments(device: Device) -> None:
    x = np.linspace(-1, 1, 9, dtype=np.float32)
    launcher = mapped[9, 4]
    _, positive = run(device, launcher, relu, x, np.zeros_like(x))
    _, same = run(device, launcher, plain, x, np.zeros_like(x))
    _, after = run(device, launcher, plain, x, np.zeros_like(x), AFTER=relu)
    np.testing.assert_array_equal(positive, np.maximum(x, 0))
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(after, positive)


@pt.kernel
def truths(n, out):
    i = kl.global_id(0)
    out[i] = 0
    if n[i] % 2:
        out[i] += 1
    out[i] += 10 if n[i] & 4 else 20
    left = n[i]
    while left:
        left = left // 2
        out[i] += 100
    if not n[i]:
        out[i] += 1000


@pytest.mark.parametrize("kind", [np.int32, np.uint8, np.int64])
def test_integers_are_conditions(device: Device, kind: Any) -> None:
    """As in Python: all but 0 hold."""
    n = np.arange(9, dtype=kind)
    _, found = run(device, truths[9], n, np.ones(9, np.int32))
    expected = [
        (i % 2) + (10 if i & 4 else 20) + 100 * i.bit_length() + (0 if i else 1000)
        for i in range(9)
    ]
    assert found.tolist() == expected
