"""The kernels that merge the decompositions of neighbouring blocks, but for secular equations.

Eigenvalues: J. Cuppen, Numer. Math. 36 (1981), with deflation as in LAPACK's ?laed2; singular
values: M. Gu and S. Eisenstat, SIAM J. Matrix Anal. Appl. 16 (1995), as in LAPACK's ?lasd2. All
that rotations and permutations do to vectors is done to the factor which they are multiplied with,
so that a merge is one product.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.magnitude import power_bits, scaled_by
from portable.linalg.spectral.merge_shapes import Blocks, Joined, Kept, MergeShape, Roots
from portable.linalg.spectral.secular_kernels import distance
from portable.primitives.base.searching import partition_point

_HALF: Final = sqrt(0.5)

_STAGED: Final = 256
"""Poles that are in local memory at a time."""


@dataclass(frozen=True)
class Pole:
    """A pole of a secular equation, its weight, and the column of the blocks' vectors."""

    value: kl.Scalar
    weight: kl.Scalar
    source: kl.Scalar


@kernel
def join(blocks: Blocks, e: kl.Array, d: kl.Array, joined: Joined, *, SHAPE: MergeShape) -> None:
    """The poles of two blocks in order, and their weights; dimension 1 is the merges.

    `d` and `e` have a row for each matrix, as many blocks in it as there is room for.
    """
    merge, i = kl.global_id(1), kl.global_id(0)
    values, right = blocks.values, blocks.right
    h = values.shape[1]
    half = h - 1 if SHAPE.singular else h
    if merge < joined.poles.shape[0] and i < 2 * half:
        first = i < half
        block = 2 * merge + kl.where(first, 0, 1)
        at = kl.where(first, i, i - half)
        pole = values[block, at]
        other = 2 * merge + kl.where(first, 1, 0)
        low = partition_point(
            0, half, lambda k: kl.where(first, values[other, k] < pole, values[other, k] <= pole)
        )
        index = at + low
        alpha, beta = couplings(d, e, merge, h, SHAPE)
        edge = right[block, kl.where(first, right.shape[1] - 1, 0), at]
        joined.poles[merge, index] = pole
        joined.weights[merge, index] = edge * kl.where(first, alpha, beta)
        joined.sources[merge, index] = kl.where(first, at, h + at)


@function
def place_between(d: kl.Array, merge: kl.Scalar, h: kl.Scalar) -> Any:
    """The matrix of a merge of blocks of `h`, and where in its row of `d` they meet."""
    merges = d.shape[1] // (2 * h)
    return merge // merges, (merge % merges) * 2 * h + h - 1


@function
def couplings(d: kl.Array, e: kl.Array, merge: kl.Scalar, h: kl.Scalar, SHAPE: MergeShape) -> Any:
    """What the vectors' last and first elements are multiplied with to be weights."""
    row, slot = place_between(d, merge, h)
    if SHAPE.singular:
        return d[row, slot], e[row, slot]
    return kl.cast(_HALF, d.dtype), kl.copysign(kl.cast(_HALF, d.dtype), e[row, slot])


@kernel
def deflate(
    blocks: Blocks, e: kl.Array, d: kl.Array, joined: Joined, kept: Kept, *, SHAPE: MergeShape
) -> None:
    """Removes poles whose weight is nothing, and one of two that are the same; a merge a workgroup.

    What is as small as rounding errors of the merged matrix counts as nothing. Of two poles that a
    rotation makes one, each gets its Rayleigh quotient: of many that are near their neighbours
    alone, the last may be far from the mean of all. All is scaled to a largest number of 1, whose
    square and inverse square are far from overflow.
    """
    merge, h, kind = kl.group_id(0), blocks.values.shape[1], joined.poles.dtype
    row, slot = place_between(d, merge, h)
    total = 2 * h - 2 if SHAPE.singular else 2 * h
    coupling = (d[row, slot], e[row, slot]) if SHAPE.singular else (2 * e[row, slot], e[row, slot])
    largest, field, tolerance = measures(joined, merge, total, coupling)
    count, removed, turned = kl.cast(0, kl.i32), kl.cast(0, kl.i32), kl.cast(0, kl.i32)
    scale, item = kl.cast(1, kind), kl.local_id(0)
    if item == 0:
        kept.scales[merge] = kl.where(largest > 0, field, 0)
    if SHAPE.singular:
        if item == 0:
            start_row(blocks, kept, merge, coupling, field, tolerance)
        count = 1
    else:
        scale = kl.sqrt(scaled_by(kl.abs(coupling[0]), field, 1))
    FLOOR = 0.5 if SHAPE.singular else 0
    waiting, pole = False, Pole(kl.cast(0, kind), kl.cast(0, kind), kl.cast(0, kl.i32))
    staged = Joined(kl.local(_STAGED, kind), kl.local(_STAGED, kind), kl.local(_STAGED, kl.i32))
    ahead = fetched(joined, merge, 0, total)
    for start in range(0, total, _STAGED):
        if SHAPE.team > 1:
            stage(joined, staged, merge, start, total)
        stop = kl.minimum(start + _STAGED, total) if item == 0 else start
        for i in range(start, stop):
            following = ahead
            if SHAPE.team > 1:
                following = pole_at(staged, i - start)
            else:
                ahead = fetched(joined, merge, i + 1, total)
            following = scaled_pole(following, field, scale, SHAPE)
            if kl.abs(following.weight) * scale <= tolerance:
                remove(kept, merge, removed, following)
                removed = removed + 1
            else:
                if waiting:
                    if are_near(pole, following, tolerance):
                        aside, following = turned_together(kept, merge, turned, pole, following)
                        turned = turned + 1
                        remove(kept, merge, removed, aside)
                        removed = removed + 1
                    else:
                        keep(kept, merge, count, pole, FLOOR * tolerance, SHAPE)
                        count = count + 1
                waiting, pole = True, following
        if SHAPE.team > 1:
            kl.barrier()
    if waiting:
        keep(kept, merge, count, pole, FLOOR * tolerance, SHAPE)
        count = count + 1
    if item == 0:
        kept.counts[merge, 0], kept.counts[merge, 1], kept.counts[merge, 2] = count, removed, turned


