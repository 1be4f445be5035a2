"""The special elimination with columns shared out among the members of a group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from portable import lang as kl
from portable import registry
from portable.backend import Device
from portable.gf2.elimination import Elimination, Layout, Part, Progress, owners_of
from portable.gf2.layout import WORD, Order, Turn, count_of_turn, striped, unstriped
from portable.gf2.matrix import BitMatrix
from portable.gf2.packed_file import Words
from portable.gf2.tuning import Shape, shape_for
from portable.parallel.member import Member, Opened

# Who does what when an elimination is shared out: broadcasts overlap with the work before.
#
# A member that holds a stripe chooses its pivots, for which it needs no other stripe, and tells all
# which of them each row takes on: a word a row for 64 columns. The others apply that to the stripes
# that they hold. Whatever the parts, the same is done to each stripe in the same order.


class Memory(Protocol):
    """Keeps what stripes broadcast of their pivots for later batches."""

    def read(self, stripe: int) -> Any:
        """What a stripe of an earlier batch broadcast, an array of the host."""

    def write(self, stripe: int, told: Any) -> None:
        """Keeps what a stripe that was chosen here broadcasts, an array of the host."""


def room_for_told(member: Member, shape: Shape, rows: int) -> Opened:
    """Room for what two stripes broadcast in turn, a part each.

    Parameters
    ----------
    member : Member
    shape : Shape
        With stripes as wide as everybody's.
    rows : int
        Of the matrix, at least one.
    """
    return member.opened("told", (2 * shape.width, WORD + rows), kl.u64, parts=2)


def run_stripes(
    work: Elimination,
    member: Member,
    told: Opened,
    first: int,
    last: int,
    memory: Memory | None = None,
    follow: Callable[[int], None] | None = None,
) -> None:
    """Eliminates the columns of stripes `first` to `last`, those before being in `memory`.

    Stripe g is held by member ``(g - first) % size``. While the pivots of a stripe travel, those
    of the stripe before are applied to all but the next one, which goes first. Alone a member waits
    for nobody, and applies pivots to all stripes at once. Pivots' rows are brought up to date once
    where the broadcast waits for no kernel, else for the next stripe first.

    Parameters
    ----------
    work : Elimination
        Of this member's stripes.
    member : Member
        One of those who share them.
    told : Opened
        As of `room_for_told`, with the array that `work` has.
    first, last : int
        The stripes whose pivots are chosen.
    memory : Memory, optional
        Of earlier stripes, and for those of now.
    follow : callable, optional
        Called with the number of stripes done, which makes it wait for the device.
    """
    for stripe in range(first):
        _recall(work, stripe, memory)
        work.follow(stripe, first, last)
    for stripe in range(first, last):
        root = (stripe - first) % member.size
        if member.rank == root:
            _choose(work, stripe, memory)
        arriving = None
        if member.size > 1:
            arriving = told.start_broadcast(stripe % 2, root)
        if stripe > first and member.size > 1:
            if not told.direct:
                # A small launch lets the broadcast in, which finds no room beside a large one.
                work.solve(stripe - 1, stripe + 1, last)
            work.add(stripe - 1, stripe + 1, last)
        if arriving is not None:
            arriving.wait()
            if member.rank != root:
                work.place(stripe)
        if told.direct:
            work.solve(stripe, stripe + 1, last)
        if (root + 1) % member.size == member.rank:
            end = last if member.size == 1 else min(stripe + 2, last)
            if not told.direct:
                work.solve(stripe, stripe + 1, end)
            work.add(stripe, stripe + 1, end)
        if follow is not None:
            work.layout.device.synchronize()
            follow(stripe + 1)


def _recall(work: Elimination, stripe: int, memory: Memory | None) -> None:
    """Brings what a stripe of an earlier batch broadcast."""
    assert memory is not None, "the stripes before the first one are in memory"
    told = work.told(stripe)
    told[...] = work.layout.device.from_numpy(memory.read(stripe))
    work.place(stripe)


def _choose(work: Elimination, stripe: int, memory: Memory | None) -> None:
    """Chooses a stripe's pivots."""
    work.choose(stripe)
    if memory is not None:
        memory.write(stripe, work.layout.device.to_numpy(work.told(stripe)))


# -- shared out ------------------------------------------------------------------------------------


def shape_for_all(member: Member) -> Shape:
    """The layout for a member's device, with stripes as wide as everybody's."""
    shape = shape_for(member.device.capabilities)
    return shape.of_width(min(member.exchange(shape.width)))


