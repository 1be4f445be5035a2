"""Gradients through several launches and operations."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable import primitives
from portable.backend import Device
from portable.errors import DataError, KernelError, UnsupportedError

pytestmark = pytest.mark.needs_float64
N = 11


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(0.2, 0.9, shape)


def differences(loss: Callable[..., Any], *args: Any) -> list[Any]:
    """Central differences of a loss by each element of each array."""
    out = []
    for number, x in enumerate(args):
        slope = np.zeros_like(x)
        for at in np.ndindex(x.shape):
            values = []
            for by in (1e-6, -1e-6):
                moved = [y.copy() for y in args]
                moved[number][at] += by
                values.append(float(loss(*moved)))
            slope[at] = (values[0] - values[1]) / 2e-6
        out.append(slope)
    return out


def assert_taped(device: Device, program: Callable[..., Any], *args: Any) -> None:
    """The gradients of a program's loss, which it gives as an array, are those of differences."""

    def loss(*given: Any) -> float:
        arrays = [device.from_numpy(x.copy()) for x in given]
        return float(device.to_numpy(program(*arrays)).sum())

    arrays = [device.from_numpy(x.copy()) for x in args]
    with pt.Tape() as tape:
        end = program(*arrays)
    found = tape.gradient(end, arrays)
    for ours, wanted in zip(found, differences(loss, *args), strict=True):
        np.testing.assert_allclose(device.to_numpy(ours), wanted, rtol=1e-6, atol=1e-7)


@pt.kernel
def step(dt, x, v, out):
    i = kl.global_id(0)
    v[i] = v[i] - dt * kl.sin(x[i])
    out[i] = x[i] + dt * v[i]


def empty_like(x: Any) -> Any:
    return pt.device(device_name(x)).from_numpy(np.zeros(x.shape))


def device_name(x: Any) -> str:
    from portable.namespace import device_of

    return device_of(x).name


def test_steps_that_write_arrays_again(device: Device) -> None:
    def program(x: Any, v: Any) -> Any:
        both = [x, empty_like(x)]
        for k in range(4):
            step[N](0.1, both[k % 2], v, both[(k + 1) % 2])
        return primitives.reduce(both[0], each=kl.square)

    assert_taped(device, program, numbers(N), numbers(N, seed=1))


@pt.kernel
def scales(x, w):
    i = kl.global_id(0)
    x[i] *= w[i] * x[i]


def test_arrays_in_place(device: Device) -> None:
    def program(x: Any, w: Any) -> Any:
        for _ in range(3):
            scales[N](x, w)
        return primitives.reduce(x)

    assert_taped(device, program, numbers(N), numbers(N, seed=1))


@pytest.mark.parametrize(
    "reduction",
    [
        primitives.reduce,
        lambda x: primitives.reduce(primitives.reduce(x, axis=0), each=kl.exp),
        lambda x: primitives.reduce(primitives.reduce(x, kl.maximum, axis=1)),
        lambda x: primitives.reduce(x, kl.minimum),
        lambda x: primitives.reduce(primitives.scan(x, axis=0), each=kl.square),
        lambda x: primitives.reduce(primitives.scan(x, inclusive=False), each=kl.sin),
        lambda x: primitives.reduce(primitives.map(kl.sqrt, x)),
        lambda x: primitives.reduce(primitives.copy(x), each=kl.square),
    ],
)
def test_operations(device: Device, reduction: Any) -> None:
    assert_taped(device, reduction, numbers(3, 5))


def test_products(device: Device) -> None:
    def program(x: Any, y: Any) -> Any:
        return primitives.reduce(pt.linalg.gemm(x, y, alpha=1.5), each=kl.square)

    assert_taped(device, program, numbers(3, 5), numbers(5, 4, seed=1))


def test_gathering(device: Device) -> None:
    at = device.from_numpy(np.array([2, 0, 2, -1], np.int32))

    def program(x: Any) -> Any:
        return primitives.reduce(primitives.gather(x, at), each=kl.square)

    assert_taped(device, program, numbers(4, 3))


def test_functions_of_arrays() -> None:
    xp = pt.xp("cpu:native-arrays")
    x, y = numbers(N), numbers(N, seed=1)
    a, b = xp.asarray(x), xp.asarray(y)
    with pt.Tape() as tape:
        z = xp.sin(a) * b + 2.0 / a
        z *= b
        loss = xp.exp(-z)
    found = tape.gradient(loss, (a, b), seed=xp.ones(N))
    wanted = differences(lambda p, q: np.exp(-(np.sin(p) * q + 2 / p) * q).sum(), x, y)
    for ours, slope in zip(found, wanted, strict=True):
        np.testing.assert_allclose(pt.to_numpy(ours), slope, rtol=1e-6, atol=1e-8)


def test_an_array_that_is_given_twice(device: Device) -> None:
    def program(x: Any) -> Any:
        return primitives.reduce(pt.linalg.gemm(x, x), each=kl.square)

    assert_taped(device, program, numbers(3, 3))


