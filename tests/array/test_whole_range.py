"""Numbers of the whole range of every dtype, drawn by hypothesis's strategies for the standard.

The strategies are a judge too: they make arrays by the functions of the namespace under test.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.array_api import make_strategies_namespace

import portable
import portable.array as xp
from portable.backend import Device

QUICK = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
XPS = make_strategies_namespace(xp, api_version="2024.12")
SHAPES = XPS.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
WHOLE = XPS.integer_dtypes() | XPS.unsigned_integer_dtypes()
CAST = ["bool", "int8", "int32", "int64", "uint8", "uint16", "uint64", "float32", "complex128"]


@pytest.fixture(autouse=True)
def _in_use(simulated: Device) -> Any:
    with portable.use(simulated.name):
        yield


def drawn(data: Any, dtypes: Any, shapes: Any = SHAPES) -> tuple[Any, np.ndarray[Any, Any]]:
    x = data.draw(XPS.arrays(dtypes, shapes))
    return x, portable.to_numpy(x)


def same(found: Any, expected: Any, label: str = "") -> None:
    got, want = portable.to_numpy(found), np.asarray(expected)
    assert (got.dtype, got.shape) == (want.dtype, want.shape), label
    np.testing.assert_array_equal(got, want, err_msg=label)


@QUICK
@given(data=st.data())
def test_parts(data: Any) -> None:
    x, a = drawn(data, XPS.scalar_dtypes())
    key = data.draw(XPS.indices(x.shape, allow_newaxis=True))
    same(x[key], a[key])
    mask, m = drawn(data, xp.bool, data.draw(st.sampled_from([x.shape, x.shape[:1], ()])))
    same(x[mask], a[m])
    value = data.draw(XPS.from_dtype(x.dtype))
    for index, where in ((data.draw(XPS.indices(x.shape)),) * 2, (mask, m)):
        y, b = xp.asarray(x, copy=True), a.copy()
        y[index] = value
        b[where] = value
        same(y, b)


@QUICK
@given(data=st.data())
def test_functions_of_one_number(data: Any) -> None:
    x, a = drawn(data, XPS.real_dtypes())
    names = ["abs", "negative", "square", "sign", "isnan", "isinf", "isfinite", "floor", "ceil"]
    more = ["signbit", "trunc", "round", "sqrt"] if a.dtype.kind == "f" else ["bitwise_invert"]
    for name in (*names, *more):
        with np.errstate(all="ignore"):
            same(getattr(xp, name)(x), getattr(np, name)(a), name)


@QUICK
@given(data=st.data())
def test_functions_of_two_numbers(data: Any) -> None:
    dtype = data.draw(XPS.real_dtypes())
    shapes = data.draw(XPS.mutually_broadcastable_shapes(2, max_dims=2, max_side=3)).input_shapes
    (x, a), (y, b) = (drawn(data, dtype, shape) for shape in shapes)
    whole = a.dtype.kind in "iu"
    for name in ("add", "subtract", "multiply", "maximum", "minimum", "equal", "less"):
        with np.errstate(all="ignore"):
            same(getattr(xp, name)(x, y), getattr(np, name)(a, b), name)
    for name in ("bitwise_and", "bitwise_xor") if whole else ("copysign", "nextafter"):
        same(getattr(xp, name)(x, y), getattr(np, name)(a, b), name)
    if whole:
        y, b = xp.where(y == 0, xp.ones_like(y), y), np.where(b == 0, b.dtype.type(1), b)
        for op in (operator.floordiv, operator.mod):
            with np.errstate(all="ignore"):
                same(op(x, y), op(a, b), op.__name__)


@QUICK
@given(data=st.data())
def test_conversions(data: Any) -> None:
    x, a = drawn(data, XPS.scalar_dtypes())
    ends = np.iinfo(np.int8)
    for name in CAST:
        if a.dtype.kind == "c" and name not in ("bool", "complex128"):
            continue
        kind, kept = np.dtype(name), ...
        if a.dtype.kind == "f" and kind.kind in "iu":  # where the standard says what they become
            kept = (a > -1) & (a < ends.max)
        with np.errstate(all="ignore"):
            found, expected = xp.astype(x, name), a.astype(kind)
        np.testing.assert_array_equal(portable.to_numpy(found)[kept], expected[kept], name)


@QUICK
@given(data=st.data())
def test_whole_numbers_along_axes(data: Any) -> None:
    x, a = drawn(data, WHOLE, XPS.array_shapes(max_dims=3, max_side=5))
    wide = "int64" if a.dtype.kind == "i" else "uint64"
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    same(xp.sum(x, axis=axis), np.sum(a, axis=axis, dtype=wide))
    same(xp.prod(x, axis=axis), np.prod(a, axis=axis, dtype=wide))
    same(xp.cumulative_sum(x, axis=axis), np.cumsum(a, axis, dtype=wide))
    same(xp.cumulative_prod(x, axis=axis), np.cumprod(a, axis, dtype=wide))
    for name in ("max", "min", "argmax", "argmin", "any", "all", "count_nonzero"):
        same(getattr(xp, name)(x, axis=axis), getattr(np, name)(a, axis=axis), name)


@QUICK
@given(data=st.data())
def test_order(data: Any) -> None:
    x, a = drawn(data, XPS.real_dtypes(), XPS.array_shapes(max_dims=2, max_side=20))
    descending = data.draw(st.booleans())
    expected = np.sort(a)[..., ::-1] if descending else np.sort(a)
    same(xp.sort(x, descending=descending), expected)
    order = portable.to_numpy(xp.argsort(x, descending=descending))
    np.testing.assert_array_equal(np.take_along_axis(a, order, -1), expected)


@QUICK
@given(data=st.data())
def test_distinct_numbers(data: Any) -> None:
    x, a = drawn(data, XPS.scalar_dtypes(), XPS.array_shapes(min_dims=0, max_dims=2, max_side=6))
    values, first, inverse, counts = (portable.to_numpy(v) for v in xp.unique_all(x))
    same(xp.unique_values(x), values)
    np.testing.assert_array_equal(a.reshape(-1)[first], values)
    np.testing.assert_array_equal(values[inverse], a)
    distinct = values == values  # which NaN is not
    assert len(set(values[distinct].tolist())) == distinct.sum()
    assert (counts[~distinct] == 1).all()
    for value, count in zip(values[distinct], counts[distinct], strict=True):
        assert (a == value).sum() == count