@function
def scaled_pole(pole: Pole, field: kl.Scalar, scale: kl.Scalar, SHAPE: MergeShape) -> Any:
    """A pole and its weight as they are where the largest number is 1."""
    weight = pole.weight * scale
    if SHAPE.singular:
        weight = scaled_by(weight, field, 1)
    return Pole(scaled_by(pole.value, field, 1), weight, pole.source)


@function
def are_near(first: Pole, second: Pole, tolerance: kl.Scalar) -> Any:
    """Whether a rotation that takes the weight of one leaves nothing that counts beside them."""
    off = kl.abs((second.value - first.value) * (first.weight * second.weight))
    return off <= tolerance * (first.weight * first.weight + second.weight * second.weight)


@function
def turned_together(kept: Kept, merge: Any, turned: Any, first: Pole, second: Pole) -> Any:
    """Both poles after a rotation that takes the first one's weight, which it puts down."""
    length = kl.hypot(first.weight, second.weight)
    c, s = second.weight / length, -first.weight / length
    kept.pairs[merge, turned, 0], kept.pairs[merge, turned, 1] = first.source, second.source
    kept.turns[merge, turned, 0], kept.turns[merge, turned, 1] = c, s
    aside = first.value * (c * c) + second.value * (s * s)
    value = first.value * (s * s) + second.value * (c * c)
    return Pole(aside, first.weight, first.source), Pole(value, length, second.source)


@function
def measures(joined: Joined, merge: Any, total: Any, coupling: Any) -> Any:
    """The largest number of a merge, its power of two, and what then counts as nothing."""
    kind = joined.poles.dtype
    EPS, LEAST = (2.0**-23, 2.0**-60) if kind == kl.f32 else (2.0**-52, 2.0**-500)
    largest = kl.maximum(kl.abs(coupling[0]), kl.abs(coupling[1]))
    if total > 0:
        ends = joined.poles[merge, 0], joined.poles[merge, total - 1]
        largest = kl.maximum(largest, kl.maximum(kl.abs(ends[0]), kl.abs(ends[1])))
    field = power_bits(largest, 0)
    return largest, field, kl.maximum(2 * EPS * scaled_by(largest, field, 1), LEAST)


@function
def stage(joined: Joined, staged: Joined, merge: Any, start: Any, total: Any) -> None:
    """Loads poles to local memory: a work-item that goes through them waits long for each load."""
    for i in range(kl.local_id(0), kl.minimum(_STAGED, total - start), kl.local_size(0)):
        staged.poles[i] = joined.poles[merge, start + i]
        staged.weights[i] = joined.weights[merge, start + i]
        staged.sources[i] = joined.sources[merge, start + i]
    kl.barrier()


@function
def pole_at(joined: Joined, at: Any) -> Any:
    """A pole of those that are staged."""
    return Pole(joined.poles[at], joined.weights[at], joined.sources[at])


@function
def fetched(joined: Joined, merge: kl.Scalar, i: kl.Scalar, total: kl.Scalar) -> Any:
    """The i-th pole, loaded before it is needed: a lone work-item waits for each load."""
    at = kl.maximum(kl.minimum(i, total - 1), 0)
    return Pole(joined.poles[merge, at], joined.weights[merge, at], joined.sources[merge, at])


