"""The gradients of a convolution, for training."""

from __future__ import annotations

from math import prod
from typing import Any, Unpack

from portable.backend import Device
from portable.conv import direct
from portable.conv.choice import chosen
from portable.conv.convolution import conv2d
from portable.conv.geometry import Geometry, geometry, suits_winograd
from portable.conv.layouts import DTYPES, as_nchw, extents_nchw
from portable.conv.settings import Options, Settings, settings
from portable.conv.winograd import Winograd
from portable.conv.winograd_gradient import WinogradGradient
from portable.dtypes import DType
from portable.errors import ShapeError, UnsupportedError
from portable.interchange import takes_other_libraries
from portable.linalg.operands import common_dtype, overlap
from portable.namespace import device_of_arrays

__all__ = ["conv2d_input_gradient", "conv2d_weight_gradient"]


@takes_other_libraries
def conv2d_input_gradient(
    dy: Any,
    w: Any,
    x_shape: tuple[int, ...],
    *,
    out: Any = None,
    **options: Unpack[Options],
) -> Any:
    """The gradient of a loss by the images of `conv2d`, from that by its results.

    Parameters
    ----------
    dy : array, shape (N, K, H', W'), or (N, H', W', K)
        The gradient by the results.
    w : array, shape (K, C / groups, R, S)
        The filters.
    x_shape : tuple of int
        The images' shape.
    stride, padding, dilation, groups, layout, algorithm
        As for `conv2d`; Winograd's algorithms take a padding of at most 2.
    out : array of shape `x_shape`, optional
        Where to put the gradient; it may not overlap the operands.

    Returns
    -------
    array of shape `x_shape`
        `out`, or a new array.

    Raises
    ------
    ShapeError, DTypeError, DeviceMismatchError, UnsupportedError, ValueError
        As `conv2d`.
    """
    kind = common_dtype("conv2d_input_gradient", DTYPES, dy=dy, w=w, out=out)
    arrays = {"dy": dy, "w": w, "out": out}
    device = device_of_arrays(*(a for a in arrays.values() if a is not None))
    given = settings(**options)
    algorithm, layout = given.algorithm, given.layout
    shape = _shape(tuple(x_shape), tuple(w.shape), tuple(dy.shape), given)
    result = _target(device, out, tuple(x_shape), kind, {"dy": dy, "w": w})
    if not prod(x_shape):
        return result
    small = max(shape.window.padding) <= 2
    if algorithm not in ("auto", "direct") and not (suits_winograd(shape) and small):
        raise UnsupportedError(
            f"algorithm={algorithm!r} takes filters of 3 x 3 with stride and dilation 1 and a "
            'padding of at most 2; use "direct" or "auto"'
        )
    if algorithm == "direct" or not (suits_winograd(shape) and small) or not dy.size:
        seen = (as_nchw(device, a, layout) for a in (dy, result))
        gradient, target = seen
        direct.image_gradient(device, shape, gradient, w, target)
        return result
    down, across = shape.window.padding
    turned = _turned(device, shape, w)
    return conv2d(
        dy,
        turned,
        padding=(2 - down, 2 - across),
        groups=given.groups,
        layout=layout,
        algorithm=algorithm,
        out=result,
    )


@takes_other_libraries
def conv2d_weight_gradient(
    x: Any,
    dy: Any,
    w_shape: tuple[int, ...],
    *,
    out: Any = None,
    **options: Unpack[Options],
) -> Any:
    """The gradient of a loss by the filters of `conv2d`, from that by its results.

    Parameters
    ----------
    x : array, shape (N, C, H, W), or (N, H, W, C)
        The images.
    dy : array, shape (N, K, H', W'), or (N, H', W', K)
        The gradient by the results.
    w_shape : tuple of int
        The filters' shape (K, C / groups, R, S).
    stride, padding, dilation, groups, layout, algorithm
        As for `conv2d`, but for the vendor's algorithm.
    out : array of shape `w_shape`, optional
        Where to put the gradient; it may not overlap the operands.

    Returns
    -------
    array of shape `w_shape`
        `out`, or a new array. Sums are made in ``float32`` for ``float16``, in parts of the images
        which are then added up. By Winograd's method of m = 2, 4 in ``float32`` errors relative to
        ``|dy| * |x|`` are within 1e-6, 1e-5.

    Raises
    ------
    ShapeError, DTypeError, DeviceMismatchError, ValueError
        As `conv2d`.
    """
    kind = common_dtype("conv2d_weight_gradient", DTYPES, x=x, dy=dy, out=out)
    device = device_of_arrays(*(a for a in (x, dy, out) if a is not None))
    given = settings(**options)
    shape = _shape(tuple(x.shape), tuple(w_shape), tuple(dy.shape), given)
    if given.algorithm == "vendor":
        raise UnsupportedError('algorithm="vendor" makes no gradient by filters; use "auto"')
    algorithm = chosen(given.algorithm, device.capabilities, shape, kind)
    result = _target(device, out, tuple(w_shape), kind, {"x": x, "dy": dy})
    if not prod(w_shape):
        return result
    images, gradient = (as_nchw(device, a, given.layout) for a in (x, dy))
    if algorithm != "direct" and dy.size:
        forward = Winograd(device, shape, kind, given.layout, results=int(algorithm[-1]))
        WinogradGradient(forward).run(images, gradient, result)
        return result
    count = max(1, direct.parts(device, shape))
    partial = device.empty((count, *w_shape), kind.register)
    direct.filter_gradient(device, shape, images, gradient, partial)
    space = device.namespace()
    result[...] = space.astype(space.sum(partial, axis=0), result.dtype, copy=False)
    return result


def _shape(
    x: tuple[int, ...], w: tuple[int, ...], dy: tuple[int, ...], given: Settings
) -> Geometry:
    """The convolution whose results have the gradient."""
    images, results = (extents_nchw(shape, given.layout) for shape in (x, dy))
    shape = geometry(images, w, given.stride, given.padding, given.dilation, given.groups)
    expected = (shape.images, shape.filters, *shape.result)
    if results != expected:
        raise ShapeError(
            f"a gradient of shape {dy}; images of {x} and filters of {w} have results (N, K, H, W) "
            f"{expected}"
        )
    return shape


def _target(
    device: Device, out: Any, shape: tuple[int, ...], kind: DType, operands: dict[str, Any]
) -> Any:
    if out is None:
        return device.empty(shape, kind)
    if tuple(out.shape) != shape:
        raise ShapeError(f"out has shape {tuple(out.shape)}, the gradient {shape}")
    for name, operand in operands.items():
        if overlap(device, out, operand):
            raise ShapeError(f"out overlaps {name}; pass another array")
    return out


def _turned(device: Device, shape: Geometry, w: Any) -> Any:
    """Filters whose convolution with gradients by results is the gradient by images."""
    space = device.namespace()
    groups, filters = shape.groups, shape.filters // shape.groups
    depth = shape.channels // groups
    parts = space.reshape(space.flip(w, axis=(2, 3)), (groups, filters, depth, 3, 3))
    return space.reshape(
        space.permute_dims(parts, (0, 2, 1, 3, 4)), (shape.channels, filters, 3, 3)
    )
