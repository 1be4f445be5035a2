"""Fused functions give what their steps give one by one, for arrays of every library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable
import portable.array as xp
from portable.array.fusion.traced import Trace
from portable.backend import Device
from portable.errors import DTypeError, LaunchError, ShapeError, UnsupportedError

RNG = np.random.default_rng(0)
A = RNG.standard_normal((17, 35)).astype(np.float32)
ROW = RNG.standard_normal(35).astype(np.float32)


@portable.fuse
def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(0.7978846 * (x + 0.044715 * x * x * x)))


@portable.fuse
def momentum(w: Any, g: Any, rate: float, decay: float) -> Any:
    space = w.__array_namespace__()
    clipped = space.clip(space.where(g > 0, g, 0.0), max=1.5)
    kept = clipped * (1 - decay)
    return w - rate * kept, space.astype(g > 0, space.int8)


def close(found: Any, expected: Any) -> None:
    got = portable.to_numpy(found)
    expected = np.asarray(expected)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_a_chain_on_arrays_of_any_library(device: Device) -> None:
    with portable.use(device):
        x = device.from_numpy(A)
        found = gelu(x)
        assert type(found) is type(x)
        close(found, 0.5 * A * (1 + np.tanh(0.7978846 * (A + 0.044715 * A**3))))


def test_broadcasting_views_numbers_and_several_results(device: Device) -> None:
    with portable.use(device):
        x, row = device.from_numpy(A), device.from_numpy(ROW)
        for rate in (0.1, 0.3):
            for view in (np.s_[:], np.s_[::-2, ::3], np.s_[3], np.s_[:0]):
                line = row[::3] if view == np.s_[::-2, ::3] else row
                g = portable.to_numpy(line)
                first, second = momentum(x[view], line, rate, np.float64(0.5))
                kept = np.minimum(np.where(g > 0, g, 0), 1.5) * np.float32(0.5)
                expected = A[view] - np.float32(rate) * kept
                close(first, expected.astype(np.float32))
                close(second, np.broadcast_to(g > 0, expected.shape).astype(np.int8))


FACTOR = 2.0


@portable.fuse
def scaled(x: Any, shift: float) -> Any:
    return FACTOR * x + shift, x - shift


def test_calls_that_are_recognised_look_at_all_that_may_change(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    with portable.use(device):
        kept = []
        for turn in range(24):
            monkeypatch.setattr("tests.array.test_fuse.FACTOR", 2.0 + turn // 12)
            host = A[: 4 + turn % 2] if turn % 6 else A[:4].astype(np.int16)
            x = device.from_numpy(host)
            first, second = scaled(x[:, ::-1] if turn % 5 == 4 else x, float(turn))
            turned = host[:, ::-1] if turn % 5 == 4 else host
            kept.append((first, ((2 + turn // 12) * turned + turn).astype(np.float32)))
            kept.append((second, (turned - turn).astype(np.float32)))
        for found, expected in kept:  # none of which was written again
            np.testing.assert_allclose(portable.to_numpy(found), expected, rtol=1e-5, atol=1e-6)


def test_calls_are_not_counted_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portable.array.fuse._MAX_PLANS", 4)
    for turn in range(9):
        monkeypatch.setattr("tests.array.test_fuse.FACTOR", 3.0 + turn)
        first, _ = scaled(A[:2], 1.0)
        close(first, (3 + turn) * A[:2] + np.float32(1))
    assert len(scaled._counts) <= 4


def test_one_kernel_and_no_step_twice() -> None:
    trace = Trace(portable.device("simulator"))
    x = trace.array(portable.float32, (5,))
    y = (x + 1) * (x + 1) + xp.exp(x + 1)
    assert y.dtype is portable.float32
    assert len(trace.steps) == 4


NARROW = {
    "wrap": lambda x, y: x + y + y,
    "shift": lambda x, y: (x * y) >> 2,
    "divide": lambda x, y: (x + y) // (y | 1),
    "invert": lambda x, y: ~(x - y),
    "compare": lambda x, y: (x + y) < x,
}


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint64"])
def test_integers_wrap_at_every_step(ours: Device, name: str, dtype: str) -> None:
    if not ours.interprets and dtype not in ("int8", "uint16"):
        pytest.skip("dtypes alike to the compiler")
    info = np.iinfo(dtype)
    a = np.array([info.max, info.min, 1, 7, info.max - 3], dtype)
    x, y = ours.from_numpy(a), ours.from_numpy(a[::-1].copy())
    one_by_one = NARROW[name](x, y)
    found = portable.fuse(NARROW[name])(x, y)
    assert found.dtype is one_by_one.dtype
    np.testing.assert_array_equal(portable.to_numpy(found), portable.to_numpy(one_by_one))


def test_complex_numbers_and_their_parts(ours: Device) -> None:
    z = (A + 1j * A[::-1]).astype(np.complex64)
    found = portable.fuse(lambda x: xp.real(x * xp.conj(x)) + xp.imag(x) * 2)(ours.from_numpy(z))
    close(found, (z * z.conj()).real + z.imag * 2)


def test_complex_constants(ours: Device) -> None:
    z = (A + 1j * A[::-1]).astype(np.complex64)
    close(portable.fuse(lambda x: x * 1j + (2 - 3j))(ours.from_numpy(z)), z * 1j + (2 - 3j))
    close(portable.fuse(lambda x: x * 2j)(ours.from_numpy(A)), A * np.complex64(2j))


def test_integers_out_of_range(simulated: Device) -> None:
    x = simulated.from_numpy(np.arange(3, dtype=np.uint8))
    for function in (lambda x: x + 300, lambda x: x > -1):
        with pytest.raises(OverflowError, match="out of range for uint8"):
            portable.fuse(function)(x)
    add = portable.fuse(lambda x, y: x + y)
    assert portable.to_numpy(add(x, 255)).tolist() == [255, 0, 1]
    with pytest.raises(OverflowError, match="256 is out of range for uint8"):
        add(x, 256)


def test_dtypes_promote_as_one_by_one(simulated: Device) -> None:
    for first in ("int8", "uint16", "int32", "float16", "float32", "float64", "bool"):
        for second in ("int16", "float64", "bool"):
            a, b = simulated.from_numpy(np.ones(3, first)), simulated.from_numpy(np.ones(3, second))
            for function in (lambda x, y: x * 2 + y, lambda x, y: xp.maximum(x, y) - True):
                try:
                    expected = function(a, b)
                except DTypeError:
                    with pytest.raises(DTypeError):
                        portable.fuse(function)(a, b)
                    continue
                found = portable.fuse(function)(a, b)
                assert found.dtype is expected.dtype
                close(found, portable.to_numpy(expected))


REDUCTIONS: dict[str, Any] = {
    "a norm": lambda x: np.sqrt(np.sum(x * x)),
    "greatest of rows": lambda x: (x * 2).max(axis=1),
    "means of columns": lambda x: np.mean(x, axis=0),
    "several": lambda x: (x.sum(axis=1, keepdims=True), np.amin(x, axis=1, keepdims=True) - 1),
    "a vote": lambda x: np.any(x > 3) | np.all(x > -9),
    "a count": lambda x: (x > 0).sum(axis=-1),
    "logarithms of sums": lambda x: np.log(np.sum(np.exp(x), axis=1)),
    "a product of integers": lambda x: np.prod(x.astype("int8"), axis=(0, 1)),
}


def test_reductions_at_the_end(device: Device) -> None:
    """In one kernel, on arrays of every library, of rows that divide nothing."""
    a = RNG.standard_normal((33, 71)).astype(np.float32)
    x = portable.xp(device).asarray(a)
    for name, function in REDUCTIONS.items():
        found, expected = portable.fuse(function)(x), function(a)
        several = isinstance(expected, tuple)
        pairs = zip(found, expected, strict=True) if several else [(found, expected)]
        for mine, theirs in pairs:
            assert type(mine) is type(x), name
            assert portable.to_numpy(mine).dtype == theirs.dtype, name
            close(mine, np.asarray(theirs))


def test_reductions_by_a_namespaces_own_functions(ours: Device) -> None:
    space = portable.xp(ours)
    x, above = space.asarray(A), space.asarray(A > 0)
    for name in ("sum", "prod", "max", "min", "mean"):
        found = portable.fuse(lambda v, name=name: getattr(space, name)(v * 0.5, axis=0))(x)
        close(found, getattr(np, name)(A * np.float32(0.5), axis=0))
    close(portable.fuse(lambda v: space.any(v, axis=1, keepdims=True))(x), np.any(A, 1)[:, None])
    close(portable.fuse(space.sum)(above), np.sum(A > 0))
    close(portable.fuse(lambda v: v.sum(0, None, None, True))(x), np.sum(A, 0)[None])
    close(portable.fuse(lambda v: v.max(1, None, True))(x), np.max(A, 1)[:, None])
    close(portable.fuse(lambda v: np.sum(v, 0, None, None, True))(x), np.sum(A, 0)[None])


def test_arguments_by_name(ours: Device) -> None:
    scaled = portable.fuse(lambda x, a=2.0, b=1.0: x * a + b)
    x = ours.from_numpy(A)
    for found in (scaled(x, b=3.0), scaled(x=x, b=3.0), scaled(x, 2.0, 3.0)):
        close(found, A * 2 + 3)
    close(scaled(x), A * 2 + 1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'c'"):
        scaled(x, c=1)
    with pytest.raises(LaunchError, match="takes a by name alone"):
        portable.fuse(lambda x, *, a=2.0: x * a)(x, a=3.0)


@pytest.mark.parametrize("name", ["simulator", "simulator:nvidia-opencl"])
def test_reductions_shared_among_workgroups(name: str) -> None:
    """Merged by the last of them, or by another launch where they see nothing of each other."""
    xp = portable.xp(name)
    a = RNG.random((3, 9001)).astype(np.float32)
    dot = portable.fuse(lambda x, y: (np.sum(x * y, axis=1), np.mean(x - y, axis=1)))
    for _ in range(2):
        total, middle = dot(xp.asarray(a), xp.asarray(a[:1] * 2))
        close(total, (a * a[:1] * 2).sum(1))
        np.testing.assert_allclose(portable.to_numpy(middle), (a - a[:1] * 2).mean(1), rtol=1e-3)


def test_reductions_of_nothing(simulated: Device) -> None:
    x = simulated.from_numpy(A.reshape(-1)[:0])
    assert float(portable.fuse(lambda x: np.sum(x + 1))(x)) == 0
    with pytest.raises(ValueError, match="max of no elements"):
        portable.fuse(lambda x: x.max())(x)
    rows = simulated.from_numpy(np.ones((0, 3), np.float32))
    assert portable.fuse(lambda x: x.sum(axis=1))(rows).shape == (0,)


def test_numpys_where_and_clip(ours: Device) -> None:
    x = ours.from_numpy(A)
    close(portable.fuse(lambda x: np.where(x > 0, x, 0))(x), np.where(A > 0, A, 0))
    close(portable.fuse(lambda x: np.clip(x, -0.5, 0.5))(x), np.clip(A, -0.5, 0.5))
    close(portable.fuse(lambda x: np.round(x.real.astype("float64")))(x), np.round(A.astype(float)))


def test_refusals(ours: Device) -> None:
    x = ours.from_numpy(A)
    other = xp.ones((35,), dtype=xp.float32, device=ours)
    refused: list[tuple[Any, type[Exception], str]] = [
        (lambda v: v if v > 0 else -v, UnsupportedError, r"np\.where\(condition, a, b\)"),
        (lambda v: v[0], UnsupportedError, "indexed"),
        (np.sort, UnsupportedError, "numpy.sort: a fused function computes element by element"),
        (lambda v: np.gcd(v, v), UnsupportedError, r"test_fuse.py:\d+: numpy.gcd"),
        (np.add.accumulate, UnsupportedError, "numpy.add.accumulate"),
        (lambda v: v - v.max(), UnsupportedError, "what is reduced and what is not"),
        (lambda v: (v.sum(), v.sum(0)), UnsupportedError, "beside others"),
        (lambda v: (v, v.sum()), LaunchError, "all of them reduced or none"),
        (lambda v: v.sum(dtype="float64"), UnsupportedError, "sum with dtype"),
        (
            lambda v: [v.sum(), v.max(), v.min(), v.mean(), v.prod()],
            UnsupportedError,
            "more than 4",
        ),
        (xp.var, AttributeError, "x.strides: a fused function computes element by element"),
        (xp.count_nonzero, UnsupportedError, "count_nonzero: a fused"),
        (lambda v: xp.reshape(v, (-1,)), AttributeError, "x.size"),
        (lambda v: v.flatten(), AttributeError, r"test_fuse.py:\d+: x.flatten"),
        (lambda v: v.max(0, None, False, 9), TypeError, "max.. takes from 1 to 4"),
        (
            lambda v: portable.xp("cpu:native").std(v),
            UnsupportedError,
            r"test_fuse.py:\d+: numpy.std",
        ),
        (lambda v: np.max(v, 0, initial=9), UnsupportedError, "max with initial: a fused"),
        (lambda v: v + other, TypeError, "pass arrays as arguments"),
        (lambda v: 3, LaunchError, "returns 3"),
        (lambda v: (v, v, v, v, v), LaunchError, "5 results"),
    ]
    for function, error, words in refused:
        with pytest.raises(error, match=words):
            portable.fuse(function)(x)
    with pytest.raises(TypeError, match="fuse takes a function"):
        portable.fuse("x + y")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="at least one array"):
        gelu(1.0)
    with pytest.raises(ShapeError):
        momentum(x, x[:, :3], 0.1, 0.2)
