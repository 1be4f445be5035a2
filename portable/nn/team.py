"""Those who train a network together: how batches are shared out and gradients added up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from portable.backend import Device
from portable.parallel import Member, Transfer

__all__ = ["Alone", "Team", "Together"]

_BUCKET: Final = 2**20
"""Bytes of gradients that are sent at a time: less is not worth the way."""

_Numbers = np.ndarray[Any, Any]


class Team(ABC):
    """What training asks of those who do it."""

    @abstractmethod
    def part(self, count: int) -> slice:
        """Which of so many samples are this member's."""

    @abstractmethod
    def largest_part(self, count: int) -> int:
        """The most samples that are a member's, of so many."""

    @abstractmethod
    def ready(self, gradient: Any, start: int) -> None:
        """Says that this member's gradient is there from `start` on to the end."""

    @abstractmethod
    def finish(self, gradient: Any) -> None:
        """Makes it the sum over all members, before what is enqueued next."""

    @abstractmethod
    def replay(self, device: Device, steps: Callable[[], object]) -> Callable[[], object]:
        """What takes the same steps at each call, at the least cost; as of `Device.replay`."""

    @abstractmethod
    def totals(self, numbers: _Numbers) -> _Numbers:
        """Sums of a few numbers over all members, the same for each of them."""

    @abstractmethod
    def align(self, vector: Any) -> None:
        """Makes a vector what it is for the first member, if rounding may have set them apart."""


class Alone(Team):
    """One that does all of it."""

    def part(self, count: int) -> slice:
        """All."""
        return slice(0, count)

    def largest_part(self, count: int) -> int:
        """All."""
        return count

    def ready(self, gradient: Any, start: int) -> None:
        """Nobody waits for it."""

    def finish(self, gradient: Any) -> None:
        """It is the sum."""

    def replay(self, device: Device, steps: Callable[[], object]) -> Callable[[], object]:
        """By the device alone."""
        return device.replay(steps)

    def totals(self, numbers: _Numbers) -> _Numbers:
        """The numbers themselves."""
        return numbers

    def align(self, vector: Any) -> None:
        """There is nobody else."""


class Together(Team):
    """A member of a group, each of which has the whole network.

    Parts of the gradient are added up over the members as soon as they are there, beside the way
    back through the layers before (S. Li et al., "PyTorch Distributed", VLDB 2020).
    """

    def __init__(self, member: Member) -> None:
        self._member = member
        kinds = member.exchange((member.device.backend, member.device.capabilities.name))
        self._alike = all(kind == kinds[0] for kind in kinds)
        self._transfers: list[Transfer] = []
        self._begun: int | None = None

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
