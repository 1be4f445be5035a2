"""Complex numbers: operators, and every function that the Array API defines for them.

Values are held against mpmath's, special values against the tables of C99's Annex G and of the
Array API standard. (The standard's text swaps two rows for the square root of infinities; Annex G
has them right.)
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import Device
from portable.lang.ir.elementwise import FUNCTIONS
from tests.support.launch import run

Array = np.ndarray[Any, Any]
DTYPES = ["complex64", "complex128"]
NAMES = (
    "sqrt", "log", "log2", "log10", "log1p", "exp", "expm1", "sin", "cos", "tan", "sinh", "cosh",
    "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "square", "reciprocal", "sign",
)  # fmt: skip
WORDS = tuple(getattr(kl, name) for name in NAMES)
BOUNDS = {"square": 2, "reciprocal": 6, "sign": 6}
"""Of the words that are no functions of the table; in units in the last place."""


def needs(device: Device, dtype: str) -> None:
    """Skips what needs double precision where there is none."""
    if dtype == "complex128" and not device.capabilities.float64:
        pytest.skip(f"{device.name} lacks double precision")


# -- operators ----------------------------------------------------------------------------------


@pt.kernel
def complex_arithmetic(x, y, s, out):
    i = kl.global_id(0)
    if i < x.shape[0]:
        a, b = x[i], y[i]
        out[0, i] = a + b
        out[1, i] = a - b
        out[2, i] = a * b
        out[3, i] = a / b
        out[4, i] = -a
        out[5, i] = 2 * a + 1j
        out[6, i] = a * s
        out[7, i] = kl.conj(a)
        out[8, i] = kl.complex(b.imag, b.real)
        out[9, i] = a.real
        out[10, i] = abs(a)
        out[11, i] = kl.exp(a * 0.1)
        out[12, i] = a**3
        out[13, i] = a if a != b else b
        swapped = a
        for _ in range(3):
            swapped = kl.complex(swapped.imag, swapped.real)
        out[14, i] = swapped
        out[15, i] = kl.where(a.real > b.real, a, b)
        out[16, i] = 1 / b
        out[17, i] = (a + 1.5) * 0.1


@pytest.mark.parametrize("name", DTYPES)
def test_complex_arithmetic(device: Device, name: str) -> None:
    needs(device, name)
    real = np.random.default_rng(7).normal(0, 9, (100, 2))
    x = (real[:, 0] + 1j * real[::-1, 1]).astype(name)
    y = (real[::-1, 0] - 1j * real[:, 0]).astype(name)
    s = 0.3 - 2j
    out = np.zeros((18, 100), name)
    _, _, found = run(device, complex_arithmetic[100, 32], x, y, s, out)
    rows = [x + y, x - y, x * y, x / y, -x, 2 * x + 1j, x * s, np.conj(x), y.imag + 1j * y.real]
    rows += [x.real, abs(x), np.exp(x * 0.1), x**3, x, x.imag + 1j * x.real]
    rows += [np.where(x.real > y.real, x, y), 1 / y, (x + 1.5) * 0.1]
    rtol = 2e-6 if name == "complex64" else 1e-14
    for k, row in enumerate(rows):
        size = np.maximum(np.abs(row), 1e-30)
        with np.errstate(invalid="ignore"):
            error = np.where(found[k] == row, 0, np.abs(found[k] - row) / size)
        worst = np.nanmax(error)
        assert worst < (rtol if k != 11 else 200 * rtol), f"row {k}"


@pt.kernel
def with_real(x, s, out):
    """An infinity times a real number stays clear of the NaN that 0j would make."""
    i = kl.global_id(0)
    if i < x.shape[0]:
        z = x[i]
        out[0, i] = z * s
        out[1, i] = s * z
        out[2, i] = z / s
        out[3, i] = z + s
        out[4, i] = s - z
        out[5, i] = z - s


def test_real_operands_stay_real(device: Device) -> None:
    inf = math.inf
    x = np.array([complex(inf, 1), complex(2, -0.0), complex(-inf, inf), complex(math.nan, 3)])
    s, rows = 2.0, np.zeros((6, 4), np.complex64)
    _, found = run(device, with_real[4, 4], x.astype(np.complex64), s, rows)
    real, imag = x.real, x.imag
    wanted = [(real * s, imag * s)] * 2 + [(real / s, imag / s), (real + s, imag)]
    wanted += [(s - real, -imag), (real - s, imag)]
    for k, (a, b) in enumerate(wanted):
        np.testing.assert_array_equal(found[k].real, a)
        np.testing.assert_array_equal(found[k].imag, b)
        np.testing.assert_array_equal(np.signbit(found[k].imag), np.signbit(b))


@pt.kernel
def quotients(x, y, out):
    i = kl.global_id(0)
    if i < x.shape[0]:
        out[i] = x[i] / y[i]


@pytest.mark.parametrize("dtype", DTYPES)
def test_quotients_near_the_ends_of_the_range(device: Device, dtype: str) -> None:
    needs(device, dtype)
    points = samples(dtype)
    x, y = points, np.roll(points, 7)
    _, _, found = run(device, quotients[len(x), 32], x, y, np.zeros_like(x))
    with mpmath.workprec(200):
        wanted = [_long(exact(a) / exact(b)) for a, b in zip(x, y, strict=True)]
    assert worst_error(found, wanted) <= 8


def test_quotients_of_zero_and_infinity(device: Device) -> None:
    inf, nan = math.inf, math.nan
    rows = [
        (1 + 1j, 0j, complex(inf, inf)),
        (1 + 1j, complex(-0.0, 0), complex(-inf, -inf)),
        (0j, 0j, complex(nan, nan)),
        (1 + 1j, complex(inf, inf), 0j),
        (1 + 1j, complex(inf, 1), 0j),
        (complex(inf, 0), 2 + 0j, complex(inf, nan)),
    ]
    x, y, wanted = (np.array(column, np.complex64) for column in zip(*rows, strict=True))
    _, _, found = run(device, quotients[len(x), 32], x, y, np.zeros_like(x))
    np.testing.assert_array_equal(found, wanted)


# -- functions ----------------------------------------------------------------------------------


@pt.kernel
def functions(x, out, *, WORDS):
    i = kl.global_id(0)
    if i < x.shape[0]:
        for k in kl.static_range(len(WORDS)):
            out[k, i] = WORDS[k](x[i])


def evaluated(device: Device, x: Array) -> dict[str, Array]:
    """All functions of the same numbers, of whole workgroups: all tests have one program."""
    padded = np.resize(x, -(-len(x) // 32) * 32)
    out = np.zeros((len(NAMES), len(padded)), x.dtype)
    _, found = run(device, functions[len(padded), 32], padded, out, WORDS=WORDS)
    return dict(zip(NAMES, found[:, : len(x)], strict=True))


@functools.cache
def samples(dtype: str) -> Array:
    """Numbers whose parts are subnormal, ordinary, near 1 and near overflow, in all mixtures."""
    info = np.finfo(dtype)
    tiny, wide = float(info.smallest_subnormal), float(info.max)
    magnitudes = [tiny, float(info.tiny) / 100, wide**-0.6, 1e-10, 1e-4, 0.3, 1 - 1e-6, 1.0]
    magnitudes += [1 + 1e-6, 2.5, 21.9, 22.1, math.log(wide) + 0.1, 1e5, 1e10, 2e17]
    magnitudes += [wide**0.49, wide**0.65, wide * 0.49]
    generator = np.random.default_rng(3)
    parts = np.concatenate([
        np.array(list(itertools.product(magnitudes, repeat=2))),
        10.0 ** generator.uniform(-3, 2, (100, 2)),
        generator.uniform(0.8, 1.2, (30, 2)) * [1, 1e-3],
        generator.uniform(0.8, 1.2, (30, 2)) * [1e-3, 1],
    ])  # fmt: skip
    parts *= generator.choice([-1, 1], parts.shape)
    kind = info.dtype
    return (parts[:, 0].astype(kind) + 1j * parts[:, 1].astype(kind)).astype(dtype)


def exact(z: Any) -> Any:
    """A number as mpmath has it."""
    return mpmath.mpc(float(z.real), float(z.imag))


def _atanh(z: Any) -> Any:
    # mpmath's own is wrong of subnormal numbers.
    return z if abs(z) < 1e-60 else mpmath.atanh(z)


_SPREAD = 3000
"""Bits that hold the largest double's square and the smallest one together."""


