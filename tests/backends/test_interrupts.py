"""Ctrl-C between a launch's beginning and its end: no kernel is left with memory that goes away."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable import registry
from portable.backend import Device
from portable_backends.common import gate

_ROUNDS = 50_000_000
"""Take a tenth of a second, in which whoever does not wait goes on."""


@pt.kernel
def long(x: Any, rounds: int) -> None:
    i = kl.global_id(0)
    value = x[i]
    for _ in range(rounds):
        value = value * 0.5 + 1.0
    x[i] = value


def _interrupted_after(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        function(*args, **options)
        raise KeyboardInterrupt

    return call


class _Orders:
    """What dpctl keeps of a queue's events, with Ctrl-C before an event is taken up."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getitem__(self, queue: Any) -> _Orders:
        self.submitted_events = self._real[queue].submitted_events
        return self

    def add_event_pair(self, *_: Any) -> None:
        raise KeyboardInterrupt


def _interrupt(executable: Any) -> None:
    """Have Ctrl-C come right after the driver was given the kernel."""
    if hasattr(executable, "_orders"):
        executable._orders = _Orders(executable._orders)
    else:
        executable._enqueue = _interrupted_after(executable._enqueue)


def _processors() -> list[str]:
    """Devices that work in the host's memory, which goes away as soon as the caller frees it."""
    devices = (*registry.devices_of_backend("cpu"), *registry.devices_of_backend("sycl"))
    return [d.name for d in devices if d.name.startswith("cpu:") or d.name == "sycl:cpu"]


@pytest.fixture(params=_processors())
def processor(request: pytest.FixtureRequest) -> Device:
    return registry.device(request.param)


@pytest.mark.parametrize("prepared", [False, True])
def test_a_kernel_that_was_enqueued_is_done_when_ctrl_c_is_heard(
    processor: Device, prepared: bool
) -> None:
    x = processor.from_numpy(np.zeros(1, np.float32))
    lowered = long[1, 1].lower(x, _ROUNDS)
    _interrupt(lowered.executable)
    bind = lowered.executable.prepare if prepared else partial(partial, lowered.executable.launch)
    launch = bind(lowered.groups, lowered.arguments)
    with pytest.raises(KeyboardInterrupt):
        launch()
    address = processor.view(x).address  # a copy by the device might wait for the kernel
    assert ctypes.c_float.from_address(address).value == 2


@pytest.mark.needs_processor
def test_after_a_tenth_of_a_second_no_thread_is_made_to_listen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.zeros(1)  # in another precision than above, where the kernel is interrupted each time
    long[1, 1](x, _ROUNDS)
    monkeypatch.setattr(gate, "_Waiter", None)
    long[1, 1](x, _ROUNDS)
    assert x[0] == 2
