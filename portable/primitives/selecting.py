"""Elements by positions, and those that are to be kept."""

from __future__ import annotations

from typing import Any

from portable import dtypes
from portable.errors import DTypeError, ShapeError
from portable.namespace import device_of_arrays
from portable.primitives.base.exchange import takes_other_libraries
from portable.primitives.base.operands import normalized_axis
from portable.primitives.base.storage import Storage, released, stored
from portable.primitives.elements import Elements, given_back
from portable.primitives.mapping import map as mapped
from portable.primitives.mapping import transpose
from portable.primitives.masks.compaction import compacted
from portable.primitives.moves.gathering import Selection, taken
from portable.primitives.moves.scattering import scattered


@takes_other_libraries
def gather(x: Any, indices: Any, *, axis: int = 0) -> Any:
    """Elements, or rows, by their positions along an axis; waits for the device to check these.

    Parameters
    ----------
    x : array
        Of any library.
    indices : array
        Integers of any shape; negative ones count from the end.
    axis : int
        Along which.

    Returns
    -------
    array
        New, with the dimensions of `indices` in the place of `axis`.

    Raises
    ------
    BadIndexError
        If an index is out of range.
    """
    selection, _ = _selected("gather", x, indices, axis)
    return released(taken(selection))


@takes_other_libraries
def scatter(out: Any, indices: Any, values: Any, *, axis: int = 0) -> Any:
    """Writes values to positions along an axis; waits for the device to check these.

    Parameters
    ----------
    out : array
        Of any library; written to, at nothing but these positions.
    indices : array
        Integers of any shape; negative ones count from the end. Where a position comes twice, one
        of its values stays.
    values : array or number
        Broadcast to what `gather` would give; converted to the dtype of `out`.
    axis : int
        Along which.

    Returns
    -------
    array
        `out`.

    Raises
    ------
    BadIndexError
        If an index is out of range; nothing is written then.
    """
    selection, target = _selected("scatter", out, indices, axis)
    target.check_writable()
    given = values if _is_number(values) else stored(target.device, values)
    scattered(selection, given)
    return out


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float | complex)


def _selected(name: str, x: Any, indices: Any, axis: int) -> tuple[Selection, Storage]:
    device = device_of_arrays(x, indices)
    view, index = stored(device, x), stored(device, indices)
    if not index.dtype.is_integer:
        raise DTypeError(f"{name} takes integers as indices, not {index.dtype.name}")
    return Selection(view, (index,), normalized_axis(axis, view.ndim), False), view


@takes_other_libraries
def compact(x: Any, keep: Any) -> Any:
    """The elements that a mask or a function selects, in C order; waits for their number.

    Parameters
    ----------
    x : array, or tuple or struct of arrays
        As of `reduce`.
    keep : array or function
        Bools of the shape of `x`, or a function that kernels can call, from an element, or from an
        element and its position, to a bool.

    Returns
    -------
    array, or tuple or struct of arrays
        New, of one dimension.

    Raises
    ------
    ShapeError
        If `keep` is an array of another shape.
    DTypeError
        If it is no array of bools.

    Examples
    --------
    >>> @pt.function
    ... def positive(value):
    ...     return value > 0
    >>> primitives.compact(np.float32([3, -1, 4]), positive)  # doctest: +SKIP
    array([3., 4.], dtype=float32)
    """
    given = Elements.of("compact", x)
    if not hasattr(keep, "shape") and callable(keep):
        keep = mapped(keep, x, dtype=dtypes.bool_)
    mask = stored(given.device, keep)
    if mask.dtype is not dtypes.bool_:
        raise DTypeError(f"compact keeps where a mask of bools is true, not {mask.dtype.name}")
    if mask.shape != given.shape:
        raise ShapeError(f"compact of shape {given.shape} by a mask of shape {mask.shape}")
    kept = [compacted(_in_line(mask), _in_line(a)) for a in given.arrays]
    return given_back(tuple(kept), given.kind)


def _in_line(x: Storage) -> Storage:
    """The elements in one dimension; a copy where they do not lie so."""
    if x.ndim == 1:
        return x
    whole = x if x.is_contiguous else stored(x.device, transpose(released(x), range(x.ndim)))
    return whole.shaped((x.size,))
