"""Arrays and devices through `copy` and `pickle`."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import portable
from portable.backend import Device

WAYS: list[Callable[[Any], Any]] = [
    copy.copy,
    copy.deepcopy,
    lambda x: pickle.loads(pickle.dumps(x)),
]


@pytest.mark.parametrize("way", WAYS, ids=["copy", "deepcopy", "pickle"])
def test_arrays(ours: Device, way: Callable[[Any], Any]) -> None:
    host = np.arange(12, dtype=np.int32).reshape(3, 4)
    x = ours.from_numpy(host)
    for view, expected in ((x, host), (x[::-1, 1::2], host[::-1, 1::2]), (x[1, 2], host[1, 2])):
        again = way(view)
        assert again.device is ours
        again += 1
        np.testing.assert_array_equal(portable.to_numpy(again), expected + 1)
    np.testing.assert_array_equal(portable.to_numpy(x), host)


def test_an_array_held_twice_is_copied_once(simulated: Device) -> None:
    x = simulated.from_numpy(np.ones(3))
    first, second = copy.deepcopy([x, x])
    assert first is second
    assert first is not x


@pytest.mark.parametrize("way", WAYS, ids=["copy", "deepcopy", "pickle"])
def test_devices(device: Device, way: Callable[[Any], Any]) -> None:
    assert way(device) is device
