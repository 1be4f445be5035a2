"""The kernels behind `portable.linalg.band_to_bidiagonal`, but for the hops themselves.

Row r's sweep makes its k-th hop at ``r + 1 + k B``. Sweep r + 1 may make hop k when sweep r has
made hop k + 2, so hops of equal ``3 r + k`` are independent of each other: a wave. `band_wave`
makes one wave. With `band_packs` one launch makes all: workgroups take packs of neighbouring
sweeps by ticket, keep the sweeps of a pack three hops apart, and follow the pack before by what it
publishes. The lowest ticket never waits, so all come to an end wherever workgroups that have
started are sure to go on.
"""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.band_hops import at, hop_across_items, hop_in_vectors
from portable.linalg.band_window import window_step
from portable.linalg.magnitude import power_bits, scaled_by

__all__ = ["band_packs", "band_wave", "load_band", "store_bidiagonal"]

FINISHED: Final = 2**30
"""The progress of a pack that has no steps left."""


@kernel
def load_band(ab: Any, largest: Any, w: Any, sync: Any, *, B: int, TARGET: int) -> None:
    """The working storage: the band scaled by a power of two, zeros where it may fill in.

    Also sets `sync`, the ticket and the progress of packs, to zero.
    """
    place, column = kl.global_id(0), kl.global_id(1)
    own = column * (3 * B) + place
    if place < 3 * B and own < w.shape[0]:
        value = kl.cast(0, largest.dtype)
        above = 2 * B - 1 - place
        u = ab.shape[0] - 1
        if above >= 0 and above <= u and column < ab.shape[1] and above <= column:
            value = scaled_by(ab[u - above, column], power_bits(largest[0], TARGET), 1)
        w[own] = value
        if own < sync.shape[0]:
            sync[own] = 0


@kernel
def store_bidiagonal(w: Any, largest: Any, d: Any, e: Any, *, B: int, TARGET: int) -> None:
    """Diagonal and superdiagonal of the working storage, scaled back; `e` may be None."""
    i = kl.global_id(0)
    if i < d.shape[0]:
        field = power_bits(largest[0], TARGET)
        d[i] = scaled_by(w[at(i, i, B)], field, -1)
        if e is not None and i < e.shape[0]:
            e[i] = scaled_by(w[at(i, i + 1, B)], field, -1)


@function
def hop(w: Any, n: Any, sweep: Any, k: Any, B: int, LANES: int, ROWS: int, SWEEPS: int) -> None:
    """Hop `k` of a sweep if there is one, by the shape that the device wants."""
    s = sweep + 1 + k * B
    active = k >= 0 and sweep <= n - 3 and s <= n - 2
    p = kl.where(k == 0, sweep, s - B)
    if LANES > 1:
        hop_in_vectors(w, p, s, active, B, LANES, ROWS)
    else:
        hop_across_items(w, p, s, active, B, SWEEPS)


@kernel
def band_wave(w: Any, n: Any, wave: Any, first: Any, *, B: int, LANES: int, ROWS: int) -> None:
    """The hops of one wave, a workgroup each, from sweep `first` on."""
    sweep = first + kl.group_id(0)
    hop(w, n, sweep, wave - 3 * sweep, B, LANES, ROWS, 1)


@kernel
def band_packs(
    w: Any,
    sync: Any,
    n: Any,
    *,
    B: int,
    LANES: int,
    ROWS: int,
    SWEEPS: int,
    EVERY: int,
    WINDOW: bool,
) -> None:
    """All hops: a workgroup for each pack of `SWEEPS` sweeps.

    ``sync[0]`` is the next ticket and ``sync[1 + g]`` how many steps pack g has made, which is
    looked at and published each `EVERY` steps. The sweeps of a pack go one after another in the
    vector shape, side by side across dimension 1 in the others.
    """
    leads = kl.local_id(0) == 0 and kl.local_id(1) == 0
    ticket = 0
    if leads:
        ticket = kl.atomic_add(sync, 0, 1)
    pack = kl.workgroup_uniform(ticket)
    first = pack * SWEEPS
    fetched = 1 if WINDOW else 0
    steps = (n - 3 - first) // B + 1 + 3 * (SWEEPS - 1) + fetched
    if WINDOW:
        kind = kl.accumulator(w.dtype)
        upper = kl.local((SWEEPS, B, B | 1), kind)
        block = kl.local((SWEEPS, 2 * B, B | 1), kind)
    for start in range(0, steps, EVERY):
        if leads and pack > 0:
            needed = start + EVERY - 1 + 3 * SWEEPS
            while kl.atomic_load(sync, pack, order="acquire") < needed:
                pass
        kl.barrier()
        for step in range(start, kl.minimum(start + EVERY, steps)):
            if LANES > 1:
                for sweep in range(SWEEPS):
                    hop(w, n, first + sweep, step - 3 * sweep, B, LANES, ROWS, SWEEPS)
            else:
                sweep = kl.local_id(1)
                k = step - 3 * sweep - fetched
                if WINDOW:
                    window_step(w, n, first + sweep, k, upper[sweep], block[sweep], B)
                else:
                    hop(w, n, first + sweep, k, B, LANES, ROWS, SWEEPS)
        if leads:
            done = kl.where(start + EVERY >= steps, FINISHED, start + EVERY)
            kl.atomic_store(sync, 1 + pack, done, order="release")
