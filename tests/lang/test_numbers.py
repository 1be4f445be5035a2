"""Types, promotion, conversions, and the corner cases of integers and floats."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import dtypes
from portable import lang as kl
from portable.backend import Device
from tests.support.launch import run

REAL = [d for d in dtypes.ALL if not d.is_complex]
INTEGERS = [d for d in REAL if d.is_integer]
FLOATS = [d for d in REAL if d.is_float]


def corners(dtype: dtypes.DType, seed: int = 1) -> np.ndarray[Any, Any]:
    """Extreme and ordinary values of a type."""
    generator = np.random.default_rng(seed)
    if dtype.kind == "b":
        return np.array([False, True] * 16)
    if dtype.is_float:
        halves = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5]
        usual = np.array([*halves, 127.9, -128.9, 255.5, 256, 3e4, -3e4])
        big = np.array([1e9, -1e9, 2.0**31, 2.0**32, 2.0**63, -(2.0**63), 2.0**64, 1e30, -1e30])
        special = np.array([np.inf, -np.inf, np.nan])
        with np.errstate(over="ignore"):
            return np.concatenate([usual, big, special, generator.normal(0, 100, 20)]).astype(
                dtype.numpy
            )
    info = np.iinfo(dtype.numpy)
    edge = np.array([info.min, info.min + 1, 0, 1, 2, info.max - 1, info.max], dtype.numpy)
    return np.concatenate([edge, generator.integers(info.min, info.max, 25, dtype.numpy)])


# -- conversions ------------------------------------------------------------------------------


@pt.kernel
def cast_all(x, b, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64):
    i = kl.global_id(0)
    if i < x.shape[0]:
        v = x[i]
        b[i] = kl.bool_(v)
        i8[i] = kl.i8(v)
        i16[i] = kl.i16(v)
        i32[i] = kl.i32(v)
        i64[i] = kl.i64(v)
        u8[i] = kl.u8(v)
        u16[i] = kl.u16(v)
        u32[i] = kl.cast(v, kl.u32)
        u64[i] = kl.cast(v, "uint64")
        f16[i] = kl.f16(v)
        f32[i] = kl.f32(v)
        f64[i] = kl.f64(v)


def _saturated(x: np.ndarray[Any, Any], dtype: dtypes.DType) -> np.ndarray[Any, Any]:
    """Truncated toward zero and kept in range; exact, through Python's integers."""
    info = np.iinfo(dtype.numpy)
    whole = [0 if np.isnan(v) else np.clip(v, -1e25, 1e25) for v in x.astype(np.float64)]
    return np.array([min(max(int(v), info.min), info.max) for v in whole], dtype.numpy)


def converted(x: np.ndarray[Any, Any], dtype: dtypes.DType) -> np.ndarray[Any, Any]:
    """What the language says a conversion gives."""
    if dtype.is_integer and x.dtype.kind == "f":
        return _saturated(x, dtype)
    if dtype is dtypes.float16:
        x = x.astype(np.float32)
    with np.errstate(over="ignore"):
        return x.astype(dtype.numpy)


@pytest.mark.needs_float64
@pytest.mark.parametrize("source", REAL, ids=repr)
def test_conversions_between_all_types(device: Device, source: dtypes.DType) -> None:
    x = corners(source)
    outs = [np.zeros(len(x), d.numpy) for d in REAL]
    _, *found = run(device, cast_all[len(x), 32], x, *outs)
    for dtype, out in zip(REAL, found, strict=True):
        np.testing.assert_array_equal(out, converted(x, dtype), err_msg=repr(dtype))


@pt.kernel
def narrowed_vectors(x, i8, u8, i16, u16, out):
    i = kl.global_id(0)
    for narrow in (i8, u8, i16, u16):
        kl.vstore(narrow, i, 0, kl.cast(kl.vload(x, i, 0, lanes=4), narrow.dtype))
    if i == 0:
        out[0] = kl.i8(300.0)
        out[1] = kl.u8(-0.5)
        out[2] = kl.i16(-1e9)
        out[3] = kl.u16(70000.0)
        out[4] = kl.i8(300)


