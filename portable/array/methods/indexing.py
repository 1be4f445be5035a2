"""Indexing and assignment: views by slices, copies by arrays of integers or bools."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, TypeVar

import numpy as np

from portable.array.base.defaults import from_host
from portable.array.base.operations import ArrayT, apply
from portable.array.functions.manipulation import astype, contiguous, copied, copy_into, reshape
from portable.array.functions.searching import nonzero, true_positions
from portable.backend import Device
from portable.errors import BadIndexError, DTypeError, ShapeError
from portable.primitives.base.operands import broadcast_shapes, kind_of
from portable.primitives.base.storage import Storage, expanded_index
from portable.primitives.maps.elementwise import check_operands, result_type
from portable.primitives.maps.work import Operation
from portable.primitives.masks.compaction import compacted
from portable.primitives.masks.mask_assignment import assigned, filled
from portable.primitives.moves import gathering
from portable.primitives.moves.scattering import scattered
from portable.recording import taped

# From an index with arrays in it to what it names.

_ARRAYS: Final = (Storage, np.ndarray, list, bool, np.bool_)
_ALL: Final = slice(None)


def without_rest(x: Any, key: Any) -> Any:
    """An index with arrays without full slices behind the first, which say nothing: the array."""
    if not isinstance(key, tuple) or not isinstance(key[0], Storage):
        return key
    first, *rest = key
    full = sum(isinstance(item, slice) and item == _ALL for item in rest)
    ellipses = sum(item is Ellipsis for item in rest)
    if full + ellipses < len(rest) or ellipses > 1:
        return key
    dims = first.ndim if is_mask(first) else 1
    return first if dims + full <= x.ndim else key


def is_advanced(key: Any) -> bool:
    """Whether an index has arrays in it."""
    if isinstance(key, tuple):
        return any(isinstance(item, _ARRAYS) for item in key)
    return isinstance(key, _ARRAYS)


def is_mask(item: Any) -> bool:
    """Whether part of an index is an array of bools."""
    return isinstance(item, Storage) and item.dtype.kind == "b"


def check_mask(x: Any, mask: Any, dim: int) -> None:
    """Refuses a mask of another shape than that of the dimensions of `x` from `dim` on.

    Parameters
    ----------
    x : Array
        What is indexed.
    mask : Array
        Bools.
    dim : int
        The first dimension that it is for.
    """
    covered = x.shape[dim : dim + mask.ndim]
    # The standard takes an extent of 0 for any other: nothing is chosen.
    fits = all(n in (m, 0) for n, m in zip(mask.shape, covered, strict=False))
    if len(covered) != mask.ndim or not fits:
        raise BadIndexError(f"a mask of shape {mask.shape} for dimensions of shape {covered}")
    check_operands("an index", (x, mask))


def selection_of(x: Any, key: Any) -> gathering.Selection:
    """What an index with arrays names in `x`.

    Waits for the device where there are masks. Integers known on the host are checked here.

    Raises
    ------
    BadIndexError
        For what is no index, a mask of another shape, or an integer on the host out of range.
    """
    if isinstance(key, Storage) and key.dtype.is_integer and x.ndim:
        check_operands("an index", (x, key))
        return gathering.Selection(x, (key,), 0, False)
    items = key if isinstance(key, tuple) else (key,)
    known = False
    if not all(map(_is_plain, items)):
        items, known = _with_integers(x, [_as_index(item, x.device) for item in items])
    indices = tuple([item for item in items if isinstance(item, Storage)])
    check_operands("an index", (x, *indices))
    view = x.part(tuple([_ALL if isinstance(item, Storage) else item for item in items]))
    slots, first_axis = _slots("".join(map(_letter, items)), x.ndim)
    if slots != tuple(range(first_axis, first_axis + len(slots))):
        view = gathering.first_dimensions(view, slots)
    return gathering.Selection(view, indices, first_axis, known)


def _is_plain(item: Any) -> bool:
    """Whether an item is an array of integers of a device, or none at all."""
    if isinstance(item, Storage):
        return item.dtype.is_integer
    return not isinstance(item, _ARRAYS)


def _as_index(item: Any, device: Device) -> Any:
    """An item as an array of the device, or, if it holds integers, one of the host."""
    if isinstance(item, list | np.ndarray | bool | np.bool_):
        item = np.asarray(item)
        if not item.size and item.dtype.kind == "f":
            item = item.astype(np.int64)  # an empty list
        if item.dtype.kind == "b":
            item = device.from_numpy(item)
    if isinstance(item, np.ndarray | Storage) and item.dtype.kind not in "biu":
        raise BadIndexError(f"an index of dtype {item.dtype.name}; expected integers or bools")
    return item


def _with_integers(x: Any, items: list[Any]) -> tuple[tuple[Any, ...], bool]:
    """The items with arrays of integers of the device alone, and whether all are in range."""
    extra = sum(item.ndim - 1 for item in items if is_mask(item))
    out: list[Any] = []
    dim = 0
    for item in expanded_index(tuple(items), x.shape, extra):
        numbers = _integers(x, item, dim)
        out += numbers or (item,)
        dim += len(numbers) or item is not None
    return tuple(out), not any(isinstance(item, Storage) and not is_mask(item) for item in items)


def _integers(x: Any, item: Any, dim: int) -> tuple[Any, ...]:
    """The arrays of integers of the device that an item comes to, if it is an array."""
    if is_mask(item):
        if not item.ndim:
            raise BadIndexError("an index of one bool stands alone; beside others take a mask")
        check_mask(x, item, dim)
        return nonzero(item)
    if isinstance(item, np.ndarray):
        bad = gathering.complaint(item, x.shape[dim])
        if bad:
            raise BadIndexError(bad)
        return (x.device.from_numpy(item),)
    return (item,) if isinstance(item, Storage) else ()


def _letter(item: Any) -> str:
    """An array, a slice, a new dimension, an ellipsis or an integer."""
    if isinstance(item, Storage):
        return "a"
    if isinstance(item, slice):
        return "s"
    return "n" if item is None else "e" if item is Ellipsis else "i"


@lru_cache(maxsize=1024)
def _slots(letters: str, ndim: int) -> tuple[tuple[int, ...], int]:
    """Which dimensions of the view by integers and slices have arrays, and where the result's go.

    These come in their place, or first where a slice or None stands between arrays and integers,
    which count as arrays of no dimensions.
    """
    missing = ndim - sum(letter in "asi" for letter in letters)
    letters = letters.replace("e", "s" * missing)
    named = [n for n, letter in enumerate(letters) if letter in "ai"]
    slots = tuple(d for d, letter in enumerate(letters.replace("i", "")) if letter == "a")
    together = named[-1] - named[0] == len(named) - 1
    return slots, slots[0] if together else 0


# -- indexing --------------------------------------------------------------------------------------

_A = TypeVar("_A", bound=Storage)


@taped
def get(x: ArrayT, key: Any) -> ArrayT:
    """``x[key]``: a view for integers, slices, ``...`` and None, a copy for arrays.

    Negative indices in arrays count from the end. Arrays of integers on the device wait for it to
    learn whether all are in range, masks to learn the shape of the result.

    Raises
    ------
    BadIndexError
        For an index out of range or of another kind.
    """
    if not is_advanced(key):
        return x.part(key)
    key = without_rest(x, key)
    if _is_lone_bool(key):
        x, key = x.part(None), _one_bool(x, key)
    if is_mask(key):
        return _selected(x, key)  # type: ignore[no-any-return]
    return gathering.taken(selection_of(x, key))  # type: ignore[no-any-return]


@taped
def put(x: Any, key: Any, value: Any) -> None:
    """``x[key] = value``, in the dtype of `x`; of the values for an element named twice one stays.

    Parameters
    ----------
    x : Array
        What is written to.
    key : object
        An index as of ``x[key]``.
    value : Array or number
        Broadcasts to what the index names.

    Raises
    ------
    BadIndexError
        For an index out of range or of another kind.
    DTypeError
        For a value of a higher kind than `x` holds.
    ValueError
        For a view that repeats elements, as `broadcast_to` gives.
    """
    if not isinstance(value, Storage | int | float | complex):
        value = from_host(value, x.device)
    _check_value(x, value)
    if not is_advanced(key):
        part = x if key is Ellipsis else x.part(key)
        _fits(part, value)
        copy_into(part, value)
        return
    x.check_writable()
    key = without_rest(x, key)
    if _is_lone_bool(key):
        x, key = x.part(None), _one_bool(x, key)
    if is_mask(key) and is_one(value):
        _fill(x, key, value)
        return
    if isinstance(value, Storage):
        check_operands("assignment", (x, value))
        value = copied(value) if value.overlaps(x) else value
        if is_mask(key) and key.ndim == x.ndim and value.ndim == 1:
            _put_each(x, key, value)
            return
    selection = selection_of(x, key)
    apart = [copied(i) if i.overlaps(x) else i for i in selection.indices]
    scattered(selection._replace(indices=tuple(apart)), value)


def updated(operation: Operation, x: _A, other: Any) -> _A:
    """The in-place form of an operator: `x` holds the result afterwards.

    A result of another dtype is converted where that is of the same kind, as NumPy's rule is:
    int64 to int32, float64 to float32, but no float to an integer.

    Parameters
    ----------
    operation : Operation
        What to do.
    x : Array
        The left operand.
    other : Array or number
        The right one, which broadcasts to `x`.
    """
    if isinstance(other, np.generic):
        other = other.item()
    if not isinstance(other, Storage | int | float | complex):
        return NotImplemented  # type: ignore[no-any-return]
    if isinstance(other, Storage) and other.overlaps(x):
        same = (other.offset, other.strides, other.shape) == (x.offset, x.strides, x.shape)
        other = other if same else copied(other)
    if isinstance(other, Storage) and other.dtype is not x.dtype:
        given = result_type(operation, (x, other), x.device)
        if given is not x.dtype and np.can_cast(given.numpy, x.dtype.numpy, "same_kind"):
            result = apply(operation, x, other)
            _fits(x, result)
            copy_into(x, result)
            return x
    apply(operation, x, other, out=x)
    return x


def _check_value(x: Any, value: Any) -> None:
    if isinstance(value, Storage) and value.dtype is x.dtype:
        return
    order = "biufc".index
    kind = value.dtype.kind if isinstance(value, Storage) else kind_of(value)
    if order(kind) > order(x.dtype.kind) and not (kind in "iu" and x.dtype.kind in "iu"):
        raise DTypeError(
            f"a value of kind {kind!r} assigned to a {x.dtype.name} array; convert it with astype"
        )


def _fits(part: Any, value: Any) -> None:
    if isinstance(value, Storage) and broadcast_shapes([value.shape, part.shape]) != part.shape:
        raise ShapeError(
            f"a value of shape {value.shape} does not broadcast to a part of shape {part.shape}"
        )


# -- bools as indices ----------------------------------------------------------------------


def _is_lone_bool(key: Any) -> bool:
    return isinstance(key, bool | np.bool_) or (is_mask(key) and not key.ndim)


def _one_bool(x: Any, key: Any) -> Any:
    """A bool without dimensions as a mask of one element, for a new first dimension."""
    return reshape(from_host(key, x.device), (1,))


def _selected(x: Any, mask: Any) -> Any:
    """The elements of `x` where a mask of its first dimensions is true."""
    check_mask(x, mask, 0)
    if x.ndim == mask.ndim and (x.ndim == 1 or x.is_contiguous):
        if mask.ndim > 1 and not mask.is_contiguous:
            mask = contiguous(mask)
        return compacted(mask, x)
    return gathering.gathered(x, true_positions(reshape(mask, (-1,))), 0, mask.ndim)


def is_one(value: Any) -> bool:
    """Whether a value is a number or an array of one, without dimensions to broadcast to."""
    return not isinstance(value, Storage) or (value.ndim <= 1 and value.size == 1)


def _fill(x: Any, mask: Any, value: Any) -> None:
    """One value where a mask of the first dimensions is true; waits for nothing."""
    check_mask(x, mask, 0)
    if isinstance(value, Storage):
        check_operands("assignment", (x, value))
        value = reshape(astype(value, x.dtype, copy=value.buffer is x.buffer), ())
    filled(x, copied(mask) if mask.buffer is x.buffer else mask, value)


def _put_each(x: Any, mask: Any, values: Any) -> None:
    """Assigns an array of one dimension to what is true in a mask of all dimensions."""
    check_mask(x, mask, 0)
    line = mask if mask.ndim == 1 else contiguous(mask)
    assigned(x, line, contiguous(astype(values, x.dtype, copy=False)))
