"""Images as (N, C, H, W), however their dimensions are ordered, and the dtypes they come in."""

from __future__ import annotations

from typing import Any, Final

from portable.backend import Device
from portable.conv.geometry import Layout
from portable.dtypes import bfloat16, dtype, float16, float32, float64
from portable.lang.launch.call_cache import lies_whole
from portable.linalg.products.rows import copy_into

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


def in_c_order(device: Device, x: Any) -> bool:
    """Whether elements follow each other in memory, the last dimension fastest."""
    return lies_whole(device.view(x))


def in_rows(device: Device, x: Any, width: int, written: bool = False) -> Any:
    """Images (N, C, H, W) with the pixels of all rows in rows of another width.

    Parameters
    ----------
    device : Device
        Where they are.
    x : array
        Images that do not lie one element after the other are copied.
    width : int
        Of these rows, which divides the pixels.
    written : bool
        Whether they are only written: room for them if they do not lie so.
    """
    if not in_c_order(device, x):
        room = device.empty(x.shape, dtype(x.dtype))
        if not written:
            copy_into(x, room)
        x = room
    return device.namespace().reshape(x, (*x.shape[:2], -1, width))
