"""All hops of a bulge chase with what a pack of sweeps works on in local memory: a ring of columns.

In a turn each sweep makes one reflector, right and left ones in turn, and a barrier follows for
those that made them.

A sweep has two blocks of B rows and columns in the registers of a sub-group each.
The one on the diagonal is read before the right reflector and written after the left one. The one
above it, which the left reflector combines and then the right one of the hop after, is read and
written between them. So an element is read and written once a hop, and half of the reflectors find
what they combine at hand.

Neighbouring sweeps are three turns apart. What a sweep then combines has been left by the one
before but for the last row's last element, where that one is about to put the only number that it
leaves of a row or of a column. This number is the norm of what its reflector is made of, which lies
in local memory: the sweep works it out for itself, in the time in which it waits for its own sums.

Blocks of `B` columns come into the ring in bulk, each one run of places. The ring holds the ``2 B``
rows of a column that a block has at the time, and the next column begins four places further. So an
element farther from the diagonal shares its place with one of a neighbouring column, and is zero
whenever that one is not.

What no later sweep of the pack changes leaves for global memory at once: all that the last sweep
combines, and the row and the column that each sweep eliminates. Two sub-groups more follow the pack
before and load, and publish how far this one is. Nobody waits for flags and fences beside them:
what turn it is they are told in local memory.

Without a ring, where blocks are too large for it or nothing is copied in bulk, sweeps read and
write global memory itself, in the same places, and the two sub-groups more only follow and publish.

A pack begins `SWEEPS` columns after the one before, a column after the last sweep of that one. So
what its block j holds is left when that sweep has made the right reflector of hop ``j + 1``: with
it leaves the column that the left one is about to make.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.bands.kernels import FINISHED, Kept, publish, taken_pack
from portable.linalg.bands.tiles import Tile, TileShape, made_of
from portable.linalg.reflectors.householder import mirror_beside

_DISTANCE: Final = 3
_TURN, _LOADED = 0, 1


@dataclass(frozen=True, slots=True)
class Ring:
    """How a pack is laid out.

    Attributes
    ----------
    tile : TileShape
        How a sub-group holds a block; its order is the bandwidth.
    sweeps : int
        Sweeps of the pack.
    spare : int
        Blocks that are asked for before there is need to.
    direct : bool
        Whether sweeps hand blocks on through global memory: there is no ring.
    """

    tile: TileShape
    sweeps: int
    spare: int
    direct: bool = False

    @property
    def pitch(self) -> int:
        """Places from a column to the next, of which its blocks take `2 B`.

        One less is odd, so that neighbouring columns are in different banks.
        """
        return 2 * self.tile.order + 4

    @property
    def block(self) -> int:
        """Places of a block's columns."""
        return self.tile.order * self.pitch

    @property
    def slots(self) -> int:
        """Blocks that the ring has room for: one is asked for when another is done with."""
        return _DISTANCE * self.sweeps // 2 + 1 + self.spare

    @property
    def first(self) -> int:
        """Blocks that are asked for before any other is done with."""
        return 2 - self.sweeps % 2 + self.spare

    @property
    def elements(self) -> int:
        """Elements of local memory that a workgroup takes."""
        ring = 0 if self.direct else self.slots * self.block + self.tile.order
        return ring + 2 * self.sweeps * self.tile.vector

    @property
    def working(self) -> int:
        """Sub-groups that make reflectors."""
        return 2 * self.sweeps

    @property
    def items(self) -> int:
        """Work-items of the workgroup."""
        return self.tile.items * (self.working + 2)


class Pack(NamedTuple):
    """A pack, the first row that its hops combine, and how many blocks and turns it has."""

    number: Any
    begin: Any
    blocks: Any
    turns: Any


class Hop(NamedTuple):
    """A sweep's hop of a turn.

    It begins in `row` and the column of that number, `first` in the ring. Where it is not `active`,
    a block above may be left of the hop before (`after`). `begins` is the turn before the first.
    The sweep before `leads` if it has a hop one further. The next sweep has none here where the hop
    `ends` the matrix.
    """

    number: Any
    sweep: Any
    row: Any
    first: Any
    active: Any
    after: Any
    begins: Any
    leads: Any
    ends: Any