def test_floats_saturate_in_narrow_integers(device: Device) -> None:
    x = corners(dtypes.float32)[:44].reshape(-1, 4)
    kinds = [dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16]
    outs = [np.zeros_like(x, kind.numpy) for kind in kinds]
    launcher = narrowed_vectors[len(x), 1]
    _, *found, constants = run(device, launcher, x, *outs, np.zeros(5, np.int32))
    for kind, out in zip(kinds, found, strict=True):
        np.testing.assert_array_equal(out.ravel(), converted(x.ravel(), kind), err_msg=repr(kind))
    assert constants.tolist() == [127, 0, -(2**15), 2**16 - 1, 44]


@pt.kernel
def same_bits(x, bits, back):
    i = kl.global_id(0)
    if i < x.shape[0]:
        bits[i] = kl.bitcast(x[i], bits.dtype)
        back[i] = kl.bitcast(bits[i], x.dtype)


@pt.kernel
def ends(x, out):
    out[0] = np.finfo(x.dtype).max
    out[1] = np.finfo(np.float32).eps
    out[2] = np.iinfo(np.int16).min


def test_the_ends_of_types_are_constants(device: Device) -> None:
    x, out = (device.from_numpy(np.zeros(n, np.float32)) for n in (1, 3))
    ends[1](x, out)
    expected = np.float32([np.finfo(np.float32).max, np.finfo(np.float32).eps, -(2**15)])
    assert (device.to_numpy(out) == expected).all()


@pt.kernel
def named_type(x, out):
    if x.dtype == np.int32:
        out[0] = 1
    elif x.dtype == "float32":
        out[0] = 2
    else:
        out[0] = 3


def test_dtypes_equal_those_of_numpy(device: Device) -> None:
    found = []
    for kind in ("int32", "float32", "int16"):
        x, out = device.from_numpy(np.zeros(2, kind)), device.from_numpy(np.zeros(1, np.int32))
        named_type[1](x, out)
        found.append(int(device.to_numpy(out)[0]))
    assert found == [1, 2, 3]
    assert dtypes.float32 == np.float32 == dtypes.float32 != np.dtype("float64")
    # What NumPy does not even parse as a dtype is none, and no error.
    assert dtypes.float32 not in ("float64", "no type", "a, - 1 of 2", "1a,(", None, object, 4)
    assert dtypes.named_in_kernels("i8") is dtypes.int8  # as kl.i8, where NumPy says int64


@pytest.mark.parametrize(("real", "integer"), [("f4", "i4"), ("f4", "u4"), ("f8", "u8")])
def test_the_same_bits_as_another_type(device: Device, real: str, integer: str) -> None:
    x = np.array([0.0, -1.5, 3e20, np.inf], real)
    _, bits, back = run(device, same_bits[4, 4], x, np.zeros(4, integer), np.zeros_like(x))
    np.testing.assert_array_equal(bits, x.view(integer))
    np.testing.assert_array_equal(back, x)


# -- integers -----------------------------------------------------------------------------------


@pt.kernel
def integer_binary(x, y, out):
    i = kl.global_id(0)
    if i < x.shape[0]:
        a, b = x[i], y[i]
        out[0, i] = a + b
        out[1, i] = a - b
        out[2, i] = a * b
        out[3, i] = a // b
        out[4, i] = a % b
        out[5, i] = a & b
        out[6, i] = a | b
        out[7, i] = a ^ b
        out[8, i] = a << b
        out[9, i] = a >> b
        out[10, i] = min(a, b)
        out[11, i] = max(a, b)
        out[12, i] = kl.mulhi(a, b)
        out[13, i] = -a
        out[14, i] = ~a
        out[15, i] = abs(a)
        out[16, i] = kl.popcount(a)
        out[17, i] = kl.clz(a)
        out[18, i] = kl.sign(a)
        out[19, i] = 1 if a < b else 2 if a == b else 3
        out[20, i] = a // 7 + a % 7
        out[21, i] = a // 8 + a % 16
        out[22, i] = kl.cdiv(kl.u32(a & 1023), 7)
        out[23, i] = a**3
        out[24, i] = kl.clip(a, 3, 100)


