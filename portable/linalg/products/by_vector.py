"""Products of a matrix and a vector where each work-item is alone: read once, by vectors.

What such a product costs is the reading of the matrix, so that no operand is packed into tiles.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Capabilities
from portable.dtypes import DType
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.sums import lane_sum
from portable.linalg.products.kernels import finished, matrix_of
from portable.linalg.products.slim import with_product
from portable.primitives.base.operands import power_of_two

_CHAIN: Final = 64
"""Steps of a sum before it goes into another."""
_MOST_LANES: Final = 16
_VECTORS: Final = 8
"""Sums that a work-item keeps in registers at a time: enough that none waits for another."""
_SHARES: Final = 8
"""Work-items alone, or workgroups, that are wanted for each compute unit."""
_FEWEST: Final = 1 << 13
_MOST: Final = 1 << 16
"""Products that a work-item adds up: fewer do not pay, and sums of more drift."""


class ByVector(NamedTuple):
    """How a product by a vector is shared; a constant of the kernel.

    Attributes
    ----------
    turned : bool
        Whether the vector is a row, and the matrix `b`, whose columns are meant by rows here.
    along : bool
        Whether elements of a row lie together, and are the lanes; else neighbouring rows are.
    lanes, vectors : int
        Of a sum, and sums of a work-item.
    depth : int
        Products of a part of a sum.
    plain : bool
        Whether there is no activation.
    """

    turned: bool
    along: bool
    lanes: int
    vectors: int
    depth: int
    plain: bool = False


def sums_of_each(rows: int, depth: int, most: int, capabilities: Capabilities) -> int:
    """How many rows a work-item does at a time: fewer where others would have nothing to do.

    Parts of sums, where they are parted, are work for all.

    Parameters
    ----------
    rows : int
        Of the matrix, or vectors of them.
    depth : int
        Products of a sum that may be parted for the sake of more work.
    most : int
        The largest answer.
    capabilities : Capabilities
        The device's.
    """
    if rows >= most * capabilities.compute_units:
        return most
    return min(most, rows) if depth >= _FEWEST * capabilities.compute_units else 1


def section_of(blocks: int, depth: int, capabilities: Capabilities) -> int:
    """Products of each part of sums.

    The parts are few enough that sums do not drift, and so many that all have work.

    Parameters
    ----------
    blocks : int
        Work-items, or workgroups, for whole sums.
    depth : int
        Products of a sum.
    capabilities : Capabilities
        The device's.
    """
    wanted = capabilities.compute_units * _SHARES
    return min(_MOST, max(_FEWEST, power_of_two(-(-depth // max(1, wanted // blocks)))))


def by_vector_for(
    capabilities: Capabilities,
    accumulator: DType,
    shape: tuple[int, ...],
    k: int,
    columns: tuple[bool, bool],
) -> tuple[ByVector, int, int] | None:
    """How a product is shared, into how many parts its sums are cut, and the work-items.

    None where no operand is a vector, or work-items are not alone.

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
    columns : (bool, bool)
        Whether columns of `a` and of `b` lie together, not their rows.
    """
    if not capabilities.single_work_items or len(shape) != 2 or 1 not in shape or not k:
        return None
    turned = shape[1] != 1
    rows = max(shape)
    along = rows == 1 or (k > 1 and (columns[1] if turned else not columns[0]))
    lanes = min(max(capabilities.vector_bytes // accumulator.itemsize, 2), _MOST_LANES)
    if not along:
        lanes = min(lanes, 1 << rows.bit_length() - 1)
    each = 1 if along else lanes
    vectors = sums_of_each(rows // each, k if along else 0, _VECTORS, capabilities)
    if not along:  # twice the run of memory took 0.65 to 0.8 of the time with 32 registers
        wide = capabilities.most_vectors // 2
        vectors = max(vectors, sums_of_each(rows // each, 0, wide, capabilities))
    blocks = -(-rows // (each * vectors))
    section = section_of(blocks, k, capabilities)
    parts = -(-k // section)
    return ByVector(turned, along, lanes, vectors, section), parts, blocks * parts


@function
def neighbours(a: kl.Array, b: kl.Array, row: kl.Scalar, k: kl.Scalar, HOW: ByVector) -> Any:
    """Elements of the matrix from one on, along a row of it or across rows."""
    if HOW.turned:
        loaded = kl.vload(b, k, row, lanes=HOW.lanes, axis=0 if HOW.along else 1)
    else:
        loaded = kl.vload(a, row, k, lanes=HOW.lanes, axis=1 if HOW.along else 0)
    return loaded


@function
def factors_from(a: kl.Array, b: kl.Array, k: kl.Scalar, LANES: int, HOW: ByVector) -> Any:
    """Elements of the vector."""
    if HOW.turned:
        loaded = kl.vload(a, 0, k, lanes=LANES)
    else:
        loaded = kl.vload(b, k, 0, lanes=LANES, axis=0)
    return loaded


@function
def put(
    total: kl.Scalar,
    row: kl.Scalar,
    terms: Any,
    places: tuple[kl.Array, kl.Scalar],
    HOW: ByVector,
    ACTIVATION: Any,
) -> None:
    """Finishes a sum and stores it, in a part of `out`."""
    out, section = places
    result = matrix_of(out, out, section)
    y, x = (0, row) if HOW.turned else (row, 0)
    result[y, x] = finished(total, terms, out, (section, y, x), ACTIVATION)


@kernel
def gemm_by_vector(
    alpha: Any,
    a: kl.Array,
    b: kl.Array,
    beta: Any,
    c: kl.Array | None,
    bias: kl.Array | None,
    out: kl.Array,
    *,
    HOW: ByVector,
    ACC: Any,
    ACTIVATION: Any,
) -> None:
    """A part of some sums for each work-item, which keeps them in vectors.

    Each is of a row whose elements lie together, or of neighbouring rows, no fewer than lanes. Past
    the last row those before are read again.

    Parameters
    ----------
    alpha, a, b, beta, c, bias, ACC, ACTIVATION
        As in `portable.linalg.products.kernels.gemm_naive`.
    out : array, shape (M, N) or (parts, M, N)
        The result, or parts of sums.
    HOW : ByVector
        How the product is shared.
    """
    LANES, VECTORS = HOW.lanes, HOW.vectors
    EACH, STEP = (1, LANES) if HOW.along else (LANES, 1)
    rows, length = b.shape[1] if HOW.turned else a.shape[0], a.shape[1]
    blocks = kl.cdiv(rows, VECTORS * EACH)
    first = kl.global_id(0) % blocks * (VECTORS * EACH)
    section = kl.global_id(0) // blocks
    start = section * HOW.depth
    stop = start + kl.minimum(length - start, HOW.depth)
    read = [kl.minimum(first + v * EACH, rows - EACH) for v in range(VECTORS)]
    sums = kl.private(VECTORS, ACC, lanes=LANES, fill=0)
    chain = kl.private(VECTORS, ACC, lanes=LANES)
    whole = start + (stop - start) // STEP * STEP
    for begin in range(start, whole, _CHAIN * STEP):
        for v in kl.static_range(VECTORS):
            chain[v] = kl.splat(kl.cast(0, ACC), LANES)
        for k in range(begin, begin + kl.minimum(whole - begin, _CHAIN * STEP), STEP):
            factor = kl.cast(factors_from(a, b, k, STEP, HOW), ACC)
            factors = factor if HOW.along else kl.splat(factor, LANES)
            for v in kl.static_range(VECTORS):
                loaded = kl.cast(neighbours(a, b, read[v], k, HOW), ACC)
                chain[v] = with_product(chain[v], loaded, factors)
        for v in kl.static_range(VECTORS):
            sums[v] = sums[v] + chain[v]
    terms, places = (alpha, beta, c, bias), (out, section)
    if HOW.along:
        for v in kl.static_range(VECTORS):
            if first + v < rows:
                total = lane_sum(sums[v])
                for k in range(whole, stop):
                    x, y = (a[0, k], b[k, first + v]) if HOW.turned else (a[first + v, k], b[k, 0])
                    total += kl.cast(x, ACC) * kl.cast(y, ACC)
                put(total, first + v, terms, places, HOW, ACTIVATION)
    elif (
        HOW.plain
        and alpha is not None
        and c is None
        and bias is None
        and first + VECTORS * LANES <= rows
    ):
        result = matrix_of(out, out, section)
        for v in kl.static_range(VECTORS):
            if HOW.turned:
                kl.vstore(result, 0, read[v], alpha * sums[v])
            else:
                kl.vstore(result, read[v], 0, alpha * sums[v], axis=0)
    else:
        # Through memory: finished lane by lane in registers they are pages of code.
        room = kl.private((VECTORS, LANES), ACC)
        for v in kl.static_range(VECTORS):
            kl.vstore(room, v, 0, sums[v])
        for row in range(first, first + kl.minimum(rows - first, VECTORS * LANES)):
            v = (row - first) // LANES
            lane = row - kl.minimum(first + v * LANES, rows - LANES)
            put(room[v, lane], row, terms, places, HOW, ACTIVATION)
