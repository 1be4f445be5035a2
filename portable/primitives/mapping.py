"""Functions of elements, and copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from portable import dtypes
from portable.dtypes import DType
from portable.errors import ShapeError
from portable.lang.arguments.structs import is_composite, items_of
from portable.lang.function import arity, settled
from portable.lang.words.word import word_of
from portable.namespace import device_of_arrays, to_numpy
from portable.primitives.base.exchange import takes_other_libraries
from portable.primitives.base.operands import normalized_axes, number_for, operation, promoted
from portable.primitives.base.recipe import Number, Plans, Recipe
from portable.primitives.base.storage import Borrowed, Storage, released, stored
from portable.primitives.elements import Elements, How, given_back, map_elements
from portable.primitives.maps.elementwise import applied
from portable.primitives.maps.work import conversion_to

_CHUNK: Final = 4096
"""Elements that a lone work-item does."""
_GROUP: Final = 256


@takes_other_libraries
def map(function: Any, x: Any, *, dtype: Any = None) -> Any:
    """A function of each element.

    Parameters
    ----------
    function : function
        Any that kernels can call; takes an element, or an element and its position in C order, and
        gives a number, or a tuple or struct of numbers. For expressions of whole arrays see
        `portable.fuse`.
    x : array, or tuple or struct of arrays
        As of `reduce`.
    dtype : dtype, or tuple or struct of dtypes, optional
        Of the results, by which they are structs as well; by default a number of the dtype that
        those of `x` promote to.

    Returns
    -------
    array, or tuple or struct of arrays
        The results, in the shape of `x`, on its device and of its library.

    Examples
    --------
    >>> @pt.function
    ... def polar(z):
    ...     return Polar(kl.hypot(z.x, z.y), kl.atan2(z.y, z.x))
    >>> primitives.map(polar, Point(x, y), dtype=Polar("float32", "float32"))  # doctest: +SKIP
    """
    given = Elements.of("map", x)
    if dtype is None:
        dtype = promoted(*(a.dtype for a in given.arrays))
    how = how_to_map(function, given.kind, dtype)
    kinds = tuple(dtypes.dtype(d) for d in (items_of(dtype) if how.total else (dtype,)))
    result = _mapped.run(given.arrays, how, kinds)
    return given_back(result, how.total)


def how_to_map(function: Any, given: Any, dtype: Any) -> How:
    """What `map` does to elements of a kind (`Elements`); a constant of `map_elements`."""
    kind = type(dtype) if is_composite(type(dtype)) else None
    function = settled(operation(function))
    indexed = word_of(function) is None and arity(function) > 1
    return How(None, function, indexed, given, kind, 0)


def _write_map(
    arrays: tuple[Storage, ...], how: How, kinds: tuple[DType, ...]
) -> Callable[..., Any]:
    """What `map` has to do for arrays like these."""
    recipe = Recipe(*arrays)
    out = tuple(recipe.empty(arrays[0].shape, kind) for kind in kinds)
    size = arrays[0].size
    if size:
        alone = arrays[0].device.capabilities.single_work_items
        chunk, group = (_CHUNK, 1) if alone else (1, _GROUP)
        recipe.launch(map_elements, -(-size // chunk), group, arrays, out, HOW=how, CHUNK=chunk)
    return recipe.finish(*out)


_mapped: Final = Plans(_write_map)


# -- copies -----------------------------------------------------------------------------------


@takes_other_libraries
def copy(x: Any, out: Any = None) -> Any:
    """A copy of an array in C order, or in the memory of another one.

    Parameters
    ----------
    x : array
        Of any library and layout.
    out : array, optional
        Of the same device, and of a shape that `x` broadcasts to; elements are converted to its
        dtype. It may overlap `x`.

    Returns
    -------
    array
        `out`, or a new array of the dtype of `x`.
    """
    device = device_of_arrays(x) if out is None else device_of_arrays(x, out)
    source = stored(device, x)
    if out is None:
        return released(_copied(source, source.dtype))
    target = stored(device, out)
    target.check_writable()
    if _may_share(source, target):
        source = _copied(source, source.dtype)
    if target.size:
        _copying.run((source, target))
    return out


def _may_share(x: Storage, y: Storage) -> bool:
    """Whether arrays may have memory in common."""
    if not (isinstance(x, Borrowed) and isinstance(y, Borrowed)):
        return x.overlaps(y)
    low, high = x.reach()
    other_low, other_high = y.reach()
    return low < other_high and other_low < high


def _write_copy(arrays: tuple[Storage, ...]) -> Callable[..., Any]:
    source, target = arrays
    recipe = Recipe(source, target)
    applied(recipe, conversion_to(target.dtype), source, out=target)
    return recipe.finish(target)


_copying: Final = Plans(_write_copy)


def _write_new(x: Storage, kind: DType) -> Callable[..., Any]:
    recipe = Recipe(x)
    out = recipe.empty(x.shape, kind)
    if out.size:
        applied(recipe, conversion_to(kind), x, out=out)
    return recipe.finish(out)


_copied: Final = Plans(_write_new)


@takes_other_libraries
def fill(out: Any, value: Any) -> Any:
    """Writes a number to every element of an array, converted to its dtype.

    Parameters
    ----------
    out : array
        Of any library and layout.
    value : number
        Python's or NumPy's.

    Returns
    -------
    array
        `out`.
    """
    device = device_of_arrays(out)
    target = stored(device, out)
    target.check_writable()
    host = np.asarray(to_numpy(value) if device.owns(value) else value, target.dtype.numpy)
    if host.ndim:
        raise ShapeError(f"fill takes a number, not an array of shape {host.shape}; use copy")
    filled(target, host[()])
    return out


def filled(target: Storage, number: Any) -> Storage:
    """The array itself, all of whose elements are a number now.

    Parameters
    ----------
    target : Storage
        Which may be written to.
    number : number
        Of the kind of its elements.
    """
    if target.size:
        _filling.run((target,), numbers=(number_for(number, target.dtype),))
    return target


def _write_fill(arrays: tuple[Storage, ...]) -> Callable[..., Any]:
    """Takes the array and a number; copying it from the host would spoil a captured graph."""
    (target,) = arrays
    number = Number(number_for(0, target.dtype))
    recipe = Recipe(target, number)
    applied(recipe, conversion_to(target.dtype), number, out=target)
    return recipe.finish(target)


_filling: Final = Plans(_write_fill)


@takes_other_libraries
def transpose(x: Any, axes: Sequence[int] | None = None) -> Any:
    """A new array with dimensions in another order, contiguous.

    Parameters
    ----------
    x : array
        Of any library and layout.
    axes : sequence of int, optional
        The dimensions of `x` in their new order; by default reversed.

    Returns
    -------
    array
        The elements, in C order; not a view of `x`.

    Raises
    ------
    ShapeError
        If `axes` does not name each dimension once.
    """
    source = stored(device_of_arrays(x), x)
    order = tuple(reversed(range(source.ndim))) if axes is None else tuple(axes)
    order = normalized_axes(order, source.ndim)
    if len(order) != source.ndim:
        raise ShapeError(f"transpose by axes {axes} of an array with {source.ndim} dimensions")
    turned = source.viewed(
        tuple(source.shape[a] for a in order), tuple(source.strides[a] for a in order)
    )
    return released(_copied(turned, source.dtype))
