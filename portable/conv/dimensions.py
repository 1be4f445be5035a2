"""Convolution of lines and of volumes and its gradients, by the kernels for images."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

from portable import lang as kl
from portable.backend import Device
from portable.conv.convolution import conv2d
from portable.conv.geometry import numbers
from portable.conv.gradients import conv2d_input_gradient, conv2d_weight_gradient
from portable.conv.settings import Algorithm, Precision
from portable.dtypes import dtype
from portable.errors import ShapeError
from portable.interchange.libraries import takes_other_libraries
from portable.lang.function import Function
from portable.lang.kernel import kernel
from portable.namespace import device_of_arrays, namespace_on
from portable.primitives.maps.elementwise_kernel import product_of, unravelled

Three = tuple[int, int, int]


class _Way(TypedDict, total=False):
    """What goes to `conv2d` and its gradients as it is."""

    groups: int
    algorithm: Algorithm
    precision: Precision


class _LineOptions(_Way, total=False):
    """Keyword arguments of gradients of lines, where they are documented."""

    stride: int
    padding: int | tuple[int, int] | Literal["same"]
    dilation: int
    layout: Literal["NCW", "NWC"]


class _VolumeOptions(_Way, total=False):
    """The same of volumes."""

    stride: int | Three
    padding: int | Three
    dilation: int | Three
    layout: Literal["NCDHW", "NDHWC"]


class _Along(NamedTuple):
    """What a filter sees along the depth of volumes."""

    taps: int
    stride: int
    padding: int
    dilation: int


@takes_other_libraries
def conv1d(
    x: Any,
    w: Any,
    *,
    bias: Any = None,
    activation: Literal["relu"] | Function | Callable[..., Any] | None = None,
    **options: Unpack[_LineOptions],
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
    space, last, how = _of_lines("conv1d", (x, w, bias), options)
    images, filters = _as_images(space, x, last), _as_images(space, w, False)
    return _as_lines(space, conv2d(images, filters, bias=bias, activation=activation, **how), last)


@takes_other_libraries
def conv1d_input_gradient(
    dy: Any,
    w: Any,
    x_shape: tuple[int, int, int],
    **options: Unpack[_LineOptions],
) -> Any:
    """The gradient of a loss by the lines of `conv1d`, given its gradient by the results.

    Parameters
    ----------
    dy : array, shape (N, K, W'), or (N, W', K) for "NWC"
        The gradient by the results.
    w : array, shape (K, C / groups, S)
        The filters.
    x_shape : tuple of int
        The lines' shape.
    stride, padding, dilation, layout, groups, algorithm, precision
        As of `conv1d`.

    Returns
    -------
    array of shape `x_shape`
        A new array.

    Raises
    ------
    ShapeError, DTypeError, DeviceMismatchError, UnsupportedError, ValueError
        As `conv2d_input_gradient`.
    """
    space, last, how = _of_lines("conv1d_input_gradient", (dy, w), options)
    slopes, filters = _as_images(space, dy, last), _as_images(space, w, False)
    shape = _image_shape(tuple(x_shape), last)
    return _as_lines(space, conv2d_input_gradient(slopes, filters, shape, **how), last)


@takes_other_libraries
def conv1d_weight_gradient(
    x: Any,
    dy: Any,
    w_shape: tuple[int, int, int],
    **options: Unpack[_LineOptions],
) -> Any:
    """The gradient of a loss by the filters of `conv1d`, given its gradient by the results.

    Parameters
    ----------
    x : array, shape (N, C, W), or (N, W, C) for "NWC"
        The lines.
    dy : array, shape (N, K, W'), or (N, W', K)
        The gradient by the results.
    w_shape : tuple of int
        The filters' shape (K, C / groups, S).
    stride, padding, dilation, layout, groups, algorithm, precision
        As of `conv1d`.

    Returns
    -------
    array of shape `w_shape`
        A new array.

    Raises
    ------
    ShapeError, DTypeError, DeviceMismatchError, UnsupportedError, ValueError
        As `conv2d_weight_gradient`.
    """
    space, last, how = _of_lines("conv1d_weight_gradient", (x, dy), options)
    images, slopes = (_as_images(space, a, last) for a in (x, dy))
    shape = _image_shape(tuple(w_shape), False)
    return _as_lines(space, conv2d_weight_gradient(images, slopes, shape, **how), False)


def _image_shape(lines: tuple[int, ...], last: bool) -> tuple[int, ...]:
    """The shape of lines as images of one row."""
    if len(lines) != 3:
        raise ShapeError(f"lines and their filters have three dimensions, not shape {lines}")
    return (lines[0], 1, *lines[1:]) if last else (*lines[:2], 1, lines[2])


def _as_images(space: Any, x: Any, last: bool) -> Any:
    return space.reshape(x, _image_shape(tuple(x.shape), last))


def _as_lines(space: Any, x: Any, last: bool) -> Any:
    n, *rest = tuple(x.shape)
    return space.reshape(x, (n, rest[1], rest[2]) if last else (n, rest[0], rest[2]))


def _of_lines(name: str, arrays: Any, options: Any) -> tuple[Any, bool, dict[str, Any]]:
    """The namespace, whether channels are last, and settings of `conv2d` for images of one row."""
    how = {"stride": 1, "padding": 0, "dilation": 1, "layout": "NCW", **options}
    last = _channels_last(how["layout"], "NCW", "NWC")
    padding = how["padding"]
    how["padding"] = padding if padding == "same" else ((0, 0), _sides(padding))
    how |= {along: (1, how[along]) for along in ("stride", "dilation")}
    how["layout"] = "NHWC" if last else "NCHW"
    return namespace_on(_checked(name, arrays, 3)), last, how


@takes_other_libraries
def conv3d(
    x: Any,
    w: Any,
    *,
    bias: Any = None,
    activation: Literal["relu"] | Function | Callable[..., Any] | None = None,
    **options: Unpack[_VolumeOptions],
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
    device, last, along, how = _of_volumes("conv3d", (x, w, bias), w.shape, options)
    space = namespace_on(device)
    images = _side_by_side(space, x, last, along)
    result = conv2d(images, _flat(space, w), bias=bias, activation=activation, **how)
    planes = _planes(along, int(x.shape[1 if last else 2]))
    whole = space.reshape(result, (x.shape[0], planes, *result.shape[1:]))
    if last:
        return whole
    turned = space.permute_dims(whole, (0, 2, 1, 3, 4))
    return space.reshape(turned, tuple(turned.shape), copy=True)


@takes_other_libraries
def conv3d_input_gradient(
    dy: Any,
    w: Any,
    x_shape: tuple[int, int, int, int, int],
    **options: Unpack[_VolumeOptions],
) -> Any:
    """The gradient of a loss by the volumes of `conv3d`, given its gradient by the results.

    Parameters
    ----------
    dy : array, shape (N, K, D', H', W'), or (N, D', H', W', K) for "NDHWC"
        The gradient by the results.
    w : array, shape (K, C / groups, Q, R, S)
        The filters.
    x_shape : tuple of int
        The volumes' shape.
    stride, padding, dilation, layout, groups, algorithm, precision
        As of `conv3d`.

    Returns
    -------
    array of shape `x_shape`
        A new array. Of what the planes of filters give, rounded once, sums are made in the type of
        `conv2d`.

    Raises
    ------
    ShapeError, DTypeError, DeviceMismatchError, UnsupportedError, ValueError
        As `conv2d_input_gradient`.
    """
    device, last, along, how = _of_volumes("conv3d_input_gradient", (dy, w), w.shape, options)
    space, deep = namespace_on(device), along.taps
    n, channels, depth, height, width = _volume(tuple(x_shape), last)
    planes = _planes(along, depth)
    slopes = _plane_by_plane(space, dy, (n, planes), last)
    stacked = channels * deep
    images = (height, width, stacked) if last else (stacked, height, width)
    gradient = conv2d_input_gradient(slopes, _flat(space, w), (n * planes, *images), **how)
    out = device.empty(tuple(x_shape), dtype(dy.dtype))
    if last:
        parts = space.reshape(gradient, (n, planes, height * width, channels, deep))
        parts = space.permute_dims(parts, (0, 1, 3, 4, 2))
        target = space.reshape(out, (n, depth, height * width, channels))
        target = space.permute_dims(target, (0, 3, 1, 2))
    else:
        parts = space.reshape(gradient, (n, planes, channels, deep, height * width))
        target = space.reshape(out, (n, channels, depth, height * width))
    if prod(target.shape):
        fold_depths[prod(target.shape), None](parts, target, ALONG=along)
    return out


@takes_other_libraries
def conv3d_weight_gradient(
    x: Any,
    dy: Any,
    w_shape: tuple[int, int, int, int, int],
    **options: Unpack[_VolumeOptions],
) -> Any:
    """The gradient of a loss by the filters of `conv3d`, given its gradient by the results.

    Parameters
    ----------
    x : array, shape (N, C, D, H, W), or (N, D, H, W, C) for "NDHWC"
        The volumes.
    dy : array, shape (N, K, D', H', W'), or (N, D', H', W', K)
        The gradient by the results.
    w_shape : tuple of int
        The filters' shape (K, C / groups, Q, R, S).
    stride, padding, dilation, layout, groups, algorithm, precision
        As of `conv3d`.

    Returns
    -------
    array of shape `w_shape`
        A new array.

    Raises
    ------
    ShapeError, DTypeError, DeviceMismatchError, UnsupportedError, ValueError
        As `conv2d_weight_gradient`.
    """
    filters, channels, deep, *taps = _volume(tuple(w_shape), False)
    device, last, along, how = _of_volumes("conv3d_weight_gradient", (x, dy), w_shape, options)
    space = namespace_on(device)
    images = _side_by_side(space, x, last, along)
    planes = _planes(along, int(x.shape[1 if last else 2]))
    slopes = _plane_by_plane(space, dy, (int(x.shape[0]), planes), last)
    shape = filters, channels * deep, *taps
    gradient = conv2d_weight_gradient(images, slopes, shape, **how)
    return space.reshape(gradient, tuple(w_shape))


@kernel
def fold_depths(parts: kl.Array, out: kl.Array, *, ALONG: _Along) -> None:
    """``out[n, c, d, p]`` sums ``parts[n, e, c, q, p]`` where plane e saw plane d by its tap q."""
    at = kl.global_id(0)
    if at < product_of(out.shape):
        n, c, d, p = unravelled(at, out.shape)
        total = parts.dtype.register(0)
        for q in kl.static_range(ALONG.taps):
            ahead = d + ALONG.padding - q * ALONG.dilation
            e = ahead // ALONG.stride
            if ahead >= 0 and e * ALONG.stride == ahead and e < parts.shape[1]:
                total += parts[n, e, c, q, p]
        out[n, c, d, p] = total


def _of_volumes(
    name: str, arrays: Any, filters: tuple[int, ...], options: Any
) -> tuple[Device, bool, _Along, dict[str, Any]]:
    """The device, whether channels are last, what filters see along the depth, and settings."""
    how = {"stride": 1, "padding": 0, "dilation": 1, "layout": "NCDHW", **options}
    last = _channels_last(how["layout"], "NCDHW", "NDHWC")
    device = _checked(name, arrays, 5)
    given = [numbers(x, how[x], n, 3) for x, n in (("stride", 1), ("padding", 0), ("dilation", 1))]
    how |= zip(("stride", "padding", "dilation"), (sides[1:] for sides in given), strict=True)
    how["layout"] = "NHWC" if last else "NCHW"
    return device, last, _Along(int(filters[2]), *(sides[0] for sides in given)), how


def _volume(shape: tuple[int, ...], last: bool) -> tuple[int, ...]:
    """(N, C, D, H, W) of the shape of volumes, or of filters."""
    if len(shape) != 5:
        raise ShapeError(f"volumes and their filters have five dimensions, not shape {shape}")
    return (shape[0], shape[4], *shape[1:4]) if last else shape


def _flat(space: Any, w: Any) -> Any:
    """Filters whose planes are channels."""
    return space.reshape(w, (w.shape[0], w.shape[1] * w.shape[2], *w.shape[3:]))


def _plane_by_plane(space: Any, dy: Any, lead: tuple[int, int], last: bool) -> Any:
    """Gradients by planes of results, as images."""
    if (int(dy.shape[0]), int(dy.shape[1 if last else 2])) != lead:
        raise ShapeError(
            f"a gradient of shape {tuple(dy.shape)}; the results are {lead[1]} planes of {lead[0]}"
        )
    planes = dy if last else space.permute_dims(dy, (0, 2, 1, 3, 4))
    return space.reshape(planes, (lead[0] * lead[1], *planes.shape[2:]))


def _planes(along: _Along, extent: int) -> int:
    """Planes of results of volumes so deep."""
    seen = along.dilation * (along.taps - 1) + 1
    planes = (extent + 2 * along.padding - seen) // along.stride + 1
    if planes < 1:
        raise ShapeError(
            f"filters {along.taps} deep with dilation {along.dilation} are deeper than volumes of "
            f"{extent} with padding {along.padding}"
        )
    return planes


def _side_by_side(space: Any, x: Any, last: bool, along: _Along) -> Any:
    """Images (N D', C Q, H, W), or (N D', H, W, C Q), of volumes."""
    deep, step, zeros, spread = along
    axis = 1 if last else 2
    planes = _planes(along, x.shape[axis])
    if zeros:
        shape = (*x.shape[:axis], zeros, *x.shape[axis + 1 :])
        edge = space.zeros(shape, dtype=x.dtype)
        x = space.concat((edge, x, edge), axis=axis)
    starts = range(0, spread * deep, spread)
    spans = [slice(start, start + (planes - 1) * step + 1, step) for start in starts]
    if last:
        seen = space.stack([x[:, span] for span in spans], axis=5)
        n, _, height, width, channels, _ = seen.shape
        return space.reshape(seen, (n * planes, height, width, channels * deep))
    seen = space.stack([x[:, :, span] for span in spans], axis=2)
    n, channels, _, _, height, width = seen.shape
    turned = space.permute_dims(seen, (0, 3, 1, 2, 4, 5))
    return space.reshape(turned, (n * planes, channels * deep, height, width))


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