def test_what_has_no_gradient_is_refused_where_one_goes_through_it() -> None:
    x = numbers(4, 4)
    with pt.Tape() as tape:
        values = pt.linalg.pinv(x)
        loss = primitives.reduce(x)
        ordered = primitives.reduce(primitives.sort_by_key(x, x + 1)[1])
        other = primitives.reduce(values)
    assert np.array_equal(tape.gradient(loss, x), np.ones((4, 4)))
    with pytest.raises(UnsupportedError, match="pinv has no gradient"):
        tape.gradient(other, x)
    with pytest.raises(UnsupportedError, match="no gradient"):
        tape.gradient(ordered, x)


@pytest.mark.parametrize("inside", [lambda x, y: scales[N](y, x), primitives.copy])
def test_what_a_tape_in_another_records_is_refused_there(inside: Any) -> None:
    """The outer one would take what it gives for constants."""
    x, y = numbers(N), numbers(N)
    with pt.Tape() as outer:
        with pt.Tape() as inner:
            inside(x, y)
        scales[N](y, x)
        loss = primitives.reduce(y)
    assert inner.gradient(y, x, seed=y).shape == (N,)
    with pytest.raises(UnsupportedError, match="what a tape inside of this one records"):
        outer.gradient(loss, x)


def test_a_tape_in_another_takes_what_views_share_memory() -> None:
    """The outer one refuses no view that the inner one knows, and gradients alone through both."""
    xp = pt.xp("cpu:native-arrays")
    x = xp.asarray(numbers(3, 4))
    with pt.Tape() as outer:
        with pt.Tape() as inner:
            first = xp.sum(x[:, 0] * x[:, 1])
        loss = xp.sum(x * x)
        both = loss + first
    assert np.array_equal(pt.to_numpy(outer.gradient(loss, x)), pt.to_numpy(2 * x))
    assert pt.to_numpy(inner.gradient(first, x))[:, :2].all()
    with pytest.raises(UnsupportedError, match="what a tape inside of this one records"):
        outer.gradient(both, x)


@pt.kernel
def greatest(x, y):
    kl.atomic_max(y, 0, x[kl.global_id(0)])


def test_a_kernel_without_a_gradient_is_refused_by_its_line() -> None:
    x, y = numbers(N), np.zeros(1)
    with pt.Tape() as tape:
        greatest[N](x, y)
    with pytest.raises(KernelError, match="atomic_max"):
        tape.gradient(y, x)


def test_sources_that_the_loss_does_not_depend_on() -> None:
    x, y = numbers(N), numbers(N)
    with pt.Tape() as tape:
        loss = primitives.reduce(x)
    with pytest.raises(DataError, match="does not depend on source 1"):
        tape.gradient(loss, (x, y))
    with pytest.raises(DataError, match="is no array that something"):
        tape.gradient(x, x)


def test_arrays_that_something_else_wrote() -> None:
    x = numbers(1000)
    with pt.Tape() as tape:
        loss = primitives.reduce(primitives.map(kl.square, x))
    assert np.allclose(tape.gradient(loss, x), 2 * x)
    x[4] *= 2
    with pytest.raises(DataError, match="by what the tape does not see"):
        tape.gradient(loss, x)


@pt.kernel
def squares_at(x, at, y):
    i = kl.global_id(0)
    z = x[kl.cast(at[i], kl.i32)]
    y[i] = kl.real(z * z)


@pytest.mark.parametrize("where", ["cpu:native", "cpu:native-arrays"])
@pytest.mark.parametrize("kind", [np.int32, bool, np.float16])
def test_positions_that_something_else_wrote(where: str, kind: Any) -> None:
    device = pt.device(where)
    x, y, at = (device.from_numpy(a) for a in (numbers(2), np.zeros(2), np.zeros(2, kind)))
    with pt.use(where), pt.Tape() as tape:
        squares_at[2](x, at, y)
    primitives.copy(device.from_numpy(np.ones(2, kind)), at)
    with pt.use(where), pytest.raises(DataError, match="by what the tape does not see"):
        tape.gradient(y, x, seed=y)


@pytest.mark.parametrize("part", [np.s_[:, 1], np.s_[::2, :, 1], np.s_[::2, ::2]])
def test_views_that_something_else_wrote(part: Any) -> None:
    device = pt.device("cpu:native-arrays")
    x = device.from_numpy(numbers(4, 300) * 1j if len(part) == 2 else numbers(4, 30, 5))[part]
    with pt.Tape() as tape:
        y = primitives.map(kl.square, x)
    primitives.copy(primitives.map(kl.negative, x), x)
    with pytest.raises(DataError, match="by what the tape does not see"):
        tape.gradient(y, x, seed=y)


@pt.kernel
def doubles(x, y):
    i = kl.global_id(0)
    y[i] = 2 * x[i]


@pt.kernel
def triples_back(x, y, dx, dy):
    i = kl.global_id(0)
    dx[i] += 3 * dy[i]
    dy[i] = 0


