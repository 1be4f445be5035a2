"""How the members of a group meet on the host: as threads of a process, or as processes by MPI."""

from __future__ import annotations

import os
import signal
import sys
import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from traceback import print_exception
from types import FrameType
from typing import Any, Final, Literal, Self

import numpy as np

from portable.dtypes import dtype
from portable.errors import BackendUnavailableError, PortableError

# Ctrl-C among processes that work together: noted, for all of them to stop at the same place.


class Interrupts:
    """A block in which Ctrl-C raises nothing at first; a context manager.

    A process that left alone what all do together would leave the others waiting for ever. So the
    first Ctrl-C is noted, for this process to tell the others where they meet next, and the second
    one raises KeyboardInterrupt. One that came too late to be told is raised at the block's end.

    Attributes
    ----------
    answered : bool
        Whether all end early for one that came in some process; set by who hears of it.

    Parameters
    ----------
    rank, size : int
        Of the process.
    """

    def __init__(self, rank: int, size: int) -> None:
        self._who: Final = f"process {rank} of {size}"
        self._came = False
        self._before: Any = None
        self.answered = False

    @property
    def came(self) -> bool:
        """Whether there was one."""
        return self._came

    def __enter__(self) -> Self:
        # Another handler than Python's is the user's, who has decided what Ctrl-C means.
        is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if is_default and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._noted)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None
        if kind is None and self._came and not self.answered:
            raise KeyboardInterrupt

    def _noted(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._came:
            raise KeyboardInterrupt
        self._came = True
        text = f"{self._who} was interrupted: all end together soon; once more, and all end now\n"
        # The stream's own buffer may be in use, which is interrupted here.
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, text.encode())


# -- meeting ---------------------------------------------------------------------------------------

Array = np.ndarray[Any, Any]
Operation = Literal["sum", "max", "min"]

COMBINE: Final[dict[Operation, Callable[..., Any]]] = {
    "sum": np.sum,
    "max": np.max,
    "min": np.min,
}
"""How arrays are combined along an axis."""

_LOOK: Final = 2e-5
_SELDOM: Final = 1e-3
"""Seconds between looks for those who are to join: at first, and at most."""

_Way = tuple[int, int, str]
"""From whom, to whom, and what kind of thing."""


class ParallelError(PortableError, RuntimeError):
    """Members of a group do not come together: one has left, is late, or means another thing."""


class Meeting(ABC):
    """One member's way to the others.

    Attributes
    ----------
    rank, size : int
        The member's number, and how many there are.
    """

    rank: int
    size: int

    @abstractmethod
    def exchange(self, value: Any) -> list[Any]:
        """What each member brings, by rank; each brings something. Waits for all."""

    @abstractmethod
    def send(self, value: Any, to: int) -> None:
        """Gives something to one other member."""

    @abstractmethod
    def receive(self, source: int) -> Any:
        """Waits for what another member sends."""

    @abstractmethod
    def start_broadcast(self, x: Array, root: int) -> Callable[[], Array]:
        """Begins to send member `root`'s array to those who bring one like it.

        What is returned waits for the array, which may be `x` itself.
        """

    def start_combine(self, x: Array, op: Operation) -> Callable[[], Array]:
        """Begins to combine all members' arrays, which are alike; what is returned waits for it."""
        combined = COMBINE[op](np.stack(self.exchange(x)), axis=0)
        return lambda: combined

    def all_to_all(self, parts: Sequence[Any]) -> list[Any]:
        """Gives part i to member i; what they gave to this one, by rank. Waits for all."""
        return [given[self.rank] for given in self.exchange(list(parts))]

    def enqueued(self) -> None:  # noqa: B027 - processes need none
        """Says that this member has enqueued a collective."""

    def settle(self) -> None:  # noqa: B027 - processes need none
        """Waits until all members have enqueued as many collectives as this one; threads do.

        A thread does so before it may wait for its device and keep others out of the driver: to
        load a program, to take memory. In a process that the others share it would wait for ever
        for those which it keeps from joining the collective.
        """

    def interrupts(self) -> Interrupts | None:
        """What notes Ctrl-C until members meet; None of threads, which one of them wakes."""
        return None

    def fail(self, error: BaseException) -> None:  # noqa: B027 - threads need none
        """Ends all members, who would wait for ever for this one, unless they fail as well."""


