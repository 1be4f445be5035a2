"""All hops of a bulge chase with what a pack of sweeps works on in local memory: a ring of columns.

Blocks of `B` columns, which hold band and what fills in, come into the ring in bulk, asked for
`AHEAD` steps before the first sweep of the pack needs them, and leave it behind the last. The
sweeps go two hops apart: all their right reflectors, a barrier, all their left ones, a barrier.

A sweep has two sub-groups, each with a block of B rows and columns in its registers. The one on the
diagonal is read before the right reflector and written after the left one. The one above it, which
the left reflector combines and then the right one of the hop after, is read and written between
them. So an element is read and written once a hop, and half of the reflectors find what they
combine at hand.

Three sub-groups more follow the pack before and load, store, and publish how far this one is, half
of it beside each kind of reflector, so that waiting for memory costs a step nothing as long as it
takes no longer than the reflectors. Who publishes has no copies under way, for which a release
would wait.

A pack begins `SWEEPS` columns after the one before. So its block j overlaps at most `reach`, which
is ``ceil(SWEEPS / B)``, blocks of that one beyond block j, and waits for it to be done with them.
The next pack starts ``2 SWEEPS + AHEAD + BEHIND + reach`` steps after this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.band_kernels import FINISHED, publish, taken_pack
from portable.linalg.band_tiles import Tile, TileShape, within

__all__ = ["Ring", "ring_packs"]

_LAG: Final = 2
_THIRD: Final = 32


@dataclass(frozen=True, slots=True)
class Ring:
    """How a pack is laid out.

    Attributes
    ----------
    tile : TileShape
        How a sub-group holds a block; its order is the bandwidth.
    sweeps : int
        Sweeps of the pack.
    ahead, behind : int
        Blocks that are on their way in ahead of what is needed, at least 1, and on their way out
        without being waited for.
    pitch, top : int
        Places of a column in the working storage, and the diagonal's.
    """

    tile: TileShape
    sweeps: int
    ahead: int
    behind: int
    pitch: int
    top: int

    @property
    def slots(self) -> int:
        """Blocks that the ring has room for: one is asked for when another has left."""
        return _LAG * self.sweeps + self.ahead + self.behind

    @property
    def reach(self) -> int:
        """Blocks of the pack before, beyond the same, that a block overlaps."""
        return -(-self.sweeps // self.tile.order)

    @property
    def elements(self) -> int:
        """Elements of local memory that a workgroup takes."""
        b = self.tile.order
        return 3 * b * b * self.slots + 2 * b * self.sweeps

    @property
    def workers(self) -> int:
        """Work-items that hold blocks."""
        return 2 * self.tile.items * self.sweeps

    @property
    def items(self) -> int:
        """Work-items of the workgroup."""
        return self.workers + 3 * _THIRD


class Pack(NamedTuple):
    """A pack, the first row that its hops combine, and its blocks, hops and steps."""

    number: Any
    begin: Any
    last_hop: Any
    blocks: Any
    steps: Any


class Hop(NamedTuple):
    """A sweep's hop of a step.

    `first` is its first column in the ring. Where it is not `active`, a block above may be left of
    the hop before (`after`).
    """

    number: Any
    first: Any
    active: Any
    after: Any


class Traffic(NamedTuple):
    """Where blocks come from and go to."""

    w: Any
    ring: Any
    arrived: Any
    lane: Any


@kernel
def ring_packs(w: Any, sync: Any, n: Any, *, RING: Ring) -> None:
    """All hops: a workgroup for each pack.

    ``sync[1 + g]`` is how many blocks pack g is done with. Block j of a pack begins at column ``1 +
    j B`` after its first row; it waits for blocks up to ``j + reach`` of the pack before.
    """
    kl.static_assert(RING.ahead >= 1 and RING.behind >= 0, "a step waits for what none asked for")
    kl.static_assert(RING.tile.items == kl.sub_group_size(), "a block is a sub-group's")
    B, SWEEPS = RING.tile.order, RING.sweeps
    kind = kl.accumulator(w.dtype)
    ring = kl.local((RING.slots * B, 3 * B), w.dtype)
    rows, columns = kl.local((SWEEPS, B), kind), kl.local((SWEEPS, B), kind)
    arrived = kl.completion(RING.slots)
    pack = pack_of(taken_pack(sync), n, RING)

    member = kl.sub_group_id()
    sweep, upper = kl.minimum(member // 2, SWEEPS - 1), member % 2 == 1
    tile = own_tile(kind, RING.tile)
    crew = kl.local_id(0) - RING.workers
    loads = crew >= 0 and crew < _THIRD
    stores = crew >= _THIRD and crew < 2 * _THIRD
    traffic = Traffic(w, ring, arrived, crew % _THIRD)
    seen, loaded = kl.where(pack.number == 0, FINISHED, 0), 0
    if loads:
        begun = kl.minimum(RING.ahead, pack.blocks - 1)
        seen = awaited(sync, pack, seen, begun, RING)
        loaded = load_blocks(traffic, pack, loaded, begun, seen, RING)
    kl.bulk_wait(arrived[0], 0)
    if member == 1:
        first_row(ring, rows[0], tile, 0, RING.tile)
    for step in range(pack.steps):
        if step + 1 < pack.blocks:
            kl.bulk_wait(arrived[(step + 1) % RING.slots], (step + 1) // RING.slots % 2)
        else:
            kl.barrier()
        hop = hop_of(step - _LAG * sweep, sweep, pack, n, member < 2 * SWEEPS, RING)
        left = step - 1 - _LAG * (SWEEPS - 1)
        coming = kl.minimum(step + 1 + RING.ahead, pack.blocks - 1)
        right_reflectors(ring, rows[sweep], columns[sweep], tile, hop, upper, RING.tile)
        if loads and loaded <= coming and seen < coming + RING.reach + 1:
            seen = kl.atomic_load(sync, pack.number, order="acquire")
        if stores:
            if left >= 0:
                store_block(traffic, pack, left, RING)
            kl.copy_commit()
            kl.copy_wait(RING.behind)
        kl.barrier()
        left_reflectors(ring, rows[sweep], columns[sweep], tile, hop, upper, RING.tile)
        if hop.number == -1 and upper and member < 2 * SWEEPS:
            first_row(ring, rows[sweep], tile, sweep, RING.tile)
        if loads and loaded <= coming:
            if loaded <= step + 2:
                seen = awaited(sync, pack, seen, loaded, RING)
            loaded = load_blocks(traffic, pack, loaded, coming, seen, RING)
        if crew == 2 * _THIRD and left >= RING.behind:
            publish(sync, pack.number, left - RING.behind + 1)
    kl.barrier()
    if stores:
        for block in range(pack.last_hop + 1, pack.blocks):
            store_block(traffic, pack, block, RING)
        kl.copy_commit()
        kl.copy_wait(0)
    kl.barrier()
    if crew == 2 * _THIRD:
        publish(sync, pack.number, FINISHED)


@function
def pack_of(number: Any, n: Any, RING: Ring) -> Any:
    """A pack; in its last step the last block above the diagonal is written back."""
    begin = number * RING.sweeps + 1
    last_hop = (n - 2 - begin) // RING.tile.order
    blocks = last_hop + (3 if RING.sweeps > 1 else 2)
    return Pack(number, begin, last_hop, blocks, last_hop + 2 + _LAG * (RING.sweeps - 1))


@function
def hop_of(number: Any, sweep: Any, pack: Any, n: Any, works: Any, RING: Ring) -> Any:
    """Hop `number` of a sweep, of which there may be none."""
    B = RING.tile.order
    row = pack.begin + sweep + number * B
    begun = works and number >= 0
    first = number % RING.slots * B + sweep
    return Hop(number, first, begun and row <= n - 2, begun and row - B <= n - 2)


# -- blocks that come and leave ------------------------------------------------------------------


@function
def awaited(sync: Any, pack: Any, seen: Any, block: Any, RING: Ring) -> Any:
    """The progress of the pack before, last `seen`, when it has come to what a block needs."""
    found = seen
    while found < block + RING.reach + 1:
        found = kl.atomic_load(sync, pack.number, order="acquire")
    return found


@function
def load_blocks(traffic: Any, pack: Any, loaded: Any, last: Any, seen: Any, RING: Ring) -> Any:
    """Starts copying blocks into their slots, from `loaded` up to `last`; returns the next to load.

    Those that the pack before is done with, having come as far as `seen`. Column by column where
    the working storage has more places in each.
    """
    w, ring, arrived, lane = traffic
    B, PITCH = RING.tile.order, RING.pitch
    block, free = loaded, kl.minimum(last, seen - RING.reach - 1)
    while block <= free:
        slot = block % RING.slots
        column = pack.begin + block * B
        if PITCH == 3 * B:
            if lane == 0:
                kl.bulk_copy(ring, (slot * B, 0), w, column * PITCH, 3 * B * B, arrived[slot])
        else:
            for c in range(lane, B, _THIRD):
                source = (column + c) * PITCH + RING.top - 2 * B
                kl.bulk_copy(ring, (slot * B + c, 0), w, source, 3 * B, arrived[slot])
        block += 1
    return block


@function
def store_block(traffic: Any, pack: Any, block: Any, RING: Ring) -> None:
    """Starts copying a block to where it came from."""
    w, ring, _, lane = traffic
    B, PITCH = RING.tile.order, RING.pitch
    slot = block % RING.slots
    column = pack.begin + block * B
    if PITCH == 3 * B:
        if lane == 0:
            kl.bulk_copy(w, column * PITCH, ring, (slot * B, 0), 3 * B * B)
    else:
        for c in range(lane, B, _THIRD):
            target = (column + c) * PITCH + RING.top - 2 * B
            kl.bulk_copy(w, target, ring, (slot * B + c, 0), 3 * B)


# -- reflectors ----------------------------------------------------------------------------------


@function
def own_tile(kind: Any, SHAPE: TileShape) -> Any:
    """A part of a block, zeros yet."""
    x = kl.private((SHAPE.rows, SHAPE.columns), kind)
    for a in kl.static_range(SHAPE.rows):
        for b in kl.static_range(SHAPE.columns):
            x[a, b] = 0
    own = kl.sub_group_local_id()
    return Tile(x, own % SHAPE.down, own // SHAPE.down)


@function
def first_row(ring: Any, row: Any, tile: Any, sweep: Any, SHAPE: TileShape) -> None:
    """The row that a sweep eliminates, one above its first block, which lies in slot 0.

    The rows above it in its block are eliminated: zeros.
    """
    B = SHAPE.order
    for b in kl.static_range(SHAPE.columns):
        c = tile.column(b, SHAPE)
        value = ring[sweep + c, 2 * B - 1 - c]
        tile.x[SHAPE.rows - 1, b] = kl.where(tile.down == SHAPE.down - 1, value, value * 0)
        if tile.down == 0:
            row[c] = value


@function
def right_reflectors(
    ring: Any, row: Any, column: Any, tile: Any, hop: Any, upper: Any, SHAPE: TileShape
) -> None:
    """The right reflector of a hop, made of `row`; leaves the `column` for the left one."""
    B = SHAPE.order
    if hop.active:
        if not upper:
            tile.fetch(ring, hop.first, 2 * B, SHAPE)
        pivot = kl.where(hop.number == 0, B - 1, 0)
        tile.combine(row, kl.where(upper, pivot, -1), SHAPE, False)
        if not upper and tile.across == 0:
            for a in kl.static_range(SHAPE.rows):
                column[tile.row(a, SHAPE)] = tile.x[a, 0]
    if hop.after and upper:
        tile.keep(ring, hop.first, B, SHAPE)


@function
def left_reflectors(
    ring: Any, row: Any, column: Any, tile: Any, hop: Any, upper: Any, SHAPE: TileShape
) -> None:
    """The left reflector of a hop, made of `column`; leaves the `row` for the next right one."""
    B = SHAPE.order
    if hop.active:
        if upper:
            tile.fetch(ring, within(hop.first + B, ring), B, SHAPE)
        tile.combine(column, kl.where(upper, -1, 0), SHAPE, True)
        if not upper:
            tile.keep(ring, hop.first, 2 * B, SHAPE)
        elif tile.down == 0:
            for b in kl.static_range(SHAPE.columns):
                row[tile.column(b, SHAPE)] = tile.x[0, b]
