"""Who does what when an elimination is shared out: broadcasts overlap with the work before.

A member that holds a stripe chooses its pivots, for which it needs no other stripe, and tells all
which of them each row takes on: a word a row for 64 columns. The others apply that to the stripes
that they hold. Whatever the parts, the same is done to each stripe in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from portable import lang as kl
from portable.gf2.elimination import Elimination
from portable.gf2.layout import WORD
from portable.gf2.tuning import Shape
from portable.parallel.member import Member, Opened


class Memory(Protocol):
    """Keeps what is told of stripes' pivots for later batches."""

    def read(self, stripe: int) -> Any:
        """What was told of a stripe of an earlier batch, an array of the host."""

    def write(self, stripe: int, told: Any) -> None:
        """Keeps what the host's array tells of a stripe that was chosen here."""


def room_for_told(member: Member, shape: Shape, rows: int) -> Opened:
    """What is told of two stripes in turn, a part each.

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
    where what is told waits for no kernel, else for the next stripe first.

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
        Is told how many stripes are done, which makes it wait for the device.
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
    """Brings what was told of a stripe of an earlier batch."""
    assert memory is not None, "the stripes before the first one are in memory"
    told = work.told(stripe)
    told[...] = work.layout.device.from_numpy(memory.read(stripe))
    work.place(stripe)


def _choose(work: Elimination, stripe: int, memory: Memory | None) -> None:
    """Chooses a stripe's pivots."""
    work.choose(stripe)
    if memory is not None:
        memory.write(stripe, work.layout.device.to_numpy(work.told(stripe)))