def _asinh(z: Any) -> Any:
    # mpmath 1.3 loses the parts of its inverse functions that are much the smaller.
    with mpmath.workprec(_SPREAD):
        return mpmath.log(z + mpmath.sqrt(z * z + 1))


def _acos(z: Any) -> Any:
    with mpmath.workprec(_SPREAD):
        return mpmath.pi / 2 + _asinh(z * 1j) * 1j


_EXACT: dict[str, Any] = {
    "log2": lambda z: mpmath.log(z) / mpmath.log(2),
    "log10": lambda z: mpmath.log(z) / mpmath.log(10),
    "square": lambda z: z * z,
    "reciprocal": lambda z: 1 / z,
    "sign": lambda z: z / abs(z),
    "acos": _acos,
    "acosh": lambda z: _acos(z) * (1j if z.imag > 0 else -1j),
    "asin": lambda z: _asinh(z * 1j) * -1j,
    "asinh": _asinh,
    "atanh": _atanh,
    "atan": lambda z: _atanh(z * 1j) * -1j,
}


def _long(w: Any) -> tuple[np.longdouble, np.longdouble]:
    """Both parts, rounded to what holds more digits than any register."""
    return _rounded(w.real), _rounded(w.imag)


def _rounded(x: Any) -> np.longdouble:
    if abs(x) > mpmath.mpf(10) ** 400 or 0 < abs(x) < mpmath.mpf(10) ** -400:
        return np.longdouble(math.inf if x > 1 else -math.inf if x < -1 else 0)
    return np.longdouble(mpmath.nstr(x, 25))


