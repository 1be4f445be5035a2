"""Reductions of the elements that have a key in common."""

from __future__ import annotations

from typing import Any, NamedTuple

from portable import lang as kl
from portable.errors import ShapeError
from portable.interchange.libraries import runs_where_chosen
from portable.numerics.namespaces import like, namespace_of
from portable.primitives.segments import segmented_reduce


class Keyed(NamedTuple):
    """What `reduce_by_key` gives.

    Attributes
    ----------
    keys : array, shape (k,)
        The distinct keys, in ascending order.
    values : array, shape (k,)
        The total of each.
    """

    keys: Any
    values: Any


@runs_where_chosen
def reduce_by_key(
    keys: Any, values: Any, op: Any = kl.add, *, neutral: Any = None, dtype: Any = None
) -> Keyed:
    """The values of each key combined by an operation: SQL's ``GROUP BY``.

    Parameters
    ----------
    keys : array, shape (n,)
        Real numbers, in any order. NaN are not equal to one another.
    values : array, shape (n,)
        Numbers.
    op : function
        Of two totals, as of `portable.primitives.reduce`: ``kl.add``, ``np.maximum``, a function
        that kernels can call.
    neutral : number, optional
        The total of nothing, as there.
    dtype : dtype, optional
        Of totals; by default that of `values`.

    Returns
    -------
    Keyed
        Keys in their order and a total for each.

    Raises
    ------
    ShapeError
        If the two are no vectors of one length.

    Notes
    -----
    By a stable sort of the keys and a reduction of segments. Reads from the device how many keys
    there are.
    """
    xp = namespace_of(keys, values)
    if keys.ndim != 1 or tuple(keys.shape) != tuple(values.shape):
        raise ShapeError(
            f"reduce_by_key takes two vectors of one length, not shapes {tuple(keys.shape)} and "
            f"{tuple(values.shape)}"
        )
    n = keys.shape[0]
    order = xp.argsort(keys, stable=True)
    keys, values = xp.take(keys, order), xp.take(values, order)
    some = like(xp, keys, [True] * min(n, 1), xp.bool)
    starts = xp.nonzero(xp.concat([some, keys[1:] != keys[:-1]]))[0]
    offsets = xp.concat([starts, like(xp, keys, [n], starts.dtype)])
    totals = segmented_reduce(values, offsets, op, neutral=neutral, dtype=dtype)
    return Keyed(xp.take(keys, starts), totals)
