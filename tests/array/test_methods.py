"""Arrays have NumPy's methods, which give what NumPy's give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import portable
from portable.array.methods.numpy_methods import Methods
from portable.backend import Device
from portable.errors import DTypeError, ShapeError

A = np.random.default_rng(0).integers(-9, 10, (2, 3, 4)).astype(np.float32) / 4
CALLS: dict[str, Callable[[Any], Any]] = {
    "all": lambda x: x.all(1),
    "any": lambda x: x.any(axis=(0, 2)),
    "argmax": lambda x: x.argmax(2),
    "argmin": lambda x: x.argmin(),
    "argsort": lambda x: x.argsort(1, stable=True),
    "astype": lambda x: x.astype("int32"),
    "clip": lambda x: x.clip(-1, 1),
    "conj": lambda x: (x + 1j).conj(),
    "conjugate": lambda x: (x + 1j).conjugate(),
    "copy": lambda x: x[..., ::2].copy(),
    "cumprod": lambda x: x.cumprod(2),
    "cumsum": lambda x: x.cumsum(),
    "diagonal": lambda x: x[0].diagonal(),
    "dot": lambda x: x.dot(x[0].T),
    "fill": lambda x: _changed(x, lambda y: y.fill(2)),
    "flatten": lambda x: x[0].T.flatten(),
    "imag": lambda x: (x * 2j).imag,
    "item": lambda x: x.item(1, 2, 3),
    "max": lambda x: x.max(0, keepdims=True),
    "mean": lambda x: x.mean(),
    "min": lambda x: x.min(2),
    "nonzero": lambda x: x.nonzero()[2],
    "prod": lambda x: x.prod(0),
    "ravel": lambda x: x[:, 1].ravel(),
    "real": lambda x: (x * 2j).real,
    "repeat": lambda x: x.repeat(2, 1),
    "reshape": lambda x: x.reshape(4, -1),
    "round": lambda x: x.round(1),
    "searchsorted": lambda x: x.ravel()[:1].searchsorted(x.ravel()),
    "sort": lambda x: _changed(x, lambda y: y.sort(1)),
    "squeeze": lambda x: x[:1, :, :1].squeeze(),
    "std": lambda x: x.std(1, ddof=1),
    "sum": lambda x: (x > 0).sum(2),
    "swapaxes": lambda x: x.swapaxes(0, -1),
    "take": lambda x: x.take(x[0, 0, :2].astype("int64") * 0, 1),
    "tolist": lambda x: x.tolist(),
    "trace": lambda x: x[1].trace(),
    "transpose": lambda x: (x.transpose(2, 0, 1) * x.transpose((2, 0, 1))).transpose(),
    "var": lambda x: x.var(),
    "view": lambda x: x[1:, ::2].view("int32") + x[0].view("uint8")[:2, :1],
}


def _changed(x: Any, change: Callable[[Any], None]) -> Any:
    y = x.copy()
    change(y)
    return y


def test_every_method_is_tested() -> None:
    assert {name for name in vars(Methods) if not name.startswith("_")} == set(CALLS)


def test_methods_are_numpys(simulated: Device) -> None:
    x = simulated.from_numpy(A)
    for name, call in CALLS.items():
        found, expected = call(x), call(A)
        if not isinstance(expected, list | float):
            assert type(found) is type(x), name
            found = portable.to_numpy(found)
            assert found.shape == np.shape(expected), name
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, err_msg=name)


def test_methods_on_every_device(ours: Device) -> None:
    x = ours.from_numpy(A)
    assert x.sum(axis=0).reshape(-1).astype("float64").shape == (12,)
    assert float((x - x.mean()).sum()) == pytest.approx(0, abs=1e-4)
    x.transpose().copy().fill(0)
    assert portable.to_numpy(x).tolist() == A.tolist()


def test_operators_that_python_asks_several_for(simulated: Device) -> None:
    x = simulated.from_numpy(A)
    for found, expected in (
        (divmod(x, 0.75), divmod(A, 0.75)),
        (divmod(2, x + 3), divmod(2, A + 3)),
    ):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(portable.to_numpy(one), other)
    assert float(A[1, 2, 3]) in x
    assert 77 not in x
    assert None not in x
    assert "a" not in x


def test_bits_of_wider_types(simulated: Device) -> None:
    x = simulated.from_numpy(A)
    x[1].view("complex64")[0, 1] = 5 - 7j
    assert portable.to_numpy(x)[1, 0, 2:].tolist() == [5, -7]
    assert x[..., :0].view("complex64").shape == A[..., :0].view("complex64").shape
    for part in (x[..., 1:3], x[..., :3], x.mT):
        with pytest.raises(ShapeError, match=r"view as c64"):
            part.view(np.complex64)


def test_refusals(simulated: Device) -> None:
    x = simulated.from_numpy(A)
    with pytest.raises(TypeError, match=r"x\.any\(\) or x\.all\(\)"):
        bool(x)
    with pytest.raises(AttributeError, match=r"portable\.asarray\(x, device="):
        x.to("cpu")
    for ambiguous in ("i8", "u8"):
        with pytest.raises(DTypeError, match=r"int64 to NumPy and u?int8 in"):
            x.astype(ambiguous)
    with pytest.raises(ShapeError, match="name one element"):
        x.item()
    with pytest.raises(ShapeError):
        x.reshape(5, 5)
    with pytest.raises(ShapeError):
        x.transpose(0, 1)
