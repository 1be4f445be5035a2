"""What a vendor's library of collectives does for one device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any


class Writer(ABC):
    """One device's way into arrays that all devices offered; made by `Collectives.writer`.

    All devices call the same, together. What is returned makes what is enqueued from then on wait
    for the transfer.
    """

    @abstractmethod
    def gather(self, x: Any, number: int) -> Callable[[], None]:
        """Must: write `x` into the array of a number of every device, as each of them does.

        Parameters
        ----------
        x : array
            Of this device.
        number : int
            Of the array that it goes to, another one for each device.
        """

    @abstractmethod
    def broadcast(self, x: Any, number: int, root: int) -> Callable[[], None]:
        """Must: write device `root`'s array of a number into that of every device.

        Parameters
        ----------
        x : array
            This device's array of that number.
        number, root : int
        """


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

    def writer(self, offers: Sequence[Any]) -> Writer | None:
        """May: what writes into the arrays that all devices offer; None if this one cannot.

        Parameters
        ----------
        offers : sequence
            What each device offers, by number; its arrays stay where they are.
        """
        return None

    def abort(self) -> None:  # noqa: B027 - a library may have no such thing
        """May: end what is under way, since others will not come; it is of no use any more."""
