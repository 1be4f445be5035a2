"""Every element-wise function and operator on every dtype against array-api-strict.

Special values are among the operands.
"""

from __future__ import annotations

import operator
from functools import partial
from itertools import product
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

import portable
import portable.array as xp
from portable.backend import Device

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float32", "float64", "complex64", "complex128"]  # fmt: skip
FEW = ["int8", "float32", "complex64"]
UNARY = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_invert", "ceil", "conj",
    "cos", "cosh", "exp", "expm1", "floor", "imag", "isfinite", "isinf", "isnan", "log", "log10",
    "log1p", "log2", "logical_not", "negative", "positive", "real", "reciprocal", "round", "sign",
    "signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
]  # fmt: skip
BINARY = [
    "add", "atan2", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "copysign", "divide", "equal", "floor_divide", "greater", "greater_equal",
    "hypot", "less", "less_equal", "logaddexp", "logical_and", "logical_or", "logical_xor",
    "maximum", "minimum", "multiply", "nextafter", "not_equal", "pow", "remainder", "subtract",
]  # fmt: skip
OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift,
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip
ORDERS = [operator.lt, operator.le, operator.gt, operator.ge]
IN_PLACE = [
    operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv,
    operator.imod, operator.ipow, operator.iand, operator.ior, operator.ixor, operator.ilshift,
    operator.irshift,
]  # fmt: skip
REAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -3.5, 3.0, 1e-3, 30.0, np.inf, -np.inf, np.nan]
ULPS = {"float16": 16, "float32": 16, "float64": 16, "complex64": 64, "complex128": 64}


def numbers(dtype: str) -> np.ndarray[Any, Any]:
    """Ordinary and special numbers of a dtype."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.array([True, False])
    if kind.kind in "iu":
        info = np.iinfo(kind)
        return np.array([0, 1, 2, 3, 5, 7, 100, info.max, info.max - 1, info.min, info.min + 1],
                        kind)  # fmt: skip
    if kind.kind == "f":
        return np.array(REAL, kind)
    return np.array(
        [complex(a, b) for a, b in product([0.0, -0.0, 1.5, -2.0, 0.3], repeat=2)], kind
    )


def chosen(device: Device, dtype: str) -> None:
    """Compilers take their time: all dtypes on the simulator, a few elsewhere."""
    if not device.interprets and dtype not in FEW:
        pytest.skip("dtypes alike to the compiler")


def agree(found: Any, expected: Any, label: object = "") -> None:
    """The same dtype, shape, values within ulps, and signs of zeros."""
    got, want = portable.to_numpy(found), np.asarray(expected)
    assert (got.dtype, got.shape) == (want.dtype, want.shape), label
    if got.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, want, err_msg=str(label))
        return
    bound = ULPS[got.dtype.name] * np.finfo(got.dtype).eps
    with np.errstate(all="ignore"):
        size = np.abs(want)
        fine = np.abs(got - want) <= bound * size + np.finfo(got.dtype).tiny
    parts = [(got.real, want.real)] + ([(got.imag, want.imag)] if got.dtype.kind == "c" else [])
    special = np.ones(got.shape, bool)
    real = got.dtype.kind == "f"
    for a, b in parts:
        signs = (np.signbit(a) == np.signbit(b)) | (b != 0) | (not real)
        special &= ((a == b) | (np.isnan(a) & np.isnan(b))) & signs
    close = (fine & ~(real & (want == 0))) | special
    assert close.all(), f"{label}: {got[~close][:8]} where {want[~close][:8]} was expected"


def outcome(function: Any, *operands: Any) -> Any:
    """The result, or the TypeError that it raised."""
    try:
        with np.errstate(all="ignore"):
            return function(*operands)
    except TypeError as error:
        return error


def compare(mine: Any, theirs: Any, label: object, numpy: Any = None) -> None:
    """What strict gives; where the standard leaves it open, an error or what NumPy gives."""
    if isinstance(theirs, TypeError) and numpy is not None and not isinstance(mine, TypeError):
        theirs = numpy()
    if isinstance(theirs, TypeError) or isinstance(mine, TypeError):
        assert isinstance(theirs, TypeError), f"{label}: raised {mine!r}"
        assert isinstance(mine, TypeError), f"{label}: {theirs!r} was expected"
        return
    agree(mine, theirs, label)


@pytest.mark.parametrize("dtype", DTYPES)
def test_unary(ours: Device, dtype: str) -> None:
    chosen(ours, dtype)
    a = numbers(dtype)
    for name in UNARY:
        x = a[a != 0] if name == "reciprocal" and a.dtype.kind == "c" else a
        theirs = outcome(getattr(strict, name), strict.asarray(x))
        of_numpy = partial(outcome, getattr(np, name, None), x)
        compare(outcome(getattr(xp, name), ours.from_numpy(x)), theirs, name, of_numpy)


def defined(name: str, a: Any, b: Any) -> Any:
    """Where the standard says what the result is, and NumPy follows it."""
    whole = a.dtype.kind in "iu"
    if name in ("floor_divide", "remainder") and a.dtype.kind in "iuf":
        return b != 0 if whole else (b != 0) & np.isfinite(a) & np.isfinite(b)
    if "shift" in name:
        return (b >= 0) & (b < 8 * a.dtype.itemsize) if whole else np.zeros(a.shape, bool)
    if name in ("divide", "pow") and a.dtype.kind == "c":
        return (a if name == "pow" else b) != 0
    return b >= 0 if name == "pow" and whole else np.ones(a.shape, bool)


@pytest.mark.parametrize("dtype", DTYPES)
def test_binary(ours: Device, dtype: str) -> None:
    chosen(ours, dtype)
    line = numbers(dtype)
    a, b = (m.reshape(-1).copy() for m in np.meshgrid(line, line))
    for name in BINARY:
        if name == "pow" and dtype == "bool":  # NumPy's is of int8
            continue
        keep = defined(name, a, b)
        x, y = a[keep], b[keep]
        theirs = outcome(getattr(strict, name), strict.asarray(x), strict.asarray(y))
        mine = outcome(getattr(xp, name), ours.from_numpy(x), ours.from_numpy(y))
        compare(mine, theirs, name, partial(outcome, getattr(np, name, None), x, y))


def test_promotion(simulated: Device) -> None:
    """Every pair of dtypes gives what the standard's table says, or is refused."""
    for first, second in product(DTYPES, repeat=2):
        names = ["logical_or" if first == "bool" else "add", "equal", "maximum"]
        operands = [np.ones((2,), first), np.ones((2,), second)]
        for name in names:
            theirs = outcome(getattr(strict, name), *map(strict.asarray, operands))
            mine = outcome(getattr(xp, name), *map(simulated.from_numpy, operands))
            of_numpy = partial(outcome, getattr(np, name), *operands)
            compare(mine, theirs, f"{name} of {first} and {second}", of_numpy)
        pair = (getattr(xp, first), getattr(xp, second))
        joint = outcome(xp.result_type, *pair)
        if isinstance(joint, TypeError):  # of which NumPy makes floats that do not hold them
            assert {first[:3], second[:3]} == {"int", "uin"}, pair
            assert "uint64" in (first, second)
            continue
        assert joint.name == np.result_type(first, second).name, pair
        assert xp.can_cast(*pair) == (joint.name == second), pair


