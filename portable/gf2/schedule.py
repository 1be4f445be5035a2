"""Who does what when an elimination is shared out: broadcasts overlap with the work before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from portable.gf2.parts import Part, Pivots
from portable.gf2.team import Team

__all__ = ["Memory", "NoMemory", "run_stripes"]


class Memory(Protocol):
    """Keeps the pivots of stripes for later batches."""

    def read(self, stripe: int, like: Pivots) -> Pivots:
        """Those of a stripe of an earlier batch."""

    def write(self, stripe: int, pivots: Pivots) -> None:
        """Keeps those of a stripe that was chosen here."""


class NoMemory:
    """Where all columns are in one batch."""

    def read(self, stripe: int, like: Pivots) -> Pivots:
        """Never asked for."""
        raise AssertionError((stripe, like))

    def write(self, stripe: int, pivots: Pivots) -> None:
        """Nothing to keep."""


def run_stripes(
    part: Part,
    team: Team,
    first: int,
    last: int,
    memory: Memory,
    follow: Callable[[int], None] | None = None,
) -> Pivots | None:
    """Eliminates the columns of stripes `first` to `last`, those before being in `memory`.

    Stripe g is held by process ``(g - first) % size``. While the pivots of a stripe travel, those
    of the stripe before are applied to all but the next one, which goes first. `follow` is told how
    many stripes are done.

    Returns
    -------
    Pivots or None
        Those of the last stripe, which know all rows that are pivots; None if there is no stripe.
    """
    pivots: Pivots | None = None
    for stripe in range(first):
        pivots = memory.read(stripe, part.blank())
        part.follow(stripe, pivots, first, last)
    for stripe in range(first, last):
        before, root = pivots, (stripe - first) % team.size
        arrived = _chosen(part, team, stripe, root, before, memory)
        if before is not None and stripe > first:
            part.follow(stripe - 1, before, stripe + 1, last)
        pivots = arrived()
        if (stripe + 1 - first) % team.size == team.rank:
            part.follow(stripe, pivots, stripe + 1, min(stripe + 2, last))
        if follow is not None:
            follow(stripe + 1)
    return pivots


def _chosen(
    part: Part, team: Team, stripe: int, root: int, before: Pivots | None, memory: Memory
) -> Callable[[], Pivots]:
    """Starts sending a stripe's pivots to all; the result waits for them."""
    like = part.blank()
    if team.rank == root:
        rests = np.full(like.rests.shape, -1, np.int32) if before is None else before.rests
        like = part.choose(stripe, rests)
        memory.write(stripe, like)
    if team.size == 1:
        return lambda: like
    data = like.packed()
    wait = team.broadcast(data, root)

    def arrived() -> Pivots:
        wait()
        return like if team.rank == root else like.unpacked(data)

    return arrived
