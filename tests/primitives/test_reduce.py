"""Reductions and scans by operations of a user's own, of numbers and structs, on every device."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable import primitives
from portable.backend import Device
from portable.errors import DTypeError, ShapeError

SIZES = (0, 1, 997, 40_003)


class Found(NamedTuple):
    value: Any
    place: Any


@pt.function
def greater(a, b):
    first = (a.value == b.value) & (a.place < b.place)
    return kl.where((a.value > b.value) | first, a, b)


@pt.function
def found(value, place):
    return Found(value, kl.cast(place, kl.i64))


NOTHING = Found(np.float32(-math.inf), 2**62)


@dataclass(frozen=True)
class Moments:
    """Welford's: how many, their mean, and the sum of squared differences from it."""

    count: kl.f32
    mean: kl.f32
    squares: kl.f32


@pt.function
def moment(x):
    return Moments(1.0, x, 0.0)


@pt.function
def together(a, b):
    count = a.count + b.count
    apart = b.mean - a.mean
    if count > 0:
        part = b.count / count
        squares = a.squares + b.squares + apart * apart * a.count * part
        result = Moments(count, a.mean + apart * part, squares)
    else:
        result = a
    return result


class Step(NamedTuple):
    factor: Any
    addend: Any


@pt.function
def after(first, then):
    return Step(first.factor * then.factor, then.factor * first.addend + then.addend)


@pt.function
def longest(a, b):
    """Works on vectors."""
    return kl.maximum(a, b)


@pt.function
def branching(a, b):
    """Does not."""
    result = a
    if b > a:
        result = b
    return result


@pt.function
def squared(x):
    return x * x


def on(device: Device, x: Any) -> Any:
    return pt.asarray(np.asarray(x), device=device.for_arrays())


def values(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).integers(-99, 99, shape).astype(np.float32)


@pytest.mark.parametrize("size", SIZES)
def test_the_greatest_and_where_it_is(device: Device, size: int) -> None:
    x = values(size)
    best = primitives.reduce(on(device, x), greater, neutral=NOTHING, each=found)
    place, value = int(pt.to_numpy(best.place)), float(pt.to_numpy(best.value))
    assert (value, place) == ((x.max(), x.argmax()) if size else (-math.inf, 2**62))


