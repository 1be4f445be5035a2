"""A product's tiles in turn, and those of its last round shared out: kernels.

Tiles are seldom a multiple of what runs at once, so that a last round leaves most compute units
without work. Here each workgroup makes whole tiles as long as there is one for each, and an equal
share of the sums that the rest is made of: M. Osama et al., "Stream-K: work-centric parallel
decomposition for dense matrix-matrix multiplication on the GPU", PPoPP 2023. What it has of a sum
it leaves in memory, where `gemm_share_sums` adds it up. The operands of what a workgroup makes next
are on their way while it stores.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.tiling import Tiling
from portable.linalg.products.kernels import (
    finished,
    finished_in_tile,
    matrix_of,
    tile_place,
    tiles_of,
)
from portable.linalg.products.mainloop import mainloop, prologue

__all__ = ["gemm_share_sums", "gemm_shares"]


class Shares(NamedTuple):
    """How steps of sums over k fall to workgroups.

    Attributes
    ----------
    groups : int
        How many workgroups there are.
    tiles, steps : int
        Of the result, and of the sum of each.
    ahead : int
        Steps that copies run ahead, the fewest that a workgroup has of any tile.
    """

    groups: Any
    tiles: Any
    steps: Any
    ahead: Any

    def rounds(self) -> Any:
        """Whole tiles of each workgroup."""
        return self.tiles // self.groups

    def begin(self, group: Any) -> Any:
        """Where a workgroup's share begins, in steps of the tiles that are shared out.

        Not within a few steps of a tile's beginning or end, but there.
        """
        total = (self.tiles - self.rounds() * self.groups) * self.steps
        each = (total + self.groups - 1) // self.groups
        place = min(group * each, total)
        within = place % self.steps
        back = within if within < self.ahead else 0
        return place - back if self.steps - within >= self.ahead else place + self.steps - within


class Piece(NamedTuple):
    """What a workgroup makes at once: some steps of a tile's sum."""

    tile: Any
    first: Any
    last: Any


@function
def piece_of(shares: Shares, number: Any) -> Piece:
    """The piece of this workgroup that has a number."""
    own, rounds = kl.group_id(0), shares.rounds()
    begin, end = shares.begin(own), shares.begin(own + 1)
    whole = number < rounds
    shared = begin // shares.steps + kl.maximum(number - rounds, 0)
    first = kl.maximum(begin - shared * shares.steps, 0)
    last = kl.minimum(end - shared * shares.steps, shares.steps)
    tile = kl.where(whole, own + number * shares.groups, rounds * shares.groups + shared)
    return Piece(tile, kl.where(whole, 0, first), kl.where(whole, shares.steps, last))


@function
def pieces_of(shares: Shares) -> Any:
    """How many this workgroup has: whole tiles, then up to two parts of others."""
    begin, end = shares.begin(kl.group_id(0)), shares.begin(kl.group_id(0) + 1)
    shared = kl.cdiv(end, shares.steps) - begin // shares.steps
    return shares.rounds() + kl.where(end > begin, shared, 0)


class Place(NamedTuple):
    """Where a piece lies, and the element of k at which step 0 of the ring would be."""

    batch: Any
    row: Any
    column: Any
    first: Any


class Reader(NamedTuple):
    """What a piece is made of, up to a step of the ring; from there on what the next one is."""

    given: Any
    here: Place
    there: Place
    end: Any
    DEPTH: int

    def start(self, tile_a: Any, tile_b: Any, step: Any) -> None:
        """Starts to copy the tiles of a step."""
        (BM, BK), BN, (a, b, out) = tile_a.shape, tile_b.shape[1], self.given
        batch, row, column, first = kl.where(step < self.end, self.here, self.there)
        left, right, begin = matrix_of(a, out, batch), matrix_of(b, out, batch), first + step * BK
        kl.copy_async(tile_a, left[row : row + BM, begin : begin + BK])
        kl.copy_async(tile_b, right[begin : begin + BK, column : column + BN])

    def valid(self, step: Any) -> Any:
        """Rows, columns and products of a step that lie in the matrices."""
        (a, b, _), (_, row, column, first) = self.given, self.here
        m, n, k = a.shape[a.ndim - 2], b.shape[b.ndim - 1], a.shape[a.ndim - 1]
        return m - row, n - column, k - step * self.DEPTH - first


