"""Exact arithmetic: every operation against Python's integers, or NumPy's correctly rounded one."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portable import dtypes as dt
from portable import sim
from portable.lang.ir import expressions as e
from portable.lang.ir.elementwise import FUNCTIONS
from portable.lang.ir.types import Vector
from sim.build import K, binary, compare, global_array

INTEGERS = [dt.int32, dt.uint32, dt.int64, dt.uint64]
FLOATS = [dt.float16, dt.float32, dt.float64]


def _wrap(x: int, kind: dt.DType) -> int:
    x &= (1 << kind.bits) - 1
    return x - (1 << kind.bits) if kind.kind == "i" and x >> (kind.bits - 1) else x


def evaluate(make: Any, result: dt.DType, *operands: Any) -> Any:
    """Evaluate an expression on arrays, one work-item per row, and store it."""
    arrays = [global_array(f"x{i}", dt.dtype(x.dtype)) for i, x in enumerate(operands)]
    out = global_array("out", result)
    n = len(operands[0])
    k = K(*arrays, out, workgroup=n)
    loaded = [k.load(a, k.gid, kind=_kept(a.dtype)) for a in arrays]
    k.store(out, k.gid, make(*loaded))
    found = np.zeros(n, result.numpy)
    sim.run(k.build(), (1, 1, 1), [*operands, found])
    return found


def _kept(kind: dt.DType) -> dt.DType:
    return kind if kind is dt.float16 else kind.register


def _integer(op: str, x: int, y: int, kind: dt.DType) -> int:
    match op:
        case "add" | "sub" | "mul":
            exact = {"add": x + y, "sub": x - y, "mul": x * y}[op]
        case "floordiv":
            exact = x // y if y else 0
        case "mod":
            exact = x % y if y else 0
        case "and" | "or" | "xor":
            exact = {"and": x & y, "or": x | y, "xor": x ^ y}[op]
        case "shl":
            exact = x << (y % kind.bits)
        case "shr":
            exact = x >> (y % kind.bits)
        case _:
            exact = {"min": min, "max": max}[op](x, y)
    return _wrap(exact, kind)


def _numbers(kind: dt.DType) -> Any:
    info = np.iinfo(kind.numpy)
    corners = [info.min, info.max, 0, 1, info.max - 1, kind.bits, _wrap(-1, kind)]
    return st.sampled_from(corners) | st.integers(int(info.min), int(info.max))


ARITHMETIC = ["add", "sub", "mul", "floordiv", "mod", "min", "max"]
BITWISE = ["and", "or", "xor", "shl", "shr"]


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("op", ARITHMETIC + BITWISE)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_integer_operations(op: str, kind: dt.DType, data: Any) -> None:
    pairs = data.draw(st.lists(st.tuples(_numbers(kind), _numbers(kind)), min_size=1, max_size=20))
    x, y = (np.array(column, kind.numpy) for column in zip(*pairs, strict=True))
    found = evaluate(lambda a, b: binary(op, a, b), kind, x, y)
    assert found.tolist() == [_integer(op, *pair, kind) for pair in pairs]


@pytest.mark.parametrize("kind", [dt.int32, dt.int64])
def test_most_negative_by_minus_one(kind: dt.DType) -> None:
    low = np.iinfo(kind.numpy).min
    x, y = np.array([low], kind.numpy), np.array([-1], kind.numpy)
    assert evaluate(lambda a, b: binary("floordiv", a, b), kind, x, y)[0] == low
    assert evaluate(lambda a, b: binary("mod", a, b), kind, x, y)[0] == 0
    assert evaluate(lambda a: e.Unary("neg", a), kind, x)[0] == low


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("op", ["min", "max"])
def test_minimum_hands_nan_on(op: Any, kind: dt.DType) -> None:
    x = np.array([np.nan, 1, 2, -np.inf], kind.numpy)
    y = np.array([1, np.nan, 1, np.inf], kind.numpy)
    found = evaluate(lambda a, b: binary(op, a, b), kind, x, y)
    assert np.isnan(found[:2]).all()
    assert found[2:].tolist() == ([1, -np.inf] if op == "min" else [2, np.inf])


def test_comparisons_with_nan() -> None:
    x = np.array([np.nan, 1.0], np.float32)
    for op, expected in {"eq": [0, 1], "ne": [1, 0], "lt": [0, 0], "ge": [0, 1]}.items():
        found = evaluate(lambda a, op=op: e.Cast(compare(op, a, a), dt.int32), dt.int32, x)
        assert found.tolist() == expected


@given(
    st.lists(st.floats(width=32, allow_nan=True), min_size=1, max_size=20),
    st.sampled_from(INTEGERS),
)
@settings(max_examples=60, deadline=None)
def test_float_to_integer_saturates(values: list[float], kind: dt.DType) -> None:
    info = np.iinfo(kind.numpy)

    def exact(x: float) -> int:
        if np.isnan(x):
            return 0
        return int(info.min if x <= info.min else info.max if x >= info.max else int(x))

    for source in (np.float32, np.float64):
        found = evaluate(lambda a: e.Cast(a, kind), kind, np.array(values, source))
        assert found.tolist() == [exact(x) for x in values]


def test_half_infinity_to_integer_saturates() -> None:
    x = np.array([np.inf, -np.inf, 65504, np.nan], np.float16)
    found = evaluate(lambda a: e.Cast(a, dt.int32), dt.int32, x)
    assert found.tolist() == [2**31 - 1, -(2**31), 65504, 0]


@given(st.lists(st.floats(width=32), min_size=1, max_size=20))
@settings(max_examples=60, deadline=None)
def test_storing_half_rounds_once(values: list[float]) -> None:
    x = np.array(values, np.float32)
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16)
    found = evaluate(lambda a: a, dt.float16, x)
    np.testing.assert_array_equal(found, expected)
    again = evaluate(lambda a: e.Cast(a, dt.float32, dt.float16), dt.float32, x)
    np.testing.assert_array_equal(again, expected.astype(np.float32))


def test_half_subnormals_and_ties() -> None:
    x = np.array([2.0**-24, 2.0**-25, 2.0**-25 * 1.0001, 2049.0, 2051.0], np.float32)
    found = evaluate(lambda a: a, dt.float16, x)
    assert found.astype(float).tolist() == [2.0**-24, 0.0, 2.0**-24, 2048.0, 2052.0]


@pytest.mark.parametrize("storage", [dt.int8, dt.uint8, dt.int16, dt.uint16])
def test_narrowing_wraps(storage: dt.DType) -> None:
    x = np.array([0, 127, 128, 255, 256, -1, 40000, -40000, 2**31 - 1], np.int32)
    expected = [_wrap(v, storage) for v in x.tolist()]
    assert evaluate(lambda a: a, storage, x).tolist() == expected
    cast = evaluate(lambda a: e.Cast(a, dt.int32, storage), dt.int32, x)
    assert cast.tolist() == expected


def test_casts_to_and_from_bool() -> None:
    x = np.array([0.0, -0.0, np.nan, 1e-30], np.float32)
    found = evaluate(lambda a: e.Cast(e.Cast(a, dt.bool_), dt.int32), dt.int32, x)
    assert found.tolist() == [0, 0, 1, 1]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
@settings(max_examples=40, deadline=None)
def test_integer_to_float_rounds_to_even(values: list[int]) -> None:
    found = evaluate(lambda a: e.Cast(a, dt.float64), dt.float64, np.array(values, np.int64))
    assert found.tolist() == [float(v) for v in values]


def test_bitcast_and_population_count() -> None:
    x = np.array([1.0, -2.0, np.inf], np.float32)
    found = evaluate(lambda a: e.Bitcast(a, dt.uint32), dt.uint32, x)
    assert found.tolist() == x.view(np.uint32).tolist()
    n = np.array([-1, 0, 5], np.int32)
    found = evaluate(lambda a: e.Call("popcount", (a,), dt.int32), dt.int32, n)
    assert found.tolist() == [32, 0, 2]


def test_vectors_work_lane_by_lane() -> None:
    x = np.array([3, -4], np.int32)
    four = Vector(dt.int32, 4)

    def make(a: Any) -> Any:
        made = e.MakeVector((a, e.Const(2, dt.int32), a, e.Const(7, dt.int32)), four)
        total = binary("mul", made, e.Splat(a, four))
        chosen = e.Select(e.Compare("gt", total, made), total, made)
        whole = e.Select(compare("lt", a, 0), made, chosen)
        return binary("sub", e.Lane(whole, 0), e.Lane(whole, 3))

    assert evaluate(make, dt.int32, x).tolist() == [9 - 21, -4 - 7]


# -- the fused multiply-add of doubles ------------------------------------------------------------


def _fused(x: float, y: float, z: float) -> float:
    """By Python's exact fractions; what is not finite by NumPy, which rounds twice at most."""
    if not np.isfinite([x, y, z]).all():
        return float(np.float64(x) * np.float64(y) + np.float64(z))
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if not exact:
        return x * y + z
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


_EXTREMES = st.sampled_from([0.0, -0.0, 1 + 2**-52, 5e-324, -(2.0**-1022), 1.7e308, math.inf])
_NEAR_ONE = st.integers(-3, 3).map(lambda n: 1 + n * 2.0**-52)
_ANY = st.one_of(st.floats(), _EXTREMES, _NEAR_ONE)


@given(st.lists(st.tuples(_ANY, _ANY, _ANY), min_size=1, max_size=20), st.booleans())
@settings(max_examples=150, deadline=None)
def test_doubles_are_multiplied_and_added_in_one_rounding(
    triples: list[tuple[float, float, float]], cancels: bool
) -> None:
    with np.errstate(all="ignore"):
        x, y, z = np.array(triples).T.copy()
        z = -(x * y) if cancels else z
        wanted = [_fused(*map(float, triple)) for triple in zip(x, y, z, strict=True)]
        found = FUNCTIONS["fma"].numpy(x, y, z)
    np.testing.assert_array_equal(found, wanted)
    numbers = ~np.isnan(found)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(wanted)[numbers])
