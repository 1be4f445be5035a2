"""What every device owes the language, on every device found here."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

from portable import dtypes, namespace
from portable.backend import Device
from portable.errors import CompileError, LaunchError, OutOfMemoryError, ShapeError
from tests.support.axpy import GROUP, axpy, bind, groups, run
from tests.support.patience import PATIENCE

needs_compiler = pytest.mark.needs_compiler


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if d.name != "float16"], ids=repr)
@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (2, 0, 3)], ids=str)
def test_copies_to_the_device_and_back(
    device: Device, dtype: dtypes.DType, shape: tuple[int, ...]
) -> None:
    array = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype.numpy)
    back = device.to_numpy(device.from_numpy(array))
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_from_numpy_copies_also_what_is_not_contiguous(device: Device) -> None:
    array = np.arange(24.0, dtype=np.float32).reshape(4, 6)
    made = device.from_numpy(array[::-1, ::2])
    array[:] = 0
    np.testing.assert_array_equal(device.to_numpy(made)[:, 0], [18, 12, 6, 0])


def test_empty_is_contiguous_and_owned(device: Device) -> None:
    made = device.empty((2, 3), dtypes.float64)
    assert device.owns(made)
    view = device.view(made)
    assert (view.shape, view.strides, view.dtype) == ((2, 3), (24, 8), np.dtype(np.float64))


@pytest.mark.parametrize("shape", [(2**62,), (2**31, 2**32), (0, 2**70)], ids=str)
def test_more_memory_than_there_can_be_is_refused(device: Device, shape: tuple[int, ...]) -> None:
    with pytest.raises(OutOfMemoryError, match="larger than any memory"):
        device.empty(shape, dtypes.float32)
    for make in ("empty", "zeros"):
        with pytest.raises(OutOfMemoryError, match="larger than any memory"):
            getattr(namespace.xp(device), make)(shape)


def test_more_memory_than_there_is_is_refused(device: Device) -> None:
    with pytest.raises(OutOfMemoryError):
        device.empty((2**40, 2), dtypes.float64)


def test_negative_extents_are_refused(device: Device) -> None:
    with pytest.raises(ShapeError, match="negative extents"):
        device.empty((2, -1), dtypes.float32)


def test_does_not_own_a_list(device: Device) -> None:
    assert not device.owns([1, 2])


def test_views_share_memory_and_say_where_they_are(device: Device) -> None:
    made = device.from_numpy(np.zeros((4, 6), np.float32))
    whole, part = device.view(made), device.view(made[1:, ::-2])
    assert part.shape == (3, 3)
    assert part.strides == (24, -8)
    assert part.address - whole.address == 24 + 20
    assert part.owner == whole.owner


@needs_compiler
def test_runs_a_kernel_on_views(device: Device) -> None:
    x = device.from_numpy(np.zeros(200, np.float32))
    y = device.from_numpy(np.arange(200, dtype=np.float32))
    run(device, (x[100:], y[30:]), 2.0, 90)
    expected = np.zeros(200, np.float32)
    expected[100:190] = 2 * np.arange(30, 120)
    np.testing.assert_array_equal(device.to_numpy(x), expected)


@needs_compiler
def test_launches_keep_their_order(device: Device) -> None:
    executable = device.compile(axpy(device))
    x = device.from_numpy(np.ones(1000, np.float32))
    for _ in range(20):
        executable.launch(groups(1000), bind(device, x, x, 1.0, 1000))
    device.synchronize()
    np.testing.assert_array_equal(device.to_numpy(x), np.float32(2**20))


@needs_compiler
def test_a_prepared_launch_repeats(device: Device) -> None:
    x = device.from_numpy(np.zeros(100, np.float32))
    y = device.from_numpy(np.ones(100, np.float32))
    executable = device.compile(axpy(device))
    prepared = executable.prepare(groups(100), bind(device, x, y, 0.5, 100))
    executable.launch(groups(100), bind(device, x, y, 10.0, 1))
    for _ in range(6):
        prepared()
    result = device.to_numpy(x)
    assert (result[0], result[1]) == (13.0, 3.0)


@needs_compiler
def test_launches_from_threads_do_not_mix_their_arguments(device: Device) -> None:
    executable = device.compile(axpy(device))
    y = device.from_numpy(np.ones(GROUP, np.float32))
    outputs = [device.from_numpy(np.zeros(GROUP, np.float32)) for _ in range(4)]

    def work(k: int) -> None:
        for _ in range(25):
            executable.launch((1, 1, 1), bind(device, outputs[k], y, float(k + 1), GROUP))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    device.synchronize()
    for k, output in enumerate(outputs):
        np.testing.assert_array_equal(device.to_numpy(output), np.float32(25 * (k + 1)))


@needs_compiler
def test_a_compiler_error_carries_source_and_log(device: Device) -> None:
    source = "this is no program"
    with pytest.raises(CompileError) as caught:
        device.compile(axpy(device, source=source))
    assert caught.value.source == source
    assert "error" in caught.value.log
    assert "axpy" in str(caught.value)


@needs_compiler
def test_remarks_of_compilers_are_not_printed(
    device: Device, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if device.capabilities.dialect == "llvm":
        pytest.skip("LLVM's text has no words for remarks")
    monkeypatch.setenv("PORTABLE_CACHE", "0")  # else nothing is compiled the next time
    device.compile(axpy(device, source=f"#warning noise\n{axpy(device).source}"))
    said = capfd.readouterr()
    assert "warning" not in said.out + said.err


@needs_compiler
def test_a_workgroup_beyond_the_device_is_refused(device: Device) -> None:
    most = device.capabilities.max_workgroup
    with pytest.raises(LaunchError, match=f"at most {most}"):
        device.compile(axpy(device, workgroup=2 * most))


def test_more_memory_than_there_is(device: Device) -> None:
    with pytest.raises(OutOfMemoryError):
        device.empty((1 << 50,), dtypes.float32)


@needs_compiler
def test_marks_measure_a_positive_time(device: Device) -> None:
    x = device.from_numpy(np.zeros(100_000, np.float32))
    executable = device.compile(axpy(device))
    arguments = bind(device, x, x, 1.0, 100_000)
    first = device.mark()
    executable.launch(groups(100_000), arguments)
    assert 0 < device.mark().seconds_after(first) < PATIENCE
    executable.launch(groups(100_000), arguments)
    device.synchronize()


@needs_compiler
def test_launching_keeps_no_array_alive(device: Device) -> None:
    x = device.from_numpy(np.zeros(100, np.float32))
    run(device, (x, x), 1.0, 100)
    device.synchronize()
    try:
        watched = weakref.ref(x)
    except TypeError:
        pytest.skip("arrays of this device cannot be watched")
    del x
    gc.collect()
    assert watched() is None


@pytest.mark.needs_namespace
def test_namespace_creates_arrays_of_the_device(device: Device) -> None:
    from portable.namespace import device_of, xp

    made = xp(device).ones((2, 3), dtype=xp(device).float32)
    device = device.for_arrays()
    assert device.owns(made)
    np.testing.assert_array_equal(device.to_numpy(made + made), np.full((2, 3), 2, np.float32))
    if not isinstance(made, np.ndarray):
        assert device_of(made, 2.0, made) is device
