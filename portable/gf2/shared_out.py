"""The special elimination with columns shared out among processes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from portable.backend import Device
from portable.gf2.elimination import Order, Progress
from portable.gf2.packing import Words
from portable.gf2.parts import Part, words_held
from portable.gf2.schedule import NoMemory, run_stripes
from portable.gf2.team import Team
from portable.gf2.tuning import Shape, shape_for

__all__ = ["Shares", "eliminated_together", "owners_of"]


@dataclass(frozen=True, slots=True)
class Shares:
    """Which stripes of a batch are whose: stripe g is process ``(g - first) % size``'s.

    Attributes
    ----------
    order : Order
        Of the columns.
    width : int
        Words of a stripe.
    size : int
        Processes.
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
        """Those of a process."""
        return range(self.first + rank, self.last, self.size)

    def words(self, rank: int) -> NDArray[np.int64]:
        """The words of a row that they are, ascending."""
        return words_held(self.stripes(rank), self.width, self.order)

    def joined(self, parts: list[Words]) -> Words:
        """Rows of which each process has its words."""
        out = np.zeros((len(parts[0]), self.order.words), np.uint64)
        for rank, part in enumerate(parts):
            out[:, self.words(rank)] = part
        return out


def owners_of(leads: NDArray[np.int64], order: Order) -> NDArray[np.int32]:
    """The eliminator that leads at each place, -1 where there is none."""
    owners = np.full(64 * order.words, -1, np.int32)
    owners[order.turned(leads)] = np.arange(leads.size)
    return owners


def eliminated_together(
    eliminators: Words,
    rows: Words,
    leads: NDArray[np.int64],
    shares: Shares,
    device: Device,
    team: Team,
    *,
    shape: Shape | None = None,
    progress: Progress | None = None,
) -> tuple[Words, NDArray[np.bool_]]:
    """This process' words of the reduced rows, and which rows were promoted.

    `eliminators` and `rows` are the words that ``shares.words(team.rank)`` names, of all rows;
    `leads` the leading columns of all eliminators.
    """
    part = Part(
        rows,
        eliminators,
        owners_of(leads, shares.order),
        shares.stripes(team.rank),
        shares.order,
        device,
        shape or shape_for(device.capabilities),
    )
    follow = None if progress is None else lambda done: progress(done / shares.last)
    pivots = run_stripes(part, team, shares.first, shares.last, NoMemory(), follow)
    promoted = np.zeros(len(rows), np.bool_) if pivots is None else pivots.rests >= 0
    return part.words(), promoted
