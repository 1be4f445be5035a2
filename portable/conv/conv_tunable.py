"""What `portable tune conv` searches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from portable.backend import Capabilities, Device
from portable.conv.boxes import boxes
from portable.conv.direct import Gathered
from portable.conv.geometry import TAPS, Geometry, geometry
from portable.conv.method import Method
from portable.conv.tuning import SPACE, entry_of
from portable.conv.winograd import Winograd
from portable.dtypes import DType, float16, float32, float64
from portable.linalg.gemm_kernels import keep
from portable.tune.space import Parameters
from portable.tune.tunable import Size, Tunable, parse_extents

__all__ = ["TUNABLE"]

_ALLOWED: Final = {float16: 1e-3, float32: 1e-5, float64: 1e-13}
"""Errors relative to ``|w| * |x|``."""

_PLANES: Final = 3


class _Images:
    """Random images and filters of 3 x 3; half precision in the order that suits it, NHWC."""

    def __init__(self, device: Device, dtype: DType, size: Size) -> None:
        c, h, w, k, n = size
        random = np.random.default_rng(1)
        x = random.standard_normal((n, c, h, w)).astype(dtype.numpy)
        filters = random.standard_normal((k, c, TAPS, TAPS)).astype(dtype.numpy)
        self._layout: Any = "NHWC" if dtype is float16 else "NCHW"
        self._device, self._dtype = device, dtype
        self._shape = geometry(x.shape, filters.shape, (1, 1), (0, 0), (1, 1), 1)
        self._check = _Planes(x, filters, _ALLOWED[dtype])
        self._filters = device.from_numpy(filters)
        self._x = self._laid_out(x)
        self._unset = np.full((n, k, h - TAPS + 1, w - TAPS + 1), np.nan, dtype.numpy)
        self._out = self._laid_out(self._unset)
        self._ready: tuple[Parameters, Method, Any, Any] | None = None

    def _laid_out(self, x: Any) -> Any:
        if self._layout == "NHWC":
            x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        return self._device.from_numpy(x)

    def run(self, choice: Parameters) -> None:
        """Enqueues the convolution; filters and workspace are made once for a choice."""
        if self._ready is None or self._ready[0] != choice:
            method = _method(self._device, self._shape, self._dtype, self._layout, choice)
            count = method.workspace()[0]
            workspace = self._device.empty((count,), method.workspace_kind) if count else None
            self._ready = choice, method, method.filters(self._filters), workspace
        _, method, filters, workspace = self._ready
        method.run(self._x, filters, self._out, None, keep, workspace)

    def error(self) -> float:
        """The error of the last result, after which the result is NaN again."""
        found = self._device.to_numpy(self._out)
        self._out = self._laid_out(self._unset)
        return self._check.error(found.transpose(0, 3, 1, 2) if self._layout == "NHWC" else found)


def _method(
    device: Device, shape: Geometry, dtype: DType, layout: Any, choice: Parameters
) -> Method:
    """The algorithm of a choice, with its parameters."""
    algorithm = choice["ALGORITHM"]
    if algorithm == "direct":
        found = boxes(device, shape, dtype, layout, choice)
        return found or Gathered(device, shape, dtype, layout, choice)
    return Winograd(device, shape, dtype, layout, choice, results=int(algorithm[-1]))


class _Planes:
    """Some planes of results, by the sums of the definition in double precision."""

    def __init__(self, x: Any, w: Any, allowed: float) -> None:
        random = np.random.default_rng(2)
        counts = x.shape[0], w.shape[0]
        self._at = [tuple(int(random.integers(n)) for n in counts) for _ in range(_PLANES)]
        self._expected = [_plane(x[n], w[k]) for n, k in self._at]
        self._most = [allowed * float(_plane(abs(x[n]), abs(w[k])).max()) for n, k in self._at]

    def error(self, found: Any) -> float:
        """The largest error over what is allowed."""
        errors = [
            float(np.abs(found[at] - plane).max()) / most
            for at, plane, most in zip(self._at, self._expected, self._most, strict=True)
        ]
        return max(errors) if np.isfinite(errors).all() else float("inf")


def _plane(x: Any, w: Any) -> Any:
    height, width = x.shape[1] - TAPS + 1, x.shape[2] - TAPS + 1
    wide = x.astype(np.float64)
    return sum(
        np.tensordot(w[:, r, s].astype(np.float64), wide[:, r : r + height, s : s + width], 1)
        for r in range(TAPS)
        for s in range(TAPS)
    )


def _sizes(capabilities: Capabilities) -> Sequence[Size]:
    if capabilities.lone_work_items:
        return [(64, 112, 112, 64, 1), (256, 50, 50, 256, 1), (192, 12, 12, 256, 1)]
    return [(128, 112, 112, 128, 64), (256, 50, 50, 512, 64), (64, 112, 112, 64, 64)]


def _flops(size: Size) -> float:
    """Operations as of direct convolution."""
    c, h, w, k, n = size
    return 2.0 * TAPS**2 * c * k * n * (h - TAPS + 1) * (w - TAPS + 1)


def _problem(device: Device, dtype: DType, size: Size) -> Any:
    return _Images(device, dtype, size)


_parse: Final = partial(parse_extents, axes="CxHxWxKxN", example="64x112x112x128x64")

TUNABLE: Final = Tunable(
    SPACE, (float16, float32, float64), _sizes, _parse, _flops, _problem, entry_of
)
"""Algorithm and tiles of `portable.conv`, for each shape."""
