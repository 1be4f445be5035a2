"""The manipulation functions of the Array API that make views, and conversion of dtypes."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

from portable import dtypes
from portable.array.base.conversion import to_device
from portable.array.base.operations import ArrayT, apply, is_expression
from portable.array.functions.elementwise import not_equal
from portable.dtypes import bool_
from portable.errors import DTypeError, ShapeError
from portable.primitives.base.operands import broadcast_shapes as common_shape
from portable.primitives.base.operands import (
    broadcast_strides,
    normalized_axes,
    normalized_axis,
    reshaped_strides,
    whole_numbers,
)
from portable.primitives.base.storage import Storage
from portable.primitives.maps.elementwise import check_arrays, check_operands
from portable.primitives.maps.work import conversion_to
from portable.recording import taped

__all__ = [
    "astype",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "expand_dims",
    "flip",
    "moveaxis",
    "permute_dims",
    "reshape",
    "squeeze",
    "unstack",
]

# -- copies ---------------------------------------------------------------------------------


def copied(x: ArrayT) -> ArrayT:
    """A contiguous copy."""
    return apply(conversion_to(x.dtype), x)


def contiguous(x: ArrayT) -> ArrayT:
    """The array itself if it is in C order, else a copy that is."""
    return x if x.is_contiguous else copied(x)


def copy_into(out: ArrayT, x: Any) -> None:
    """Writes an array or a number to an array that it broadcasts to, converted."""
    if isinstance(x, Storage):
        if x.dtype.is_complex and not out.dtype.is_complex:
            raise DTypeError(f"{x.dtype.name} stored in a {out.dtype.name} array; take real(x)")
        if x.overlaps(out):
            x = copied(x)
    if out.size:
        apply(conversion_to(out.dtype), x, out=out)


def astype(x: ArrayT, dtype: Any, /, *, copy: bool = True, device: Any = None) -> ArrayT:
    """`x` converted: floats to integers truncate and saturate, integers wrap.

    Of every kind, True is what is not 0.

    Parameters
    ----------
    x : Array
        What to convert.
    dtype : dtype
        To what.
    copy : bool
        Whether to copy where nothing is to be converted.
    device : Device or str, optional
        Where to; by default the device of `x`.

    Raises
    ------
    DTypeError
        From complex to real numbers.
    """
    check_operands("astype", (x,))
    kind = dtypes.dtype(dtype)
    if device is not None:
        return to_device(astype(x, kind, copy=copy), device)  # type: ignore[no-any-return]
    if is_expression(x):
        return apply(conversion_to(kind), x)
    if kind is x.dtype and not copy:
        return x
    if x.dtype.is_complex and kind is bool_:
        return not_equal(x, 0)
    if x.dtype.is_complex and not kind.is_complex:
        raise DTypeError(f"astype from {x.dtype.name} to {kind.name}; take real(x) or abs(x)")
    return apply(conversion_to(kind), x)


# -- views ----------------------------------------------------------------------------------


@taped
def reshape(x: ArrayT, /, shape: int | tuple[int, ...], *, copy: bool | None = None) -> ArrayT:
    """The elements in C order in another shape; one extent may be -1.

    Parameters
    ----------
    x : Array
        Any layout.
    shape : int or tuple of int
        The new extents.
    copy : bool, optional
        True: always; False: never; by default where the strides allow no view.

    Raises
    ------
    ShapeError
        If the number of elements differs.
    ValueError
        If `copy` is False and the strides do not allow a view.
    """
    check_arrays("reshape", x)
    wanted = _filled_shape(x, whole_numbers(shape))
    if copy:
        return copied(x).shaped(wanted)
    if x.is_contiguous:
        return x.shaped(wanted)
    strides = reshaped_strides(x.shape, x.strides, wanted)
    if strides is not None:
        return x.viewed(wanted, strides)
    if copy is False:
        raise ValueError(f"reshape to {wanted} of an array of strides {x.strides} needs a copy")
    return copied(x).shaped(wanted)


def _filled_shape(x: ArrayT, shape: tuple[int, ...]) -> tuple[int, ...]:
    if shape.count(-1) == 1:
        known = prod(n for n in shape if n != -1)
        if known and x.size % known == 0:
            shape = tuple(x.size // known if n == -1 else n for n in shape)
    if any(n < 0 for n in shape) or prod(shape) != x.size:
        raise ShapeError(f"an array of shape {x.shape} has {x.size} elements, not those of {shape}")
    return shape


@taped
def permute_dims(x: ArrayT, /, axes: tuple[int, ...]) -> ArrayT:
    """The view with dimensions in another order.

    Parameters
    ----------
    x : Array
        Any shape and dtype.
    axes : tuple of int
        For each dimension of the result, which of `x` it is.

    Raises
    ------
    ShapeError, BadIndexError
        If an axis is left out, comes twice, or is not there.
    """
    check_arrays("permute_dims", x)
    order = normalized_axes(tuple(axes), x.ndim)
    if len(order) != x.ndim:
        raise ShapeError(f"{len(order)} axes for an array of {x.ndim} dimensions")
    return _permuted(x, order)


def _permuted(x: ArrayT, order: tuple[int, ...]) -> ArrayT:
    return x.viewed(tuple([x.shape[a] for a in order]), tuple([x.strides[a] for a in order]))


@taped
def moveaxis(
    x: ArrayT, source: int | tuple[int, ...], destination: int | tuple[int, ...], /
) -> ArrayT:
    """The view with some axes moved elsewhere, the others staying in order.

    Parameters
    ----------
    x : Array
        What to view.
    source : int or tuple of int
        The axes.
    destination : int or tuple of int
        Where each comes to lie.
    """
    check_arrays("moveaxis", x)
    given: tuple[Any, ...] = (source, destination)
    sources, targets = (tuple(a) if isinstance(a, list) else a for a in given)
    return _permuted(x, _moved(x.ndim, sources, targets))


@lru_cache(maxsize=1024)
def _moved(
    ndim: int, source: int | tuple[int, ...], destination: int | tuple[int, ...]
) -> tuple[int, ...]:
    """The order of dimensions after some have been moved."""
    sources, targets = normalized_axes(source, ndim), normalized_axes(destination, ndim)
    if len(sources) != len(targets):
        raise ShapeError(f"moveaxis of {len(sources)} axes to {len(targets)} places")
    order = [a for a in range(ndim) if a not in sources]
    for target, one in sorted(zip(targets, sources, strict=True)):
        order.insert(target, one)
    return tuple(order)


@taped
def expand_dims(x: ArrayT, /, axis: int | tuple[int, ...] = 0) -> ArrayT:
    """The view with new dimensions of extent 1.

    Parameters
    ----------
    x : Array
        Any shape and dtype.
    axis : int or tuple of int
        Where the new dimensions stand in the result.

    Raises
    ------
    BadIndexError
        If the result has no such axis.
    ValueError
        If an axis is named twice.
    """
    check_arrays("expand_dims", x)
    if not isinstance(axis, tuple):
        position = normalized_axis(axis, x.ndim + 1)
        shape, strides = x.shape, x.strides
        return x.viewed(
            (*shape[:position], 1, *shape[position:]), (*strides[:position], 0, *strides[position:])
        )
    for position in sorted(normalized_axes(axis, x.ndim + len(axis))):
        x = expand_dims(x, axis=position)
    return x


@taped
def squeeze(x: ArrayT, /, axis: int | tuple[int, ...]) -> ArrayT:
    """The view without some dimensions of extent 1.

    Parameters
    ----------
    x : Array
        Any shape and dtype.
    axis : int or tuple of int
        Which are left out.

    Raises
    ------
    ShapeError, BadIndexError
        If one of them has another extent, or is not there.
    """
    check_arrays("squeeze", x)
    gone = normalized_axes(axis, x.ndim)
    if any(x.shape[a] != 1 for a in gone):
        raise ShapeError(f"squeeze of axes {axis} of shape {x.shape}: not all have extent 1")
    kept = [a for a in range(x.ndim) if a not in gone]
    return x.viewed(tuple(x.shape[a] for a in kept), tuple(x.strides[a] for a in kept))


@taped
def flip(x: ArrayT, /, *, axis: int | tuple[int, ...] | None = None) -> ArrayT:
    """The view with the order along axes (None: all) reversed.

    Parameters
    ----------
    x : Array
        Any shape and dtype.
    axis : int or tuple of int, optional
        Which are reversed.

    Raises
    ------
    BadIndexError
        If there is no such axis.
    """
    check_arrays("flip", x)
    axes = normalized_axes(axis, x.ndim)
    index = tuple(slice(None, None, -1) if a in axes else slice(None) for a in range(x.ndim))
    return x.part(index)


@taped
def broadcast_to(x: ArrayT, /, shape: tuple[int, ...]) -> ArrayT:
    """The view in which extents of 1 and missing ones are repeated.

    Parameters
    ----------
    x : Array
        Any shape and dtype.
    shape : tuple of int
        What `x` is repeated to.

    Raises
    ------
    ShapeError
        If `x` does not broadcast to exactly that shape.
    """
    check_arrays("broadcast_to", x)
    wanted = whole_numbers(shape)
    if common_shape([x.shape, wanted]) != wanted:
        raise ShapeError(f"an array of shape {x.shape} does not broadcast to {wanted}")
    return x.viewed(wanted, broadcast_strides(x.shape, x.strides, wanted))


def broadcast_arrays(*arrays: ArrayT) -> tuple[ArrayT, ...]:
    """Views of all in the shape that they broadcast to.

    Parameters
    ----------
    *arrays : Array
        In any dtypes; shapes that cannot be broadcast together are a `ShapeError`.
    """
    check_arrays("broadcast_arrays", *arrays)
    if not arrays:
        return ()
    shape = common_shape([x.shape for x in arrays])
    return tuple([broadcast_to(x, shape) for x in arrays])


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that shapes broadcast to.

    Parameters
    ----------
    *shapes : tuple of int
        Extents that are not negative; without any shape the result is ``()``.

    Raises
    ------
    ShapeError
        If they cannot be broadcast together, or one has a negative extent.
    """
    extents = [whole_numbers(shape) for shape in shapes]
    for shape in extents:
        if any(n < 0 for n in shape):
            raise ShapeError(f"broadcast_shapes takes extents from 0 on, not shape {shape}")
    return common_shape(extents) if extents else ()


@taped
def unstack(x: ArrayT, /, *, axis: int = 0) -> tuple[ArrayT, ...]:
    """Views of the slices along an axis.

    Parameters
    ----------
    x : Array
        Any shape and dtype.
    axis : int
        Along which.

    Raises
    ------
    BadIndexError
        If there is no such axis.
    """
    check_arrays("unstack", x)
    dim = normalized_axis(axis, x.ndim)
    shape = (*x.shape[:dim], *x.shape[dim + 1 :])
    strides = (*x.strides[:dim], *x.strides[dim + 1 :])
    start, step = x.offset, x.strides[dim]
    return tuple([x.viewed(shape, strides, start + i * step) for i in range(x.shape[dim])])
