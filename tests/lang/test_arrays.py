"""Indexing, strides, views, and local and private arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from array_api_compat import array_namespace

import portable as pt
from portable import dtypes
from portable import lang as kl
from portable.backend import Device
from tests.support.launch import run, run_on_views


@pt.kernel
def scaled(factor, x, out):
    """A factor that is a number, or an array without dimensions, as reductions give."""
    i = kl.global_id(0)
    if i < x.shape[0]:
        out[i] = factor * x[i]
        if factor >= 2.0:
            out[i] += -factor + factor[()]


@pytest.mark.needs_namespace
def test_reductions_are_taken_as_scalars(device: Device) -> None:
    """NumPy's are numbers, those of other libraries arrays; the same kernel takes both."""
    xp = pt.xp(device)
    x = xp.asarray([1.0, 2.0, 6.0], dtype=xp.float32)
    for factor in (xp.mean(x), xp.asarray(3.0, dtype=xp.float32), 3.0):
        out = xp.zeros_like(x)
        with pt.use(device):
            scaled[3](factor, x, out)
        assert pt.to_numpy(out).tolist() == [3, 6, 18]


@pt.kernel
def flatten(x, out):
    """Three dimensions in C order to one."""
    a, b, c = kl.global_id(2), kl.global_id(1), kl.global_id(0)
    if a < x.shape[0] and b < x.shape[1] and c < x.shape[2]:
        out[(a * x.shape[1] + b) * x.shape[2] + c] = x[a, b, c]


def _transposed(x: Any) -> Any:
    axes = tuple(reversed(range(x.ndim)))
    return np.transpose(x) if isinstance(x, np.ndarray) else _library(x).permute_dims(x, axes)


def _library(x: Any) -> Any:
    return array_namespace(x)


VIEWS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda x: x,
    "transposed": _transposed,
    "reversed": lambda x: x[::-1, :, ::-1],
    "reversed transpose": lambda x: _transposed(x[:, ::-1]),
    "every other": lambda x: x[1::2, :, ::3],
    "inner slice": lambda x: x[1:4, 2:, 1:3],
    "one row": lambda x: x[:, 2:3, :],
    "one of each": lambda x: x[3:, 4:, 5:],
    "new axis": lambda x: x[2][None],
    "new last axis": lambda x: x[:, 1, :, None],
}


@pytest.mark.parametrize("name", VIEWS)
def test_all_kinds_of_strides(device: Device, name: str) -> None:
    base = np.arange(4 * 5 * 6, dtype=np.int32).reshape(4, 5, 6)
    view = VIEWS[name]
    expected = view(base)
    out = np.full(expected.size, -1, np.int32)
    ndrange = expected.shape[::-1]
    _, found = run_on_views(device, flatten[ndrange, (4, 2, 1)], (base, out), [view, lambda x: x])
    np.testing.assert_array_equal(found, expected.ravel())


@pt.kernel
def fill(out):
    a, b = kl.global_id(1), kl.global_id(0)
    if a < out.shape[0] and b < out.shape[1]:
        out[a, b] = 100 * a + b


@pytest.mark.parametrize("name", ["transposed", "reversed", "every other"])
def test_writing_through_views(device: Device, name: str) -> None:
    views = {
        "transposed": lambda x: x.T,
        "reversed": lambda x: x[::-1, ::-1],
        "every other": lambda x: x[1::2, 1::3],
    }
    base = np.full((7, 9), -1, np.int32)
    target = views[name](base)
    (found,) = run_on_views(device, fill[target.shape[::-1], (8, 4)], (base.copy(),), [views[name]])
    target[:] = 100 * np.arange(target.shape[0])[:, None] + np.arange(target.shape[1])
    np.testing.assert_array_equal(found, base)


def _broadcast(x: Any, shape: tuple[int, ...]) -> Any:
    return (np if isinstance(x, np.ndarray) else _library(x)).broadcast_to(x, shape)


def test_broadcast_arrays_have_strides_of_zero(device: Device) -> None:
    row = np.arange(4, dtype=np.float32)
    out = np.zeros(24, np.float32)
    _, found = run_on_views(
        device,
        flatten[(4, 3, 2), (4, 1, 1)],
        (row, out),
        [lambda x: _broadcast(x, (2, 3, 4)), lambda x: x],
    )
    np.testing.assert_array_equal(found, np.tile(row, 6))


@pt.kernel
def extents(x, out):
    if kl.global_id(0) == 0:
        out[0] = x.ndim
        for d in kl.static_range(x.ndim):
            out[1 + d] = x.shape[d]


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 5, 2), (1,), (1, 1, 1), ()], ids=str)
def test_empty_arrays_and_extents_of_one(device: Device, shape: tuple[int, ...]) -> None:
    _, found = run(device, extents[1, 1], np.ones(shape, np.float32), np.full(4, -1, np.int32))
    assert found.tolist() == [len(shape), *shape, *[-1] * (3 - len(shape))]


