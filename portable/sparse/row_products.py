"""Products of two sparse matrices where work-items have a processor each: row by row.

Each work-item makes rows of the product one after the other, and remembers of each column where
the row has it (F. G. Gustavson, "Two fast algorithms for sparse matrices: multiplication and
permuted transposition", ACM Trans. Math. Softw. 4, 1978). A first walk counts the numbers of rows,
a second one makes them.
"""

from __future__ import annotations

from typing import Any, Final

from array_api_compat import array_namespace

from portable import lang as kl
from portable.dtypes import dtype, int64
from portable.interchange.libraries import takes_other_libraries
from portable.lang.kernel import kernel
from portable.namespace import device_of_arrays
from portable.primitives.base import operands
from portable.sparse.products import Rows, first_row, offsets_of, shares

_MOST_PLACES: Final = 4
"""Places of columns that work-items remember, for each product of two numbers; one may more."""


@kernel
def csr_count_pairs(a: Rows, b: Rows, pairs: kl.Array, share: kl.Scalar) -> None:
    """How many products of two numbers each row of ``a b`` adds up."""
    item = kl.cast(kl.global_id(0), share.dtype)
    for row in range(first_row(a.offsets, item * share), first_row(a.offsets, (item + 1) * share)):
        total = kl.i64(0)
        for k in range(a.offsets[row], a.offsets[row + 1]):
            total += b.offsets[a.columns[k] + 1] - b.offsets[a.columns[k]]
        pairs[row] = total


@kernel
def csr_count_products(
    a: Rows, b: Rows, pairs: kl.Array, places: kl.Array, counts: kl.Array, share: kl.Scalar
) -> None:
    """How many numbers each row of ``a b`` has.

    Parameters
    ----------
    a, b
        The matrices, as of `Rows`.
    pairs : array, shape (rows + 1,)
        How many products of two numbers come before each row.
    places : array, shape (work-items, columns)
        Room.
    counts : array, shape (rows,)
        The result.
    share : int
        Rows and products of a work-item.
    """
    item = kl.cast(kl.global_id(0), share.dtype)
    for j in range(places.shape[1]):
        places[item, j] = -1
    for row in range(first_row(pairs, item * share), first_row(pairs, (item + 1) * share)):
        this = kl.cast(row, places.dtype)
        count = kl.cast(0, counts.dtype)
        for k in range(a.offsets[row], a.offsets[row + 1]):
            other = a.columns[k]
            for at in range(b.offsets[other], b.offsets[other + 1]):
                j = b.columns[at]
                if places[item, j] != this:
                    places[item, j] = this
                    count += 1
        counts[row] = count


@kernel
def csr_fill_products(
    a: Rows, b: Rows, pairs: kl.Array, places: kl.Array, out: Rows, share: kl.Scalar, *, ACC: Any
) -> None:
    """The columns and numbers of ``out = a b``, of which the offsets are known.

    Columns of a row come in the order in which its products meet them.

    Parameters
    ----------
    a, b, out
        The matrices, as of `Rows`.
    pairs, places, share
        As of `csr_count_products`.
    ACC : DType
        The type to sum in, which the numbers of `out` are of.
    """
    item = kl.cast(kl.global_id(0), share.dtype)
    for j in range(places.shape[1]):
        places[item, j] = -1
    for row in range(first_row(pairs, item * share), first_row(pairs, (item + 1) * share)):
        begin = out.offsets[row]
        end = begin
        for k in range(a.offsets[row], a.offsets[row + 1]):
            factor, other = kl.cast(a.data[k], ACC), a.columns[k]
            for at in range(b.offsets[other], b.offsets[other + 1]):
                j, product = b.columns[at], factor * kl.cast(b.data[at], ACC)
                place = places[item, j]
                if place < begin:
                    places[item, j] = end
                    out.columns[end] = j
                    out.data[end] = product
                    end += 1
                else:
                    out.data[place] = out.data[place] + product


@takes_other_libraries
def row_products(a: Rows, b: Rows, columns: int) -> Rows:
    """The product of two sparse matrices, of which the second has so many columns."""
    xp, device = array_namespace(a.data, b.data), device_of_arrays(*a, *b)
    rows = int(a.offsets.shape[0]) - 1
    counts = device.empty((rows,), int64)
    items, share = shares(device, rows + int(a.data.shape[0]))
    csr_count_pairs[items, 1](a, b, counts, share)
    pairs = offsets_of(counts)
    most = int(pairs[-1])

    remembered = _MOST_PLACES * most // max(columns, 1)
    items, share = shares(device, rows + most, remembered)
    integer = int64 if max(rows, most) >= 2**31 else dtype(a.offsets.dtype)
    places = device.empty((items, columns), integer)
    csr_count_products[items, 1](a, b, pairs, places, counts, share)
    offsets = xp.astype(offsets_of(counts), integer.numpy)

    numbers, kind = int(offsets[-1]), operands.promoted(dtype(a.data.dtype), dtype(b.data.dtype))
    sums = device.empty((numbers,), kind.register)
    made = Rows(sums, device.empty((numbers,), dtype(b.columns.dtype)), offsets)
    if numbers:
        csr_fill_products[items, 1](a, b, pairs, places, made, share, ACC=kind.register)
    return made if kind == kind.register else made._replace(data=xp.astype(sums, kind.numpy))
