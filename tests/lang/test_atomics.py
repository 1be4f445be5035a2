"""Atomic operations of every kind, type and order; flags and tickets between workgroups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import Device
from tests.support.launch import run

INTEGERS = ["int32", "uint32", "int64", "uint64"]
FLOATS = ["float32", "float64"]
N = 100


@pt.kernel
def change(x, out, *, ORDER, SCOPE, INTEGER):
    i = kl.global_id(0)
    if i < x.shape[0]:
        v = x[i]
        kl.atomic_add(out, 0, v, order=ORDER, scope=SCOPE)
        kl.atomic_sub(out, 1, v, order=ORDER, scope=SCOPE)
        kl.atomic_min(out, 2, v, order=ORDER, scope=SCOPE)
        kl.atomic_max(out, 3, v, order=ORDER, scope=SCOPE)
        if INTEGER:
            kl.atomic_and(out, 4, v, order=ORDER, scope=SCOPE)
            kl.atomic_or(out, 5, v, order=ORDER, scope=SCOPE)
            kl.atomic_xor(out, 6, v, order=ORDER, scope=SCOPE)


def _check_change(device: Device, dtype: str, order: str, scope: str, ndrange: int) -> None:
    x = np.random.default_rng(1).integers(1, 1000, ndrange).astype(dtype)
    start = np.full(7, 500, dtype)
    integer = dtype in INTEGERS
    launcher = change[ndrange, 50]
    _, found = run(device, launcher, x, start, ORDER=order, SCOPE=scope, INTEGER=integer)
    total = x.sum(dtype=dtype)
    expected = [start[0] + total, start[0] - total, min(x.min(), start[0]), max(x.max(), start[0])]
    if integer:
        for fold in (np.bitwise_and, np.bitwise_or, np.bitwise_xor):
            expected.append(fold.reduce([*x, start[0]]))
    np.testing.assert_array_equal(found[: len(expected)], np.array(expected, dtype))


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_every_operation_on_every_type(device: Device, dtype: str) -> None:
    if dtype == "float64" and not device.capabilities.float64:
        pytest.skip(f"{device.name} lacks double precision")
    _check_change(device, dtype, "relaxed", "device", N)


@pytest.mark.needs_acq_rel
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("dtype", ["int32", "uint64", "float32"])
@pytest.mark.parametrize("order", ["acquire", "release", "acq_rel"])
def test_every_order(device: Device, dtype: str, order: str) -> None:
    _check_change(device, dtype, order, "device", N)


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("order", ["relaxed", "acq_rel"])
def test_the_scope_of_one_workgroup(device: Device, order: str) -> None:
    _check_change(device, "int32", order, "workgroup", 50)


@pt.kernel
def before(out, old, held):
    """Every work-item gets a value of its own, whatever the order."""
    i = kl.global_id(0)
    if i < old.shape[1]:
        old[0, i] = kl.atomic_add(out, 0, 1)
        old[1, i] = kl.atomic_exchange(out, 1, i + 1)
        if kl.atomic_compare_exchange(out, 2, 0, i + 1) == 0:
            held[0] = i + 1


@pytest.mark.parametrize("dtype", INTEGERS)
def test_the_value_from_before(device: Device, dtype: str) -> None:
    old, held = np.zeros((2, N), dtype), np.zeros(1, dtype)
    out, old, held = run(device, before[N, 20], np.zeros(3, dtype), old, held)
    assert sorted(old[0].tolist()) == list(range(N))
    assert sorted([*old[1].tolist(), int(out[1])]) == list(range(N + 1))
    assert out[2] == held[0] != 0


@pt.kernel
def exchanged_floats(out, old):
    i = kl.global_id(0)
    if i < old.shape[0]:
        old[i] = kl.atomic_exchange(out, 0, kl.cast(i + 1, out.dtype))
        kl.atomic_store(out, 1, 2.5)
        out[2] = kl.atomic_load(out, 1) if i == 0 else out[2]


@pytest.mark.parametrize("dtype", FLOATS)
def test_exchanging_floats(device: Device, dtype: str) -> None:
    if dtype == "float64" and not device.capabilities.float64:
        pytest.skip(f"{device.name} lacks double precision")
    out, old = run(device, exchanged_floats[1, 1], np.zeros(3, dtype), np.zeros(1, dtype))
    assert out.tolist() == [1, 2.5, 2.5]
    assert old.tolist() == [0]


@pt.kernel
def histogram(x, out, *, BINS):
    counts = kl.local(BINS, kl.i32)
    for k in range(kl.local_id(0), BINS, kl.local_size(0)):
        kl.atomic_store(counts, k, 0, scope="workgroup")
    kl.barrier()
    if kl.global_id(0) < x.shape[0]:
        kl.atomic_add(counts, kl.i32(x[kl.global_id(0)]), 1, scope="workgroup")
    kl.barrier()
    for k in range(kl.local_id(0), BINS, kl.local_size(0)):
        kl.atomic_add(out, k, counts[k])


def test_atomics_in_local_memory(device: Device) -> None:
    x = np.random.default_rng(3).integers(0, 10, 500).astype(np.uint8)
    _, found = run(device, histogram[500, 32], x, np.zeros(10, np.int32), BINS=10)
    np.testing.assert_array_equal(found, np.bincount(x, minlength=10))


@pt.kernel
def local_floats(x, out):
    total = kl.local(2, x.dtype)
    i = kl.local_id(0)
    if i < 2:
        total[i] = 0
    kl.barrier()
    kl.atomic_add(total, 0, x[i])
    kl.atomic_max(total, 1, x[i])
    kl.barrier()
    if i < 2:
        out[i] = total[i]


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_in_local_memory(device: Device, dtype: str) -> None:
    if dtype == "float64" and not device.capabilities.float64:
        pytest.skip(f"{device.name} lacks double precision")
    x = np.arange(32).astype(dtype)
    _, found = run(device, local_floats[32, 32], x, np.zeros(2, dtype))
    assert found.tolist() == [496, 31]


@pt.kernel
def in_two_dimensions(x, out):
    i, j = kl.global_id(0), kl.global_id(1)
    kl.atomic_add(out, (j % 2, i % 3), x[j, i])
    kl.atomic_add(out[j % 2], (i % 3,), x[j, i])


def test_an_index_of_several_dimensions(device: Device) -> None:
    x = np.arange(24, dtype=np.int32).reshape(4, 6)
    _, found = run(device, in_two_dimensions[(6, 4), (3, 2)], x, np.zeros((2, 3), np.int32))
    np.testing.assert_array_equal(found, 2 * x.reshape(2, 2, 2, 3).sum((0, 2)))


@pt.kernel
def by_lanes(x, at, out, before):
    i = kl.global_id(0)
    v = kl.vload(x, i, 0, lanes=3)
    kl.atomic_add(out, (at[i], 1), v)
    old = kl.atomic_add(before[i], 0, v * 2)
    kl.atomic_max(before, (i, 0), old + 1)


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_lanes_of_vectors(device: Device, dtype: str) -> None:
    rng = np.random.default_rng(2)
    x, at = rng.integers(-9, 9, (N, 3)).astype(dtype), rng.integers(0, 7, N).astype(np.int32)
    start = rng.integers(0, 9, (N, 3)).astype(dtype)
    found = run(device, by_lanes[N], x, at, np.zeros((7, 5), dtype), start)
    total = np.zeros((7, 5), dtype)
    np.add.at(total[:, 1:4], at, x)
    np.testing.assert_array_equal(found[2], total)
    np.testing.assert_array_equal(found[3], np.maximum(start + 2 * x, start + 1))


@pt.kernel
def swapped_by_lanes(x, wanted, out, before):
    i = kl.global_id(0)
    v = kl.vload(x, i, 0, lanes=4)
    kl.vstore(before, i, 0, kl.atomic_compare_exchange(out, (i, 0), wanted[i], v))
    kl.atomic_store(x, (i, 0), v + 1)


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_lanes_are_compared_and_stored(device: Device, dtype: str) -> None:
    x = np.random.default_rng(3).integers(0, 9, (N, 4)).astype(dtype)
    wanted, start = (np.random.default_rng(4).integers(0, 3, s).astype(dtype) for s in (N, (N, 4)))
    found = run(device, swapped_by_lanes[N], x, wanted, start, np.zeros((N, 4), dtype))
    np.testing.assert_array_equal(found[0], x + 1)
    np.testing.assert_array_equal(found[2], np.where(start == wanted[:, None], x, start))
    np.testing.assert_array_equal(found[3], start)


@pt.kernel
def chained(state, x, out):
    """Workgroups take tickets in order; each waits for the one before it: a running total."""
    turn = kl.local(1, kl.i32)
    part = kl.local(1, kl.i32)
    if kl.local_id(0) == 0:
        turn[0] = kl.atomic_add(state, 0, 1)
        part[0] = 0
    kl.barrier()
    ticket = kl.workgroup_uniform(turn[0])
    i = ticket * kl.local_size(0) + kl.local_id(0)
    if i < x.shape[0]:
        kl.atomic_add(part, 0, x[i], scope="workgroup")
    kl.barrier()
    if kl.local_id(0) == 0:
        while kl.atomic_load(state, 1, order="acquire") != ticket:
            pass
        out[ticket + 1] = out[ticket] + part[0]
        kl.atomic_store(state, 1, ticket + 1, order="release")


@pytest.mark.needs_forward_progress
@pytest.mark.needs_acq_rel
def test_workgroups_that_wait_for_the_one_before(device: Device) -> None:
    x = np.arange(40 * 8, dtype=np.int32)
    state, out = np.zeros(2, np.int32), np.zeros(41, np.int32)
    state, _, found = run(device, chained[len(x), 8], state, x, out)
    np.testing.assert_array_equal(found[1:], np.cumsum(x.reshape(40, 8).sum(1)))
    assert state.tolist() == [40, 40]


@pt.kernel
def last_one_sums(x, part, count, out):
    """Each workgroup leaves its share; the last to finish, told by a counter, adds them up."""
    if kl.local_id(0) == 0:
        group = kl.group_id(0)
        part[group] = 2 * x[group]
        kl.fence("release")
        arrived = kl.atomic_add(count, 0, 1)
        if arrived == kl.num_groups(0) - 1:
            kl.fence("acquire")
            total = 0
            for k in range(kl.num_groups(0)):
                total += part[k]
            out[0] = total


@pytest.mark.needs_acq_rel
def test_fences_order_what_a_counter_announces(device: Device) -> None:
    x = np.arange(30, dtype=np.int32)
    arrays: tuple[Any, ...] = (x, np.zeros_like(x), np.zeros(1, np.int32), np.zeros(1, np.int32))
    *_, found = run(device, last_one_sums[pt.groups(30), 4], *arrays)
    assert found[0] == 2 * x.sum()


@pt.kernel
def store_all(out):
    i = kl.global_id(0)
    kl.atomic_store(out, i % 3, i + 1)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", *INTEGERS])
def test_one_of_many_stores_stays(device: Device, dtype: str) -> None:
    (found,) = run(device, store_all[60, 10], np.zeros(4, dtype))
    assert found[3] == 0
    assert all(found[k] in range(k + 1, 61, 3) for k in range(3))