@function
def place_of(piece: Piece, out: Any, done: Any, exists: Any, TILING: Tiling) -> Place:
    """Where a piece lies that begins after so many steps of the ring; beyond all if it is none."""
    tile = kl.where(exists, piece.tile, 0)
    batch, row, column = tile_place(tile, out, TILING.rows, TILING.columns, TILING.group)
    row = kl.where(exists, row, out.shape[out.ndim - 2])
    return Place(batch, row, column, (piece.first - done) * TILING.depth)


@kernel
def gemm_shares(
    alpha: Any, a: Any, b: Any, bias: Any, parts: Any, out: Any,
    *, TILING: Tiling, ACC: Any, ACTIVATION: Any,
) -> None:  # fmt: skip
    """A workgroup for each that runs at once, which makes tiles in turn, and a share of the rest.

    Parameters
    ----------
    alpha, a, b, bias, out, ACC, ACTIVATION
        As in `portable.linalg.products.kernels.gemm_tiles`.
    parts : array, shape (2 workgroups, rows, columns)
        Of the tiling: what each workgroup has of the sums of two tiles.
    TILING : Tiling
        The tiles, whose operands are asked for ahead; sums have as many steps at least.
    """
    BM, BN, BK, STAGES = TILING[0:4]
    tile_a = kl.local((STAGES, BM, BK), a.dtype)
    tile_b = kl.local((STAGES, BK, BN), b.dtype)
    acc = kl.matrix((BM, BN), ACC, scope="workgroup", units=TILING.units, split=TILING.split)
    terms, tiles = (alpha, 0, None, bias), (tile_a, tile_b)
    given, steps = (a, b, out), kl.cdiv(a.shape[a.ndim - 1], BK)
    shares = Shares(kl.num_groups(0), tiles_of(out, BM, BN), steps, TILING.ahead)
    count, rounds = pieces_of(shares), shares.rounds()
    here = place_of(piece_of(shares, 0), out, 0, count > 0, TILING)
    prologue(tiles, Reader(given, here, here, 0, BK), TILING)
    done = 0
    for number in range(count):
        piece, following = piece_of(shares, number), piece_of(shares, number + 1)
        end = done + piece.last - piece.first
        here = place_of(piece, out, done, True, TILING)
        there = place_of(following, out, end, number + 1 < count, TILING)
        acc.fill(0)
        reader = Reader(given, here, there, end, BK)
        mainloop(acc, tiles, reader, (done, end), TILING)
        done = end
        batch, row, column, _ = here
        if number < rounds:
            acc.map(finished_in_tile, terms, out, (batch, row, column), ACTIVATION)
            result = matrix_of(out, out, batch)
            acc.store(result[row : row + BM, column : column + BN])
        else:
            acc.store(parts[2 * kl.group_id(0) + number - rounds, 0:BM, 0:BN])


@kernel
def gemm_share_sums(
    parts: Any, alpha: Any, bias: Any, depth: Any, groups: Any, out: Any,
    *, TILING: Tiling, EACH: int, ACTIVATION: Any,
) -> None:  # fmt: skip
    """A workgroup for a piece of a tile that `gemm_shares` shared out.

    Parts are added up in the order of k.

    Parameters
    ----------
    parts : array, shape (2 workgroups, rows, columns)
        As `gemm_shares` left them.
    alpha, bias, out, ACTIVATION
        As in `portable.linalg.products.kernels.gemm_tiles`.
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
    shares = Shares(groups, tiles_of(out, BM, BN), steps, TILING.ahead)
    shared, first = kl.group_id(0) // per_tile, kl.group_id(0) % per_tile * EACH * items
    begin, end = shared * steps, (shared + 1) * steps
    share = kl.cdiv((shares.tiles - shares.rounds() * groups) * steps, groups)
    totals = kl.private((EACH,), parts.dtype, fill=0)
    low, high = kl.maximum(begin // share - 1, 0), kl.minimum(end // share + 2, groups)
    for group in range(low, high):
        own, after = shares.begin(group), shares.begin(group + 1)
        if own < end and after > begin and own < after:
            part = parts[2 * group + shared - own // steps]
            for i in kl.static_range(EACH):
                at = first + i * items + kl.local_id(0)
                totals[i] += part[at // BN, at % BN]
    batch, row, column = tile_place(shares.rounds() * groups + shared, out, BM, BN, TILING.group)
    result = matrix_of(out, out, batch)
    for i in kl.static_range(EACH):
        at = first + i * items + kl.local_id(0)
        y, x = row + at // BN, column + at % BN
        if y < result.shape[0] and x < result.shape[1]:
            terms, place = (alpha, 0, None, bias), (batch, y, x)
            result[y, x] = finished(totals[i], terms, out, place, ACTIVATION)
