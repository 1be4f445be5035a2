"""What `portable tune svdvals` searches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from portable.backend import Capabilities, Device
from portable.dtypes import DType, float32, float64
from portable.linalg.dense.shapes import SPACE
from portable.linalg.singular_values.svdvals import Asked, in_stages
from portable.tune.space import Parameters
from portable.tune.tunable import Size, Tunable, parse_extents

_TOLERANCE: Final = {float32: 2e-6, float64: 1e-13}


class _Spectrum:
    """A random matrix on a device, judged by its sums of second and fourth powers."""

    def __init__(self, device: Device, dtype: DType, size: Size) -> None:
        a = np.random.default_rng(1).standard_normal(size).astype(dtype.numpy)
        gram = a.astype(np.float64) @ a.T.astype(np.float64)
        self._sums = np.array([np.trace(gram), np.sum(gram * gram)])
        self._device = device
        self._room = _TOLERANCE[dtype]
        self._a = device.from_numpy(a)
        self._unset = np.full((1, min(size)), np.nan, dtype.numpy)
        self._values = device.from_numpy(self._unset)

    def run(self, choice: Parameters) -> None:
        """Enqueues the three stages."""
        in_stages(Asked(self._device, self._a, self._values, check_finite=False), choice)

    def error(self) -> float:
        """The error of the last result, after which the result is NaN again."""
        values = self._device.to_numpy(self._values)[0].astype(np.float64)
        self._values = self._device.from_numpy(self._unset)
        errors = np.abs(np.array([np.sum(values**2), np.sum(values**4)]) / self._sums - 1)
        return float(np.max(errors)) / (4 * self._room)


def _sizes(capabilities: Capabilities) -> Sequence[Size]:
    edges = (1024, 256) if capabilities.single_work_items else (4096, 1024)
    return [(n, n) for n in edges]


def _flops(size: Size) -> float:
    n, m = sorted(size)
    return 4.0 * n * n * (m - n / 3)


_parse: Final = partial(parse_extents, axes="MxN", example="1024 or 2000x1000")

TUNABLE: Final = Tunable(SPACE, (float32, float64), _sizes, _parse, _flops, _Spectrum)
"""Bandwidth and panels of `portable.linalg.svdvals`."""