@function
def start_row(
    blocks: Blocks,
    kept: Kept,
    merge: kl.Scalar,
    by: tuple[kl.Scalar, ...],
    field: kl.Scalar,
    tolerance: kl.Scalar,
) -> None:
    """The pole at 0 of the row that couples two bidiagonal blocks.

    Of the two vectors that blocks map to 0, a rotation makes one that the row maps to 0 too.
    """
    alpha, beta = scaled_by(by[0], field, 1), scaled_by(by[1], field, 1)
    h = blocks.values.shape[1]
    first = alpha * blocks.right[2 * merge, h - 1, h - 1]
    second = beta * blocks.right[2 * merge + 1, 0, h - 1]
    length = kl.hypot(first, second)
    some = length > 0
    last = kept.turns.shape[1] - 1
    kept.turns[merge, last, 0] = kl.where(some, first / length, 1)
    kept.turns[merge, last, 1] = kl.where(some, second / length, 0)
    kept.poles[merge, 0] = 0
    kept.weights[merge, 0] = kl.maximum(length, tolerance)
    kept.sources[merge, 0] = h - 1
    kept.role[merge, h - 1] = 0


@function
def keep(
    kept: Kept, merge: kl.Scalar, count: kl.Scalar, pole: Pole, floor: kl.Scalar, SHAPE: MergeShape
) -> None:
    """Puts a pole into the secular equation."""
    kept.poles[merge, count] = kl.maximum(pole.value, floor) if SHAPE.singular else pole.value
    kept.weights[merge, count] = pole.weight
    kept.sources[merge, count] = pole.source
    kept.role[merge, pole.source] = count


@function
def remove(kept: Kept, merge: kl.Scalar, removed: kl.Scalar, pole: Pole) -> None:
    """Puts a value aside, which belongs to a column as it is."""
    kept.removed[merge, removed] = pole.value
    kept.role[merge, pole.source] = -1 - removed


@kernel
def form_factor(
    kept: Kept, roots: Roots, factor: kl.Array, *, SHAPE: MergeShape, LEFT: bool
) -> None:
    """What the vectors of both blocks are multiplied with; dimension 0 columns, 2 the merges."""
    column, row, merge = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    size = factor.shape[2]
    if column < size and row < size and merge < factor.shape[0]:
        value = kl.cast(0, factor.dtype)
        if SHAPE.singular and (column == size - 1 or row == size - 1):
            value = last_lines(kept, roots, merge, row, column, size, LEFT)
        else:
            role, column_place = kept.role[merge, row], roots.places[merge, column]
            if role >= 0 and column_place >= 0:
                value = element(kept, roots, merge, role, column_place, SHAPE, LEFT)
                if SHAPE.singular and not LEFT and row == size // 2 - 1:
                    value = value * kept.turns[merge, size, 0]
            elif role == column_place:
                value = kl.cast(1, factor.dtype)
        factor[merge, row, column] = value


@function
def element(
    kept: Kept,
    roots: Roots,
    merge: kl.Scalar,
    role: kl.Scalar,
    root: kl.Scalar,
    SHAPE: MergeShape,
    LEFT: bool,
) -> Any:
    """An element of a vector that belongs to a root."""
    pole = kept.poles[merge, role]
    origin = kept.poles[merge, roots.origins[merge, root]]
    apart = distance(pole, origin, SHAPE) - roots.offsets[merge, root]
    ratio = roots.weights[merge, role] / apart
    if LEFT:
        ratio = kl.where(role == 0, -1, pole * ratio)
    return ratio * roots.lengths[merge, root, 1 if LEFT else 0]


@function
def last_lines(
    kept: Kept,
    roots: Roots,
    merge: kl.Scalar,
    row: kl.Scalar,
    column: kl.Scalar,
    size: kl.Scalar,
    LEFT: bool,
) -> Any:
    """The last row and column of a factor for singular vectors."""
    one, zero = kl.cast(1, roots.offsets.dtype), kl.cast(0, roots.offsets.dtype)
    if LEFT:
        return kl.where(row == column, one, zero)
    value = zero
    c, s = kept.turns[merge, size, 0], kept.turns[merge, size, 1]
    if column == size - 1:
        value = kl.where(row == size - 1, c, kl.where(row == size // 2 - 1, -s, zero))
    else:
        index = roots.places[merge, column]
        if index >= 0:
            pole = kl.cast(0, kl.i32)
            value = s * element(kept, roots, merge, pole, index, MergeShape(True, 1), False)
    return value


@kernel
def unrotate(kept: Kept, factor: kl.Array) -> None:
    """Undoes the rotations of deflation in a factor's rows, a column a work-item."""
    column, merge = kl.global_id(0), kl.global_id(1)
    if merge < factor.shape[0] and column < factor.shape[2]:
        count = kept.counts[merge, 2]
        for i in range(count):
            k = count - 1 - i
            p, q = kept.pairs[merge, k, 0], kept.pairs[merge, k, 1]
            c, s = kept.turns[merge, k, 0], kept.turns[merge, k, 1]
            x, y = factor[merge, p, column], factor[merge, q, column]
            factor[merge, p, column] = c * x - s * y
            factor[merge, q, column] = s * x + c * y
