"""The vendor's convolution, by way of PyTorch: cuDNN on GPUs, oneDNN on processors."""

from __future__ import annotations

from typing import Any

from portable.backend import Device
from portable.conv.geometry import Geometry
from portable.conv.layouts import as_nchw
from portable.conv.method import Epilogue, Method
from portable.errors import DTypeError, UnsupportedError
from portable.lang.launch.enqueued import enqueue_call
from portable.linalg.products.kernels import keep, relu


class Vendor(Method):
    """PyTorch's convolution of images of one shape."""

    def run(self, x: Any, filters: Any, out: Any, epilogue: Epilogue, workspace: Any) -> None:
        """Makes results.

        Raises
        ------
        UnsupportedError
            If PyTorch is not installed or does not take the device's arrays.
        DTypeError
            For activations other than relu.
        """
        enqueue_call(self._made, x, filters, out, epilogue)

    def _made(self, x: Any, filters: Any, out: Any, epilogue: Epilogue) -> None:
        x, out = (as_nchw(self.device, a, self.layout) for a in (x, out))
        bias, activation, _ = epilogue
        residual = epilogue.residual_nchw(self.device, self.layout)
        result = _convolved(self.device, self.shape, x, filters, bias)
        if residual is not None:
            result = result + residual
        if activation is relu:
            space = self.device.namespace()
            result = space.maximum(result, space.zeros_like(result))
        elif activation is not keep:
            raise DTypeError('algorithm="vendor" knows no activation but relu')
        out[...] = result


def _convolved(device: Device, shape: Geometry, x: Any, w: Any, bias: Any) -> Any:
    """Results of images and filters, all seen as (N, C, H, W), without an activation."""
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
    result = torch.nn.functional.conv2d(
        images, filters, added, window.stride, window.padding, window.dilation, shape.groups
    )
    return device.namespace().from_dlpack(result)
