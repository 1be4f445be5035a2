"""Sorting along an axis, and the greatest or least elements along one."""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Any, Final, NamedTuple

from portable.dtypes import int64
from portable.errors import ShapeError
from portable.lang.arguments.structs import is_composite, items_of
from portable.namespace import device_of_arrays
from portable.primitives.base.exchange import takes_other_libraries
from portable.primitives.base.operands import normalized_axis
from portable.primitives.base.recipe import Plans, Recipe
from portable.primitives.base.storage import Storage, released, stored
from portable.primitives.elements import Elements, given_back
from portable.primitives.maps.elementwise import recorded
from portable.primitives.maps.work import conversion_to
from portable.primitives.moves.gathering import gather_along
from portable.primitives.sorts.sorting import ordered


@takes_other_libraries
def sort(x: Any, *, axis: int = -1, descending: bool = False) -> Any:
    """The elements along an axis in order.

    Parameters
    ----------
    x : array
        Bools and numbers, of any library; complex ones are in the order of their real parts, then
        of the imaginary. NaN counts as greatest, zeros of either sign as equal.
    axis : int
        Along which.
    descending : bool
        Whether the greatest comes first.

    Returns
    -------
    array
        Of the shape, dtype and library of `x`; equal elements keep their order.

    Notes
    -----
    Long rows go by digits, on GPUs as Adinets and Merrill (2022, "Onesweep") do, on processors
    within buckets as those of Axtmann et al. (2022, "Engineering in-place sorting algorithms");
    short ones by the rank of each element.
    """
    return _along(x, axis, descending, True)


@takes_other_libraries
def argsort(x: Any, *, axis: int = -1, descending: bool = False) -> Any:
    """The positions by which `sort` orders the elements along an axis, of `int64`.

    Parameters
    ----------
    x, axis, descending
        As of `sort`.

    Returns
    -------
    array
        Of the shape and library of `x`.
    """
    return _along(x, axis, descending, False)


def _along(x: Any, axis: int, descending: bool, values: bool) -> Any:
    given = stored(device_of_arrays(x), x)
    dim = normalized_axis(axis, given.ndim)
    return released(_sorted(given, dim, bool(descending), values))


def _write_sort(x: Storage, axis: int, descending: bool, values: bool) -> Callable[..., Any]:
    """What `sort` has to do for arrays like `x`, or `argsort`."""
    recipe = Recipe(x)
    return recipe.finish(*_ordered(recipe, x, axis, descending, values=values, order=not values))


def _ordered(
    recipe: Recipe, x: Storage, axis: int, descending: bool, *, values: bool, order: bool
) -> list[Storage]:
    """The elements along an axis in order, and where they were; those of both that are wanted."""
    both = ordered(recipe, _moved(x, axis, -1), descending, values=values, order=order)
    return [_moved_back(recipe, made, axis) for made in both if made is not None]


def _moved_back(recipe: Recipe, made: Storage, axis: int) -> Storage:
    """What lies along the last axis along another one; a copy unless that is the last."""
    if axis == made.ndim - 1:
        return made
    turned: Storage = recorded(recipe, conversion_to(made.dtype), _moved(made, -1, axis))
    return turned


def _moved(x: Storage, source: int, to: int) -> Storage:
    """The view with a dimension elsewhere."""
    order = [d for d in range(x.ndim) if d != source % x.ndim]
    order.insert(to % x.ndim, source % x.ndim)
    return x.viewed(tuple(x.shape[d] for d in order), tuple(x.strides[d] for d in order))


_sorted: Final = Plans(_write_sort)


@takes_other_libraries
def sort_by_key(keys: Any, values: Any, *, axis: int = -1, descending: bool = False) -> Any:
    """Keys sorted, and their values in the same order.

    Parameters
    ----------
    keys : array
        As `sort` takes it.
    values : array, or tuple or struct of arrays
        Of the shape of `keys` and their device.
    axis : int
        Along which to sort.
    descending : bool
        Whether the greatest key comes first.

    Returns
    -------
    keys : array
        In order; equal ones keep theirs.
    values : array, or tuple or struct of arrays
        Moved like their keys.

    Raises
    ------
    ShapeError
        If the shapes differ.
    """
    kind = type(values) if is_composite(type(values)) else None
    given = Elements.of("sort_by_key", (keys, *((values,) if kind is None else items_of(values))))
    dim = normalized_axis(axis, len(given.shape))
    first, *moved = _sorted_by_key.run(given.arrays, dim, bool(descending))
    return released(first), given_back(tuple(moved), kind)


def _write_by_key(
    arrays: tuple[Storage, ...], axis: int, descending: bool
) -> Callable[..., tuple[Storage, ...]]:
    """What `sort_by_key` has to do for keys and values like these."""
    recipe = Recipe(*arrays)
    keys, order = _ordered(recipe, arrays[0], axis, descending, values=True, order=True)
    return recipe.finish(keys, *(gather_along(recipe, x, order, None, axis) for x in arrays[1:]))


_sorted_by_key: Final = Plans(_write_by_key)


# -- greatest or least -----------------------------------------------------------------------------


class TopK(NamedTuple):
    """The result of `topk`.

    Attributes
    ----------
    values : array
        The elements, the first one first in order.
    indices : array
        Where they stand along the axis, int64.
    """

    values: Any
    indices: Any


@takes_other_libraries
def topk(x: Any, k: int, /, *, axis: int = -1, largest: bool = True) -> TopK:
    """The `k` greatest elements along an axis in descending order, or the least in ascending.

    Parameters
    ----------
    x : array
        Bools and real numbers, of any library. NaN counts as greatest.
    k : int
        How many, from 0 to the extent of the axis.
    axis : int
        Along which.
    largest : bool
        Whether the greatest are asked for, and not the least.

    Returns
    -------
    TopK
        Elements and positions; the axis has the extent `k`. Of equal elements the first come first.

    Raises
    ------
    TypeError
        For a `k` that is no integer.
    ValueError
        For a `k` out of range.
    ShapeError
        For an array without dimensions.

    Notes
    -----
    The axis is sorted whole, by `argsort`, so that all `k` take as long.
    """
    device = device_of_arrays(x)
    if not x.shape:
        raise ShapeError("topk of an array without dimensions")
    dim = normalized_axis(axis, len(x.shape))
    k, extent = index(k), int(x.shape[dim])
    if not 0 <= k <= extent:
        raise ValueError(f"topk of k={k}; axis {axis} has {extent} elements")
    held = stored(device, x)
    values, places = _topmost(held, k, dim, bool(largest))
    return TopK(released(values), released(places))


def _write_topk(x: Storage, k: int, axis: int, largest: bool) -> Callable[..., tuple[Storage, ...]]:
    """What `topk` has to do for arrays like `x`."""
    recipe = Recipe(x)
    _, order = ordered(recipe, _moved(x, axis, -1), largest, values=False, order=True)
    first = order.viewed((*order.shape[:-1], k), order.strides)
    places = recorded(recipe, conversion_to(int64), _moved(first, -1, axis))
    return recipe.finish(gather_along(recipe, x, places, None, axis), places)


_topmost: Final = Plans(_write_topk)
