"""What `portable tune conv` and `portable tune conv_weights` search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from portable.backend import Capabilities, Device
from portable.conv.geometry import geometry
from portable.conv.method import Epilogue
from portable.conv.route import method_of
from portable.conv.sum_gradient import sum_gradient
from portable.conv.tuning import SPACE, SPACE_WEIGHTS, entry_of
from portable.dtypes import DType, float16, float32, float64
from portable.tune.space import Parameters
from portable.tune.tunable import Size, Tunable, parse_extents

_ALLOWED: Final = {float16: 1e-3, float32: 1e-5, float64: 1e-13}
"""Errors relative to ``|w| * |x|``."""

_PLANES: Final = 3

_TAPS: Final = 3
"""Rows and columns of the filters that are tuned with."""


class _Problem:
    """Results of random images and filters, or the gradient by filters.

    Half precision lies in the order that suits it, channels last.
    """

    def __init__(self, device: Device, dtype: DType, size: Size, *, gradient: bool = False) -> None:
        c, h, w, k, n = size
        self._device, self._dtype, self._gradient = device, dtype, gradient
        self._layout: Any = "NHWC" if dtype is float16 else "NCHW"
        self._shape = geometry((n, c, h, w), (k, c, _TAPS, _TAPS), (1, 1), (0, 0), (1, 1), 1)
        random = np.random.default_rng(1)
        extents = (n, c, h, w), (k, c, _TAPS, _TAPS), (n, k, *self._shape.result)
        images, filters, results = (
            random.standard_normal(x, np.float32).astype(dtype.numpy) for x in extents
        )
        if gradient:  # which sums over images, not channels
            x, dy = (a.transpose(1, 0, 2, 3) for a in (images, results))
            self._check, self._unset = Planes(x, dy, _ALLOWED[dtype]), np.full_like(filters, np.nan)
            self._operands = self._there(images), self._there(results)
        else:
            self._check = Planes(images, filters, _ALLOWED[dtype])
            self._unset = self._laid_out(np.full_like(results, np.nan))
            self._operands = self._there(images), device.from_numpy(filters)
        self._out = device.from_numpy(self._unset)
        self._ready: tuple[Parameters, Callable[[], object]] | None = None

    def _laid_out(self, x: Any) -> Any:
        return np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if self._layout == "NHWC" else x

    def _there(self, x: Any) -> Any:
        """Images or results on the device."""
        return self._device.from_numpy(self._laid_out(x))

    def run(self, choice: Parameters) -> None:
        """Enqueues it; filters and workspace are made once for a choice."""
        if self._ready is None or self._ready[0] != choice:
            self._ready = choice, self._prepared(choice)
        self._ready[1]()

    def _prepared(self, choice: Parameters) -> Callable[[], object]:
        device, algorithm, (first, second) = self._device, choice["ALGORITHM"], self._operands
        method = method_of(device, self._shape, self._dtype, self._layout, algorithm, choice)
        if self._gradient:
            return lambda: sum_gradient(method, first, second, self._out)
        count, filters = method.workspace()[0], method.filters(second)
        workspace = device.empty((count,), method.workspace_kind) if count else None
        return lambda: method.run(first, filters, self._out, Epilogue(), workspace)

    def error(self) -> float:
        """The error of the last result, after which the result is NaN again."""
        result = self._device.to_numpy(self._out)
        self._out = self._device.from_numpy(self._unset)
        if self._gradient:
            return self._check.error(result.transpose(1, 0, 2, 3))
        return self._check.error(result.transpose(0, 3, 1, 2) if self._layout == "NHWC" else result)


class Planes:
    """Some planes of results, by the sums of the definition in double precision.

    Parameters
    ----------
    x, w : ndarray
        Images (N, C, H, W) and filters (K, C / groups, R, S).
    allowed : float
        The error that is allowed, relative to ``|w| * |x|``.
    stride, padding : int
        Of the convolution.
    """

    def __init__(self, x: Any, w: Any, allowed: float, stride: int = 1, padding: int = 0) -> None:
        random = np.random.default_rng(2)
        (filters, depth), counts = w.shape[:2], (x.shape[0], w.shape[0])
        each = filters * depth // x.shape[1]
        self._at = [tuple(int(random.integers(n)) for n in counts) for _ in range(_PLANES)]
        pairs = [(x[n, k // each * depth :][:depth], w[k]) for n, k in self._at]
        self._expected = [_plane(*pair, stride, padding) for pair in pairs]
        most = [_plane(abs(image), abs(taps), stride, padding).max() for image, taps in pairs]
        self._most = [allowed * float(bound) for bound in most]

    def error(self, planes: Any) -> float:
        """The largest error over what is allowed."""
        errors = [
            float(np.abs(planes[at] - plane).max()) / most
            for at, plane, most in zip(self._at, self._expected, self._most, strict=True)
        ]
        return max(errors) if np.isfinite(errors).all() else float("inf")


def _plane(x: Any, w: Any, stride: int, padding: int) -> Any:
    """The sum over channels of correlations of an image with a filter, of any extents."""
    wide = np.pad(x.astype(np.float64), [(0, 0), (padding, padding), (padding, padding)])
    narrow, (down, across) = w.astype(np.float64), w.shape[1:]
    rows, columns = (n - t + 1 for n, t in zip(wide.shape[1:], w.shape[1:], strict=True))
    if rows * columns > down * across:
        return sum(
            np.tensordot(
                narrow[:, r, s], wide[:, r : r + rows : stride, s : s + columns : stride], 1
            )
            for r in range(down)
            for s in range(across)
        )
    starts = [(r, s) for r in range(0, rows, stride) for s in range(0, columns, stride)]
    plane = [np.vdot(narrow, wide[:, r : r + down, s : s + across]) for r, s in starts]
    return np.reshape(plane, (-(-rows // stride), -(-columns // stride)))


def _sizes(capabilities: Capabilities) -> Sequence[Size]:
    if capabilities.single_work_items:
        return [(64, 112, 112, 64, 1), (256, 50, 50, 256, 1), (192, 12, 12, 256, 1)]
    return [(128, 112, 112, 128, 64), (256, 50, 50, 512, 64), (64, 112, 112, 64, 64)]


def _flops(size: Size) -> float:
    """Operations as of direct convolution."""
    c, h, w, k, n = size
    return 2.0 * _TAPS**2 * c * k * n * (h - _TAPS + 1) * (w - _TAPS + 1)


_parse: Final = partial(parse_extents, axes="CxHxWxKxN", example="64x112x112x128x64")

_DTYPES: Final = (float16, float32, float64)

TUNABLE: Final = Tunable(SPACE, _DTYPES, _sizes, _parse, _flops, _Problem, entry_of)
"""Algorithm and tiles of `portable.conv`, for each shape."""

TUNABLE_WEIGHTS: Final = Tunable(
    SPACE_WEIGHTS, _DTYPES, _sizes, _parse, _flops, partial(_Problem, gradient=True), entry_of
)
"""The same for gradients by filters."""
