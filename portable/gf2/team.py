"""Processes that work together, through MPI; one process alone needs none of it.

All that the package asks of MPI is here: broadcasts that go on meanwhile, exchanges of arrays, and
an end of all processes where one fails.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from portable import registry
from portable.backend import Device
from portable.errors import BackendUnavailableError, PortableError

__all__ = ["Alone", "MPITeam", "Team", "team_of", "world"]

Bytes = NDArray[np.uint8]

_COUNTS: Final = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_SIZE")
"""What starters of MPI programs say the number of processes by."""


class Team(ABC):
    """Processes numbered from 0.

    Attributes
    ----------
    rank, size : int
        The number of this one, and how many there are.
    """

    rank: int = 0
    size: int = 1
    _agreed: BaseException | None = None

    @abstractmethod
    def broadcast(self, data: Bytes, root: int) -> Callable[[], None]:
        """Starts to send `data` of process `root` to all others'; the result waits for it."""

    @abstractmethod
    def exchange(self, parts: Sequence[Any]) -> list[Any]:
        """Part i goes to process i; what they sent to this one, by their numbers."""

    @abstractmethod
    def gather(self, part: Any) -> list[Any]:
        """The parts of all, for all."""

    def device(self, wanted: str | Device | None) -> Device:
        """The device of this process: of several GPUs alike, one for each process of a machine."""
        return registry.device(wanted)

    def wait(self) -> None:
        """Until all have come here."""
        self.gather(None)

    @contextmanager
    def agreeing(self) -> Iterator[None]:
        """Raises an error in all processes alike where some meet one in the block; the first's."""
        met: Exception | None = None
        try:
            yield
        except (PortableError, OSError, ValueError) as error:
            met = error
        first = next((error for error in self.gather(met) if error is not None), None)
        if first is not None:
            self._agreed = first
            raise first

    def together(self, work: Callable[[], Any]) -> Any:
        """What `work` gives; where it fails in one process alone, all end, with one message."""
        return work()


class Alone(Team):
    """The one process."""

    def broadcast(self, data: Bytes, root: int) -> Callable[[], None]:
        """See `Team`."""
        del data, root
        return lambda: None

    def exchange(self, parts: Sequence[Any]) -> list[Any]:
        """See `Team`."""
        return list(parts)

    def gather(self, part: Any) -> list[Any]:
        """See `Team`."""
        return [part]


class MPITeam(Team):
    """The processes of a communicator of mpi4py."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self.rank, self.size = comm.Get_rank(), comm.Get_size()

    def broadcast(self, data: Bytes, root: int) -> Callable[[], None]:
        """See `Team`."""
        request = self._comm.Ibcast(data, root)
        return cast(Callable[[], None], request.Wait)

    def exchange(self, parts: Sequence[Any]) -> list[Any]:
        """See `Team`."""
        return list(self._comm.alltoall(list(parts)))

    def gather(self, part: Any) -> list[Any]:
        """See `Team`."""
        return list(self._comm.allgather(part))

    def device(self, wanted: str | Device | None) -> Device:
        """See `Team`."""
        chosen = registry.device(wanted)
        if wanted is not None or os.environ.get("PORTABLE_BACKEND"):
            return chosen
        alike = [
            d
            for d in registry.devices()
            if d.backend == chosen.backend and d.capabilities.name == chosen.capabilities.name
        ]
        return alike[self._local_rank() % len(alike)]

    def _local_rank(self) -> int:
        """The number of this process among those of its machine."""
        from mpi4py import MPI

        near = self._comm.Split_type(MPI.COMM_TYPE_SHARED)
        rank = int(near.Get_rank())
        near.Free()
        return rank

    def together(self, work: Callable[[], Any]) -> Any:
        """See `Team`."""
        try:
            return work()
        except BaseException as error:
            if error is self._agreed:
                raise
            kind = type(error).__name__
            print(  # noqa: T201  (the processes end before anybody could tell the user)
                f"process {self.rank} of {self.size} failed, which ends them all: {kind}: {error}",
                file=sys.stderr,
                flush=True,
            )
            self._comm.Abort(1)
            raise


def team_of(comm: Any) -> Team:
    """The processes of a communicator; this one alone for None."""
    return Alone() if comm is None else MPITeam(comm)


def world() -> Any:
    """The communicator of all processes that mpiexec started with this one; None for one alone.

    Raises
    ------
    BackendUnavailableError
        If it was started so, and mpi4py is missing.
    """
    if not any(int(os.environ.get(name) or 1) > 1 for name in _COUNTS):
        return None
    try:
        from mpi4py import MPI
    except ImportError:
        raise BackendUnavailableError(
            "several processes were started, which takes mpi4py: pip install 'portable-arrays[mpi]'"
        ) from None
    return MPI.COMM_WORLD