@pytest.mark.parametrize("axis", [0, 1, (0, 2), None])
def test_moments_along_axes(device: Device, axis: Any) -> None:
    x = values(6, 5, 70)[:, ::-1, ::2]
    given = on(device, x)
    if device.name.startswith("cpu") or device.name == "simulator":
        given = x  # a view with gaps, as libraries pass them
    zero = Moments(0.0, 0.0, 0.0)
    how = {"axis": axis, "keepdims": axis != 1}
    out = primitives.reduce(given, together, neutral=zero, each=moment, **how)
    count = pt.to_numpy(out.count)
    assert count.shape == x.mean(**how).shape
    np.testing.assert_allclose(pt.to_numpy(out.mean), x.mean(**how), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(pt.to_numpy(out.squares) / count, x.var(**how), rtol=1e-4)


@dataclass(frozen=True)
class Place:
    """Declares the type of one field and leaves the other open."""

    value: Any
    index: kl.i32


@pt.function
def placed(value, place):
    return Place(value, place)


@pt.function
def first_of_least(a, b):
    first = (a.value == b.value) & (a.index < b.index)
    return kl.where((a.value < b.value) | first, a, b)


def test_totals_have_the_types_that_their_fields_declare(device: Device) -> None:
    x, nothing = values(50), Place(math.inf, 2**31 - 1)
    here = on(device, x)
    total = primitives.reduce(here, first_of_least, neutral=nothing, each=placed)
    upto = primitives.scan(here, first_of_least, neutral=nothing, each=placed)
    assert pt.to_numpy(total.index) == pt.to_numpy(upto.index)[-1] == x.argmin()
    for found in (total, upto):
        assert pt.to_numpy(found.value).dtype == np.float32
        assert pt.to_numpy(found.index).dtype == np.int32


@pytest.mark.parametrize("index", [2**31, 0.5, math.inf, None, "1"])
def test_a_neutral_element_that_is_none_of_its_field(index: Any) -> None:
    x = on(pt.device("simulator"), values(5))
    with pytest.raises(DTypeError, match=r"Place\.index is annotated as i32, and .* no number"):
        primitives.reduce(x, first_of_least, neutral=Place(math.inf, index), each=placed)


@pytest.mark.parametrize("op", [longest, branching], ids=["vectors", "one by one"])
@pytest.mark.parametrize("size", SIZES)
def test_numbers(device: Device, op: Any, size: int) -> None:
    x = values(size)
    x[size // 2 : size // 2 + 1] = 1000
    top = primitives.reduce(on(device, x), op, neutral=-math.inf)
    assert pt.to_numpy(top) == (1000 if size else -math.inf)
    upto = pt.to_numpy(primitives.scan(on(device, x), op, neutral=-math.inf))
    assert (upto == np.maximum.accumulate(x)).all()
    before = pt.to_numpy(primitives.scan(on(device, x), op, neutral=-math.inf, inclusive=False))
    assert (before[1:] == upto[:-1]).all()
    assert before[:1].tolist() == [-math.inf] * (size > 0)


@pytest.mark.parametrize("size", SIZES)
def test_a_linear_recurrence(device: Device, size: int) -> None:
    generator = np.random.default_rng(size)
    a, b = (generator.uniform(-0.9, 0.9, size).astype(np.float32) for _ in range(2))
    steps = Step(on(device, a), on(device, b))
    got = primitives.scan(steps, after, neutral=Step(1.0, 0.0))
    y, exact = 0.0, []
    for factor, addend in zip(a.tolist(), b.tolist(), strict=True):
        y = factor * y + addend
        exact.append(y)
    np.testing.assert_allclose(pt.to_numpy(got.addend), exact, rtol=1e-4, atol=1e-5)


@pt.function
def latest(a: Any, b: Any) -> Any:
    return kl.where(b != 0, b, a)


@pytest.mark.parametrize("axis", [0, 1])
def test_scans_by_operations_that_do_not_commute(device: Device, axis: int) -> None:
    """Gaps are filled from the left: an operation that takes vectors, and needs the order."""
    random = np.random.default_rng(4)
    shape = (2, 3000) if device.interprets else (8, 1 << 16)
    shape = shape if axis else shape[::-1]
    a = random.integers(1, 9, shape) * (random.random(shape) < 0.01)
    rows = np.moveaxis(a, axis, -1)
    at = np.maximum.accumulate(np.where(rows != 0, np.arange(rows.shape[-1]), 0), axis=-1)
    wanted = np.moveaxis(np.take_along_axis(rows, at, -1), -1, axis)
    found = primitives.scan(on(device, a.astype(np.float32)), latest, neutral=0.0, axis=axis)
    np.testing.assert_array_equal(pt.to_numpy(found), wanted)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scans_along_axes(device: Device, axis: int) -> None:
    x = values(7, 3, 33)
    sums = primitives.scan(on(device, x), axis=axis)
    np.testing.assert_array_equal(pt.to_numpy(sums), x.cumsum(axis))
    neutral = Moments(0.0, 0.0, 0.0)
    means = primitives.scan(on(device, x), together, neutral=neutral, each=moment, axis=axis).mean
    counts = np.arange(1, x.shape[axis] + 1).reshape([-1 if a == axis % 3 else 1 for a in range(3)])
    np.testing.assert_allclose(pt.to_numpy(means), x.cumsum(axis) / counts, rtol=1e-4, atol=1e-3)


def test_a_function_before(device: Device) -> None:
    x = values(3, 50)
    squares = primitives.reduce(on(device, x), each=squared, axis=1)
    np.testing.assert_array_equal(pt.to_numpy(squares), (x * x).sum(1))


def test_what_is_told_of_bad_arguments(device: Device) -> None:
    x = on(device, values(4))
    with pytest.raises(DTypeError, match="neutral= is missing"):
        primitives.reduce(x, branching)
    with pytest.raises(ShapeError, match=r"x\.factor has \(4,\), x\.addend \(5,\)"):
        primitives.scan(Step(x, on(device, values(5))), after, neutral=Step(1.0, 0.0))
    with pytest.raises(TypeError, match="is no array"):
        primitives.reduce("text", branching, neutral=0)


def test_bools_are_counted_where_a_dtype_says_so(device: Device) -> None:
    x = on(device, values(50) > 0)
    assert int(pt.to_numpy(primitives.reduce(x, dtype="int64"))) == np.count_nonzero(values(50) > 0)
    for function in (primitives.reduce, primitives.scan):
        with pytest.raises(DTypeError, match='dtype="int64" counts them'):
            function(x)


def test_complex_numbers(device: Device) -> None:
    """Their neutral elements are complex constants."""
    x = (np.arange(700) % 5 - 2 + 1j * (np.arange(700) % 3)).astype(np.complex64)
    assert pt.to_numpy(primitives.reduce(on(device, x), kl.add)) == x.sum()
    sums = pt.to_numpy(primitives.scan(on(device, x), kl.add))
    np.testing.assert_array_equal(sums, np.cumsum(x))
    products = pt.to_numpy(primitives.scan(on(device, x[5:11]), kl.multiply))
    np.testing.assert_array_equal(products, np.cumprod(x[5:11]))


@pytest.mark.parametrize("name", ["maximum", "minimum", "add", "multiply", "bitwise_xor"])
def test_ufuncs_are_operations(device: Device, name: str) -> None:
    x = np.random.default_rng(3).integers(1, 5, (7, 300)).astype(np.int32)
    ufunc: Any = getattr(np, name)
    neutral = 0 if name == "bitwise_xor" else None
    with np.errstate(all="ignore"):
        expected = ufunc.reduce(x, axis=1)
        running = ufunc.accumulate(x, axis=1)
    given = pt.asarray(x, device=device)
    found = primitives.reduce(given, ufunc, axis=1, neutral=neutral)
    np.testing.assert_array_equal(pt.to_numpy(found), expected.astype(np.int32))
    pythons = {"add": operator.add, "bitwise_xor": operator.xor, "maximum": max}.get(name, ufunc)
    scanned = primitives.scan(given, pythons, neutral=neutral)
    np.testing.assert_array_equal(pt.to_numpy(scanned), running.astype(np.int32))


def test_ufuncs_of_other_names_map_elements(device: Device) -> None:
    x = np.linspace(-1, 1, 50, dtype=np.float32)
    given = pt.asarray(x, device=device)
    np.testing.assert_array_equal(pt.to_numpy(primitives.map(np.absolute, given)), abs(x))
    with pytest.raises(DTypeError, match=r"no numpy\.lcm; give a function"):
        primitives.reduce(given, np.lcm, neutral=1)