class Memory(NamedTuple):
    """Where blocks come from and go to, what reflectors are made of, and how far who is.

    That is the turn that reflectors have come to, and how many work-items have asked for blocks.
    Without a ring, `w` stands in its place.
    """

    w: Any
    ring: Any
    arrived: Any
    vectors: Any
    progress: Any


@kernel
def ring_packs(w: kl.Array, sync: kl.Array, n: kl.Scalar, kept: Kept, *, RING: Ring) -> None:
    """All hops: a workgroup for each pack; reflectors go to `kept`.

    ``sync[1 + g]`` is how many right reflectors the last sweep of pack g has made. Block j of a
    pack begins at column ``1 + j B`` after its first row. It is needed in turn ``2 j - 1``, and
    read for the last time in turn ``2 j - 3 + 3 SWEEPS``, by the right reflector of that sweep.
    """
    SHAPE, SWEEPS, WORKING = RING.tile, RING.sweeps, RING.working
    kl.static_assert(SHAPE.items == kl.sub_group_size(), "a block is a sub-group's")
    kind = kl.accumulator(w.dtype)
    ring = w if RING.direct else kl.local(RING.slots * RING.block + SHAPE.order, w.dtype)
    vectors = kl.local((2 * SWEEPS, SHAPE.vector), kind)
    arrived = None if RING.direct else kl.completion(RING.slots)
    progress = kl.local(2, kl.i32)
    if kl.local_id(0) == 0:
        progress[_TURN], progress[_LOADED] = -2, 0
    memory = Memory(w, ring, arrived, vectors, progress)
    pack = pack_of(taken_pack(sync), n, RING)

    member = kl.sub_group_broadcast(kl.sub_group_id(), 0)
    team = kl.minimum(member, WORKING - 1)
    sweep, upper, works = team // 2, team % 2 == 1, member < WORKING
    tile = own_tile(kind, SHAPE)
    loads, publishes = member == WORKING, member == WORKING + 1
    seen = kl.where(pack.number == 0, kl.cast(FINISHED, sync.dtype), 0)
    if loads:
        for block in range(kl.minimum(RING.first, pack.blocks)):
            seen = load_block(memory, sync, pack, block, seen, RING)
    for turn in range(-1, pack.turns):
        needed = (turn + 1) // 2
        if turn % 2 == 1 and needed < pack.blocks:
            if member == 0:
                wait_for(progress, _LOADED, (needed + 1) * RING.tile.items)
            begin_turn(arrived, needed, RING)
        else:
            kl.barrier(sub_groups=WORKING)
        if member == 0:
            kl.atomic_store(progress, _TURN, turn, order="release", scope="workgroup")
        step = turn - _DISTANCE * sweep
        hop = hop_of(step // 2, sweep, pack, n, works, RING)
        if step % 2 == 0:
            right_reflectors(memory, tile, hop, upper, kept, RING)
        else:
            left_reflectors(memory, tile, hop, upper, kept, RING)
        if (turn - SWEEPS) % 2 == 0:
            done = (turn + 2 - _DISTANCE * SWEEPS) // 2 + 1
            block = done - 1 + RING.slots
            if loads and block < pack.blocks:
                wait_for(progress, _TURN, turn)
                seen = load_block(memory, sync, pack, block, seen, RING)
            if publishes and done > 0:
                wait_for(progress, _TURN, turn)
                publish(sync, pack.number, done)
    kl.barrier()
    if publishes:
        publish(sync, pack.number, FINISHED)


@function
def begin_turn(arrived: Any, needed: kl.Scalar, RING: Ring) -> None:
    """Those that work wait for each other and for a block."""
    if RING.direct:
        kl.barrier(sub_groups=RING.working)
    else:
        slot, phase = needed % RING.slots, needed // RING.slots % 2
        kl.bulk_wait(arrived[slot], phase, sub_groups=RING.working)


@function
def pack_of(number: kl.Scalar, n: kl.Scalar, RING: Ring) -> Any:
    """A pack; in its last turn the last block above the diagonal leaves."""
    begin = number * RING.sweeps + 1
    last_hop = (n - 2 - begin) // RING.tile.order
    blocks = last_hop + (3 if RING.sweeps > 1 else 2)
    return Pack(number, begin, blocks, 2 * last_hop + _DISTANCE * RING.sweeps)


@function
def hop_of(
    number: kl.Scalar, sweep: kl.Scalar, pack: Pack, n: kl.Scalar, works: kl.Scalar, RING: Ring
) -> Any:
    """Hop `number` of a sweep, of which there may be none."""
    B = RING.tile.order
    row = pack.begin + sweep + number * B
    begun = works and number >= 0
    first = row * RING.pitch
    if not RING.direct:
        first = B + (number % RING.slots * B + sweep) * RING.pitch
    active, after = begun and row <= n - 2, begun and row - B <= n - 2
    begins, leads = works and number == -1, sweep > 0 and row + B <= n - 1
    return Hop(number, sweep, row, first, active, after, begins, leads, row == n - 2)


# -- blocks that come and leave ------------------------------------------------------------------


@function
def wait_for(progress: kl.Array, what: int, least: kl.Scalar) -> None:
    """Waits for progress in the workgroup."""
    while kl.atomic_load(progress, what, order="acquire", scope="workgroup") < least:
        pass


@function
def load_block(
    memory: Memory, sync: kl.Array, pack: Pack, block: kl.Scalar, seen: kl.Scalar, RING: Ring
) -> Any:
    """Starts copying a block into its slot when the pack before has come far enough.

    Before the first slot stand rows of its columns that are above its block: zeros as yet. Returns
    the progress of the pack before, which was last `seen`.
    """
    w, ring, arrived, progress = memory.w, memory.ring, memory.arrived, memory.progress
    B, result, slot = RING.tile.order, seen, block % RING.slots
    source, above = (pack.begin + block * B) * RING.pitch, kl.where(slot == 0, B, 0)
    while result < block + 2:
        result = kl.atomic_load(sync, pack.number, order="acquire")
    if not RING.direct:
        target, count = B + slot * RING.block - above, RING.block + above
        if kl.sub_group_local_id() == 0:
            kl.bulk_copy(ring, target, w, source - above, count, arrived[slot])
    kl.atomic_add(progress, _LOADED, 1, order="release", scope="workgroup")
    return result


# -- reflectors ----------------------------------------------------------------------------------


@function
def own_tile(kind: Any, SHAPE: TileShape) -> Any:
    """A work-item's part of a block, zeros yet."""
    x = kl.private((SHAPE.rows, SHAPE.columns), kind, fill=0)
    lane = kl.sub_group_local_id()
    return Tile(x, lane % SHAPE.down, lane // SHAPE.down)


@function
def first_row(memory: Memory, tile: Tile, hop: Hop, RING: Ring) -> None:
    """The row that a sweep eliminates, one above its first block, which lies in slot 0.

    The rows above it in its block are eliminated: zeros.
    """
    ring, vectors, SHAPE = memory.ring, memory.vectors, RING.tile
    B, row = SHAPE.order, 2 * hop.sweep
    first = hop.sweep * RING.pitch + 2 * B - 1
    if RING.direct:
        first = (hop.row + B) * RING.pitch + B - 1
    left = kl.cast(0, vectors.dtype)
    if hop.leads:
        left = corner_of(vectors, hop, row - 2, row - 2, SHAPE)
    values = kl.private(SHAPE.columns, vectors.dtype)
    for b in kl.static_range(SHAPE.columns):
        c = tile.column(b, SHAPE)
        values[b] = left
        if not (hop.leads and c == B - 1):
            values[b] = ring[first + c * (RING.pitch - 1)]
        tile.x[SHAPE.rows - 1, b] = kl.where(tile.down == SHAPE.down - 1, values[b], 0)
    tile.leave(values, vectors[row], SHAPE, False)


@function
def corner_of(
    vectors: kl.Array, hop: Hop, other: kl.Scalar, head: kl.Scalar, SHAPE: TileShape
) -> Any:
    """The last element of a block's last row, which the sweep before makes of vector `other`.

    Zero where that one does not lead; then it is worked out from the sweep's `head` vector.
    """
    beta, _, _ = made_of(vectors[kl.where(hop.leads, other, head)], SHAPE)
    return kl.where(hop.leads, beta, 0)


@function
def keep_vector(kept: kl.Array | None, v: kl.Array, hop: Hop, SHAPE: TileShape) -> None:
    """Stores the vector of a hop's reflector, zeros where that does nothing."""
    if kept is not None:
        _, head, scale = made_of(v, SHAPE)
        sweep = hop.row - 1 - hop.number * SHAPE.order
        for i in range(kl.sub_group_local_id(), SHAPE.order, SHAPE.items):
            value = kl.where(i == 0, head, v[i])
            kept[sweep, hop.row - 1 + i] = kl.where(scale == 0, value * 0, value)


@function
def right_reflectors(
    memory: Memory, tile: Tile, hop: Hop, upper: kl.Scalar, kept: Kept, RING: Ring
) -> None:
    """The right reflector of a hop, made of the sweep's row; leaves the column for the left one."""
    vectors, SHAPE = memory.vectors, RING.tile
    B, row = SHAPE.order, 2 * hop.sweep
    if upper:
        if hop.active:
            beta = tile.combine(vectors[row], None, SHAPE, False)
            tile.eliminate(beta, kl.where(hop.number == 0, B - 1, 0), SHAPE, False)
            keep_vector(kept.right, vectors[row], hop, SHAPE)
        if hop.after:
            keep(memory, tile, hop, hop.number == 0, tile.down == 0, 0, RING, False)
    elif hop.active:
        tile.fetch(memory.ring, hop.first, B, hop.leads, RING)
        corner = corner_of(vectors, hop, row - 1, row, SHAPE)
        tile.combine(vectors[row], corner, SHAPE, False)
        leave_column(memory, tile, hop, RING)


@function
def leave_column(memory: Memory, tile: Tile, hop: Hop, RING: Ring) -> None:
    """Leaves the first column for the left reflector; of the last sweep also what that leaves."""
    SHAPE = RING.tile
    tail = tile.leave(tile.x[:, 0], memory.vectors[2 * hop.sweep + 1], SHAPE, True)
    if hop.sweep + 1 == RING.sweeps and tile.across == 0:
        beta, _, _ = mirror_beside(tile.x[0, 0], tail)
        for a in kl.static_range(SHAPE.rows):
            number = tile.row(a, SHAPE)
            value = kl.where(number == 0, beta, 0)
            memory.w[hop.row * RING.pitch + SHAPE.order + number] = value


@function
def left_reflectors(
    memory: Memory, tile: Tile, hop: Hop, upper: kl.Scalar, kept: Kept, RING: Ring
) -> None:
    """The left reflector of a hop, made of the column; leaves the row for the next right one."""
    vectors, SHAPE = memory.vectors, RING.tile
    B, column = SHAPE.order, 2 * hop.sweep + 1
    if hop.active:
        if upper:
            above = tile.within(hop.first + RING.block, memory.ring, RING)
            tile.fetch(memory.ring, above, 0, hop.leads, RING)
            corner = corner_of(vectors, hop, column - 3, column, SHAPE)
            tile.combine(vectors[column], corner, SHAPE, True)
            tile.leave(tile.x[0], vectors[column - 1], SHAPE, False)
        else:
            beta = tile.combine(vectors[column], None, SHAPE, True)
            tile.eliminate(beta, 0, SHAPE, True)
            keep_vector(kept.left, vectors[column], hop, SHAPE)
            keep(memory, tile, hop, hop.ends, tile.has_first_column, B, RING, True)
    if hop.begins and upper:
        first_row(memory, tile, hop, RING)


@function
def keep(
    memory: Memory,
    tile: Tile,
    hop: Hop,
    alone: kl.Scalar,
    edge: kl.Scalar,
    origin: int,
    RING: Ring,
    TURNED: bool,
) -> None:
    """Keeps a block for the next sweep, and sends to global memory what that one does not change.

    It is the first row or column (`TURNED`), which those have who are at the `edge`; or all of it,
    where there is no next sweep in the pack or none that comes here (`alone`).
    """
    SHAPE, STEP = RING.tile, RING.pitch - 1
    last = hop.sweep + 1 == RING.sweeps
    left = TURNED and last and tile.has_first_column
    start = hop.row * RING.pitch + origin
    if RING.direct:
        tile.keep(memory.w, hop.first, origin, left, RING)
    elif not last:
        tile.keep(memory.ring, hop.first, origin, False, RING)
    if not RING.direct and (last or alone):
        tile.send(memory.w, start, left, RING)
    elif not RING.direct and edge:
        at = start + tile.down + tile.column(0, SHAPE) * STEP
        for a in kl.static_range(SHAPE.rows if TURNED else 1):
            for b in kl.static_range(1 if TURNED else SHAPE.columns):
                further = SHAPE.down * a + tile.beyond_first(b, SHAPE) * STEP
                memory.w[at + further] = tile.x[a, b]
