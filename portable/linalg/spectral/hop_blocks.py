"""Vectors multiplied with the reflectors of a bulge chase, by blocks of them.

Neighbouring sweeps make a group. Its reflectors of one hop stand in as many rows more than their
length as there are sweeps, each a row below the one before: a block ``I - V T V^T``. The last group
goes first, and of each its first hop; a hop may go when the next group has made the same one (A.
Haidar, P. Luszczek, J. Dongarra, "New algorithm for computing eigenvectors of the symmetric
eigenvalue problem", IPDPS Workshops 2014). So one launch applies all blocks of several groups: a
workgroup takes two groups and a strip of columns by ticket, the last groups first, and follows the
workgroup that has the next two in the same strip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Capabilities, Device
from portable.dtypes import DType, dtype
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.linalg.bands.kernels import FINISHED, follow, publish, taken_pack
from portable.linalg.dense.kernels import clear
from portable.linalg.dense.shapes import DenseShape
from portable.linalg.factorisations.matrices import turned
from portable.linalg.products.gemm import gemm
from portable.linalg.spectral.reduction_kernels import reflector_triangles

_TILE: Final = (32, 8, 1)
_ITEMS: Final = 64
_RATIO: Final = 2
"""How many times as long as a group's sweeps are a reflector is: of a block of as many, half of V's
elements are zeros, of a block of half as many a third."""

_PAIR: Final = 2
"""Groups that a workgroup applies to a strip, which goes through memory once for them."""

_STRIPS: Final = 32
"""Strips that there are at least, unless they would be narrower than those of reductions."""

_AT_ONCE: Final = 1 << 26
"""Bytes of V that are made at a time."""

_AHEAD: Final = 1 << 29
"""Bytes of blocks that are made before they can be applied."""


class Blocks(NamedTuple):
    """Blocks of reflectors ``I - V T V^T``.

    Attributes
    ----------
    v, changes : array, shape (blocks * 2 B, B)
        V and -V T below each other.
    counts : array of i32
        Tickets and the progress of workgroups, all 0.
    """

    v: Any
    changes: Any
    counts: Any


def blocks_ahead(
    device: Device, kept: Any, n: int, b: int
) -> tuple[list[tuple[Any, Any]], Callable[[], None]]:
    """V and -V T of the blocks that are applied first, and what makes them, in any queue.

    Arrays belong to the queue that will apply them, so that no other has their room too early.

    Parameters
    ----------
    device, kept, b
        As of `lead_back_hops`.
    n : int
        Columns of the band.
    """
    size, kind = (_group(b), b), dtype(kept.dtype)
    portions = list(_portions(n, size, kind))[: _AHEAD // (2 * _AT_ONCE)]
    rooms = [_room(device, packs, size, kind) for packs in portions]

    def make() -> None:
        for packs, blocks in zip(portions, rooms, strict=True):
            _make_blocks(device, kept, packs, n, blocks)

    return rooms, make


def lead_back_hops(
    device: Device,
    kept: Any,
    x: Any,
    size: tuple[int, int],
    b: int,
    shape: DenseShape,
    made: Sequence[tuple[Any, Any]] = (),
) -> None:
    """Multiplies a matrix in place with all reflectors of a chase.

    Parameters
    ----------
    device : Device
        Where.
    kept : array
        The reflectors, as `portable.linalg.bands.kernels.Kept` has them.
    x : array
        The matrix, with zeros around it.
    size : (int, int)
        Columns of the band, and of the matrix.
    b : int
        Superdiagonals of the band, and columns of a panel.
    shape : DenseShape
        A layout for such panels.
    made : sequence of (array, array)
        What `blocks_ahead` gave.
    """
    (n, columns), kind = size, dtype(x.dtype)
    shape = _layout(shape, b, columns, kind, device.capabilities)
    room, strips = x[1 : n + shape.beyond], -(-columns // shape.strip)
    for i, packs in enumerate(_portions(n, (shape.panel, b), kind)):
        blocks = made[i] if i < len(made) else _room(device, packs, (shape.panel, b), kind)
        if i >= len(made):
            _make_blocks(device, kept, packs, n, blocks)
        v, changes = (device.namespace().reshape(x, (-1, shape.panel)) for x in blocks)
        workgroups = packs[1] // _PAIR * strips
        sync = device.empty((1 + workgroups,), kl.i32)
        clear[int(sync.shape[0]), _ITEMS](sync)
        apply_hops[groups(workgroups), shape.workgroup](
            room, Blocks(v, changes, sync), (*packs, strips), n, SHAPE=shape, B=b
        )


def _group(b: int) -> int:
    """Sweeps of a group."""
    return b // _RATIO


def _layout(shape: DenseShape, b: int, columns: int, kind: DType, can: Capabilities) -> DenseShape:
    """Strips that are as wide as two workgroups find room for, and not few."""
    shape = replace(shape, panel=_group(b), fan=_RATIO + 1, climb=False)
    rows, reflectors = _PAIR + _RATIO + 1, 4 * shape.fan * (shape.panel + shape.padding)
    most = can.local_memory_most

    def fits(strip: int) -> bool:
        elements = shape.panel * (rows * strip + reflectors)
        return 2 * elements * kind.itemsize <= most and strip * _STRIPS <= columns

    while fits(2 * shape.strip):
        shape = replace(shape, strip=2 * shape.strip)
    return shape


def _portions(n: int, size: tuple[int, int], kind: DType) -> Iterator[tuple[int, int, int]]:
    """The groups whose blocks are made at a time, the last ones first, as `_packs` gives them."""
    last = (n - 3) // size[0]
    last += -(last + 1) % _PAIR  # further groups have no hops
    while last >= 0:
        yield (packs := _packs(last, n, size, kind.itemsize))
        last -= packs[1]


def _packs(last: int, n: int, size: tuple[int, int], itemsize: int) -> tuple[int, int, int]:
    """The last group, how many go with it, and the hops of the first of these.

    Groups of so many sweeps, of which each hop goes so many rows on.
    """
    group, b = size

    def hops(first: int) -> int:
        return (n - 3 - first * group) // b + 1

    count = _PAIR
    while count <= last:
        blocks = (count + _PAIR) * hops(last - count - _PAIR + 1)
        if blocks * (b + group) * group * itemsize > _AT_ONCE:
            break
        count += _PAIR
    return last, count, hops(last - count + 1)


def _room(
    device: Device, packs: tuple[int, int, int], size: tuple[int, int], kind: DType
) -> tuple[Any, Any]:
    """Where V and -V T of the blocks of groups go, so many hops of each."""
    (_, count, most), (group, b) = packs, size
    shape = count * most, b + group, group
    return device.empty(shape, kind), device.empty(shape, kind)


def _make_blocks(
    device: Device, kept: Any, packs: tuple[int, int, int], n: int, blocks: tuple[Any, Any]
) -> None:
    """V and -V T of the blocks of groups."""
    (last, _, most), (v, changes) = packs, blocks
    count, rows, group = (int(x) for x in v.shape)
    gram, t = (device.empty((*x, count, group, group), dtype(kept.dtype)) for x in ((), (1,)))
    spread_hops[(group, rows, count), _TILE](kept, v, last, most, n, B=rows - group)
    gemm(turned(v), v, out=gram)
    reflector_triangles[(group, count, 1), (min(_ITEMS, group), 1, 1)](gram[None], None, t)
    gemm(v, turned(t[0]), alpha=-1, out=changes)


@kernel
def spread_hops(
    kept: kl.Array, v: kl.Array, last: kl.Scalar, most: kl.Scalar, n: kl.Scalar, *, B: int
) -> None:
    """V of the blocks of groups from the `last` one on, `most` hops of each.

    Dimension 0 is the sweeps of a group, 1 the rows, 2 the blocks.
    """
    sweep, row, block = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    if block < v.shape[0] and row < v.shape[1] and sweep < v.shape[2]:
        group, hop = last - block // most, block % most
        line = group * v.shape[2] + sweep
        begun, element = line + hop * B, line - sweep + hop * B + row
        value = kl.cast(0, v.dtype)
        if row >= sweep and row < sweep + B and begun <= n - 3 and element <= n - 2:
            value = kept[line, element]
        v[block, row, sweep] = value


@kernel
def apply_hops(
    x: kl.Array,
    q: Blocks,
    packs: tuple[kl.Scalar, ...],
    n: kl.Scalar,
    *,
    SHAPE: DenseShape,
    B: int,
) -> None:
    """Applies the blocks of groups from the last one on; a workgroup for each pair and strip.

    `packs` are the last group, how many, the hops that each has room for, and the strips;
    `q.counts` tickets and the progress of workgroups. Rows that a later hop changes too stay in
    local memory, and a block's reflectors come while the last one's are applied: of each hop of
    the later group, then of the earlier one, which begins ``B`` rows above.
    """
    last, _, most, strips = packs
    GROUP, RATIO, RING = SHAPE.panel, SHAPE.fan - 1, _PAIR + SHAPE.fan - 1
    ticket = taken_pack(q.counts)
    pack, column = ticket // strips, ticket % strips * SHAPE.strip
    lowest, room = last - (pack + 1) * _PAIR + 1, room_of(x.dtype, SHAPE, RING)
    hops, block = (n - 3 - lowest * GROUP) // B + 1, pack * _PAIR * most
    ask(room, q, block, 0, SHAPE)
    for i in kl.static_range(_PAIR):
        fetch(x, room, ((lowest + i) * GROUP, column), i, SHAPE)
    for hop in range(hops):
        if kl.local_id(0) == 0:
            follow(q.counts, ticket + 1 - strips, hop + 1)
        kl.barrier()
        row = lowest * GROUP + hop * B
        for i in kl.range(_PAIR, RING, unroll=1):
            fetch(x, room, (row + i * GROUP, column), (hop * RATIO + i) % RING, SHAPE)
        kl.copy_commit()
        for turn in kl.range(_PAIR, unroll=1):  # unrolled, it leaves no room in a cache for code
            slot, behind = (hop * _PAIR + turn) % 2, _PAIR - 1 - turn
            following = kl.where(turn + 1 < _PAIR, (turn + 1) * most + hop, hop + 1)
            if turn + 1 < _PAIR or hop + 1 < hops:
                ask(room, q, block + following, 1 - slot, SHAPE)
            else:
                kl.copy_commit()
            kl.copy_wait(1)
            kl.barrier()
            if row + behind * GROUP <= n - 3:
                apply_block(x, (row, column), (hop, hops), (slot, behind), room, SHAPE)
            kl.barrier()
        if kl.local_id(0) == 0:
            publish(q.counts, ticket, kl.where(hop + 1 == hops, FINISHED, hop + 1))


class Room(NamedTuple):
    """What a workgroup has in local memory.

    Attributes
    ----------
    rows : array, shape (ring, group, strip)
        The rows of blocks, so many in turn.
    v, changes : array, shape (2, fan, group, group + padding)
        Of two blocks in turn.
    product : array, shape (group, strip)
    """

    rows: Any
    v: Any
    changes: Any
    product: Any


@function
def room_of(kind: Any, SHAPE: DenseShape, RING: int) -> Any:
    """The room, with nothing in it."""
    GROUP, STRIP = SHAPE.panel, SHAPE.strip
    v, changes = (kl.local((2, SHAPE.fan, GROUP, GROUP + SHAPE.padding), kind) for _ in range(2))
    return Room(kl.local((RING, GROUP, STRIP), kind), v, changes, kl.local((GROUP, STRIP), kind))


@function
def rows_of(x: kl.Array, row: kl.Scalar, column: kl.Scalar, SHAPE: DenseShape) -> Any:
    """Rows of a strip."""
    return x[row : row + SHAPE.panel, column : column + SHAPE.strip]


@function
def fetch(
    x: kl.Array, room: Any, corner: tuple[kl.Scalar, ...], slot: kl.Scalar, SHAPE: DenseShape
) -> None:
    """Starts to copy rows of a strip, if there are any."""
    if corner[0] < x.shape[0]:
        kl.copy_async(room.rows[slot], rows_of(x, *corner, SHAPE))


@function
def ask(room: Any, q: Blocks, block: kl.Scalar, slot: kl.Scalar, SHAPE: DenseShape) -> None:
    """Starts to copy a block's V and -V T."""
    GROUP, FAN = SHAPE.panel, SHAPE.fan
    for part in kl.static_range(FAN):
        first = (FAN * block + part) * GROUP
        kl.copy_async(room.v[slot, part, 0:GROUP, 0:GROUP], q.v[first : first + GROUP, 0:GROUP])
        kl.copy_async(
            room.changes[slot, part, 0:GROUP, 0:GROUP], q.changes[first : first + GROUP, 0:GROUP]
        )
    kl.copy_commit()


