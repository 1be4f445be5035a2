"""The gradients of a convolution, for training."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from math import prod
from typing import Any, Final, Unpack

from portable.backend import Device
from portable.conv.geometry import Geometry, geometry
from portable.conv.layouts import DTYPES, extents_nchw
from portable.conv.method import Epilogue
from portable.conv.phases import make_from_phases
from portable.conv.route import route
from portable.conv.settings import Options, Settings, settings
from portable.conv.sum_gradient import sum_gradient
from portable.dtypes import DType
from portable.errors import ShapeError, UnsupportedError
from portable.interchange.libraries import prepares_for_other_libraries, takes_other_libraries
from portable.lang.launch.call_cache import CallTraits, cached_call
from portable.lang.launch.enqueued import repeated
from portable.linalg.base.operands import common_dtype, require_apart
from portable.namespace import device_of_arrays
from portable.tune.table import recent_state, state

_CALLS: Final = CallTraits(whole=True)


@takes_other_libraries
def conv2d_input_gradient(
    dy: Any,
    w: Any,
    x_shape: tuple[int, ...],
    *,
    out: Any = None,
    **options: Unpack[Options],
) -> Any:
    """The gradient of a loss by the images of `conv2d`, given its gradient by the results.

    Parameters
    ----------
    dy : array, shape (N, K, H', W'), or (N, H', W', K)
        The gradient by the results.
    w : array, shape (K, C / groups, R, S)
        The filters.
    x_shape : tuple of int
        The images' shape.
    stride, padding, dilation, groups, layout, algorithm
        As for `conv2d`; but for "auto" and "direct", strides of 1.
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

    def work(*_: Any) -> Any:
        return _by_images(dy, w, x_shape, out, options)

    call_key = "images", x_shape, *options.items()
    return cached_call(_CALLS, (dy, w), out, call_key, (), recent_state(), work)


def _by_images(dy: Any, w: Any, x_shape: tuple[int, ...], out: Any, options: Options) -> Any:
    name = "conv2d_input_gradient"
    kind = common_dtype(name, DTYPES, dy=dy, w=w, out=out)
    device = device_of_arrays(*(a for a in (dy, w, out) if a is not None))
    given = settings(**options)
    shape = _shape(tuple(x_shape), tuple(w.shape), tuple(dy.shape), given)
    result = _target(name, device, out, tuple(x_shape), kind, {"dy": dy, "w": w})
    if not prod(x_shape):
        return result
    make_from_phases(device, shape, dy, w, result, given, Epilogue())
    return result


@takes_other_libraries
def conv2d_weight_gradient(
    x: Any,
    dy: Any,
    w_shape: tuple[int, ...],
    *,
    out: Any = None,
    **options: Unpack[Options],
) -> Any:
    """The gradient of a loss by the filters of `conv2d`, given its gradient by the results.

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
        which are then added up. Errors relative to ``|dy| * |x|`` are those of `conv2d`.

    Raises
    ------
    ShapeError, DTypeError, DeviceMismatchError, ValueError
        As `conv2d`.
    """

    def work(*_: Any) -> Any:
        return _by_filters(x, dy, w_shape, out, options)

    call_key = "filters", w_shape, *options.items()
    return cached_call(_CALLS, (x, dy), out, call_key, (), recent_state(), work)


def _by_filters(x: Any, dy: Any, w_shape: tuple[int, ...], out: Any, options: Options) -> Any:
    name = "conv2d_weight_gradient"
    kind = common_dtype(name, DTYPES, x=x, dy=dy, out=out)
    device = device_of_arrays(*(a for a in (x, dy, out) if a is not None))
    given = settings(**options)
    shape = _shape(tuple(x.shape), tuple(w_shape), tuple(dy.shape), given)
    if given.algorithm == "vendor":
        raise UnsupportedError('algorithm="vendor" makes no gradient by filters; use "auto"')
    result = _target(name, device, out, tuple(w_shape), kind, {"x": x, "dy": dy})
    if not prod(w_shape):
        return result
    layout, asked, precision = given.layout, given.algorithm, given.precision
    forward = route(device, shape, kind, layout, asked, state(), True, precision).method
    sum_gradient(forward, x, dy, result)
    return result


@prepares_for_other_libraries
def prepare_input_gradient(
    dy: Any, w: Any, *, out: Any, **options: Unpack[Options]
) -> Callable[[], None]:
    """`conv2d_input_gradient` of the same arrays again and again, at the cost of a launch a kernel.

    Parameters
    ----------
    dy, w, out, **options
        As of `conv2d_input_gradient`, all on one device. They must stay where they are, and what
        they hold is read at each call. The gradient is made once at once.

    Returns
    -------
    callable
        Without arguments; it puts the gradient into `out`.

    Raises
    ------
    ShapeError, DTypeError, DeviceMismatchError, UnsupportedError, ValueError
        As `conv2d_input_gradient`.
    """
    return repeated(
        device_of_arrays(out), partial(_by_images, dy, w, tuple(out.shape), out, options)
    )


@prepares_for_other_libraries
def prepare_weight_gradient(
    x: Any, dy: Any, *, out: Any, **options: Unpack[Options]
) -> Callable[[], None]:
    """`conv2d_weight_gradient` of the same arrays again and again, as `prepare_input_gradient`.

    Parameters
    ----------
    x, dy, out, **options
        As of `conv2d_weight_gradient`, all on one device. They must stay where they are.

    Returns
    -------
    callable
        Without arguments; it puts the gradient into `out`.

    Raises
    ------
    ShapeError, DTypeError, DeviceMismatchError, UnsupportedError, ValueError
        As `conv2d_weight_gradient`.
    """
    return repeated(
        device_of_arrays(out), partial(_by_filters, x, dy, tuple(out.shape), out, options)
    )


@lru_cache(maxsize=1024)
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
    operation: str,
    device: Device,
    out: Any,
    shape: tuple[int, ...],
    kind: DType,
    operands: dict[str, Any],
) -> Any:
    """A new array for a gradient, or the given one if it will do."""
    if out is None:
        return device.empty(shape, kind)
    if tuple(out.shape) != shape:
        raise ShapeError(f"out has shape {tuple(out.shape)}, the gradient {shape}")
    require_apart(operation, device, out, operands)
    return out
