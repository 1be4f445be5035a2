"""Launching: plans, caches, threads, prepared launches, wide indices, overlap, listings."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import ArrayView, Device, Program
from portable.lang.arguments.arguments import array_spec, byte_range, needs_index64
from tests.support.launch import run


@pt.kernel
def axpy(a, x, y):
    i = kl.global_id(0)
    if i < y.shape[0]:
        y[i] = a * x[i] + y[i]


@pt.kernel
def counted(out, *, STEP=1):
    if kl.global_id(0) == 0:
        out[0] += STEP


# -- caches -------------------------------------------------------------------------------------


@pytest.fixture
def compilations(device: Device, monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """Every program that the device compiles during the test."""
    seen: list[Program] = []
    name = "interpret" if device.interprets else "compile"
    original = getattr(device, name)
    monkeypatch.setattr(device, name, lambda p: seen.append(p) or original(p))
    return seen


def test_the_like_is_compiled_once(device: Device, compilations: list[Program]) -> None:
    fresh = pt.kernel(counted.python)
    launcher = fresh[1, 1]
    for n in (1, 2, 3, 2):
        run(device, launcher, np.zeros(n, np.int32))
    assert len(compilations) == 1
    run(device, launcher, np.zeros(3, np.float32))
    run(device, launcher, np.zeros(3, np.int32), STEP=2)
    run(device, fresh[8, 8], np.zeros(3, np.int32))
    assert len(compilations) == 4
    for _ in range(2):
        run(device, launcher, np.zeros(3, np.int32), STEP=2)
    assert len(compilations) == 4


def test_only_what_the_program_depends_on_is_compiled_again(
    device: Device, compilations: list[Program]
) -> None:
    fresh = pt.kernel(axpy.python)
    x, y = (device.from_numpy(np.zeros(64, np.float32)) for _ in range(2))
    with pt.use(device):
        fresh[64, 32](2.0, x, y)
        first = len(compilations)
        fresh[32, 32](3.5, x[:60], y[:60])
        assert len(compilations) == first
        fresh[60, 32](3.5, x[:60], y[:60])  # which ends within a workgroup
        fresh[50, 32](3.5, x[:50], y[:50])
        first += 1
        assert len(compilations) == first
        fresh[32, 32](3.5, x[::2], y[::2])
        assert len(compilations) == first + 1
        fresh[32, 32](3.5, x, x)
        assert len(compilations) == first + 2
        fresh[64, 32](1, x, y)
        assert len(compilations) == first + 3


def test_a_device_does_not_wait_for_another_to_load_a_program() -> None:
    fresh = pt.kernel(axpy.python)
    waits, goes = pt.device("simulator"), pt.device("simulator:arrays")
    loading, loaded = threading.Event(), threading.Event()
    interpret = waits.interpret

    def slow(ir: Any) -> Any:
        loading.set()
        assert loaded.wait(20), "the other device was kept waiting"
        return interpret(ir)

    x = np.ones(4, np.float32)
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as pool:
        patch.setattr(waits, "interpret", slow)
        first = pool.submit(run, waits, fresh[4, 4], 2.0, x, x)
        assert loading.wait(20)
        run(goes, fresh[4, 4], 2.0, x, x)
        loaded.set()
        assert first.result()[1].tolist() == [3.0] * 4


def test_launches_from_many_threads(device: Device) -> None:
    fresh = pt.kernel(axpy.python)
    errors: list[BaseException] = []
    found: dict[int, Any] = {}

    def work(number: int) -> None:
        try:
            x = np.full(100 + number, number, np.float32)
            for _ in range(5):
                _, y = run(device, fresh[len(x), 32], 2.0, x, np.ones_like(x))
            found[number] = y
        except BaseException as error:  # noqa: BLE001 - reported below, from the main thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for number, y in found.items():
        np.testing.assert_array_equal(y, np.full(100 + number, 2 * number + 1))


def test_a_prepared_launch(device: Device) -> None:
    x, y = (device.from_numpy(np.full(50, v, np.float32)) for v in (3, 1))
    with pt.use(device):
        again = axpy[50, 32].prepare(2.0, x, y)
        device.synchronize()
        np.testing.assert_array_equal(device.to_numpy(y), np.ones(50))
        for _ in range(4):
            again()
        device.synchronize()
    np.testing.assert_array_equal(device.to_numpy(y), np.full(50, 25))


def test_launches_in_order(device: Device) -> None:
    out = device.from_numpy(np.zeros(1, np.int64))
    with pt.use(device):
        for _ in range(200):
            counted[64, 64](out, STEP=3)
        device.synchronize()
    assert device.to_numpy(out)[0] == 600


# -- names --------------------------------------------------------------------------------------


@pt.kernel
def odd_names(_x, x, x_1, float, kernel, global_id, *, int=1, double=2):
    i = kl.global_id(0)
    if i < x.shape[0]:
        new = _x[i] + x_1[i]
        constant = new * int
        x[i] = constant + double * float[i]
        kernel[i] = global_id


def test_names_that_mean_something_to_c(device: Device) -> None:
    arrays = [np.full(4, v, np.float32) for v in (1, 0, 2, 3, 0)]
    found = run(device, odd_names[4, 4], *arrays, 7)
    assert [int(a[0]) for a in found] == [1, 9, 2, 3, 7]


class _Holder:
    @pt.kernel
    def method_like(x):
        # A comment that stands further out than the code,
        # as this one does, is no mistake in Python.
        i = kl.global_id(0)
        text = """
