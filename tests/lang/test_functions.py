"""Every element-wise function within its bound, on scalars and vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import special

import portable as pt
from portable import lang as kl
from portable.backend import Device
from portable.lang.ir.elementwise import FUNCTIONS
from portable.lang.namesakes import namesakes
from portable.lang.words.word import word_of
from tests.support.launch import run

Array = np.ndarray[Any, Any]

UNARY = [f.name for f in FUNCTIONS.values() if f.arity == 1 and f.kinds == "f"]
BINARY = ["atan2", "copysign", "hypot", "nextafter", "pow"]


@pt.kernel
def unary(x, real, boolean):
    i = kl.global_id(0)
    if i < x.shape[0]:
        v = x[i]
        real[0, i] = kl.acos(v)
        real[1, i] = kl.acosh(v)
        real[2, i] = kl.asin(v)
        real[3, i] = kl.asinh(v)
        real[4, i] = kl.atan(v)
        real[5, i] = kl.atanh(v)
        real[6, i] = kl.cbrt(v)
        real[7, i] = kl.ceil(v)
        real[8, i] = kl.cos(v)
        real[9, i] = kl.cosh(v)
        real[10, i] = kl.exp(v)
        real[11, i] = kl.exp2(v)
        real[12, i] = kl.expm1(v)
        real[13, i] = kl.floor(v)
        real[14, i] = kl.log(v)
        real[15, i] = kl.log10(v)
        real[16, i] = kl.log1p(v)
        real[17, i] = kl.log2(v)
        real[18, i] = kl.rint(v)
        real[19, i] = kl.rsqrt(v)
        real[20, i] = kl.sin(v)
        real[21, i] = kl.sinh(v)
        real[22, i] = kl.sqrt(v)
        real[23, i] = kl.tan(v)
        real[24, i] = kl.tanh(v)
        real[25, i] = kl.trunc(v)
        real[26, i] = abs(v)
        boolean[0, i] = kl.isfinite(v)
        boolean[1, i] = kl.isinf(v)
        boolean[2, i] = kl.isnan(v)
        boolean[3, i] = kl.signbit(v)


REAL_ROWS = (
    "acos acosh asin asinh atan atanh cbrt ceil cos cosh exp exp2 expm1 floor log log10 log1p log2 "
    "rint rsqrt sin sinh sqrt tan tanh trunc abs"
).split()
BOOL_ROWS = "isfinite isinf isnan signbit".split()


def test_the_kernel_above_has_every_function_of_one_number() -> None:
    assert sorted(REAL_ROWS + BOOL_ROWS) == sorted([*UNARY, "abs"])


def _inputs(dtype: str) -> Array:
    generator = np.random.default_rng(11)
    parts = [generator.uniform(-1, 1, 300), generator.uniform(-20, 20, 300)]
    parts += [generator.uniform(0, 1e-3, 50), generator.uniform(1, 80, 200)]
    parts += [np.array([0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 1, -1, np.inf, -np.inf, np.nan])]
    return np.concatenate(parts).astype(dtype)


def _exact(name: str, dtype: str, *x: Array) -> Array:
    """In a longer type: double for single, long double for double."""
    longer = np.float64 if dtype == "float32" else np.longdouble
    with np.errstate(all="ignore"):
        if name == "nextafter":
            return np.nextafter(*x).astype(longer)
        if name == "rsqrt":
            return 1 / np.sqrt(x[0].astype(longer))
        return FUNCTIONS[name].numpy(*(v.astype(longer) for v in x))


def _check(name: str, dtype: str, found: Array, exact: Array, capabilities: Any) -> None:
    bound = FUNCTIONS[name].ulp32 if dtype == "float32" else FUNCTIONS[name].ulp64
    if name == "sqrt" and capabilities.rounded_division32:
        bound = 0
    info = np.finfo(dtype)
    with np.errstate(all="ignore"):
        near = exact.astype(dtype)
        usual = np.isfinite(near) & (np.abs(exact) >= info.tiny)
        spacing = np.spacing(np.abs(near)).astype(exact.dtype)
        error = np.abs(found.astype(exact.dtype) - exact) / spacing
    assert np.array_equal(np.isnan(found), np.isnan(near)), name
    infinite = np.isinf(near)
    np.testing.assert_array_equal(found[infinite], near[infinite], err_msg=name)
    worst = float(np.max(error[usual], initial=0))
    assert worst <= max(bound, 0.5) + (0.5 if bound else 0), f"{name}: {worst} ulp, not {bound}"
    tiny = np.isfinite(near) & ~usual
    np.testing.assert_allclose(found[tiny], near[tiny], atol=float(info.tiny), err_msg=name)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_of_one_number(device: Device, dtype: str) -> None:
    if dtype == "float64" and not device.capabilities.float64:
        pytest.skip(f"{device.name} lacks double precision")
    x = _inputs(dtype)
    real, boolean = np.zeros((27, len(x)), dtype), np.zeros((4, len(x)), bool)
    _, real, boolean = run(device, unary[len(x), 64], x, real, boolean)
    for row, name in enumerate(REAL_ROWS):
        _check(name, dtype, real[row], _exact(name, dtype, x), device.capabilities)
    for row, name in enumerate(BOOL_ROWS):
        np.testing.assert_array_equal(boolean[row], FUNCTIONS[name].numpy(x), err_msg=name)


@pt.kernel
def binary(x, y, out):
    i = kl.global_id(0)
    if i < x.shape[0]:
        a, b = x[i], y[i]
        out[0, i] = kl.atan2(a, b)
        out[1, i] = kl.copysign(a, b)
        out[2, i] = kl.hypot(a, b)
        out[3, i] = kl.nextafter(a, b)
        out[4, i] = kl.pow(abs(a), b)
        out[5, i] = kl.logaddexp(a, b)
        out[6, i] = a ** (b * 0.1)
        out[7, i] = kl.round(a)
        out[8, i] = kl.sign(a)
        out[9, i] = kl.reciprocal(b)
        out[10, i] = kl.square(a)
        out[11, i] = kl.clip(a, -1, b)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_of_two_numbers(device: Device, dtype: str) -> None:
    if dtype == "float64" and not device.capabilities.float64:
        pytest.skip(f"{device.name} lacks double precision")
    generator = np.random.default_rng(5)
    x = generator.uniform(-20, 20, 500).astype(dtype)
    y = generator.uniform(-8, 8, 500).astype(dtype)
    x[:4], y[:4] = [0, -0.0, 3, -3], [1, 2, 0, -0.0]
    _, _, found = run(device, binary[500, 64], x, y, np.zeros((12, 500), dtype))
    for row, name in enumerate(BINARY):
        first = abs(x) if name == "pow" else x
        _check(name, dtype, found[row], _exact(name, dtype, first, y), device.capabilities)
    with np.errstate(all="ignore"):
        rows = [np.logaddexp(x, y), x ** (y * x.dtype.type(0.1)), np.round(x), np.sign(x), 1 / y]
    for row, expected in enumerate([*rows, x * x, np.clip(x, -1, np.maximum(y, y))], 5):
        if row != 11:
            np.testing.assert_allclose(found[row], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found[11], np.minimum(np.maximum(x, -1), y))


@pt.kernel
def of_vectors(x, out):
    i = 4 * kl.global_id(0)
    if i < x.shape[0]:
        v = kl.vload(x, i, lanes=4)
        kl.vstore(out[0], i, kl.exp(v))
        kl.vstore(out[1], i, kl.sqrt(abs(v)) + kl.floor(v))
        kl.vstore(out[2], i, kl.fma(v, v, 2.0 * v))
        kl.vstore(out[3], i, kl.where(kl.isnan(v), 0.0, kl.maximum(v, 1.0)))
        kl.vstore(out[4], i, kl.tanh(v) % 1.0 + kl.rsqrt(v * v + 1))


def test_functions_of_vectors(device: Device) -> None:
    x = np.linspace(-3, 3, 64, dtype=np.float32)
    x[5] = np.nan
    _, found = run(device, of_vectors[16, 8], x, np.zeros((5, 64), np.float32))
    rows = [np.exp(x), np.sqrt(abs(x)) + np.floor(x), x * x + 2 * x]
    rows += [np.where(np.isnan(x), 0, np.maximum(x, 1)), np.tanh(x) % 1 + 1 / np.sqrt(x * x + 1)]
    np.testing.assert_allclose(found, rows, rtol=2e-6, atol=1e-6)


@pt.kernel
def of_constants(out):
    out[0] = kl.exp(1.0)
    out[1] = kl.fma(2.0, 3.0, 4.0)
    out[2] = kl.popcount(255)
    out[3] = abs(-3)
    out[4] = min(3, 1, 2)
    out[5] = kl.minimum(1.5, 2.5)
    out[6] = round(2.5)
    out[7] = 7 // 2 + 7 % 4 + 2**5
    out[8] = kl.sqrt(16)


def test_functions_of_constants(device: Device) -> None:
    (found,) = run(device, of_constants[1, 1], np.zeros(9, np.float32))
    np.testing.assert_allclose(found, [np.e, 10, 8, 3, 1, 1.5, 2, 38, 4], rtol=1e-7)


def test_special_agrees_with_the_longer_types() -> None:
    x = np.linspace(0.1, 4, 7)
    roots = _exact("cbrt", "float64", x).astype(float)
    np.testing.assert_allclose(roots, special.cbrt(x), rtol=1e-15)


@pt.kernel
def bits_or_more(x, least, out):
    i = kl.global_id(0)
    if i < x.shape[0]:
        out[i] = max(kl.popcount(x[i]), least[i]) & 63


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_bits_are_counted_in_the_type_of_the_number(device: Device, dtype: str) -> None:
    """HIP's count of a signed number is unsigned, and the larger of two kinds a double there."""
    x = np.array([0, 1, 2**31 - 1, 255], dtype)
    least = np.array([3, 0, 30, 9], dtype)
    *_, found = run(device, bits_or_more[4, 4], x, least, np.zeros(4, dtype))
    np.testing.assert_array_equal(found, [3, 1, 31, 9])