@function
def apply_block(
    x: kl.Array,
    corner: tuple[kl.Scalar, ...],
    progress: tuple[kl.Scalar, ...],
    which: tuple[Any, ...],
    room: Any,
    SHAPE: DenseShape,
) -> None:
    """``A += (-V T) (V^T A)`` for the rows of a hop's block in a strip.

    `corner` is where the first group's block begins, `progress` the hop and how many there are;
    `which` is the place of the block's reflectors, and how many groups come after this one. A part
    of the rows is stored by who changes it last.
    """
    GROUP, FAN, RING, kind = SHAPE.panel, SHAPE.fan, room.rows.shape[0], x.dtype
    (row, column), (hop, hops), (slot, behind) = corner, progress, which
    total = kl.matrix((GROUP, SHAPE.strip), kind)
    total.fill(0)
    for part in kl.range(FAN, unroll=1):
        if row + (behind + part) * GROUP < x.shape[0]:
            rows = room.rows[(hop * (FAN - 1) + behind + part) % RING]
            kl.mma(total, room.v[slot, part, 0:GROUP, 0:GROUP].T, rows)
    for i, j, value in kl.elements(total):
        room.product[i, j] = value
    kl.barrier()
    for part in kl.range(FAN, unroll=1):
        number = behind + part
        line, place = row + number * GROUP, (hop * (FAN - 1) + number) % RING
        if line < x.shape[0]:
            total.load(room.rows[place])
            kl.mma(total, room.changes[slot, part, 0:GROUP, 0:GROUP], room.product)
            is_last = behind == kl.maximum(number - FAN + 1, 0)
            if is_last and (number < FAN - 1 or hop + 1 == hops):
                total.store(rows_of(x, line, column, SHAPE))
            else:
                total.store(room.rows[place])
