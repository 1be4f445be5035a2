"""Products with few columns, and of many small matrices, where each work-item is alone.

Tiles as wide as large products want them are mostly empty there. A work-item
holds a few rows of the result in registers, all their columns, and reads operands where they are.
Two cores with AVX-512 took a half to a fifth of the time of tiles for up to 96 columns of `float32`
and 48 of `float64`. Few rows by many columns are shared by columns, as are integers.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Capabilities
from portable.dtypes import DType
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.products.kernels import finished, matrices, matrix_of
from portable.linalg.products.schedules import matrices_of
from portable.primitives.scans.board_kernels import chain_added, levels_of, total_of_levels

_ROWS: Final = 8
_SMALL: Final = 48
"""Extents of matrices that are small."""
_VECTORS: Final = 6
"""Vectors of a row at most, of small matrices."""
_FEWEST_ROWS: Final = 4
"""Rows that a work-item has at least where matrices are not small."""
_OTHERS: Final = 4
"""One in so many of a processor's registers for vectors is for operands, not for sums."""
_CLAMPED: Final = 4
"""Lanes of fewer columns, of which the last is repeated."""
_ENOUGH: Final = 1 << 15
"""Products of a work-item, that starting it does not count."""
_SHALLOWEST: Final = 1 << 11
"""Products of a sum that is cut into parts, at least."""
_CHAIN: Final = 1 << 8
"""Products that are added up one after the other at most, so that sums do not drift."""
_LEVELS: Final = 3
"""Those in which sums of more products are kept."""


class Slim(NamedTuple):
    """How a product is shared; a constant of the kernel.

    Attributes
    ----------
    rows : int
        Of a tile.
    lanes, vectors : int
        Columns of a vector, and vectors that hold all columns; the last may begin before the one
        before it ends.
    many : int
        Tiles of a work-item.
    split_k : bool
        Whether the first dimension of the result is that of parts of sums.
    levels : int
        In how many numbers the total of chains of products is kept, as
        `portable.primitives.scans.board_kernels` has it; 0 where one chain is all.
    clamped : bool
        Whether a vector has more lanes than there are columns.
    whole : bool
        Whether vectors are finished and stored as they are: there are as many columns, and sums are
        multiplied and added to alone.
    """

    rows: int
    lanes: int
    vectors: int
    many: int
    split_k: bool = False
    levels: int = 0
    clamped: bool = False
    whole: bool = False