def _exact(a: int, b: int, dtype: dtypes.DType) -> list[int]:
    width = dtype.bits
    mask = (1 << width) - 1
    signed = dtype.kind == "i"
    quotient, rest = (a // b, a % b) if b else (0, 0)
    shift = b % width
    return [
        a + b, a - b, a * b, quotient, rest, a & b, a | b, a ^ b, a << shift, a >> shift,
        min(a, b), max(a, b), (a * b) >> width, -a, ~a, abs(a), (a & mask).bit_count(),
        width - (a & mask).bit_length(), (a > 0) - (a < 0) if signed else int(a > 0),
        1 if a < b else 2 if a == b else 3, a // 7 + a % 7, a // 8 + a % 16,
        -(-(a & 1023) // 7), a**3, min(max(a, 3), 100),
    ]  # fmt: skip


def _wrapped(x: int, dtype: dtypes.DType) -> int:
    x &= (1 << dtype.bits) - 1
    return x - (1 << dtype.bits) if dtype.kind == "i" and x >> (dtype.bits - 1) else x


@pytest.mark.parametrize("name", ["int32", "uint32", "int64", "uint64"])
def test_integer_arithmetic_is_exact_and_wraps(device: Device, name: str) -> None:
    dtype = dtypes.dtype(name)
    edge = corners(dtype)[:7]
    small = np.array([0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 65], dtype.numpy)
    some = np.concatenate([edge, small, corners(dtype)[7:19]])
    if dtype.kind == "i":
        some = np.concatenate([some, -small])
    pairs = np.array(list(itertools.product(some, repeat=2)), dtype.numpy)
    x, y = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
    out = np.zeros((25, len(x)), dtype.numpy)
    _, _, found = run(device, integer_binary[len(x), 64], x, y, out)
    for i, (a, b) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        expected = [_wrapped(v, dtype) for v in _exact(a, b, dtype)]
        assert found[:, i].tolist() == expected, (a, b)


@pt.kernel
def narrow(x, y, out):
    i = kl.global_id(0)
    if i < x.shape[0]:
        out[i] = x[i] * y[i] + 300
        out[i] += 1


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16"])
def test_narrow_integers_are_computed_wide_and_wrap_when_stored(device: Device, name: str) -> None:
    x, y = corners(dtypes.dtype(name), 1), corners(dtypes.dtype(name), 2)
    _, _, found = run(device, narrow[len(x), 32], x, y, np.zeros_like(x))
    np.testing.assert_array_equal(found, (x.astype(np.int64) * y + 301).astype(name))


@pt.kernel
def promoted(a, b, c, d, e, out):
    """Each operand of a type of its own: i8, u16, i32, u32, f32."""
    out[0] = a[0] + b[0]  # i32 with u32: i64
    out[1] = c[0] * d[0]
    out[2] = kl.i64(c[0]) * d[0]
    out[3] = kl.i64((c[0] / e[0]) * 1000)
    out[4] = 1 if (a[0] + b[0]).dtype == kl.i64 else 0
    out[5] = 1 if (c[0] + e[0]).dtype == kl.f32 else 0
    out[6] = 1 if (c[0] + 1.5).dtype == kl.f32 else 0
    out[7] = 1 if (d[0] + 1).dtype == kl.u32 else 0
    out[8] = kl.i64(c[0] > e[0])


def test_promotion_within_and_between_kinds(device: Device) -> None:
    values = [(-5, "i1"), (60000, "u2"), (-70000, "i4"), (4_000_000_000, "u4"), (8.0, "f4")]
    arrays = [np.array([v], t) for v, t in values]
    *_, found = run(device, promoted[1, 1], *arrays, np.zeros(9, np.int64))
    product = -70000 * 4_000_000_000
    assert found.tolist() == [59995, product, product, -8750000, 1, 1, 1, 1, 0]


@pt.kernel
def bools(x, y, out):
    i = kl.global_id(0)
    if i < x.shape[0]:
        a, b = x[i], y[i]
        out[0, i] = a & b
        out[1, i] = a | b
        out[2, i] = a ^ b
        out[3, i] = not a
        out[4, i] = ~b
        out[5, i] = a == b
        out[6, i] = a != b
        out[7, i] = kl.logical_and(a, b) or kl.logical_xor(a, b)
        out[8, i] = kl.i32(a) + kl.i32(b) > 1
        out[9, i] = True


def test_bools(device: Device) -> None:
    x, y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    _, _, found = run(device, bools[4, 4], x, y, np.zeros((10, 4), bool))
    rows = [x & y, x | y, x ^ y, ~x, ~y, x == y, x != y, x | y, x & y, x | True]
    np.testing.assert_array_equal(found, rows)


# -- weak numbers -------------------------------------------------------------------------------


@pt.kernel
def weak_literals(x, out):
    c = 0.1
    total = 0.0
    for _ in range(3):
        total += c
    out[0] = x[0] + 0.1
    out[1] = x[0] * c
    out[2] = 1 / 3 + x[0]
    out[3] = x[0] + 1e300
    out[4] = kl.sqrt(2.0) * x[0]
    out[5] = total * x[0]
    either = 0.1 if x[0] > 0 else 0.2
    out[6] = either * x[0]


@pytest.mark.needs_float64
def test_literals_are_exact_in_double_precision(device: Device) -> None:
    x = np.array([1.0])
    _, found = run(device, weak_literals[1, 1], x, np.zeros(7))
    expected = [1.1, 0.1, 1 / 3 + 1, 1e300, 2**0.5, 0.0 + 0.1 + 0.1 + 0.1, 0.1]
    np.testing.assert_array_equal(found, expected)


@pt.kernel
def weak_scalars(a, n, x, out):
    out[0] = a * x[0]
    out[1] = (a + 1) * x[0]
    b = a
    if x[0] > 0:
        b = b + a
    out[2] = b * x[0]
    out[3] = n * x[0]
    out[4] = kl.exp2(a * 0) * a


@pytest.mark.needs_float64
def test_python_scalars_are_exact_in_double_precision(device: Device) -> None:
    _, found = run(device, weak_scalars[1, 1], 0.1, 3, np.array([1.0]), np.zeros(5))
    np.testing.assert_array_equal(found, [0.1, 1.1, 0.2, 3.0, 0.1])


def test_python_scalars_take_the_type_of_single_precision_arrays(device: Device) -> None:
    x = np.array([3.0], np.float32)
    _, found = run(device, weak_scalars[1, 1], 0.1, 3, x, np.zeros(5, np.float32))
    assert found[0] == np.float32(0.1) * np.float32(3)


@pt.kernel
def wide_scalars(n, m, out):
    out[0] = n
    out[1] = n + m
    out[2] = n // 1000
    out[3] = out[0] + n


@pytest.mark.parametrize("n", [2**31, -(2**31) - 1, 2**40 + 1, -(2**63), 5])
def test_python_integers_of_more_than_32_bits(device: Device, n: int) -> None:
    (found,) = run(device, wide_scalars[1, 1], n, 7, np.zeros(4, np.int64))
    expected = [n, n + 7, n // 1000, _wrapped(2 * n, dtypes.int64)]
    assert found.tolist() == expected


@pt.kernel
def typed_scalars(a, b, c, d, e, out):
    out[0] = a
    out[1] = kl.i64(b)
    out[2] = c
    out[3] = kl.i64(d)
    out[4] = 7 if e else 8


def test_numpy_scalars_keep_their_type(device: Device) -> None:
    scalars = (np.int8(-3), np.float32(2.5), np.uint32(4e9), np.float16(1.5), np.bool_(True))
    (found,) = run(device, typed_scalars[1, 1], *scalars, np.zeros(5, np.int64))
    assert found.tolist() == [-3, 2, 4_000_000_000, 1, 7]


@pt.kernel
def constants(out, *, A, B, KIND):
    out[0] = A
    out[1] = B
    tile = kl.private(2, KIND)
    tile[0] = 3
    out[2] = tile[0] + kl.cast(1.75, KIND)


@pytest.mark.parametrize("kind", [np.float32, "int32", kl.i16, np.dtype("u4")], ids=str)
def test_constants_of_many_kinds(device: Device, kind: Any) -> None:
    (found,) = run(
        device, constants[1, 1], np.zeros(3, np.float32), A=np.float32(1.5), B=2, KIND=kind
    )
    assert found.tolist() == [1.5, 2, 4.75 if kind is np.float32 else 4]


@pt.kernel
def halved(x, out, *, BY):
    out[0] = x[0] // BY if BY == 2 else x[0]
    out[1] = x[0] * BY


def test_constants_that_are_equal_but_not_the_same(device: Device) -> None:
    launcher = halved[1, 1]
    x = np.array([5], np.int32)
    for by, expected in ((2, [2, 10]), (2.0, [2, 10]), (1, [5, 5]), (1.0, [5, 5])):
        _, found = run(device, launcher, x, np.zeros(2, np.float32), BY=by)
        assert found.tolist() == expected


# -- floats -------------------------------------------------------------------------------------


@pt.kernel(contract=False)
def float_arithmetic(x, y, out):
    i = kl.global_id(0)
    if i < x.shape[0]:
        a, b = x[i], y[i]
        out[0, i] = a + b
        out[1, i] = a - b
        out[2, i] = a * b
        out[3, i] = a * b + a
        out[4, i] = a * b - b * b
        out[5, i] = a / b
        out[6, i] = kl.sqrt(abs(a))
        out[7, i] = kl.minimum(a, b)
        out[8, i] = kl.maximum(a, b)
        out[9, i] = -a
        out[10, i] = 1 if a < b else 0
        out[11, i] = 1 if a != b else 0
        out[12, i] = a // b
        out[13, i] = a % b
        out[14, i] = kl.fma(a, b, a)
        out[15, i] = kl.square(a) + kl.copysign(a, b)


def floats(dtype: Any, n: int = 400) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(7)
    scale = generator.choice([1, 1e-3, 1e3, 1e6], n)
    return (generator.normal(size=n) * scale).astype(dtype)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_float_arithmetic_is_numpys_bit_for_bit(device: Device, name: str) -> None:
    if name == "float64" and not device.capabilities.float64:
        pytest.skip(f"{device.name} lacks double precision")
    x, y = floats(name), floats(name)[::-1].copy()
    _, _, found = run(device, float_arithmetic[400, 64], x, y, np.zeros((16, 400), name))
    from portable.lang.ir.elementwise import FUNCTIONS

    rows = [x + y, x - y, x * y, x * y + x, x * y - y * y, x / y, np.sqrt(abs(x))]
    rows += [np.minimum(x, y), np.maximum(x, y), -x, x < y, x != y, x // y, x % y]
    rows += [FUNCTIONS["fma"].numpy(x, y, x), x * x + np.copysign(x, y)]
    loose = name == "float32" and not device.capabilities.rounded_division32
    for k, row in enumerate(rows):
        if loose and k in (5, 6, 12, 13):
            np.testing.assert_allclose(found[k], row, rtol=1e-6, atol=0.5 if k > 6 else 0)
        else:
            np.testing.assert_array_equal(found[k], row, err_msg=f"row {k}")


def test_special_values(device: Device) -> None:
    some = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan], np.float32)
    x, y = (a.ravel() for a in np.meshgrid(some, some))
    _, _, found = run(device, float_arithmetic[49, 64], x, y, np.zeros((16, 49), np.float32))
    with np.errstate(all="ignore"):
        rows = {0: x + y, 1: x - y, 2: x * y, 5: x / y, 6: np.sqrt(abs(x)), 7: np.minimum(x, y)}
        rows |= {8: np.maximum(x, y), 9: -x, 10: x < y, 11: x != y}
    for k, row in rows.items():
        np.testing.assert_array_equal(found[k], row, err_msg=f"row {k}")
    number = ~np.isnan(x)  # NVIDIA's GPUs leave the sign of a negated NaN as it is
    np.testing.assert_array_equal(np.signbit(found[9])[number], np.signbit(-x)[number])


@pt.kernel(fastmath=True)
def fast(x, out):
    i = kl.global_id(0)
    if i < x.shape[0]:
        out[i] = kl.exp(x[i]) / kl.sqrt(x[i] + 2) + kl.sin(x[i])


def test_fast_mathematics_compiles_and_is_about_right(device: Device) -> None:
    x = np.linspace(-1, 1, 50, dtype=np.float32)
    _, found = run(device, fast[50, 32], x, np.zeros_like(x))
    np.testing.assert_allclose(found, np.exp(x) / np.sqrt(x + 2) + np.sin(x), rtol=1e-4, atol=1e-4)


# -- halves -------------------------------------------------------------------------------------


@pt.kernel
def half_sum(x, out):
    i = kl.global_id(0)
    if i < x.shape[0]:
        out[i] = x[i] * x[i] + x[i]


def test_halves_are_stored_and_singles_computed(device: Device) -> None:
    x = np.concatenate([np.linspace(-300, 300, 97), [6e-8, -6e-8, 1e-5, 65504]]).astype(np.float16)
    _, found = run(device, half_sum[len(x), 32], x, np.zeros_like(x))
    wide = x.astype(np.float32)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, (wide * wide + wide).astype(np.float16))


@pt.kernel(native_half=True, contract=False)
def native(x, out):
    i = kl.global_id(0)
    if i < x.shape[0]:
        out[i] = x[i] * x[i] + x[i] * 0.1


@pytest.mark.needs_native_half
def test_native_halves_round_after_every_operation(device: Device) -> None:
    x = np.linspace(-30, 30, 64).astype(np.float16)
    _, found = run(device, native[64, 32], x, np.zeros_like(x))
    np.testing.assert_array_equal(found, x * x + x * np.float16(0.1))


def test_native_halves_are_refused_where_the_device_has_none(device: Device) -> None:
    if device.capabilities.native_half:
        pytest.skip(f"{device.name} computes in half precision")
    x = np.ones(4, np.float16)
    with pytest.raises(pt.errors.UnsupportedError, match="half precision"):
        run(device, native[4, 4], x, x)


@pt.kernel
def negated_twice(x, out):
    out[0] = -(-x[0])
    out[1] = -(-(-x[0]))
    out[2] = 3 - -x[0]


def test_minus_signs_side_by_side(device: Device) -> None:
    for name in ("int32", "uint32", "int64", "float32"):
        x = np.array([7], name)
        _, found = run(device, negated_twice[1, 1], x, np.zeros(3, name))
        np.testing.assert_array_equal(found, np.array([7, -7, 10]).astype(name))


@pt.kernel
def negative_across_barriers(x, y, out):
    lid = kl.local_id(0)
    tile = kl.local((2, 8), kl.f32)
    v = kl.vload(x, lid, 0, lanes=4)
    minus, scaled, whole = -v[3], v[2] * -1.0, -v
    tile[0, lid] = v[3]
    tile[1, lid] = y[lid]
    kl.barrier()
    before = tile[0, (lid + 3) % 8] + tile[1, lid ^ 5]
    kl.barrier()
    tile[0, lid] = minus
    tile[1, lid] = scaled
    kl.barrier()
    out[0, lid] = tile[0, (lid + 7) % 8]
    out[1, lid] = tile[1, (lid + 7) % 8]
    out[2, lid] = before
    out[3, lid] = whole[1]


def test_negatives_live_on_across_barriers(device: Device) -> None:
    x = (np.arange(32, dtype=np.float32) - 13).reshape(8, 4)
    y = np.arange(8, dtype=np.float32)
    _, _, found = run(device, negative_across_barriers[8, 8], x, y, np.zeros((4, 8), np.float32))
    lid = np.arange(8)
    before = x[(lid + 3) % 8, 3] + y[lid ^ 5]
    rows = [np.roll(-x[:, 3], 1), np.roll(-x[:, 2], 1), before, -x[:, 1]]
    np.testing.assert_array_equal(found, rows)


@pt.kernel
def shifted_about(x, out, n):
    v = x[0]
    w = kl.i32(8)
    for _ in range(n):
        v = v << -31
        w = w << -30
    out[0] = v
    out[1] = w
    out[2] = x[0] >> 33


def test_negative_shifts_are_modulo_the_width(device: Device) -> None:
    _, found = run(device, shifted_about[1, 1], np.array([5], np.int32), np.zeros(3, np.int32), 3)
    assert found.tolist() == [40, 512, 2]


@pt.kernel
def least_of_complements(n, x, y, out):
    i = kl.global_id(0)
    if i < x.shape[0]:
        out[0, i] = kl.minimum(~x[i], y[i])
        out[1, i] = kl.maximum(n[i] - 1 - x[i], y[i])
        out[2, i] = kl.minimum(n[i] - (x[i] + 1), y[i])
        out[3, i] = ~kl.minimum(x[i], y[i])
        out[4, i] = kl.maximum(-(x[i] + 1), y[i])
        rest = n[i] - x[i] - 1
        if y[i] < rest:
            rest = y[i]
        out[5, i] = rest


@pytest.mark.parametrize("workgroup", [1, 8, 16])
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64"])
def test_complements_in_minima(device: Device, dtype: str, workgroup: int) -> None:
    """Intel's compiler loses them, and those that it makes of a difference less one."""
    n, x, y = (corners(dtypes.dtype(dtype), seed) for seed in (1, 2, 3))
    y = y[::-1].copy()
    rows = np.zeros((6, len(x)), dtype)
    launcher = least_of_complements[len(x), workgroup]
    found = run(device, launcher, n, x, y, rows)[-1]
    rest, one = n - x - x.dtype.type(1), x.dtype.type(1)
    expected = [np.minimum(~x, y), np.maximum(rest, y), np.minimum(rest, y)]
    expected += [~np.minimum(x, y), np.maximum(0 - (x + one), y), np.minimum(rest, y)]
    np.testing.assert_array_equal(found, expected)


@pt.kernel
def of_magnitudes(x, out):
    i = kl.global_id(0)
    if i < x.shape[0]:
        out[0, i] = abs(x[i]) // 5
        out[1, i] = abs(x[i]) % 5
        out[2, i] = 1 if abs(x[i]) < 0 else 0


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_the_magnitude_of_the_least_integer_is_negative(device: Device, dtype: str) -> None:
    """NVIDIA's assembler holds magnitudes to be positive."""
    x = corners(dtypes.dtype(dtype))
    _, found = run(device, of_magnitudes[len(x), 16], x, np.zeros((3, len(x)), dtype))
    magnitudes = np.abs(x)
    assert magnitudes.min() < 0
    np.testing.assert_array_equal(found, [magnitudes // 5, magnitudes % 5, magnitudes < 0])
