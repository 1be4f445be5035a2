"""The set functions of the Array API; but for `isin` they wait to learn the result's shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from portable.array.array import Array
from portable.array.base.defaults import beside
from portable.array.functions.manipulation import astype, reshape
from portable.array.functions.searching import ordered, sort
from portable.dtypes import DType, bool_, int64, uint8
from portable.errors import DTypeError
from portable.primitives.base.operands import promoted_on
from portable.primitives.base.recipe import Plans, Recipe
from portable.primitives.base.storage import Storage
from portable.primitives.maps.elementwise import check_arrays, check_operands
from portable.primitives.moves.copying import converted, reshaped
from portable.primitives.sorts.distinct import Distinct, Wanted, distinct_of
from portable.primitives.sorts.sorting_kernels import member
from portable.recording import taped

__all__ = ["isin", "unique_all", "unique_counts", "unique_inverse", "unique_values"]

_GROUP: Final = 256


class UniqueAll(NamedTuple):
    """Distinct elements, where each first stands, which of them each element is, how often."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """Distinct elements in order, and how often each occurs."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """Distinct elements in order, and which of them each element is."""

    values: Array
    inverse_indices: Array


def _found(name: str, x: Any, **wanted: bool) -> Distinct:
    check_operands(name, (x,))
    line, order = x if x.ndim == 1 else reshape(x, (-1,)), None
    if not line.size:
        empty = x.device.empty((0,), int64)
        return Distinct(x.device.empty((0,), x.dtype), empty, reshape(empty, x.shape), empty)
    if "firsts" in wanted or "inverse" in wanted:
        line, order = ordered(line, descending=False)
    else:
        line = sort(line)
    distinct = distinct_of(line, order, Wanted(**wanted))
    if x.ndim != 1 and distinct.inverse is not None:
        return replace(distinct, inverse=reshape(distinct.inverse, x.shape))
    return distinct


def isin(x1: Array | int, x2: Array | int, /, *, invert: bool = False) -> Array:
    """Whether each element of one array is among those of another.

    NaN are not equal to one another, zeros of either sign are. The second array is sorted, and
    each element of the first looked for by halving it.

    Parameters
    ----------
    x1 : Array or number
        What is looked for, of any shape: real numbers or bools.
    x2 : Array or number
        Among which, of any shape; one of the two has to be an array.
    invert : bool
        Whether to tell which elements are not there.

    Returns
    -------
    Array
        Bools in the shape of `x1`.

    Raises
    ------
    DTypeError
        For complex numbers, and int64 with uint64.
    OverflowError
        For a number that the other's dtype does not hold.
    """
    check_operands("isin", (x1, x2))
    values: Any = beside(x1, x2) if isinstance(x2, Storage) else x1
    table = beside(x2, values)
    check_arrays("isin", values, table)
    kind = promoted_on(values.device, values.dtype, table.dtype)
    if kind.is_complex:
        raise DTypeError(f"isin takes real numbers and bools, not {kind.name}")
    kind = uint8 if kind is bool_ else kind
    table = sort(reshape(astype(table, kind, copy=False), (-1,)))
    return _membership.run((table, values), kind, bool(invert))  # type: ignore[no-any-return]


def _write_membership(arrays: tuple[Any, ...], kind: DType, inverted: bool) -> Callable[..., Any]:
    """What `isin` has to do for arrays like these, the first one sorted."""
    table, values = arrays
    recipe = Recipe(table, values)
    out = recipe.empty(values.shape, bool_)
    if out.size:
        size = (values.size,)
        flat = reshaped(recipe, converted(recipe, values, kind), size)
        result = out.viewed(size, (bool_.itemsize,))
        recipe.launch(member, out.size, _GROUP, table, flat, result, INVERTED=inverted)
    return recipe.finish(out)


_membership: Final = Plans(_write_membership)


@taped
def unique_values(x: Array, /) -> Array:
    """The distinct elements.

    NaN are not equal to one another, zeros of either sign are. Waits for the device.

    Parameters
    ----------
    x : Array
        Any shape and dtype.

    Returns
    -------
    Array
        In ascending order, in one dimension.
    """
    return _found("unique_values", x).values  # type: ignore[no-any-return]


@taped
def unique_counts(x: Array, /) -> UniqueCounts:
    """The distinct elements, and how often each occurs.

    NaN are not equal to one another, zeros of either sign are. Waits for the device.

    Parameters
    ----------
    x : Array
        Any shape and dtype.

    Returns
    -------
    values : Array
        The distinct elements in ascending order, in one dimension.
    counts : Array
        How often each occurs; `int64`.
    """
    distinct = _found("unique_counts", x, sizes=True)
    return UniqueCounts(distinct.values, distinct.sizes)


@taped
def unique_inverse(x: Array, /) -> UniqueInverse:
    """The distinct elements, and which of them each element is.

    NaN are not equal to one another, zeros of either sign are. Waits for the device.

    Parameters
    ----------
    x : Array
        Any shape and dtype.

    Returns
    -------
    values : Array
        The distinct elements in ascending order, in one dimension.
    inverse_indices : Array
        Which of them each element of `x` is, in its shape; `int64`.
    """
    distinct = _found("unique_inverse", x, inverse=True)
    return UniqueInverse(distinct.values, distinct.inverse)


@taped
def unique_all(x: Array, /) -> UniqueAll:
    """The distinct elements, where each first stands, the inverse, and the counts.

    NaN are not equal to one another, zeros of either sign are. Waits for the device.

    Parameters
    ----------
    x : Array
        Any shape and dtype.

    Returns
    -------
    values : Array
        The distinct elements in ascending order, in one dimension.
    indices : Array
        Where in `x`, counted in C order, each stands first; `int64`.
    inverse_indices : Array
        Which of them each element of `x` is, in its shape; `int64`.
    counts : Array
        How often each occurs; `int64`.
    """
    distinct = _found("unique_all", x, firsts=True, inverse=True, sizes=True)
    return UniqueAll(distinct.values, distinct.firsts, distinct.inverse, distinct.sizes)
