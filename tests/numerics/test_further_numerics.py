"""NumPy's further functions on the arrays of every device and library, against NumPy's own."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable import numerics as n
from portable import primitives
from portable.backend import Device
from portable.errors import DTypeError, ShapeError
from tests.numerics.test_numerics import Case, Make, check, named

RANDOM = np.random.default_rng(11)
F = RANDOM.standard_normal((4, 5, 6)).astype(np.float32)
M = RANDOM.standard_normal((6, 40)).astype(np.float32)
I = RANDOM.integers(-9, 10, (7, 6)).astype(np.int32)  # noqa: E741  (a matrix, like F)
ODD = np.float32([np.nan, np.inf, -np.inf, np.inf, 1.0, 1.0])
EVEN = np.float32([np.nan, np.inf, np.inf, 1.0, 1.00001, 1.1])
KEYS = RANDOM.integers(0, 9, 300).astype(np.int32)
VALUES = RANDOM.integers(-5, 6, 300).astype(np.float32)
ROWS = RANDOM.integers(0, 2, (60, 3)).astype(np.int32)
PLACES = np.float32([0.0, 0.5, 2.0, 2.5, 4.0, 7.0])
OFFSETS = np.array([0, 0, 7, 150, 151, 151, 300])
STARTS = [slice(a, b) for a, b in pairwise(OFFSETS)]


def _larger(a: Any, b: Any) -> Any:
    return kl.where(a > b, a, b)


def rows(a: np.ndarray[Any, Any]) -> Any:
    return tuple(np.unique(a, axis=0, return_index=True, return_inverse=True, return_counts=True))


def grouped(function: Callable[..., Any]) -> Any:
    keys = np.unique(KEYS)
    return keys, np.float32([function(VALUES[key == KEYS]) for key in keys])


CASES: dict[str, Case] = {
    "norm": (lambda m: n.norm(m(F)), np.linalg.norm(F)),
    "norm of integers": (lambda m: n.norm(m(I)), np.linalg.norm(I)),
    "norm 1 along an axis": (lambda m: n.norm(m(F), 1, axis=1), np.linalg.norm(F, 1, axis=1)),
    "norm of matrices": (
        lambda m: n.norm(m(F), np.inf, axis=(2, 0), keepdims=True),
        np.linalg.norm(F, np.inf, axis=(2, 0), keepdims=True),
    ),
    "nuclear norm": (lambda m: n.norm(m(F[0]), "nuc"), np.linalg.norm(F[0], "nuc")),
    "isclose": (lambda m: n.isclose(m(ODD), m(EVEN)), np.isclose(ODD, EVEN)),
    "isclose, NaN": (
        lambda m: n.isclose(m(ODD), m(EVEN), equal_nan=True, rtol=0.2),
        np.isclose(ODD, EVEN, equal_nan=True, rtol=0.2),
    ),
    "isclose to a number": (lambda m: n.isclose(m(I), 3), np.isclose(I, 3)),
    "a number close to": (lambda m: n.isclose(np.inf, m(ODD)), np.isclose(np.inf, ODD)),
    "cov": (lambda m: n.cov(m(M)), np.cov(M)),
    "cov of columns": (lambda m: n.cov(m(I), rowvar=False, bias=True), np.cov(I.T, bias=True)),
    "cov of one": (lambda m: n.cov(m(M[0]), ddof=2), np.cov(M[0], ddof=2)),
    "corrcoef": (lambda m: n.corrcoef(m(M)), np.corrcoef(M)),
    "digitize": (
        lambda m: n.digitize(m(F), m(np.float32([-1, 0, 0.5]))),
        np.digitize(F, np.float32([-1, 0, 0.5])),
    ),
    "digitize, right": (
        lambda m: n.digitize(m(I), m(np.int32([-3, 0, 0, 5])), right=True),
        np.digitize(I, np.int32([-3, 0, 0, 5]), right=True),
    ),
    "digitize, descending": (
        lambda m: n.digitize(m(I), m(np.int32([5, 2, 0]))),
        np.digitize(I, np.int32([5, 2, 0])),
    ),
    "gradient": (lambda m: n.gradient(m(F)), tuple(np.gradient(F))),
    "gradient of two": (
        lambda m: n.gradient(m(F[0, :, :2]), axis=1),
        np.gradient(F[0, :, :2], axis=1),
    ),
    "gradient at places": (
        lambda m: n.gradient(m(F), m(PLACES), axis=-1),
        np.gradient(F, PLACES, axis=-1),
    ),
    "gradient, spacings": (
        lambda m: n.gradient(m(I), 2.0, 0.5, axis=(1, 0)),
        tuple(np.gradient(I, 2.0, 0.5, axis=(1, 0))),
    ),
    "trapezoid": (lambda m: n.trapezoid(m(F), dx=0.5, axis=0), np.trapezoid(F, dx=0.5, axis=0)),
    "trapezoid at places": (lambda m: n.trapezoid(m(F), m(PLACES)), np.trapezoid(F, PLACES)),
    "unique rows": (lambda m: n.unique_rows(m(ROWS)), rows(ROWS)),
    "reduce by key": (lambda m: n.reduce_by_key(m(KEYS), m(VALUES)), grouped(np.sum)),
    "greatest by key": (
        lambda m: n.reduce_by_key(m(KEYS), m(VALUES), np.maximum),
        grouped(np.max),
    ),
    "segments": (
        lambda m: n.segmented_reduce(m(VALUES), m(OFFSETS)),
        np.float32([VALUES[part].sum() for part in STARTS]),
    ),
    "greatest of segments": (
        lambda m: n.segmented_reduce(m(VALUES), m(OFFSETS), _larger, neutral=-9),
        np.float32([VALUES[part].max(initial=-9) for part in STARTS]),
    ),
    "topk": (
        lambda m: primitives.topk(m(F), 2, axis=1),
        (np.sort(F, axis=1)[:, :-3:-1], np.argsort(-F, axis=1, stable=True)[:, :2]),
    ),
    "least ones": (
        lambda m: primitives.topk(m(KEYS), 7, largest=False),
        (np.sort(KEYS)[:7], np.argsort(KEYS, stable=True)[:7]),
    ),
}
FEW = {
    "cov",
    "isclose",
    "digitize, descending",
    "unique rows",
    "greatest by key",
    "topk",
}
"""For devices that compile kernels, which takes most of the time."""

REFUSED: dict[str, tuple[Callable[[Make], Any], type[Exception], str]] = {
    "a norm of three dimensions": (lambda m: n.norm(m(F), 2), ShapeError, "one axis or two"),
    "too few observations": (lambda m: n.cov(m(M[:, :1])), ValueError, "divides by 0"),
    "cov of three dimensions": (lambda m: n.cov(m(F)), ShapeError, "one or two dimensions"),
    "bins in no order": (
        lambda m: n.digitize(m(F), m(np.float32([0, 2, 1]))),
        ValueError,
        "ascending or in descending",
    ),
    "a matrix of bins": (lambda m: n.digitize(m(F), m(M)), ShapeError, "a vector of bins"),
    "one point": (lambda m: n.gradient(m(M[:, :1])), ShapeError, "two points or more"),
    "spacings": (lambda m: n.gradient(m(F), 1.0, 2.0), ValueError, "3 axes takes"),
    "other coordinates": (lambda m: n.trapezoid(m(F), m(PLACES[:3])), ShapeError, "3 coordinates"),
    "rows of a vector": (lambda m: n.unique_rows(m(KEYS)), ShapeError, "takes a matrix"),
    "complex rows": (lambda m: n.unique_rows(m(M + 1j)), DTypeError, "real numbers and bools"),
    "keys of another length": (
        lambda m: n.reduce_by_key(m(KEYS[:3]), m(VALUES)),
        ShapeError,
        "one length",
    ),
    "segments of a matrix": (
        lambda m: n.segmented_reduce(m(M), m(OFFSETS)),
        ShapeError,
        "a vector",
    ),
    "a part": (lambda m: primitives.topk(m(M), 2.5), TypeError, "integer"),
    "too many": (lambda m: primitives.topk(m(M), 41), ValueError, "has 40 elements"),
}


@pytest.mark.needs_namespace
def test_on_devices(device: Device) -> None:
    compiled = not device.interprets and not device.owns(F)
    with pt.use(device):
        xp = pt.xp()
        for name, case in CASES.items():
            if name in FEW or not compiled:
                with named(name):
                    check(case, xp.asarray, type(xp.asarray(F)))


@pytest.mark.needs_namespace
def test_refusals(device: Device) -> None:
    with pt.use(device):
        for name, (call, error, message) in REFUSED.items():
            with named(name), pytest.raises(error, match=message):
                call(pt.xp().asarray)


@pytest.mark.needs_namespace
def test_whether_all_are_close(device: Device) -> None:
    x = pt.xp(device).asarray(F)
    assert n.allclose(x, x + 1e-7) is True
    assert n.allclose(x, x + 1e-2) is False
    assert n.allclose(x, x + 1e-2, atol=0.1)


@pytest.mark.needs_namespace
def test_numbers_on_a_logarithmic_scale(device: Device) -> None:
    found = pt.to_numpy(n.logspace(-1, 2, 7, base=2.0, device=device, dtype="float32"))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.logspace(-1, 2, 7, base=2.0), rtol=1e-6)
    assert pt.to_numpy(
        n.logspace(0, 3, 3, endpoint=False, device=device)
    ).tolist() == pytest.approx([1, 10, 100])


@pytest.mark.needs_namespace
def test_nothing(device: Device) -> None:
    xp = pt.xp(device)
    none = xp.zeros((0,), dtype=xp.float32)
    keyed = n.reduce_by_key(none, none)
    assert (keyed.keys.shape, keyed.values.shape) == ((0,), (0,))
    assert n.unique_rows(xp.zeros((0, 3))).values.shape == (0, 3)
    assert n.segmented_reduce(none, xp.asarray([0])).shape == (0,)
    assert pt.to_numpy(n.segmented_reduce(none, xp.asarray([0, 0]))).tolist() == [0]
    assert primitives.topk(none, 0).values.shape == (0,)
    assert float(n.trapezoid(none)) == 0


def test_long_sums_do_not_drift(device: Device) -> None:
    x = np.full(2**16 if not device.interprets else 2**12, 0.1, np.float32)
    place = device.for_arrays()
    offsets = pt.asarray(np.array([0, 5, x.size]), device=place)
    found = pt.to_numpy(n.segmented_reduce(pt.asarray(x, device=place), offsets))
    np.testing.assert_allclose(found[1], np.sum(x[5:], dtype=np.float64), rtol=1e-4)
