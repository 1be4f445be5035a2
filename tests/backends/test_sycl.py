"""What launches through SYCL wait for, and what they keep alive."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable import registry
from portable.errors import CompileError, UnsupportedError

DEVICES = registry.devices_of_backend("sycl")
pytestmark = pytest.mark.skipif(not DEVICES, reason="no device of SYCL")
on_devices = pytest.mark.parametrize("queued", DEVICES, ids=lambda d: d.name)


@pt.kernel
def count_up(x, rounds):
    """One work-item adds 1 to the first element, after some rounds that take time."""
    if kl.global_id(0) == 0:
        wasted = x[0]
        for _ in range(rounds):
            wasted = wasted * 0.75 + x[0]
        x[0] = x[0] + 1 + kl.where(wasted < 0, wasted, 0)


def zeros(device: Any) -> Any:
    return device.from_numpy(np.zeros(4, np.float32))


@on_devices
def test_arguments_are_kept_until_the_next_look_at_a_finished_launch(queued: Any) -> None:
    x = zeros(queued)
    queued.synchronize()
    memory = x.get_array().usm_data
    before = sys.getrefcount(memory)
    count_up[1, 1](x, 1000)
    assert len(queued.in_flight) == 1
    assert sys.getrefcount(memory) > before
    queued.synchronize()
    assert len(queued.in_flight) == 0
    assert sys.getrefcount(memory) == before


@on_devices
def test_room_for_arrays_is_made_of_what_is_done(queued: Any) -> None:
    x = zeros(queued)
    count_up[1, 1](x, 1)
    assert queued.to_numpy(x)[0] == 1  # so that it is done
    queued.empty((4,), pt.float32)
    assert len(queued.in_flight) == 0


@on_devices
def test_launches_wait_for_few_events_and_in_order_with_those_of_dpnp(queued: Any) -> None:
    from dpctl.utils import SequentialOrderManager

    x = zeros(queued)
    order = SequentialOrderManager[queued.sycl_queue]
    waited_for = []
    for number in range(60):
        count_up[1, 1](x, 5_000_000 if number == 0 else 1)
        waited_for.append(order.num_submitted_events)
        if number % 30 == 0:
            x *= 2
    expected = 0
    for number in range(60):
        expected = (expected + 1) * 2 if number % 30 == 0 else expected + 1
    assert queued.to_numpy(x)[0] == expected
    assert max(waited_for) <= 10


def lowered(device: Any, x: Any) -> Any:
    """What `count_up` is for a device."""
    with pt.use(device.name):
        return count_up[1, 1].lower(x, 1)


@on_devices
def test_programs_are_compiled_in_each_process(queued: Any) -> None:
    x = zeros(queued)
    launch = lowered(queued, x)
    assert not queued.keeps_programs
    assert not queued.program_facts()
    with pytest.raises(UnsupportedError, match="keeps no compiled programs"):
        queued.export(launch.program)
    broken = replace(launch.program, source="__kernel void count_up(")
    with pytest.raises(CompileError, match="refused kernel"):
        queued.compile(broken)
