"""Kernels lowered for devices without matrix units or asynchronous copies mean the same."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from portable import sim
from portable.lang.ir.kernel import Kernel
from portable.lang.tiles import lower
from portable.sim.errors import OutOfBoundsError
from portable_backends.simulator.backend import SimulatorDevice
from sim.test_copies import bulk, pipeline
from sim.test_fragments import SCOPES, product

_PLAIN = dataclasses.replace(
    SimulatorDevice().capabilities, dialect="opencl", async_copy=frozenset(), sub_group_size=8
)
_DEVICES = {
    "plain": _PLAIN,
    "cpu": dataclasses.replace(_PLAIN, kind="cpu", vector_bytes=32),
}


def _both(kernel: Kernel, target: str, groups: int, *arguments: Any) -> tuple[Any, Any]:
    """The last argument as the kernel and its lowered twin leave it."""
    found = []
    for one in (kernel, lower(kernel, _DEVICES[target])):
        copies = [np.array(x) for x in arguments]
        sim.run(one, (groups, 1, 1), copies)
        found.append(copies[-1])
    return found[0], found[1]


@pytest.mark.parametrize("target", _DEVICES)
def test_copies(target: str) -> None:
    kernel, _, _ = pipeline(1, True)
    x = np.arange(8, dtype=np.int32)
    plain, lowered = _both(kernel.build(), target, 1, x, np.zeros(4, np.int32))
    assert (plain == lowered).all()


@pytest.mark.parametrize("target", _DEVICES)
def test_bulk_copies_of_several_rows(target: str) -> None:
    """The loop in their place counts on from row to row; beyond the last one is out of bounds."""
    x = np.arange(16, dtype=np.int32).reshape(4, 4)
    plain, lowered = _both(bulk().build(), target, 1, x, np.zeros(16, np.int32))
    assert (plain == np.arange(16)).all()
    assert (lowered == np.arange(16)).all()
    with pytest.raises(OutOfBoundsError):
        sim.run(lower(bulk().build(), _DEVICES[target]), (1, 1, 1), [x[:3], np.zeros(16, np.int32)])


@pytest.mark.parametrize("target", _DEVICES)
@pytest.mark.parametrize("scope", SCOPES)
def test_products(scope: str, target: str) -> None:
    rows = 4 * {"work_item": 32, "sub_group": 4, "workgroup": 2}[scope] - 3
    rng = np.random.default_rng(2)
    shapes = (rows, 6), (6, 5), (rows, 5)
    a, b, c = (rng.integers(-4, 5, shape).astype(np.float32) for shape in shapes)
    plain, lowered = _both(product(scope).build(), target, 2, a, b, c)
    assert (plain == lowered).all()
