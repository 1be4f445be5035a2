"""All hops of a bulge chase with what a pack of sweeps works on in local memory: a ring of columns.

Blocks of `B` columns, which hold band and what fills in, come into the ring in bulk `AHEAD` steps
before the first sweep of the pack needs them and leave it behind the last. The sweeps go two hops
apart: all their right reflectors, a barrier, all their left ones, a barrier. A work-item holds a
row and then a column of a hop in registers. Two sub-groups more follow the pack before and publish
how far this one is, half of it beside each kind of reflector, so that waiting for memory costs a
step nothing as long as it takes no longer than the reflectors.

A pack begins `SWEEPS` columns after the one before. So its block j overlaps at most `REACH`, which
is ``ceil(SWEEPS / B)``, blocks of that one beyond block j, and waits for it to be done with them.

A workgroup takes ``3 B^2 (2 SWEEPS + AHEAD + BEHIND + 1) + 2 B SWEEPS`` elements of local memory.
The next pack starts ``2 SWEEPS + AHEAD + BEHIND + REACH`` steps after this one.
"""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.band_items import reflected
from portable.linalg.band_kernels import CREW, FINISHED, publish, taken_pack

__all__ = ["ring_elements", "ring_packs"]

_LAG: Final = 2
_HALF: Final = CREW // 2


def ring_elements(b: int, sweeps: int, ahead: int, behind: int) -> int:
    """Elements of local memory that a workgroup takes."""
    return 3 * b * b * _slots(sweeps, ahead, behind) + 2 * b * sweeps


def _slots(sweeps: int, ahead: int, behind: int) -> int:
    return _LAG * sweeps + ahead + behind + 1


