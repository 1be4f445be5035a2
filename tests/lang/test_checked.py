"""Kernels with checks: what is wrong is reported on every device, and what is right goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import Device
from portable.errors import CheckError, KernelError, LaunchError
from portable.lang.emit import generate
from portable.lang.launch.checked_kernels import checked
from tests.support.compilers import CUDA, HIP, compile_cuda, compile_hip, cuda_missing, hip_missing

FILE = Path(__file__)


@pytest.fixture(autouse=True)
def _checking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTABLE_CHECK", "1")


def line_of(mark: str) -> int:
    """The line of this file that a comment marks."""
    return next(i for i, x in enumerate(FILE.read_text().splitlines(), 1) if f"# {mark}" in x)


def failure(device: Device, launch: Any, *args: Any, **constants: Any) -> CheckError:
    """What a launch on a device reports."""

    def launched() -> None:
        launch(*args, **constants)
        pt.synchronize()

    with pt.use(device), pytest.raises(CheckError) as caught:
        launched()
    return caught.value


def on(device: Device, x: Any, dtype: Any = np.float32) -> Any:
    """An array of a device."""
    return pt.asarray(np.asarray(x, dtype), device=device)


@pt.kernel
def unguarded(x, out):
    i = kl.global_id(0)
    out[i] = x[i + 1]  # reads


def test_a_read_out_of_bounds(device: Device) -> None:
    x, out = on(device, np.arange(64)), on(device, np.zeros(64))
    error = failure(device, unguarded[64, 16], x, out)
    assert (error.kernel, error.array, error.index) == ("unguarded", "x", (64,))
    assert error.work_item == (63, 0, 0)
    assert (error.location.file, error.location.line) == (str(FILE), line_of("reads"))
    assert "x[64] of global array x with shape (64,)" in str(error)
    assert "out[i] = x[i + 1]" in str(error)
    assert "local (15, 0, 0) of workgroup (3, 0, 0)" in str(error)


def test_what_is_inside_goes_on(device: Device) -> None:
    """And the device is of use afterwards."""
    if device.interprets:
        pytest.skip(f"{device.name} stops at the first fault")
    x, out = on(device, np.arange(64)), on(device, np.full(64, -1))
    failure(device, unguarded[64, 16], x, out)
    np.testing.assert_array_equal(pt.to_numpy(out), [*range(1, 64), 0])
    with pt.use(device):
        unguarded[32, 16](x, out)
        pt.synchronize()


@pt.kernel
def far(a, out):
    i, j = kl.global_id(0), kl.global_id(1)
    a[j - 1, i] += 1  # writes
    kl.atomic_add(out, i, 1)


def test_a_negative_index_of_a_view_by_a_few_work_items(device: Device) -> None:
    whole = on(device, np.zeros((4, 8)), np.int32)
    a, out = whole[1:, 1::2], on(device, np.zeros(8), np.int32)
    error = failure(device, far[(8, 3), (4, 1)], a, out)
    assert error.array in ("a", "out")
    if error.array == "a":
        assert error.shape in ((3, 4), None)
        assert error.index is not None
        assert error.index[0] == -1 or error.index[1] >= 4
        assert error.location.line == line_of("writes")


@pt.kernel
def counted(bins, digits):
    i = kl.global_id(0)
    kl.atomic_add(bins, digits[i], 1)  # counts


def test_an_atomic_out_of_bounds(device: Device) -> None:
    bins, digits = on(device, np.zeros(4), np.int32), on(device, [0, 1, 2, 3, 7, 0, 8, 0], np.int32)
    error = failure(device, counted[8, 8], bins, digits)
    assert error.array == "bins"
    assert error.index in ((7,), (8,))
    if not device.interprets:
        assert "checks failed 1 times more" in str(error)
        np.testing.assert_array_equal(pt.to_numpy(bins), [3, 1, 1, 1])


@pt.kernel
def in_local(x, place):
    own = kl.local_id(0)
    tile = kl.local(16, x.dtype)
    tile[own] = x[own]
    kl.barrier()
    x[own] = tile[own + place[0]]  # beyond


def test_local_memory_and_barriers(device: Device) -> None:
    x = on(device, np.arange(16))
    error = failure(device, in_local[16, 16], x, on(device, [3], np.int32))
    assert (error.array, error.location.line) == ("tile", line_of("beyond"))
    assert "of local array tile with shape (16,)" in str(error)
    x = on(device, np.arange(16))
    with pt.use(device):
        in_local[16, 16](x, on(device, [0], np.int32))
        np.testing.assert_array_equal(pt.to_numpy(x), np.arange(16))


@pt.kernel
def by_vectors(x, out):
    i = 4 * kl.global_id(0)
    kl.vstore(out, i, kl.vload(x, i, lanes=4))  # vectors


def test_vectors(device: Device) -> None:
    x, out = on(device, np.arange(10)), on(device, np.zeros(12))
    error = failure(device, by_vectors[3, 3], x, out)
    assert error.array == "x"
    assert error.location.line == line_of("vectors")


@pt.kernel
def by_tiles(x, out, start):
    tile = kl.local((8, 8), x.dtype)
    kl.copy(tile[start : start + 4, 0:4], x[0:4, 0:4])  # tiles
    kl.barrier()
    own = kl.local_id(0)
    out[own] = tile[own // 4, own % 4]


def test_copies_of_tiles(device: Device) -> None:
    x, out = on(device, np.arange(64).reshape(8, 8)), on(device, np.zeros(16))
    with pt.use(device):
        by_tiles[16, 16](x, out, 0)
        np.testing.assert_array_equal(pt.to_numpy(out), pt.to_numpy(x)[:4, :4].reshape(-1))
    error = failure(device, by_tiles[16, 16], x, out, 6)
    assert (error.array, error.location.line) == ("tile", line_of("tiles"))


@pt.function
def positive(x, i):
    kl.check(x[i] > 0, "weights are positive")  # held
    return x[i]


@pt.kernel
def weighted(x, weights):
    i = kl.global_id(0)
    if i < x.shape[0]:
        x[i] *= positive(weights, i)


def test_what_the_author_holds_for_certain(device: Device) -> None:
    weights = np.ones(100)
    x = on(device, np.ones(100))
    with pt.use(device):
        weighted[100, 32](x, on(device, weights))
        pt.synchronize()
    weights[42] = -1
    error = failure(device, weighted[100, 32], x, on(device, weights))
    assert "check failed: weights are positive" in str(error)
    assert (error.kernel, error.array) == ("weighted", None)
    assert error.work_item == (42, 0, 0)
    assert error.location.line == line_of("held")
    assert "in positive, called at" in str(error)


@pytest.mark.needs_compiler
def test_without_the_setting_nothing_is_compiled(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, weights = on(device, np.ones(10)), on(device, -np.ones(10))
    with pt.use(device):
        with_checks = weighted[10, 32].lower(x, weights).program
        monkeypatch.delenv("PORTABLE_CHECK")
        without = weighted[16, 16].lower(x, weights).program
        weighted[10, 16](x, weights)
        pt.synchronize()
    assert with_checks is not None
    assert without is not None
    assert "atomic" in with_checks.source
    assert "atomic" not in without.source
    assert ">" not in without.source.partition("{")[2].replace("->", "")


@pytest.mark.needs_namespace
def test_operations_pass(device: Device) -> None:
    """Those of arrays and products, which are kernels with local memory, copies and fragments."""
    from portable.linalg import gemm

    xp = pt.xp(device)
    with pt.use(device):
        a = xp.reshape(xp.arange(33 * 20, dtype=xp.float32), (33, 20))
        c = gemm(a, a.T)
        s = xp.sum(xp.sort(a[::2, 1:], axis=1) * 2, axis=0)
        held = pt.to_numpy(a)
        np.testing.assert_allclose(pt.to_numpy(c), held @ held.T, rtol=1e-4)
        np.testing.assert_allclose(pt.to_numpy(s), 2 * held[::2, 1:].sum(0), rtol=1e-5)


@pytest.mark.needs_namespace
def test_waiting_in_any_way_reports(device: Device) -> None:
    if device.capabilities.unified_memory:
        pytest.skip(f"{device.name} reports at the launch")
    x, out = on(device, np.arange(8)), on(device, np.zeros(8))
    event, stream = pt.Event(device), pt.Stream(device)

    def launched() -> None:
        unguarded[8, 8](x, out)
        event.record()

    with pt.use(device):
        for wait in (
            lambda: pt.to_numpy(out),
            event.wait,
            stream.synchronize,
            lambda: pt.synchronize(device),
        ):
            launched()
            device.synchronize()
            with pytest.raises(CheckError):
                wait()


@pt.kernel
def away(x, offset):
    i = kl.global_id(0)
    x[i + offset] = 1


@pytest.mark.parametrize("offset", [2**40, -(2**40), 7])
def test_indices_of_64_bits(device: Device, offset: int) -> None:
    error = failure(device, away[1, 1], on(device, np.zeros(4)), offset)
    assert error.index == (offset,)


def test_checks_compile_for_gpus_that_are_not_here() -> None:
    simulator = pt.device("simulator")
    x, ints = np.zeros(16, np.float32), np.zeros((4, 8), np.int32)
    for launcher, args in (
        (far[(8, 3), (4, 1)], (ints[1:, ::2], ints[0])),
        (in_local[16, 16], (x, ints[0])),
        (by_vectors[3, 3], (x, x)),
        (by_tiles[16, 16], (ints, x, 0)),
        (weighted[10, 32], (x.astype(np.float16), x)),
    ):
        views = [simulator.view(a) if isinstance(a, np.ndarray) else None for a in args]
        wanted = launcher.specialised(simulator, args, views, {})
        for target, missing, compiled in (
            (CUDA, cuda_missing, compile_cuda),
            (HIP, hip_missing, compile_hip),
        ):
            made, sites = checked(launcher.kernel.translated(wanted, target))
            program = generate(made, target)
            assert all(str(site.number) in program.source for site in sites)
            if not missing() and (target is CUDA or launcher.kernel in (in_local, weighted)):
                compiled(program)


def test_what_kl_check_takes() -> None:
    @pt.kernel
    def of_a_number(x):
        kl.check(x[0])

    @pt.kernel
    def of_a_number_as_message(x):
        kl.check(x[0] > 0, 3)

    with pt.use("simulator"):
        with pytest.raises(KernelError, match="takes a bool"):
            of_a_number[1, 1](np.ones(1, np.float32))
        with pytest.raises(KernelError, match="message"):
            of_a_number_as_message[1, 1](np.ones(1, np.float32))


def test_other_values_of_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTABLE_CHECK", "yes")
    with pt.use("simulator"), pytest.raises(LaunchError, match="PORTABLE_CHECK"):
        in_local[8, 8](np.ones(16, np.float32), np.zeros(1, np.int32))
