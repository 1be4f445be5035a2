"""Reductions of segments of a vector."""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.errors import DTypeError, ShapeError
from portable.lang.launch.geometry import groups
from portable.namespace import device_of_arrays
from portable.primitives.base.exchange import takes_other_libraries
from portable.primitives.elements import Elements
from portable.primitives.reducing import totals_of
from portable.primitives.reductions.segment_kernels import segments_by_item, segments_by_workgroup

_WORKGROUP: Final = 128
_LONG: Final = 64
"""From this mean length on a workgroup takes a segment, where work-items share their work."""


@takes_other_libraries
def segmented_reduce(
    x: Any, offsets: Any, op: Any = kl.add, *, neutral: Any = None, dtype: Any = None
) -> Any:
    """The elements of each segment of a vector combined by an operation.

    Parameters
    ----------
    x : array, shape (n,)
        Numbers, of any library.
    offsets : array, shape (s + 1,)
        Where each segment begins, and the last one ends: integers from 0 to n, in ascending order;
        kernels trust them. A segment may be empty.
    op : function
        As of `reduce`: associative and commutative.
    neutral : number, optional
        As of `reduce`: what an empty segment gives.
    dtype : dtype, optional
        Of totals; by default that of `x`.

    Returns
    -------
    array, shape (s,)
        The totals, on the device of `x` and of its library. Those of floating-point numbers are
        combined in chains of 64.

    Raises
    ------
    ShapeError
        If one of the arrays is no vector, or there are no offsets.
    DTypeError
        For offsets that are no integers, and elements that are structs.
    """
    device = device_of_arrays(x, offsets)
    if len(x.shape) != 1 or len(offsets.shape) != 1 or not offsets.shape[0]:
        raise ShapeError(
            f"segmented_reduce takes a vector and one offset more than there are segments, not "
            f"shapes {tuple(x.shape)} and {tuple(offsets.shape)}"
        )
    totals = totals_of(Elements.of("segmented_reduce", x), op, neutral, None, dtype)
    if totals.kind is not None:
        raise DTypeError("segmented_reduce takes numbers; combine structs field by field")
    count, kind = int(offsets.shape[0]) - 1, totals.kinds[0]
    out = device.empty((count,), kind)
    if not count:
        return out
    how = {"OP": totals.op, "KIND": kind.register, "NEUTRAL": totals.neutral.item()}
    if device.capabilities.lone_work_items:
        items = min(max(device.capabilities.compute_units, 1) * 8, count)
        segments_by_item[items, 1](x, offsets, out, -(-count // items), **how)
    elif int(x.shape[0]) < _LONG * count:
        segments_by_item[count, _WORKGROUP](x, offsets, out, 1, **how)
    else:
        segments_by_workgroup[groups(count), _WORKGROUP](x, offsets, out, **how)
    return out
