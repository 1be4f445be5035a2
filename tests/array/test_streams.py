"""What operations keep between launches is each stream's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable.backend import Device
from portable.primitives.base.storage import ByQueue, zeros_by_queue
from portable.primitives.scans.board_kernels import kept_state


class _Recipe:
    """Keeps what a recipe would ask for in each run."""

    find: Callable[[], Any]

    def found(self, find: Callable[[], Any]) -> Any:
        self.find = find
        return find()


def test_each_stream_has_its_own_state(device: Device) -> None:
    recipe = _Recipe()
    first = kept_state(recipe, device, 10, 4)  # type: ignore[arg-type]
    zeros = zeros_by_queue(device, 4)
    stream = pt.Stream(device)
    with stream:
        second, others = recipe.find(), zeros()
        assert recipe.find() is second
    assert recipe.find() is first
    assert (second is not first) == device.capabilities.streams
    assert (others is not zeros()) == device.capabilities.streams


def test_what_is_made_for_a_queue_is_made_once(device: Device) -> None:
    made: list[int] = []
    kept = ByQueue(device, lambda: made.append(1) or len(made))  # type: ignore[func-returns-value]
    assert [kept(), kept()] == [1, 1]


@pytest.mark.needs_namespace
def test_operations_in_streams_side_by_side(device: Device) -> None:
    xp = pt.xp(device)
    n = 2000 if device.interprets else 100_000
    held = [np.arange(k, n + k, dtype=np.int32) % 7 for k in range(2)]
    arrays = [device.for_arrays().from_numpy(x) for x in held]
    pt.synchronize()
    streams = [pt.Stream(device), pt.Stream(device)]
    for _ in range(1 if device.interprets else 10):
        found = []
        for stream, x in zip(streams, arrays, strict=True):
            with stream:
                found.append((xp.cumulative_sum(x), xp.sum(x)))
        for stream, (totals, total), x in zip(streams, found, held, strict=True):
            with stream:
                np.testing.assert_array_equal(pt.to_numpy(totals), np.cumsum(x))
                assert int(total) == x.sum()
