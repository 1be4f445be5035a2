"""Element-wise functions against NumPy: shapes, strides, dtypes, promotion, special values."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import portable
import portable.array as xp
from portable.array.base.operations import OPERATIONS
from portable.backend import Device
from portable.errors import DTypeError, ShapeError
from portable.primitives.maps import elementwise, work
from portable.primitives.maps.elementwise import _lies_crosswise
from portable_backends.simulator.backend import ArraySimulatorDevice

QUICK = settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
FLOATS = ["float32", "float64"]
KINDS = ["int8", "uint64", "float32", "complex64"]
UNARY_FLOAT = [
    "acosh", "asin", "asinh", "atan", "ceil", "cos", "cosh", "exp", "expm1", "floor", "isfinite",
    "isinf", "isnan", "log", "log10", "log1p", "negative", "reciprocal", "round", "sign", "signbit",
    "sin", "sqrt", "square", "tanh", "trunc",
]  # fmt: skip
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -3.5, np.inf, -np.inf, np.nan]


def close(found: Any, expected: Any, ulps: float = 64) -> None:
    expected = np.asarray(expected)
    got = portable.to_numpy(found)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    if got.dtype.kind in "fc":
        tolerance = ulps * np.finfo(got.dtype).eps
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
        real = got.real, np.real(expected)
        zeros = (real[0] == 0) & (real[1] == 0)
        assert (np.signbit(real[0]) == np.signbit(real[1]))[zeros].all()
    else:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", UNARY_FLOAT)
@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values(ours: Device, name: str, dtype: str) -> None:
    x = np.array(SPECIAL, dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x)
    close(getattr(xp, name)(ours.from_numpy(x)), expected)


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "pow", "atan2", "maximum", "hypot"])
def test_special_pairs(ours: Device, name: str) -> None:
    x, y = np.array(SPECIAL)[:, None], np.array(SPECIAL)[None, :]
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x, y)
        if name == "floor_divide":  # the standard rounds quotients, where NumPy fits remainders
            expected = np.where(np.isinf(x) | np.isinf(y) | (y == 0), x / y, expected)
    close(getattr(xp, name)(ours.from_numpy(x), ours.from_numpy(y)), expected)


@pytest.mark.parametrize("exponent", [2, 2.0, -1, 0.5], ids=str)
def test_powers_that_are_other_functions(ours: Device, exponent: float) -> None:
    a = np.array([*SPECIAL, 3, 0.7])
    x = ours.from_numpy(a)
    for found in (x**exponent, xp.pow(x, exponent), x ** np.float64(exponent)):
        with np.errstate(all="ignore"):  # as the standard has it, where NumPy's `**` is sqrt
            close(found, np.power(a, np.full_like(a, exponent)))
    whole = ours.from_numpy(np.arange(-3, 4, dtype=np.int32))
    found = portable.to_numpy(whole**exponent)
    assert found.dtype == ("int32" if isinstance(exponent, int) else "float64")
    if exponent == 2:
        np.testing.assert_array_equal(found, np.arange(-3, 4) ** 2)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(
    "name", ["exp", "log", "sqrt", "sin", "tanh", "asin", "acosh", "atan", "abs", "square", "conj"]
)
def test_complex_functions(ours: Device, name: str, dtype: str) -> None:
    parts = np.random.default_rng(0).uniform(-3, 3, (2, 50))
    x = (parts[0] + 1j * parts[1]).astype(dtype)
    close(getattr(xp, name)(ours.from_numpy(x)), getattr(np, name)(x), 200)


@pytest.mark.parametrize("dtype", KINDS)
@QUICK
@given(data=st.data())
def test_operators_on_random_shapes_and_strides(ours: Device, dtype: str, data: Any) -> None:
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=9))
    arrays = [_strided(data, shape, dtype) for shape in shapes.input_shapes]
    views = [_strided_view(ours, base, index) for base, index in arrays]
    a, b = (base[index] for base, index in arrays)
    for op in (operator.add, operator.sub, operator.mul):
        with np.errstate(over="ignore"):  # NumPy warns of scalars that wrap
            expected = op(a, b)
        close(op(*views), expected)
    close(views[0] == views[1], a == b)


def _strided(data: Any, shape: tuple[int, ...], dtype: str) -> tuple[Any, Any]:
    """An array and the index of a part of it that has the shape wanted and odd strides."""
    steps = [data.draw(st.sampled_from([1, 2, -1])) for _ in shape]
    full = tuple(n * abs(step) for n, step in zip(shape, steps, strict=True))
    base = np.random.default_rng(0).integers(0, 50, full).astype(dtype)
    index = tuple(slice(None, None, step) for step in steps)
    return base, index


def _strided_view(device: Device, base: Any, index: Any) -> Any:
    return device.from_numpy(base)[index]


@pytest.mark.parametrize("dtype", FLOATS)
def test_long_rows_and_broadcast_along_them(ours: Device, dtype: str) -> None:
    a = np.random.default_rng(0).standard_normal((37, 1003)).astype(dtype)
    x = ours.from_numpy(a)
    close(x + x[0], a + a[0])
    close(x * x[:, :1], a * a[:, :1])
    close(x[:, 1:] - x[:, :-1], a[:, 1:] - a[:, :-1])
    close(xp.exp(x.T), np.exp(a.T))


def test_more_short_rows_than_a_launch_has_workgroups() -> None:
    """As 2**22 rows of three are on an H200."""
    capabilities = portable.device("simulator:h200").capabilities
    device = ArraySimulatorDevice("few", replace(capabilities, max_groups=(2**31 - 1, 3, 3)))
    a = np.arange(2100, dtype=np.float32).reshape(700, 3)
    x, row = device.from_numpy(a), device.from_numpy(a[1])
    close(x + row, a + a[1])
    close(portable.fuse(lambda u, v: u * v + 1)(x, row), a * a[1] + 1)
    close(xp.tril(x), np.tril(a))
    places = np.arange(700)[::-1].copy()
    close(x[device.from_numpy(places)], a[places])
    x[device.from_numpy(places)] = device.from_numpy(a)
    close(x, a[places])
    wide = xp.zeros((700, 6), dtype=xp.float32, device=device)
    wide[:, ::2][device.from_numpy(a % 5 < 2)] = 1
    close(wide[:, ::2], (a % 5 < 2).astype(np.float32))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_results_that_pass_the_caches_by(
    ours: Device, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "_STREAMED", 0)
    a = np.random.default_rng(0).integers(-9, 9, (5, 139)).astype(dtype)
    x = ours.from_numpy(a)
    elementwise._plans.clear()
    close(x + x[0], a + a[0])
    close(x[:, 3:] * 2, a[:, 3:] * 2)
    y = xp.zeros((5, 141), dtype=x.dtype, device=ours)
    y[:, 1:-1] = x
    close(y, np.pad(a, ((0, 0), (1, 1))))
    y += 1
    close(portable.fuse(lambda u: 2 * (u + 1))(y), 2 * (np.pad(a, ((0, 0), (1, 1))) + 2))
    elementwise._plans.clear()


def test_python_numbers_are_weak(ours: Device) -> None:
    x = xp.asarray([1, 2, 3], dtype=xp.int8, device=ours)
    assert (x + 1).dtype is xp.int8
    assert (1 - x).dtype is xp.int8
    y = xp.asarray([1.5], dtype=xp.float32, device=ours)
    assert (y * 2.5).dtype is xp.float32
    assert (y + 1j).dtype is xp.complex64
    assert (y * np.float32(2)).dtype is xp.float32


def test_forbidden_promotion(ours: Device) -> None:
    x, y = (xp.ones((2,), dtype=d, device=ours) for d in ("int64", "uint64"))
    with pytest.raises(TypeError, match="no common dtype"):
        xp.equal(x, y)


def test_integers_with_floats_are_numpys(ours: Device) -> None:
    a = np.array([-3, 0, 5, 7], np.int16)
    b = np.array([0.5, -1.5, 2.0, np.inf], np.float32)
    x, y = ours.from_numpy(a), ours.from_numpy(b)
    close(x * y[::-1], a * b[::-1])
    close(x / 2, a / 2)
    close(x + 1.5, a + 1.5)
    close(xp.sqrt(abs(x)), np.sqrt(abs(a)))
    close((x > 0) * y, (a > 0) * b)
    close(xp.where(x > 0, x, y), np.where(a > 0, a, b))
    close(xp.concat([x, y]), np.concatenate([a, b]))
    close(portable.fuse(lambda x, y: x * 2 + y / x)(x[2:], y[:1]), a[2:] * 2 + b[:1] / a[2:])
    close(xp.mean(x > 0), np.mean(a > 0))
    close(xp.prod(x > 0), np.prod(a > 0))
    with pytest.raises(DTypeError, match="cannot hold"):
        x += 1.5


def test_devices_without_doubles_promote_to_single() -> None:
    there = portable.xp("simulator:arc")
    x = there.asarray([1, 2, 3], dtype=there.int32)
    ones = there.ones(3, dtype=there.float32)
    for found in (x * ones, x / 2, x + 1.5, there.sin(x), there.concat([x, ones]), x @ ones):
        assert found.dtype is there.float32
    assert (x * 1j).dtype is there.complex64
    assert there.result_type(x, there.float32) is there.float32


def test_refusals(ours: Device) -> None:
    x = xp.ones((2, 3), dtype=xp.int32, device=ours)
    with pytest.raises(DTypeError, match="less takes real numbers"):
        xp.less(x, 1j)
    with pytest.raises(ShapeError, match="cannot be broadcast"):
        x + xp.ones((2,), dtype=xp.int32, device=ours)
    with pytest.raises(TypeError):
        x + np.ones((2, 3), np.int32)
    with pytest.raises(TypeError, match="at least one array"):
        xp.add(1, 2)


def test_in_place(ours: Device) -> None:
    a = np.arange(24.0).reshape(4, 6)
    x = ours.from_numpy(a)
    kept, part = x, x[1:]
    x += 1
    part *= 2
    x -= x[::-1]
    expected = a + 1
    expected[1:] *= 2
    expected -= expected[::-1].copy()
    assert x is kept
    close(x, expected)
    with pytest.raises(ShapeError):
        part += xp.ones((4, 6), device=ours)
    whole = xp.ones((3,), dtype=xp.int32, device=ours)
    with pytest.raises(DTypeError):
        whole += xp.ones((3,), dtype=xp.float32, device=ours)


def test_where_and_clip(ours: Device) -> None:
    a = np.linspace(-1, 1, 11)
    x = ours.from_numpy(a)
    close(xp.where(x > 0, x, 0.0), np.where(a > 0, a, 0))
    close(xp.clip(x, -0.5), np.clip(a, -0.5, None))
    close(xp.clip(x, x[::-1], 0.5), np.clip(a, a[::-1], 0.5))


def test_half_precision_rounds_once(ours: Device) -> None:
    a = np.linspace(0, 3, 100).astype(np.float16)
    close(ours.from_numpy(a) * ours.from_numpy(a), a * a, 0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "complex64", "bool"])
@pytest.mark.parametrize("order", [(1, 0), (2, 1, 0), (1, 2, 0), (2, 0, 1)], ids=str)
def test_neighbours_along_another_axis(ours: Device, dtype: str, order: tuple[int, ...]) -> None:
    shape = (5, 33, 40)[-len(order) :]
    a = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    x = xp.permute_dims(ours.from_numpy(a), order)
    close(xp.asarray(x, copy=True), a.transpose(order))
    close(xp.astype(x[::-1], xp.complex64), a.transpose(order)[::-1].astype(np.complex64))
    if dtype != "bool":
        close(xp.square(x), np.square(a.transpose(order)))


def check_reversed(device: Device, dtype: str) -> None:
    a = np.arange(3 * 37).reshape(3, 37).astype(dtype)
    x = device.from_numpy(a)
    pairs = [
        (xp.positive(xp.flip(x)), np.flip(a)),
        (x - x[:, ::-1], a - a[:, ::-1]),
        (xp.flip(x)[1:, 3:-5] - x[0, -29:], np.flip(a)[1:, 3:-5] - a[0, -29:]),
    ]
    for found, expected in pairs:
        np.testing.assert_array_equal(portable.to_numpy(found), expected, strict=True)
    x[:, ::-1] -= x
    a[:, ::-1] -= a.copy()
    np.testing.assert_array_equal(portable.to_numpy(x), a)


def test_reversed_operands(ours: Device) -> None:
    check_reversed(ours, "float32")


@pytest.mark.parametrize("dtype", ["int8", "complex64"])
def test_reversed_operands_of_other_widths(simulated: Device, dtype: str) -> None:
    check_reversed(simulated, dtype)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64], ids=lambda x: x.__name__)
def test_powers_of_floats_are_taken_by_vectors(ours: Device, dtype: Any) -> None:
    """Intel's runtime takes 60 ns for a power of one number, 1.7 for one of 16."""
    assert OPERATIONS["pow"].takes_vectors(portable.dtypes.dtype(np.dtype(dtype).name))
    assert not OPERATIONS["pow"].takes_vectors(portable.dtypes.int32)
    if dtype == np.float64 and not ours.capabilities.float64:
        pytest.skip("no double precision")
    random = np.random.default_rng(0)
    a, b = (random.uniform(0.1, 4, (3, 1003)).astype(dtype) for _ in range(2))
    a[0, :6], b[0, :6] = [0, 0, 1, np.inf, -2, -2], [0, 2, np.inf, -1, 3, 2]
    found = portable.to_numpy(xp.pow(ours.from_numpy(a), ours.from_numpy(b)))
    np.testing.assert_allclose(found, a**b, rtol=32 * np.finfo(dtype).eps)


