"""Schedules of products: which tiles of a result a workgroup makes, and which steps of their sums.

A *schedule*, a struct, has ``piece(turn)``, what is made in a turn, and, where a workgroup has
several, ``turns()``, a range of numbers. Tiles are numbered; where one lies is `tile_place`'s. Any
schedule goes with any reader of operands and anything that is done to sums before they are stored
(`mainloop`).

`Shares` is for tiles that are no multiple of what runs at once, so that a last round would leave
most compute units without work: M. Osama et al., "Stream-K: work-centric parallel decomposition for
dense matrix-matrix multiplication on the GPU", PPoPP 2023.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from portable import lang as kl
from portable.lang.function import function


class Piece(NamedTuple):
    """What a workgroup makes at once: some steps of a tile's sum."""

    tile: Any
    first: Any
    last: Any


class OneEach(NamedTuple):
    """A workgroup for each tile, which sums all steps."""

    steps: Any

    def piece(self, turn: kl.Scalar) -> Piece:
        """The tile that has the workgroup's number."""
        return Piece(turn, 0, self.steps)


class Part(NamedTuple):
    """A workgroup for each part of a tile's sum (split-K): `parts` of `tiles`, part by part."""

    tiles: Any
    parts: Any
    steps: Any

    def piece(self, turn: kl.Scalar) -> Piece:
        """The tile that has the workgroup's number, each but the last parts of as many steps."""
        most = kl.cdiv(self.steps, self.parts)
        before = turn // self.tiles * most
        return Piece(turn, before, before + kl.minimum(self.steps - before, most))


class Persistent(NamedTuple):
    """Some workgroups make all tiles in turn (persistent)."""

    tiles: Any
    steps: Any

    def turns(self) -> Any:
        """Every tile of this workgroup's."""
        return kl.group_id(0), self.tiles, kl.num_groups(0)

    def piece(self, turn: kl.Scalar) -> Piece:
        """The whole tile."""
        return Piece(turn, 0, self.steps)


class Shares(NamedTuple):
    """Each workgroup makes as many whole tiles as the others, and a share of the rest (Stream-K).

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

    def begin(self, group: kl.Scalar) -> Any:
        """Where a workgroup's share begins, in steps of the tiles that are shared out.

        Not within a few steps of a tile's beginning or end, but there.
        """
        total = (self.tiles - self.rounds() * self.groups) * self.steps
        each = (total + self.groups - 1) // self.groups
        start = min(group * each, total)
        within = start % self.steps
        back = within if within < self.ahead else 0
        return start - back if self.steps - within >= self.ahead else start + self.steps - within

    def turns(self) -> Any:
        """Whole tiles, then up to two parts of others."""
        return 0, self.pieces(), 1

    def pieces(self) -> Any:
        """How many pieces this workgroup has."""
        begin, end = self.begin(kl.group_id(0)), self.begin(kl.group_id(0) + 1)
        shared = kl.cdiv(end, self.steps) - begin // self.steps
        return self.rounds() + kl.where(end > begin, shared, 0)

    def piece(self, turn: kl.Scalar) -> Piece:
        """The piece of this workgroup that has a number."""
        group, rounds = kl.group_id(0), self.rounds()
        begin, end = self.begin(group), self.begin(group + 1)
        whole = turn < rounds
        shared = begin // self.steps + kl.maximum(turn - rounds, 0)
        first = kl.maximum(begin - shared * self.steps, 0)
        last = kl.minimum(end - shared * self.steps, self.steps)
        tile = kl.where(whole, group + turn * self.groups, rounds * self.groups + shared)
        return Piece(tile, kl.where(whole, 0, first), kl.where(whole, self.steps, last))


# -- where tiles lie ------------------------------------------------------------------------------


@function
def matrices_of(x: kl.Array, FROM: int) -> Any:
    """How many matrices `x` has along its leading dimensions from one on."""
    count = 1
    for d in kl.static_range(FROM, x.ndim - 2):
        count = count * x.shape[d]
    return count


@function
def tile_position(index: kl.Scalar, rows: kl.Scalar, columns: kl.Scalar, GROUP: int) -> Any:
    """Row and column of the `index`-th tile: down `GROUP` rows of tiles before the next column.

    Workgroups that run at the same time then share operand tiles in the last-level cache.
    """
    band = GROUP * columns
    first = index // band * GROUP
    height = kl.minimum(rows - first, GROUP)
    inside = index % band
    return first + inside % height, inside // height


@function
def tiles_of(out: kl.Array, FROM: int, BM: int, BN: int) -> Any:
    """How many tiles the matrices of `out` along its leading dimensions from one on have."""
    rows, columns = kl.cdiv(out.shape[out.ndim - 2], BM), kl.cdiv(out.shape[out.ndim - 1], BN)
    return matrices_of(out, FROM) * rows * columns


@function
def tile_of_workgroup(out: kl.Array, BM: int, BN: int) -> Any:
    """The place of the tile that is this workgroup's (`tile_place`).

    Tiles and matrices share the one dimension in which every device takes any number of workgroups.
    """
    return tile_place(kl.group_id(0), out, BM, BN, 1)


@function
def tile_place(index: kl.Scalar, out: kl.Array, BM: int, BN: int, GROUP: int) -> Any:
    """The matrix of `out` and the first row and column of a tile."""
    rows, columns = kl.cdiv(out.shape[out.ndim - 2], BM), kl.cdiv(out.shape[out.ndim - 1], BN)
    batch = 0
    if out.ndim > 2:
        index, batch = index % (rows * columns), index // (rows * columns)
    row, column = tile_position(index, rows, columns, GROUP)
    return batch, row * BM, column * BN
