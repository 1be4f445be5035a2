"""The manipulation functions of the Array API, and conversion of dtypes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise, product
from math import prod
from typing import Any, Final

import numpy as np

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
    promoted_on,
    reshaped_strides,
    whole_numbers,
)
from portable.primitives.base.recipe import Plans, Recipe
from portable.primitives.base.storage import Storage, contiguous_strides
from portable.primitives.maps.engine import check_arrays, check_operands, recorded
from portable.primitives.maps.work import conversion_to
from portable.primitives.moves.copying import copy_in, reshaped
from portable.primitives.moves.gathering import gathered
from portable.recording import told

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


@told
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
        return _reshaped(copied(x), wanted)
    if x.is_contiguous:
        return _reshaped(x, wanted)
    strides = reshaped_strides(x.shape, x.strides, wanted)
    if strides is not None:
        return x.viewed(wanted, strides)
    if copy is False:
        raise ValueError(f"reshape to {wanted} of an array of strides {x.strides} needs a copy")
    return _reshaped(copied(x), wanted)


def _reshaped(x: ArrayT, shape: tuple[int, ...]) -> ArrayT:
    return x.viewed(shape, contiguous_strides(shape, x.dtype.itemsize))


def _filled_shape(x: ArrayT, shape: tuple[int, ...]) -> tuple[int, ...]:
    if shape.count(-1) == 1:
        known = prod(n for n in shape if n != -1)
        if known and x.size % known == 0:
            shape = tuple(x.size // known if n == -1 else n for n in shape)
    if any(n < 0 for n in shape) or prod(shape) != x.size:
        raise ShapeError(f"an array of shape {x.shape} has {x.size} elements, not those of {shape}")
    return shape


@told
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


@told
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


@told
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


@told
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


@told
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


@told
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


@told
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


# -- new arrays -----------------------------------------------------------------------------


@told
def concat(arrays: tuple[ArrayT, ...] | list[ArrayT], /, *, axis: int | None = 0) -> ArrayT:
    """Arrays joined along an axis (None: all flattened), in their common dtype.

    Parameters
    ----------
    arrays : sequence of Array
        At least one; their shapes differ along `axis` alone.
    axis : int, optional
        Which is joined.

    Raises
    ------
    ValueError, ShapeError, DTypeError, BadIndexError
        If there are no arrays; if shapes, dtypes or the axis do not fit.
    """
    items = list(arrays)
    if not items:
        raise ValueError("concat needs at least one array")
    check_arrays("concat", *items)
    check_operands("concat", items)
    return _joined.run(tuple(items), axis, False)  # type: ignore[no-any-return]


@told
def stack(arrays: tuple[ArrayT, ...] | list[ArrayT], /, *, axis: int = 0) -> ArrayT:
    """Arrays of one shape joined along a new axis.

    Parameters
    ----------
    arrays : sequence of Array
        At least one, all of one shape.
    axis : int
        Where the new axis stands in the result.

    Raises
    ------
    ValueError, ShapeError, DTypeError, BadIndexError
        If there are no arrays; if shapes, dtypes or the axis do not fit.
    """
    items = list(arrays)
    if not items:
        raise ValueError("stack needs at least one array")
    check_arrays("stack", *items)
    check_operands("stack", items)
    return _joined.run(tuple(items), axis, True)  # type: ignore[no-any-return]


def _write_join(arrays: tuple[Any, ...], axis: int | None, stacked: bool) -> Callable[..., Any]:
    """What `concat` has to do for arrays like these, or `stack`."""
    if stacked and len({x.shape for x in arrays}) > 1:
        raise ShapeError(f"stack of different shapes {[x.shape for x in arrays]}")
    recipe = Recipe(*arrays)
    parts = list(arrays)
    if axis is None:
        parts, axis = [reshaped(recipe, x, (x.size,)) for x in arrays], 0
    elif stacked:
        parts = [expand_dims(x, axis=axis) for x in arrays]
    return recipe.finish(joined(recipe, parts, normalized_axis(axis, parts[0].ndim)))


_joined: Final = Plans(_write_join)


def joined(recipe: Recipe, parts: Sequence[Any], axis: int) -> Any:
    """Arrays of a recipe joined along an axis, as a new one.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    parts : sequence of Storage
        Arrays of it, alike but for their extents along the axis.
    axis : int
        Along which, counted from the front.
    """
    first = parts[0]
    for x in parts:
        rest = (*x.shape[:axis], *x.shape[axis + 1 :])
        if x.ndim != first.ndim or rest != (*first.shape[:axis], *first.shape[axis + 1 :]):
            raise ShapeError(f"concat of {first.shape} and {x.shape} along axis {axis}")
    ends = [0, *accumulate(x.shape[axis] for x in parts)]
    shape = (*first.shape[:axis], ends[-1], *first.shape[axis + 1 :])
    out = recipe.empty(shape, promoted_on(first.device, *[x.dtype for x in parts]))
    lead = (slice(None),) * axis
    targets = [out.part((*lead, slice(*span))) for span in pairwise(ends)]
    copy_in(recipe, list(zip(parts, targets, strict=True)))
    return out


@told
def roll(
    x: ArrayT, /, shift: int | tuple[int, ...], *, axis: int | tuple[int, ...] | None = None
) -> ArrayT:
    """Elements moved along axes (None: flattened), the last ones coming first.

    Parameters
    ----------
    x : Array
        Any shape.
    shift : int or tuple of int
        By how many elements; one number for all axes, or one each.
    axis : int or tuple of int, optional
        Along which; by default elements are counted in C order.
    """
    check_arrays("roll", x)
    axes = axis if isinstance(axis, tuple) else (axis or 0,)
    shifts = shift if isinstance(shift, tuple) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise ValueError(f"roll by {len(shifts)} shifts along {len(axes)} axes")
    return _rolled(x, tuple(map(operator.index, shifts)), axes, axis is None)  # type: ignore[no-any-return]


def _write_roll(
    x: Any, shifts: tuple[int, ...], axes: tuple[int, ...], flattened: bool
) -> Callable[..., Any]:
    """What `roll` has to do for arrays like `x`: a copy of each part that stays together."""
    recipe = Recipe(x)
    source = reshaped(recipe, x, (x.size,)) if flattened else x
    out = recipe.empty(source.shape, x.dtype)
    total = [0] * source.ndim
    for axis, by in zip(axes, shifts, strict=True):
        total[normalized_axis(axis, source.ndim)] += by
    if x.size:
        pieces = [tuple(zip(*p, strict=True)) for p in product(*map(_pieces, source.shape, total))]
        copy_in(recipe, [(source.part(here), out.part(there)) for there, here in pieces])
    return recipe.finish(_reshaped(out, x.shape))


_rolled: Final = Plans(_write_roll)


def _pieces(extent: int, shift: int) -> list[tuple[slice, slice]]:
    """Where along an axis, not empty, parts go that stay together, and which they are."""
    cut = shift % extent
    if not cut:
        return [(slice(None), slice(None))]
    return [
        (slice(cut, None), slice(None, extent - cut)),
        (slice(None, cut), slice(extent - cut, None)),
    ]


@told
def tile(x: ArrayT, repetitions: int | tuple[int, ...], /) -> ArrayT:
    """The array repeated as a whole along each dimension.

    Parameters
    ----------
    x : Array
        Any shape and dtype.
    repetitions : int or tuple of int
        How often along each dimension, the last ones if there are fewer; more add dimensions.

    Raises
    ------
    ValueError
        If one is negative.
    """
    check_arrays("tile", x)
    counts = whole_numbers(repetitions)
    if any(n < 0 for n in counts):
        raise ValueError(f"tile by negative repetitions: {counts}")
    return _tiled(x, counts)  # type: ignore[no-any-return]


def _write_tile(x: Any, counts: tuple[int, ...]) -> Callable[..., Any]:
    """What `tile` has to do for arrays like `x`: a copy of a view that repeats them."""
    ndim = max(x.ndim, len(counts))
    shape = (1,) * (ndim - x.ndim) + x.shape
    strides = (0,) * (ndim - x.ndim) + x.strides
    counts = (1,) * (ndim - len(counts)) + counts
    wide = tuple(n for pair in zip(counts, shape, strict=True) for n in pair)
    steps = tuple(step for stride in strides for step in (0, stride))
    recipe = Recipe(x)
    out = recorded(recipe, conversion_to(x.dtype), x.viewed(wide, steps))
    return recipe.finish(_reshaped(out, tuple(a * b for a, b in zip(counts, shape, strict=True))))


_tiled: Final = Plans(_write_tile)


@told
def repeat(x: ArrayT, repeats: int | ArrayT, /, *, axis: int | None = None) -> ArrayT:
    """Each element repeated, a number of times or as an array says, along an axis (None: all).

    An array of repeats is read on the host, since the result's shape depends on it.

    Parameters
    ----------
    x : Array
        Any shape.
    repeats : int or Array
        How often; an array has one integer for each element along the axis.
    axis : int, optional
        Along which; by default the result has one dimension.

    Raises
    ------
    ShapeError
        If an array of repeats is neither of one element nor of one for each to repeat.
    ValueError
        If something is to be repeated less than no time.
    """
    check_arrays("repeat", x)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    dim = normalized_axis(axis, x.ndim)
    if isinstance(repeats, Storage) and (repeats.size != 1 or repeats.ndim):
        order = np.repeat(np.arange(x.shape[dim]), _repeats(repeats, x.shape[dim]))
        return gathered(x, x.device.from_numpy(order), dim)  # type: ignore[no-any-return]
    count = operator.index(repeats)  # type: ignore[arg-type]  # such are arrays of one
    if count < 0:
        raise ValueError(f"repeat of elements {count} times")
    return _repeated(x, count, dim)  # type: ignore[no-any-return]


def _write_repeat(x: Any, count: int, dim: int) -> Callable[..., Any]:
    """What `repeat` has to do for arrays like `x`: a copy of a view with another dimension."""
    shape, strides = x.shape, x.strides
    wide = x.viewed(
        (*shape[: dim + 1], count, *shape[dim + 1 :]),
        (*strides[: dim + 1], 0, *strides[dim + 1 :]),
    )
    recipe = Recipe(x)
    out = recorded(recipe, conversion_to(x.dtype), wide)
    return recipe.finish(_reshaped(out, (*shape[:dim], shape[dim] * count, *shape[dim + 1 :])))


_repeated: Final = Plans(_write_repeat)


def _repeats(x: Any, extent: int) -> np.ndarray[Any, Any]:
    """How often to repeat each of so many elements, on the host."""
    if not x.dtype.is_integer:
        raise DTypeError(f"repeats are integers, not {x.dtype.name}")
    if x.shape not in ((1,), (extent,)):
        raise ShapeError(f"repeats of shape {x.shape} for {extent} elements")
    counts = x.device.to_numpy(x).astype(np.int64)  # as NumPy takes no uint64 here
    if (counts < 0).any():
        raise ValueError(f"repeat of elements {counts.min()} times")
    return counts  # type: ignore[no-any-return]
