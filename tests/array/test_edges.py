"""What the standard says of the edges: no elements, ends of ranges, forbidden conversions."""

from __future__ import annotations

import array
import math
import warnings
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

import portable
import portable.array as xp
from portable.backend import Device
from portable.errors import DTypeError, ShapeError
from portable.primitives.base.operands import KINDS

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def same(found: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    got = portable.to_numpy(found)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_by_the_width_and_further(ours: Device, dtype: str) -> None:
    if not ours.interprets and dtype not in ("int8", "uint32", "int64"):
        pytest.skip("dtypes alike to the compiler")
    shifts = np.array([0, 1, 6, 7, 8, 15, 16, 31, 32, 63, 64, 127], dtype)
    first = np.array([1, -1, -100, 77, 3], np.int64).astype(dtype)
    a, b = (m.reshape(-1).copy() for m in np.meshgrid(first, shifts))
    x, y = ours.from_numpy(a), ours.from_numpy(b)
    same(x << y, a << b)
    same(x >> y, a >> b)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_divisions_near_powers_of_two(ours: Device, dtype: str) -> None:
    if not ours.interprets and dtype not in ("int8", "uint32", "int32", "int64"):
        pytest.skip("dtypes alike to the compiler")
    limits = np.iinfo(dtype)
    near = {side * (1 << p) + d for p in range(limits.bits) for side in (1, -1) for d in (-1, 0, 1)}
    numbers = sorted(n for n in near | {0, 3, 10**9 + 7} if limits.min <= n <= limits.max)
    a, b = (m.reshape(-1).copy() for m in np.meshgrid(*[np.array(numbers, dtype)] * 2))
    x, y = ours.from_numpy(a), ours.from_numpy(b)
    with np.errstate(all="ignore"):
        same(x // y, a // b)
        same(x % y, a % b)
        same(x // 3, a // 3)


@pytest.mark.parametrize("towards", [-2.0, 0.0, 1e-7, 65504.0, math.inf, -math.inf, math.nan])
def test_neighbours_in_half_precision(ours: Device, towards: float) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        expected = np.nextafter(halves, np.float16(towards))
    same(xp.nextafter(ours.from_numpy(halves), towards), expected)


# -- conversions ------------------------------------------------------------------------------


def test_python_numbers_out_of_range(simulated: Device) -> None:
    def made(obj: Any, dtype: Any) -> Any:
        return xp.asarray(obj, dtype=dtype, device=simulated)

    for obj, dtype in (([300], xp.int8), (-1, xp.uint8), ([[2**63]], xp.int64)):
        with pytest.raises(OverflowError):
            made(obj, dtype)
    with pytest.raises(OverflowError, match="300 is out of range for int8"):
        made([1], xp.int8) + 300
    for count in (2, 0):
        with pytest.raises(OverflowError, match="out of range for int64"):
            xp.full(count, 2**64, device=simulated)
    same(made([2**64 - 1, 1], xp.uint64), np.array([2**64 - 1, 1], np.uint64))
    same(made([1], xp.float32) + 1e300, np.array([math.inf], np.float32))


def test_integers_beyond_64_bits(simulated: Device) -> None:
    def made(obj: Any, dtype: Any = None) -> Any:
        return xp.asarray(obj, dtype=dtype, device=simulated)

    same(made([2**64, 1], xp.float32), np.array([2.0**64, 1], np.float32))
    same(made(10**30, xp.complex128), np.array(1e30 + 0j))
    same(made([[2**64], [0.5]]), np.array([[2.0**64], [0.5]]))
    for obj, dtype in ((2**64, None), ([1, -(2**63) - 1], None), ([2**64], xp.uint64)):
        with pytest.raises(OverflowError):
            made(obj, dtype)
    with pytest.raises(DTypeError, match="None, which is no number"):
        made([1, None], xp.float64)


def test_indices_that_do_not_broadcast(simulated: Device) -> None:
    x = xp.ones((4, 5), device=simulated)
    two, three = (xp.asarray([1] * n, device=simulated) for n in (2, 3))
    with pytest.raises(IndexError, match="cannot be broadcast"):
        x[two, three]
    with pytest.raises(IndexError, match="cannot be broadcast"):
        x[two, three] = 1.0


def test_repeated_elements_are_not_written(simulated: Device) -> None:
    x = xp.zeros((1, 3), device=simulated)
    wide = xp.broadcast_to(x, (2, 3))
    mask = xp.asarray([True, False], device=simulated)
    for key in (..., mask, xp.asarray([0, 1], device=simulated)):
        with pytest.raises(ValueError, match="repeats elements"):
            wide[key] = 1.0
    with pytest.raises(ValueError, match="repeats elements"):
        wide += 1.0
    same(x, np.zeros((1, 3)))
    wide[0, :] = 2.0
    xp.expand_dims(x, axis=0)[...] += 1.0
    wide[:0, ...] = 5.0
    same(wide, np.full((2, 3), 3.0))


def test_indices_of_one_bool(simulated: Device) -> None:
    host = np.arange(6).reshape(2, 3)
    x = simulated.from_numpy(host)
    for key in (True, False, np.True_, np.False_):
        same(x[key], host[key])
    x[np.True_] = 7
    same(x, np.full((2, 3), 7))
    with pytest.raises(IndexError, match="stands alone"):
        x[True, 0]


def test_conversion_on_the_way_to_another_device(simulated: Device) -> None:
    x = xp.asarray([1.5, -2.5], device=simulated)
    found = xp.astype(x, xp.int32, device="simulator")
    assert isinstance(found, np.ndarray)
    same(found, np.array([1, -2], np.int32))
    assert xp.astype(x, xp.float64, copy=False, device=simulated) is x


def test_tolerances_of_numpy(simulated: Device) -> None:
    x = xp.asarray([[1.0, 0.0], [0.0, 1e-9]], device=simulated)
    for rtol in (1e-6, np.float64(1e-6), np.float32(1e-6), xp.asarray(1e-6, device=simulated)):
        same(xp.linalg.pinv(x, rtol=rtol), np.array([[1.0, 0.0], [0.0, 0.0]]))


def test_numbers_are_formatted(simulated: Device) -> None:
    x = xp.asarray([1.25, 2.0], device=simulated)
    assert f"{x[0]:.1f}" == "1.2"
    assert f"{x}" == str(x)
    with pytest.raises(TypeError, match="format"):
        f"{x:.1f}"


def test_complex_numbers_do_not_become_real(simulated: Device) -> None:
    x = xp.asarray([1 + 2j, 0], device=simulated)
    for refused in (
        lambda: xp.astype(x, xp.float64),
        lambda: xp.asarray(x, dtype=xp.float64),
        lambda: xp.asarray([1j], dtype=xp.float64, device=simulated),
        lambda: xp.asarray(np.array([1j]), dtype=xp.int8, device=simulated),
        lambda: xp.full(2, 1j, dtype=xp.float32, device=simulated),
        lambda: xp.linspace(0, 1j, 3, dtype=xp.float32, device=simulated),
    ):
        with pytest.raises(DTypeError):
            refused()


@pytest.mark.parametrize("dtype", ["complex64", "float32", "int8"])
def test_bools_of_numbers(ours: Device, dtype: str) -> None:
    a = np.array([0, 1, -0.0, 2])
    x = xp.astype(ours.from_numpy(a), dtype)
    same(xp.astype(x, xp.bool), a != 0)
    if dtype == "complex64":
        parts = ours.from_numpy(np.array([1j, complex(0, math.nan), complex(-0.0, 0)]))
        same(xp.astype(parts, xp.bool), np.array([True, True, False]))


def test_typed_memory_keeps_its_dtype(simulated: Device) -> None:
    for obj, dtype in (
        (bytearray(b"abc"), "uint8"),
        (array.array("f", [1, 2]), "float32"),
        (memoryview(np.ones(2, np.int16)), "int16"),
        ([np.float32(1), np.float32(2)], "float32"),
        ([xp.ones((), dtype=xp.int8, device=simulated)], "int8"),
        (np.float32(1), "float32"),
    ):
        assert xp.asarray(obj, device=simulated).dtype is getattr(xp, dtype), obj


def test_copies_that_cannot_be_left_out(simulated: Device) -> None:
    with pytest.raises(ValueError, match="copy=False"):
        xp.asarray(np.ones(2), copy=False, device=simulated)
    with pytest.raises(BufferError, match="copy=False"):
        xp.from_dlpack(np.ones(2), copy=False, device=simulated)
    with pytest.raises(AttributeError, match="__dlpack__"):
        xp.from_dlpack([1.0], device=simulated)


# -- creation ---------------------------------------------------------------------------------


def test_numbers_of_other_kinds(simulated: Device) -> None:
    """NumPy's scalars and arrays without dimensions where Python numbers are expected."""
    half = xp.asarray(0.5, dtype=xp.float32, device=simulated)
    same(xp.full(2, half, device=simulated), np.full(2, 0.5, np.float32))
    same(xp.full(2, np.int8(3), device=simulated), np.full(2, 3, np.int8))
    same(xp.full(2, np.bool_(True), device=simulated), np.array([True, True]))
    same(xp.arange(np.float32(0.5), device=simulated), np.array([0.0]))
    same(xp.arange(half, 3, device=simulated), np.array([0.5, 1.5, 2.5]))
    same(xp.linspace(half, np.float32(1.5), 3, device=simulated), np.array([0.5, 1, 1.5]))


def test_counting_at_the_ends_of_the_range(simulated: Device) -> None:
    for ends, dtype in (
        ((2**63 - 3, 2**63 - 1), "int64"),
        ((2**64 - 3, 2**64 - 1), "uint64"),
        ((2**64 - 1, 2**64 - 4, -1), "uint64"),
        ((255, 250, -2), "uint8"),
        ((-128, 127, 100), "int8"),
    ):
        found = xp.arange(*ends, dtype=getattr(xp, dtype), device=simulated)
        same(found, np.array(range(*ends), dtype))


def test_even_spacing(simulated: Device) -> None:
    for ends, num, dtype in (
        ((0, 10), 5, "int32"),
        ((-10, 0), 5, "int16"),
        ((0, 2**62), 3, "int64"),
        ((0, 1 + 1j), 3, "complex64"),
    ):
        found = xp.linspace(*ends, num, dtype=getattr(xp, dtype), device=simulated)
        same(found, np.linspace(*ends, num, dtype=dtype))
    huge = np.finfo(np.float64).max
    found = portable.to_numpy(xp.linspace(-huge, huge, 5, device=simulated))
    np.testing.assert_allclose(found / huge, [-1, -0.5, 0, 0.5, 1], atol=1e-15)


@pytest.mark.parametrize("k", [2**70, -(2**70), 3, -3])
def test_diagonals_far_outside(simulated: Device, k: int) -> None:
    a = np.ones((2, 3))
    x = simulated.from_numpy(a)
    near = max(min(k, 5), -5)
    same(xp.eye(2, 3, k=k, device=simulated), np.eye(2, 3, near))
    same(xp.tril(x, k=k), np.tril(a, near))
    same(xp.triu(x, k=k), np.triu(a, near))


def test_a_grid_is_of_vectors(simulated: Device) -> None:
    with pytest.raises(ShapeError, match="vectors"):
        xp.meshgrid(xp.ones((1, 2), device=simulated))


# -- no elements ------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 0, 3)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_norms_of_nothing(simulated: Device, shape: tuple[int, ...], dtype: str) -> None:
    x = xp.zeros(shape, dtype=getattr(xp, dtype), device=simulated)
    real = x.dtype.real.name
    for order in ("fro", "nuc", 1, 2, math.inf):
        same(xp.linalg.matrix_norm(x, ord=order), np.zeros(shape[:-2], real))
    for order in (0, 1, 2, 3, math.inf):
        same(xp.linalg.vector_norm(x, ord=order), np.zeros((), real))
    with pytest.raises(ValueError, match="of no elements"):
        xp.linalg.vector_norm(x, ord=-math.inf)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_means_of_nothing(simulated: Device, dtype: str) -> None:
    host = np.zeros((2, 0), dtype)
    for axis in (None, 1):
        with warnings.catch_warnings(action="ignore"):
            expected = np.mean(host, axis=axis)
        found = portable.to_numpy(xp.mean(simulated.from_numpy(host), axis=axis))
        for part in ("real", "imag"):
            same(getattr(found, part), getattr(expected, part))


def test_transforms_of_nothing(simulated: Device) -> None:
    x = xp.zeros((2, 0), dtype=xp.complex64, device=simulated)
    same(xp.fft.irfft(x, n=3), np.zeros((2, 3), np.float32))
    same(xp.fft.fft(x, n=3), np.zeros((2, 3), np.complex64))


def test_differences_taken_less_than_no_time(simulated: Device) -> None:
    with pytest.raises(ValueError, match="-1 times"):
        xp.diff(xp.ones(3, device=simulated), n=-1)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0), (0, 0)], ids=str)
