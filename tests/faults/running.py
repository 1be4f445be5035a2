"""Lists the runs of the simulator, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import portable as pt
from portable.backend import Device
from portable.dtypes import dtype, float32

RUNS: Final[dict[str, Callable[[str], None]]] = {}
"""The runs by name; each is given the name of the device to run on."""


def run(function: Callable[[], None]) -> Callable[[], None]:
    """Lists a run under its function's name."""

    def on(device: str) -> None:
        with pt.use(device):
            function()

    RUNS[function.__name__] = on
    return function


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def device() -> Device:
    """The one in use: the simulator, as itself or in the place of another."""
    return pt.device()


def empty(*shape: int, kind: Any = float32) -> Any:
    """Memory that nothing has written."""
    return device().empty(shape, dtype(kind))


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
