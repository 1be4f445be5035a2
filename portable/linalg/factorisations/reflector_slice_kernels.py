"""The kernel that makes reflectors of columns that workgroups hold in registers, a slice each.

A workgroup holds all rows of a slice's columns, so that for each of these it adds up the products
of its rows with all columns without a word to others. What rows have to add up, sub-groups add up
first: of several sums a work-item keeps half at each step, so that 32 take hardly more shuffles
than one takes steps. A slice that is done goes to memory, and whoever has columns right of it
applies its reflectors as a block: see `slice_kernels`.

The column that is reflected is the first one that a work-item holds; then all move up by one, and
what is left of the column becomes the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.magnitude import power_bits
from portable.linalg.base.parts import conjugate, scaled
from portable.linalg.factorisations.panel_kernels import size_of
from portable.linalg.factorisations.reflector_panel_kernels import (
    TARGET,
    added,
    reflector_of,
)
from portable.linalg.factorisations.slice_kernels import Holding, loaded, row_of

_STAGES: Final = 6
"""Shuffles that a sum over a sub-group takes at most."""

_PIECE: Final = 4
"""Reflectors whose products with all columns are added up together."""


@dataclass(frozen=True)
class Shared:
    """What a workgroup has in local memory.

    Attributes
    ----------
    parts : array, shape (teams, columns)
        Sums of sub-groups.
    top : array, shape (columns,)
        The row of the reflector's 1.
    shares : array, shape (columns,)
        Of columns that are left, what is to be taken from them for each row of the reflector.
    made : array, shape (3,)
        What `reflector_of` gives.
    factor : array, shape (columns, columns + 1)
        T, and below its diagonal products of reflectors with those before them.
    """

    parts: Any
    top: Any
    shares: Any
    made: Any
    factor: Any


@dataclass(frozen=True)
class Block:
    """What a workgroup has in local memory of the reflectors of another slice.

    Attributes
    ----------
    parts : array, shape (pieces, teams, _PIECE * columns)
        Sums of sub-groups, of a few reflectors after the others.
    factor : array, shape (columns, columns)
        T.
    products, shares : array, shape (columns, columns)
        Products of reflectors with columns, and what T makes of them.
    """

    parts: Any
    factor: Any
    products: Any
    shares: Any


@kernel
def reflect_slices(
    a: kl.Array,
    v: kl.Array,
    t: kl.Array,
    counts: kl.Array,
    where: tuple[kl.Scalar, ...],
    *,
    HOLDING: Holding,
    TEAMS: int,
) -> None:
    """Makes reflectors of some columns of each matrix, from the diagonal at `first` down.

    Parameters
    ----------
    a : array, shape (batch, m, n)
        The matrices; R takes the place of the triangle.
    v : array, shape (batch, m, k)
        V takes the place of these columns, from row `first` on.
    t : array, shape (batch, k, wide)
        T of each slice, on the diagonal of what begins at row `first`, and at column `corner`;
        below its diagonal there are zeros.
    counts : array of i32, shape (batch * panels,)
        How many slices of a panel are done; zeros before.
    where : (int, int, int, int, int)
        `first`, the column behind the last, `corner`, the panel's number, and how many workgroups
        have its slices in turn.
    HOLDING : Holding
        What work-items hold.
    TEAMS : int
        Sub-groups; 0 where there are none.
    """
    (first, stop, corner, number, workers), WIDTH, kind = where, HOLDING.columns, a.dtype
    batch, m = kl.group_id(0) // workers, a.shape[1] - first
    slot = counts.shape[0] // a.shape[0] * batch + number
    for begin in range(kl.group_id(0) % workers * WIDTH, stop - first, workers * WIDTH):
        width = kl.minimum(stop - first - begin, WIDTH)
        values = loaded(a[batch], (first, first + begin), (width, m), HOLDING)
        field = scale(values, HOLDING)
        shared = Shared(
            kl.local((max(TEAMS, 1), WIDTH), kind),
            kl.local(WIDTH, kind),
            kl.local(WIDTH, kind),
            kl.local(3, kind),
            kl.local((WIDTH, WIDTH + 1), kind),
        )
        if not HOLDING.alone:
            PIECE = min(_PIECE, WIDTH)
            block = Block(
                kl.local((WIDTH // PIECE, max(TEAMS, 1), PIECE * WIDTH), kind),
                kl.local((WIDTH, WIDTH), kind),
                kl.local((WIDTH, WIDTH), kind),
                kl.local((WIDTH, WIDTH), kind),
            )
            for done in range(begin // WIDTH):
                if kl.local_id(0) == 0:
                    while kl.atomic_load(counts, slot, order="acquire") <= done:
                        pass
                kl.barrier()
                start = done * WIDTH
                for entry in kl.workgroup_range(WIDTH * WIDTH):
                    i, j = entry // WIDTH, entry % WIDTH
                    block.factor[i, j] = t[batch, first + start + i, corner + start + j]
                reflect(values, v[batch], block, (first, start, m), HOLDING, TEAMS)
        for k in range(width):
            add_up(values, shared, (begin, k), HOLDING, TEAMS)
            apply(values, shared, (begin, k), HOLDING)
        store(values, a[batch], v[batch], (first, begin, width, m), field, HOLDING)
        join_column(shared.factor, width - 1)
        kl.barrier()
        for entry in kl.workgroup_range(WIDTH * WIDTH):
            i, j = entry // WIDTH, entry % WIDTH
            if i <= j and j < width:
                t[batch, first + begin + i, corner + begin + j] = shared.factor[i, j]
        if not HOLDING.alone:
            kl.barrier()
            if kl.local_id(0) == 0:
                kl.atomic_add(counts, slot, 1, order="release")


@function
def scale(values: kl.Array, HOLDING: Holding) -> Any:
    """Scales a slice by a power of two, whose exponent field it gives, to a large element of 1."""
    best = kl.cast(0, values.dtype.real)
    for i in kl.static_range(HOLDING.rows):
        for j in kl.static_range(HOLDING.columns):
            best = kl.maximum(best, size_of(values[i, j]))
    field = power_bits(kl.workgroup_reduce(kl.maximum, best), TARGET)
    for i in kl.static_range(HOLDING.rows):
        for j in kl.static_range(HOLDING.columns):
            values[i, j] = scaled(values[i, j], field, 1)
    return field


@function
def reflect(
    values: kl.Array,
    v: kl.Array,
    block: Block,
    where: tuple[kl.Scalar, ...],
    HOLDING: Holding,
    TEAMS: int,
) -> None:
    """Applies the reflectors of a slice that is done: ``A - V T^H (V^H A)``."""
    (first, start, m), WIDTH, kind = where, HOLDING.columns, values.dtype
    PIECE, vectors = min(_PIECE, WIDTH), kl.private((HOLDING.rows, WIDTH), kind)
    for i in kl.static_range(HOLDING.rows):
        row = first + kl.minimum(row_of(i), m - 1)
        for k in kl.static_range(WIDTH):
            x = v[row, first + start + k]
            vectors[i, k] = kl.where(row_of(i) < m, x, kl.cast(0, kind))
    for piece in kl.static_range(WIDTH // PIECE):
        sums = kl.private(PIECE * WIDTH, kind, fill=0)
        for i in kl.static_range(HOLDING.rows):
            for k in kl.static_range(PIECE):
                head = conjugate(vectors[i, piece * PIECE + k])
                for j in kl.static_range(WIDTH):
                    sums[k * WIDTH + j] = sums[k * WIDTH + j] + head * values[i, j]
        put_sums(sums, block.parts[piece], PIECE * WIDTH, TEAMS)
    kl.barrier()
    for entry in kl.workgroup_range(WIDTH * WIDTH):
        k, j = entry // WIDTH, entry % WIDTH
        block.products[k, j] = total_of(block.parts[k // PIECE], k % PIECE * WIDTH + j)
    kl.barrier()
    for entry in kl.workgroup_range(WIDTH * WIDTH):
        i, j = entry // WIDTH, entry % WIDTH
        share = kl.cast(0, kind)
        for k in kl.static_range(WIDTH):
            share = share + conjugate(block.factor[k, i]) * block.products[k, j]
        block.shares[i, j] = share
    kl.barrier()
    for i in kl.static_range(HOLDING.rows):
        for k in kl.static_range(WIDTH):
            for j in kl.static_range(WIDTH):
                values[i, j] = values[i, j] - vectors[i, k] * block.shares[k, j]


@function
def add_up(
    values: kl.Array, shared: Shared, step: tuple[kl.Scalar, ...], HOLDING: Holding, TEAMS: int
) -> None:
    """The reflector of the first column, and its products with all.

    It is the `k`-th of the slice, of the row on the diagonal and those below.
    """
    (begin, k), WIDTH, kind = step, HOLDING.columns, values.dtype
    sums = kl.private(WIDTH, kind, fill=0)
    for i in kl.static_range(HOLDING.rows):
        is_below = row_of(i) > begin + k
        head = conjugate(kl.where(is_below, values[i, 0], kl.cast(0, kind)))
        for j in kl.static_range(WIDTH):
            sums[j] = sums[j] + head * values[i, j]
    if kl.local_id(0) == (begin + k) % kl.local_size(0):
        for j in kl.static_range(WIDTH):
            top = values[0, j]
            for i in kl.static_range(1, HOLDING.rows):
                top = kl.where(row_of(i) == begin + k, values[i, j], top)
            shared.top[j] = top
    put_sums(sums, shared.parts, WIDTH, TEAMS)
    kl.barrier()
    join_column(shared.factor, kl.maximum(k - 1, 0))
    make_reflector(shared, k)
    kl.barrier()


@function
def total_of(parts: kl.Array, j: kl.Scalar) -> Any:
    """The sum of what sub-groups have for a column."""
    total = parts[0, j]
    for team in kl.static_range(1, parts.shape[0]):
        total = total + parts[team, j]
    return total


@function
def make_reflector(shared: Shared, k: kl.Scalar) -> None:
    """The reflector of the first column, and shares of the others; some of them are V's by now."""
    parts, top, WIDTH = shared.parts, shared.top, shared.top.shape[0]
    for j in kl.workgroup_range(WIDTH):
        beta, tau, factor = reflector_of(top[0], kl.real(total_of(parts, 0)))
        share, left = top[j] + conjugate(factor) * total_of(parts, j), WIDTH - k
        shared.shares[j] = kl.where(j < left, share, kl.cast(0, parts.dtype))
        if j >= left:
            shared.factor[k, j - left] = conjugate(share)
        if j == 0:
            shared.made[0] = beta
            shared.made[1] = tau
            shared.made[2] = factor
            shared.factor[k, k] = tau


