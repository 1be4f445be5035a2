"""The kernels behind `portable.linalg.gemm`, from the plainest to the one that is fast everywhere.

All work out ``out = activation(alpha a @ b + beta c + bias)``; `c` and `bias` may be None. Where
`alpha` is, each row and each column of the product has a factor of its own, which `beta` holds.
Arrays have any strides; the leading dimensions of `a`, `b`, `c`, `bias` broadcast against those of
`out`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.tiling import Tiling
from portable.linalg.products.mainloop import mainloop, prologue
from portable.primitives.reductions.merging import CHAIN

__all__ = ["gemm_naive", "gemm_sums", "gemm_tiled", "gemm_tiles", "keep", "relu"]


@function
def keep(x: Any) -> Any:
    """The activation that changes nothing."""
    return x


@function
def relu(x: Any) -> Any:
    """``max(x, 0)``; NaN stays NaN."""
    return kl.maximum(x, 0)


@function
def matrix_of(x: Any, out: Any, batch: Any) -> Any:
    """The matrix of `x` that belongs to the `batch`-th matrix of `out`, counted in C order."""
    index = ()
    rest = batch
    for d in kl.static_range(out.ndim - 3, -1, -1):
        own = d - (out.ndim - x.ndim)
        if own >= 0:
            index = (kl.where(x.shape[own] == 1, 0, rest % out.shape[d]), *index)  # type: ignore[assignment]
        rest = rest // out.shape[d]
    return x[*index]


@function
def matrices(a: Any, b: Any, out: Any, batch: Any) -> Any:
    """What is multiplied for the `batch`-th matrix of `out`, and that matrix."""
    return matrix_of(a, out, batch), matrix_of(b, out, batch), matrix_of(out, out, batch)


@function
def matrices_of(x: Any, FROM: int) -> Any:
    """How many matrices `x` has along its leading dimensions from one on."""
    count = 1
    for d in kl.static_range(FROM, x.ndim - 2):
        count = count * x.shape[d]
    return count


@function
def element_of(x: Any, row: Any, column: Any) -> Any:
    """An element of a matrix or row vector that is broadcast along extents of 1."""
    if x.ndim == 1:
        return x[kl.where(x.shape[0] == 1, 0, column)]
    return x[kl.where(x.shape[0] == 1, 0, row), kl.where(x.shape[1] == 1, 0, column)]


@function
def scaled(total: Any, factors: Any, out: Any, place: Any) -> Any:
    """A sum by the factors of its row, of shape (..., M, 1), and of its column, (..., 1, N)."""
    (left, right), (batch, row, column) = factors, place
    return total * matrix_of(left, out, batch)[row, 0] * matrix_of(right, out, batch)[0, column]


@function
def finished(total: Any, terms: Any, out: Any, place: Any, activation: Any) -> Any:
    """The element of the result that belongs to a sum of products.

    Its `terms` are alpha, beta, c and bias, its `place` the number of the matrix, row and column.
    """
    (alpha, beta, c, bias), (batch, row, column) = terms, place
    if alpha is None:
        return activation(scaled(total, beta, out, place))
    value = alpha * total
    if c is not None:
        value = value + beta * element_of(matrix_of(c, out, batch), row, column)
    if bias is not None:
        value = value + element_of(matrix_of(bias, out, batch), row, column)
    return activation(value)


@function
def finished_in_tile(
    total: Any, i: Any, j: Any, terms: Any, out: Any, first: Any, activation: Any
) -> Any:
    """`finished`, for an element of a tile from a place on that may reach beyond the result.

    What lies beyond takes the terms of the last row or column: a branch would keep their reads from
    being under way together.
    """
    batch, y, x = first[0], first[1] + i, first[2] + j
    y = kl.minimum(y, out.shape[out.ndim - 2] - 1)
    x = kl.minimum(x, out.shape[out.ndim - 1] - 1)
    return finished(total, terms, out, (batch, y, x), activation)


@function
def tile_position(index: Any, rows: Any, columns: Any, GROUP: int) -> Any:
    """Row and column of the `index`-th tile: down `GROUP` rows of tiles before the next column.

    Workgroups that run at the same time then share operand tiles in the last-level cache.
    """
    band = GROUP * columns
    first = index // band * GROUP
    height = kl.minimum(rows - first, GROUP)
    inside = index % band
    return first + inside % height, inside // height


@function
def tiles_of(out: Any, BM: int, BN: int) -> Any:
    """How many tiles the matrices of `out` have."""
    rows, columns = kl.cdiv(out.shape[out.ndim - 2], BM), kl.cdiv(out.shape[out.ndim - 1], BN)
    return matrices_of(out, 0) * rows * columns


@function
def tile_of_workgroup(out: Any, BM: int, BN: int, GROUP: int) -> Any:
    """The place of the tile that is this workgroup's (`tile_place`).

    Tiles and matrices share the one dimension in which every device takes any number of workgroups.
    """
    return tile_place(kl.group_id(0), out, BM, BN, GROUP)


@function
def tile_place(index: Any, out: Any, BM: int, BN: int, GROUP: int) -> Any:
    """The matrix of `out` and the first row and column of a tile."""
    rows, columns = kl.cdiv(out.shape[out.ndim - 2], BM), kl.cdiv(out.shape[out.ndim - 1], BN)
    batch = 0
    if out.ndim > 2:
        index, batch = index % (rows * columns), index // (rows * columns)
    row, column = tile_position(index, rows, columns, GROUP)
    return batch, row * BM, column * BN


@kernel
def gemm_naive(
    alpha: Any, a: Any, b: Any, beta: Any, c: Any, bias: Any, out: Any, *, ACC: Any, ACTIVATION: Any
) -> None:
    """A work-item per element, reading a row and a column from global memory.

    Each product costs two loads: the device's caches decide the speed.

    Parameters
    ----------
    alpha, beta : float or int, or None and (array, array)
        Factors, of the type to sum in.
    a, b, c, bias, out : array
        As `portable.linalg.gemm` has them; `c` and `bias` may be None.
    ACC : DType
        The type to sum in.
    ACTIVATION : Function
        Of an element, before it is rounded.
    """
    batch, row, column = tile_of_workgroup(out, kl.local_size(1), kl.local_size(0), 1)
    row, column = row + kl.local_id(1), column + kl.local_id(0)
    left, right, result = matrices(a, b, out, batch)
    if row < result.shape[0] and column < result.shape[1]:
        total = ACC(0)
        for k in range(left.shape[1]):
            total += ACC(left[row, k]) * ACC(right[k, column])
        terms, place = (alpha, beta, c, bias), (batch, row, column)
        result[row, column] = finished(total, terms, out, place, ACTIVATION)


@kernel
def gemm_tiled(
    alpha: Any, a: Any, b: Any, beta: Any, c: Any, bias: Any, out: Any,
    *, TILE: int, ACC: Any, ACTIVATION: Any,
) -> None:  # fmt: skip
    """A work-item per element, square tiles of both operands in local memory.

    Each element read from global memory serves ``TILE`` products; each product still costs two
    loads from local memory.

    Parameters
    ----------
    alpha, a, b, beta, c, bias, out, ACC, ACTIVATION
        As in `gemm_naive`.
    TILE : int
        Edge of the tiles and of a workgroup.
    """
    batch, row, column = tile_of_workgroup(out, TILE, TILE, 1)
    left, right, result = matrices(a, b, out, batch)
    i, j = kl.local_id(1), kl.local_id(0)
    tile_a = kl.local((TILE, TILE), a.dtype)
    tile_b = kl.local((TILE, TILE), b.dtype)
    total = ACC(0)
    for start in range(0, left.shape[1], TILE):
        kl.copy(tile_a, left[row : row + TILE, start : start + TILE])
        kl.copy(tile_b, right[start : start + TILE, column : column + TILE])
        kl.barrier()
        for k in range(TILE):
            total += ACC(tile_a[i, k]) * ACC(tile_b[k, j])
        kl.barrier()
    row, column = row + i, column + j
    if row < result.shape[0] and column < result.shape[1]:
        terms, place = (alpha, beta, c, bias), (batch, row, column)
        result[row, column] = finished(total, terms, out, place, ACTIVATION)


class Reader(NamedTuple):
    """What a tile of a result is made of: matrices and their extents, and where it begins."""

    left: Any
    right: Any
    row: Any
    column: Any
    first: Any
    ends: Any
    DEPTH: int

    def start(self, tile_a: Any, tile_b: Any, step: Any) -> None:
        """Starts to copy the tiles of a step."""
        (BM, BK), BN, row, column = tile_a.shape, tile_b.shape[1], self.row, self.column
        begin = self.first + step * BK
        kl.copy_async(tile_a, self.left[row : row + BM, begin : begin + BK])
        kl.copy_async(tile_b, self.right[begin : begin + BK, column : column + BN])

    def valid(self, step: Any) -> Any:
        """Rows, columns and products of a step that lie in the matrices."""
        (m, n, k), BK = self.ends, self.DEPTH
        return m - self.row, n - self.column, k - step * BK - self.first


@function
def multiply_tile(
    acc: Any, tiles: Any, given: Any, terms: Any, turn: Any, TILING: Tiling, ACTIVATION: Any
) -> Any:
    """Makes a tile of the result of `given` operands; gives how many steps it took.

    A `turn` is the tile's number, and how many steps went through the ring before it.
    """
    (a, b, out), (index, done), c = given, turn, terms[2]
    BM, BN, BK = TILING[0:3]
    batch, row, column = tile_place(index, out, BM, BN, TILING.group)
    left, right, result = matrices(a, b, out, batch)
    m, n, k = result.shape[0], result.shape[1], left.shape[1]
    first, steps = 0, kl.cdiv(k, BK)
    if TILING.split_k:
        most = kl.cdiv(steps, out.shape[0])
        before = batch // matrices_of(out, 1) * most
        first, steps = before * BK, kl.minimum(steps - before, most)
    reader = Reader(left, right, row, column, first - done * BK, (m, n, k), BK)
    acc.fill(0)
    prologue(tiles, reader, TILING)
    mainloop(acc, tiles, reader, (done, done + steps), TILING)
    acc.map(finished_in_tile, terms, out, (batch, row, column), ACTIVATION)
    if c is not None:  # which may be the result
        kl.barrier()
    acc.store(result[row : row + BM, column : column + BN])
    return steps


@kernel
def gemm_tiles(
    alpha: Any, a: Any, b: Any, beta: Any, c: Any, bias: Any, out: Any,
    *, TILING: Tiling, ACC: Any, ACTIVATION: Any,
) -> None:  # fmt: skip
    """A workgroup per tile of the result, or for several in turn, held in registers or by units.

    Tiles of the operands pass through a ring in local memory; while one is multiplied the next ones
    are on their way. Local memory: ``stages (rows + columns) depth`` elements of the tiling and the
    padding that the device's layout wants.

    Parameters
    ----------
    alpha, a, b, beta, c, bias, out, ACC, ACTIVATION
        As in `gemm_naive`.
    TILING : Tiling
        The tiles. With `split_k`, `out` has a matrix of partial sums for each of them
        along its first dimension, which `gemm_sums` adds up.
    """
    BM, BN, BK, STAGES = TILING[0:4]
    tile_a = kl.local((STAGES, BM, BK), a.dtype)
    tile_b = kl.local((STAGES, BK, BN), b.dtype)
    acc = kl.matrix((BM, BN), ACC, scope="workgroup", units=TILING.units, split=TILING.split)
    terms, tiles, given = (alpha, beta, c, bias), (tile_a, tile_b), (a, b, out)
    if TILING.persistent:
        done = 0
        for index in range(kl.group_id(0), tiles_of(out, BM, BN), kl.num_groups(0)):
            done += multiply_tile(acc, tiles, given, terms, (index, done), TILING, ACTIVATION)
    else:
        multiply_tile(acc, tiles, given, terms, (kl.group_id(0), 0), TILING, ACTIVATION)


@kernel
def gemm_sums(
    parts: Any, alpha: Any, beta: Any, c: Any, bias: Any, out: Any, *, ACTIVATION: Any
) -> None:
    """A work-item per element of the result, of the sums that `gemm_tiles` left in `parts`.

    They are added up in the order of k, so that the same product has the same rounding errors, and
    in chains of bounded length, so that many do not drift.

    Parameters
    ----------
    parts : array, shape (parts, ..., M, N)
        The sums.
    alpha, beta, c, bias, out, ACTIVATION
        As in `gemm_naive`.
    """
    at = kl.global_id(0)
    m, n, count = out.shape[out.ndim - 2], out.shape[out.ndim - 1], matrices_of(out, 0)
    if at < count * m * n:
        column, row, batch = at % n, at // n % m, at // n // m
        nothing = kl.cast(0, parts.dtype)
        total = nothing
        for first in range(0, parts.shape[0], CHAIN):
            chain = nothing
            stop = first + kl.minimum(parts.shape[0] - first, CHAIN)
            for part in kl.range(first, stop, unroll=8):
                chain += matrix_of(parts, parts, part * count + batch)[row, column]
            total += chain
        result = matrix_of(out, out, batch)
        terms, place = (alpha, beta, c, bias), (batch, row, column)
        result[row, column] = finished(total, terms, out, place, ACTIVATION)
