"""Capsules of memory that Portable lends, which NumPy takes over where it is the host's."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from portable.array.base.conversion import capsule
from portable.backend import Device
from portable.dtypes import DType, dtype


class Owner:
    """Memory of which one can see whether somebody still has it."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.values = values


class Lender:
    """An array as `numpy.from_dlpack` asks for it."""

    def __init__(self, x: np.ndarray[Any, Any], owner: Owner) -> None:
        self.x, self.owner = x, owner

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, *, max_version: Any = None, **_: Any) -> Any:
        offset = self.x.ctypes.data - self.owner.values.ctypes.data
        extents = self.x.shape, self.x.strides
        address = self.owner.values.ctypes.data
        kind: DType = dtype(self.x.dtype)
        return capsule(address, kind, extents, offset, (1, 0), self.owner, max_version)


@pytest.mark.parametrize("kind", ["int8", "uint64", "float16", "float64", "complex64", "bool"])
@pytest.mark.parametrize("view", [..., (slice(None, None, -1), slice(1, None, 3)), (1, 2, ...)])
def test_numpy_takes_memory_over_until_it_lets_go(kind: str, view: Any) -> None:
    values = (np.arange(777).reshape(7, 111) % 5).astype(kind)
    owner = Owner(values)
    seen, lender = weakref.ref(owner), Lender(values[view], owner)
    taken = np.from_dlpack(lender)
    np.testing.assert_array_equal(taken, values[view])
    assert np.shares_memory(taken, values)
    del owner, lender
    gc.collect()
    assert seen() is not None
    del taken
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 1)])
def test_a_capsule_that_nobody_takes_lets_go(version: tuple[int, int] | None) -> None:
    values = np.ones((0, 3))
    owner = Owner(values)
    seen = weakref.ref(owner)
    made = Lender(values, owner).__dlpack__(max_version=version)
    versioned = "versioned" in repr(made)
    assert versioned == (version is not None and version[0] >= 1)
    del owner
    gc.collect()
    assert seen() is not None
    del made
    gc.collect()
    assert seen() is None


def test_memory_of_a_device_is_lent_as_it_is(device: Device) -> None:
    x = device.from_numpy(np.arange(12.0).reshape(3, 4))
    if not hasattr(x, "viewed") or x.__dlpack_device__()[0] == 1:
        pytest.skip(f"{device.name} has the memory of the host, or another library's arrays")
    for options in ({}, {"copy": False}, {"copy": True}, {"dl_device": x.__dlpack_device__()}):
        assert "dltensor" in repr(x[1:, ::2].__dlpack__(**options))
    with pytest.raises((BufferError, RuntimeError)):
        np.from_dlpack(x)
