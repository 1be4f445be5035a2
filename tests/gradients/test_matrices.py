"""Gradients of kernels with copies of tiles and matrix fragments."""

from __future__ import annotations

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import Device
from tests.gradients.test_loops import numbers
from tests.support.differences import assert_gradients

pytestmark = pytest.mark.needs_float64


@pt.kernel
def mirrored(x, y):
    tile = kl.local((8,), x.dtype)
    start = kl.group_id(0) * 8
    kl.copy(tile, x[start : start + 8])
    kl.barrier()
    y[kl.global_id(0)] = tile[7 - kl.local_id(0)] ** 2


def test_copies(device: Device) -> None:
    assert_gradients(device.name, mirrored, (16, 8), numbers(16), np.zeros(16))


@pt.kernel
def corner(x, y):
    tile = kl.local((4, 4), x.dtype)
    kl.copy_async(tile, x[0:4, 4:8])
    kl.copy_commit()
    kl.copy_wait(0)
    kl.barrier()
    i, j = kl.local_id(1), kl.local_id(0)
    y[i, j] = tile[j, i] * tile[i, j]


def test_copies_that_run_beside_others(device: Device) -> None:
    assert_gradients(device.name, corner, ((4, 4), (4, 4)), numbers(9, 9), np.zeros((4, 4)))


@pt.kernel
def multiplied(a, b, out):
    m, n, k = out.shape[0], out.shape[1], a.shape[1]
    row, column = kl.group_id(1) * 8, kl.group_id(0) * 8
    left, right = kl.local((8, 4), a.dtype), kl.local((4, 8), b.dtype)
    acc = kl.matrix((8, 8), a.dtype, scope="workgroup")
    acc.fill(0)
    for step in range(kl.cdiv(k, 4)):
        start = step * 4
        kl.copy(left, a[row : row + 8, start : start + 4])
        kl.copy(right, b[start : start + 4, column : column + 8])
        kl.barrier()
        kl.mma(acc, left, right)
        kl.barrier()
    for i, j, value in kl.elements(acc):
        if row + i < m and column + j < n:
            out[row + i, column + j] = value * value


@pytest.mark.parametrize("profile", [None, "simulator:h200"])
def test_matrix_fragments(device: Device, profile: str | None) -> None:
    if profile is not None and device.name != "simulator":
        pytest.skip("a profile is simulated")
    key = (pt.groups(2, 2), (4, 4))
    arrays = (numbers(13, 9), numbers(9, 15, seed=1), np.zeros((13, 15)))
    assert_gradients(profile or device.name, multiplied, key, *arrays, count=1)