class Room:
    """Where threads of a process meet.

    Parameters
    ----------
    size : int
        How many.
    patience : float
        Seconds that members wait for each other.
    """

    def __init__(self, size: int, patience: float) -> None:
        self.size: Final = size
        self.patience: Final = patience
        self._changed = threading.Condition()
        self._round = 0
        self._brought: dict[int, Any] = {}
        self._last: list[Any] = []
        self._enqueued = [0] * size
        self._left: dict[int, str] = {}
        self._interrupted = False
        self._mail: defaultdict[_Way, SimpleQueue[Any]] = defaultdict(SimpleQueue)

    def leave(self, rank: int, why: str) -> None:
        """Says that a member comes no more, so that nobody waits for it."""
        with self._changed:
            self._left[rank] = why
            self._changed.notify_all()

    def wait_until_empty(self) -> None:
        """Waits until all members have left (a thread's own join is not to be interrupted)."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._left) == self.size)

    def interrupt(self) -> None:
        """Raises KeyboardInterrupt in all members, where they meet next."""
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()

    def exchange(self, rank: int, value: Any) -> list[Any]:
        """As `Meeting.exchange`."""
        with self._changed:
            if self._interrupted:
                raise KeyboardInterrupt
            mine = self._round
            self._brought[rank] = value
            if len(self._brought) == self.size:
                self._last = [self._brought[r] for r in range(self.size)]
                self._brought = {}
                self._round += 1
                self._changed.notify_all()
                return self._last
            self._changed.wait_for(lambda: self._is_over(mine), self.patience)
            if self._round > mine:
                return self._last
            if self._interrupted:
                raise KeyboardInterrupt
            raise self._absence(self._missing())

    def enqueued(self, rank: int) -> None:
        """As `Meeting.enqueued`. Nobody is woken: those who wait look, which costs less."""
        self._enqueued[rank] += 1

    def settle(self, rank: int) -> None:
        """As `Meeting.settle`; Ctrl-C is left to where members meet next."""
        mine, end, pause = self._enqueued[rank], monotonic() + self.patience, _LOOK
        while late := [r for r, count in enumerate(self._enqueued) if count < mine]:
            if self._interrupted:
                return
            if self._gone(late) or monotonic() > end:
                raise self._absence(late)
            sleep(pause)
            pause = min(2 * pause, _SELDOM)

    def _is_over(self, mine: int) -> bool:
        """Whether members need not wait any longer for a round of theirs."""
        return self._round > mine or self._interrupted or bool(self._gone(self._missing()))

    def _missing(self) -> list[int]:
        return [r for r in range(self.size) if r not in self._brought]

    def _gone(self, late: list[int]) -> list[int]:
        """Those of them who will not come."""
        return [r for r in late if r in self._left]

    def _absence(self, late: list[int]) -> ParallelError:
        gone = self._gone(late)
        if gone:
            said = "; ".join(f"member {r} {self._left[r]}" for r in gone)
            return ParallelError(f"a group of {self.size} cannot go on: {said}")
        return ParallelError(
            f"waited {self.patience:g} s for members {late} of {self.size}; give a longer "
            "patience if they are only late"
        )

    def send(self, rank: int, value: Any, to: int, kind: str = "") -> None:
        """As `Meeting.send`; each kind of thing has a way of its own.

        Parameters
        ----------
        rank : int
            Who sends.
        value : object
        to : int
            To whom.
        kind : str
            Which way it takes.
        """
        self._mail[rank, to, kind].put(value)

    def receive(self, rank: int, source: int, kind: str = "") -> Any:
        """As `Meeting.receive`.

        Parameters
        ----------
        rank : int
            Who receives.
        source, kind
            Who sends, and which way.
        """
        end = monotonic() + self.patience
        while monotonic() < end:
            try:
                return self._mail[source, rank, kind].get(timeout=0.05)
            except Empty:
                if self._interrupted:
                    raise KeyboardInterrupt from None
                if source in self._left:
                    raise ParallelError(
                        f"member {rank} waits for member {source}, which {self._left[source]}"
                    ) from None
        raise ParallelError(f"member {rank} waited {self.patience:g} s for member {source}")


class ThreadMeeting(Meeting):
    """A member's seat in a room."""

    def __init__(self, room: Room, rank: int) -> None:
        self.rank = rank
        self.size = room.size
        self._room = room
        self._broadcasts = [0] * room.size

    def exchange(self, value: Any) -> list[Any]:
        """By way of the room."""
        return self._room.exchange(self.rank, value)

    def enqueued(self) -> None:
        """By way of the room."""
        self._room.enqueued(self.rank)

    def settle(self) -> None:
        """By way of the room."""
        self._room.settle(self.rank)

    def send(self, value: Any, to: int) -> None:
        """By way of the room."""
        self._room.send(self.rank, value, to)

    def receive(self, source: int) -> Any:
        """By way of the room."""
        return self._room.receive(self.rank, source)

    def start_broadcast(self, x: Array, root: int) -> Callable[[], Array]:
        """By way of the room; the root waits for nobody. They may be waited for in any order."""
        kind = f"broadcast {self._broadcasts[root]}"
        self._broadcasts[root] += 1
        if self.rank != root:
            return lambda: self._room.receive(self.rank, root, kind)
        for to in range(self.size):
            if to != root:
                self._room.send(root, x, to, kind)
        return lambda: x


# Members that are processes of MPI.

_COUNTS: Final = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_SIZE")
"""What starters of MPI programs say the number of processes by."""

_GRACE: Final = 3.0
"""Seconds in which processes fail together: what refuses something refuses it to all of them."""

_LOOK_FOR_RANKS: Final = 1e-3


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
            sleep(_LOOK_FOR_RANKS)


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