@functools.cache
def reference(name: str, dtype: str) -> list[tuple[np.longdouble, np.longdouble]]:
    """The function of the samples, to 200 bits."""
    function = _EXACT.get(name) or getattr(mpmath, name)
    with mpmath.workprec(200):
        return [_long(function(exact(z))) for z in samples(dtype)]


def worst_error(found: Array, wanted: Any) -> float:
    """The greatest, in units in the last place of the larger part; both parts may overflow."""
    info = np.finfo(found.dtype)
    parts = np.array(wanted)
    size = np.minimum(np.abs(parts).max(axis=1), info.max).astype(info.dtype)
    unit = np.spacing(np.minimum(size, info.max / 2)).astype(np.longdouble)
    worst = 0.0
    for have, want in zip((found.real, found.imag), parts.T, strict=True):
        beyond = np.abs(want) > info.max
        with np.errstate(invalid="ignore"):
            error = np.abs(have.astype(np.longdouble) - want) / unit
        error = np.where(beyond & np.isinf(have) & (np.sign(have) == np.sign(want)), 0, error)
        worst = max(worst, float(np.where(np.isnan(error), np.inf, error).max()))
    return worst


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_of_numbers_of_all_sizes(device: Device, dtype: str) -> None:
    needs(device, dtype)
    found = evaluated(device, samples(dtype))
    for name in NAMES:
        bound = BOUNDS.get(name) or FUNCTIONS[name].complex_ulp
        assert worst_error(found[name], reference(name, dtype)) <= bound, name


# -- special values -----------------------------------------------------------------------------

