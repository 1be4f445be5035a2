"""Images as (N, C, H, W), however their dimensions are ordered, and the dtypes they come in."""

from __future__ import annotations

from typing import Any, Final

from portable.backend import Device
from portable.conv.geometry import Layout
from portable.dtypes import bfloat16, float16, float32, float64

DTYPES: Final = (float16, bfloat16, float32, float64)
"""What convolutions take."""

_TO_NCHW: Final = (0, 3, 1, 2)


def as_nchw(device: Device, x: Any, layout: Layout) -> Any:
    """A view of images or results as (N, C, H, W).

    Parameters
    ----------
    device : Device
        Where they are.
    x : array
        Of four dimensions.
    layout : {"NCHW", "NHWC"}
        Their order.
    """
    return x if layout == "NCHW" else device.namespace().permute_dims(x, _TO_NCHW)


def extents_nchw(shape: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    """The extents of images in that order; a shape of other than four dimensions stays as it is."""
    return tuple(shape[d] for d in _TO_NCHW) if layout == "NHWC" and len(shape) == 4 else shape