def test_every_other_element_is_no_transpose(ours: Device) -> None:
    a = np.arange(24 * 66, dtype=np.float32).reshape(24, 66)
    x = ours.from_numpy(a)
    for part in (lambda x: x[:, ::2], lambda x: x.T[:, ::2], lambda x: x[::3, ::-2]):
        np.testing.assert_array_equal(portable.to_numpy(part(x) * 2), part(a) * 2)
        assert _lies_crosswise(part(x)) == (part(a).strides[0] == 4)


def test_complex_numbers_by_vectors(ours: Device) -> None:
    """Contiguous, every other one and backwards, longer than a vector and with a rest; and in
    place, of a view whose neighbours are apart."""
    random = np.random.default_rng(5)
    a = (random.normal(size=(3, 74)) + 1j * random.normal(size=(3, 74))).astype(np.complex64)
    b = a[::-1].copy()
    x, y = ours.from_numpy(a), ours.from_numpy(b)
    for part in (np.s_[:], np.s_[:, ::2], np.s_[:, 1:38], np.s_[:, ::3]):
        p, q, u, v = a[part], b[part], x[part], y[part]
        close(xp.exp(u), np.exp(p))
        close(xp.abs(u), np.abs(p))
        close(u * v, p * q)
        close(u - (2 + 1j), p - np.complex64(2 + 1j))
        close(u * v[:, :1], p * q[:, :1])
        close(u + v[:, ::-1], p + q[:, ::-1])
        np.testing.assert_array_equal(portable.to_numpy(u == v), p == q)
    x[:, ::2] *= 2
    a[:, ::2] *= 2
    close(x, a)