@pt.kernel
def contained(x, out):
    i = kl.global_id(0)
    out[i, 0] = x[i] in (1, 3, 5)
    out[i, 1] = x[i] not in (1, x[0])
    out[i, 2] = 2 in (x[i], 3) and i > 2
    out[i, 3] = x[i] == 2 or 3 in (x[i], 3)


def test_in_compares_with_each_item(device: Device) -> None:
    x = np.array([7, 1, 2, 2, 5], np.uint8)
    _, found = run(device, contained[5, 1], x, np.zeros((5, 4), np.bool_))
    alike = np.isin(x, (1, 3, 5)), ~np.isin(x, (1, 7)), np.arange(5) == 3, np.full(5, True)
    np.testing.assert_array_equal(found, np.stack(alike, 1))


def of_the_language(x, y):
    i = kl.global_id(0)
    y[i] = kl.where(x[i] > 0, kl.sqrt(x[i]), kl.atan2(x[i], 2.0))
    y[i] += kl.maximum(kl.sin(x[i]), 0.5) + kl.round(x[i]) + kl.round(y[i])


def of_python_and_numpy(x, y):
    i = kl.global_id(0)
    y[i] = np.where(x[i] > 0, math.sqrt(x[i]), np.arctan2(x[i], 2.0))
    y[i] += np.maximum(np.sin(x[i]), 0.5) + np.round(x[i]) + np.rint(y[i])