def slim_for(
    capabilities: Capabilities, accumulator: DType, shape: tuple[int, ...], k: int
) -> tuple[Slim, int, int] | None:
    """How a product is best shared, into how many parts its sums are cut, and the work-items.

    None where tiles do it better.

    Parameters
    ----------
    capabilities : Capabilities
        The device's.
    accumulator : DType
        The type to sum in.
    shape : tuple of int
        Of the result, (..., M, N).
    k : int
        The extent that is summed over.
    """
    *lead, m, n = shape
    if not capabilities.single_work_items or accumulator.is_complex or n < 2 or not k:
        return None
    lanes = min(capabilities.vector_bytes // accumulator.itemsize, 1 << n.bit_length() - 1)
    lanes = max(lanes, _CLAMPED) if n < _CLAMPED else lanes
    vectors = -(-n // lanes)
    held = capabilities.most_vectors - capabilities.most_vectors // _OTHERS
    most = _VECTORS if max(m, n, k) <= _SMALL else held // _FEWEST_ROWS
    if lanes < 2 or vectors > most:
        return None
    rows = -(-m // -(-m // max(1, min(_ROWS, held // vectors))))
    tiles = prod(lead) * -(-m // rows)
    wanted = 4 * capabilities.compute_units
    parts = max(1, min(wanted // tiles, k // _SHALLOWEST))
    each = rows * n * -(-k // parts)
    many = max(1, min(_ENOUGH // each, tiles * parts // wanted))
    levels = _LEVELS if accumulator.is_float and -(-k // parts) > _CHAIN else 0
    slim = Slim(rows, lanes, vectors, many, parts > 1, levels, n < lanes)
    return slim, parts, -(-tiles * parts // many)


@function
def columns_from(x: kl.Array, row: kl.Scalar, first: kl.Scalar, SLIM: Slim) -> Any:
    """Neighbours of a row; of fewer than lanes the last is repeated."""
    if not SLIM.clamped:
        return kl.vload(x, row, first, lanes=SLIM.lanes)
    last = x.shape[1] - 1
    return kl.vector(*[x[row, kl.minimum(lane, last)] for lane in kl.static_range(SLIM.lanes)])


class Factors(NamedTuple):
    """Some rows of a matrix, and columns of another from which on vectors are taken."""

    left: Any
    right: Any
    read: Any
    columns: Any


@function
def with_product(total: kl.Scalar, x: kl.Scalar, y: kl.Scalar) -> Any:
    """The sum of a number and a product, rounded once."""
    return kl.fma(x, y, total) if total.dtype.is_float else total + x * y


@function
def add_products(
    sums: kl.Array, factors: Factors, first: kl.Scalar, stop: kl.Scalar, SLIM: Slim
) -> None:
    """Adds products of rows and columns, from the `first` to before `stop`."""
    left, right, read, columns = factors
    ACC, LANES = sums.dtype, SLIM.lanes
    for k in range(first, stop):
        given = [kl.cast(columns_from(right, k, column, SLIM), ACC) for column in columns]
        for r in kl.static_range(SLIM.rows):
            factor = kl.splat(kl.cast(left[read[r], k], ACC), LANES)
            for v in kl.static_range(SLIM.vectors):
                at = r * SLIM.vectors + v
                sums[at] = with_product(sums[at], factor, given[v])


@function
def neighbours_of(x: kl.Array, row: kl.Scalar, first: kl.Scalar, LANES: int) -> Any:
    """Neighbours in a row of a matrix or row vector that is broadcast along extents of 1."""
    if x.ndim == 1:
        value = kl.splat(x[0], LANES)
        if x.shape[0] > 1:
            value = kl.vload(x, first, lanes=LANES)
        return value
    at = kl.where(x.shape[0] == 1, 0, row)
    value = kl.splat(x[at, 0], LANES)
    if x.shape[1] > 1:
        value = kl.vload(x, at, first, lanes=LANES)
    return value


@function
def finished_columns(
    total: kl.Scalar,
    terms: Any,
    out: kl.Array,
    row: tuple[kl.Scalar, ...],
    first: kl.Scalar,
    LANES: int,
) -> Any:
    """`portable.linalg.products.kernels.finished` without an activation, of neighbours in a row."""
    alpha, beta, c, bias = terms
    value = alpha * total
    if c is not None:
        value = value + beta * neighbours_of(matrix_of(c, out, row[0]), row[1], first, LANES)
    if bias is not None:
        value = value + neighbours_of(matrix_of(bias, out, row[0]), row[1], first, LANES)
    return value


@function
def add_in_chains(
    sums: kl.Array, factors: Factors, first: kl.Scalar, stop: kl.Scalar, SLIM: Slim
) -> None:
    """The same of long sums, `_CHAIN` products at a time."""
    ACC, LANES = sums.dtype, SLIM.lanes
    nothing = kl.splat(kl.cast(0, ACC), LANES)
    levels = kl.private(SLIM.rows * SLIM.vectors, (ACC,) * SLIM.levels, lanes=LANES)
    for at in kl.static_range(SLIM.rows * SLIM.vectors):
        levels[at] = levels_of(nothing, SLIM.levels)
    for begin in range(first, stop, _CHAIN):
        end = begin + kl.minimum(stop - begin, _CHAIN)
        number = (begin - first) // _CHAIN
        add_products(sums, factors, begin, end, SLIM)
        for at in kl.static_range(SLIM.rows * SLIM.vectors):
            levels[at] = chain_added(levels[at], number, sums[at], nothing, kl.add)
            sums[at] = nothing
    for at in kl.static_range(SLIM.rows * SLIM.vectors):
        sums[at] = total_of_levels(levels[at], kl.add)


@kernel
def gemm_slim(
    alpha: kl.Scalar,
    a: kl.Array,
    b: kl.Array,
    beta: kl.Scalar,
    c: kl.Array | None,
    bias: kl.Array | None,
    out: kl.Array,
    *,
    SLIM: Slim,
    ACC: Any,
    ACTIVATION: Any,
) -> None:
    """Some tiles of the result for each work-item, one after the other.

    Parameters
    ----------
    alpha, a, b, beta, c, bias, out, ACC, ACTIVATION
        As in `portable.linalg.products.kernels.gemm_naive`.
    SLIM : Slim
        How the product is shared.
    """
    ROWS, LANES, VECTORS = SLIM.rows, SLIM.lanes, SLIM.vectors
    m, n = out.shape[out.ndim - 2], out.shape[out.ndim - 1]
    bands = kl.cdiv(m, ROWS)
    tiles = matrices_of(out, 0) * bands
    begin = kl.global_id(0) * SLIM.many
    for index in range(begin, kl.minimum(begin + SLIM.many, tiles)):
        batch, row = index // bands, index % bands * ROWS
        left, right, result = matrices(a, b, out, batch)
        first, depth = 0, left.shape[1]
        if SLIM.split_k:
            each = kl.cdiv(depth, out.shape[0])
            first = kl.minimum(batch // matrices_of(out, 1) * each, depth)
            depth = kl.minimum(first + each, depth)
        sums = kl.private(ROWS * VECTORS, ACC, lanes=LANES, fill=0)
        read = [kl.minimum(row + r, m - 1) for r in range(ROWS)]
        columns = [0 if SLIM.clamped else kl.minimum(v * LANES, n - LANES) for v in range(VECTORS)]
        given = Factors(left, right, read, columns), first, depth, SLIM
        if SLIM.levels:
            add_in_chains(sums, *given)
        else:
            add_products(sums, *given)
        terms, some = (alpha, beta, c, bias), kl.minimum(m - row, ROWS)
        if SLIM.whole:
            for r in kl.static_range(ROWS):
                if r < some:
                    line = batch, row + r
                    # Where vectors meet, their sums are the same, and nothing is stored before all
                    # is read: `c` may be the result.
                    done = [
                        finished_columns(sums[r * VECTORS + v], terms, out, line, columns[v], LANES)
                        for v in range(VECTORS)
                    ]
                    for v in kl.static_range(VECTORS):
                        kl.vstore(result, row + r, columns[v], done[v])
        else:
            # Through memory: finished lane by lane in registers they are pages of code.
            tile = kl.private((ROWS, VECTORS * LANES), ACC)
            for r in kl.static_range(ROWS):
                for v in kl.static_range(VECTORS):
                    kl.vstore(tile, r, columns[v], sums[r * VECTORS + v])
            for r in range(some):
                for column in range(n):
                    position = batch, row + r, column
                    done = finished(tile[r, column], terms, out, position, ACTIVATION)
                    result[row + r, column] = done


def wide_for(
    capabilities: Capabilities, accumulator: DType, shape: tuple[int, ...], k: int
) -> tuple[Slim, int] | None:
    """How a product is shared by columns, and the work-items; None where tiles do it better.

    That is of floats where all rows are a tile's, so that no number is read twice, and sums are one
    chain; of integers, for which there are no tiles, of whatever is wide enough.

    Parameters
    ----------
    capabilities, accumulator, shape, k
        As of `slim_for`.
    """
    *lead, m, n = shape
    lanes = capabilities.vector_bytes // accumulator.itemsize
    if not capabilities.single_work_items or accumulator.is_complex or not k or not 1 < lanes <= n:
        return None
    if accumulator.is_float and (m > _ROWS or k > _CHAIN):
        return None
    rows = min(m, _ROWS)
    held = capabilities.most_vectors - capabilities.most_vectors // _OTHERS
    vectors = max(1, min(held // rows, _VECTORS, n // lanes))
    return Slim(rows, lanes, vectors, 1, whole=True), prod(lead) * -(-n // (vectors * lanes))


@kernel
def gemm_wide(
    alpha: kl.Scalar,
    a: kl.Array,
    b: kl.Array,
    beta: kl.Scalar,
    c: kl.Array | None,
    bias: kl.Array | None,
    out: kl.Array,
    *,
    SLIM: Slim,
    ACC: Any,
    ACTIVATION: Any,
) -> None:
    """Neighbouring columns of the result for each work-item, some rows after the other.

    Parameters
    ----------
    alpha, a, b, beta, c, bias, out, ACC, ACTIVATION
        As in `portable.linalg.products.kernels.gemm_naive`.
    SLIM : Slim
        Rows, lanes and vectors of a work-item.
    """
    ROWS, LANES, VECTORS = SLIM.rows, SLIM.lanes, SLIM.vectors
    m, n = out.shape[out.ndim - 2], out.shape[out.ndim - 1]
    panels = kl.cdiv(n, VECTORS * LANES)
    batch, begin = kl.global_id(0) // panels, kl.global_id(0) % panels * (VECTORS * LANES)
    if batch < matrices_of(out, 0):
        left, right, result = matrices(a, b, out, batch)
        # The last columns begin where those before have not ended, and only what is new is stored.
        start = kl.minimum(begin, n - VECTORS * LANES)
        columns = [start + v * LANES for v in range(VECTORS)]
        for row in range(0, m, ROWS):
            sums = kl.private(ROWS * VECTORS, ACC, lanes=LANES, fill=0)
            read = [kl.minimum(row + r, m - 1) for r in range(ROWS)]
            add_products(sums, Factors(left, right, read, columns), 0, left.shape[1], SLIM)
            terms, some = (alpha, beta, c, bias), kl.minimum(m - row, ROWS)
            if SLIM.whole and start == begin:
                for r in kl.static_range(ROWS):
                    if r < some:
                        for v in kl.static_range(VECTORS):
                            total, line = sums[r * VECTORS + v], (batch, row + r)
                            done = finished_columns(total, terms, out, line, columns[v], LANES)
                            kl.vstore(result, row + r, columns[v], done)
            else:
                tile = kl.private((ROWS, VECTORS * LANES), ACC)
                for r in kl.static_range(ROWS):
                    for v in kl.static_range(VECTORS):
                        kl.vstore(tile, r, v * LANES, sums[r * VECTORS + v])
                for r in range(some):
                    for column in range(begin, kl.minimum(begin + VECTORS * LANES, n)):
                        position = batch, row + r, column
                        total = tile[r, column - start]
                        done = finished(total, terms, out, position, ACTIVATION)
                        result[row + r, column] = done