def test_adjoints_of_ones_own() -> None:
    own = pt.custom_vjp(doubles, triples_back)
    x, y = numbers(N), np.zeros(N)
    with pt.Tape() as tape:
        own[N](x, y)
    assert np.allclose(tape.gradient(y, x, seed=np.ones(N)), 3)
    sine = pt.custom_vjp(np.sin, lambda g, x: (g * np.cos(x),))
    with pt.Tape() as tape:
        loss = primitives.reduce(sine(x))
    assert np.allclose(tape.gradient(loss, x), np.cos(x))


def product_of(x: Any, w: Any) -> Any:
    y = empty_like(x)
    times_the_first[N](x, w, y)
    return y


@pt.kernel
def times_the_first(x, w, y):
    i = kl.global_id(0)
    y[i] = x[i] * w[i % w.shape[0]]


def product_back(g: Any, x: Any, w: Any) -> Any:
    with pt.Tape() as tape:
        y = product_of(x, w)
    return tape.gradient(y, (x, w), seed=g)


def test_an_adjoint_of_ones_own_by_a_tape_of_what_shares_memory(device: Device) -> None:
    """What goes through one argument must not be counted for the other one as well."""
    own = pt.custom_vjp(product_of, product_back)

    def program(x: Any) -> Any:
        with pt.use(device.name):
            return primitives.reduce(own(own(x, x[:3]), x), each=kl.square)

    assert_taped(device, program, numbers(N))


def test_a_fused_function_of_an_array_and_its_part() -> None:
    fused = pt.fuse(lambda a, b: a * b + b * b * a)
    device = pt.device("cpu:native-arrays")
    assert_taped(device, lambda x: primitives.reduce(fused(x, x[1:2])), numbers(N))


def test_a_function_of_ones_own_that_writes_what_it_is_given() -> None:
    def scaled(x: Any) -> Any:
        primitives.copy(primitives.map(kl.square, x), x)
        return primitives.copy(x)

    own, x = pt.custom_vjp(scaled, lambda g, x: (2 * g * x,)), numbers(N)
    with pt.Tape() as tape:
        loss = primitives.reduce(own(x))
    with pytest.raises(DataError, match="by what the tape does not see"):
        tape.gradient(loss, x)


def test_seeds_of_complex_and_half_precision() -> None:
    x = (numbers(N) + 1j * numbers(N, seed=1)).astype(np.complex128)
    with pt.Tape() as tape:
        y = primitives.map(kl.square, x)
    seed = np.ones(N) * (1 - 2j)
    assert np.allclose(tape.gradient(y, x, seed=seed), seed * np.conj(2 * x))
    half = numbers(N).astype(np.float16)
    with pt.Tape() as tape:
        loss = primitives.map(kl.square, half)
    found = tape.gradient(loss, half, seed=np.ones(N, np.float16))
    assert found.dtype == np.float16
    assert np.allclose(found, 2 * half, rtol=1e-3)


def test_functions_of_two_arrays_through_operators() -> None:
    xp = pt.xp("cpu:native-arrays")
    x, y = xp.asarray(numbers(N)), xp.asarray(numbers(N, seed=1))
    for act in (operator.add, operator.sub, operator.mul, operator.truediv, operator.pow):
        with pt.Tape() as tape:
            loss = primitives.reduce(act(x, y))
        gx, gy = (pt.to_numpy(g) for g in tape.gradient(loss, (x, y)))
        a, b = pt.to_numpy(x), pt.to_numpy(y)
        wanted = differences(lambda p, q, act=act: act(p, q).sum(), a, b)
        assert np.allclose(gx, wanted[0])
        assert np.allclose(gy, wanted[1])


@pt.kernel
def logistic(rate, x, steps, y):
    i = kl.global_id(0)
    v = x[i]
    for _ in range(steps):
        v = rate[0] * v * (1 - v)
    y[i] = v


def test_tapes_without_checks_can_be_part_of_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    device = pt.device("cpu:native-arrays")
    x, y = (device.from_numpy(numbers(N, seed=i)) for i in range(2))
    rate = device.from_numpy(np.array([2.9]))

    def slopes(**how: Any) -> Any:
        with pt.Tape(**how) as tape:
            logistic[N](rate, x, 5, y)
            loss = primitives.reduce(primitives.map(kl.square, y))
        return tape.gradient(loss, (rate, x))

    slopes()
    wanted = [device.to_numpy(g) for g in slopes()]

    def wait(*_: Any) -> None:
        raise AssertionError("it waits for the device")

    with monkeypatch.context() as patch:
        patch.setattr("portable.gradients.tape.synchronize", wait)
        patch.setattr(type(device), "to_numpy", wait)
        patch.setattr(type(device), "from_numpy", wait)
        with pytest.raises(AssertionError, match="waits"):
            slopes()
        found = slopes(check=False)
    for g, w in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(device.to_numpy(g), w)