def test_functions_of_math_and_numpy_are_the_words_that_mean_the_same() -> None:
    x = np.ones(4, np.float32)
    kernels = pt.kernel(of_the_language), pt.kernel(of_python_and_numpy)
    ours, theirs = (kl.source(k, x, x, device="cpu:native").splitlines() for k in kernels)
    renamed = [line.replace("of_python_and_numpy", "of_the_language") for line in theirs]
    assert ours[1:] == renamed[1:]  # the first line names the kernel's place
    assert len(set(namesakes().values())) > 50
    for function, word in namesakes().items():
        assert word_of(word) is not None
        assert function is not math.remainder


@pt.kernel
def of_numbers_of_python(x, n, whole, real):
    i = kl.global_id(0)
    v = kl.vector(x[i], 2.0, -x[i], 1.5)
    quotient, rest = divmod(n[i], -3)
    whole[0, i], whole[1, i], whole[2, i] = int(x[i]), int(x[i] > 0), int(n[i])
    whole[3, i], whole[4, i], whole[5, i] = quotient, rest, pow(n[i], 3)
    whole[6, i] = int(bool(n[i]))
    whole[7, i] = int(round(x[i]))  # noqa: RUF046  (a float in kernels)
    whole[8, i] = int(math.floor(x[i]) + math.ceil(x[i]) + math.trunc(x[i]))
    for k in reversed(range(1, 4)):
        whole[9, i] = 10 * whole[9, i] + k
    if n[i] and (n[i] + 1 or x[i] > -1):
        whole[10, i] = 1 if n[i] - 1 or not n[i] else 2
    real[0, i], real[1, i], real[2, i] = float(n[i]), round(x[i]), sum(v)
    real[3, i], real[4, i] = max(v), min(v)
    real[5, i], real[6, i] = divmod(x[i], 2.0)


def test_pythons_functions_of_numbers(device: Device) -> None:
    x = np.float32([-2.75, -1.5, -0.5, -0.25, 0.5, 1.5, 2.5, 7.875])
    n = np.arange(-4, 4, dtype=np.int32)
    shapes = (np.zeros((rows, 8), kind) for rows, kind in ((11, np.int32), (7, np.float32)))
    _, _, whole, real = run(device, of_numbers_of_python[8], x, n, *shapes)
    both = list(zip(map(float, x), map(int, n), strict=True))
    for i, (a, b) in enumerate(both):
        floors = math.floor(a) + math.ceil(a) + math.trunc(a)
        integers = [int(a), int(a > 0), b, *divmod(b, -3), b**3, bool(b), round(a)]
        held = (1 if b - 1 or not b else 2) if b and (b + 1 or a > -1) else 0
        assert whole[:, i].tolist() == [*integers, floors, 321, held]
        v = (a, 2.0, -a, 1.5)
        assert real[:, i].tolist() == [b, round(a), sum(v), max(v), min(v), *divmod(a, 2.0)]
