"""Indexing and assignment: views by slices, copies by arrays of integers or bools."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from portable.array.base.engine import ArrayT, apply
from portable.array.base.host_values import from_host
from portable.array.functions.manipulation import astype, contiguous, copied, copy_into, reshape
from portable.array.functions.searching import true_positions
from portable.array.methods.selecting import (
    check_mask,
    is_advanced,
    is_mask,
    selection_of,
    without_rest,
)
from portable.errors import DTypeError, ShapeError
from portable.primitives.base.geometry import broadcast_shapes
from portable.primitives.base.promotion import kind_of
from portable.primitives.base.storage import Storage
from portable.primitives.maps.engine import check_operands, result_type
from portable.primitives.maps.operation import Operation
from portable.primitives.masks.compaction import compacted
from portable.primitives.masks.mask_assignment import assigned, filled
from portable.primitives.moves.gathering import gathered, taken
from portable.primitives.moves.scattering import scattered
from portable.recording import told

_A = TypeVar("_A", bound=Storage)


@told
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
    return taken(selection_of(x, key))  # type: ignore[no-any-return]


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
    if is_mask(key) and _is_one(value):
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
    return gathered(x, true_positions(reshape(mask, (-1,))), 0, mask.ndim)


def _is_one(value: Any) -> bool:
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
