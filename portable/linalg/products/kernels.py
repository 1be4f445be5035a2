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
from portable.linalg.products.mainloop import mainloop, multiply, prologue, room
from portable.linalg.products.schedules import (
    OneEach,
    Part,
    Persistent,
    Piece,
    Shares,
    matrices_of,
    tile_of_workgroup,
    tile_place,
    tiles_of,
)
from portable.primitives.reductions.merging import CHAIN


@function
def keep(x: kl.Scalar) -> Any:
    """The activation that changes nothing."""
    return x


@function
def relu(x: kl.Scalar) -> Any:
    """``max(x, 0)``; NaN stays NaN."""
    return kl.maximum(x, 0)


@function
def matrix_of(x: kl.Array, out: kl.Array, batch: kl.Scalar) -> Any:
    """The matrix of `x` that belongs to the `batch`-th matrix of `out`, counted in C order."""
    index = ()
    rest = batch
    for d in kl.static_range(out.ndim - 3, -1, -1):
        dim = d - (out.ndim - x.ndim)
        if dim >= 0:
            index = (kl.where(x.shape[dim] == 1, 0, rest % out.shape[d]), *index)  # type: ignore[assignment]
        rest = rest // out.shape[d]
    return x[*index]


@function
def matrices(a: kl.Array, b: kl.Array, out: kl.Array, batch: kl.Scalar) -> Any:
    """What is multiplied for the `batch`-th matrix of `out`, and that matrix."""
    return matrix_of(a, out, batch), matrix_of(b, out, batch), matrix_of(out, out, batch)


@function
def element_of(x: kl.Array, row: kl.Scalar, column: kl.Scalar) -> Any:
    """An element of a matrix or row vector that is broadcast along extents of 1."""
    if x.ndim == 1:
        return x[kl.where(x.shape[0] == 1, 0, column)]
    return x[kl.where(x.shape[0] == 1, 0, row), kl.where(x.shape[1] == 1, 0, column)]


@function
def scaled(
    total: kl.Scalar, factors: tuple[kl.Array, ...], out: kl.Array, position: tuple[kl.Scalar, ...]
) -> Any:
    """A sum by the factors of its row, of shape (..., M, 1), and of its column, (..., 1, N)."""
    (left, right), (batch, row, column) = factors, position
    return total * matrix_of(left, out, batch)[row, 0] * matrix_of(right, out, batch)[0, column]


@function
def finished(
    total: kl.Scalar, terms: Any, out: kl.Array, position: tuple[kl.Scalar, ...], activation: Any
) -> Any:
    """The element of the result that belongs to a sum of products.

    Its `terms` are alpha, beta, c and bias, its `position` the numbers of matrix, row and column.
    """
    (alpha, beta, c, bias), (batch, row, column) = terms, position
    if alpha is None:
        return activation(scaled(total, beta, out, position))
    value = alpha * total
    if c is not None:
        value = value + beta * element_of(matrix_of(c, out, batch), row, column)
    if bias is not None:
        value = value + element_of(matrix_of(bias, out, batch), row, column)
    return activation(value)


@function
def finished_in_tile(
    total: kl.Scalar,
    i: kl.Scalar,
    j: kl.Scalar,
    terms: Any,
    out: kl.Array,
    first: tuple[kl.Scalar, ...],
    activation: Any,
) -> Any:
    """`finished`, for an element of a tile from a place on that may reach beyond the result.

    What lies beyond takes the terms of the last row or column: a branch would keep their reads from
    being under way together.
    """
    batch, y, x = first[0], first[1] + i, first[2] + j
    y = kl.minimum(y, out.shape[out.ndim - 2] - 1)
    x = kl.minimum(x, out.shape[out.ndim - 1] - 1)
    return finished(total, terms, out, (batch, y, x), activation)


