"""Functions that make new arrays of others' elements: joined, rolled, tiled, repeated."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise, product
from typing import Any, Final

import numpy as np

from portable.array.base.operations import ArrayT
from portable.array.functions import manipulation
from portable.errors import DTypeError, ShapeError
from portable.primitives.base.operands import (
    normalized_axis,
    promoted_on,
    whole_numbers,
)
from portable.primitives.base.recipe import Plans, Recipe
from portable.primitives.base.storage import Storage
from portable.primitives.maps.elementwise import check_arrays, check_operands, recorded
from portable.primitives.maps.work import conversion_to
from portable.primitives.moves.copying import copy_in, reshaped
from portable.primitives.moves.gathering import gathered
from portable.recording import taped

__all__ = ["concat", "repeat", "roll", "stack", "tile"]


@taped
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
    return _checked_join("concat", arrays, axis, False)  # type: ignore[no-any-return]


@taped
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
    return _checked_join("stack", arrays, axis, True)  # type: ignore[no-any-return]


def _checked_join(name: str, arrays: Sequence[Any], axis: int | None, stacked: bool) -> Any:
    items = list(arrays)
    if not items:
        raise ValueError(f"{name} needs at least one array")
    check_arrays(name, *items)
    check_operands(name, items)
    return _joined.run(tuple(items), axis, stacked)


def _write_join(arrays: tuple[Any, ...], axis: int | None, stacked: bool) -> Callable[..., Any]:
    """What `concat` has to do for arrays like these, or `stack`."""
    if stacked and len({x.shape for x in arrays}) > 1:
        raise ShapeError(f"stack of different shapes {[x.shape for x in arrays]}")
    recipe = Recipe(*arrays)
    parts = list(arrays)
    if axis is None:
        parts, axis = [reshaped(recipe, x, (x.size,)) for x in arrays], 0
    elif stacked:
        parts = [manipulation.expand_dims(x, axis=axis) for x in arrays]
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


@taped
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
    return recipe.finish(out.shaped(x.shape))


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


@taped
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
    return recipe.finish(out.shaped(tuple(a * b for a, b in zip(counts, shape, strict=True))))


_tiled: Final = Plans(_write_tile)


@taped
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
        x, axis = manipulation.reshape(x, (-1,)), 0
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
    return recipe.finish(out.shaped((*shape[:dim], shape[dim] * count, *shape[dim + 1 :])))


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
