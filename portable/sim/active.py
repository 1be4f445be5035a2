"""The set of work-items that take part in what is being executed."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable.sim.values import Value


class Active:
    """An immutable set of work-items of one workgroup.

    Attributes
    ----------
    mask : numpy.ndarray of bool
        Membership by linear local id.
    ids : numpy.ndarray of int
        The members in rising order.
    count : int
        How many there are.
    full : bool
        Whether all work-items of the workgroup are members.
    """

    __slots__ = ("count", "full", "ids", "mask")

    def __init__(self, mask: Value) -> None:
        self.mask = mask
        self.ids: Value = mask.nonzero()[0]
        self.count = int(self.ids.size)
        self.full = self.count == mask.size

    def where(self, condition: Value) -> Active:
        """The members for which the condition holds."""
        return self._narrowed(self.mask & condition)

    def unless(self, condition: Value) -> Active:
        """The members for which the condition does not hold."""
        return self._narrowed(self.mask & ~condition)

    def _narrowed(self, mask: Value) -> Active:
        smaller = Active(mask)
        return self if smaller.count == self.count else smaller

    def joined(self, mask: Value | None) -> Active:
        """The members and those of another mask (None: of none)."""
        return self if mask is None else Active(self.mask | mask)

    def pick(self, x: Any) -> Any:
        """The members' values of an array with one row per work-item."""
        return x if self.full else x[self.ids]

    def spread(self, x: Value) -> Value:
        """An array with one row per work-item from the members' values; the others' are zero."""
        if self.full:
            return x
        out = np.zeros((self.mask.size, *x.shape[1:]), x.dtype)
        out[self.ids] = x
        return out


class LoopMasks:
    """Who has left the innermost loop, and who has only left its present round."""

    __slots__ = ("left", "resting")

    def __init__(self) -> None:
        self.left: Value | None = None
        self.resting: Value | None = None

    def leave(self, members: Active) -> None:
        """These have finished the loop."""
        self.left = members.mask if self.left is None else self.left | members.mask

    def rest(self, members: Active) -> None:
        """These sit out until the next round."""
        self.resting = members.mask if self.resting is None else self.resting | members.mask

    def next_round(self, remaining: Active) -> Active:
        """Who takes part in the next round, given who came to the end of this one."""
        resting, self.resting = self.resting, None
        return remaining.joined(resting)
