"""Adjoints of kernels without loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import Device
from tests.support.differences import assert_gradients, gradients_of

pytestmark = pytest.mark.needs_float64
N = 37


def numbers(*shape: int, seed: int = 0, low: float = 0.2, high: float = 0.9) -> Any:
    return np.random.default_rng(seed).uniform(low, high, shape)


@pt.kernel
def saxpy(a, x, y):
    i = kl.global_id(0)
    if i < y.shape[0]:
        y[i] = a * x[i] * x[i] + kl.sin(y[i])


def test_a_number_an_array_and_one_in_place(device: Device) -> None:
    assert_gradients(device.name, saxpy, 64, 1.5, numbers(N), numbers(N, seed=1))


@pt.kernel
def cubes(x, y):
    i = kl.global_id(0)
    y[i] = x[i] * x[i] * x[i]


def test_through_the_rounding_of_doubles_to_halves(device: Device) -> None:
    """As of a store that does not round, where seeds are halves."""
    x, seed = numbers(N), np.arange(N) / 4
    assert_gradients(device.name, cubes, N, x, np.zeros(N))
    half, double = (
        gradients_of(device.name, cubes, N, (x, np.zeros(N, kind)), (None, seed.astype(kind)), {})
        for kind in ("float16", "float64")
    )
    np.testing.assert_array_equal(half[0], double[0])


ONE = {
    **{name: getattr(kl, name) for name in ("sin", "cos", "tan", "exp", "exp2", "expm1", "log")},
    **{name: getattr(kl, name) for name in ("log2", "log10", "log1p", "sqrt", "rsqrt", "cbrt")},
    **{name: getattr(kl, name) for name in ("asin", "acos", "atan", "sinh", "cosh", "tanh")},
    **{name: getattr(kl, name) for name in ("asinh", "atanh", "abs", "square", "reciprocal")},
    **{name: getattr(kl, name) for name in ("sign", "floor", "ceil")},
}


@pt.kernel
def apply_one(x, y, *, f):
    i = kl.global_id(0)
    y[i] = f(x[i]) * x[i] ** 3


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_number(device: Device, name: str) -> None:
    x = numbers(N, low=1.2, high=2.8) if name == "floor" else numbers(N)
    assert_gradients(device.name, apply_one, N, x, np.zeros(N), f=ONE[name])


def test_acosh(device: Device) -> None:
    x = numbers(N, low=1.1, high=3)
    assert_gradients(device.name, apply_one, N, x, np.zeros(N), f=kl.acosh)


TWO = {
    **{name: getattr(kl, name) for name in ("add", "subtract", "multiply", "divide", "pow")},
    **{name: getattr(kl, name) for name in ("minimum", "maximum", "atan2", "hypot", "fmod")},
    **{name: getattr(kl, name) for name in ("remainder", "copysign", "logaddexp")},
    "floor_divide": kl.floor_divide,
}


@pt.kernel
def apply_two(x, y, z, *, f):
    i = kl.global_id(0)
    z[i] = f(x[i], y[i]) * x[i] + y[i]


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_numbers(device: Device, name: str) -> None:
    x, y = numbers(N), numbers(N, seed=1)
    assert_gradients(device.name, apply_two, N, x, y, np.zeros(N), f=TWO[name])


@pt.function
def piecewise(x, p):
    if x > p.bend:
        return x * p.slope
    if x > 0.3:
        return kl.sin(x) / p.slope
    return x


@dataclass(frozen=True)
class Shape:
    bend: float
    slope: float


@pt.kernel
def branches(p, x, y):
    i = kl.global_id(0)
    if i >= x.shape[0]:
        return
    v = piecewise(x[i], p)
    w = v
    if i % 2 == 0:
        w = w * v
    elif i % 3 == 0:
        w = w + p.bend
    else:
        v = v * v * w
    y[i] = w * v + kl.where(x[i] > 0.5, kl.sqrt(x[i] - 0.5), 0.0)


def test_branches_structs_functions_and_early_returns(device: Device) -> None:
    assert_gradients(device.name, branches, 64, Shape(0.61, 1.7), numbers(N), np.zeros(N))


@pt.kernel
def stencil(x, y):
    i = kl.global_id(0)
    j = kl.global_id(1)
    if 0 < i < x.shape[0] - 1 and 0 < j < x.shape[1] - 1:
        middle = x[i, j]
        y[i, j] = middle * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1] - 4 * middle)


def test_elements_that_many_read_are_added_to(device: Device) -> None:
    assert_gradients(device.name, stencil, ((16, 16), None), numbers(13, 11), np.zeros((13, 11)))


@pt.kernel
def histogram(x, w, bins, count):
    i = kl.global_id(0)
    at = kl.cast(x[i] * 4, kl.i32)
    kl.atomic_add(bins, at, w[i] * x[i])
    kl.atomic_sub(bins, 0, w[i])
    kl.atomic_add(count, at, 1)


def test_atomic_additions(device: Device) -> None:
    count = np.zeros(4, np.int32)
    assert_gradients(device.name, histogram, N, numbers(N), numbers(N, seed=1), np.zeros(4), count)


@pt.kernel
def overwrites(x, y):
    i = kl.global_id(0)
    y[i] = x[i] * 2
    y[i] = x[i] * x[i]
    y[i] *= 3
    x[i] = y[i] * y[i]


def test_what_was_overwritten_gets_nothing(device: Device) -> None:
    assert_gradients(device.name, overwrites, N, numbers(N), numbers(N))


@pt.kernel
def waves(x, y):
    i = kl.global_id(0)
    z = x[i] * x[i] + 1j * x[i]
    y[i] = kl.exp(z) / (x[i] + 2)


def test_complex_numbers(device: Device) -> None:
    x = numbers(N) + 1j * numbers(N, seed=1)
    assert_gradients(device.name, waves, N, x, np.zeros(N, complex))


@pt.kernel
def neighbours(x, y):
    i = kl.global_id(0)
    y[i] = x[i] * kl.conj(x[(i + 1) % x.shape[0]])


def test_complex_numbers_that_several_read(device: Device) -> None:
    x = numbers(N) + 1j * numbers(N, seed=1)
    assert_gradients(device.name, neighbours, N, x, np.zeros(N, complex))


@pt.kernel
def lanes(x, y):
    i = kl.global_id(0) * 4
    v = kl.vload(x, i, lanes=4)
    w = kl.vload(x, i + 1, lanes=4)
    kl.vstore(y, i, v * w + kl.splat(v[1], 4) * kl.vector(w[3], 1.0, v[0], w[2]))


def test_vectors(device: Device) -> None:
    assert_gradients(device.name, lanes, 8, numbers(33), np.zeros(32))


@pt.kernel
def meetings(x, y):
    total = kl.workgroup_reduce(kl.add, x[kl.global_id(0)])
    y[kl.global_id(0)] = total * total


def test_the_same_arrays_on_one_device_after_the_other() -> None:
    x, y, gx, gy = numbers(8), np.zeros(8), np.zeros(8), np.ones(8)
    launch, found = pt.vjp(meetings)[8, 4], []
    for name in ("cpu:native", "simulator", "cpu:native"):
        gx[:], gy[:] = 0, 1
        with pt.use(name):
            launch(x, y, gx, gy)
            pt.synchronize()
        found.append(gx.copy())
    np.testing.assert_allclose(found[1:], [found[0]] * 2)
    assert len(launch._plans) == 2