a string over lines"""
        if i < x.shape[0] and text != "":
            x[i] = i


def test_kernels_defined_inside_other_things(device: Device) -> None:
    (found,) = run(device, _Holder.method_like[3, 4], np.zeros(3, np.int32))
    assert found.tolist() == [0, 1, 2]


# -- wide indices -------------------------------------------------------------------------------


@pt.kernel
def far_sum(x, out):
    """Reads the corners of an array whose strides reach beyond 2^31 elements."""
    last = kl.global_id(0) + x.shape[0] - 1
    out[0] = x[0, 0]
    out[1] = x[last, 0]
    out[2] = x[last, x.shape[1] - 1]
    out[3] = x.shape[0]
    out[4] = 1 if kl.global_id(0).dtype == kl.i64 else 0


def _far_view(x: np.ndarray[Any, Any], rows: int) -> np.ndarray[Any, Any]:
    """So many rows, all the same memory."""
    return np.lib.stride_tricks.as_strided(x, (rows, len(x)), (0, x.itemsize))


def test_extents_beyond_32_bits(device: Device) -> None:
    if not device.owns(np.zeros(1)):
        pytest.skip("NumPy views are passed")
    x = np.arange(1, 5, dtype=np.int64)
    out = np.zeros(5, np.int64)
    with pt.use(device):
        far_sum[1, 1](_far_view(x, 2**31 + 5), out)
        device.synchronize()
    assert out.tolist() == [1, 1, 4, 2**31 + 5, 1]


@pt.kernel
def mark_far(x, out):
    i = kl.global_id(0)
    if i < 2:
        out[i] = x[i * (x.shape[0] - 1)]
    if i == 0:
        out[2] = 1 if i.dtype == kl.i64 else 0


def test_strides_beyond_32_bits(device: Device, tmp_path: Any) -> None:
    """A sparse file of 2 GiB and a bit, of which two pages are touched."""
    if not device.owns(np.zeros(1)) or device.capabilities.vendor == "pocl":
        pytest.skip("needs one allocation of more than 2 GiB")
    n = 2**31 + 16
    data = np.memmap(tmp_path / "sparse", np.uint8, "w+", shape=(n,))
    data[0], data[-1] = 7, 9
    out = np.zeros(3, np.int32)
    step = n - 1
    with pt.use(device):
        mark_far[2, 2](np.asarray(data)[::step], out)
        device.synchronize()
    assert out.tolist() == [7, 9, 1]


@pt.kernel
def number_ends(x):
    i = kl.global_id(0)
    if i >= x.shape[0] - 8 and i < x.shape[0]:
        x[i] = kl.u8(i % 251)
    if i < 8:
        x[i] = kl.u8(i + 1)


def test_arrays_beyond_32_bits(device: Device) -> None:
    """A GPU's array of more than 2^31 elements, each with its work-item."""
    n = 2**31 + 24
    can = device.capabilities
    if device.interprets or can.kind != "gpu" or can.max_allocation < 2 * n:
        pytest.skip(f"{device.name} is no GPU with room for 2^31 elements")
    x = device.empty((n,), pt.uint8)
    number_ends[n, 256](x)
    last = pt.to_numpy(x[n - 8 :])
    assert last.tolist() == [i % 251 for i in range(n - 8, n)]
    assert pt.to_numpy(x[:8]).tolist() == list(range(1, 9))


