"""What compilers were seen to get wrong comes out right, and by what text it does."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import dtypes
from portable import lang as kl
from portable.backend import ArrayView, Capabilities, Device
from portable.backend.capabilities import INTEL_CPU, NVIDIA, POCL, Fault
from portable.lang.emit import generate
from tests.lang.test_numbers import corners
from tests.support.compilers import CUDA, compile_cuda, cuda_missing
from tests.support.launch import run

Array = np.ndarray[Any, Any]
LANES = 4
NVIDIAS_OPENCL = replace(CUDA, dialect="opencl", pointer_offsets=True)
INTELS_CPU = replace(
    CUDA,
    dialect="opencl",
    kind="cpu",
    vendor="intel",
    faults=INTEL_CPU,
    sub_group_size=1,
)


class _Absent:
    """A device that is not here, as far as sources need one."""

    name = "absent"

    def __init__(self, capabilities: Capabilities) -> None:
        self.capabilities = capabilities


def _program(launcher: Any, capabilities: Capabilities, *args: Array) -> Any:
    views = [ArrayView(x.dtype, x.shape, x.strides, None, x.ctypes.data) for x in args]
    wanted = launcher.specialised(_Absent(capabilities), args, views, {})
    return generate(launcher.kernel.translated(wanted, capabilities), capabilities)


# -- negatives in minima and maxima ---------------------------------------------------------------


@pt.kernel
def extremes_of_negatives(x, y, z, out, wide):
    i = kl.global_id(0)
    if i < x.shape[0]:
        a, b, c = x[i], y[i], z[i]
        out[0, i] = kl.maximum(kl.maximum(-a, b), c)
        out[1, i] = kl.minimum(kl.minimum(b, a * -1), c)
        out[2, i] = kl.maximum(kl.abs(a), a + a)
        out[3, i] = kl.maximum(c, kl.maximum(b, 0 - a))
        out[4, i] = kl.minimum(kl.minimum(~a + 1, b), c)
        out[5, i] = kl.maximum(kl.maximum(a // -1, b), c)
        least = c
        for k in kl.static_range(3):
            least = kl.minimum(least, -out[k, i])
        out[6, i] = least
        first = max(-a, b)
        out[7, i] = kl.maximum(first, c)
        v = kl.vload(wide, i, 0, lanes=4)
        kl.vstore(wide, i, 0, kl.maximum(kl.maximum(-v, kl.splat(b, 4)), kl.splat(c, 4)))


def _negatives(dtype: str) -> tuple[list[Array], Array, Array]:
    """Three arrays, and what each row and the vectors should be."""
    x, y, z = (corners(dtypes.dtype(dtype), seed) for seed in (1, 2, 3))
    y, z = y[::-1].copy(), np.roll(z, 5)
    minus = 0 - x
    rows = [
        np.maximum(np.maximum(minus, y), z),
        np.minimum(np.minimum(y, minus), z),
        np.maximum(np.where(x > minus, x, minus), x + x),
        np.maximum(z, np.maximum(y, minus)),
        np.minimum(np.minimum(minus, y), z),
        np.maximum(np.maximum(minus, y), z),
    ]
    rows.append(np.minimum.reduce([z, *(0 - row for row in rows[:3])]))
    rows.append(rows[0])
    wide = np.stack([np.roll(x, lane) for lane in range(LANES)], axis=1)
    greatest = np.maximum(np.maximum(0 - wide, y[:, None]), z[:, None])
    return [x, y, z, np.zeros((8, len(x)), dtype), wide], np.array(rows), greatest


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_extremes_of_negatives(device: Device, dtype: str) -> None:
    arrays, rows, greatest = _negatives(dtype)
    *_, found, vectors = run(device, extremes_of_negatives[len(arrays[0]), 8], *arrays)
    np.testing.assert_array_equal(found, rows)
    np.testing.assert_array_equal(vectors, greatest)


@pytest.mark.parametrize("target", [CUDA, NVIDIAS_OPENCL], ids=["cuda", "opencl"])
def test_nvidias_assembler_sees_no_negatives(target: Capabilities) -> None:
    arrays, _, _ = _negatives("int32")
    launcher = extremes_of_negatives[len(arrays[0]), 8]
    program = _program(launcher, target, *arrays)
    assert "xor.b32" in program.source
    without = _program(launcher, replace(target, faults=frozenset()), *arrays)
    assert "xor.b32" not in without.source
    if target is CUDA and not cuda_missing():
        assert "neg.s32" not in compile_cuda(program)
        assert "neg.s32" in compile_cuda(without)


# -- negatives across barriers --------------------------------------------------------------------


@pt.kernel(contract=False)
def negatives_and_barriers(x, out):
    i = kl.global_id(0)
    own = kl.private((3,), kl.f32, lanes=4)
    f = kl.vload(x, i, 0, lanes=4)
    scaled = f * -1.0
    made = f * kl.vector(-1.0, -1.0, -1.0, -1.0)
    divided, signed, less = f[0] / -1.0, kl.copysign(f[1], -1.0), -0.0 - f[2]
    kl.barrier()
    own[0] = f
    own[1] = made
    own[2] = scaled
    kl.vstore(out, i, 0, own[i % 3])
    kl.vstore(out, i, 4, kl.vector(divided, signed, less, f[3]))


def test_negatives_by_products_live_on_across_barriers(device: Device) -> None:
    """A private array of vectors made the first of these known."""
    x = np.arange(64, dtype=np.float32).reshape(16, LANES) - 20
    _, found = run(device, negatives_and_barriers[16, 8], x, np.zeros((16, 8), np.float32))
    signs = np.where(np.arange(16) % 3 == 0, 1, -1)[:, None]
    np.testing.assert_array_equal(found[:, :4], x * signs)
    rest = [-x[:, 0], -np.abs(x[:, 1]), -x[:, 2], x[:, 3]]
    np.testing.assert_array_equal(found[:, 4:], np.stack(rest, axis=1))


@pt.kernel(contract=False)
def negatives_in_loops(x, out):
    i = kl.local_id(0)
    tile = kl.local(8, kl.f32)
    v = x[i]
    for k in range(2):
        sign = 1.0 - 2.0 * k
        turned, chosen = v * sign, kl.where(k == 1, -1.0, 1.0) * v
        parted, less = v / sign, v * sign - 1.0
        tile[i] = v
        kl.barrier()
        out[0, k, i] = turned
        out[1, k, i] = chosen
        out[2, k, i] = parted
        out[3, k, i] = less
        kl.barrier()


def test_negatives_that_unrolled_loops_know_of_live_on_across_barriers(device: Device) -> None:
    x = np.arange(8, dtype=np.float32) + 1
    _, found = run(device, negatives_in_loops[8, 8], x, np.zeros((4, 2, 8), np.float32))
    both = np.stack([x, -x])
    np.testing.assert_array_equal(found, [both, both, both, both - 1])


# -- products of negatives ------------------------------------------------------------------------


@pt.kernel
def high_products(x, y, out, wide):
    i = kl.global_id(0)
    if i < x.shape[0]:
        out[0, i] = kl.mulhi(-x[i], y[i])
        out[1, i] = kl.mulhi(y[i], x[i] * -1)
        out[2, i] = kl.mulhi(-x[i], -y[i])
        out[3, i] = kl.mulhi(kl.abs(x[i]), y[i])
        v = kl.vload(wide, i, 0, lanes=4)
        kl.vstore(wide, i, 0, kl.mulhi(-v, kl.splat(y[i], 4)))


def _high(x: Array, y: Array) -> Array:
    bits = 8 * x.itemsize
    products = [(int(a) * int(b)) >> bits for a, b in zip(x, y, strict=True)]
    return np.array(products, x.dtype)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_high_products_of_negatives(device: Device, dtype: str) -> None:
    x, y = (corners(dtypes.dtype(dtype), seed) for seed in (1, 2))
    y = y[::-1].copy()
    minus = 0 - x
    wide = np.stack([np.roll(x, lane) for lane in range(LANES)], axis=1)
    out = np.zeros((4, len(x)), dtype)
    *_, found, vectors = run(device, high_products[len(x), 8], x, y, out, wide)
    rows = [_high(minus, y), _high(y, minus), _high(minus, 0 - y), _high(np.abs(x), y)]
    np.testing.assert_array_equal(found, rows)
    lanes = [_high(0 - wide[:, lane], y) for lane in range(LANES)]
    np.testing.assert_array_equal(vectors, np.stack(lanes, axis=1))


# -- sines and cosines ----------------------------------------------------------------------------


@pt.kernel
def sines_of_sines(x, out):
    i = kl.global_id(0)
    b = x[i]
    if b < 1:
        b += kl.tanh(b)
    v = kl.sin(b)
    out[i] = kl.sin(v) + kl.cos(v) * kl.cos(b)


@pytest.mark.needs_float64
def test_sines_and_cosines_of_the_same_numbers(device: Device) -> None:
    """Of which compilers make one call, in which Intel's crashed."""
    x = np.linspace(-1, 2, 12)
    found = run(device, sines_of_sines[12, 4], x, np.zeros(12))[1]
    b = np.where(x < 1, x + np.tanh(x), x)
    v = np.sin(b)
    np.testing.assert_allclose(found, np.sin(v) + np.cos(v) * np.cos(b), rtol=1e-14)
    told, sound = (
        _program(sines_of_sines[12, 4], replace(INTELS_CPU, faults=declared), x, x).source
        for declared in (INTEL_CPU, INTEL_CPU - {Fault.MERGED_SINES})
    )
    assert told.count("cos(fma(") == 2
    assert "cos(fma(" not in sound


