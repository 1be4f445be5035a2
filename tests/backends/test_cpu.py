"""NumPy arrays as kernel arguments, on each OpenCL runtime for the processor."""

from __future__ import annotations

import gc
import mmap
from typing import Any

import numpy as np
import pytest

from portable import registry
from portable.backend import Device
from portable.dtypes import float64
from portable.errors import DeviceMismatchError, ShapeError
from tests.support.axpy import run


@pytest.fixture(params=[d.name for d in registry.devices_of_backend("cpu")])
def cpu(request: pytest.FixtureRequest) -> Device:
    return registry.device(request.param)


def test_kernels_work_in_place_and_are_finished_on_return(cpu: Device) -> None:
    x, y = np.zeros(50_000, np.float32), np.ones(50_000, np.float32)
    run(cpu, (x, y), 4.0, 50_000)
    np.testing.assert_array_equal(x, np.float32(4))


def test_arrays_that_are_not_small_begin_where_lines_of_caches_do(cpu: Device) -> None:
    source = np.arange(120_000.0).reshape(300, 400)[:, ::2]
    for made in (cpu.empty((300, 200), float64), cpu.from_numpy(source)):
        assert cpu.view(made).address % 64 == 0
        assert made.flags.c_contiguous
        assert made.flags.writeable
    np.testing.assert_array_equal(made, source)
    objects = np.array([None] * 3000)
    assert cpu.from_numpy(objects).tolist() == objects.tolist()


def test_views_of_views(cpu: Device) -> None:
    base = np.zeros((10, 100), np.float32)
    run(cpu, (base[3:][2, 10:], np.ones(90, np.float32)), 1.0, 90)
    assert base.sum() == 90
    assert base[5, 10:].all()


def test_memory_that_is_not_numpys(cpu: Device) -> None:
    with mmap.mmap(-1, 4096) as memory:
        x = np.frombuffer(memory, np.float32, offset=4, count=100)
        run(cpu, (x, np.ones(100, np.float32)), 1.0, 100)
        assert x.all()
        del x
        gc.collect()


def test_read_only_arrays_say_so_and_can_be_read(cpu: Device) -> None:
    x, y = np.zeros(10, np.float32), np.ones(10, np.float32)
    y.flags.writeable = False
    assert cpu.view(x).writable
    assert not cpu.view(y).writable
    run(cpu, (x, y), 1.0, 10)
    np.testing.assert_array_equal(x, y)


def test_an_array_that_was_resized_is_found_again(cpu: Device) -> None:
    x, y = np.zeros(10, np.float32), np.ones(1 << 20, np.float32)
    run(cpu, (x, y), 1.0, 10)
    x.resize((1 << 20,), refcheck=False)
    run(cpu, (x, y), 1.0, 1 << 20)
    assert (x[:10] == 2).all()
    assert (x[10:] == 1).all()


def test_memory_used_again_by_another_array(cpu: Device) -> None:
    for n in range(1, 200):
        x = np.zeros(n, np.float32)
        run(cpu, (x, np.ones(n, np.float32)), 1.0, n)
        assert x.all()


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_arrays_without_elements_can_be_described(cpu: Device, shape: tuple[int, ...]) -> None:
    assert cpu.view(np.zeros(shape, np.float32)).shape == shape


def test_unaligned_arrays_are_refused(cpu: Device) -> None:
    unaligned = np.zeros(17, np.uint8)[1:].view(np.float32)
    with pytest.raises(ShapeError, match="not aligned"):
        cpu.view(unaligned)


class Foreign:
    """Another library's array: only the DLPack protocol."""

    def __init__(self, array: Any, kind: int | None = None) -> None:
        self._array = array
        self._kind = kind

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__() if self._kind is None else (self._kind, 0)


class Old(Foreign):
    """As it was before the protocol could say that memory is read-only."""

    def __dlpack__(self, **_options: Any) -> Any:
        return self._array.__dlpack__()


def test_foreign_host_memory_is_shared(cpu: Device) -> None:
    x = np.zeros(10, np.float32)
    run(cpu, (cpu.adopt(Foreign(x)), np.ones(10, np.float32)), 1.0, 10)
    assert x.all()


def test_foreign_read_only_memory_stays_read_only(cpu: Device) -> None:
    x = np.zeros(10, np.float32)
    x.flags.writeable = False
    assert not cpu.view(cpu.adopt(Foreign(x))).writable


def test_memory_of_older_pytorch_is_writable(cpu: Device) -> None:
    x = np.zeros(10, np.float32)
    parts = {"__module__": "torch", "numpy": lambda self: self._array}
    Tensor = type("Tensor", (Old,), parts)
    shared = cpu.adopt(Tensor(x))
    assert shared.flags.writeable
    assert np.shares_memory(shared, x)


def test_memory_of_a_gpu_is_refused(cpu: Device) -> None:
    with pytest.raises(DeviceMismatchError, match="not in host memory"):
        cpu.adopt(Foreign(np.zeros(3), kind=2))
