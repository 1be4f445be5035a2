"""The simulator as a device."""

from __future__ import annotations

import numpy as np
import pytest

import portable
from portable import dtypes as dt
from portable.backend import Program
from portable.errors import DeviceError, UnsupportedError
from portable.sim.errors import UninitialisedReadError
from portable_backends.simulator.backend import SimulatorBackend
from sim.build import K, global_array

X, OUT = global_array("x", dt.int32), global_array("out", dt.int32)


def _copy() -> K:
    k = K(X, OUT)
    k.store(OUT, k.gid, k.load(X, k.gid))
    return k


def test_launch() -> None:
    device = SimulatorBackend().devices()[0]
    x = device.from_numpy(np.arange(8, dtype=np.int32))
    out = device.empty((8,), dt.int32)
    run = device.interpret(_copy().build())
    run.launch((2, 1, 1), [x, out])
    device.synchronize()
    assert device.to_numpy(out).tolist() == list(range(8))
    new = device.empty((8,), dt.int32)
    with pytest.raises(UninitialisedReadError):
        run.prepare((2, 1, 1), [new, out])()


def test_views_and_ownership() -> None:
    device = SimulatorBackend().devices()[0]
    x = np.zeros((4, 6), np.float32)[::2, 1:]
    view = device.view(x)
    assert (view.shape, view.strides, view.handle is x) == ((2, 5), (48, 4), True)
    assert device.owns(x)
    assert not device.owns([1])
    assert device.namespace().asarray([1]).tolist() == [1]


def test_generated_source_is_refused() -> None:
    device = SimulatorBackend().devices()[0]
    with pytest.raises(UnsupportedError, match="not their opencl source"):
        device.compile(Program("", "f", "opencl", (), (1, 1, 1), 0, False, ()))


def test_sub_group_size_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTABLE_SIM_SUB_GROUP_SIZE", "32")
    assert SimulatorBackend().devices()[0].capabilities.sub_group_size == 32
    monkeypatch.setenv("PORTABLE_SIM_SUB_GROUP_SIZE", "7")
    with pytest.raises(DeviceError, match="one of 1, 8, 16, 32, 64"):
        SimulatorBackend().devices()


def test_arrays_of_its_own() -> None:
    numpy_arrays, arrays = SimulatorBackend().devices()
    assert numpy_arrays.for_arrays() is arrays
    assert arrays.for_arrays() is arrays
    x = arrays.from_numpy(np.arange(6, dtype=np.int32).reshape(2, 3))
    assert arrays.owns(x)
    assert numpy_arrays.owns(x)  # and kernels take both
    assert arrays.to_numpy(x[:, ::-2]).tolist() == [[2, 0], [5, 3]]
    assert arrays.from_numpy(np.zeros((0, 2))).shape == (0, 2)


def test_arrays_run_under_the_checks() -> None:
    xp = portable.xp("simulator")
    with pytest.raises(UninitialisedReadError):
        xp.empty(8, dtype=xp.float32) + 1
