"""The kernels behind `portable.linalg.band_to_bidiagonal` with the band in global memory.

Row r's sweep makes its k-th hop at ``r + 1 + k B``, or ``r + 1 + B - T + k B`` where its
reflectors are shorter than the band is wide. Of two neighbouring sweeps the second may make a
reflector when the first has made the third one after it in the same place, and with short
reflectors the next. So hops that are `LAG` apart, two and one, are independent of each other as
long as all right reflectors go before all left ones, or each sweep's hop before the next sweep's.
Without such an order they have to be another hop apart: ``item_wave`` makes one such wave of hops
in a launch.

With the kernels of packs one launch makes all hops: workgroups take packs of neighbouring sweeps by
ticket, keep the sweeps of a pack `LAG` hops apart, and follow the pack before by what it publishes.
The lowest ticket never waits, so all come to an end wherever workgroups that have started are
sure to go on.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.bands.hops import VectorShape, at, hop_in_vectors
from portable.linalg.bands.items import ItemShape, hop_by_items
from portable.linalg.base.magnitude import power_bits, scaled_by

FINISHED: Final = 2**30
"""The progress of a pack that has no steps left."""


@kernel
def load_band(
    ab: kl.Array, largest: kl.Array, w: kl.Array, sync: kl.Array, *, LAYOUT: Any, TARGET: int
) -> None:
    """The working storage: the band scaled by a power of two, zeros where it may fill in.

    Also sets `sync`, the tickets and the progress of packs, to zero.
    """
    index = kl.global_id(0)
    if index < w.shape[0]:
        row, column = standing_at(index, LAYOUT)
        value = kl.cast(0, largest.dtype)
        above = column - row
        u = ab.shape[0] - 1
        if above >= 0 and above <= u and column < ab.shape[1] and above <= column:
            value = scaled_by(ab[u - above, column], power_bits(largest[0], TARGET), 1)
        w[index] = value
        if index < sync.shape[0]:
            sync[index] = 0


@function
def standing_at(index: kl.Scalar, LAYOUT: Any) -> Any:
    """The row and the column of a place in the working storage."""
    EDGE = LAYOUT.edge
    tile, within = index // (EDGE * EDGE), index % (EDGE * EDGE)
    across = tile // LAYOUT.pitch
    down = tile % LAYOUT.pitch - LAYOUT.top + across
    return down * EDGE + within % EDGE, across * EDGE + within // EDGE


@function
def place_of(row: kl.Scalar, column: kl.Scalar, LAYOUT: Any) -> Any:
    """The place of an element that is not below the diagonal."""
    EDGE = LAYOUT.edge
    across = column // EDGE
    tile = across * LAYOUT.pitch + (row // EDGE - across + LAYOUT.top)
    return tile * (EDGE * EDGE) + column % EDGE * EDGE + row % EDGE


@kernel
def move_band(w: kl.Array, out: kl.Array, *, BEFORE: Any, LAYOUT: Any) -> None:
    """A band from one working storage to another, which holds no more superdiagonals."""
    index = kl.global_id(0)
    if index < out.shape[0]:
        row, column = standing_at(index, LAYOUT)
        out[index] = 0
        if row >= 0 and row <= column and column - row <= BEFORE.top * BEFORE.edge:
            out[index] = w[place_of(row, column, BEFORE)]


@kernel
def store_bidiagonal(
    w: kl.Array, largest: kl.Array, d: kl.Array, e: kl.Array | None, *, LAYOUT: Any, TARGET: int
) -> None:
    """Diagonal and superdiagonal of the working storage, scaled back; `e` may be None."""
    i = kl.global_id(0)
    if i < d.shape[0]:
        field = power_bits(largest[0], TARGET)
        d[i] = scaled_by(w[at(i, i, LAYOUT.pitch, LAYOUT.top)], field, -1)
        if e is not None and i < e.shape[0]:
            e[i] = scaled_by(w[at(i, i + 1, LAYOUT.pitch, LAYOUT.top)], field, -1)


class Kept(NamedTuple):
    """Where the vectors of reflectors go, if they are wanted.

    Row r has those of sweep r behind each other: what belongs to row (column) i of the matrix is
    element ``i - 1``.

    Attributes
    ----------
    left, right : array, shape (n - 2, n - 2 + B) or longer, or None
    """

    left: Any
    right: Any


# -- packs and their progress ------------------------------------------------------------------


@function
def taken_pack(sync: kl.Array) -> Any:
    """The next pack, for this workgroup; ``sync[0]`` counts them."""
    ticket = 0
    if kl.local_linear_id() == 0:
        ticket = kl.atomic_add(sync, 0, 1)
    return kl.workgroup_uniform(ticket)


@function
def follow(sync: kl.Array, pack: kl.Scalar, needed: kl.Scalar) -> None:
    """Waits until the pack before `pack` has published so much."""
    if pack > 0:
        while kl.atomic_load(sync, pack, order="acquire") < needed:
            pass


@function
def publish(sync: kl.Array, pack: kl.Scalar, done: kl.Scalar) -> None:
    """Publishes how far a pack is, in ``sync[1 + pack]``."""
    kl.atomic_store(sync, 1 + pack, done, order="release")


# -- work-items alone ----------------------------------------------------------------------------


@function
def vector_hop(
    w: kl.Array,
    n: kl.Scalar,
    sweep: kl.Scalar,
    k: kl.Scalar,
    left: Any,
    kept: Kept,
    SHAPE: VectorShape,
) -> None:
    """Hop `k` of a sweep if there is one."""
    s = sweep + 1 + k * SHAPE.bandwidth
    if k >= 0 and sweep <= n - 3 and s <= n - 2:
        hop_in_vectors(w, k, s, left, kept, SHAPE)


@kernel
def vector_packs(
    w: kl.Array,
    sync: kl.Array,
    n: kl.Scalar,
    kept: Kept,
    *,
    SHAPE: VectorShape,
    SWEEPS: int,
    EVERY: int,
) -> None:
    """All hops: a work-item for each pack of `SWEEPS` sweeps, which go one after another.

    Reflectors go to `kept`. How many steps a pack has made is looked at and published each `EVERY`
    steps. A sweep makes them before the next one does: the blocks are still in the core's first
    cache.
    """
    LAG, B = 2, SHAPE.bandwidth
    kind = kl.accumulator(w.dtype)
    rows, products = kl.private((SWEEPS, B), kind), kl.private((SWEEPS, B), kind)
    pack = taken_pack(sync)
    first = pack * SWEEPS
    steps = (n - 3 - first) // B + 1 + LAG * (SWEEPS - 1)
    for start in range(0, steps, EVERY):
        follow(sync, pack, start + EVERY + LAG * SWEEPS)
        for sweep in range(SWEEPS):
            for step in range(start, kl.minimum(start + EVERY, steps)):
                left = rows[sweep], products[sweep]
                k = step - LAG * sweep
                vector_hop(w, n, first + sweep, k, left, kept, SHAPE)
        publish(sync, pack, kl.where(start + EVERY >= steps, FINISHED, start + EVERY))


# -- work-items side by side ---------------------------------------------------------------------


@kernel
def item_wave(
    w: kl.Array, n: kl.Scalar, wave: kl.Scalar, first: kl.Scalar, B: kl.Scalar, *, SHAPE: ItemShape
) -> None:
    """The hops of one wave, a workgroup each, from sweep `first` on."""
    kind, T = kl.accumulator(w.dtype), SHAPE.reflector
    rows, columns = kl.local(T, kind), kl.local(T, kind)
    tile = kl.local(SHAPE.items * SHAPE.column, kind)
    sweep = first + kl.group_id(0)
    k = wave - (SHAPE.lag + 1) * sweep
    s = sweep + 1 + B - T + k * B
    active = k >= 0 and s <= n - 2
    hop_by_items(w, (k, s, active), (rows, columns, tile), B, SHAPE)
