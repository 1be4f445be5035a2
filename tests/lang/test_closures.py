"""Lambdas that stand in kernels, and what arrays say of their size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import Device
from portable.errors import KernelError


@pt.kernel
def polynomial(x: kl.Array, n: kl.Scalar) -> None:
    i = kl.global_id(0)
    if i < x.size:
        scale = n
        step = lambda v, plus=2.0: v * scale + plus  # noqa: E731
        total = x[i] * 0
        for j in range(3):
            scale = scale + 1
            total += step(x[i]) + step(v=1.0, plus=j)
        last = (lambda a: step(a) + 1) if x.ndim == 1 else (lambda a: a)
        x[i] = total + last(0.0)


def in_python(x: float, n: int) -> float:
    scale, total = n, 0.0
    step = lambda v, plus=2.0: v * scale + plus  # noqa: E731
    for j in range(3):
        scale += 1
        total += step(x) + step(v=1.0, plus=j)
    return total + step(0.0) + 1


@pt.kernel
def greatest(x: kl.Array, out: kl.Array) -> None:
    sign = out[0]
    found = kl.workgroup_reduce(lambda a, b: a if a * sign > b * sign else b, x[kl.local_id(0)])
    if kl.local_id(0) == 0:
        out[0] = found


@pt.kernel
def endless(x: kl.Array) -> None:
    again = lambda v: again(v)  # noqa: E731
    x[0] = again(x[0])


@pt.kernel
def sizes(x: kl.Array, out: kl.Array) -> None:
    out[0], out[1] = x.size, x[1:, 0].size


def on(device: Device, *values: Any) -> Any:
    return device.from_numpy(np.array(values, np.float32))


def test_a_lambda_sees_names_as_they_are_when_it_is_called(device: Device) -> None:
    x = on(device, 0.5, 1, 2)
    polynomial[3](x, 3)
    assert device.to_numpy(x).tolist() == [in_python(v, 3) for v in (0.5, 1, 2)]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_collective_takes_a_lambda(device: Device, sign: int) -> None:
    x, out = on(device, 3, -7, 5, 1), on(device, sign)
    greatest[4, 4](x, out)
    assert device.to_numpy(out)[0] == (5 if sign == 1 else -7)


def test_a_lambda_that_calls_itself_is_refused() -> None:
    with pytest.raises(KernelError, match="calls itself without end"):
        endless[1](np.zeros(1, np.float32))


def test_arrays_say_how_many_elements_they_have(device: Device) -> None:
    out = on(device, 0, 0)
    sizes[1](device.from_numpy(np.zeros((3, 4), np.float32)), out)
    assert device.to_numpy(out).tolist() == [12, 2]
