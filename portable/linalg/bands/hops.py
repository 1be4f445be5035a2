"""One hop of a bulge chase: a right and a left reflector that push what fills in down the band.

The working storage is one flat array of columns, `PITCH` places each, the diagonal at place `TOP`.
Columns and rows beyond the matrix hold zeros, from which reflectors do nothing.

Here a work-item makes a hop alone, rows across the lanes of vectors, in storage of ``PITCH == 3 B``
and ``TOP == 2 B``. The hop at `s` eliminates row `p` (``s - B``, or ``s - 1`` where the sweep
begins) in columns ``s + 1`` to ``s + B - 1`` by combining columns, which reaches rows ``s - B`` to
``s + B - 1``; then column `s` below the diagonal, by combining rows `s` to ``s + B - 1``, which
reaches columns `s` to ``s + 2 B - 1``.

Vectors cross lines of the cache, so that loads and stores take the time. A hop reads three times
and writes twice what both reflectors combine, the block on the diagonal. The block above the
diagonal it reads and writes once for each reflector: where the left one changes a column, the
column goes at once into the products with the row that the next hop's right one is made of.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.linalg.base.sums import lane_sum, lane_sums
from portable.linalg.reflectors.householder import mirror

_UNROLL: Final = 32
"""Vectors of a column up to which loops over them are unrolled: what is indexed by a loop's number
lies in memory and not in registers. On a processor with AVX-512, a band of 64 in double precision
took 1.65 times as long where loops over 8 vectors were loops."""


@function
def at(row: kl.Scalar, column: kl.Scalar, PITCH: int, TOP: int) -> Any:
    """Where an element of the matrix stands in the working storage."""
    return row + column * (PITCH - 1) + TOP


class VectorShape(NamedTuple):
    """How a work-item alone makes hops, a constant of kernels.

    Attributes
    ----------
    bandwidth : int
        Superdiagonals, an even number of whole vectors.
    lanes, rows : int
        Rows of a vector, and vectors of which sums are in registers at a time.
    """

    bandwidth: int
    lanes: int
    rows: int


@function
def hop_in_vectors(
    w: kl.Array, k: kl.Scalar, s: kl.Scalar, left: Any, kept: Any, SHAPE: VectorShape
) -> None:
    """Hop `k` of a sweep by one work-item, some rows a vector.

    `left` is what the hop before left for this one, and this one leaves for the next: the row, and
    its products with all rows of its block, from the second column on. The vectors of reflectors go
    to `kept`.
    """
    row, products = left
    B, LANES, _ = SHAPE
    step, kind, sweep = 3 * B - 1, row.dtype, s - 1 - k * B
    above, block = at(s - B, s, 3 * B, 2 * B), at(s, s, 3 * B, 2 * B)
    first = at(kl.where(k == 0, s - 1, s - B), s, 3 * B, 2 * B)
    if k == 0:
        for c in kl.range(1, B, unroll=4):
            row[c] = w[first + c * step]
        row[0] = 0
        multiply(w, above, row, products, SHAPE)
        row[0] = w[first]
    beta, head, scale = mirror(row[0], products[kl.where(k == 0, B - 1, 0)])
    row[0] = 0
    shares = kl.private(B, kind)
    multiply(w, block, row, shares, SHAPE)
    row[0] = head
    right = row, shares, scale
    if kept.right is not None:
        for i in kl.range(0, B, LANES, unroll=1):
            keep_lanes(kept.right[sweep], s - 1 + i, kl.vload(row, i, lanes=LANES), scale, LANES)
    column = kl.private(B // LANES, kind, lanes=LANES)
    corner, scale = first_column(w, block, right, column, SHAPE)
    if kept.left is not None:
        for i in kl.range(B // LANES, unroll=_UNROLL):
            keep_lanes(kept.left[sweep], s - 1 + i * LANES, column[i], scale, LANES)
    combine_columns(w, above, (row, products, right[2]), SHAPE)
    w[first] = beta
    for c in kl.range(1, B, unroll=4):
        w[first + c * step] = 0
    combine_rows(w, block, right, (column, scale), products, SHAPE)
    for i in kl.range(B // LANES, unroll=_UNROLL):
        kl.vstore(w, block + i * LANES, kl.splat(beta * 0, LANES))
    w[block] = corner


@function
def keep_lanes(
    kept: kl.Array, where: kl.Scalar, x: kl.Scalar, scale: kl.Scalar, LANES: int
) -> None:
    """Stores a part of a reflector's vector, zeros where that does nothing."""
    kl.vstore(kept, where, x if scale != 0 else kl.splat(scale * 0, LANES))


@function
def multiply(
    w: kl.Array, start: kl.Scalar, row: kl.Array, out: kl.Array, SHAPE: VectorShape
) -> None:
    """The products of the rows of a block, the first one at `start`, with `row`."""
    B, LANES, ROWS = SHAPE
    step = 3 * B - 1
    even, odd = kl.private(ROWS, row.dtype, lanes=LANES), kl.private(ROWS, row.dtype, lanes=LANES)
    for part in kl.range(0, B, ROWS * LANES, unroll=1):
        for i in kl.static_range(ROWS):
            even[i] = kl.splat(kl.cast(0, row.dtype), LANES)
            odd[i] = even[i]
        for c in kl.range(0, B, 2, unroll=2):
            for i in kl.static_range(ROWS):
                where = start + c * step + part + i * LANES
                even[i] = even[i] + row[c] * kl.vload(w, where, lanes=LANES)
                odd[i] = odd[i] + row[c + 1] * kl.vload(w, where + step, lanes=LANES)
        for i in kl.static_range(ROWS):
            kl.vstore(out, part + i * LANES, even[i] + odd[i])


