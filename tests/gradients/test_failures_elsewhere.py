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
from portable.errors import DataError, KernelError
from tests.gradients.test_loops import numbers
from tests.gradients.test_tape import assert_taped
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


def test_structs_nested_functions_and_products_in_place(device: Device) -> None:
    body = Body(numbers(1), 0.7)
    assert_gradients(device.name, in_place, N, body, numbers(N), np.zeros(1))


@pt.kernel
def overwritten_in_a_loop(x, n, out):
    i = kl.global_id(0)
    v, w = x[i], 1.0
    for k in range(n):
        w = 0.5 * w + v * v
        v = kl.sin(v + k) * w
    out[i] = v


def test_174_a_loop_that_overwrites_a_variable(device: Device) -> None:
    assert_gradients(device.name, overwritten_in_a_loop, N, numbers(N), 5, np.zeros(N))


@pt.function
def sum_of_first(a, weight, scale, p):
    total = 0.0
    for j in range(p + 1):
        total += weight[j] * a[j]
    return total * scale


@pt.kernel
def calculations(a, weight, scale, p, out):
    i = kl.global_id(0)
    if p > i:
        kl.atomic_add(out, i % 2, sum_of_first(a, weight, scale[0], p - i))


def test_140_rounds_that_a_function_is_told(device: Device) -> None:
    arrays = numbers(N), numbers(N, seed=1), numbers(1)
    assert_gradients(device.name, calculations, 4, *arrays, 3, np.zeros(2))


@pt.kernel
def before_it_is_added(x, y, out):
    i = kl.global_id(0)
    out[i] = kl.atomic_add(y, 0, x[i]) * x[i]


def test_what_an_atomic_operation_returns_is_refused(device: Device) -> None:
    x, y, out = (device.from_numpy(numbers(n)) for n in (N, 1, N))
    gradients = (device.from_numpy(np.zeros(n)) for n in (N, 1, N))
    with pytest.raises(KernelError, match="an atomic operation returns"):
        pt.vjp(before_it_is_added)[N](x, y, out, *gradients)


@pt.kernel
def plus_one(x):
    i = kl.global_id(0)
    x[i] = x[i] + 1.0


@pt.kernel
def cubes(x, total):
    i = kl.global_id(0)
    kl.atomic_add(total, 0, x[i] * x[i] * x[i])


def test_1294_arrays_that_are_read_and_written_and_used_again(device: Device) -> None:
    def program(start: Any) -> Any:
        x, total = device.from_numpy(np.zeros(N)), device.from_numpy(np.zeros(1))
        pt.primitives.copy(start, x)
        plus_one[N](x)
        cubes[N](x, total)
        square[N](start, x)
        plus_one[N](x)
        cubes[N](x, total)
        return total

    assert_taped(device, program, numbers(N))


def test_1728_copies_add_to_their_source_and_take_from_their_target(device: Device) -> None:
    def program(start: Any) -> Any:
        x, total = device.from_numpy(np.zeros(N)), device.from_numpy(np.zeros(1))
        square[N](start, x)
        pt.primitives.copy(start, x)  # what was written before reaches nothing
        cubes[N](x, total)
        cubes[N](start, total)
        return total

    assert_taped(device, program, numbers(N))


def test_1062_what_is_overwritten_has_no_gradient(device: Device) -> None:
    a, b, x = (device.from_numpy(numbers(N, seed=i)) for i in range(3))
    with pt.Tape() as tape:
        square[N](a, x)
        square[N](b, x)
        total = pt.primitives.reduce(x)
    found = tape.gradient(total, b)
    np.testing.assert_allclose(device.to_numpy(found), 2 * numbers(N, seed=1))
    found = tape.gradient(total, a)
    np.testing.assert_array_equal(device.to_numpy(found), np.zeros(N))


class Geometry(NamedTuple):
    """A number with an array that nothing reads."""

    value: Any
    unused: Any


@pt.function
def geometry(v, unused):
    return Geometry(2.0 * v, unused)


@pt.kernel
def through_structs(x, unused, out):
    i = kl.global_id(0)
    s = geometry(x[i], unused)
    out[i] = s.value * s.value


def test_1598_structs_that_functions_return(device: Device) -> None:
    arrays = numbers(N), numbers(N), np.zeros(N)
    assert_gradients(device.name, through_structs, N, *arrays)


@pt.kernel
def by_components(x, y):
    i = kl.global_id(0)
    y[i, 0], y[i, 1], y[i, 2] = x[i] * 2.0, x[i] * x[i], kl.sin(x[i])
    y[i, 1] /= y[i, 0]


def test_248_and_342_components_of_vectors_and_division_in_place(device: Device) -> None:
    assert_gradients(device.name, by_components, N, numbers(N), np.zeros((N, 3)))


@pt.kernel
def signs_and_quotients(x, out):
    i = kl.global_id(0)
    v = kl.vector(x[i], x[i] * x[i])
    q = 3.0 / v
    out[i] = kl.sign(x[i] - 0.5) * q[0] + q[1]


def test_831_and_1466_quotients_of_vectors_and_signs(device: Device) -> None:
    assert_gradients(device.name, signs_and_quotients, N, numbers(N), np.zeros(N))


@pt.function
def either(a):
    b = a
    if b > 0.5:  # noqa: SIM108 - so it was written
        b = a * a
    else:
        b = a * a * a
    return b


@pt.kernel
def choices(flag, x, y, out):
    i = kl.global_id(0)
    v = either(x[i])
    w = v
    out[i] = w * (x[i] / y[i] if flag else x[i]) if i % 3 else x[i]


def test_202_and_1736_other_names_for_a_value_and_choices(device: Device) -> None:
    for flag in (True, False):
        arrays = numbers(N), numbers(N, seed=1), np.zeros(N)
        assert_gradients(device.name, choices, N, flag, *arrays)