@pt.kernel
def copied(x, out):
    i = kl.global_id(0)
    if i < out.shape[0]:
        out[i] = x[i]


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=repr)
def test_every_dtype_is_loaded_and_stored_as_it_is(device: Device, dtype: dtypes.DType) -> None:
    bits = np.random.default_rng(3).integers(0, 256, 40 * dtype.itemsize, dtype=np.uint8)
    x = (bits & 1 if dtype.kind == "b" else bits).view(dtype.numpy)
    x = np.nan_to_num(x) if dtype.kind in "fc" else x
    x = x[: len(x) // dtype.itemsize * dtype.itemsize] if dtype.kind == "b" else x
    _, found = run(device, copied[len(x), 16], x, np.zeros_like(x))
    np.testing.assert_array_equal(found, x)


@pt.kernel
def parts(x, out, *, TILE):
    row = x[1]
    out[0] = row[2]
    block = x[1:3, 2 : 2 + TILE]
    out[1] = block[1, 0]
    out[2] = block.shape[0] * 10 + block.shape[1]
    out[3] = x.T[3, 0]
    start = kl.global_id(0) + 1
    moving = x[..., start : start + TILE]
    out[4] = moving[2, 1]
    out[5] = moving.T[1, 2]
    out[6] = x[:, 1][2]
    out[7] = block[1][1:][0]
    rest = x[start:]
    out[8] = rest.shape[0]
    rest[0, 0] += 1000
    out[9] = len(x)


def test_views_inside_kernels(device: Device) -> None:
    x = np.arange(20, dtype=np.int32).reshape(4, 5)
    after, found = run(device, parts[1, 1], x, np.zeros(10, np.int32), TILE=2)
    expected = [x[1, 2], x[2, 2], 22, x[0, 3], x[2, 2], x[2, 2], x[2, 1], x[2, 3], 3, 4]
    np.testing.assert_array_equal(found, expected)
    x[1, 0] += 1000
    np.testing.assert_array_equal(after, x)


@pt.kernel
def reversed_groups(x, out):
    tile = kl.local(8, x.dtype)
    i, n = kl.local_id(0), kl.local_size(0)
    tile[i] = x[kl.global_id(0)]
    kl.barrier()
    out[kl.global_id(0)] = tile[n - 1 - i]


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=repr)
def test_local_arrays_are_shared_by_the_workgroup(device: Device, dtype: dtypes.DType) -> None:
    x = np.arange(24).astype(dtype.numpy)
    _, found = run(device, reversed_groups[24, 8], x, np.zeros_like(x))
    np.testing.assert_array_equal(found, x.reshape(3, 8)[:, ::-1].ravel())


@pt.kernel
def transposed(x, out, *, TILE):
    tile = kl.local((TILE, TILE + 1), x.dtype)
    row, column = kl.global_id(1), kl.global_id(0)
    if row < x.shape[0] and column < x.shape[1]:
        tile[kl.local_id(1), kl.local_id(0)] = x[row, column]
    kl.barrier()
    row = kl.group_id(0) * TILE + kl.local_id(1)
    column = kl.group_id(1) * TILE + kl.local_id(0)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = tile[kl.local_id(0), kl.local_id(1)]


def test_a_transpose_through_local_memory(device: Device) -> None:
    x = np.arange(10 * 7, dtype=np.float32).reshape(10, 7)
    launcher = transposed[(7, 10), (4, 4)]
    _, found = run(device, launcher, x, np.zeros((7, 10), np.float32), TILE=4)
    np.testing.assert_array_equal(found, x.T)


