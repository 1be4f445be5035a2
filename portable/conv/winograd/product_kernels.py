"""Products of many matrices of one shape, such as Winograd's method makes of transformed tiles."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.tiling import Tiling
from portable.linalg.products.mainloop import mainloop, prologue, room

NOWHERE: Final = 2**30
"""Beyond every matrix; a power of two, so that what begins there is known to be aligned."""


class Reader(NamedTuple):
    """What the tiles of a workgroup are made of: `count` matrices in turn, from the `first` on."""

    a: Any
    b: Any
    e: Any
    g: Any
    row: Any
    column: Any
    first: Any
    count: Any
    DEPTH: int

    def start(self, tile_a: kl.Array, tile_b: kl.Array, step: kl.Scalar) -> None:
        """Starts to copy the tiles of a step; beyond the last matrix nothing is there."""
        (BM, BK), BN, row, column = tile_a.shape, tile_b.shape[1], self.row, self.column
        deep = kl.cdiv(self.a.shape[4], BK)
        i = step // deep
        s, start = self.first + i, kl.where(i < self.count, step % deep * BK, NOWHERE)
        left, right = matrix_of(self.a, s, self.e, self.g), matrix_of(self.b, s, self.e, self.g)
        kl.copy_async(tile_a, left[row : row + BM, start : start + BK])
        kl.copy_async(tile_b, right[start : start + BK, column : column + BN])

    def valid(self, step: kl.Scalar) -> Any:
        """Rows, columns and products of a step that lie in the matrices."""
        k = self.a.shape[4]
        left_over = k - step % kl.cdiv(k, self.DEPTH) * self.DEPTH
        return self.a.shape[3] - self.row, self.b.shape[4] - self.column, left_over


@kernel
def multiply_many(
    a: kl.Array,
    b: kl.Array,
    out: kl.Array,
    summed: kl.Scalar | None,
    *,
    TILING: Tiling,
    RUN: int,
    DOWN: bool,
    ACC: Any,
) -> None:
    """``out[s, e, g] = a[s, e, g] @ b[s, e, g]``, a workgroup per tile of ``RUN`` s.

    Where `summed` is not None, ``out[s, e, g]`` is the sum of the products of part s of all
    matrices, and a workgroup makes a tile of one of them; each part but the last has as many, their
    number over that of the parts rounded up. Of what all matrices sum over, one after the other,
    the first `summed` count.

    Of `a` or `b` there may be one for all s. Tiles follow each other down a matrix where `DOWN`,
    else across it, then over s, so that what they share stays in the last-level cache. The ring of
    operand tiles goes on from one s to the next, so that the next matrix is on its way while a
    result is written. The pipeline is not rotated: 18 layers took 14.0 to 14.4 instead of 13.5 to
    13.8 ms so on an H200 through NVIDIA's OpenCL, and as long through CUDA. Local memory:
    ``stages (rows + columns) depth`` elements, and padding.
    """
    BM, BN, BK = TILING[0:3]
    k = a.shape[4]
    many = kl.maximum(a.shape[0], b.shape[0])
    SUMS = summed is not None
    each = kl.cdiv(many, out.shape[0]) if SUMS else RUN
    parts = out.shape[0] if SUMS else kl.cdiv(many, RUN)
    part, e, g, row, column = tile_of_many(out, parts, TILING, DOWN)
    first = part * each
    count, deep = kl.maximum(kl.minimum(many - first, each), 0), kl.cdiv(k, BK)
    results, steps = count, deep
    if SUMS:
        rest = kl.maximum(summed - first * k, 0)
        results, steps = 1, kl.minimum(count * deep, rest // k * deep + kl.cdiv(rest % k, BK))
    tiles, acc = room((a, b), ACC, TILING)
    reader = Reader(a, b, e, g, row, column, first, count, BK)
    prologue(tiles, reader, TILING)
    for i in range(results):
        acc.fill(0)
        ends = i * steps, (i + 1) * steps
        mainloop(acc, tiles, reader, ends, TILING, ROTATED=False)
        acc.store(out[part if SUMS else first + i, e, g, row : row + BM, column : column + BN])


@function
def matrix_of(x: kl.Array, s: kl.Scalar, e: kl.Scalar, g: kl.Scalar) -> Any:
    """One of many matrices, or of those that are there for all s."""
    return x[kl.minimum(s, x.shape[0] - 1), e, g]


@function
def tile_of_many(out: kl.Array, runs: kl.Scalar, TILING: Tiling, DOWN: bool) -> Any:
    """The numbers of this workgroup's run and matrix, and the first row and column of its tile."""
    BM, BN = TILING.rows, TILING.columns
    rows, columns = kl.cdiv(out.shape[3], BM), kl.cdiv(out.shape[4], BN)
    tile, matrix = kl.group_id(0) % (rows * columns), kl.group_id(0) // (rows * columns)
    row, column = (tile % rows, tile // rows) if DOWN else (tile // columns, tile % columns)
    s, batch = matrix % runs, matrix // runs
    return s, batch // out.shape[2], batch % out.shape[2], row * BM, column * BN
