"""Convolution by SciPy in double precision, and its gradients by the plain sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.signal import correlate

Host = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    x: tuple[int, int, int, int]
    w: tuple[int, int, int, int]
    stride: tuple[int, int] = (1, 1)
    padding: Any = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    @property
    def settings(self) -> dict[str, Any]:
        names = ("stride", "padding", "dilation", "groups")
        return {name: getattr(self, name) for name in names}

    def images(self, dtype: Any) -> tuple[Host, Host]:
        """Random images and filters."""
        random = np.random.default_rng(sum(self.x) + sum(self.w))
        return tuple(random.standard_normal(s).astype(dtype) for s in (self.x, self.w))  # type: ignore[return-value]


def results(case: Case, x: Host, w: Host) -> Host:
    """Each filter slides over its channels, spread by the dilation, and every stride-th result."""
    wide = [d * (n - 1) + 1 for d, n in zip(case.dilation, w.shape[2:], strict=True)]
    spread = np.zeros((*w.shape[:2], *wide))
    spread[:, :, :: case.dilation[0], :: case.dilation[1]] = w
    edges = [(0, 0), (0, 0), *(p if isinstance(p, tuple) else (p, p) for p in case.padding)]
    padded = np.pad(x.astype(float), edges)
    depth, filters = w.shape[1], w.shape[0] // case.groups
    channels = [slice(k // filters * depth, (k // filters + 1) * depth) for k in range(w.shape[0])]
    found = [
        [correlate(image[part], spread[k], mode="valid")[0] for k, part in enumerate(channels)]
        for image in padded
    ]
    return np.array(found)[:, :, :: case.stride[0], :: case.stride[1]]


def bounds(case: Case, x: Host, w: Host) -> float:
    """The largest sum of magnitudes, to which errors are relative."""
    return float(results(case, np.abs(x), np.abs(w)).max())


def gradients(case: Case, x: Host, w: Host, dy: Host) -> tuple[Host, Host]:
    """By the images and by the filters: the sums of the definition, tap by tap."""
    (sy, sx), (py, px), (ey, ex) = case.stride, case.padding, case.dilation
    padded = np.pad(x.astype(float), [(0, 0), (0, 0), (py, py), (px, px)])
    dx, dw = np.zeros_like(padded), np.zeros(w.shape)
    depth, filters = w.shape[1], w.shape[0] // case.groups
    for group in range(case.groups):
        c = slice(group * depth, (group + 1) * depth)
        k = slice(group * filters, (group + 1) * filters)
        for r in range(w.shape[2]):
            for q in range(w.shape[3]):
                rows = slice(r * ey, r * ey + sy * (dy.shape[2] - 1) + 1, sy)
                columns = slice(q * ex, q * ex + sx * (dy.shape[3] - 1) + 1, sx)
                seen = padded[:, c, rows, columns]
                dw[k, :, r, q] = np.einsum("nkyz,ncyz->kc", dy[:, k], seen)
                dx[:, c, rows, columns] += np.einsum("nkyz,kc->ncyz", dy[:, k], w[k, :, r, q])
    height, width = x.shape[2:]
    return dx[:, :, py : py + height, px : px + width], dw
