"""Adjoints of kernels with loops, local and private memory, and what workgroups do together."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import Device
from portable.gradients import kernels
from tests.support.differences import assert_gradients

pytestmark = pytest.mark.needs_float64
N = 19


def numbers(*shape: int, seed: int = 0, low: float = 0.2, high: float = 0.9) -> Any:
    return np.random.default_rng(seed).uniform(low, high, shape)


@pt.kernel
def products(a, b, out):
    i = kl.global_id(0)
    total = 0.0
    for j in range(a.shape[1]):
        total += a[i, j] * kl.sin(b[j])
    out[i] = total * total


def test_sums(device: Device) -> None:
    assert_gradients(device.name, products, N, numbers(N, 7), numbers(7), np.zeros(N))


@pt.kernel
def logistic(r, x, steps, out):
    i = kl.global_id(0)
    v = x[i]
    for _ in range(steps):
        v = r * v * (1 - v)
    out[i] = v


@pytest.mark.parametrize("steps", [0, 1, 6])
def test_values_that_rounds_hand_on(device: Device, steps: int) -> None:
    assert_gradients(device.name, logistic, N, 2.9, numbers(N), steps, np.zeros(N))


@pt.kernel
def two_loops(x, out):
    i = kl.global_id(0)
    v = x[i]
    for j in range(i % 4):
        u = v
        for k in range(j + 2):
            u = kl.sin(u) * v + 0.2 * x[(i + k) % x.shape[0]]
        v = v + 0.1 * u
    out[i] = v * v


def test_loops_in_loops(device: Device) -> None:
    assert_gradients(device.name, two_loops, N, numbers(N), np.zeros(N))


@pt.kernel
def newton(x, out):
    i = kl.global_id(0)
    v = 1.0
    n = 0
    while kl.abs(v * v - x[i]) > 0.01:
        v = 0.5 * (v + x[i] / v)
        n += 1
        if n > 20:
            break
    out[i] = v


def test_while(device: Device) -> None:
    assert_gradients(device.name, newton, N, numbers(N, low=1.5, high=9), np.zeros(N))


@pt.kernel
def jumps(x, out):
    i = kl.global_id(0)
    v = x[i]
    for j in range(9, -1, -2):
        if (i + j) % 3 == 0:
            continue
        v = v * x[(i + j) % x.shape[0]] + v
        if v > 3.0:
            break
        if v > 2.5:
            out[i] = v * v
            return
    out[i] = v


def test_jumps(device: Device) -> None:
    assert_gradients(device.name, jumps, N, numbers(N, low=0.5), np.zeros(N))


@pt.kernel
def returns_inside(x, out):
    i = kl.global_id(0)
    v = x[i]
    for j in range(4):
        for k in range(3):
            v = v * 1.1 + x[(i + j * k) % x.shape[0]] * v
            if v > 2.0:
                out[i] = v * x[i]
                return
            if v > 1.8:
                break
        else_ = v * v
        if else_ > 2.2:
            v = else_
    out[i] = v * v


def test_returns_from_loops(device: Device) -> None:
    assert_gradients(device.name, returns_inside, N, numbers(N), np.zeros(N))


@pt.kernel
def neighbour_list(start, which, x, out):
    i = kl.global_id(0)
    force = 0.0
    for at in range(start[i], start[i + 1]):
        d = x[which[at]] - x[i]
        force += d / (d * d + 0.1)
    out[i] = force * force


def test_neighbour_lists(device: Device) -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 6, N)
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    which = rng.integers(0, N, start[-1]).astype(np.int32)
    assert_gradients(device.name, neighbour_list, N, start, which, numbers(N), np.zeros(N))


@pt.kernel
def tiles(a, b, c, *, T):
    ta = kl.local((T, T + 1), a.dtype)
    tb = kl.local((T, T), b.dtype)
    r = kl.local_id(1)
    q = kl.local_id(0)
    row = kl.global_id(1)
    col = kl.global_id(0)
    acc = 0.0
    for k in range(0, a.shape[1], T):
        ta[r, q] = a[row, k + q] if row < a.shape[0] and k + q < a.shape[1] else 0.0
        tb[r, q] = b[k + r, col] if k + r < b.shape[0] and col < b.shape[1] else 0.0
        kl.barrier()
        for j in range(T):
            acc += ta[r, j] * tb[j, q]
        kl.barrier()
    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = acc * acc


def test_products_by_tiles(device: Device) -> None:
    a, b = numbers(7, 10), numbers(10, 6)
    assert_gradients(device.name, tiles, ((8, 8), (4, 4)), a, b, np.zeros((7, 6)), T=4)


@pt.kernel
def softmax(x, out):
    row = kl.group_id(0)
    lane = kl.local_id(0)
    value = x[row, lane]
    most = kl.workgroup_reduce(kl.maximum, value)
    weight = kl.exp(value - most)
    total = kl.workgroup_reduce(kl.add, weight)
    out[row, lane] = weight / total


def test_softmax(device: Device) -> None:
    assert_gradients(device.name, softmax, (pt.groups(5), 8), numbers(5, 8), np.zeros((5, 8)))


@pt.kernel
def scans(x, out):
    row = kl.group_id(0)
    lane = kl.local_id(0)
    so_far = kl.workgroup_scan(kl.add, x[row, lane] * x[row, lane])
    first = kl.workgroup_broadcast(so_far * so_far, 3)
    out[row, lane] = so_far * first


def test_scans_and_broadcasts(device: Device) -> None:
    assert_gradients(device.name, scans, (pt.groups(5), 8), numbers(5, 8), np.zeros((5, 8)))


@pt.kernel
def sub_groups(x, out):
    i = kl.global_id(0)
    v = x[i]
    a = kl.sub_group_reduce_add(v * v)
    b = kl.sub_group_scan_add(v)
    c = kl.sub_group_shuffle_xor(v, 1)
    d = kl.sub_group_broadcast(v * 2, 0)
    f = kl.sub_group_reduce_max(v)
    out[i] = a * v + b * b + c * v + d * b + f * f


def test_sub_groups(device: Device) -> None:
    assert_gradients(device.name, sub_groups, (64, 64), numbers(64), np.zeros(64))


@pt.kernel
def polynomial(x, out):
    i = kl.global_id(0)
    power = kl.private(5, kl.f64)
    for j in range(5):
        power[j] = x[i] ** j
    total = 0.0
    for j in range(1, 5):
        total += power[j] * power[j - 1]
    out[i] = total


def test_private_arrays(device: Device) -> None:
    assert_gradients(device.name, polynomial, N, numbers(N), np.zeros(N))


@pt.kernel
def in_place(x, y):
    i = kl.global_id(0)
    for _ in range(3):
        x[i] = x[i] * x[i] + y[i]


def test_arrays_that_a_loop_writes_and_reads(device: Device) -> None:
    assert_gradients(device.name, in_place, N, numbers(N), numbers(N, seed=1))


@pt.kernel
def squares(x, y):
    i = kl.global_id(0)
    for _ in range(3):
        x[i] *= 1.5
    y[i] = x[i] * x[i]


def test_scaling_in_a_loop(device: Device) -> None:
    assert_gradients(device.name, squares, N, numbers(N), np.zeros(N))


@pt.kernel
def unneeded(p, x, w):
    i = kl.global_id(0)
    q = kl.private(3, x.dtype, fill=0)
    a = x[i] * p
    b = w[i]
    t = 0
    while t < i % 3:
        t += 1
        b += 0.4 * (kl.where(t % 2 == 0, a, b) + q[1] * x[i])
    x[i] = a * b


def test_rounds_do_nothing_again_that_no_gradient_needs(device: Device) -> None:
    """The load of `x` in the loop would be read where nothing says how far its log is."""
    assert_gradients(device.name, unneeded, (12, 4), 0.7, numbers(12), numbers(12, seed=1))


@pt.kernel
def constants_in_a_loop(n, x, y):
    i = kl.global_id(0)
    q = kl.private(3, x.dtype, fill=0)
    for _ in range(n):
        q[1] = 0.5
    y[i] = x[i] * q[1]


def test_what_a_loop_stores_is_there_after_it(device: Device) -> None:
    assert_gradients(device.name, constants_in_a_loop, N, 2, numbers(N), np.zeros(N))


@pt.kernel
def backwards(x, n, out):
    i = kl.global_id(0)
    v = x[i]
    for k in range(n, 0, -2):
        for _ in range(k % 3):
            v = kl.sin(v) + 0.1 * v * k / n
    out[i] = v


@pytest.mark.parametrize("steps", [0, 1, 23])
def test_long_loops_keep_little(
    device: Device, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_MOST_KEPT", -1)
    kernels._adjoint_of.cache_clear()
    assert_gradients(device.name, logistic, N, 2.9, numbers(N), steps, np.zeros(N), count=1)
    assert_gradients(device.name, backwards, N, numbers(N), steps, np.zeros(N), count=1)
    plans = pt.vjp(logistic)[N]._plans.values()
    assert plans
    assert all(plan.thrifty for plan in plans)


def test_what_long_loops_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    rooms: list[int] = []
    old = kernels._Plan.room

    def room(self: Any, shape: tuple[int, ...], kind: Any) -> Any:
        rooms.append(prod(shape) * kind.itemsize)
        return old(self, shape, kind)

    monkeypatch.setattr(kernels._Plan, "room", room)
    for most in (1 << 28, -1):
        monkeypatch.setattr(kernels, "_MOST_KEPT", most)
        kernels._adjoint_of.cache_clear()
        x, gx = numbers(N), np.zeros(N)
        with pt.use("cpu:native"):
            pt.vjp(logistic)[N](2.9, x, 900, np.zeros(N), None, gx, None, np.ones(N))
    assert sum(rooms[1:]) * 8 < rooms[0]


def test_how_much_is_kept_is_found_once_for_the_same_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured: list[int] = []
    old = kernels._spared
    monkeypatch.setattr(kernels, "_spared", lambda *a: (measured.append(1), old(*a))[1])
    kernels._adjoint_of.cache_clear()

    def slopes(steps: int) -> Any:
        x, gx = numbers(N), np.zeros(N)
        with pt.use("cpu:native"):
            pt.vjp(by_place)[N](x, steps, np.zeros(N), gx, None, np.ones(N))
        return gx

    first = slopes(4)
    assert np.array_equal(slopes(4), first)
    assert len(measured) == 1
    slopes(9)
    assert len(measured) == 2
    for steps in (3, 8):  # shapes and numbers tell
        with pt.use("cpu:native"):
            pt.vjp(logistic)[N](
                2.9, *(numbers(N), steps, np.zeros(N), None, np.zeros(N), None), first
            )
    assert len(measured) == 2
    starts = np.array([0, 2, 3], np.int32)
    for _ in range(2):  # what arrays hold decides
        gx = np.zeros(N)
        with pt.use("cpu:native"):
            pt.vjp(counted)[2](starts, numbers(N), np.zeros(2), None, gx, np.ones(2))
        starts = np.array([0, 9, N], np.int32)
    assert len(measured) == 4
    assert np.all(gx != 0)


@pt.kernel
def by_place(x, n, out):
    i = kl.global_id(0)
    v = x[i]
    for k in range(i + n):
        v = kl.sin(v + k)
    out[i] = v


@pt.kernel
def counted(starts, x, out):
    i = kl.global_id(0)
    v = 1.0
    for k in range(starts[i], starts[i + 1]):
        v = kl.sin(v + x[k])
    out[i] = v


@pt.kernel
def extremes(x, y, n, out):
    i = kl.global_id(0)
    most, least, far = x[i, 0], 0.5, -1.0
    for k in range(n):
        if k % 3 != 1:
            most = kl.maximum(most, x[i, k])
        for j in range(k):
            least = kl.minimum(least, y[(i + j) % y.shape[0]])
        far = kl.maximum(far, x[i, k] * y[i])
    out[i] = kl.exp(most) * least + far * most


def test_the_greatest_of_what_is_loaded(device: Device) -> None:
    arrays = numbers(N, 8), numbers(N, seed=1)
    for n in (0, 1, 8):
        assert_gradients(device.name, extremes, N, *arrays, n, np.zeros(N))


@pt.kernel
def greatest_of_row(x, out):
    i = kl.global_id(0)
    most = 0.0
    for k in range(x.shape[1]):
        most = kl.maximum(most, x[i, k])
    out[i] = most


def test_one_of_equals_gets_the_gradient_and_nothing_is_kept() -> None:
    x = np.array([[1.0, 3, 3, 2], [-1, -2, -3, -4], [5, 5, 5, 5]])
    gx = np.zeros_like(x)
    adjoint = pt.vjp(greatest_of_row)
    with pt.use("cpu:native"):
        adjoint[3](x, np.zeros(3), gx, np.ones(3))
        pt.synchronize()
    np.testing.assert_array_equal(gx.sum(1), [1, 0, 1])
    np.testing.assert_array_equal(gx * (x - x.max(1, keepdims=True)), np.zeros_like(x))
    assert all(plan.needs is None for plan in adjoint[3]._plans.values())
