"""What has no gradient is refused, by its line or by its name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.errors import KernelError, LaunchError

pytestmark = pytest.mark.needs_float64
N = 8


@pt.kernel
def twice(x, y):
    i = kl.global_id(0)
    y[i] = 2 * x[i]


@pt.kernel
def shifted(x, y, z):
    i = kl.global_id(0)
    z[i] = x[i] * y[i + 1]


def arrays(count: int) -> list[Any]:
    return [np.ones(N) for _ in range(count)]


@pytest.fixture(autouse=True)
def _on_the_processor() -> Any:
    with pt.use("cpu:native"):
        yield


def test_gradients_have_the_shapes_of_arguments() -> None:
    x, y, dx, dy = arrays(4)
    with pytest.raises(
        LaunchError, match=r"gradient of x .* shape \(7,\); it must be of shape \(8,\)"
    ):
        pt.vjp(twice)[N](x, y, dx[1:], dy)
    with pytest.raises(LaunchError, match="as many gradients"):
        pt.vjp(twice)[N](x, y, dx)
    with pytest.raises(LaunchError, match="must be an array, or None"):
        pt.vjp(twice)[N](x, y, 1.0, dy)


@pt.kernel
def scaled(pair, y):
    i = kl.global_id(0)
    y[i] = pair[0][i] * pair[1]


def test_gradients_of_tuples_are_tuples() -> None:
    x, y, dx, dy = arrays(4)
    with pytest.raises(LaunchError, match=r"pair is a ndarray; .* tuple or struct of 2 items"):
        pt.vjp(scaled)[N]((x, 2.0), y, dx, dy)
    with pytest.raises(LaunchError, match="gradient of pair has 1 items; it must have 2"):
        pt.vjp(scaled)[N]((x, 2.0), y, (dx,), dy)


def test_gradients_do_not_repeat_elements() -> None:
    x, y, dy = arrays(3)
    with pytest.raises(LaunchError, match="lie in the same place"):
        pt.vjp(twice)[N](x, y, np.lib.stride_tricks.as_strided(np.zeros(1), (N,), (0,)), dy)


def test_integers_have_none() -> None:
    x = np.ones(N, np.int32)
    with pytest.raises(LaunchError, match="x holds no real or complex numbers"):
        pt.vjp(twice)[N](x, np.ones(N), np.zeros(N), np.ones(N))


def test_arrays_that_share_memory() -> None:
    x, dx, dy = arrays(3)
    with pytest.raises(LaunchError, match="share memory and writes"):
        pt.vjp(twice)[N](x, x, dx, dy)
    both = np.ones(N + 1)
    z, dz = arrays(2)
    with pytest.raises(LaunchError, match="gradient that shares memory"):
        pt.vjp(shifted)[N](both[:N], both, z, both[:N], np.zeros(N + 1), dz)
    dboth = np.zeros(N + 1)
    dx[:], dz[:] = 0, 1
    pt.vjp(shifted)[N](both[:N], both, z, dx, dboth, dz)
    assert np.allclose(dx, 1)
    assert np.allclose(dboth[1:], 1)


@pt.kernel
def tickets(x, count, y):
    i = kl.global_id(0)
    at = kl.atomic_add(count, 0, 1)
    y[at] = x[i] * x[i]


@pt.kernel
def greatest(x, y):
    kl.atomic_max(y, 0, x[kl.global_id(0)])


@pt.kernel
def sums_so_far(x, total, y):
    i = kl.global_id(0)
    y[i] = kl.atomic_add(total, 0, x[i])


@pt.kernel
def what_is_left(x, total, y):
    i = kl.global_id(0)
    y[i] = kl.atomic_sub(total, 0, x[i])


@pt.kernel
def bits(x, y):
    i = kl.global_id(0)
    y[i] = kl.bitcast(kl.bitcast(x[i], kl.u64) ^ 1, kl.f64) + kl.bitcast(x[i], kl.f64)


@pytest.mark.parametrize(
    ("kernel", "count", "reason"),
    [
        (tickets, 3, "an atomic operation returns"),
        (greatest, 2, "atomic_max"),
        (sums_so_far, 3, "an atomic operation returns"),
        (what_is_left, 3, "an atomic operation returns"),
    ],
)
def test_lines_without_gradients(kernel: Any, count: int, reason: str) -> None:
    given, gradients = arrays(count), arrays(count)
    if kernel is tickets:
        given[1], gradients[1] = np.zeros(1, np.int32), None
    with pytest.raises(KernelError, match=reason) as caught:
        pt.vjp(kernel)[N, N](*given, *gradients)
    assert f"{__file__}:" in str(caught.value)


@pt.kernel
def accumulates(x, y, z):
    i = kl.global_id(0)
    y[i] += x[i] * x[i]
    z[i] = y[i] * y[i]


def test_an_array_between_without_its_gradient() -> None:
    x, y, z, dx, dz = arrays(5)
    with pytest.raises(KernelError, match="without an array for its own gradient"):
        pt.vjp(accumulates)[N](x, y, z, dx, None, dz)


@pt.kernel
def gathered(x, at, y):
    i = kl.global_id(0)
    y[i] = x[at[i]] * x[i]


@pt.kernel
def smoothed(c, x, y):
    i = kl.global_id(0)
    if 0 < i < x.shape[0] - 1:
        y[i] = c * x[i - 1] * x[i + 1]


def test_sums_in_no_fixed_order() -> None:
    x, y, dx = arrays(3)
    at = np.zeros(N, np.int32)
    with pytest.raises(KernelError, match="in a fixed order: several work-items add to d_x"):
        pt.vjp(gathered, deterministic=True)[N](x, at, y, dx, None, np.ones(N))
    found = []
    for _ in range(2):
        dc, dx = np.zeros(1), np.zeros(N)
        pt.vjp(smoothed, deterministic=True)[N](0.3, x, y, dc, dx, np.ones(N))
        pt.synchronize()
        found.append((dc, dx))
    assert np.array_equal(found[0][0], found[1][0])
    assert np.array_equal(found[0][1], found[1][1])
    assert np.allclose(found[0][0], N - 2)


@pt.function
def half(x):
    return 0.5 * x


def test_functions_that_kernels_call_take_no_adjoint_of_their_own() -> None:
    with pytest.raises(TypeError, match="half is called in kernels"):
        pt.custom_vjp(half, lambda g, x: (g,))