@dataclass(frozen=True, slots=True)
class Shares:
    """Which stripes of a batch are whose: stripe g is member ``(g - first) % size``'s.

    Attributes
    ----------
    order : Order
        Of the columns, from the highest.
    width : int
        Words of a stripe.
    size : int
        Members.
    first, last : int
        The stripes of the batch.
    """

    order: Order
    width: int
    size: int
    first: int
    last: int

    @classmethod
    def whole(cls, order: Order, width: int, size: int) -> Shares:
        """All stripes in one batch."""
        return cls(order, width, size, 0, -(-order.words // width))

    def stripes(self, rank: int) -> range:
        """Those of a member."""
        return range(self.first + rank, self.last, self.size)

    def words(self, rank: int) -> NDArray[np.int64]:
        """The words of a row that they are, ascending; columns are taken from the highest."""
        width, words = self.width, self.order.words
        held = self.stripes(rank)
        places = [p for s in held for p in range(s * width, min((s + 1) * width, words))]
        return words - 1 - np.array(places[::-1], np.int64)

    def joined(self, parts: list[Words]) -> Words:
        """Rows of which each member has its words."""
        out = np.zeros((len(parts[0]), self.order.words), np.uint64)
        for rank, part in enumerate(parts):
            out[:, self.words(rank)] = part
        return out


class Share:
    """A member's part of an elimination of which the host has the words.

    Parameters
    ----------
    rows, eliminators : array of uint64
        Their words that ``shares.words(rank)`` names.
    leads : array of int64
        The leading columns of all eliminators.
    shares : Shares
        Who has what.
    member : Member
        Whose part it is.
    shape : Shape
        The layout.
    """

    def __init__(
        self,
        rows: Words,
        eliminators: Words,
        leads: NDArray[np.int64],
        shares: Shares,
        member: Member,
        shape: Shape,
    ) -> None:
        device = member.device
        self._rows, self._shape, self._member = rows.shape, shape, member
        layout = Layout(shares.order, device, shape, shares.stripes(member.rank))
        self.told = room_for_told(member, shape, max(len(rows), 1))
        self.work = Elimination(
            layout,
            _held(rows, device, shape),
            _held(eliminators, device, shape),
            device.from_numpy(owners_of(leads, shares.order)),
            told=self.told.array,
        )

    def words(self) -> Words:
        """The words of the rows that are held, as they are now."""
        if 0 in self._rows:
            return np.empty(self._rows, np.uint64)
        device, order = self._member.device, _order(self._rows[1])
        with registry.use(device):
            return device.to_numpy(unstriped(self.work.state.work, order, device, self._shape))


def _order(words: int) -> Order:
    """Of so many words by themselves."""
    return Order(WORD * words, backward=True)


def _held(words: Words, device: Device, shape: Shape) -> Any:
    with registry.use(device):
        if not words.size:
            return device.empty((1, max(len(words), 1), shape.width), kl.u64)
        order = _order(words.shape[1])
        matrix = BitMatrix.from_words(np.ascontiguousarray(words), order.columns, device=device)
        return striped(matrix, order, shape)


def eliminated_together(
    eliminators: Words,
    rows: Words,
    leads: NDArray[np.int64],
    shares: Shares,
    member: Member,
    *,
    shape: Shape,
    progress: Progress | None = None,
) -> tuple[Words, NDArray[np.bool_]]:
    """This member's words of the reduced rows, and which rows were promoted.

    Parameters
    ----------
    eliminators, rows, leads, shares, member, shape
        As of `Share`.
    progress : callable, optional
        Called with the part of the work that is done.
    """
    share = Share(rows, eliminators, leads, shares, member, shape)
    follow = None if progress is None else lambda done: progress(done / shares.last)
    if len(rows):
        run_stripes(share.work, member, share.told, shares.first, shares.last, follow=follow)
    return share.words(), share.work.promoted()[: len(rows)]


def eliminated_everywhere(
    member: Member,
    eliminators: BitMatrix,
    rows: BitMatrix,
    owners: Any,
    wanted: bool,
    progress: Progress | None = None,
) -> tuple[BitMatrix | None, NDArray[np.bool_]]:
    """The reduced rows, on the member's device, and which of them were promoted.

    Parameters
    ----------
    member : Member
        One of a group, of which all call this.
    eliminators, rows : BitMatrix
        The same for all members, though not on the devices of all.
    owners : array of int32
        As of `Elimination`, where the eliminators are.
    wanted : bool
        Whether this member is to have the reduced rows; None stands for them elsewhere.
    progress : callable, optional
        Called by the first member with the part of the work that is done.
    """
    order, shape = Order(rows.shape[1], backward=True), shape_for_all(member)
    turn = Turn(member.rank, member.size)
    known, given = (_brought(member, x) for x in (eliminators, rows))
    if eliminators.device is not member.device:
        owners = member.device.from_numpy(eliminators.device.to_numpy(owners))
    each = count_of_turn(order.words, shape, turn)
    held = member.device.empty((member.size * each, rows.shape[0], shape.width), kl.u64)
    parts = [held[i * each : (i + 1) * each] for i in range(member.size)]
    told = room_for_told(member, shape, rows.shape[0])
    part = Part(turn, parts[member.rank], told.array)
    work = Elimination.of(given, order, eliminators=known, owners=owners, shape=shape, part=part)
    del known, given
    stripes = work.layout.stripes
    tell = progress if member.rank == 0 else None
    follow = None if tell is None else lambda done: tell(done / stripes)
    run_stripes(work, member, told, 0, stripes, follow=follow)
    if member.size > 1:
        member.start_gather(parts[member.rank], parts, agreed=True).wait()
    if not wanted:
        return None, work.promoted()
    words = unstriped(held, order, member.device, shape, parts=member.size)
    return BitMatrix(words, order.columns, device=member.device), work.promoted()


def _brought(member: Member, matrix: BitMatrix) -> BitMatrix:
    """A matrix on the member's device, from another member's where it is on one of theirs."""
    device = member.device
    here = member.exchange(matrix.device is device)
    if all(here) or not any(here) or 0 in matrix.shape:
        return matrix.to(device)
    root = here.index(True)
    words = matrix.words
    if member.rank != root:
        words = device.empty(tuple(matrix.words.shape), kl.u64)
    return BitMatrix(member.broadcast(words, root), matrix.shape[1], device=device)
