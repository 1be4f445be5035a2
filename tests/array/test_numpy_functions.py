"""NumPy's functions and operators on arrays of devices: what they run, and what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import portable
from portable.backend import Device

A = np.array([[1.0, 4.0, 9.0], [0.25, 2.25, 6.25]], np.float32)

ALIKE: dict[str, Callable[[Any], Any]] = {
    "sqrt": np.sqrt,
    "power": lambda x: np.power(x, 2),
    "arctan2": lambda x: np.arctan2(x, np.float32(2)),
    "scalar times array": lambda x: np.float32(2) * x,
    "scalar minus array": lambda x: np.float32(2) - x,
    "matmul": lambda x: np.matmul(x, x.T),
    "sum": np.sum,
    "sum by position": lambda x: np.sum(x, 0),
    "mean": lambda x: np.mean(x, axis=1, keepdims=True),
    "std": lambda x: np.std(x, ddof=1),
    "max": np.max,
    "cumsum": np.cumsum,
    "sort": lambda x: np.sort(x, axis=-1),
    "argsort": np.argsort,
    "clip": lambda x: np.clip(x, 1, 4),
    "round": lambda x: np.round(x, 1),
    "where": lambda x: np.where(x > 2, x, 0),
    "concatenate": lambda x: np.concatenate([x, x], axis=1),
    "stack": lambda x: np.stack([x, x]),
    "transpose": np.transpose,
    "reshape": lambda x: np.reshape(x, (3, -1)),
    "zeros_like": np.zeros_like,
    "trace": lambda x: np.trace(x[:, :2]),
    "fft": lambda x: np.fft.ifft(np.fft.fft(x, axis=0), axis=0),
}

MIXED: dict[str, Callable[[Any], Any]] = {
    "array + NumPy's": lambda x: x + A,
    "NumPy's + array": lambda x: A + x,
    "==": lambda x: x == A,
    "<": lambda x: x > A,
    "@": lambda x: A @ x.T,
    "in place": lambda x: np.multiply(x, 2, out=A.copy()),
}

MISSING: dict[str, Callable[[Any], Any]] = {
    "numpy.frexp is": np.frexp,
    "numpy.add.outer is": lambda x: np.add.outer(x, x),
    "numpy.exp with where is": lambda x: np.exp(x, where=True),
    "numpy.allclose is": lambda x: np.allclose(x, x),
    "numpy.linalg.norm is": np.linalg.norm,
    "numpy.sum with where is": lambda x: np.sum(x, where=x > 0),
}


@pytest.mark.parametrize("name", ALIKE)
def test_functions_run_on_the_device(simulated: Device, name: str) -> None:
    x = portable.asarray(A, device=simulated)
    found, wanted = ALIKE[name](x), ALIKE[name](A)
    assert type(found) is type(x)
    assert found.device is x.device
    np.testing.assert_allclose(portable.to_numpy(found), wanted, rtol=1e-5, atol=1e-6)


def test_what_arrays_are_is_asked_without_copying(simulated: Device) -> None:
    x = portable.asarray(A, device=simulated)
    assert (np.shape(x), np.ndim(x), np.size(x)) == ((2, 3), 2, 6)


@pytest.mark.parametrize("name", MIXED)
def test_arrays_of_the_host_are_not_mixed_in(simulated: Device, name: str) -> None:
    x = portable.asarray(A, device=simulated)
    place = rf"asarray\(y, device='{simulated.name}'\) or portable.to_numpy\(x\)"
    with pytest.raises(TypeError, match=place):
        MIXED[name](x)


@pytest.mark.parametrize("words", MISSING)
def test_functions_without_an_equal_say_what_to_do(simulated: Device, words: str) -> None:
    x = portable.asarray(A, device=simulated)
    with pytest.raises(TypeError, match=rf"{words} not among .* portable.to_numpy\(x\) makes"):
        MISSING[words](x)