# -- what is declared -----------------------------------------------------------------------------


def test_only_what_a_device_declares_is_avoided() -> None:
    x = corners(dtypes.int64)
    arrays = [x, x, np.zeros((4, len(x)), x.dtype), np.stack([x] * LANES, axis=1)]
    launcher = high_products[len(x), 8]
    assert "signed_product" in _program(launcher, INTELS_CPU, *arrays).source
    sound = replace(INTELS_CPU, faults=INTEL_CPU - {Fault.UNBOUNDED_NEGATIVES})
    assert "signed_product" not in _program(launcher, sound, *arrays).source


def test_devices_declare_the_faults_of_their_compilers(device: Device) -> None:
    capabilities = device.capabilities
    wanted = {
        ("opencl", "cpu", "intel"): INTEL_CPU,
        ("opencl", "cpu", "pocl"): POCL,
        ("opencl", "gpu", "nvidia"): NVIDIA,
        ("cuda", "gpu", "nvidia"): NVIDIA,
    }
    key = (capabilities.dialect, capabilities.kind, capabilities.vendor)
    assert capabilities.faults == wanted.get(key, frozenset())


# -- barriers in branches -------------------------------------------------------------------------


@pt.kernel
def assigns_after_a_barrier(out, x, *, LOOP):
    i, lid = kl.global_id(0), kl.local_id(0)
    seen, tile = kl.local(8, kl.i32), kl.local(8, kl.i32)
    found: kl.i32 = -100
    seen[lid] = x[lid]
    kl.barrier()
    rounds = 0
    if LOOP:
        while rounds < 1 and kl.group_id(0) % 2 == 1:
            rounds += 1
            kl.barrier()
            found = _last_of(seen, lid)
    elif kl.group_id(0) % 2 == 1:
        kl.barrier()
        found = _last_of(seen, lid)
    if lid < 4:
        tile[lid] = x[lid]
    kl.barrier()
    out[i] = found + tile[lid % 4]