@kernel
def ring_packs(
    w: Any,
    sync: Any,
    n: Any,
    *,
    B: int,
    SWEEPS: int,
    AHEAD: int,
    BEHIND: int,
    PITCH: int,
    TOP: int,
) -> None:
    """All hops: a workgroup for each pack of `SWEEPS` sweeps.

    ``sync[1 + g]`` is how many blocks pack g is done with. Block j of a pack begins at column ``1 +
    j B`` after its first row; it waits for blocks up to ``j + REACH`` of the pack before.
    """
    kl.static_assert(AHEAD >= 1 and BEHIND >= 0, "a step waits for a block that none asked for")
    REACH = kl.cdiv(SWEEPS, B)
    SLOTS = _LAG * SWEEPS + AHEAD + BEHIND + 1
    kind = kl.accumulator(w.dtype)
    ring = kl.local((SLOTS * B, 3 * B), w.dtype)
    rows, columns = kl.local((SWEEPS, B), kind), kl.local((SWEEPS, B), kind)
    arrived = kl.completion(SLOTS)
    pack = taken_pack(sync)
    begin = pack * SWEEPS + 1
    last_hop = (n - 2 - begin) // B
    steps = last_hop + 1 + _LAG * (SWEEPS - 1)
    blocks = last_hop + (3 if SWEEPS > 1 else 2)

    item = kl.local_id(0)
    sweep, own = kl.minimum(item // (2 * B), SWEEPS - 1), item % (2 * B)
    crew = item - 2 * B * SWEEPS
    loads, stores, lane = crew >= 0 and crew < _HALF, crew >= _HALF, crew % _HALF
    seen, loaded = kl.where(pack == 0, FINISHED, 0), 0
    if loads:
        begun = kl.minimum(AHEAD, blocks - 1)
        seen = awaited(sync, pack, seen, begun + REACH + 1)
        free = kl.minimum(begun, seen - REACH - 1)
        loaded = load_blocks(ring, w, arrived, loaded, free, begin, lane, B, PITCH, TOP)
    kl.bulk_wait(arrived[0], 0)
    if crew < 0 and sweep == 0:
        first_row(ring, rows[0], 0, own, B)
    for step in range(steps):
        if step + 1 < blocks:
            kl.bulk_wait(arrived[(step + 1) % SLOTS], (step + 1) // SLOTS % 2)
        else:
            kl.barrier()
        k = step - _LAG * sweep
        active = crew < 0 and k >= 0 and begin + sweep + k * B <= n - 2
        first = k % SLOTS * B + sweep
        left = step - 1 - _LAG * (SWEEPS - 1)
        coming = kl.minimum(step + 1 + AHEAD, blocks - 1)
        if active:
            row_combined(ring, rows[sweep], columns[sweep], first, own, k, B, SWEEPS)
        if loads and loaded <= coming:
            if seen < coming + REACH + 1:
                seen = kl.atomic_load(sync, pack, order="acquire")
            free = kl.minimum(coming, seen - REACH - 1)
            loaded = load_blocks(ring, w, arrived, loaded, free, begin, lane, B, PITCH, TOP)
        if stores:
            if left >= 0:
                store_block(ring, w, left, begin, lane, B, PITCH, TOP)
            kl.copy_commit()
            kl.copy_wait(BEHIND)
        kl.barrier()
        if active:
            column_combined(ring, rows[sweep], columns[sweep], first, own, B)
        if crew < 0 and k == -1:
            first_row(ring, rows[sweep], sweep, own, B)
        if loads and loaded <= kl.minimum(step + 2, coming):
            seen = awaited(sync, pack, seen, loaded + REACH + 1)
            free = kl.minimum(coming, seen - REACH - 1)
            loaded = load_blocks(ring, w, arrived, loaded, free, begin, lane, B, PITCH, TOP)
        if crew == _HALF and left >= BEHIND:
            publish(sync, pack, left - BEHIND + 1)
    kl.barrier()
    if stores:
        for block in range(last_hop, blocks):
            store_block(ring, w, block, begin, lane, B, PITCH, TOP)
        kl.copy_commit()
        kl.copy_wait(0)
    kl.barrier()
    if crew == _HALF:
        publish(sync, pack, FINISHED)


@function
def awaited(sync: Any, pack: Any, seen: Any, needed: Any) -> Any:
    """The progress of the pack before, last `seen`, when it has come to what is needed."""
    found = seen
    while found < needed:
        found = kl.atomic_load(sync, pack, order="acquire")
    return found


# -- blocks that come and leave ------------------------------------------------------------------


@function
def load_blocks(
    ring: Any,
    w: Any,
    arrived: Any,
    loaded: Any,
    last: Any,
    begin: Any,
    lane: Any,
    B: int,
    PITCH: int,
    TOP: int,
) -> Any:
    """Starts copying blocks into their slots, from `loaded` up to `last`; returns the next to load.

    Column by column where `w` has more places in each.
    """
    block = loaded
    while block <= last:
        slot = block % (ring.shape[0] // B)
        column = begin + block * B
        if PITCH == 3 * B:
            if lane == 0:
                kl.bulk_copy(ring, (slot * B, 0), w, column * PITCH, 3 * B * B, arrived[slot])
        else:
            for c in range(lane, B, _HALF):
                source = (column + c) * PITCH + TOP - 2 * B
                kl.bulk_copy(ring, (slot * B + c, 0), w, source, 3 * B, arrived[slot])
        block += 1
    return block


@function
def store_block(
    ring: Any, w: Any, block: Any, begin: Any, lane: Any, B: int, PITCH: int, TOP: int
) -> None:
    """Starts copying a block to where it came from."""
    slot = block % (ring.shape[0] // B)
    column = begin + block * B
    if PITCH == 3 * B:
        if lane == 0:
            kl.bulk_copy(w, column * PITCH, ring, (slot * B, 0), 3 * B * B)
    else:
        for c in range(lane, B, _HALF):
            kl.bulk_copy(w, (column + c) * PITCH + TOP - 2 * B, ring, (slot * B + c, 0), 3 * B)


# -- reflectors ----------------------------------------------------------------------------------


@function
def first_row(ring: Any, rows: Any, sweep: Any, own: Any, B: int) -> None:
    """The row that a sweep eliminates, one above its first block, which lies in slot 0."""
    if own < B:
        rows[own] = ring[sweep + own, 2 * B - 1 - own]


@function
def wrapped(ring: Any, first: Any, c: int, B: int, SWEEPS: int) -> Any:
    """Column ``first + c`` of the ring, `first` being less than `SWEEPS` columns into its block."""
    column = first + c
    if c > B - SWEEPS:
        column = kl.where(column >= ring.shape[0], column - ring.shape[0], column)
    return column


@function
def row_combined(
    ring: Any, rows: Any, columns: Any, first: Any, own: Any, k: Any, B: int, SWEEPS: int
) -> None:
    """The right reflector of hop `k`, whose columns begin at `first` in the ring, on row `own`."""
    v, x = kl.private(B, rows.dtype), kl.private(B, rows.dtype)
    for c in kl.static_range(B):
        v[c] = rows[c]
        x[c] = ring[wrapped(ring, first, c, B, SWEEPS), B + own - c]
    reflected(x, v, own == kl.where(k == 0, B - 1, 0), B)
    for c in kl.static_range(B):
        ring[wrapped(ring, first, c, B, SWEEPS), B + own - c] = x[c]
    if own >= B:
        columns[own - B] = x[0]


@function
def column_combined(ring: Any, rows: Any, columns: Any, first: Any, own: Any, B: int) -> None:
    """The left reflector on column `own`, counted from `first`."""
    v, x = kl.private(B, rows.dtype), kl.private(B, rows.dtype)
    column = (first + own) % ring.shape[0]
    for r in kl.static_range(B):
        v[r] = columns[r]
        x[r] = ring[column, 2 * B - own + r]
    reflected(x, v, own == 0, B)
    for r in kl.static_range(B):
        ring[column, 2 * B - own + r] = x[r]
    if own >= B:
        rows[own - B] = x[0]
