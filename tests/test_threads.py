"""Launches from eight threads at once, also where Python has no global lock."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable import linalg, primitives
from portable.backend import Device

THREADS = 8


@pt.kernel
def axpy(a: kl.Scalar, x: kl.Array, y: kl.Array) -> None:
    i = kl.global_id(0)
    if i < y.shape[0]:
        y[i] = a * x[i] + y[i]


@pt.kernel
def sums(x: kl.Array, y: kl.Array, *, N: int) -> None:
    line = kl.local((N,), x.dtype)
    line[kl.local_id(0)] = x[kl.global_id(0)]
    kl.barrier()
    if kl.local_id(0) == 0:
        total = kl.cast(0, x.dtype)
        for i in range(N):
            total += line[i]
        y[kl.group_id(0)] = total


def at_once(work: Callable[[int], None]) -> None:
    """Calls it in each thread, with the thread's number; an error there is one here."""
    begin = Barrier(THREADS)

    def run(number: int) -> None:
        begin.wait()
        work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(run, range(THREADS)))


def results(device: Device, number: int, turn: int) -> None:
    """Kernels and operations of sizes and dtypes that threads share in part."""
    kind = ("float32", "int32")[(number + turn) % 2]
    n = 8 * (1 + (number + turn) % 3)
    a = np.random.default_rng(number).integers(0, 9, (n, n)).astype(kind)
    x, y, z = (device.from_numpy(part) for part in (a[0], a[1], np.zeros(n // 8, kind)))
    axpy[n, 8](number, x, y)
    sums[n, 8](x, z, N=8)
    np.testing.assert_array_equal(device.to_numpy(y), number * a[0] + a[1])
    np.testing.assert_array_equal(device.to_numpy(z), a[0].reshape(-1, 8).sum(1))
    ordered: Any = primitives.sort(device.from_numpy(a[2]))
    np.testing.assert_array_equal(device.to_numpy(ordered), np.sort(a[2]))
    if kind == "float32":
        left = device.from_numpy(a)
        np.testing.assert_array_equal(device.to_numpy(linalg.gemm(left, left)), a @ a)


def test_launches_from_eight_threads(device: Device) -> None:
    def work(number: int) -> None:
        with pt.use(device):
            for turn in range(2 if device.interprets else 6):
                results(device, number, turn)

    at_once(work)


def test_without_a_global_lock() -> None:
    locked = getattr(sys, "_is_gil_enabled", lambda: True)
    if locked():
        pytest.skip("this Python has a global lock")
    device = pt.device("cpu:native")
    at_once(lambda number: [results(device, number, turn) for turn in range(200)] and None)
    assert not locked()
