"""What users of NVIDIA's Warp report as gradients that are silently wrong, each written anew.

The numbers are those of its issues. Each is right here, or refused.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import Device
from portable.errors import DataError
from tests.gradients.test_loops import numbers
from tests.support.differences import assert_gradients

pytestmark = pytest.mark.needs_float64
N = 9


@pt.kernel
def before_and_after(x, s, n, out):
    i = kl.global_id(0)
    area = x[i] * x[i]
    total = 0.0
    for k in range(n):
        total += s[k] * area
    out[i] = area * total * kl.sin(area)


def test_1694_a_variable_from_before_a_loop_is_used_after_it(device: Device) -> None:
    assert_gradients(device.name, before_and_after, N, numbers(N), numbers(4), 4, np.zeros(N))


@pt.kernel
def chains(starts, angles, x, out):
    i = kl.global_id(0)
    p, q = x[i], 1.0
    for body in range(starts[i], starts[i + 1]):
        for joint in range(body % 3):
            p, q = p * kl.cos(angles[joint]) - q, q + p * kl.sin(angles[joint])
    out[i] = p * q


def test_1293_loops_in_loops(device: Device) -> None:
    starts = np.array([0, 2, 2, 7, 9], np.int32)
    assert_gradients(device.name, chains, 4, starts, numbers(3), numbers(4), np.zeros(4))


@pt.kernel
def best(c, x, out):
    i = kl.global_id(0)
    most = -1e20
    for p in range(c.shape[0]):
        if c[p] == 0.0:
            continue
        v = x[i] * c[p] - c[p] * c[p]
        if v > most:
            most = v
    out[i] = most


def test_1552_continue_in_search_of_the_greatest(device: Device) -> None:
    c = np.array([0.3, 0.0, 0.9, 0.1, 0.0])
    assert_gradients(device.name, best, N, c, numbers(N), np.zeros(N))


@pt.kernel
def square(x, y):
    i = kl.global_id(0)
    y[i] = x[i] * x[i]


@pt.kernel
def overwrite(x, value):
    x[kl.global_id(0)] = value


def test_1350_arrays_that_are_written_after_they_were_read(device: Device) -> None:
    x, y = device.from_numpy(numbers(N)), device.from_numpy(np.zeros(N))
    seed = device.from_numpy(np.ones(N))
    with pt.Tape() as tape:
        square[N](x, y)
        overwrite[N](x, 100.0)
    found = tape.gradient(y, x, seed=seed)
    np.testing.assert_allclose(device.to_numpy(found), 2 * numbers(N))
    x, y = device.from_numpy(numbers(N)), device.from_numpy(np.zeros(N))
    with pt.Tape() as tape:
        square[N](x, y)
    found = tape.gradient(y, x, seed=seed)
    np.testing.assert_allclose(device.to_numpy(found), 2 * numbers(N))
    overwrite[N](x, 100.0)
    pt.synchronize()
    with pytest.raises(DataError, match="was written after"):
        tape.gradient(y, x, seed=seed)


@pt.kernel
def components(x, out):
    i = kl.global_id(0)
    m = kl.private((2, 2), x.dtype, fill=0)
    for g in range(4):
        m[g % 2, g // 2] = m[g % 2, g // 2] + x[i] * kl.sin(x[i] + g)
        m[0, 0] = m[0, 0] * 0.5 + m[g % 2, g // 2] * x[i]
    out[i] = m[0, 0] * m[1, 1] + m[0, 1] * m[1, 0]


def test_1697_components_that_are_added_to(device: Device) -> None:
    assert_gradients(device.name, components, N, numbers(N), np.zeros(N))


@pt.function
def accumulated(x, n):
    total = 0.0
    for _ in range(n):
        total += x
    return 1.0 / total


@pt.kernel
def reciprocals(x, n, out):
    i = kl.global_id(0)
    out[i] = accumulated(x[i], n)


def test_1740_a_function_that_goes_on_from_a_loops_result(device: Device) -> None:
    assert_gradients(device.name, reciprocals, N, numbers(N), 3, np.zeros(N))


class Body(NamedTuple):
    """What the fields of a struct are multiplied by."""

    mass: Any
    drag: Any


@pt.function
def inner(b, v):
    return b.mass[0] * v * v


@pt.function
def outer_of(b, v):
    return inner(b, kl.sin(v)) + b.drag * v


@pt.kernel
def in_place(b, x, total):
    i = kl.global_id(0)
    x[i] *= outer_of(b, x[i])
    if x[i] > 0.4:
        x[i] *= x[i]
    kl.atomic_add(total, 0, x[i])


def test_174_structs_nested_functions_and_products_in_place(device: Device) -> None:
    body = Body(numbers(1), 0.7)
    assert_gradients(device.name, in_place, N, body, numbers(N), np.zeros(1))
