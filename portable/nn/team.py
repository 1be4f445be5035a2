"""Those who train a network together: how batches are shared out and gradients added up."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any, Final

import numpy as np

from portable.backend import Device
from portable.parallel import Member, Transfer
from portable.parallel.meeting import Interrupts

_BUCKET: Final = 2**20
"""Bytes of gradients that are sent at a time: less is not worth the way."""

_OFTEN: Final = 0.2
_SELDOM: Final = 1.0
"""Seconds between meetings of processes to hear of Ctrl-C: at least, if steps allow, at most."""

_Numbers = np.ndarray[Any, Any]


class AllInterrupted(KeyboardInterrupt):
    """Ctrl-C in some process, raised in all of them at the same place."""


class Team:
    """What training asks of those who do it: here one that does all of it.

    Attributes
    ----------
    alone : bool
        Whether there is nobody else.
    """

    alone = True

    def part(self, count: int) -> slice:
        """Which of so many samples are this member's."""
        return slice(0, count)

    def largest_part(self, count: int) -> int:
        """The most samples that are a member's, of so many."""
        return count

    def ready(self, gradient: Any, start: int) -> None:
        """Says that this member's gradient is there from `start` on to the end."""

    def finish(self, gradient: Any) -> None:
        """Makes it the sum over all members, before what is enqueued next."""

    def replay(self, device: Device, steps: Callable[[], object]) -> Callable[[], object]:
        """What takes the same steps at each call, at the least cost; as of `Device.replay`."""
        return device.replay(steps)

    def totals(self, numbers: _Numbers) -> _Numbers:
        """Sums of a few numbers over all members, the same for each of them."""
        return numbers

    def align(self, vector: Any) -> None:
        """Makes a vector what it is for the first member, if rounding may have set them apart."""

    def share(self, vector: Any) -> None:
        """Makes a vector what it is for the first member."""

    def hear(self) -> None:
        """From here on Ctrl-C raises `KeyboardInterrupt` in all members at the same place."""

    def meet(self) -> None:
        """Where all members are between epochs: raises `AllInterrupted` if one of them was."""

    def is_left_by(self, error: KeyboardInterrupt) -> bool:
        """Whether an interruption took this member alone, and the others wait for it."""
        return False


class Together(Team):
    """A member of a group, each of which has the whole network.

    Parts of the gradient are added up over the members as soon as they are there, beside the way
    back through the layers before (S. Li et al., "PyTorch Distributed", VLDB 2020).
    """

    alone = False

    def __init__(self, member: Member) -> None:
        self._member = member
        kinds = member.exchange((member.device.backend, member.device.capabilities.name))
        self._alike = all(kind == kinds[0] for kind in kinds)
        self._transfers: list[Transfer] = []
        self._begun: int | None = None
        self._interrupts: Interrupts | None = None
        self._until_heard = self._steps_unheard = 1
        self._heard = monotonic()

    def part(self, count: int) -> slice:
        """An even share."""
        return self._member.part(count)

    def largest_part(self, count: int) -> int:
        """That of the first member."""
        return -(-count // self._member.size)

    def ready(self, gradient: Any, start: int) -> None:
        """Starts to add up what is there, if that is enough to be worth it."""
        end = gradient.shape[0] if self._begun is None else self._begun
        if (end - start) * gradient.dtype.itemsize >= _BUCKET:
            self._start(gradient[start:end])
            self._begun = start

    def finish(self, gradient: Any) -> None:
        """Adds up the rest, and waits for all of it."""
        self._start(gradient[: self._begun])
        with np.errstate(over="ignore", invalid="ignore"):
            for transfer in self._transfers:
                transfer.wait()
        self._transfers, self._begun = [], None
        # What a library's collectives are captured with is replayed without this.
        if self._member.by_host:
            self._until_heard -= 1
            if not self._until_heard:
                self.meet()

    def hear(self) -> None:
        """Processes note it until they meet; threads are told where they meet next."""
        self._interrupts = self._member.interrupts()

    def meet(self) -> None:
        """Processes tell each other, all at the same steps: a few times in a second."""
        if self._interrupts is None:
            return
        state = self._interrupts.came, monotonic() - self._heard
        came, seconds = zip(*self._member.exchange(state), strict=True)
        if any(came):
            self._interrupts.answered = True
            raise AllInterrupted
        if max(seconds) < _OFTEN:
            self._steps_unheard *= 2
        elif max(seconds) > _SELDOM:
            self._steps_unheard = max(1, self._steps_unheard // 4)
        self._until_heard, self._heard = self._steps_unheard, monotonic()

    def is_left_by(self, error: KeyboardInterrupt) -> bool:
        """Of processes, by a second Ctrl-C."""
        return self._interrupts is not None and not isinstance(error, AllInterrupted)

    def _start(self, part: Any) -> None:
        # Steps whose gradients are beyond half precision are left out: no matter to warn of.
        with np.errstate(over="ignore", invalid="ignore"):
            if part.shape[0]:
                self._transfers.append(self._member.start_all_reduce(part, agreed=True))

    def replay(self, device: Device, steps: Callable[[], object]) -> Callable[[], object]:
        """With the collectives among them."""
        return self._member.replay(steps)

    def totals(self, numbers: _Numbers) -> _Numbers:
        """By way of the host, in the order of the members."""
        return np.asarray(np.sum(self._member.exchange(numbers), axis=0))

    def align(self, vector: Any) -> None:
        """A broadcast, if there are devices of several kinds."""
        if not self._alike:
            self._member.broadcast(vector)

    def share(self, vector: Any) -> None:
        """A broadcast."""
        self._member.broadcast(vector)
