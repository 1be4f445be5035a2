"""Gradients of arrays that are read at moved places: sums over neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import Device
from tests.support.differences import assert_gradients, gradients_of

pytestmark = pytest.mark.needs_float64


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(0.2, 0.9, shape)


@pt.kernel
def ahead(c, x, w, y):
    i = kl.global_id(0)
    total = 0.0
    for _ in range(3):
        total += x[i] * w[i + 1] + kl.sin(x[i + 2]) * c
    if i % 2 == 0:
        y[i] = total * x[i + 1]
    else:
        y[i] = w[i + 3] * total + w[i + 1] ** 2


@pytest.mark.parametrize("items", [1, 7, 20])
def test_arrays_longer_than_the_ndrange(device: Device, items: int) -> None:
    arrays = numbers(items + 2), numbers(items + 9, seed=1), np.zeros(items)
    assert_gradients(device.name, ahead, (items, 4), 0.7, *arrays)


@pt.kernel
def perhaps_ahead(x, n, y):
    i = kl.global_id(0)
    y[i] = x[i] + 2 * x[i + 1] if n > 0 else 1.0


def test_an_empty_array(device: Device) -> None:
    x, y = device.from_numpy(np.zeros(0)), device.from_numpy(np.zeros(5))
    with pt.Tape() as tape:
        perhaps_ahead[5](x, 0, y)
    (slope,) = tape.gradient(y, [x], seed=device.from_numpy(np.ones(5)))
    assert tuple(slope.shape) == (0,)


@pt.kernel
def turned(x, y):
    i, j = kl.global_id(0), kl.global_id(1)
    y[i, j] = x[j, i] * x[j + 1, i + 2]


def test_dimensions_in_another_order(device: Device) -> None:
    assert_gradients(device.name, turned, ((6, 5), (4, 2)), numbers(7, 9), np.zeros((6, 5)))


@pt.kernel
def behind(x, y):
    i = kl.global_id(0)
    if i > 1:
        y[i] = x[i - 1] * x[i - 2]
    else:
        y[i] = x[i]


def test_places_before_the_first(device: Device) -> None:
    assert_gradients(device.name, behind, 11, numbers(11), np.zeros(11))


@pt.kernel
def row_by_row(x, y):
    i = kl.global_id(0)
    y[i] = x[i] * x[i + 1]


def test_an_ndrange_of_more_dimensions_than_the_kernel_asks_for() -> None:
    """Two work-items for each element: they write the same, and both read."""
    x = numbers(9)
    once = gradients_of("cpu:native", row_by_row, 8, (x, np.zeros(8)), (None, np.ones(8)), {})
    assert np.allclose(once[0][1:-1], x[:-2] + x[2:])


@pt.kernel
def parameters(p, x, y):
    i = kl.global_id(0)
    v = x[i]
    for _ in range(3):
        v = p[0] * v + p[1] * v * v
    y[i] = v * p[2]


def test_elements_that_all_read(device: Device) -> None:
    assert_gradients(device.name, parameters, (37, 8), numbers(3), numbers(37), np.zeros(37))
