"""The searching and indexing functions of the Array API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from portable.array.base.defaults import beside
from portable.array.base.operations import ArrayT
from portable.array.functions import manipulation
from portable.array.functions.elementwise import not_equal
from portable.dtypes import bool_, int64
from portable.errors import DTypeError, ShapeError
from portable.primitives.base.operands import normalized_axis, promoted_on
from portable.primitives.base.recipe import Plans, Recipe
from portable.primitives.maps.elementwise import check_arrays, check_operands
from portable.primitives.masks.compaction import true_indices
from portable.primitives.moves.copying import converted, reshaped
from portable.primitives.moves.gathering import Selection, gathered_along, taken
from portable.primitives.reductions.stateful import best_along_last
from portable.primitives.sorts.sorting import sorted_along_last
from portable.primitives.sorts.sorting_kernels import search
from portable.recording import taped

__all__ = [
    "argmax",
    "argmin",
    "argsort",
    "nonzero",
    "searchsorted",
    "sort",
    "take",
    "take_along_axis",
]

# The sorting functions of the Array API.


def ordered(x: Any, descending: bool) -> tuple[Any, Any]:
    """The last axis sorted, and where its elements were; equal elements keep their order."""
    return sorted_along_last(x, descending, True, True)  # type: ignore[no-any-return]


@taped
def sort(x: ArrayT, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> ArrayT:
    """The elements along an axis in order.

    Parameters
    ----------
    x : Array
        Bools and numbers; complex ones are in the order of their real parts, then of the imaginary.
    axis : int
        Along which to sort.
    descending : bool
        Whether the greatest element comes first; equal elements keep their order then too.
    stable : bool
        Taken for the standard's sake: sorting is always stable.

    Returns
    -------
    Array
        Of the shape and dtype of `x`.

    Notes
    -----
    NaN counts as greatest, zeros of either sign as equal. Long rows are ordered by their digits,
    short ones by merging: the modules of `portable.primitives.sorts` say how, and after whom.
    """
    check_operands("sort", (x,))
    return _along(x, axis, descending, True)


def argsort(
    x: ArrayT, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> ArrayT:
    """The positions by which `sort` orders the elements along an axis.

    Parameters
    ----------
    x : Array
        Bools and numbers; complex ones are in the order of their real parts, then of the imaginary.
    axis : int
        Along which to sort.
    descending : bool
        Whether the greatest element comes first; equal elements keep their order then too.
    stable : bool
        Taken for the standard's sake: sorting is always stable.

    Returns
    -------
    Array
        Of `int64` and the shape of `x`.

    Notes
    -----
    NaN counts as greatest, zeros of either sign as equal. Long rows are ordered by their digits,
    short ones by merging: the modules of `portable.primitives.sorts` say how, and after whom.
    """
    check_operands("argsort", (x,))
    return _along(x, axis, descending, False)


def _along(x: ArrayT, axis: int, descending: bool, values: bool) -> ArrayT:
    dim = normalized_axis(axis, x.ndim)
    if dim == x.ndim - 1:
        return sorted_along_last(x, bool(descending), values, not values)  # type: ignore[no-any-return]
    result: ArrayT = sorted_along_last(
        manipulation.moveaxis(x, dim, -1), bool(descending), values, not values
    )
    return manipulation.contiguous(manipulation.moveaxis(result, -1, dim))


# -- searching -------------------------------------------------------------------------------------

_GROUP: Final = 256
_FEW_TO_COMPARE: Final = 8192


def argmax(x: ArrayT, /, *, axis: int | None = None, keepdims: bool = False) -> ArrayT:
    """The position of the greatest element along an axis, the first of equals.

    Parameters
    ----------
    x : Array
        Real numbers; NaN counts as greatest, and the first one is found.
    axis : int, optional
        None means the elements of all dimensions in C order.
    keepdims : bool
        Whether dimensions searched stay, with an extent of 1.

    Returns
    -------
    Array
        Of `int64`.

    Raises
    ------
    ValueError
        If there are no elements to choose from.
    DTypeError
        For bools and complex numbers.
    """
    check_operands("argmax", (x,))
    return _best(x, "argmax", axis, keepdims)  # type: ignore[no-any-return]


def argmin(x: ArrayT, /, *, axis: int | None = None, keepdims: bool = False) -> ArrayT:
    """The position of the least element along an axis, the first of equals.

    Parameters
    ----------
    x : Array
        Real numbers; NaN counts as least, and the first one is found.
    axis : int, optional
        None means the elements of all dimensions in C order.
    keepdims : bool
        Whether dimensions searched stay, with an extent of 1.

    Returns
    -------
    Array
        Of `int64`.

    Raises
    ------
    ValueError
        If there are no elements to choose from.
    DTypeError
        For bools and complex numbers.
    """
    check_operands("argmin", (x,))
    return _best(x, "argmin", axis, keepdims)  # type: ignore[no-any-return]


def _write_best(x: Any, name: str, axis: int | None, keepdims: bool) -> Callable[[Any], Any]:
    """What `argmax` and `argmin` have to do for arrays like `x`."""
    if x.dtype.kind not in "iuf":
        raise DTypeError(f"{name} takes real numbers, not {x.dtype.name}")
    if axis is None:
        shape = (1,) * x.ndim if keepdims else ()
        if x.ndim != 1 or not x.is_contiguous:
            flat = _write_best(manipulation.reshape(x, (-1,)), name, 0, False)
            return lambda x: manipulation.reshape(flat(manipulation.reshape(x, (-1,))), shape)
    dim = normalized_axis(0 if axis is None else axis, x.ndim)
    rest = (*x.shape[:dim], *x.shape[dim + 1 :])
    shape = (*x.shape[:dim], 1, *x.shape[dim + 1 :]) if keepdims else rest
    if x.shape[dim] == 0:
        raise ValueError(f"{name} of no elements, along axis {axis} of shape {x.shape}")
    if not x.size:
        return lambda x: x.device.empty(shape, int64)
    recipe = Recipe(x)
    best = best_along_last(recipe, manipulation.moveaxis(x, dim, -1), name == "argmax")
    return recipe.finish(best.shaped(shape))


_best: Final = Plans(_write_best)


def nonzero(x: ArrayT, /) -> tuple[ArrayT, ...]:
    """The indices of the elements that are not zero, in C order; waits for the device.

    Their number is read on the host, since the shape of the result depends on it.

    Parameters
    ----------
    x : Array
        Of one dimension or more, in any dtype.

    Returns
    -------
    tuple of Array
        For each dimension the indices of all, `int64` in one dimension.

    Raises
    ------
    ShapeError
        For an array without dimensions.
    """
    check_operands("nonzero", (x,))
    if not x.ndim:
        raise ShapeError("nonzero of an array without dimensions; reshape it to (1,)")
    if x.dtype is not bool_ and x.size > _FEW_TO_COMPARE:
        x = not_equal(x, 0)
    return true_indices(x if x.is_contiguous or x.ndim == 1 else manipulation.contiguous(x))


def true_positions(mask: ArrayT) -> ArrayT:
    """Where the bools of one dimension are true; waits for the device to learn how many."""
    return true_indices(mask)[0]  # type: ignore[no-any-return]


@taped
def take(x: ArrayT, indices: ArrayT, /, *, axis: int | None = None) -> ArrayT:
    """The elements at positions along an axis.

    Waits for the device to learn whether all are in range.

    Parameters
    ----------
    x : Array
        What to take from.
    indices : Array
        Integers in one dimension; negative ones count from the end.
    axis : int, optional
        May be left out where `x` has one dimension.

    Raises
    ------
    BadIndexError
        For a position out of range; it is an IndexError.
    """
    check_arrays("take", x, indices)
    check_operands("take", (x, indices))
    if axis is None:
        if x.ndim != 1:
            raise ShapeError(f"take from an array of shape {x.shape} needs an axis")
        axis = 0
    if not indices.dtype.is_integer:
        raise DTypeError(f"indices are integers, not {indices.dtype.name}")
    if indices.ndim != 1:
        raise ShapeError(f"indices have one dimension, not shape {indices.shape}")
    dim = normalized_axis(axis, x.ndim)
    return taken(Selection(x, (indices,), dim, False))  # type: ignore[no-any-return]


@taped
def take_along_axis(x: ArrayT, indices: ArrayT, /, *, axis: int = -1) -> ArrayT:
    """The elements at positions along an axis that differ from row to row.

    Waits for the device to learn whether all are in range.

    Parameters
    ----------
    x : Array
        What to take from.
    indices : Array
        Integers, in as many dimensions as `x`, broadcasting with it but for `axis`; negative ones
        count from the end.
    axis : int
        Which dimension they are positions in.

    Returns
    -------
    Array
        Of the shape that both broadcast to, with the extent of `indices` along `axis`.

    Raises
    ------
    BadIndexError
        For a position out of range; it is an IndexError.
    ShapeError
        If the shapes do not fit together.
    """
    check_arrays("take_along_axis", x, indices)
    check_operands("take_along_axis", (x, indices))
    dim = normalized_axis(axis, x.ndim)
    if indices.ndim != x.ndim:
        raise ShapeError(f"indices of shape {indices.shape} for an array of shape {x.shape}")
    if not indices.dtype.is_integer:
        raise DTypeError(f"indices are integers, not {indices.dtype.name}")
    return gathered_along(x, indices, dim)  # type: ignore[no-any-return]


def searchsorted(
    x1: ArrayT, x2: Any, /, *, side: str = "left", sorter: ArrayT | None = None
) -> ArrayT:
    """Where elements belong in a sorted array.

    Parameters
    ----------
    x1 : Array
        Real numbers in one dimension, in ascending order, NaN last.
    x2 : Array, number or sequence
        What to look for, of any shape; the dtypes promote together. A number takes the dtype of
        `x1`, or a float of its precision; a sequence becomes an array by itself.
    side : {"left", "right"}
        Whether to give the place before elements that are equal, or after them.
    sorter : Array, optional
        Integers that sort `x1`, as `argsort` gives them; then `x1` may be in any order.

    Returns
    -------
    Array
        Of `int64` and the shape of `x2`.
    """
    check_arrays("searchsorted", x1)
    x2 = beside(x2, x1)
    check_arrays("searchsorted", x2)
    check_operands("searchsorted", (x1, x2))
    if side not in ("left", "right"):
        raise ValueError(f"side={side!r}; searchsorted knows 'left' and 'right'")
    if x1.ndim != 1:
        raise ShapeError(f"searchsorted in an array of shape {x1.shape}; it has one dimension")
    if x1.dtype.kind not in "iuf" or x2.dtype.kind not in "iuf":
        raise DTypeError(
            f"searchsorted takes real numbers, not {x1.dtype.name} and {x2.dtype.name}"
        )
    if sorter is not None:
        x1 = take(x1, sorter)
    return _search.run((x1, x2), side == "right")  # type: ignore[no-any-return]


def _write_search(arrays: tuple[Any, ...], after: bool) -> Callable[..., Any]:
    """What `searchsorted` has to do for arrays like these."""
    kind = promoted_on(arrays[0].device, *[x.dtype for x in arrays])
    recipe = Recipe(*arrays)
    table, values = (converted(recipe, x, kind) for x in arrays)
    size = (values.size,)
    out = recipe.empty(values.shape, int64)
    if out.size:
        flat = out.viewed(size, (int64.itemsize,))
        values = reshaped(recipe, values, size)
        recipe.launch(search, out.size, _GROUP, table, values, flat, AFTER=after)
    return recipe.finish(out)


_search: Final = Plans(_write_search)
