"""Dask's arrays with blocks on a device, against NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import array
from portable.backend import Device
from portable.dtypes import float32
from portable.errors import UnsupportedError

da = pytest.importorskip("dask.array")
dask_arrays = pytest.importorskip("portable.dask_arrays")

HOST = np.random.default_rng(4).standard_normal((60, 80)).astype(np.float32)


def _twice(x: Any) -> Any:
    return x * 2 + 1


CASES: dict[str, Callable[[Any], Any]] = {
    "a map of blocks": lambda x: x.map_blocks(_twice) if hasattr(x, "chunks") else _twice(x),
    "elements": lambda x: np.sqrt(abs(x)) + x,
    "a sum": lambda x: x.sum(axis=0),
    "a sum of all": lambda x: x.sum(),
    "means": lambda x: x.mean(axis=1),
    "a mean of all": lambda x: x.mean(),
    "deviations": lambda x: x.std(axis=0),
    "a variance of all": lambda x: x.var(),
    "squares": lambda x: (x * x).mean(axis=0),
    "the greatest": lambda x: x.max(axis=1),
    "where the least are": lambda x: x.argmin(axis=0),
    "a product": lambda x: x @ x.T,
    "a slice": lambda x: x[3:51:2, ::-3],
    "a turn": lambda x: x.T,
    "a shape": lambda x: x.reshape(4800),
    "any": lambda x: (x > 2).any(axis=1),
}


@pytest.fixture
def joined(device: Device) -> Device:
    """A device whose arrays Dask can join."""
    kind = type(device.for_arrays().empty((0,), float32))
    if not issubclass(kind, array.Array) and not hasattr(kind, "__array_function__"):
        pytest.skip("Dask cannot join arrays of this device's library")
    return device


@pytest.mark.parametrize("name", CASES)
def test_blocks_on_a_device(joined: Device, name: str) -> None:
    device = joined
    x = dask_arrays.on_device(da.from_array(HOST, chunks=(25, 40)), device)
    lazy = CASES[name](x)
    found = lazy.compute(scheduler="synchronous")
    assert device.for_arrays().owns(found) or isinstance(found, np.generic)
    expected = CASES[name](HOST)
    assert tuple(found.shape) == expected.shape
    np.testing.assert_allclose(pt.to_numpy(found), expected, rtol=1e-4, atol=1e-4)
    whole = dask_arrays.on_host(lazy).compute(scheduler="synchronous")
    assert isinstance(np.asarray(whole), np.ndarray)


def test_other_chunks_on_two_threads(joined: Device) -> None:
    device = joined
    x = dask_arrays.on_device(da.from_array(HOST, chunks=(25, 40)), device)
    found = (x.rechunk((60, 20)) * 2).sum(axis=0)
    host = dask_arrays.on_host(found).compute(scheduler="threads", num_workers=2)
    np.testing.assert_allclose(host, (HOST * 2).sum(axis=0), rtol=1e-4, atol=1e-4)


def test_libraries_that_dask_cannot_join_are_refused(device: Device) -> None:
    kind = type(device.for_arrays().empty((0,), float32))
    if issubclass(kind, array.Array) or hasattr(kind, "__array_function__"):
        pytest.skip("Dask can join this device's arrays")
    with pytest.raises(UnsupportedError, match="Dask cannot join arrays of"):
        dask_arrays.on_device(da.from_array(HOST, chunks=(25, 40)), device)


def test_arrays_that_are_not_dasks_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"not ndarray; dask\.array\.from_array\(x\) makes one"):
        dask_arrays.on_device(HOST, "simulator")
