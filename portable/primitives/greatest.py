"""The greatest or least elements along an axis."""

from __future__ import annotations

from typing import Any, NamedTuple

from portable.errors import ShapeError
from portable.namespace import device_of_arrays
from portable.primitives.base.borrowed import released, stored
from portable.primitives.base.exchange import takes_other_libraries
from portable.primitives.base.geometry import normalized_axis
from portable.primitives.mapping import copy
from portable.primitives.moves.gathering import gathered_along
from portable.primitives.sorting import argsort


class TopK(NamedTuple):
    """What `topk` gives.

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
    extent = int(x.shape[dim])
    if not 0 <= k <= extent:
        raise ValueError(f"topk of k={k}; axis {axis} has {extent} elements")
    order = stored(device, argsort(x, axis=dim, descending=largest))
    part = (*((slice(None),) * dim), slice(k))
    # What is released is contiguous: a copy of the order's first places, not a view of them.
    positions = copy(released(order)[part])
    held, first = stored(device, x), stored(device, positions)
    values = gathered_along(held, first, dim) if first.size else stored(device, copy(x[part]))
    return TopK(released(values), positions)
