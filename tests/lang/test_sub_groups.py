"""Sub-group operations, on devices with sub-groups of any size, 1 included."""

from __future__ import annotations

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import Device
from portable.errors import KernelError
from tests.support.launch import run

GROUP = 64


@pt.kernel
def places(out):
    i = kl.global_id(0)
    out[i, 0] = kl.sub_group_id()
    out[i, 1] = kl.sub_group_local_id()
    out[i, 2] = kl.sub_group_size()
    out[i, 3] = kl.num_sub_groups()
    out[i, 4] = kl.target.sub_group_size


def test_where_a_work_item_stands_in_its_sub_group(device: Device) -> None:
    size = device.capabilities.sub_group_size
    (found,) = run(device, places[2 * GROUP, GROUP], np.zeros((2 * GROUP, 5), np.int32))
    i = np.arange(2 * GROUP) % GROUP
    np.testing.assert_array_equal(found[:, 0], i // size)
    np.testing.assert_array_equal(found[:, 1], i % size)
    assert {tuple(row) for row in found[:, 2:]} == {(size, GROUP // size, size)}


@pt.kernel
def passed_on(out, *, FEW: int):
    a = kl.local(GROUP, kl.i32)
    own = kl.local_id(0)
    a[own] = 0
    for turn in range(6):
        if turn % 3 == 2:
            kl.barrier()
        else:
            kl.barrier(sub_groups=FEW)
        if own == turn % 2 * (FEW * kl.sub_group_size() - 1):
            a[0] = a[0] + turn
        elif own == GROUP - 1 and turn % 3 == 2:
            a[own] = turn
    kl.barrier()
    out[own] = a[own]


def test_some_sub_groups_meet_and_the_others_go_on(device: Device) -> None:
    few = max(1, GROUP // device.capabilities.sub_group_size // 2)
    (found,) = run(device, passed_on[GROUP, GROUP], np.zeros(GROUP, np.int32), FEW=few)
    assert found[[0, 1, -1]].tolist() == [15, 0, 5]


@pytest.mark.parametrize("sub_groups", [0, 1.5])
def test_refuses_barriers_of_no_sub_groups(sub_groups: float) -> None:
    with pytest.raises(KernelError, match="constant number of sub-groups"), pt.use("simulator"):
        passed_on[GROUP, GROUP](np.zeros(GROUP, np.int32), FEW=sub_groups)


@pt.kernel
def exchanged(x, out):
    i = kl.global_id(0)
    v = x[i]
    own = kl.sub_group_local_id()
    out[0, i] = kl.sub_group_shuffle(v, kl.sub_group_size() - 1 - own)
    out[1, i] = kl.sub_group_shuffle_xor(v, 1)
    out[2, i] = kl.sub_group_shuffle_up(v, 2)
    out[3, i] = kl.sub_group_shuffle_down(v, 3)
    out[4, i] = kl.sub_group_broadcast(v, 0)
    out[5, i] = kl.sub_group_reduce_add(v)
    out[6, i] = kl.sub_group_reduce_min(v)
    out[7, i] = kl.sub_group_reduce_max(v)
    out[8, i] = kl.sub_group_scan_add(v)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "float32", "float64"])
def test_shuffles_and_reductions(device: Device, dtype: str) -> None:
    size = device.capabilities.sub_group_size
    x = np.random.default_rng(2).integers(0, 50, 2 * GROUP).astype(dtype)
    _, found = run(device, exchanged[2 * GROUP, GROUP], x, np.zeros((9, 2 * GROUP), dtype))
    rows, own = x.reshape(-1, size), np.arange(size)

    def taken(source: np.ndarray) -> np.ndarray:
        return rows[:, np.where((source >= 0) & (source < size), source, own)]

    expected = [rows[:, ::-1], taken(own ^ 1), taken(own - 2), taken(own + 3), taken(own * 0)]
    for reduce in (np.sum, np.min, np.max):
        expected.append(np.broadcast_to(reduce(rows, axis=1, keepdims=True), rows.shape))
    expected.append(np.cumsum(rows, axis=1))
    for row, values in enumerate(expected):
        np.testing.assert_array_equal(found[row], values.ravel(), err_msg=f"row {row}")


@pt.kernel
def bitwise(x, out):
    i = kl.global_id(0)
    v = x[i]
    out[0, i] = kl.sub_group_reduce_and(v)
    out[1, i] = kl.sub_group_reduce_or(v)
    out[2, i] = kl.sub_group_reduce_xor(v)
    out[3, i] = 1 if kl.sub_group_any(v == 7) else 0
    out[4, i] = 1 if kl.sub_group_all(v > 1) else 0


@pytest.mark.parametrize("dtype", ["int32", "uint64"])
def test_bitwise_reductions_and_votes(device: Device, dtype: str) -> None:
    size = device.capabilities.sub_group_size
    x = np.random.default_rng(4).integers(0, 64, GROUP).astype(dtype)
    _, found = run(device, bitwise[GROUP, GROUP], x, np.zeros((5, GROUP), dtype))
    rows = x.reshape(-1, size)
    some = [np.bitwise_and.reduce(rows, 1), np.bitwise_or.reduce(rows, 1)]
    some += [np.bitwise_xor.reduce(rows, 1), (rows == 7).any(1), (rows > 1).all(1)]
    np.testing.assert_array_equal(found, [np.repeat(values, size) for values in some])


@pt.kernel
def tree(x, out):
    part = kl.local(kl.num_sub_groups(), x.dtype)
    total = kl.sub_group_reduce_add(x[kl.global_id(0)])
    if kl.sub_group_local_id() == 0:
        part[kl.sub_group_id()] = total
    kl.barrier()
    if kl.local_id(0) == 0:
        s = part[0]
        for k in range(1, kl.num_sub_groups()):
            s += part[k]
        out[kl.group_id(0)] = s


def test_a_reduction_by_sub_groups(device: Device) -> None:
    x = np.arange(3 * GROUP, dtype=np.int32)
    _, found = run(device, tree[3 * GROUP, GROUP], x, np.zeros(3, np.int32))
    np.testing.assert_array_equal(found, x.reshape(3, -1).sum(1))


@pt.kernel
def partial(x, out):
    i = kl.global_id(0)
    out[0, i] = kl.sub_group_reduce_add(x[i])
    out[1, i] = kl.sub_group_shuffle_down(x[i], 1)
    out[2, i] = kl.sub_group_scan_add(x[i])


def test_a_last_sub_group_that_is_not_full(device: Device) -> None:
    size, group = device.capabilities.sub_group_size, 21
    x = np.arange(group, dtype=np.int32) + 1
    _, found = run(device, partial[group, group], x, np.zeros((3, group), np.int32))
    for first in range(0, group, size):
        rows = x[first : first + size]
        at = slice(first, first + len(rows))
        np.testing.assert_array_equal(found[0, at], rows.sum())
        np.testing.assert_array_equal(found[1, at], [*rows[1:], rows[-1]])
        np.testing.assert_array_equal(found[2, at], np.cumsum(rows))
