"""Members that are processes of MPI."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic, sleep
from traceback import print_exception
from typing import Any, Final

import numpy as np

from portable.dtypes import dtype
from portable.errors import BackendUnavailableError
from portable.parallel.interrupts import Interrupts
from portable.parallel.meeting import Array, Meeting, Operation

_COUNTS: Final = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_SIZE")
"""What starters of MPI programs say the number of processes by."""

_GRACE: Final = 3.0
"""Seconds in which processes fail together: what refuses something refuses it to all of them."""

_LOOK: Final = 1e-3


class MPIMeeting(Meeting):
    """A process of a communicator of ``mpi4py``.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        It is duplicated, so that messages of ours meet none of others, nor failures messages.
    """

    def __init__(self, comm: Any) -> None:
        self._comm = comm.Dup()
        self._failures = comm.Dup()
        self.rank = int(comm.Get_rank())
        self.size = int(comm.Get_size())
        if not isinstance(sys.excepthook, _EndsAll):
            sys.excepthook = _EndsAll(self, sys.excepthook)

    def exchange(self, value: Any) -> list[Any]:
        """By ``allgather``."""
        return list(self._comm.allgather(value))

    def send(self, value: Any, to: int) -> None:
        """By ``send``."""
        self._comm.send(value, dest=to)

    def receive(self, source: int) -> Any:
        """By ``recv``."""
        return self._comm.recv(source=source)

    def start_broadcast(self, x: Any, root: int) -> Callable[[], Any]:
        """By ``Ibcast``."""
        request = self._comm.Ibcast(x.view(np.uint8), root)

        def arrived() -> Any:
            request.Wait()
            return x

        return arrived

    def start_combine(self, x: Array, op: Operation) -> Callable[[], Array]:
        """By ``Iallreduce``, for the numbers that MPI has, and shorter floats as single ones."""
        kind = dtype(x.dtype)
        if kind.kind not in "iuf":
            return super().start_combine(x, op)
        from mpi4py import MPI

        short = kind.kind == "f" and kind.itemsize == 2
        staged = np.array(x, np.float32 if short else x.dtype, order="C")
        request = self._comm.Iallreduce(MPI.IN_PLACE, staged, getattr(MPI, op.upper()))

        def arrived() -> Array:
            request.Wait()
            return staged

        return arrived

    def all_to_all(self, parts: Sequence[Any]) -> list[Any]:
        """By ``alltoall``."""
        return list(self._comm.alltoall(list(parts)))

    def interrupts(self) -> Interrupts:
        """Of this process."""
        return Interrupts(self.rank, self.size)

    def fail(self, error: BaseException) -> None:
        """By ``Abort``, with status 1, after the traceback that Python has no time to print."""
        self.fail_with(error, partial(print_exception, error))

    def fail_with(self, error: BaseException, show: Callable[[], object]) -> None:
        """As `fail`, where something else shows the error."""
        all_fail, end = self._failures.Ibarrier(), monotonic() + _GRACE
        while not all_fail.Test():
            if monotonic() > end:
                show()
                print(  # noqa: T201  (the processes end before anybody could tell the user)
                    f"process {self.rank} of {self.size} failed, which ends them all: "
                    f"{type(error).__name__}: {error}",
                    file=sys.stderr,
                    flush=True,
                )
                self._comm.Abort(1)
            sleep(_LOOK)


class _EndsAll:
    """What Python calls for an error that ends this process, beside which the others wait for ever.

    Ctrl-C is one wherever it comes: in the user's lines between two runs, or as a run is set up.
    """

    def __init__(self, meeting: MPIMeeting, before: Callable[..., object]) -> None:
        self._meeting = meeting
        self._before = before

    def __call__(self, kind: Any, error: BaseException, trace: Any) -> None:
        self._before(kind, error, trace)
        self._meeting.fail_with(error, lambda: None)


def local_rank(comm: Any) -> int:
    """The number of this process among those on its machine."""
    from mpi4py import MPI

    near = comm.Split_type(MPI.COMM_TYPE_SHARED)
    try:
        return int(near.Get_rank())
    finally:
        near.Free()


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