@pytest.mark.parametrize("dtype", DTYPES)
def test_operators(simulated: Device, dtype: str) -> None:
    """With arrays and Python numbers on either side."""
    a = np.ones((2, 3), dtype)
    x, s = simulated.from_numpy(a), strict.asarray(a)
    for op, other in product(OPERATORS, [True, 2, 1.5, 0.5j]):
        if op is operator.pow and dtype == "bool":  # NumPy's is of int8, whatever the number is
            continue
        if op in ORDERS and isinstance(other, complex):
            with pytest.raises(TypeError):
                op(x, other)
            continue
        label = f"{op.__name__} of {dtype} and {other!r}"
        theirs = outcome(op, s, other), outcome(op, other, s)
        compare(outcome(op, x, other), theirs[0], label, partial(outcome, op, a, other))
        turned = partial(outcome, op, other, a)
        compare(outcome(op, other, x), theirs[1], f"{label}, reflected", turned)
    for op in set(OPERATORS) - ({operator.pow} if dtype == "bool" else set()):
        compare(outcome(op, x, x), outcome(op, s, s), op.__name__, partial(outcome, op, a, a))
    for op in (operator.neg, operator.pos, operator.abs, operator.invert):
        compare(outcome(op, x), outcome(op, s), op.__name__)


@pytest.mark.parametrize("dtype", DTYPES)
def test_in_place_operators(simulated: Device, dtype: str) -> None:
    others = [np.full((2, 1), 1, d) for d in (dtype, "int8", "float64")]
    for op in IN_PLACE:
        for other in [True, 2, 1.5, 0.5j, *others]:
            start = np.full((2, 3), 1, dtype)
            x, s = simulated.from_numpy(start), strict.asarray(start, copy=True)
            array = isinstance(other, np.ndarray)
            mine = outcome(op, x, simulated.from_numpy(other) if array else other)
            theirs = outcome(op, s, strict.asarray(other) if array else other)
            of_numpy = partial(outcome, op, start.copy(), other)
            compare(mine, theirs, f"{op.__name__} of {dtype} and {other!r}", of_numpy)
            if not isinstance(mine, TypeError):
                assert mine is x


def test_what_is_no_operand(simulated: Device) -> None:
    x = xp.ones((2,), device=simulated)
    for name, thing in product([*UNARY, *BINARY], [None, "1", [1.0], np.ones(2)]):
        for operands in [(thing,)] if name in UNARY else [(x, thing), (thing, x)]:
            with pytest.raises(TypeError, match=f"{name} takes arrays"):
                getattr(xp, name)(*operands)
