"""Convolution of lines and of volumes, by the kernels for images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypedDict, Unpack

from portable.backend import Device
from portable.conv.convolution import conv2d
from portable.conv.settings import Algorithm, Precision
from portable.errors import ShapeError
from portable.interchange.libraries import takes_other_libraries
from portable.lang.function import Function
from portable.namespace import device_of_arrays

__all__ = ["conv1d", "conv3d"]

Three = tuple[int, int, int]


class _More(TypedDict, total=False):
    """What goes to `conv2d` as it is."""

    groups: int
    algorithm: Algorithm
    precision: Precision
    activation: Literal["relu"] | Function | Callable[..., Any] | None


@takes_other_libraries
def conv1d(
    x: Any,
    w: Any,
    *,
    bias: Any = None,
    stride: int = 1,
    padding: int | tuple[int, int] | Literal["same"] = 0,
    dilation: int = 1,
    layout: Literal["NCW", "NWC"] = "NCW",
    **more: Unpack[_More],
) -> Any:
    """The correlation of lines with filters, ``torch.nn.functional.conv1d``.

    Parameters
    ----------
    x : array, shape (N, C, W), or (N, W, C) for "NWC"
        Lines.
    w : array, shape (K, C / groups, S)
        Filters.
    bias : array, shape (K,), optional
        Added to the results.
    stride, dilation : int
        As of `conv2d`.
    padding : int, (int, int) or "same"
        On both sides, or before and behind.
    layout : {"NCW", "NWC"}
        Of lines and results.
    groups, algorithm, precision, activation
        As of `conv2d`.

    Returns
    -------
    array, shape (N, K, W') or (N, W', K)
        A new array.

    Raises
    ------
    ShapeError, DTypeError, DeviceMismatchError, UnsupportedError, ValueError
        As `conv2d`.
    """
    last = _channels_last(layout, "NCW", "NWC")
    device = _checked("conv1d", (x, w, bias), 3)
    space, (n, *rest) = device.namespace(), tuple(x.shape)
    images = space.reshape(x, (n, 1, *rest) if last else (n, rest[0], 1, rest[1]))
    filters = space.reshape(w, (*w.shape[:2], 1, w.shape[2]))
    sides: Any = padding if padding == "same" else ((0, 0), _sides(padding))
    found = conv2d(
        images,
        filters,
        bias=bias,
        stride=(1, stride),
        padding=sides,
        dilation=(1, dilation),
        layout="NHWC" if last else "NCHW",
        **more,
    )
    shape = tuple(found.shape)
    lines = (n, shape[2], shape[3]) if last else (n, shape[1], shape[3])
    return space.reshape(found, lines)


@takes_other_libraries
def conv3d(
    x: Any,
    w: Any,
    *,
    bias: Any = None,
    stride: int | Three = 1,
    padding: int | Three = 0,
    dilation: int | Three = 1,
    layout: Literal["NCDHW", "NDHWC"] = "NCDHW",
    **more: Unpack[_More],
) -> Any:
    """The correlation of volumes with filters, ``torch.nn.functional.conv3d``.

    What a filter sees of different depths is copied side by side, as channels: as many times the
    volumes as filters are deep.

    Parameters
    ----------
    x : array, shape (N, C, D, H, W), or (N, D, H, W, C) for "NDHWC"
        Volumes.
    w : array, shape (K, C / groups, Q, R, S)
        Filters.
    bias : array, shape (K,), optional
        Added to the results.
    stride, padding, dilation : int or (int, int, int)
        Along depth, height and width.
    layout : {"NCDHW", "NDHWC"}
        Of volumes and results.
    groups, algorithm, precision, activation
        As of `conv2d`.

    Returns
    -------
    array, shape (N, K, D', H', W') or (N, D', H', W', K)
        A new array.

    Raises
    ------
    ShapeError, DTypeError, DeviceMismatchError, UnsupportedError, ValueError
        As `conv2d`.
    """
    last = _channels_last(layout, "NCDHW", "NDHWC")
    device = _checked("conv3d", (x, w, bias), 5)
    steps, zeros = _three("stride", stride, 1), _three("padding", padding, 0)
    spread = _three("dilation", dilation, 1)
    space, (filters, depth, deep, *taps) = device.namespace(), tuple(w.shape)
    images, planes = _side_by_side(space, x, last, (deep, steps[0], zeros[0], spread[0]))
    found = conv2d(
        images,
        space.reshape(w, (filters, depth * deep, *taps)),
        bias=bias,
        stride=steps[1:],
        padding=zeros[1:],
        dilation=spread[1:],
        layout="NHWC" if last else "NCHW",
        **more,
    )
    whole = space.reshape(found, (x.shape[0], planes, *found.shape[1:]))
    if last:
        return whole
    turned = space.permute_dims(whole, (0, 2, 1, 3, 4))
    return space.reshape(turned, tuple(turned.shape), copy=True)


def _side_by_side(
    space: Any, x: Any, last: bool, along: tuple[int, int, int, int]
) -> tuple[Any, int]:
    """Images (N D', C Q, H, W), or (N D', H, W, C Q), of volumes, and D'."""
    deep, step, zeros, spread = along
    axis = 1 if last else 2
    extent = x.shape[axis]
    planes = (extent + 2 * zeros - spread * (deep - 1) - 1) // step + 1
    if planes < 1:
        raise ShapeError(
            f"filters {deep} deep with dilation {spread} are deeper than volumes of {extent} with "
            f"padding {zeros}"
        )
    if zeros:
        edge = space.zeros((*x.shape[:axis], zeros, *x.shape[axis + 1 :]), dtype=x.dtype)
        x = space.concat((edge, x, edge), axis=axis)
    starts = range(0, spread * deep, spread)
    spans = [slice(start, start + (planes - 1) * step + 1, step) for start in starts]
    if last:
        seen = space.stack([x[:, span] for span in spans], axis=5)
        n, _, height, width, channels, _ = seen.shape
        return space.reshape(seen, (n * planes, height, width, channels * deep)), planes
    seen = space.stack([x[:, :, span] for span in spans], axis=2)
    n, channels, _, _, height, width = seen.shape
    turned = space.permute_dims(seen, (0, 3, 1, 2, 4, 5))
    return space.reshape(turned, (n * planes, channels * deep, height, width)), planes


def _channels_last(layout: str, first: str, last: str) -> bool:
    if layout not in (first, last):
        raise ValueError(f"layout={layout!r}; it is {first!r} or {last!r}")
    return layout == last


def _checked(name: str, arrays: tuple[Any, ...], dims: int) -> Device:
    x, w = arrays[:2]
    if x.ndim != dims or w.ndim != dims:
        raise ShapeError(
            f"{name} takes arrays and filters of {dims} dimensions, not shapes {tuple(x.shape)} "
            f"and {tuple(w.shape)}"
        )
    return device_of_arrays(*(a for a in arrays if a is not None))


def _sides(padding: Any) -> tuple[int, int]:
    return (padding, padding) if isinstance(padding, int) else tuple(padding)


def _three(name: str, value: Any, least: int) -> Three:
    three = tuple(value) if isinstance(value, tuple | list) else (value,) * 3
    if len(three) != 3 or any(not isinstance(n, int) or n < least for n in three):
        raise ValueError(f"{name}={value!r}: it takes an integer from {least} on, or three of them")
    return three
