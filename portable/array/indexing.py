"""Indexing and assignment: views by slices, copies by arrays of integers or bools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from portable.array.base.geometry import broadcast_shapes
from portable.array.base.recipe import Plans, Recipe
from portable.array.base.storage import Storage, contiguous_strides, expanded_index
from portable.array.engine import apply, check_operands
from portable.array.masks.compaction import compacted
from portable.array.masks.mask_assignment import assigned, filled
from portable.array.masks.positions import (
    bad_index_flag,
    check_flag,
    linear_positions,
    positions_in,
)
from portable.array.moves.gathering import gather_in, gathered, gathered_checked
from portable.array.moves.scattering import checked_index, scattered
from portable.array.operation import Operation
from portable.errors import BadIndexError, DTypeError, ShapeError

if TYPE_CHECKING:
    from portable.array.array import Array

_A = TypeVar("_A", bound=Storage)

__all__ = ["get", "put", "updated"]


def get(x: Any, key: Any) -> Array:
    """``x[key]``: a view for integers, slices, ``...`` and None, a copy for arrays.

    Negative indices in arrays count from the end. Arrays of integers wait for the device to learn
    whether all are in range, masks to learn the shape of the result.

    Raises
    ------
    BadIndexError
        For an index out of range or of another kind.
    """
    if not _is_advanced(key):
        return x.part(key)  # type: ignore[no-any-return]
    if _is_lone_bool(key):
        x, key = x.part(None), _one_bool(x, key)
    if isinstance(key, Storage) and key.ndim == 1 and key.dtype.is_integer and x.ndim:
        check_operands("an index", (x, key))
        return gathered_checked(x, key)  # type: ignore[no-any-return]
    if _is_mask(key):
        return _selected(x, key)  # type: ignore[no-any-return]
    items = _with_integer_arrays(x, key)
    view, slots, place = _sliced(x, items)
    indices = [item for item in items if isinstance(item, Storage)]
    flag = bad_index_flag(x.device)
    found = _taken.together((view, *indices, flag), tuple(slots), place)
    if not _is_trusted(key):
        check_flag(flag, indices, [view.shape[d] for d in slots])
    return found  # type: ignore[no-any-return]


def _write_taken(arrays: tuple[Any, ...], slots: tuple[int, ...], place: int) -> Callable[..., Any]:
    """What to do for elements that arrays like these name in dimensions of the first."""
    view, *indices, flag = arrays
    moved = _first_dimensions(view, slots)
    count = len(indices)
    shape = broadcast_shapes([i.shape for i in indices])
    recipe = Recipe(*arrays)
    if count == 1 and moved.size:
        result = gather_in(recipe, moved, indices[0], flag, 0, 1)
    else:
        linear = positions_in(recipe, indices, moved.shape[:count], shape, flag)
        result = gather_in(recipe, moved, linear, None, 0, count)
    shaped = result.viewed((*shape, *result.shape[1:]), _split(result, shape))
    return recipe.finish(_at(shaped, len(shape), place))


_taken: Final = Plans(_write_taken)


def put(x: Any, key: Any, value: Any) -> None:
    """``x[key] = value``, in the dtype of `x`; of the values for an element named twice one stays.

    Raises
    ------
    BadIndexError
        For an index out of range or of another kind.
    DTypeError
        For a value of a higher kind than `x` holds.
    """
    from portable.array.creation import asarray
    from portable.array.manipulation import copied, copy_into

    if not isinstance(value, Storage | int | float | complex):
        value = asarray(value, device=x.device)
    _check_value(x, value)
    if not _is_advanced(key):
        _fits(x.part(key), value)
        copy_into(x.part(key), value)
        return
    if _is_lone_bool(key):
        x, key = x.part(None), _one_bool(x, key)
    if _is_mask(key) and _is_one(value):
        _fill(x, key, value)
        return
    if isinstance(value, Storage):
        check_operands("assignment", (x, value))
        value = copied(value) if value.buffer is x.buffer else value  # type: ignore[arg-type]
        if _is_mask(key) and key.ndim == x.ndim and value.ndim == 1:
            _put_each(x, key, value)
            return
    _scatter(x, key, value)


def updated(operation: Operation, x: _A, other: Any) -> _A:
    """The in-place form of an operator: `x` holds the result afterwards."""
    from portable.array.manipulation import copied

    if isinstance(other, np.generic):
        other = other.item()
    if not isinstance(other, Storage | int | float | complex):
        return NotImplemented  # type: ignore[no-any-return]
    if isinstance(other, Storage) and other.buffer is x.buffer:
        same = (other.offset, other.strides, other.shape) == (x.offset, x.strides, x.shape)
        other = other if same else copied(other)  # type: ignore[arg-type]
    apply(operation, x, other, out=x)
    return x


def _check_value(x: Any, value: Any) -> None:
    order = "biufc".index
    kind = value.dtype.kind if isinstance(value, Storage) else _letter(value)
    if order(kind) > order(x.dtype.kind) and not (kind in "iu" and x.dtype.kind in "iu"):
        raise DTypeError(
            f"a value of kind {kind!r} assigned to a {x.dtype.name} array; convert it with astype"
        )


def _letter(value: complex) -> str:
    from portable.array.promotion import kind_of

    return kind_of(value)


def _fits(part: Any, value: Any) -> None:
    if isinstance(value, Storage) and broadcast_shapes([value.shape, part.shape]) != part.shape:
        raise ShapeError(f"a value of shape {value.shape} assigned to a part of shape {part.shape}")


# -- arrays as indices ----------------------------------------------------------------------


def _is_advanced(key: Any) -> bool:
    if isinstance(key, tuple):
        return any(isinstance(item, _ARRAYS) for item in key)
    return isinstance(key, _ARRAYS)


def _is_lone_bool(key: Any) -> bool:
    return isinstance(key, bool) or (_is_mask(key) and not key.ndim)


def _one_bool(x: Any, key: Any) -> Any:
    """A bool without dimensions as a mask of one element, for a new first dimension."""
    from portable.array.creation import asarray
    from portable.array.manipulation import reshape

    return reshape(asarray(key, device=x.device), (1,))


_ARRAYS: Final = (Storage, np.ndarray, list, bool)


def _advanced(x: Any, key: Any) -> tuple[Any, list[Any], int]:
    """`x` with the indexed dimensions first, their indices, and where the result's belong."""
    items = _with_integer_arrays(x, key)
    view, slots, place = _sliced(x, items)
    return _first_dimensions(view, slots), [i for i in items if isinstance(i, Storage)], place


