"""NumPy's functions on the arrays of every device and library, against NumPy's own."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import numerics as n
from portable.backend import Device
from portable.errors import DTypeError, PortableError, ShapeError
from portable.interchange.libraries import is_other

RANDOM = np.random.default_rng(7)
F = RANDOM.standard_normal((4, 5, 6)).astype(np.float32)
G = RANDOM.standard_normal((6, 3)).astype(np.float32)
HOLED = np.where(F > 1.4, np.float32(np.nan), F)
I = RANDOM.integers(-9, 10, (7, 6)).astype(np.int32)  # noqa: E741  (a matrix, like F)
WHOLE = RANDOM.integers(0, 12, 300).astype(np.int32)
WEIGHTS = RANDOM.random(300).astype(np.float32)
KNOTS = np.array([-1.0, -0.5, 0.25, 2.0], np.float32)
HEIGHTS = np.array([3.0, -1.0, 4.0, 4.0], np.float32)
PLACES = np.array([[-3.0, -1.0, -0.7], [0.25, np.nan, 2.0]], np.float32)

Make = Callable[[np.ndarray[Any, Any]], Any]
Case = tuple[Callable[[Make], Any], Any]


def at(where: Make, x: np.ndarray[Any, Any]) -> Any:
    """A view that is not contiguous."""
    return where(np.repeat(x, 2, axis=-1))[..., ::2]


CASES: dict[str, Case] = {
    "median": (lambda m: n.median(m(F)), np.median(F)),
    "median of an even number along an axis": (
        lambda m: n.median(m(F), axis=0, keepdims=True),
        np.median(F, axis=0, keepdims=True),
    ),
    "median of integers, of a view": (
        lambda m: n.median(at(m, I), axis=1),
        np.median(I, axis=1).astype(np.float32),
    ),
    "median with NaN along two axes": (
        lambda m: n.median(m(HOLED), axis=(0, 2)),
        np.median(HOLED, axis=(0, 2)),
    ),
    **{
        f"quantile, {method}": (
            lambda m, method=method: n.quantile(m(F), [0, 0.1, 0.5, 1], axis=1, method=method),
            np.quantile(F, np.float32([0, 0.1, 0.5, 1]), axis=1, method=method),
        )
        for method in ("linear", "lower", "higher", "midpoint", "nearest")
    },
    "no quantiles": (
        lambda m: n.quantile(m(F), [], axis=1),
        np.quantile(F, np.float32([]), axis=1),
    ),
    "quantiles in a matrix": (
        lambda m: n.quantile(m(HOLED), np.array([[0.3, 0.6]]), axis=(1, 0), keepdims=True),
        np.quantile(HOLED, np.float32([[0.3, 0.6]]), axis=(1, 0), keepdims=True),
    ),
    "percentile": (lambda m: n.percentile(m(F), 30.0), np.percentile(F, np.float32(30))),
    "einsum, product": (
        lambda m: n.einsum("aij,jk->aik", m(F), m(G)),
        np.einsum("aij,jk->aik", F, G),
    ),
    "einsum, several": (
        lambda m: n.einsum("aij,jk,ik->ka", m(F), m(G), at(m, F[0, :, :3])),
        np.einsum("aij,jk,ik->ka", F, G, F[0, :, :3]),
    ),
    "einsum, implicit, dots": (
        lambda m: n.einsum("...j,jk", m(F), m(G)),
        np.einsum("...j,jk", F, G),
    ),
    "einsum, dots that broadcast": (
        lambda m: n.einsum("i...,...i->...i", m(F[:, :1]), m(F.transpose(1, 2, 0).copy())),
        np.einsum("i...,...i->...i", F[:, :1], F.transpose(1, 2, 0)),
    ),
    "einsum, trace and diagonal": (
        lambda m: n.einsum("ii,jjk->kj", m(F[0, :, :5]), m(F[:, :4])),
        np.einsum("ii,jjk->kj", F[0, :, :5], F[:, :4]),
    ),
    "einsum, outer and elementwise": (
        lambda m: n.einsum("ij,ij,k->ki", m(I), m(I), m(WHOLE[:4])),
        np.einsum("ij,ij,k->ki", I, I, WHOLE[:4]),
    ),
    "einsum, a number": (lambda m: n.einsum("ij,ij->", m(G), m(G)), np.einsum("ij,ij->", G, G)),
    "einsum, transposed": (lambda m: n.einsum("abc->cab", m(F)), F.transpose(2, 0, 1)),
    "einsum, nothing": (
        lambda m: n.einsum("ij,jk->ik", m(G[:, :0]), m(G[:0])),
        np.zeros((6, 3), np.float32),
    ),
    "bincount": (lambda m: n.bincount(m(WHOLE)), np.bincount(WHOLE)),
    "bincount, weights": (
        lambda m: n.bincount(m(WHOLE), m(WEIGHTS), 20),
        np.bincount(WHOLE, WEIGHTS, 20),
    ),
    "bincount, many bins": (
        lambda m: n.bincount(at(m, WHOLE * 500)),
        np.bincount(WHOLE * 500),
    ),
    "bincount, nothing": (
        lambda m: n.bincount(m(WHOLE[:0]), minlength=3),
        np.zeros(3, np.int64),
    ),
    "histogram": (lambda m: n.histogram(m(F)), np.histogram(F)),
    "histogram of integers in a range": (
        lambda m: n.histogram(m(I), 5, (-3, 4)),
        tuple(x.astype(k) for x, k in zip(np.histogram(I, 5, (-3, 4)), "qf", strict=True)),
    ),
    "histogram by edges": (
        lambda m: n.histogram(m(HOLED), m(KNOTS)),
        np.histogram(HOLED, KNOTS),
    ),
    "histogram, weights": (
        lambda m: n.histogram(m(WHOLE), [0, 3, 5, 11], weights=m(WEIGHTS)),
        np.histogram(WHOLE, [0, 3, 5, 11], weights=WEIGHTS),
    ),
    "histogram, density": (
        lambda m: n.histogram(m(F), 7, density=True),
        np.histogram(F, 7, density=True),
    ),
    **{
        f"pad, {mode}": (
            lambda m, mode=mode: n.pad(at(m, I), ((2, 1), (0, 8)), mode),
            np.pad(I, ((2, 1), (0, 8)), mode),
        )
        for mode in ("constant", "edge", "reflect", "symmetric", "wrap")
    },
    "pad, a number": (
        lambda m: n.pad(m(G), 2, constant_values=5),
        np.pad(G, 2, constant_values=5),
    ),
    "interp": (
        lambda m: n.interp(m(PLACES), m(KNOTS), m(HEIGHTS)),
        np.interp(PLACES, KNOTS, HEIGHTS),
    ),
    "interp beyond the ends": (
        lambda m: n.interp(at(m, PLACES), m(KNOTS), m(HEIGHTS), left=7.0, right=-7.0),
        np.interp(PLACES, KNOTS, HEIGHTS, left=7.0, right=-7.0),
    ),
    "interp through one point": (
        lambda m: n.interp(m(PLACES[0]), m(KNOTS[:1]), m(HEIGHTS[:1])),
        np.interp(PLACES[0], KNOTS[:1], HEIGHTS[:1]),
    ),
    **{
        f"convolve, {mode}": (
            lambda m, mode=mode: n.convolve(at(m, F[0, 0]), m(F[1, 1, :3]), mode),
            np.convolve(F[0, 0], F[1, 1, :3], mode),
        )
        for mode in ("full", "same", "valid")
    },
    "convolve, the shorter first, integers": (
        lambda m: n.convolve(m(WHOLE[:4]), m(WHOLE), "same"),
        np.convolve(WHOLE[:4], WHOLE, "same"),
    ),
    "lstsq": (lambda m: n.lstsq(m(F[0]), m(F[1])), np.linalg.lstsq(F[0], F[1], rcond=None)),
    "lstsq, a vector": (
        lambda m: n.lstsq(m(G), m(F[0, 0])),
        np.linalg.lstsq(G, F[0, 0], rcond=None),
    ),
    "lstsq of a lower rank": (
        lambda m: n.lstsq(m(np.float32([[1, 2], [2, 4], [3, 6]])), m(KNOTS[:3]), rcond=1e-4),
        np.linalg.lstsq(np.float32([[1, 2], [2, 4], [3, 6]]), KNOTS[:3], rcond=1e-4),
    ),
}

FEW = {
    "einsum, product",
    "bincount, weights",
    "histogram of integers in a range",
    "pad, wrap",
    "interp",
    "convolve, the shorter first, integers",
    "quantiles in a matrix",
}
"""One of each for devices that compile kernels, which takes most of the time."""

REFUSED: dict[str, tuple[Callable[[Make], Any], type[Exception], str]] = {
    "median of nothing": (lambda m: n.median(m(G[:0])), ValueError, "no elements"),
    "quantile of nothing": (lambda m: n.quantile(m(G[:, :0]), 0.5, axis=1), ValueError, "no elem"),
    "quantile beyond 1": (lambda m: n.quantile(m(G), 1.5), ValueError, "between 0 and 1"),
    "an unknown method": (lambda m: n.quantile(m(G), 0.5, method="weibull"), ValueError, "linear"),
    "an axis out of range": (lambda m: n.median(m(G), axis=2), ShapeError, "axis 2"),
    "complex quantiles": (lambda m: n.median(m(G + 1j)), DTypeError, "real numbers"),
    "too few operands": (lambda m: n.einsum("ij,jk", m(G)), ShapeError, "takes 2 operands"),
    "other extents": (lambda m: n.einsum("ij,ij", m(G), m(F[0])), ShapeError, "extents"),
    "an unknown letter": (lambda m: n.einsum("ij->k", m(G)), ShapeError, "each of its letters"),
    "too many letters": (lambda m: n.einsum("ijk", m(G)), ShapeError, "names 3 dimensions"),
    "negative numbers": (lambda m: n.bincount(m(-WHOLE)), ValueError, "not negative"),
    "floats counted": (lambda m: n.bincount(m(WEIGHTS)), DTypeError, "takes integers"),
    "weights of another shape": (
        lambda m: n.histogram(m(F), weights=m(WEIGHTS)),
        ShapeError,
        "weights of shape",
    ),
    "a range of NaN": (lambda m: n.histogram(m(HOLED)), ValueError, "not finite"),
    "a negative margin": (lambda m: n.pad(m(G), -1), ShapeError, "not negative"),
    "another mode": (lambda m: n.pad(m(G), 1, "mean"), ValueError, "constant, edge"),
    "values without points": (
        lambda m: n.interp(m(PLACES), m(KNOTS), m(HEIGHTS[:2])),
        ShapeError,
        "of one shape",
    ),
    "a matrix convolved": (lambda m: n.convolve(m(G), m(KNOTS)), ShapeError, "vectors"),
    "nothing convolved": (lambda m: n.convolve(m(KNOTS[:0]), m(KNOTS)), ShapeError, "not empty"),
    "rows that do not fit": (lambda m: n.lstsq(m(G), m(F[0])), ShapeError, r"\(m, k\)"),
}


@contextmanager
def named(name: str) -> Iterator[None]:
    """Says of a failure in the block which case it is."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"case: {name}")
        raise


