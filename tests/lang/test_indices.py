"""Where a work-item stands, in one to three dimensions and odd sizes."""

from __future__ import annotations

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import Device
from tests.support.launch import run

SHAPES = [
    ((13,), (4,)),
    ((1,), (1,)),
    ((7, 5), (4, 2)),
    ((5, 3, 4), (2, 3, 1)),
    ((3, 1, 5), (1, 1, 4)),
]


@pt.kernel
def stand(out, *, NDIM):
    x, y, z = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    place = (z * kl.global_size(1) + y) * kl.global_size(0) + x
    for d in kl.static_range(NDIM):
        out[place, 0, d] = kl.global_id(d)
        out[place, 1, d] = kl.local_id(d)
        out[place, 2, d] = kl.group_id(d)
        out[place, 3, d] = kl.global_size(d)
        out[place, 4, d] = kl.local_size(d)
        out[place, 5, d] = kl.num_groups(d)
    out[place, 6, 0] = kl.local_linear_id()


@pytest.mark.parametrize(("ndrange", "workgroup"), SHAPES, ids=str)
def test_every_work_item_knows_its_place(
    device: Device, ndrange: tuple[int, ...], workgroup: tuple[int, ...]
) -> None:
    counts = [-(-n // w) for n, w in zip(ndrange, workgroup, strict=True)]
    ndim = len(ndrange)
    out = np.full((int(np.prod(ndrange)), 7, ndim), -1, np.int32)
    (found,) = run(device, stand[ndrange, workgroup], out, NDIM=ndim)
    ids = np.indices(ndrange[::-1]).reshape(ndim, -1)[::-1].T
    local = ids % workgroup
    np.testing.assert_array_equal(found[:, 0], ids)
    np.testing.assert_array_equal(found[:, 1], local)
    np.testing.assert_array_equal(found[:, 2], ids // workgroup)
    for row, expected in ((3, ndrange), (4, workgroup), (5, counts)):
        np.testing.assert_array_equal(found[:, row], np.broadcast_to(expected, ids.shape))
    weights = np.cumprod([1, *workgroup[:-1]])
    np.testing.assert_array_equal(found[:, 6, 0], local @ weights)


@pt.kernel
def iota(out):
    i = kl.global_id()
    if i < out.shape[0]:
        out[i] = i


@pytest.mark.parametrize("n", [1, 2, 255, 256, 257, 1000])
def test_the_default_workgroup_covers_any_ndrange(device: Device, n: int) -> None:
    (found,) = run(device, iota[n], np.full(n, -1, np.int64))
    np.testing.assert_array_equal(found, np.arange(n))


@pt.kernel
def corner(out):
    x, y = kl.global_id(0), kl.global_id(1)
    if x < out.shape[1] and y < out.shape[0]:
        out[y, x] = 100 * y + x


def test_the_default_workgroup_in_two_dimensions(device: Device) -> None:
    (found,) = run(device, corner[(19, 17), None], np.zeros((17, 19), np.int32))
    np.testing.assert_array_equal(found, 100 * np.arange(17)[:, None] + np.arange(19))


def test_an_ndrange_in_workgroups(device: Device) -> None:
    (found,) = run(device, iota[pt.groups(3), 8], np.full(30, -1, np.int32))
    np.testing.assert_array_equal(found, [*range(24), *[-1] * 6])
