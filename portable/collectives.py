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

    def abort(self) -> None:  # noqa: B027 - a library may have no such thing
        """May: end what is under way, since others will not come; it is of no use any more."""
