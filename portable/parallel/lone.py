"""What a member that has nobody to meet does instead of collectives: copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from portable.backend import Device
from portable.backend.collectives import Collectives


class Lone(Collectives):
    """The collectives of a group of one, in the order of the device's queue.

    Parameters
    ----------
    device : Device
    """

    name = "itself"
    replays = True

    def __init__(self, device: Device) -> None:
        self._device: Final = device

    def all_reduce(self, x: Any, out: Any, op: str = "sum") -> None:
        """The array itself.

        Parameters
        ----------
        x, out : array
            Alike.
        op : str
            Of no matter.
        """
        here, there = self._device.view(x), self._device.view(out)
        if (here.owner, here.address) != (there.owner, there.address):
            out[...] = x

    reduce_scatter = all_gather = all_reduce

    def broadcast(self, x: Any, root: int) -> None:
        """It has its own."""

    def start_gather(self, x: Any, outs: Sequence[Any]) -> Callable[[], None]:
        """In order."""
        self.all_reduce(x, outs[0])
        return _arrived

    def start_broadcast(self, x: Any, root: int) -> Callable[[], None]:
        """Nothing is under way."""
        return _arrived


def _arrived() -> None:
    """What was enqueued in order needs no waiting for."""
