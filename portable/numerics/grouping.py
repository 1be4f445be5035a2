"""Values grouped by their keys, and rows by what is equal."""

from __future__ import annotations

from typing import Any, NamedTuple

from portable import lang as kl
from portable.errors import DTypeError, ShapeError
from portable.interchange.libraries import runs_where_chosen
from portable.numerics.namespaces import like, namespace_of
from portable.primitives.reducing import segmented_reduce


class Keyed(NamedTuple):
    """The result of `reduce_by_key`.

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


class UniqueRows(NamedTuple):
    """The result of `unique_rows`.

    Attributes
    ----------
    values : array, shape (k, n)
        The distinct rows, in lexicographic order.
    indices : array, shape (k,)
        Where each first stands.
    inverse_indices : array, shape (m,)
        Which of them each row is.
    counts : array, shape (k,)
        How often each occurs.
    """

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


@runs_where_chosen
def unique_rows(x: Any, /) -> UniqueRows:
    """The distinct rows of a matrix, where they stand and how often they occur.

    Parameters
    ----------
    x : array, shape (m, n)
        Real numbers or bools. NaN are not equal to one another.

    Returns
    -------
    UniqueRows
        Rows in the dtype of `x`, all else int64.

    Raises
    ------
    ShapeError
        If `x` is no matrix.
    DTypeError
        For complex numbers.

    Notes
    -----
    Rows are sorted by one stable sort for each column, the last one first; then neighbours are
    compared. Reads from the device how many rows there are.
    """
    xp = namespace_of(x)
    if x.ndim != 2:
        raise ShapeError(f"unique_rows takes a matrix, not shape {tuple(x.shape)}")
    if xp.isdtype(x.dtype, "complex floating"):
        raise DTypeError(f"unique_rows takes real numbers and bools, not {x.dtype}")
    m = x.shape[0]
    if not m:
        nothing = like(xp, x, [], xp.int64)
        return UniqueRows(x, nothing, nothing, nothing)
    order = _lexicographic(xp, x)
    rows = xp.take(x, order, axis=0)
    differs = xp.any(rows[1:, :] != rows[:-1, :], axis=1)
    is_first = xp.concat([like(xp, x, [True], xp.bool), differs])
    starts = xp.nonzero(is_first)[0]
    ends = xp.concat([starts[1:], like(xp, x, [m], starts.dtype)])
    which = xp.cumulative_sum(xp.astype(is_first, xp.int64)) - 1
    inverse = xp.take(which, xp.argsort(order))
    return UniqueRows(
        xp.take(rows, starts, axis=0),
        xp.astype(xp.take(order, starts), xp.int64, copy=False),
        inverse,
        xp.astype(ends - starts, xp.int64, copy=False),
    )


def _lexicographic(xp: Any, x: Any) -> Any:
    """The order of rows, those that are alike staying in theirs."""
    numbers = xp.astype(x, xp.uint8) if xp.isdtype(x.dtype, "bool") else x
    order = like(xp, x, range(x.shape[0]), xp.int64)
    for column in range(x.shape[1] - 1, -1, -1):
        keys = xp.take(numbers[:, column], order)
        order = xp.take(order, xp.argsort(keys, stable=True))
    return order