@pt.kernel
def summed(x, out):
    part = kl.local(kl.local_size(0), kl.accumulator(x.dtype))
    i = kl.local_id(0)
    part[i] = x[kl.global_id(0)] if kl.global_id(0) < x.shape[0] else 0
    kl.barrier()
    width = kl.local_size(0) // 2
    while width > 0:
        if i < width:
            part[i] += part[i + width]
        kl.barrier()
        width //= 2
    if i == 0:
        out[kl.group_id(0)] = part[0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint16", "int64"])
def test_a_reduction_with_barriers_in_a_loop(device: Device, dtype: str) -> None:
    x = (np.arange(50) - 7).astype(dtype)
    kind = np.float32 if dtype == "float16" else np.uint64 if dtype[0] == "u" else np.int64
    kind = x.dtype if dtype in ("float32", "float64") else kind
    _, found = run(device, summed[50, 16], x, np.zeros(4, kind))
    padded = np.concatenate([x, np.zeros(14, x.dtype)]).reshape(4, 16)
    np.testing.assert_array_equal(found, padded.sum(1, dtype=kind))


@pt.kernel
def sorted_rows(x, out):
    """An insertion sort in private memory."""
    i = kl.global_id(0)
    own = kl.private((2, 4), x.dtype)
    for k in range(8):
        own[k // 4, k % 4] = x[i, k]
    for k in range(1, 8):
        value = own[k // 4, k % 4]
        at = k
        while at > 0 and own[(at - 1) // 4, (at - 1) % 4] > value:
            own[at // 4, at % 4] = own[(at - 1) // 4, (at - 1) % 4]
            at -= 1
        own[at // 4, at % 4] = value
    for k in kl.static_range(8):
        out[i, k] = own[k // 4, k % 4]


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "uint64"])
def test_private_arrays(device: Device, dtype: str) -> None:
    x = np.random.default_rng(5).integers(0, 100, (6, 8)).astype(dtype)
    _, found = run(device, sorted_rows[6, 3], x, np.zeros_like(x))
    np.testing.assert_array_equal(found, np.sort(x, axis=1))


@pt.kernel
def several(x, out):
    a = kl.local(4, kl.f64)
    b = kl.local((2, 3), kl.i8)
    c = kl.local(4, kl.c64)
    d = kl.local(4, kl.u16)
    i = kl.local_id(0)
    a[i] = x[i] / 3
    c[i] = kl.complex(x[i], -x[i])
    d[i] = 65535 + i
    if i < 3:
        b[0, i] = i + 126
        b[1, i] = -i
    kl.barrier()
    if i < 3:
        out[i] = a[i + 1] + c[i + 1].imag + d[i] + b[0, i] + b[1, i]


@pytest.mark.needs_float64
def test_several_local_arrays_lie_apart(device: Device) -> None:
    x = np.arange(4.0) + 1
    _, found = run(device, several[4, 4], x, np.zeros(3))
    i = np.arange(3)
    wrapped = (i + 126).astype(np.uint8).view(np.int8)
    stored = (np.float64(65535) + i) % 65536
    np.testing.assert_allclose(found, x[1:] / 3 - x[1:] + stored + wrapped - i, rtol=1e-15)


@pt.kernel
def shifted(x, y, n):
    """Every element after the one before it: right only where overlap is respected."""
    for k in range(n):
        y[k] = x[k] + 1


def test_arguments_may_overlap(device: Device) -> None:
    base = np.zeros(40, np.float32)
    held = device.from_numpy(base)
    with pt.use(device):
        shifted[1, 1](held[:-1], held[1:], 39)
        device.synchronize()
    np.testing.assert_array_equal(device.to_numpy(held), np.arange(40))


def test_the_same_array_twice(device: Device) -> None:
    held = device.from_numpy(np.arange(8, dtype=np.int32))
    with pt.use(device):
        copied[8, 4](held, held)
        shifted[1, 1](held, held, 8)
        device.synchronize()
    np.testing.assert_array_equal(device.to_numpy(held), np.arange(1, 9))


@pt.kernel
def optional(x, bias, out):
    i = kl.global_id(0)
    if i < out.shape[0]:
        if bias is None:
            out[i] = x[i]
        else:
            out[i] = x[i] + bias[i]


def test_arguments_of_none(device: Device) -> None:
    x = np.arange(5, dtype=np.float32)
    _, bare = run(device, optional[5, 8], x, None, np.zeros_like(x))
    _, _, biased = run(device, optional[5, 8], x, x, np.zeros_like(x))
    np.testing.assert_array_equal(bare, x)
    np.testing.assert_array_equal(biased, 2 * x)


@pt.kernel
def read_only(x, out):
    i = kl.global_id(0)
    if i < out.shape[0]:
        out[i] = 2 * x[i]


def test_read_only_arrays_are_read(device: Device) -> None:
    x = np.arange(5, dtype=np.float32)
    x.flags.writeable = False
    held = x if device.owns(x) else device.from_numpy(x)
    out = device.from_numpy(np.zeros(5, np.float32))
    with pt.use(device):
        read_only[5, 8](held, out)
        device.synchronize()
    np.testing.assert_array_equal(device.to_numpy(out), 2 * x)


@pt.kernel
def rewritten(x, n, out, *, DTYPE):
    lid = kl.local_id(0)
    roots = kl.local(8, kl.f64)
    narrow = kl.local(8, DTYPE)
    points = kl.local(8, kl.c64)
    v = x[lid % 4]
    if lid < 4:
        roots[lid] = kl.sqrt(v)
    narrow[lid] = 4
    points[lid] = kl.complex(4.0, 4.0)
    kl.barrier()
    found = 1
    if n > 2:
        narrow[lid] = 7
        points[lid] = kl.complex(10.0, 20.0)
        kl.barrier()
        found = kl.i32(narrow[7]) + kl.i32(points[7].real + points[7].imag)
    out[lid] = found


@pytest.mark.needs_float64
@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "int32", "float32", "float64"])
def test_local_arrays_are_read_as_written_last(device: Device, dtype: str) -> None:
    """Intel's compiler goes on with what was stored first."""
    x = np.ones(4)
    launcher = rewritten[8, 8]
    _, found = run(device, launcher, x, 4, np.zeros(8, np.int32), DTYPE=dtypes.dtype(dtype))
    np.testing.assert_array_equal(found, np.full(8, 37))