SPECIAL = {
    "sqrt": "0 0 0 0|-0 0 0 0|2 inf inf inf|nan inf inf inf|-inf inf inf inf|2 nan nan nan"
    "|-inf 2 0 inf|inf 2 inf 0|-inf nan nan +-inf|inf nan inf nan|nan 2 nan nan|nan nan nan nan",
    "exp": "0 0 1 0|-0 0 1 0|2 inf nan nan|2 nan nan nan|inf 0 inf 0|-inf 1 0 0|-inf 2 -0 0"
    "|inf 1 inf inf|inf 2 -inf inf|-inf inf +-0 +-0|inf inf +-inf nan|-inf nan +-0 +-0"
    "|inf nan +-inf nan|nan 0 nan 0|nan 2 nan nan|nan nan nan nan",
    "expm1": "0 0 0 0|-0 0 0 0|2 inf nan nan|2 nan nan nan|inf 0 inf 0|-inf 1 -1 0|-inf 2 -1 0"
    "|inf 1 inf inf|inf 2 -inf inf|-inf inf -1 +-0|inf inf +-inf nan|-inf nan -1 +-0"
    "|inf nan +-inf nan|nan 0 nan 0|nan 2 nan nan|nan nan nan nan",
    "log": "-0 0 -inf pi|0 0 -inf 0|2 inf inf pi/2|2 nan nan nan|-inf 2 inf pi|inf 2 inf 0"
    "|-inf inf inf 3pi/4|inf inf inf pi/4|inf nan inf nan|-inf nan inf nan|nan 2 nan nan"
    "|nan inf inf nan|nan nan nan nan",
    "log1p": "-1 0 -inf 0|2 inf inf pi/2|2 nan nan nan|-inf 2 inf pi|inf 2 inf 0"
    "|-inf inf inf 3pi/4|inf inf inf pi/4|inf nan inf nan|-inf nan inf nan|nan 2 nan nan"
    "|nan inf inf nan|nan nan nan nan",
    "sinh": "0 0 0 0|0 inf +-0 nan|0 nan +-0 nan|2 inf nan nan|2 nan nan nan|inf 0 inf 0"
    "|inf 1 inf inf|inf 2 -inf inf|inf inf +-inf nan|inf nan +-inf nan|nan 0 nan 0|nan 2 nan nan"
    "|nan nan nan nan",
    "cosh": "0 0 1 0|0 inf nan +-0|0 nan nan +-0|2 inf nan nan|2 nan nan nan|inf 0 inf 0"
    "|inf 1 inf inf|inf 2 -inf inf|inf inf +-inf nan|inf nan inf nan|nan 0 nan +-0|nan 2 nan nan"
    "|nan nan nan nan",
    "tanh": "0 0 0 0|2 inf nan nan|0 inf 0 nan|2 nan nan nan|0 nan 0 nan|inf 1 1 0|inf 2 1 0"
    "|inf inf 1 +-0|inf nan 1 +-0|nan 0 nan 0|nan 2 nan nan|nan nan nan nan|30 inf nan nan"
    "|1e30 nan nan nan",
    "asinh": "0 0 0 0|2 inf inf pi/2|2 nan nan nan|inf 2 inf 0|inf inf inf pi/4|inf nan inf nan"
    "|nan 0 nan 0|nan 2 nan nan|nan inf +-inf nan|nan nan nan nan",
    "acos": "0 0 pi/2 -0|-0 0 pi/2 -0|0 nan pi/2 nan|-0 nan pi/2 nan|2 inf pi/2 -inf"
    "|2 nan nan nan|-inf 2 pi -inf|inf 2 0 -inf|-inf inf 3pi/4 -inf|inf inf pi/4 -inf"
    "|inf nan nan +-inf|-inf nan nan +-inf|nan 2 nan nan|nan inf nan -inf|nan nan nan nan",
    "acosh": "0 0 0 pi/2|-0 0 0 pi/2|2 inf inf pi/2|2 nan nan nan|0 nan nan +-pi/2|-inf 2 inf pi"
    "|inf 2 inf 0|-inf inf inf 3pi/4|inf inf inf pi/4|inf nan inf nan|-inf nan inf nan"
    "|nan 2 nan nan|nan inf inf nan|nan nan nan nan",
    "atanh": "0 0 0 0|0 nan 0 nan|1 0 inf 0|2 inf 0 pi/2|2 nan nan nan|inf 2 0 pi/2"
    "|inf inf 0 pi/2|inf nan 0 nan|nan 2 nan nan|nan inf +-0 pi/2|nan nan nan nan",
    "sign": "0 0 0 0|-0 0 0 0|-0 -0 0 0|nan 2 nan nan|2 nan nan nan|3 4 0.6 0.8"
    "|1e38 0 1 0|inf nan nan nan",
}
"""By function: the parts of an argument, then those of the result."""
TURNED = {"sin": "sinh", "cos": "cosh", "tan": "tanh", "asin": "asinh", "atan": "atanh"}
_NUMBERS = {"pi": math.pi, "pi/2": math.pi / 2, "pi/4": math.pi / 4, "3pi/4": 3 * math.pi / 4}


def _number(text: str) -> float:
    return _NUMBERS.get(text) or float(text)