def _first_dimensions(view: Any, slots: Sequence[int]) -> Any:
    """The view with some dimensions first."""
    order = [*slots, *(d for d in range(view.ndim) if d not in slots)]
    return view.viewed(tuple(view.shape[d] for d in order), tuple(view.strides[d] for d in order))


def _with_integer_arrays(x: Any, key: Any) -> list[Any]:
    """The items of an index, one per dimension, with masks turned into arrays of integers."""
    items = list(key) if isinstance(key, tuple) else [key]
    items = [_as_index(x, item) for item in items]
    extra = sum(item.ndim - 1 for item in items if _is_mask(item))
    items = expanded_index(tuple(items), x.shape, extra)
    mixed = any(isinstance(item, Storage) for item in items)
    out: list[Any] = []
    dim = 0
    for item in items:
        if _is_mask(item):
            out += _from_mask(x, item, dim)
            dim += item.ndim
            continue
        if mixed and not isinstance(item, Storage | slice) and item is not None:
            _check_integer(x, item, dim)
        out.append(item)
        dim += item is not None
    return out


def _is_mask(item: Any) -> bool:
    return isinstance(item, Storage) and item.dtype.kind == "b"


def _as_index(x: Any, item: Any) -> Any:
    from portable.array.creation import asarray

    if isinstance(item, list | np.ndarray | bool):
        item = asarray(np.asarray(item), device=x.device)
    if isinstance(item, Storage) and item.dtype.kind not in "biu":
        raise BadIndexError(f"an index of dtype {item.dtype.name}; expected integers or bools")
    if isinstance(item, Storage):
        check_operands("an index", (x, item))
    return item


def _check_integer(x: Any, item: Any, dim: int) -> None:
    """Refuses what is no integer beside arrays, or one out of range."""
    try:
        place = int(item.__index__())
    except (AttributeError, TypeError):
        raise BadIndexError(f"an index of type {type(item).__name__} beside arrays") from None
    if not -x.shape[dim] <= place < x.shape[dim]:
        raise BadIndexError(f"index {place} is out of range for extent {x.shape[dim]}")


def _from_mask(x: Any, mask: Any, dim: int) -> list[Any]:
    from portable.array.searching import nonzero

    _check_mask(x, mask, dim)
    return list(nonzero(mask))


def _check_mask(x: Any, mask: Any, dim: int) -> None:
    found = x.shape[dim : dim + mask.ndim]
    # The standard takes an extent of 0 for any other: nothing is chosen.
    fits = all(n in (m, 0) for n, m in zip(mask.shape, found, strict=False))
    if len(found) != mask.ndim or not fits:
        raise BadIndexError(f"a mask of shape {mask.shape} for dimensions of shape {found}")
    check_operands("an index", (x, mask))


def _selected(x: Any, mask: Any) -> Any:
    """The elements of `x` where a mask of its first dimensions is true."""
    from portable.array.manipulation import contiguous, reshape
    from portable.array.searching import true_positions

    _check_mask(x, mask, 0)
    if x.ndim == mask.ndim and (x.ndim == 1 or x.is_contiguous):
        if mask.ndim > 1 and not mask.is_contiguous:
            mask = contiguous(mask)
        return compacted(mask, x)
    return gathered(x, true_positions(reshape(mask, (-1,))), 0, mask.ndim)


