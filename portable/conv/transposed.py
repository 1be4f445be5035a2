"""Transposed convolution: the gradient by images of a convolution, made as a layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Unpack

from portable.backend import Device
from portable.conv.convolution import conv2d
from portable.conv.geometry import Geometry, Pair, geometry, pair
from portable.conv.layouts import DTYPES, as_nchw, extents_nchw
from portable.conv.method import Epilogue
from portable.conv.phases import make_from_phases, phases
from portable.conv.settings import Options, Settings, settings
from portable.dtypes import dtype
from portable.errors import ShapeError
from portable.interchange.libraries import takes_other_libraries
from portable.lang.function import Function
from portable.linalg.base.operands import common_dtype, require_apart
from portable.linalg.products.activation import activation_of
from portable.namespace import device_of_arrays


@takes_other_libraries
def conv_transpose2d(
    x: Any,
    w: Any,
    *,
    bias: Any = None,
    activation: Literal["relu"] | Function | Callable[..., Any] | None = None,
    output_padding: int | tuple[int, int] = 0,
    out: Any = None,
    **options: Unpack[Options],
) -> Any:
    """The transposed convolution of images with filters, ``torch.nn.functional.conv_transpose2d``.

    Each pixel adds the filters, times itself, to the results; neighbours are a stride apart.

    Parameters
    ----------
    x : array, shape (N, C, H, W), or (N, H, W, C) for "NHWC"
        Images.
    w : array, shape (C, K / groups, R, S)
        Filters, of the same dtype and device, in this order for both layouts.
    bias : array, shape (K,), optional
        Added to the results.
    activation : "relu" or function, optional
        As of `conv2d`.
    output_padding : int or (int, int)
        Rows below and columns on the right that results have more; less than the stride.
    out : array, optional
        Where to put the results; it may not overlap the operands.
    stride, padding, dilation, groups, layout, algorithm, precision
        As of `conv2d`: those of the convolution whose gradient by images it is; not "same".

    Returns
    -------
    array, shape (N, K, H', W') or (N, H', W', K)
        `out`, or a new array, where ``H' = (H - 1) stride - 2 padding + dilation (R - 1) + 1 +
        output_padding``. A convolution without strides is made for each phase of the stride, with
        the taps that meet it. Errors are as of `conv2d`.

    Raises
    ------
    ShapeError, DTypeError, DeviceMismatchError, UnsupportedError, ValueError
        As `conv2d`.

    Examples
    --------
    >>> import numpy as np
    >>> from portable.conv import conv_transpose2d
    >>> x, w = np.ones((1, 1, 2, 2), np.float32), np.ones((1, 1, 2, 2), np.float32)
    >>> conv_transpose2d(x, w, stride=2)[0, 0, 0].tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    kind = common_dtype("conv_transpose2d", DTYPES, x=x, w=w, bias=bias, out=out)
    device = device_of_arrays(*(a for a in (x, w, bias, out) if a is not None))
    given, more = settings(**options), pair("output_padding", output_padding, 0)
    extents = _extents(tuple(x.shape), tuple(w.shape), given, more)
    n, filters, height, width = extents
    shape = geometry(
        extents, tuple(w.shape), given.stride, given.padding, given.dilation, given.groups
    )
    if bias is not None and tuple(bias.shape) != (filters,):
        raise ShapeError(f"a bias of shape {tuple(bias.shape)}; there are {filters} filters")
    laid_out = extents if given.layout == "NCHW" else (n, height, width, filters)
    result = device.empty(laid_out, kind) if out is None else out
    if tuple(result.shape) != laid_out:
        raise ShapeError(f"out has shape {tuple(result.shape)}, the results {laid_out}")
    if out is not None:
        require_apart("conv_transpose2d", device, out, {"x": x, "w": w, "bias": bias})
    if 0 in laid_out:
        return result
    epilogue = Epilogue(bias, activation_of(activation, "conv_transpose2d"))
    make_from_phases(device, shape, x, w, result, given, epilogue)
    _fill_gaps(device, shape, result, given, epilogue)
    return result


def _extents(
    x: tuple[int, ...], w: tuple[int, ...], given: Settings, more: Pair
) -> tuple[int, int, int, int]:
    """Of the results, (N, K, H', W')."""
    images = extents_nchw(x, given.layout)
    if len(images) != 4 or len(w) != 4 or images[1] != w[0]:
        raise ShapeError(
            "conv_transpose2d takes images (N, C, H, W) and filters (C, K / groups, R, S), not "
            f"shapes {images} and {w}"
        )
    if isinstance(given.padding, str) or not isinstance(given.padding[0], int):
        raise ValueError(
            f"padding={given.padding!r}: conv_transpose2d takes an integer from 0 on, or two"
        )
    if any(n >= s for n, s in zip(more, given.stride, strict=True)):
        raise ValueError(f"output_padding={more}: it is less than the stride, {given.stride}")
    height, width = (
        (n - 1) * s - 2 * p + d * (t - 1) + 1 + o
        for n, s, p, d, t, o in zip(
            images[2:], given.stride, given.padding, given.dilation, w[2:], more, strict=True
        )
    )
    return images[0], w[1] * given.groups, height, width


def _fill_gaps(
    device: Device, shape: Geometry, result: Any, given: Settings, epilogue: Epilogue
) -> None:
    """What becomes of zeros where no tap meets the results."""
    gaps = [part for part in phases(shape) if part.shape is None]
    if not gaps or epilogue.is_empty:
        return
    space, target = device.namespace(), as_nchw(device, result, given.layout)
    zeros = device.empty((shape.channels + 1,), dtype(result.dtype))
    zeros[...] = 0
    image, filters = zeros[:1], space.reshape(zeros[1:], (shape.channels, 1, 1, 1))
    value = conv2d(
        space.reshape(image, (1, 1, 1, 1)),
        filters,
        bias=epilogue.bias,
        activation=epilogue.activation,
    )
    for part in gaps:
        part.pixels(target)[...] = value