def _is(found: Any, text: str) -> bool:
    wanted = _number(text.removeprefix("+-"))
    if math.isnan(wanted):
        return bool(np.isnan(found))
    either = text.startswith("+-")
    close = math.isclose(abs(found), abs(wanted), rel_tol=4e-7)
    return close and (either or np.signbit(found) == (math.copysign(1, wanted) < 0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values(device: Device, dtype: str) -> None:
    needs(device, dtype)
    rows = [(name, *row.split()) for name, text in SPECIAL.items() for row in text.split("|")]
    x = np.array([complex(_number(a), _number(b)) for _, a, b, _, _ in rows], dtype)
    found = evaluated(device, x)
    for i, (name, a, b, real, imag) in enumerate(rows):
        got = found[name][i]
        assert _is(got.real, real), f"{name}({a}, {b}) = {got}, not {real}, {imag}"
        assert _is(got.imag, imag), f"{name}({a}, {b}) = {got}, not {real}, {imag}"


def _same(x: Array, y: Array) -> bool:
    """Equal, NaN with NaN, zeros by sign."""
    pairs = ((x.real, y.real), (x.imag, y.imag))
    return all(
        np.array_equal(a, b, equal_nan=True)
        and (np.isnan(a) | (np.signbit(a) == np.signbit(b))).all()
        for a, b in pairs
    )


def grid(dtype: str) -> Array:
    """Ordinary and special numbers for both parts."""
    values = [0.0, -0.0, 0.4, -0.4, 1.0, -1.0, 3.0, -3.0, math.inf, -math.inf, math.nan]
    pairs = np.array(list(itertools.product(values, repeat=2)))
    return np.array([complex(a, b) for a, b in pairs], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_symmetries(device: Device, dtype: str) -> None:
    needs(device, dtype)
    x = grid(dtype)
    x = x[~np.isnan(x)]
    plain = evaluated(device, x)
    mirrored = evaluated(device, np.conj(x))
    turned = evaluated(device, np.array([complex(-z.imag, z.real) for z in x], dtype))
    for name in NAMES:
        kept = x != 0 if name == "sign" else ...  # which gives 0 of every zero
        assert _same(mirrored[name][kept], np.conj(plain[name][kept])), name
    for name, other in TURNED.items():
        wanted = turned[other]
        if name != "cos":
            wanted = np.array([complex(w.imag, -w.real) for w in wanted], dtype)
        assert _same(plain[name], wanted), name


@pytest.mark.parametrize("dtype", DTYPES)
def test_both_sides_of_the_branch_cuts(device: Device, dtype: str) -> None:
    """On the axes, where a zero's sign chooses the side; NumPy follows Kahan too."""
    needs(device, dtype)
    values, zeros = [0.4, -0.4, 3.0, -3.0, 1e5, -1e5], [0.0, -0.0]
    x = [complex(a, b) for a in values for b in zeros]
    x = np.array([*x, *(complex(z.imag, z.real) for z in x)], dtype)
    found = evaluated(device, x)
    for name in NAMES:
        with np.errstate(all="ignore"):
            wanted = getattr(np, name)(x.astype(np.complex128))
        wide = np.abs(wanted) < 1e30
        got = found[name][wide].astype(np.complex128)
        rtol = 30 * float(np.finfo(dtype).eps)
        np.testing.assert_allclose(got, wanted[wide], rtol=rtol, err_msg=name)
        if name in ("sqrt", "log", "asin", "acos", "atan", "asinh", "acosh", "atanh"):
            signs = np.signbit(wanted[wide].imag)
            np.testing.assert_array_equal(np.signbit(got.imag), signs, err_msg=name)


# -- powers -------------------------------------------------------------------------------------


@pt.kernel
def powers(x, y, s, out):
    i = kl.global_id(0)
    if i < x.shape[0]:
        z, w = x[i], y[i]
        out[0, i] = z**w
        out[1, i] = kl.pow(z, w.real)
        out[2, i] = z**0.5
        out[3, i] = z ** (-2)
        out[4, i] = 2.5**w
        out[5, i] = z.real**w
        out[6, i] = z**s
        out[7, i] = z**2
        out[8, i] = kl.abs(z) + 0 * w


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers(device: Device, dtype: str) -> None:
    needs(device, dtype)
    parts = np.random.default_rng(5).uniform(-4, 4, (4, 60))
    x, y = ((a + 1j * b).astype(dtype) for a, b in (parts[:2], parts[2:]))
    s = 0.3 - 0.7j
    _, _, found = run(device, powers[len(x), 32], x, y, s, np.zeros((9, len(x)), dtype))
    wide, w = x.astype(np.complex128), y.astype(np.complex128)
    rows = [wide**w, wide**w.real, wide**0.5, wide**-2.0, 2.5**w, (wide.real + 0j) ** w, wide**s]
    rows += [wide**2, np.abs(wide) + 0j]
    exponents = [w, w.real, 0.5, 2, w, w, s, 2, 0]
    for k, (row, exponent) in enumerate(zip(rows, exponents, strict=True)):
        size = 1 + np.abs(exponent * (4 + np.abs(np.log(wide))))
        error = np.abs(found[k] - row) / np.abs(row) / size
        assert error.max() <= 16 * np.finfo(dtype).eps, f"row {k}"


def test_powers_of_zero_and_to_the_zeroth(device: Device) -> None:
    inf, nan = math.inf, math.nan
    rows = [
        (0j, 2 + 0j, 0j),
        (0j, 2 + 1j, 0j),
        (0j, 0j, 1 + 0j),
        (complex(nan, nan), 0j, 1 + 0j),
        (complex(inf, nan), 0j, 1 + 0j),
        (3 - 4j, 0j, 1 + 0j),
    ]
    x, y, wanted = (np.array(column, np.complex64) for column in zip(*rows, strict=True))
    _, _, found = run(device, powers[len(x), 32], x, y, 1j, np.zeros((9, len(x)), np.complex64))
    np.testing.assert_array_equal(found[0], wanted)


# -- types --------------------------------------------------------------------------------------


@pt.kernel
def weak(x, s, out):
    out[0] = kl.sqrt(s)
    out[1] = (s + 1) * x[0]
    out[2] = kl.exp(1j) * x[0]
    out[3] = kl.reciprocal(s * 3)
    total = kl.complex(0.1, 0.2)
    for _ in range(2):
        total += x[0]
    out[4] = total
    out[5] = kl.cast(2 - 1j, kl.c64) * x[0]


@pytest.mark.needs_float64
def test_weak_complex_numbers_are_exact_in_double_precision(device: Device) -> None:
    x, s = np.array([1.7 - 0.3j]), 0.1 + 0.7j
    _, found = run(device, weak[1, 1], x, s, np.zeros(6, np.complex128))
    wanted = [np.sqrt(s), (s + 1) * x[0], np.exp(1j) * x[0], 1 / (s * 3), 0.1 + 0.2j + 2 * x[0]]
    wanted.append((2 - 1j) * x[0])
    np.testing.assert_allclose(found, wanted, rtol=1e-15)


@pt.kernel
def of_vectors(x, out):
    z = kl.complex(kl.vload(x, 0, 0, lanes=4), kl.vload(x, 1, 0, lanes=4))
    w = kl.sqrt(z) * kl.exp(z)
    kl.vstore(out, 0, 0, w.real)
    kl.vstore(out, 1, 0, w.imag)


def test_vectors_of_parts(device: Device) -> None:
    x = np.random.default_rng(1).normal(size=(2, 4)).astype(np.float32)
    _, found = run(device, of_vectors[1, 1], x, np.zeros_like(x))
    z = x[0] + 1j * x[1]
    np.testing.assert_allclose(found[0] + 1j * found[1], np.sqrt(z) * np.exp(z), rtol=2e-6)


@pt.kernel
def predicates(x, out):
    i = kl.global_id(0)
    if i < x.shape[0]:
        out[0, i] = kl.isfinite(x[i])
        out[1, i] = kl.isinf(x[i])
        out[2, i] = kl.isnan(x[i])
        out[3, i] = kl.round(x[i]) == x[i]


def test_predicates(device: Device) -> None:
    x = grid("complex64")
    _, found = run(device, predicates[len(x), 32], x, np.zeros((4, len(x)), bool))
    rows = [np.isfinite(x), np.isinf(x), np.isnan(x), np.round(x) == x]
    np.testing.assert_array_equal(found, rows)
