"""Operations of every family at small sizes, each checked against NumPy.

A case takes a device and runs on it whatever the device's plan is; the simulator beneath looks for
races, bad indices and endless waits. Sizes are such that, with few compute units, several
workgroups take turns and the last one's part is not whole.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, Final

import numpy as np
import scipy.linalg

import portable
from portable import gf2
from portable.backend import Device, profiles
from portable.linalg import band_to_bidiagonal, bidiagonal_svdvals, gemm, svdvals
from portable.nn import MLP, Adam, fit
from portable_backends.simulator.backend import SimulatorDevice
from tests.linalg.matrices import TOLERANCE as LAPACK_TOLERANCE
from tests.support.lapack import bdsqr

Case = Callable[[Device], None]
CASES: Final[dict[str, Case]] = {}
LONG: Final[set[str]] = set()
"""Cases that take seconds each."""

FEW_UNITS: Final = 2
"""Compute units, so that small sizes have work for more workgroups than run at once."""

TOLERANCE: Final = {"float16": 2e-2, "float32": 2e-5, "float64": 1e-12}


@cache
def few_units(name: str) -> Device:
    """The simulator as the device of a profile would be with two compute units."""
    capabilities = replace(profiles.load(name).capabilities, compute_units=FEW_UNITS)
    return SimulatorDevice(f"{name}-of-few-units", capabilities)


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def several(
    *parameters: Any, long: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A case for each of the parameters, which follow the device."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        for given in parameters:
            values = given if isinstance(given, tuple) else (given,)
            name = "-".join([function.__name__, *map(str, values)])
            if long:
                LONG.add(name)
            CASES[name] = lambda device, values=values: function(device, *values)  # type: ignore[misc]
        return function

    return register


def random(shape: Any, dtype: str = "float32") -> Any:
    found = np.random.default_rng(zlib.crc32(repr(shape).encode())).standard_normal(shape)
    return found.astype(dtype)


def real(device: Device) -> str:
    return "float64" if device.capabilities.float64 else "float32"


def lacks(device: Device, dtype: str) -> bool:
    return dtype in ("float64", "complex128") and not device.capabilities.float64


def close(found: Any, wanted: Any, dtype: str) -> None:
    found = portable.to_numpy(found)
    scale = np.max(np.abs(wanted), initial=0) or 1
    np.testing.assert_allclose(found / scale, wanted / scale, rtol=0, atol=TOLERANCE[dtype])


def equal(found: Any, wanted: Any) -> None:
    np.testing.assert_array_equal(portable.to_numpy(found), wanted)


# -- products -------------------------------------------------------------------------------------


@several(
    ("float16", 33, 29, 47),
    ("float32", 33, 29, 47),
    ("float64", 33, 29, 47),
    ("float32", 1, 40, 9),
    ("float16", 70, 8, 16),
)
@several(
    *[(dtype, 130, 140, 70) for dtype in ("float16", "float32", "float64")],
    ("float16", 256, 128, 200),
    long=True,
)
def products(device: Device, dtype: str, m: int, n: int, k: int) -> None:
    if lacks(device, dtype):
        return
    a, b, bias = random((m, k), dtype), random((k, n), dtype), random((n,), dtype)
    wide = a.astype(float), b.astype(float)
    close(gemm(a, b), wide[0] @ wide[1], dtype)
    if 1 < m < 100 and dtype == "float32":
        transposed = np.ascontiguousarray(b.T).T
        wanted = np.maximum(wide[0] @ wide[1] + bias, 0)
        close(gemm(a, transposed, bias=bias, activation="relu"), wanted, dtype)


@several("float32", "complex64")
def products_of_arrays(device: Device, dtype: str) -> None:
    xp = portable.xp(device)
    a, b = random((3, 9, 11)).astype(dtype), random((11, 6)).astype(dtype)
    found = xp.matmul(xp.asarray(a), xp.asarray(b))
    close(found, a @ b, "float32")
    close(xp.vecdot(xp.asarray(a), xp.asarray(a)), np.vecdot(a, a), "float32")


# -- singular values ------------------------------------------------------------------------------


@several(
    *[(u, "float32", 31) for u in (2, 3, 4, 5, 6)],
    (3, "float64", 31),
    (9, "float16", 31),
    (34, "float32", 38),
)
def bands(device: Device, u: int, dtype: str, n: int) -> None:
    dtype = dtype if not lacks(device, dtype) else "float32"
    ab = random((u + 1, n), dtype)
    a = np.zeros((n, n))
    for k in range(u + 1):
        a += np.diag(ab[u - k, k:].astype(float), k)
    d, e = band_to_bidiagonal(ab)
    room = LAPACK_TOLERANCE[dtype] * max(1, 8 / u)
    wanted = scipy.linalg.svdvals(a)
    np.testing.assert_allclose(bdsqr(d, e), wanted, rtol=0, atol=room * wanted[0])


several(
    (70, "float64", 76), (34, "float16", 80), (40, "float32", 44), (130, "float32", 140), long=True
)(bands)


@several("float32")
@several("float64", long=True)
def bisection(device: Device, dtype: str) -> None:
    dtype = dtype if not lacks(device, dtype) else "float32"
    d, e = random((9,), dtype), random((8,), dtype)
    wanted = scipy.linalg.svdvals(np.diag(d) + np.diag(e, 1))
    close(bidiagonal_svdvals(d, e), wanted, "float32")


@several((2, 7, 5), (9, 9))
@several((36, 34), (3, 40, 33), (2, 20, 31), long=True)
def singular_values(device: Device, *shape: int) -> None:
    a = random(shape, "float32")
    close(svdvals(a), np.linalg.svd(a.astype(float), compute_uv=False), "float32")


# -- networks -------------------------------------------------------------------------------------


@several("float32", "float16")
def networks(device: Device, dtype: str) -> None:
    model = MLP((5, 9, 3), device=device, dtype=dtype)
    x = random((37, 5), dtype)
    value = x.astype(float)
    state = {name: v.astype(float) for name, v in model.state_dict().items()}
    names = sorted({name.rpartition(".")[0] for name in state})
    for i, name in enumerate(names):
        value = value @ state[f"{name}.weight"].T + state[f"{name}.bias"]
        if i < len(names) - 1:
            value = np.maximum(value, 0)
    close(model(x), value, dtype)


@several("fused", "layered")
def training(device: Device, way: str) -> None:
    from portable.nn import fused

    shape, samples, epochs = fused.training_shape, 40, 3
    if way == "layered":
        fused.training_shape = lambda *given, **more: None
        samples, epochs = 12, 2  # a step on lone work-items, of products alone, takes seconds here
    try:
        model = MLP((4, 8, 2), device=device, dtype="float32")
        x, y = random((samples, 4)), random((samples, 2))
        # A limit beyond single precision's range is none.
        loop = {"epochs": epochs, "batch_size": 16, "clip_norm": 1e300}
        history = fit(model, x, y, optimizer=Adam(1e-2), **loop)
    finally:
        fused.training_shape = shape
    assert history.train[-1] < history.train[0]


# -- running totals and reductions ----------------------------------------------------------------


@several(
    ("float32", (3, 700), 1),
    ("float32", (9001,), 0),
    ("int64", (2, 5000), 1),
    ("int32", (130, 70), 0),
    ("float32", (600, 66), 0),
    ("uint8", (20, 1000), 1),
)
@several(
    ("float64", (1, 70_001), 1), ("float16", (3000, 130), 0), ("uint32", (5, 9999), 1), long=True
)
def running_totals(device: Device, dtype: str, shape: tuple[int, ...], axis: int) -> None:
    if lacks(device, dtype):
        return
    xp = portable.xp(device)
    a = (random(shape) * 50).astype(dtype)
    found = xp.cumulative_sum(xp.asarray(a), axis=axis, include_initial=True)
    initial = np.zeros_like(np.take(a, [0], axis)).astype(np.float64)
    wanted = np.concatenate([initial, np.cumsum(a.astype(np.float64), axis)], axis)
    close(found, wanted, "float16" if dtype == "float16" else "float32")


@several(((7001,), None), ((40, 300), 1), ((300, 40), 0), ((6, 50, 7), (0, 2)))
def reductions(device: Device, shape: tuple[int, ...], axis: Any) -> None:
    xp = portable.xp(device)
    a = random(shape)
    x = xp.asarray(a)
    wide = a.astype(np.float64)
    close(xp.sum(x, axis=axis), wide.sum(axis), "float32")
    equal(xp.max(x, axis=axis), a.max(axis))
    close(xp.var(x, axis=axis, correction=1), wide.var(axis, ddof=1), "float32")
    if not isinstance(axis, tuple):
        equal(xp.argmin(x, axis=axis), a.argmin(axis))
        equal(xp.any(x > 3, axis=axis), (a > 3).any(axis))


# -- sorts, masks, moves --------------------------------------------------------------------------


@several(
    ("float32", (5, 40)),
    ("int16", (2600,)),
    ("uint32", (2, 1500)),
    ("float16", (700,)),
    ("int8", (9000,)),
)
@several(("int64", (9000,)), ("complex64", (5000,)), ("float64", (3, 9000)), long=True)
def sorts(device: Device, dtype: str, shape: tuple[int, ...]) -> None:
    if lacks(device, dtype):
        return
    xp = portable.xp(device)
    a = (random(shape) * 90).astype(np.int32).astype(dtype)
    if dtype.startswith("u"):
        a = np.abs((random(shape) * 2**20).astype(np.int64)).astype(dtype)
    x = xp.asarray(a)
    equal(xp.sort(x), np.sort(a))
    equal(xp.argsort(x, descending=False), np.argsort(a, kind="stable"))


@case
def distinct_values(device: Device) -> None:
    xp = portable.xp(device)
    a = (random((1500,)) * 30).astype(np.int32)
    found = xp.unique_all(xp.asarray(a))
    values, indices, inverse, counts = np.unique(a, True, True, True)
    for one, wanted in zip(found, (values, indices, inverse, counts), strict=True):
        equal(one, wanted)


@several((5000,), (61, 70), (9, 500))
def masks(device: Device, *shape: int) -> None:
    xp = portable.xp(device)
    a = random(shape)
    x = xp.asarray(a)
    mask = x > 0.3
    equal(x[mask], a[a > 0.3])
    for one, wanted in zip(xp.nonzero(mask), np.nonzero(a > 0.3), strict=True):
        equal(one, wanted)
    x[mask] = 0
    equal(x, np.where(a > 0.3, 0, a))


@several("float32", "complex64", "uint8")
def moves(device: Device, dtype: str) -> None:
    xp = portable.xp(device)
    a = (random((37, 65)) * 9).astype(np.int32).astype(dtype)
    x = xp.asarray(a)
    equal(xp.asarray(x.T, copy=True), a.T)
    equal(xp.roll(x, (3, -5), axis=(0, 1)), np.roll(a, (3, -5), axis=(0, 1)))
    equal(xp.concat([x, x[::-1, ::2]], axis=None), np.concatenate([a, a[::-1, ::2]], axis=None))
    picks = np.array([5, 0, 36, 5])
    equal(xp.take(x, xp.asarray(picks), axis=0), a[picks])
    equal(xp.repeat(x, 3, axis=1), np.repeat(a, 3, axis=1))


@several(64, 60, 97)
@several(330, 1024, 1155, long=True)
def transforms(device: Device, length: int) -> None:
    xp = portable.xp(device)
    a = random((3, length)) + 1j * random((length,))
    close(xp.fft.fft(xp.asarray(a.astype("complex64"))), np.fft.fft(a), "float32")
    close(xp.fft.rfft(xp.asarray(a.real.astype("float32"))), np.fft.rfft(a.real), "float32")
    turned = xp.asarray(np.ascontiguousarray(a.T).astype("complex64"))
    close(xp.fft.ifft(turned, axis=0), np.fft.ifft(a.T, axis=0), "float32")


@case
def fused_functions(device: Device) -> None:
    xp = portable.xp(device)
    gelu = portable.fuse(lambda x: 0.5 * x * (1 + np.tanh(0.7978846 * (x + 0.044715 * x * x * x))))
    a = random((13, 70))
    wide = a.astype(float)
    wanted = 0.5 * wide * (1 + np.tanh(0.7978846 * (wide + 0.044715 * wide**3)))
    close(gelu(xp.asarray(a)), wanted, "float32")
    close(gelu(xp.asarray(a)[:, ::3]), wanted[:, ::3], "float32")


# -- bits and random numbers ----------------------------------------------------------------------


@several((70, 70), (40, 130))
def ranks(device: Device, rows: int, columns: int) -> None:
    a = (random((rows, columns)) > 0).astype(np.uint8)
    a[-1] = a[0] ^ a[1]
    matrix = gf2.BitMatrix.from_dense(a, device=device)
    assert gf2.rank(matrix) == _rank(a)


def _rank(a: Any) -> int:
    rows, rank = a.copy().astype(bool), 0
    for column in range(a.shape[1]):
        found = np.flatnonzero(rows[rank:, column])
        if not found.size:
            continue
        rows[[rank, rank + found[0]]] = rows[[rank + found[0], rank]]
        below = rows[:, column].copy()
        below[rank] = False
        rows[below] ^= rows[rank]
        rank += 1
        if rank == a.shape[0]:
            break
    return rank


@case
def random_numbers(device: Device) -> None:
    found = portable.random.Generator(7, device=device).normal((500,), dtype=portable.float32)
    wanted = portable.random.Generator(7, device="simulator").normal((500,), dtype=portable.float32)
    close(found, portable.to_numpy(wanted), "float32")