def test_masks_of_nothing(simulated: Device, shape: tuple[int, ...]) -> None:
    a = np.arange(6.0).reshape(2, 3)
    x = simulated.from_numpy(a)
    mask = xp.zeros(shape, dtype=xp.bool, device=simulated)
    same(x[mask], np.zeros((0, *a.shape[mask.ndim :])))
    x[mask] = 9
    x[mask] = x[mask]
    same(x, a)
    with pytest.raises(IndexError, match="mask of shape"):
        x[xp.zeros((3, 0), dtype=xp.bool, device=simulated)]


def test_what_the_namespace_says_of_itself(ours: Device) -> None:
    info = xp.__array_namespace_info__()
    assert info.default_device() in info.devices()
    limit = info.capabilities()["max dimensions"]
    assert repr(xp.ones((1,) * limit, device=ours))
    floats = info.dtypes(device=ours, kind=("real floating", "complex floating"))
    assert set(floats) <= {"float32", "float64", "complex64", "complex128"}
    for kind in (None, *KINDS):
        for name, dtype in info.dtypes(device=ours, kind=kind).items():
            assert dtype is getattr(xp, name)
            assert xp.empty(1, dtype=dtype, device=ours).dtype is dtype
    assert set(info.default_dtypes(device=ours)) == {
        "real floating", "complex floating", "integral", "indexing",
    }  # fmt: skip