@function
def put_sums(sums: kl.Array, parts: kl.Array, COLUMNS: int, TEAMS: int) -> None:
    """Adds up what the work-items of a sub-group have, for its place in `parts`."""
    if TEAMS == 0:
        sums_of_all = kl.workgroup_reduce(added, tuple([sums[j] for j in range(COLUMNS)]))
        if kl.local_id(0) == 0:
            for j in kl.static_range(COLUMNS):
                parts[0, j] = sums_of_all[j]
    else:
        WIDTH, lane = kl.target.sub_group_size, kl.sub_group_local_id()
        for level in kl.static_range(_STAGES):
            STEP, HALF = WIDTH >> (level + 1), COLUMNS >> (level + 1)
            if STEP > 0 and HALF > 0:
                upper = (lane & STEP) != 0
                for j in kl.static_range(HALF):
                    kept = kl.where(upper, sums[j + HALF], sums[j])
                    given = kl.where(upper, sums[j], sums[j + HALF])
                    sums[j] = kept + kl.sub_group_shuffle_xor(given, STEP)
            elif STEP > 0:
                sums[0] = sums[0] + kl.sub_group_shuffle_xor(sums[0], STEP)
        EACH, SHARE = max(WIDTH // COLUMNS, 1), max(COLUMNS // WIDTH, 1)
        if lane % EACH == 0:
            for j in kl.static_range(SHARE):
                parts[kl.sub_group_id(), lane // EACH * SHARE + j] = sums[j]


@function
def apply(values: kl.Array, shared: Shared, step: tuple[kl.Scalar, ...], HOLDING: Holding) -> None:
    """Applies a reflector to the row on the diagonal and those below, a column further.

    The last columns are those of V, which are done.
    """
    (begin, k), WIDTH, kind = step, HOLDING.columns, values.dtype
    beta, tau, factor = shared.made[0], shared.made[1], shared.made[2]
    for i in kl.static_range(HOLDING.rows):
        row, head = row_of(i) - begin, values[i, 0]
        part = kl.where(row > k, factor * head, kl.cast(0, kind))
        share = conjugate(tau) * kl.where(row == k, kl.cast(1, kind), part)
        for j in kl.static_range(1, WIDTH):
            values[i, j - 1] = values[i, j] - share * shared.shares[j]
        values[i, WIDTH - 1] = kl.where(row > k, part, kl.where(row == k, beta, head))


@function
def store(
    values: kl.Array,
    matrix: kl.Array,
    vectors: kl.Array,
    extents: tuple[kl.Scalar, ...],
    field: kl.Scalar,
    HOLDING: Holding,
) -> None:
    """Stores R, scaled back, and V."""
    first, begin, width, m = extents
    WIDTH, kind = HOLDING.columns, values.dtype
    for i in kl.static_range(HOLDING.rows):
        row = row_of(i)
        for j in kl.static_range(WIDTH):
            column = (j + width) % WIDTH
            if row < m and column < width:
                diagonal = begin + column
                one = kl.where(row == diagonal, kl.cast(1, kind), kl.cast(0, kind))
                x = kl.where(row > diagonal, values[i, j], one)
                vectors[first + row, first + diagonal] = x
                if row <= diagonal:
                    matrix[first + row, first + diagonal] = scaled(values[i, j], field, -1)


@function
def join_column(factor: kl.Array, k: kl.Scalar) -> None:
    """Column `k` of T, of its diagonal and the products below it.

    It is ``-tau T y``, of the products y of the reflectors before with this one.
    """
    for i in kl.workgroup_range(k):
        product = kl.cast(0, factor.dtype)
        for j in kl.range(i, k, unroll=4):
            product = product + factor[i, j] * factor[k, j]
        factor[i, k] = -factor[k, k] * product


@kernel
def start_factor(gram: kl.Array, t: kl.Array) -> None:
    """Puts reciprocals of T's diagonals, conjugated, on those of products; T becomes the identity.

    A reflector that is none, whose factor is 0, gets one that is too small to count.
    """
    column, row, batch = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    if batch < t.shape[0] and row < t.shape[1] and column < t.shape[2]:
        one, zero = kl.cast(1, t.dtype), kl.cast(0, t.dtype)
        if row == column:
            tau = t[batch, row, row]
            small = kl.cast(2.0**-900 if t.dtype.real == kl.f64 else 2.0**-100, t.dtype)
            gram[batch, row, row] = one / conjugate(kl.where(tau == zero, small, tau))
        t[batch, row, column] = kl.where(row == column, one, zero)