@function
def combine_columns(w: kl.Array, start: kl.Scalar, right: Any, SHAPE: VectorShape) -> None:
    """Applies a right reflector: its row, products with it but for the first element, and scale."""
    (row, products, scale), (B, LANES, ROWS) = right, SHAPE
    step = 3 * B - 1
    shares = kl.private(ROWS, row.dtype, lanes=LANES)
    for part in kl.range(0, B, ROWS * LANES, unroll=1):
        for i in kl.static_range(ROWS):
            where = part + i * LANES
            first = row[0] * kl.vload(w, start + where, lanes=LANES)
            shares[i] = scale * (kl.vload(products, where, lanes=LANES) + first)
        for c in kl.range(B, unroll=2):
            factor = row[c]
            for i in kl.static_range(ROWS):
                where = start + c * step + part + i * LANES
                kl.vstore(w, where, kl.vload(w, where, lanes=LANES) - factor * shares[i])


@function
def first_column(
    w: kl.Array, start: kl.Scalar, right: Any, column: kl.Array, SHAPE: VectorShape
) -> Any:
    """The left reflector's beta and scale, of the first `column` as the `right` one leaves it."""
    (row, products, scale), (B, LANES, _) = right, SHAPE
    for i in kl.range(B // LANES, unroll=_UNROLL):
        part = kl.vload(w, start + i * LANES, lanes=LANES)
        share = scale * (kl.vload(products, i * LANES, lanes=LANES) + row[0] * part)
        kl.vstore(products, i * LANES, share)
        column[i] = part - row[0] * share
    alpha = column[0][0]
    column[0] = with_first(column[0], alpha * 0, LANES)
    squares = column[0] * column[0]
    for i in kl.range(1, B // LANES, unroll=_UNROLL):
        squares = squares + column[i] * column[i]
    beta, head, scaled = mirror(alpha, lane_sum(squares))
    column[0] = with_first(column[0], head, LANES)
    return beta, scaled


@function
def combine_rows(
    w: kl.Array, start: kl.Scalar, right: Any, left: Any, products: kl.Array, SHAPE: VectorShape
) -> None:
    """Applies both reflectors to two blocks; leaves the first row, and the `products` with it."""
    (row, shares, _), (B, LANES, _) = right, SHAPE
    kind, PARTS = row.dtype, B // LANES
    GROUP = 4 if PARTS <= 2 else 1
    held = kl.private((GROUP, PARTS), kind, lanes=LANES)
    sums = kl.private(PARTS, kind, lanes=LANES)
    for c in kl.range(0, B, GROUP, unroll=2 // GROUP or 1):
        take(w, start + c * (3 * B - 1), held, B, LANES)
        for j in kl.static_range(GROUP):
            for i in kl.range(PARTS, unroll=_UNROLL):
                held[j, i] = held[j, i] - row[c + j] * kl.vload(shares, i * LANES, lanes=LANES)
        reflect(held, left, LANES)
        put(w, start + c * (3 * B - 1), held, B, LANES)
    for i in kl.range(PARTS, unroll=_UNROLL):
        sums[i] = kl.splat(kl.cast(0, kind), LANES)
    for c in kl.range(0, B, GROUP, unroll=2 // GROUP or 1):
        where = start + (B + c) * (3 * B - 1)
        take(w, where, held, B, LANES)
        reflect(held, left, LANES)
        put(w, where, held, B, LANES)
        for j in kl.static_range(GROUP):
            row[c + j] = held[j, 0][0]
            factor = held[j, 0][0] if j > 0 else kl.where(c == 0, 0, held[j, 0][0])
            for i in kl.range(PARTS, unroll=_UNROLL):
                sums[i] = sums[i] + factor * held[j, i]
    for i in kl.range(PARTS, unroll=_UNROLL):
        kl.vstore(products, i * LANES, sums[i])


@function
def take(w: kl.Array, start: kl.Scalar, columns: kl.Array, B: int, LANES: int) -> None:
    """Loads neighbouring columns, the first one at `start`."""
    for j in kl.static_range(columns.shape[0]):
        for i in kl.range(columns.shape[1], unroll=_UNROLL):
            columns[j, i] = kl.vload(w, start + j * (3 * B - 1) + i * LANES, lanes=LANES)


@function
def put(w: kl.Array, start: kl.Scalar, columns: kl.Array, B: int, LANES: int) -> None:
    """Stores what `take` loads."""
    for j in kl.static_range(columns.shape[0]):
        for i in kl.range(columns.shape[1], unroll=_UNROLL):
            kl.vstore(w, start + j * (3 * B - 1) + i * LANES, columns[j, i])


@function
def reflect(columns: kl.Array, left: Any, LANES: int) -> None:
    """Applies ``I - scale v v^T`` to columns; `left` is v and the scale."""
    v, scale = left
    GROUP = columns.shape[0]
    totals = kl.private(GROUP, v.dtype, lanes=LANES)
    for j in kl.static_range(GROUP):
        totals[j] = columns[j, 0] * v[0]
        for i in kl.range(1, columns.shape[1], unroll=_UNROLL):
            totals[j] = totals[j] + columns[j, i] * v[i]
    shares = scale * lane_sums(totals, GROUP, LANES)
    for j in kl.static_range(GROUP):
        share = kl.shuffle2(shares, shares, lanes=tuple(j * LANES // GROUP for _ in range(LANES)))
        for i in kl.range(columns.shape[1], unroll=_UNROLL):
            columns[j, i] = columns[j, i] - share * v[i]


@function
def with_first(x: kl.Scalar, value: kl.Scalar, LANES: int) -> Any:
    """A vector with another first lane."""
    others = tuple(i or LANES for i in range(LANES))
    return kl.shuffle2(x, kl.splat(value, LANES), lanes=others)