@pytest.mark.parametrize("dtype", INTEGERS)
def test_repetitions_of_every_dtype(simulated: Device, dtype: str) -> None:
    x = simulated.from_numpy(np.arange(3))
    same(xp.repeat(x, simulated.from_numpy(np.array([2, 0, 1], dtype))), np.array([0, 0, 2]))


def test_nothing_is_warned_of(simulated: Device) -> None:
    x = xp.asarray([[1e300, 1.0], [1.0, 1e300]], device=simulated)
    with warnings.catch_warnings(action="error"):
        assert xp.isinf(xp.linalg.det(x))
        xp.linalg.pinv(x, rtol=1e308)


def test_repetitions_that_make_no_sense(simulated: Device) -> None:
    x = xp.ones(3, device=simulated)
    for counts in (-1, xp.asarray([1, -2, 1], device=simulated)):
        with pytest.raises(ValueError, match=r"repeat of elements -\d times"):
            xp.repeat(x, counts)
    with pytest.raises(ValueError, match="negative repetitions"):
        xp.tile(x, (-1,))
    for shape in ((2,), (1, 3)):
        with pytest.raises(ShapeError, match="for 3 elements"):
            xp.repeat(x, xp.ones(shape, dtype=xp.int8, device=simulated))
    with pytest.raises(TypeError):
        xp.repeat(x, 1.5)
    with pytest.raises(DTypeError, match="integers"):
        xp.repeat(x, x)
    same(xp.repeat(x, xp.asarray([2], device=simulated)), np.ones(6))


