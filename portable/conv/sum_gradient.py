"""The gradient by filters in the way of each method."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from portable.conv.direct import direct
from portable.conv.direct.adding import add_up
from portable.conv.direct.box_gradient import BoxGradient
from portable.conv.direct.boxes import Boxes, boxes
from portable.conv.direct.direct import Gathered
from portable.conv.direct.group_gradient import MOST_TAPS, sum_groups
from portable.conv.direct.grouped import Grouped, has_few_channels
from portable.conv.direct.product import Product, is_product
from portable.conv.layouts import as_nchw
from portable.conv.method import Method
from portable.conv.winograd.blocks import WinogradBlocks
from portable.conv.winograd.gradient import WinogradGradient
from portable.conv.winograd.winograd import Winograd


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
    device, shape = method.device, method.shape
    if isinstance(method, Grouped | Product) and not is_product(shape):
        given = shape, method.kind, method.layout, None, method.split
        method = boxes(device, *given) or Gathered(device, *given)
    if has_few_channels(shape) and shape.window.count <= MOST_TAPS and dy.size:
        sum_groups(device, shape, method.layout, x, dy, dw)
        return
    flat = shape.window.stride == (1, 1) or not isinstance(method, Boxes)
    # Sums over pixels of all images are not rounded on their way: there is one, or wide ones.
    exact = method.layout == "NHWC" or method.kind is method.kind.register
    if is_product(shape) and exact and flat and dy.size:
        Product(device, shape, method.kind, method.layout).sum_gradient(x, dy, dw)
        return
    if isinstance(method, Boxes):
        whole = method.patches and shape.window.taps[0]
        BoxGradient(replace(method, patches=whole)).run(x, dy, dw)
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
    add_up(device, partial, dw)
