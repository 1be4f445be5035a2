"""The gradient by filters in the way of each method."""

from __future__ import annotations

from typing import Any

from portable.conv.direct import direct
from portable.conv.direct.box_gradient import BoxGradient
from portable.conv.direct.boxes import Boxes
from portable.conv.layouts import as_nchw
from portable.conv.method import Method
from portable.conv.winograd.blocks import WinogradBlocks
from portable.conv.winograd.gradient import WinogradGradient
from portable.conv.winograd.winograd import Winograd

__all__ = ["sum_gradient"]


def sum_gradient(method: Method, x: Any, dy: Any, dw: Any) -> None:
    """Makes the gradient by filters.

    Parameters
    ----------
    method : Method
        Of the convolution.
    x, dy : array
        Images and the gradient by results, in the method's layout.
    dw : array, shape (K, C / groups, R, S)
        Where to put the gradient.
    """
    device = method.device
    if isinstance(method, Boxes):
        BoxGradient(method).run(x, dy, dw)
        return
    images, gradient = (as_nchw(device, a, method.layout) for a in (x, dy))
    if isinstance(method, WinogradBlocks):
        method = method.stages
    if isinstance(method, Winograd) and dy.size:
        WinogradGradient(method).run(images, gradient, dw)
        return
    count = max(1, direct.parts(device, method.shape))
    partial = device.empty((count, *dw.shape), method.kind.register)
    direct.filter_gradient(device, method.shape, images, gradient, partial, method.choice)
    space = device.namespace()
    dw[...] = space.astype(space.sum(partial, axis=0), dw.dtype, copy=False)
