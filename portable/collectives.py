"""What a vendor's library of collectives does for one device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Collectives"]


class Collectives(ABC):
    """One device's part in collectives of its vendor's library, enqueued on its current stream.

    Arrays are contiguous; `op` is "sum", "max" or "min".

    Attributes
    ----------
    name : str
        The library's.
    replays : bool
        Whether `Device.replay` may take them up.
    """

    name: str
    replays: bool = False

    @abstractmethod
    def all_reduce(self, x: Any, out: Any, op: str) -> None:
        """Must: combine all devices' `x` into `out`, which may be `x`.

        Parameters
        ----------
        x, out : array
            Alike.
        op : {"sum", "max", "min"}
        """

    def start_all_reduce(self, x: Any, out: Any, op: str) -> Callable[[], None]:
        """Should: the same, beside what is enqueued next; what is returned has later work wait.

        Parameters
        ----------
        x, out, op
            As of `all_reduce`.
        """
        self.all_reduce(x, out, op)
        return lambda: None

    @abstractmethod
    def reduce_scatter(self, x: Any, out: Any, op: str) -> None:
        """Must: combine all devices' `x` and keep this one's part.

        Parameters
        ----------
        x : array, shape (devices * n, ...)
        out : array, shape (n, ...)
        op : {"sum", "max", "min"}
        """

    @abstractmethod
    def all_gather(self, x: Any, out: Any) -> None:
        """Must: put all devices' `x` into `out`, one after the other."""

    @abstractmethod
    def broadcast(self, x: Any, root: int) -> None:
        """Must: put the `x` of device `root` into everybody's."""

    @abstractmethod
    def start_gather(self, x: Any, outs: Sequence[Any]) -> Callable[[], None]:
        """Must: put device r's `x` into ``outs[r]``, beside what is enqueued next.

        Returns
        -------
        callable
            Makes what is enqueued from then on wait for it.
        """

    @abstractmethod
    def start_broadcast(self, x: Any, root: int) -> Callable[[], None]:
        """Must: the same of `broadcast`."""

    def offer(self, arrays: Sequence[Any]) -> object | None:
        """May: what other devices need to write into arrays of this one; None if they cannot."""
        return None

    def writer(
        self, offers: Sequence[Any]
    ) -> Callable[[Sequence[tuple[Any, int]]], Callable[[], None]] | None:
        """May: what writes into the arrays that all devices offer.

        Parameters
        ----------
        offers : sequence
            What each device offers, by number; its arrays stay where they are.

        Returns
        -------
        callable or None
            It takes pairs of an array and the number of those, one of each device, that it is to be
            written to. All devices call it, each with its own pairs, and what it returns makes what
            is enqueued from then on wait for all of them. None if this device cannot write there.
        """
        return None

    def abort(self) -> None:  # noqa: B027 - a library may have no such thing
        """May: end what is under way, since others will not come; it is of no use any more."""
