"""The vendor's convolution, by way of PyTorch: cuDNN on GPUs, oneDNN on processors."""

from __future__ import annotations

from typing import Any

from portable.backend import Device
from portable.conv.geometry import Geometry
from portable.errors import UnsupportedError

__all__ = ["vendor_conv2d"]


def vendor_conv2d(device: Device, shape: Geometry, x: Any, w: Any, bias: Any) -> Any:
    """Results of images and filters, all seen as (N, C, H, W), without an activation.

    Raises
    ------
    UnsupportedError
        If PyTorch is not installed or does not take the device's arrays.
    """
    try:
        import torch
    except ImportError:
        raise UnsupportedError(
            'algorithm="vendor" goes through PyTorch, which is not installed'
        ) from None
    try:
        images, filters = torch.from_dlpack(x), torch.from_dlpack(w)
        added = None if bias is None else torch.from_dlpack(bias)
    except (AttributeError, BufferError, RuntimeError, TypeError) as error:
        raise UnsupportedError(
            f'algorithm="vendor": PyTorch does not take arrays of {device.name}: {error}'
        ) from error
    window = shape.window
    found = torch.nn.functional.conv2d(
        images, filters, added, window.stride, window.padding, window.dilation, shape.groups
    )
    return device.namespace().from_dlpack(found)