# -- what is no array -------------------------------------------------------------------------

OF_ARRAYS = [
    "all", "argmax", "argsort", "broadcast_arrays", "count_nonzero", "cumulative_sum", "diff",
    "expand_dims", "fft.fft", "fft.fftshift", "fft.ifftshift", "flip",
    "linalg.det", "linalg.diagonal", "linalg.matrix_norm", "linalg.qr",
    "linalg.svdvals", "linalg.trace", "linalg.vector_norm", "matrix_transpose", "mean", "meshgrid",
    "nonzero", "ones_like", "sort", "sum", "tril", "triu", "unique_all", "unstack", "var",
    "zeros_like", "empty_like",
]  # fmt: skip
WITH_MORE: list[tuple[str, tuple[Any, ...]]] = [
    ("astype", ("int8",)), ("broadcast_to", ((3, 3),)), ("full_like", (1,)), ("moveaxis", (0, 1)),
    ("linalg.matrix_power", (2,)), ("permute_dims", ((0, 1),)), ("repeat", (2,)), ("roll", (1,)),
    ("reshape", ((4,),)), ("squeeze", (0,)), ("tile", ((1,),)),
]  # fmt: skip


@pytest.mark.parametrize("thing", [None, "abc", [1.0], 2.5, np.ones((2, 2))], ids=repr)
def test_what_is_no_array(simulated: Device, thing: Any) -> None:
    x = xp.ones((2, 2), device=simulated)
    for name, more in [*((name, ()) for name in OF_ARRAYS), *WITH_MORE]:
        with pytest.raises(TypeError, match=f"{name.split('.')[-1]} (takes|needs)"):
            attrgetter(name)(xp)(thing, *more)
    for name in ("matmul", "tensordot", "vecdot", "linalg.outer", "linalg.cross"):
        with pytest.raises(TypeError, match=f"{name.split('.')[-1]} (takes|needs)"):
            attrgetter(name)(xp)(thing, thing)
    for name in ("take", "take_along_axis", "broadcast_arrays"):
        with pytest.raises(TypeError, match=f"{name} takes arrays"):
            getattr(xp, name)(x, thing)
    if not isinstance(thing, list | float):  # which are looked for
        with pytest.raises(TypeError, match="searchsorted takes arrays"):
            xp.searchsorted(x[0, :], thing)
    for name in ("concat", "stack"):
        with pytest.raises(TypeError, match=f"{name} takes arrays"):
            getattr(xp, name)([x, thing])


# -- reductions along an axis between others -----------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 5, 21), (4, 9, 5), (2, 3, 300, 18), (6, 700, 19)])
def test_reductions_along_an_axis_between_others(ours: Device, shape: tuple[int, ...]) -> None:
    """Rows of neighbours that are not whole vectors: the last one meets the one before."""
    a = np.random.default_rng(0).integers(-99, 99, shape).astype(np.float32)
    x, axis = ours.from_numpy(a), len(shape) - 2
    for name in ("sum", "max", "argmin"):
        found = portable.to_numpy(getattr(xp, name)(x, axis=axis))
        np.testing.assert_array_equal(found, getattr(np, name)(a, axis=axis), name)
    found = portable.to_numpy(xp.var(x, axis=axis))
    np.testing.assert_allclose(found, a.var(axis=axis, dtype=np.float64), rtol=1e-5)