@pt.function
def _last_of(seen, lid):
    total = seen[2]
    for k in range(5, lid // 3 * 3, 3):
        total = max(total, seen[k])
    before = max(-31, total) if lid // 3 > 0 else -31
    return max(before, seen[max(lid - 1, 0)]) if lid % 3 > 0 else before


@pytest.mark.parametrize("loop", [False, True])
def test_what_branches_assign_after_a_barrier_is_kept(device: Device, loop: bool) -> None:
    x = np.array([11, 65, 65, 15, 69, 69, 13, 71], np.int32)
    found = run(device, assigns_after_a_barrier[24, 8], np.zeros(24, np.int32), x, LOOP=loop)[0]
    assigned = [-31, 11, 65, 65, 65, 69, 69, 69]
    np.testing.assert_array_equal(found, [-100] * 8 + assigned + [-100] * 8 + np.tile(x[:4], 6))


@pt.kernel
def branches_as_rounds_end(out, x, *, CONTINUE):
    lid, rounds, total = kl.local_id(0), 0, 0
    while kl.workgroup_uniform(x[0]) > rounds:
        rounds += 1
        if CONTINUE:
            if rounds < 3:
                if lid % 3 == 0:
                    out[lid, 0] = rounds
                    total += lid + 1
                continue
        if lid % 3 == 1:
            out[lid, 0] = -rounds
            total += 10
    out[lid, 1] = total


@pytest.mark.parametrize("goes_on", [False, True])
def test_work_items_branch_each_their_way_as_a_round_ends(device: Device, goes_on: bool) -> None:
    x, lid = np.array([3], np.int32), np.arange(8)
    launcher = branches_as_rounds_end[8, 8]
    found = run(device, launcher, np.zeros((8, 2), np.int32), x, CONTINUE=goes_on)[0]
    early, late = (lid % 3 == 0) * goes_on, lid % 3 == 1
    totals = 2 * early * (lid + 1) + late * (10 if goes_on else 30)
    np.testing.assert_array_equal(found, np.stack([2 * early - 3 * late, totals], axis=1))


@pt.kernel
def branches_as_the_only_round_ends(out, x):
    lid = kl.local_id(0)
    seen = kl.local(8, kl.i32)
    for first in range(0, min(x.shape[0], 8), 8):
        seen[lid] = x[first + lid]
        kl.barrier()
        if seen[7 - lid] < 4:
            out[lid] = seen[7 - lid]


def test_work_items_branch_each_their_way_as_the_only_round_ends(device: Device) -> None:
    x = np.arange(8, dtype=np.int32)
    launcher, out = branches_as_the_only_round_ends[8, 8], np.full(8, -1, np.int32)
    for given in (x, x[::-1].copy()):
        found = run(device, launcher, out, given)[0]
        np.testing.assert_array_equal(found, np.where(given[::-1] < 4, given[::-1], -1))
    plain, mended = (
        _program(launcher, capabilities, out, x).source.count("barrier(")
        for capabilities in (NVIDIAS_OPENCL, replace(NVIDIAS_OPENCL, faults=POCL))
    )
    assert mended == plain + 2  # as the round ends, and after the loop


@pt.kernel
def branches_as_a_branch_ends(out, x):
    lid, total = kl.local_id(0), 0
    if kl.workgroup_uniform(x[0]) > 2:
        kl.barrier()
        if lid % 3 == 1:
            out[lid, 0] = 7
            total += 10
    elif lid % 3 == 2:
        total = 3
    out[lid, 1] = total


@pytest.mark.parametrize("first", [2, 3])
def test_work_items_branch_each_their_way_as_a_branch_ends(device: Device, first: int) -> None:
    x, lid = np.array([first], np.int32), np.arange(8)
    out = np.zeros((8, 2), np.int32)
    found = run(device, branches_as_a_branch_ends[8, 8], out, x)[0]
    taken, other = (lid % 3 == 1) * (first > 2), (lid % 3 == 2) * (first <= 2)
    np.testing.assert_array_equal(found, np.stack([7 * taken, 10 * taken + 3 * other], axis=1))
    texts = [
        _program(branches_as_a_branch_ends[8, 8], capabilities, out, x).source
        for capabilities in (NVIDIAS_OPENCL, replace(NVIDIAS_OPENCL, faults=POCL))
    ]
    plain, mended = (text.count("barrier(") for text in texts)
    assert mended == plain + 3  # as both sides end, and after the branch


@pt.kernel
def branches_in_a_loop_apart(out, x):
    lid, total, rounds = kl.local_id(0), 0, 0
    kl.barrier()
    while rounds < x[0]:
        rounds += 1
        if lid % 3 == 1:
            continue
        if total < lid:
            out[lid, 0] += rounds
        else:
            total += lid + 1
    out[lid, 1] = total


def test_loops_beside_barriers_end_their_rounds_in_fences_on_pocl(device: Device) -> None:
    x, out = np.array([3], np.int32), np.zeros((8, 2), np.int32)
    found = run(device, branches_in_a_loop_apart[8, 8], out, x)[0]
    expected = [[0, 3], [0, 0], [6, 0], [6, 0], [0, 0], [6, 0], [6, 0], [0, 0]]
    np.testing.assert_array_equal(found, expected)
    capabilities = replace(NVIDIAS_OPENCL, faults=POCL)
    launcher = branches_in_a_loop_apart[8, 8]
    plain, mended = (
        _program(launcher, c, out, x).source.count("fence") for c in (NVIDIAS_OPENCL, capabilities)
    )
    assert mended == plain + 2  # before `continue`, and at the end


# -- constants that are rounded -------------------------------------------------------------------


@pt.kernel(contract=False)
def rounds_constants(out, x):
    i = kl.global_id(0)
    large: kl.f32 = 2147483647
    near: kl.f32 = 0.99999999999
    out[i] = kl.rint(large) if x[1] > 49 else x[i]
    out[i + 4] = kl.floor(near) + 2 * kl.ceil(-near) + (kl.trunc(large) - large)


def test_rounded_constants_are_what_they_are_in_single_precision(device: Device) -> None:
    x = np.array([3, 99, 10, 77], np.float32)
    found = run(device, rounds_constants[4, 4], np.zeros(8, np.float32), x)[0]
    np.testing.assert_array_equal(found, [2.0**31] * 4 + [-1] * 4)
    capabilities = replace(NVIDIAS_OPENCL, faults=POCL)
    text = _program(rounds_constants[4, 4], capabilities, np.zeros(8, np.float32), x).source
    assert not re.search(r"\b(rint|floor|ceil|trunc)\(", text)