@kernel
def gemm_naive(
    alpha: kl.Scalar,
    a: kl.Array,
    b: kl.Array,
    beta: kl.Scalar,
    c: kl.Array | None,
    bias: kl.Array | None,
    out: kl.Array,
    *,
    ACC: Any,
    ACTIVATION: Any,
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
    batch, row, column = tile_of_workgroup(out, kl.local_size(1), kl.local_size(0))
    row, column = row + kl.local_id(1), column + kl.local_id(0)
    left, right, result = matrices(a, b, out, batch)
    if row < result.shape[0] and column < result.shape[1]:
        total = ACC(0)
        for k in range(left.shape[1]):
            total += ACC(left[row, k]) * ACC(right[k, column])
        terms, position = (alpha, beta, c, bias), (batch, row, column)
        result[row, column] = finished(total, terms, out, position, ACTIVATION)


# -- tiles, held in registers or by matrix units --------------------------------------------------


class Place(NamedTuple):
    """Where a tile lies, and the element of k at which step 0 of the ring would be."""

    batch: Any
    row: Any
    column: Any
    first: Any


@function
def place_of(piece: Piece, out: kl.Array, done: kl.Scalar, exists: Any, TILING: Tiling) -> Place:
    """Where a piece lies that begins after so many steps of the ring; beyond all if it is none."""
    tile = kl.where(exists, piece.tile, 0)
    batch, row, column = tile_place(tile, out, TILING.rows, TILING.columns, TILING.group)
    row = kl.where(exists, row, out.shape[out.ndim - 2])
    return Place(batch, row, column, (piece.first - done) * TILING.depth)


class Reader(NamedTuple):
    """What a tile of a result is made of: matrices and their extents, and where it begins."""

    left: Any
    right: Any
    place: Place
    ends: Any
    DEPTH: int

    def start(self, tile_a: kl.Array, tile_b: kl.Array, step: kl.Scalar) -> None:
        """Starts to copy the tiles of a step."""
        (BM, BK), BN, (_, row, column, first) = tile_a.shape, tile_b.shape[1], self.place
        begin = first + step * BK
        kl.copy_async(tile_a, self.left[row : row + BM, begin : begin + BK])
        kl.copy_async(tile_b, self.right[begin : begin + BK, column : column + BN])

    def valid(self, step: kl.Scalar) -> Any:
        """Rows, columns and products of a step that lie in the matrices."""
        (m, n, k), (_, row, column, first) = self.ends, self.place
        return m - row, n - column, k - step * self.DEPTH - first


class ReaderOn(NamedTuple):
    """What a piece is made of, up to a step of the ring; from there on what the next one is."""

    given: Any
    here: Place
    there: Place
    end: Any
    DEPTH: int

    def start(self, tile_a: kl.Array, tile_b: kl.Array, step: kl.Scalar) -> None:
        """Starts to copy the tiles of a step."""
        (BM, BK), BN, (a, b, out) = tile_a.shape, tile_b.shape[1], self.given
        batch, row, column, first = kl.where(step < self.end, self.here, self.there)
        left, right, begin = matrix_of(a, out, batch), matrix_of(b, out, batch), first + step * BK
        kl.copy_async(tile_a, left[row : row + BM, begin : begin + BK])
        kl.copy_async(tile_b, right[begin : begin + BK, column : column + BN])

    def valid(self, step: kl.Scalar) -> Any:
        """Rows, columns and products of a step that lie in the matrices."""
        (a, b, _), (_, row, column, first) = self.given, self.here
        m, n, k = a.shape[a.ndim - 2], b.shape[b.ndim - 1], a.shape[a.ndim - 1]
        return m - row, n - column, k - step * self.DEPTH - first


class Epilogue(NamedTuple):
    """What is done to sums on their way to memory: terms are alpha, beta, c and bias."""

    terms: Any
    out: Any
    ACTIVATION: Any

    def store(self, acc: Any, result: kl.Array, origin: Place, TILING: Tiling) -> None:
        """Finishes a tile and stores it in its matrix."""
        (batch, row, column, _), (BM, BN) = origin, TILING[0:2]
        if TILING.by_blocks:
            acc.store(result[row : row + BM, column : column + BN])
            return
        acc.map(finished_in_tile, self.terms, self.out, (batch, row, column), self.ACTIVATION)
        if self.terms[2] is not None:  # which may be the result
            kl.barrier()
        acc.store(result[row : row + BM, column : column + BN])


@function
def with_block(
    total: kl.Scalar,
    i: kl.Scalar,
    j: kl.Scalar,
    part: kl.Scalar,
    factors: tuple[kl.Array, ...],
    first: tuple[kl.Scalar, ...],
    blocks: tuple[kl.Scalar, ...],
) -> Any:
    """A sum and that of a step, by the factors of a block of its row and one of its column."""
    (left, right), (p, q) = factors, blocks
    return total + part * left[p, first[0] + i] * right[q, first[1] + j]


class Blocks(NamedTuple):
    """Sums of a tile and of a step: these go into those, each by the factors of its blocks."""

    total: Any
    part: Any
    factors: Any
    origin: Place
    lengths: Any
    DEPTH: int

    def add(self, step: kl.Scalar) -> None:
        """Adds the sums of a step."""
        k = self.origin.first + step * self.DEPTH
        blocks = k // self.lengths[0], k // self.lengths[1]
        first = self.origin.row, self.origin.column
        self.total.map(with_block, self.part, self.factors, first, blocks)


@function
def blocks_of(
    pair: tuple[Any, ...], origin: Place, operands: Any, epilogue: Epilogue, TILING: Tiling
) -> Blocks:
    """How the sums of a tile's steps are added up, whose factors are the epilogue's."""
    factors, k = epilogue.terms[1], operands[0].shape[1]
    factors = tuple(matrix_of(x, epilogue.out, origin.batch) for x in factors)
    lengths = k // factors[0].shape[0], k // factors[1].shape[0]
    total, part = pair
    return Blocks(total, part, factors, origin, lengths, TILING.depth)


@function
def make_tile(
    pair: tuple[Any, ...],
    tiles: tuple[kl.Array, ...],
    operands: tuple[kl.Array, ...],
    piece: Piece,
    done: kl.Scalar,
    epilogue: Epilogue,
    TILING: Tiling,
) -> Any:
    """Multiplies and stores a piece, before which `done` steps went through the ring; its steps."""
    (a, b), (total, part), steps = operands, pair, piece.last - piece.first
    origin = place_of(piece, epilogue.out, done, True, TILING)
    left, right, result = matrices(a, b, epilogue.out, origin.batch)
    ends = result.shape[0], result.shape[1], left.shape[1]
    reader = Reader(left, right, origin, ends, TILING.depth)
    if TILING.by_blocks:
        total.fill(0)
        after = blocks_of(pair, origin, (left, right), epilogue, TILING).add
        multiply(part, tiles, reader, (done, done + steps), TILING, AFTER=after)
    else:
        multiply(total, tiles, reader, (done, done + steps), TILING)
    epilogue.store(total, result, origin, TILING)
    return steps


@kernel
def gemm_tiles(
    alpha: Any,
    a: kl.Array,
    b: kl.Array,
    beta: Any,
    c: kl.Array | None,
    bias: kl.Array | None,
    out: kl.Array,
    *,
    TILING: Tiling,
    ACC: Any,
    ACTIVATION: Any,
) -> None:
    """A workgroup per tile of the result, per part of its sum, or for several tiles in turn.

    Where the tiling is `by_blocks`, `beta` holds factors of blocks of a multiple of its depth, of
    shapes (..., blocks, M) and (..., blocks, N), the last extents those of whole tiles.

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
    BM, BN, BK = TILING[0:3]
    tiles, acc = room((a, b), ACC, TILING)
    total = acc
    if TILING.by_blocks:
        total = kl.matrix((BM, BN), ACC, scope="workgroup", units=TILING.units, split="first")
    operands, steps = (a, b), kl.cdiv(a.shape[a.ndim - 1], BK)
    epilogue = Epilogue((alpha, beta, c, bias), out, ACTIVATION)
    if TILING.persistent:
        schedule, done = Persistent(tiles_of(out, 0, BM, BN), steps), 0
        for turn in range(*schedule.turns()):
            done += make_tile(
                (total, acc), tiles, operands, schedule.piece(turn), done, epilogue, TILING
            )
    elif TILING.split_k:
        part = Part(tiles_of(out, 1, BM, BN), out.shape[0], steps).piece(kl.group_id(0))
        make_tile((total, acc), tiles, operands, part, 0, epilogue, TILING)
    else:
        whole = OneEach(steps).piece(kl.group_id(0))
        make_tile((total, acc), tiles, operands, whole, 0, epilogue, TILING)


@kernel
def gemm_shares(
    alpha: Any,
    a: kl.Array,
    b: kl.Array,
    bias: kl.Array | None,
    parts: kl.Array,
    out: kl.Array,
    *,
    TILING: Tiling,
    ACC: Any,
    ACTIVATION: Any,
) -> None:
    """As `gemm_tiles`, as many workgroups as run at once: tiles in turn, and a share of the rest.

    What a workgroup has of a sum that others share it leaves in memory, where `gemm_share_sums`
    adds it up. The operands of what it makes next are on their way while it stores.

    Parameters
    ----------
    alpha, a, b, bias, out, ACC, ACTIVATION
        As in `gemm_naive`.
    parts : array, shape (2 workgroups, rows, columns)
        Of the tiling: what each workgroup has of the sums of two tiles.
    TILING : Tiling
        The tiles, whose operands are asked for ahead; sums have as many steps at least.
    """
    BM, BN, BK = TILING[0:3]
    tiles, acc = room((a, b), ACC, TILING)
    given, steps = (a, b, out), kl.cdiv(a.shape[a.ndim - 1], BK)
    epilogue = Epilogue((alpha, 0, None, bias), out, ACTIVATION)
    shares = Shares(kl.num_groups(0), tiles_of(out, 0, BM, BN), steps, TILING.ahead)
    count, rounds = shares.pieces(), shares.rounds()
    here = place_of(shares.piece(0), out, 0, count > 0, TILING)
    prologue(tiles, ReaderOn(given, here, here, 0, BK), TILING)
    done = 0
    for turn in range(*shares.turns()):
        piece, following = shares.piece(turn), shares.piece(turn + 1)
        end = done + piece.last - piece.first
        here = place_of(piece, out, done, True, TILING)
        there = place_of(following, out, end, turn + 1 < count, TILING)
        acc.fill(0)
        mainloop(acc, tiles, ReaderOn(given, here, there, end, BK), (done, end), TILING)
        done = end
        if turn < rounds:
            epilogue.store(acc, matrix_of(out, out, here.batch), here, TILING)
        else:
            acc.store(parts[2 * kl.group_id(0) + turn - rounds, 0:BM, 0:BN])


# -- sums of parts --------------------------------------------------------------------------------


@kernel
def gemm_sums(
    parts: kl.Array,
    alpha: Any,
    beta: Any,
    c: kl.Array | None,
    bias: kl.Array | None,
    out: kl.Array,
    *,
    ACTIVATION: Any,
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
        terms, position = (alpha, beta, c, bias), (batch, row, column)
        result[row, column] = finished(total, terms, out, position, ACTIVATION)


@kernel
def gemm_share_sums(
    parts: kl.Array,
    alpha: Any,
    bias: kl.Array | None,
    depth: kl.Scalar,
    groups: kl.Scalar,
    out: kl.Array,
    *,
    TILING: Tiling,
    EACH: int,
    ACTIVATION: Any,
) -> None:
    """A workgroup for a piece of a tile that `gemm_shares` shared out.

    Parts are added up in the order of k.

    Parameters
    ----------
    parts : array, shape (2 workgroups, rows, columns)
        As `gemm_shares` left them.
    alpha, bias, out, ACTIVATION
        As in `gemm_tiles`.
    depth, groups : int
        The extent that was summed over, and the workgroups of `gemm_shares`.
    TILING : Tiling
        The tiles.
    EACH : int
        Elements of a work-item, a workgroup apart.
    """
    BM, BN = TILING[0:2]
    items = kl.local_size(0)
    per_tile = BM * BN // (EACH * items)
    steps = kl.cdiv(depth, TILING.depth)
    shares = Shares(groups, tiles_of(out, 0, BM, BN), steps, TILING.ahead)
    shared, first = kl.group_id(0) // per_tile, kl.group_id(0) % per_tile * EACH * items
    begin, end = shared * steps, (shared + 1) * steps
    share = kl.cdiv((shares.tiles - shares.rounds() * groups) * steps, groups)
    totals = kl.private((EACH,), parts.dtype, fill=0)
    low, high = kl.maximum(begin // share - 1, 0), kl.minimum(end // share + 2, groups)
    for group in range(low, high):
        first_sum, after = shares.begin(group), shares.begin(group + 1)
        if first_sum < end and after > begin and first_sum < after:
            part = parts[2 * group + shared - first_sum // steps]
            for i in kl.static_range(EACH):
                at = first + i * items + kl.local_id(0)
                totals[i] += part[at // BN, at % BN]
    batch, row, column = tile_place(shares.rounds() * groups + shared, out, BM, BN, TILING.group)
    result = matrix_of(out, out, batch)
    for i in kl.static_range(EACH):
        at = first + i * items + kl.local_id(0)
        y, x = row + at // BN, column + at % BN
        if y < result.shape[0] and x < result.shape[1]:
            terms, position = (alpha, 0, None, bias), (batch, y, x)
            result[y, x] = finished(totals[i], terms, out, position, ACTIVATION)