def check(case: Case, make: Make, library: type) -> None:
    """What a case gives is NumPy's result, in an array of the library."""
    found, expected = case[0](make), case[1]
    if not isinstance(expected, tuple):
        found, expected = (found,), (expected,)
    for mine, theirs in zip(found, expected, strict=True):
        if isinstance(mine, int):  # a rank
            assert mine == theirs
            continue
        assert isinstance(mine, library)
        host = pt.to_numpy(mine)
        assert host.shape == np.shape(theirs)
        np.testing.assert_allclose(host, theirs, rtol=2e-4, atol=2e-5)


@pytest.mark.needs_namespace
def test_on_devices(device: Device) -> None:
    compiled = not device.interprets and not device.owns(G)
    with pt.use(device):
        xp = pt.xp()
        for name, case in CASES.items():
            if name in FEW or not compiled:
                with named(name):
                    check(case, xp.asarray, type(xp.asarray(G)))


@pytest.mark.needs_namespace
def test_refusals(device: Device) -> None:
    with pt.use(device):
        for name, (call, error, message) in REFUSED.items():
            with named(name), pytest.raises(error, match=message):
                call(pt.xp().asarray)


@pytest.fixture(params=["array_api_strict", "torch", "jax.numpy"])
def library(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A library whose arrays are no backend's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip(request.param)
        if request.param != "jax.numpy":
            yield module
            return
        jax = importlib.import_module("jax")
        with jax.default_matmul_precision("highest"):  # or GPUs round factors to 11 bits
            yield module


@pytest.mark.needs_processor
def test_on_libraries(library: Any) -> None:
    kind = type(library.asarray(G))
    assert is_other(library.asarray(G))
    for name, case in CASES.items():
        with named(name):
            check(case, library.asarray, kind)


@pytest.mark.needs_namespace
def test_dtypes_stay(device: Device) -> None:
    """Halves and doubles give their own; complex numbers are multiplied and added up as such."""
    xp = pt.xp(device)
    half = xp.asarray(G.astype(np.float16))
    assert n.interp(half[0, :], half[0, :1], half[1, :1]).dtype == half.dtype
    whole = xp.asarray(WHOLE.astype(np.uint8))
    assert np.array_equal(pt.to_numpy(n.bincount(whole)), np.bincount(WHOLE))
    twisted = G[:, 0] * np.complex64(1 + 2j)
    found = n.convolve(xp.asarray(twisted), xp.asarray(twisted))
    np.testing.assert_allclose(pt.to_numpy(found), np.convolve(twisted, twisted), rtol=1e-5)
    found = n.einsum("i,i->", xp.asarray(twisted), xp.asarray(twisted))
    np.testing.assert_allclose(pt.to_numpy(found), twisted @ twisted, rtol=1e-5)


@pytest.mark.parametrize("bins", [10, 3001])
def test_bins_begin_where_numpys_do(device: Device, bins: int) -> None:
    x = np.random.default_rng(1).standard_normal(5000).astype(np.float32)
    found = n.histogram(pt.asarray(x, device=device.for_arrays()), bins)
    for part, expected in zip(found, np.histogram(x, bins), strict=True):
        np.testing.assert_array_equal(pt.to_numpy(part), expected)


def test_arrays_of_two_libraries_are_refused() -> None:
    strict = importlib.import_module("array_api_strict")
    with pytest.raises((TypeError, PortableError)):
        n.einsum("ij,jk->ik", strict.asarray(G), G.T)


def test_least_lengths_of_counts_that_are_none() -> None:
    x = np.array([1, 2])
    with pytest.raises(ValueError, match="minlength=-1 is negative"):
        n.bincount(x, minlength=-1)
    with pytest.raises(TypeError, match="integer"):
        n.bincount(x, minlength=1.5)
    assert n.bincount(x, minlength=np.int64(4)).tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("points", "values"),
    [
        ((-np.inf, 0, np.inf), (1, 2, 3)),
        ((-np.inf, 0, 1), (1, 2, 3)),
        ((0, 1, np.inf), (1, 2, 3)),
        ((-np.inf, np.inf), (1, 2)),
        ((0, 1, 2), (0, np.inf, 2)),
        ((0, 1, 2), (-np.inf, np.inf, 2)),
        ((0, 1, 2), (np.inf, np.inf, 2)),
        ((0, 1, 2), (0, np.nan, 2)),
        ((0, 1, 1, 2), (0, 1, 5, 2)),
    ],
    ids=str,
)
def test_interp_at_infinity(
    device: Device, points: tuple[float, ...], values: tuple[float, ...]
) -> None:
    x, knots, heights = (
        np.array(numbers, np.float32)
        for numbers in ((-np.inf, -5, -1, 0, 0.5, 1, 1.5, 2, 3, np.inf, np.nan), points, values)
    )
    with np.errstate(all="ignore"):
        wanted = np.interp(x, knots, heights)
    found = n.interp(*(device.from_numpy(y) for y in (x, knots, heights)))  # without a warning
    np.testing.assert_array_equal(pt.to_numpy(found), wanted.astype(np.float32))
