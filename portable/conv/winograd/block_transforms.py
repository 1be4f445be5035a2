"""The transforms of a block of Winograd's tiles by a lone work-item, a vector of tiles at a time.

Lines of images are copied before they are taken apart, and lines of results put together before
they are copied: a run of tiles that are neighbours in a row of tiles at once.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.conv.winograd.kernels import weighted
from portable.conv.winograd.points import Transforms
from portable.lang.function import function
from portable.linalg.products.kernels import keep

LANES: Final = 16
"""Tiles of a vector; those of a block are a multiple."""

_FEW: Final = 8
"""Elements of the vectors by which shorter lines are copied."""

_EVEN: Final = tuple(range(0, 2 * LANES, 2))
_ODD: Final = tuple(range(1, 2 * LANES, 2))


class Runs(NamedTuple):
    """Runs of a block's tiles that are neighbours in a row of tiles of an image.

    Attributes
    ----------
    table : array (T, 5)
        Of each run its first tile, the image, the first row and column of its results, and how many
        tiles it has.
    places : array (T,)
        Of each tile, where it begins in a line in which those of all runs lie one after the other.
    count : int
        How many there are.
    """

    table: Any
    places: Any
    count: Any


@function
def find_runs(x: kl.Array, tiles: Any, start: kl.Scalar, PLAN: Any) -> Any:
    """Those of a block from tile `start` on; tiles beyond the last one of `x` are in none."""
    R, S, T = PLAN.by.results, PLAN.by.inputs, PLAN.tiles
    table, places = kl.private((T, 5), kl.i32), kl.private(T, kl.i32)
    count, t = 0, 0
    while t < T:
        n, row, column = tiles.place(start + t)
        many = kl.minimum(T - t, tiles.across - column)
        for k in range(t, t + many):
            places[k] = k * R + count * (S - R)
        if n < x.shape[0]:
            table[count, 0], table[count, 1], table[count, 4] = t, n, many
            table[count, 2], table[count, 3] = row * R, column * R
            count += 1
        t += many
    return Runs(table, places, count)


@function
def transform_tiles(x: kl.Array, v: kl.Array, runs: Runs, first: kl.Scalar, PLAN: Any) -> None:
    """``v[e, c, t]`` is element e of a block's transformed tile t of channel ``first + c``.

    The last channel of `v` stays as it is.
    """
    BY, T, S = PLAN.by, PLAN.tiles, PLAN.by.inputs
    WIDTH = 4 if S <= 4 else 8
    lines = kl.private((S, T * S + LANES), v.dtype)
    for i in range(S):
        for j in range(0, T * S + LANES, LANES):
            kl.vstore(lines, i, j, kl.splat(v.dtype(0), LANES))
    for c in range(v.shape[1] - 1):
        copy_lines_of_images(x, lines, runs, first + c, PLAN)
        for t in range(0, T, LANES):
            half = kl.private((S, S), v.dtype, lanes=LANES)
            for i in range(S):
                columns = turned(
                    tuple(
                        beginnings(lines[i], runs.places, t + q * LANES // WIDTH, WIDTH)
                        for q in range(WIDTH)
                    )
                )
                for j in kl.static_range(S):
                    half[i, j] = weighted(BY.input[j], columns)
            for j in range(S):
                for i in kl.static_range(S):
                    kl.vstore(v, i * S + j, c, t, weighted(BY.input[i], half[0:S, j]))


@function
def copy_lines_of_images(
    x: kl.Array, lines: kl.Array, runs: Runs, channel: kl.Scalar, PLAN: Any
) -> None:
    """What all runs see of a channel; what lies outside is left as it is, zero."""
    R, S = PLAN.by.results, PLAN.by.inputs
    for s in range(runs.count):
        t, n, many = runs.table[s, 0], runs.table[s, 1], runs.table[s, 4]
        y, z = runs.table[s, 2] - PLAN.padding[0], runs.table[s, 3] - PLAN.padding[1]
        left = kl.maximum(0, -z)
        width = kl.minimum(many * R + S - R, x.shape[3] - z) - left
        for i in range(kl.maximum(0, -y), kl.minimum(S, x.shape[2] - y)):
            copy_line(x[n, channel, y + i], z + left, lines[i], runs.places[t] + left, width)


@function
def copy_line(
    source: kl.Array, at: kl.Scalar, target: kl.Array, to: kl.Scalar, count: kl.Scalar
) -> None:
    """Copies neighbours by vectors, of which the last may overlap the one before."""
    if count >= LANES:
        for j in range(0, count, LANES):
            part = kl.minimum(j, count - LANES)
            kl.vstore(target, to + part, kl.vload(source, at + part, lanes=LANES))
    elif count >= _FEW:
        for j in range(0, count, _FEW):
            part = kl.minimum(j, count - _FEW)
            kl.vstore(target, to + part, kl.vload(source, at + part, lanes=_FEW))
    else:
        for j in range(count):
            target[to + j] = source[at + j]


@function
def beginnings(line: kl.Array, places: kl.Array, t: kl.Scalar, WIDTH: int) -> Any:
    """A vector of the first elements of tiles from t on, so many of each."""
    lanes = joined(line, places, t, WIDTH)
    if 2 * WIDTH < LANES:
        rest = joined(line, places, t + 2, WIDTH)
        lanes = kl.shuffle2(lanes, rest, tuple(lane for lane in range(LANES)))
    return lanes


@function
def joined(line: kl.Array, places: kl.Array, t: kl.Scalar, WIDTH: int) -> Any:
    """The first elements of two tiles, so many of each."""
    low, high = (kl.vload(line, places[t + k], lanes=WIDTH) for k in range(2))
    return kl.shuffle2(low, high, tuple(lane for lane in range(2 * WIDTH)))


@function
def turned(vectors: Any) -> Any:
    """Lines of tiles, one after the other in vectors, as vectors of one element of all tiles."""
    turned_vectors = vectors
    for _ in kl.static_range(2 if len(vectors) == 4 else 3):
        pairs = tuple(
            (turned_vectors[q], turned_vectors[q + 1]) for q in range(0, len(turned_vectors), 2)
        )
        even = tuple(kl.shuffle2(a, b, _EVEN) for a, b in pairs)
        odd = tuple(kl.shuffle2(a, b, _ODD) for a, b in pairs)
        turned_vectors = (*even, *odd)
    return turned_vectors


@function
def finish_tiles(
    sums: kl.Array, r: kl.Scalar, out: kl.Array, beside: Any, runs: Runs, PLAN: Any
) -> None:
    """Writes a channel's results of a block of tiles from the r-th of the sums.

    `beside` them are the channel, what is added to all of it, and to each, or None.
    """
    channel, added, residual = beside
    R, T = PLAN.by.results, PLAN.tiles
    lines = kl.private((R, T * R), sums.dtype)
    for t in range(0, T, LANES):
        results_of_vector(lines, sums, r, t, added, PLAN.by)
    if residual is not None:
        for s in range(runs.count):
            t, n, many = runs.table[s, 0], runs.table[s, 1], runs.table[s, 4]
            y, z = runs.table[s, 2], runs.table[s, 3]
            for i in range(kl.minimum(R, out.shape[2] - y)):
                for j in range(kl.minimum(many * R, out.shape[3] - z)):
                    lines[i, t * R + j] += lines.dtype(residual[n, channel, y + i, z + j])
    if PLAN.activation is not keep:
        for i in range(R):
            for j in range(T * R):
                lines[i, j] = PLAN.activation(lines[i, j])
    for s in range(runs.count):
        t, n, many = runs.table[s, 0], runs.table[s, 1], runs.table[s, 4]
        y, z = runs.table[s, 2], runs.table[s, 3]
        width = kl.minimum(many * R, out.shape[3] - z)
        for i in range(kl.minimum(R, out.shape[2] - y)):
            copy_line(lines[i], t * R, out[n, channel, y + i], z, width)


@function
def results_of_vector(
    lines: kl.Array, sums: kl.Array, k: kl.Scalar, t: kl.Scalar, added: kl.Scalar, BY: Transforms
) -> None:
    """Lines of the results of the tiles from t on, each tile's next to those of the one before."""
    R, S = BY.results, BY.inputs
    half = kl.private((R, S), sums.dtype, lanes=LANES)
    for j in range(S):
        column = tuple(kl.vload(sums, i * S + j, k, t, lanes=LANES) for i in range(S))
        for i in kl.static_range(R):
            half[i, j] = weighted(BY.output[i], column)
    for i in range(R):
        line = tuple(weighted(BY.output[j], half[i, 0:S]) + added for j in range(R))
        for q in kl.static_range(R):
            kl.vstore(lines, i, t * R + q * LANES, merged(line, q))


@function
def merged(vectors: tuple[kl.Scalar, ...], q: int) -> Any:
    """Vector `q` of all lanes: the first lane of each vector, then the second of each, ..."""
    count = len(vectors)
    merged_vector = vectors[0]
    for j in kl.static_range(count):
        merged_vector = kl.shuffle2(
            merged_vector,
            vectors[j],
            tuple(
                LANES + (q * LANES + lane) // count if (q * LANES + lane) % count == j else lane
                for lane in range(LANES)
            ),
        )
    return merged_vector