def _is_one(value: Any) -> bool:
    """Whether a value is a number or an array of one, without dimensions to broadcast to."""
    return not isinstance(value, Storage) or (value.ndim <= 1 and value.size == 1)


def _fill(x: Any, mask: Any, value: Any) -> None:
    """One value where a mask of the first dimensions is true; waits for nothing."""
    from portable.array.manipulation import astype, copied, reshape

    _check_mask(x, mask, 0)
    if isinstance(value, Storage):
        check_operands("assignment", (x, value))
        value = reshape(astype(value, x.dtype, copy=value.buffer is x.buffer), ())  # type: ignore[arg-type]
    filled(x, copied(mask) if mask.buffer is x.buffer else mask, value)


def _put_each(x: Any, mask: Any, values: Any) -> None:
    """Assigns an array of one dimension to what is true in a mask of all dimensions."""
    from portable.array.manipulation import astype, contiguous

    _check_mask(x, mask, 0)
    line = mask if mask.ndim == 1 else contiguous(mask)
    assigned(x, line, contiguous(astype(values, x.dtype, copy=False)))


def _scatter(x: Any, key: Any, value: Any) -> None:
    """Assigns to the elements that arrays of indices name."""
    from portable.array.manipulation import copied

    if isinstance(key, Storage) and key.dtype.is_integer and x.ndim:
        check_operands("an index", (x, key))
        moved, indices, place, shape = x, [key], 0, key.shape
    else:
        moved, indices, place = _advanced(x, key)
        shape = broadcast_shapes([i.shape for i in indices])
    count = len(indices)
    values = _values(x, value, shape, moved.shape[count:], place)
    index: Any = indices[0]
    if count > 1 or _is_trusted(key):
        index = _positions(moved, key, indices, shape)
    else:
        checked_index(index, moved.shape[0])
    scattered(moved, copied(index) if index.buffer is x.buffer else index, values, count)


def _sliced(x: Any, items: list[Any]) -> tuple[Any, list[int], int]:
    """The view by the basic items, which of its dimensions the arrays index, and where these go.

    The result's dimensions for them come in their place, or first where a slice or None stands
    between arrays and integers, which count as arrays of no dimensions.
    """
    basic = tuple([slice(None) if isinstance(item, Storage) else item for item in items])
    slots: list[int] = []
    named: list[int] = []
    dim = 0
    for number, item in enumerate(items):
        if isinstance(item, Storage):
            slots.append(dim)
        if item is None or isinstance(item, slice | Storage):
            dim += 1
        if item is not None and not isinstance(item, slice):
            named.append(number)
    together = named[-1] - named[0] == len(named) - 1
    return x.part(basic), slots, slots[0] if together else 0


def _positions(moved: Any, key: Any, indices: list[Any], shape: tuple[int, ...]) -> Any:
    """Where in the indexed dimensions, counted in C order, each element lies; one dimension."""
    extents = moved.shape[: len(indices)]
    return linear_positions(indices, extents, shape, trusted=_is_trusted(key))


def _is_trusted(key: Any) -> bool:
    """Whether the arrays of an index are in range for certain, being masks."""
    items = key if isinstance(key, tuple) else (key,)
    return all(_is_mask(item) for item in items if isinstance(item, _ARRAYS))


def _split(result: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides for the first dimension of a contiguous result taken apart."""
    step = result.strides[0]
    own = contiguous_strides(shape, step)
    return (*own, *result.strides[1:])


def _at(result: Any, count: int, place: int) -> Any:
    """The first `count` dimensions moved to `place`."""
    order = list(range(count, result.ndim))
    order[place:place] = range(count)
    return result.viewed(
        tuple(result.shape[d] for d in order), tuple(result.strides[d] for d in order)
    )


def _values(x: Any, value: Any, shape: tuple[int, ...], rest: tuple[int, ...], place: int) -> Any:
    """What to scatter, as one row per position, or a number."""
    from portable.array.manipulation import astype, broadcast_to, reshape

    if not isinstance(value, Storage):
        return value
    if value.dtype is x.dtype and not place and value.shape == (*shape, *rest) and len(shape) == 1:
        return value
    whole = (*rest[:place], *shape, *rest[place:])
    if broadcast_shapes([value.shape, whole]) != whole:
        raise ShapeError(f"a value of shape {value.shape} assigned to elements of shape {whole}")
    value = astype(value, x.dtype, copy=False)  # type: ignore[arg-type]
    rows = (prod(shape), *rest)
    if value.size == 1:
        return value.viewed(rows, (0,) * len(rows))
    spread: Any = broadcast_to(value, whole)
    count = len(shape)
    order = [*range(place, place + count), *range(place), *range(place + count, len(whole))]
    first = spread.viewed(
        tuple(spread.shape[d] for d in order), tuple(spread.strides[d] for d in order)
    )
    return reshape(first, rows)
