"""Small kernels started in three ways: by a call, prepared, and by the library beneath."""

from __future__ import annotations

from functools import partial
from typing import Any

from portable import kernel
from portable import lang as kl
from portable.backend import Device
from portable_bench.operation import Run
from portable_bench.raw import raw_launch

__all__ = ["called", "prepared", "raw"]


@kernel
def fill(x: Any) -> None:
    """One argument."""
    i = kl.global_id(0)
    if i < x.shape[0]:
        x[i] = 2.0


@kernel
def saxpy(a: Any, x: Any, y: Any, z: Any) -> None:
    """Three arrays and a number."""
    i = kl.global_id(0)
    if i < z.shape[0]:
        z[i] = a * x[i] + y[i]


def called(*arrays: Any) -> Run:
    """A launch as users write it."""
    launch, args = _launch(*arrays)
    return partial(launch, *args)


def prepared(*arrays: Any) -> Run:
    """A launch whose arguments are bound beforehand."""
    launch, args = _launch(*arrays)
    run: Run = launch.prepare(*args)
    return run


def raw(device: Device, *arrays: Any) -> Run:
    """The same generated program, started by the library's own means."""
    launch, args = _launch(*arrays)
    return raw_launch(device, launch.lower(*args), arrays)


def _launch(*arrays: Any) -> tuple[Any, tuple[Any, ...]]:
    """The last array is what the kernel writes."""
    n = arrays[-1].shape[0]
    if len(arrays) == 1:
        return fill[n, n], arrays
    return saxpy[n, n], (2.0, *arrays)
