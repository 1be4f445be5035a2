"""Members that are processes of MPI."""

from __future__ import annotations

from typing import Any

from portable.parallel.meeting import Meeting

__all__ = ["MPIMeeting", "local_rank"]


class MPIMeeting(Meeting):
    """A process of a communicator of ``mpi4py``.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        It is duplicated, so that messages of ours meet none of others.
    """

    def __init__(self, comm: Any) -> None:
        self._comm = comm.Dup()
        self.rank = int(comm.Get_rank())
        self.size = int(comm.Get_size())

    def exchange(self, value: Any) -> list[Any]:
        """By ``allgather``."""
        return list(self._comm.allgather(value))

    def send(self, value: Any, to: int) -> None:
        """By ``send``."""
        self._comm.send(value, dest=to)

    def receive(self, source: int) -> Any:
        """By ``recv``."""
        return self._comm.recv(source=source)


def local_rank(comm: Any) -> int:
    """The number of this process among those on its machine."""
    from mpi4py import MPI

    near = comm.Split_type(MPI.COMM_TYPE_SHARED)
    try:
        return int(near.Get_rank())
    finally:
        near.Free()
