"""What NVIDIA's driver is told of arrays, without the driver."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from portable.backend import Argument, Box
from portable.dtypes import float16
from portable.errors import LaunchError
from portable_backends.common import tensor_maps

ARGUMENT = Argument("box", 0, 0, float16, Box((1, 2, 0), (64, 32, 1), (1, 2, 1), 8))
SHAPE, STRIDES = (3, 200, 100), (40_000, 2, 400)


class _Driver:
    """Stands for ``cuTensorMapEncodeTiled``."""

    def __init__(self, refuses: int = 0) -> None:
        self.told: list[Any] = []
        self.refuses = refuses

    def __call__(self, map_: int, *given: Any) -> int:
        assert map_ % 64 == 0
        ctypes.memset(map_, len(self.told) + 1, 128)
        self.told.append([list(x) if isinstance(x, ctypes.Array) else x for x in given])
        return self.refuses


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> _Driver:
    made = _Driver()
    monkeypatch.setattr(tensor_maps, "_encode", lambda: made)
    return made


def test_the_contiguous_dimension_comes_first(driver: _Driver) -> None:
    described = tensor_maps.describing(ARGUMENT, SHAPE, STRIDES)
    assert described(4096) == b"\1" * 128
    halves, swizzle, promoted = 6, 3, 3
    assert driver.told == [
        [halves, 3, 4096, [200, 100, 3], [400, 40_000], [64, 63, 1], [1, 2, 1], 0, swizzle,
         promoted, 0],
    ]  # fmt: skip


def test_addresses_are_described_once(driver: _Driver) -> None:
    described = tensor_maps.describing(ARGUMENT, SHAPE, STRIDES)
    found = [described(address) for address in (256, 512, 256)]
    assert found == [b"\1" * 128, b"\2" * 128, b"\1" * 128]


def test_what_the_driver_refuses_is_an_error(driver: _Driver) -> None:
    driver.refuses = 1
    with pytest.raises(LaunchError, match=r"refuses boxes of \(64, 32, 1\).*\(3, 200, 100\)"):
        tensor_maps.describing(ARGUMENT, SHAPE, STRIDES)(256)
