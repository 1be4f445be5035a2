"""The wave equation in two dimensions: a struct of parameters, tiles with a halo, a boundary."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable import primitives, registry
from portable.backend import Device
from tests.gradients.test_tape import assert_taped
from tests.support.differences import assert_gradients

pytestmark = pytest.mark.needs_float64
T = 4


class Medium(NamedTuple):
    """What waves run through."""

    speed: Any
    damping: Any
    dt: Any


@pt.function
def at(u, i, j, edge):
    """The element, or its mirror image with a factor beyond the boundary."""
    if i < 0 or j < 0 or i >= u.shape[0] or j >= u.shape[1]:
        return edge * u[kl.clip(i, 0, u.shape[0] - 1), kl.clip(j, 0, u.shape[1] - 1)]
    return u[i, j]


@pt.kernel
def wave(medium, edge, before, now, after, *, T):
    tile = kl.local((T + 2, T + 2), now.dtype)
    i, j = kl.global_id(1), kl.global_id(0)
    r, q = kl.local_id(1) + 1, kl.local_id(0) + 1
    tile[r, q] = at(now, i, j, edge)
    if r == 1:
        tile[0, q] = at(now, i - 1, j, edge)
        tile[T + 1, q] = at(now, i + T, j, edge)
    if q == 1:
        tile[r, 0] = at(now, i, j - 1, edge)
        tile[r, T + 1] = at(now, i, j + T, edge)
    kl.barrier()
    if i < now.shape[0] and j < now.shape[1]:
        around = tile[r - 1, q] + tile[r + 1, q] + tile[r, q - 1] + tile[r, q + 1]
        speed = medium.speed[i, j] * medium.dt
        change = speed * speed * (around - 4 * tile[r, q])
        velocity = (tile[r, q] - before[i, j]) * (1 - medium.damping * medium.dt)
        after[i, j] = tile[r, q] + velocity + change


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(0.2, 0.9, shape)


FOUND = [device.name for device in registry.devices() if device.capabilities.float64]


@pytest.mark.parametrize("where", FOUND)
def test_one_step_on_every_device_found(where: str) -> None:
    n, m = 10, 7
    medium = Medium(numbers(n, m), 0.3, 0.4)
    key = ((8, 12), (T, T))
    before, now = numbers(n, m, seed=1), numbers(n, m, seed=2)
    arrays = (before, now, np.zeros((n, m)))
    assert_gradients(where, wave, key, medium, 0.7, *arrays, T=T)


def test_many_steps_on_a_tape(device: Device) -> None:
    n, m = 5, 4

    def program(speed: Any, start: Any) -> Any:
        xp_zeros = [device.from_numpy(np.zeros((n, m))) for _ in range(6)]
        before, now = start, start
        for after in xp_zeros[:5]:
            wave[(4, 8), (T, T)](Medium(speed, 0.3, 0.4), 0.7, before, now, after, T=T)
            before, now = now, after
        return primitives.reduce(now, each=kl.square)

    assert_taped(device, program, numbers(n, m), numbers(n, m, seed=1))