def _view(dtype: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> ArrayView:
    return ArrayView(np.dtype(dtype), shape, strides, None, 64)


@pytest.mark.parametrize(
    ("dtype", "shape", "strides", "wide"),
    [
        ("f4", (2**20,), (4,), False),
        ("f4", (2**31,), (4,), True),
        ("f4", (2**31 - 10,), (0,), True),
        ("f4", (2, 2), (4 * 2**31, 4), True),
        ("f4", (2, 2), (-4 * 2**31, 4), True),
        ("f4", (2, 2), (4 * 2**29, 4), False),
        ("f8", (2**15, 2**15), (2**18, 8), False),
        ("u1", (2**16, 2**16), (2**16, 1), True),
        ("f4", (0, 5), (20, 4), False),
        ("f4", (), (), False),
    ],
)
def test_what_needs_wide_indices(
    dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], wide: bool
) -> None:
    assert needs_index64([_view(dtype, shape, strides)], [], 256) is wide


def test_an_ndrange_or_a_number_may_need_wide_indices() -> None:
    assert needs_index64([], [], 2**31)
    assert needs_index64([], ["wide"], 1)
    assert not needs_index64([], [int, np.dtype("f4")], 2**30)


def test_what_an_array_specialises_on() -> None:
    spec = array_spec(_view("f4", (3, 4, 5), (0, 32, 4)))
    assert spec.strides == ("zero", "any", "unit")
    assert spec.aligned
    assert not array_spec(_view("f4", (3, 5), (20, 4))).aligned
    assert array_spec(_view("f4", (3, 1), (16, 400))).strides == ("any", "unit")
    assert array_spec(_view("f4", (3, 4), (-64, -4))).strides == ("any", "any")


def test_the_bytes_of_an_array() -> None:
    assert byte_range(_view("f4", (3, 4), (-32, 4))) == (-64, 16)
    assert byte_range(_view("f8", (), ())) == (0, 8)
    assert byte_range(_view("f8", (3, 0), (0, 8))) == (0, 0)


# -- listings -----------------------------------------------------------------------------------


@pytest.mark.needs_compiler
def test_the_source_of_a_kernel(device: Device) -> None:
    x = np.zeros(10, np.float32)
    text = pt.lang.source(axpy, 2.0, x, x.copy(), device=device)
    assert "axpy" in text
    assert "test_launch.py" in text
    wide = pt.lang.source(axpy[64, 32], 2.0, x.astype("f8"), x.astype("f8"), device=device)
    assert "double" in wide


def test_the_simulator_has_no_source() -> None:
    x = np.zeros(10, np.float32)
    with pytest.raises(pt.errors.UnsupportedError, match="another device"):
        pt.lang.source(axpy, 2.0, x, x.copy(), device="simulator")


# -- printing -----------------------------------------------------------------------------------


@pt.kernel
def chatty(x):
    i = kl.global_id(0)
    if i == 1:
        kl.print("item", i, "has", x[i], "of 100%", kl.i64(7), (x[i] > 1, 3))


def test_printing_does_no_harm(device: Device, capfd: pytest.CaptureFixture[str]) -> None:
    run(device, chatty[2, 2], np.array([1, 2.5], np.float32))
    text = capfd.readouterr().out
    if device.backend == "simulator":
        assert "item 1 has 2.5 of 100% 7 (True, 3)" in text
