"""Groups of devices, in one process or several."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from socket import gethostname
from typing import Any, Final

from portable import registry
from portable.backend import Collectives, Device
from portable.errors import DeviceError, PortableError
from portable.parallel.meeting import (
    Meeting,
    MPIMeeting,
    ParallelError,
    Room,
    ThreadMeeting,
    local_rank,
)
from portable.parallel.member import Kept, Member

_PATIENCE: Final = 600.0


def group(where: Any, *, device: str | Device | None = None, patience: float = _PATIENCE) -> Group:
    """A group over devices of this process, or over the processes of an MPI communicator.

    Parameters
    ----------
    where : sequence of str or Device, or mpi4py.MPI.Comm
        A member for each device, which may be named several times; or a member for each process.
    device : str or Device, optional
        Of this process, with a communicator: if left out the GPU that has the number of the process
        on its machine, or the device in use where there are not as many.
    patience : float
        Seconds for which members of one process wait for each other before it is an error.

    Raises
    ------
    DeviceError
        If there are no devices.

    Examples
    --------
    >>> from portable import parallel
    >>> parallel.group(["simulator"] * 3)
    <group of 3: simulator, simulator, simulator>
    """
    if hasattr(where, "Get_rank"):
        return _over_processes(where, device, patience)
    if isinstance(where, str):
        where = [where]
    if not isinstance(where, Iterable):
        raise TypeError(
            f"a group is made of devices, such as ['cuda:0', 'cuda:1'], or of a communicator of "
            f"mpi4py, not of {type(where).__name__} {where!r}"
        )
    devices = [registry.device(name) for name in where]
    if not devices:
        raise DeviceError("a group takes at least one device")
    return Group(devices, patience=patience)


def _over_processes(comm: Any, device: str | Device | None, patience: float) -> Group:
    chosen = _own_device(comm) if device is None else registry.device(device)
    return Group([chosen], MPIMeeting(comm), patience=patience)


def _own_device(comm: Any) -> Device:
    """By the number of the process on its machine, of devices like the one in use."""
    in_use = registry.device()
    alike = [d for d in registry.devices_of_backend(in_use.backend) if d.words == in_use.words]
    rank = local_rank(comm)
    return alike[rank] if rank < len(alike) else in_use


class Group:
    """Members that work together; made by `group`.

    Attributes
    ----------
    devices : tuple of Device
        Those of this process.
    size : int
        How many members there are in all processes.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        meeting: Meeting | None = None,
        *,
        patience: float = _PATIENCE,
    ) -> None:
        self.devices: Final = tuple(devices)
        self.size: Final = len(devices) if meeting is None else meeting.size
        self._meeting = meeting
        self._patience = patience
        self._libraries: list[Collectives | None] | None = None
        self._kept: list[dict[str, Kept]] = [{} for _ in devices]

    def __repr__(self) -> str:
        names = ", ".join(d.name for d in self.devices)
        return f"<group of {self.size}: {names}{'' if self._meeting is None else ' and others'}>"

    def run(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Calls a function for each member of this process, each in a thread of its own.

        Parameters
        ----------
        function : callable
            Takes a `Member` and `args`. Its member's device is in use in it.
        *args
            The same for all.

        Returns
        -------
        list
            What it returned, by member.

        Raises
        ------
        Exception
            What the first member to fail raised; the others, who waited for it, stop. Of
            processes one that fails alone ends them all, with its traceback and a message.
        """
        if self._meeting is not None:
            return [self._called_among_processes(self._meeting, function, args)]
        if self._libraries is None:
            self._libraries = _in_one_process(self.devices)
        room = Room(self.size, self._patience)
        seats = [
            Member(ThreadMeeting(room, rank), device, library, kept)
            for rank, (device, library, kept) in enumerate(
                zip(self.devices, self._libraries, self._kept, strict=True)
            )
        ]
        try:
            return _together(seats, room, function, args)
        except BaseException:
            self._give_up()
            raise

    def _called_among_processes(
        self, meeting: Meeting, function: Callable[..., Any], args: tuple[Any, ...]
    ) -> Any:
        try:
            library = self._joined(meeting)[0]
            member = Member(meeting, self.devices[0], library, self._kept[0])
            with member.ending:
                result = _called(member, function, args)
                member.returns()
        except BaseException as error:
            meeting.fail(error)
            for library in self._libraries or ():
                if library is not None:
                    library.abort()
            self._give_up()
            raise
        return result

    def _give_up(self) -> None:
        """Forgets what failed members abandoned, when no device writes into it any more."""
        if any(self._libraries or self._kept):
            for device in self.devices:
                with suppress(PortableError):
                    device.synchronize()
        self._libraries, self._kept = None, [{} for _ in self.devices]

    def _joined(self, meeting: Meeting) -> list[Collectives | None]:
        """The vendor's library among processes, if all have the same one."""
        if self._libraries is None:
            device = self.devices[0]
            key = device.collectives_key() if meeting.rank == 0 else None
            offered = meeting.exchange((device.backend, (gethostname(), device.name), key))
            backends, places, keys = zip(*offered, strict=True)
            # No vendor's library takes two processes on one device.
            apart = len(set(places)) == meeting.size > 1 and len(set(backends)) == 1
            library = None
            if apart and keys[0] is not None:
                library = device.join_collectives(keys[0], meeting.rank, meeting.size)
            self._libraries = [library]
        return self._libraries


def _in_one_process(devices: Sequence[Device]) -> list[Collectives | None]:
    """The vendor's library, where all devices are different ones of a backend that has one."""
    nothing: list[Collectives | None] = [None] * len(devices)
    if len(devices) < 2 or len(set(devices)) < len(devices):
        return nothing
    if len({d.backend for d in devices}) > 1:
        return nothing
    collectives = devices[0].collectives(devices)
    return nothing if collectives is None else list(collectives)


def _together(
    seats: list[Member], room: Room, function: Callable[..., Any], args: tuple[Any, ...]
) -> list[Any]:
    results: list[Any] = [None] * len(seats)
    errors: list[tuple[int, BaseException]] = []

    def work(member: Member) -> None:
        try:
            results[member.rank] = _called_beside_others(member, function, args)
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            errors.append((member.rank, error))
            room.leave(member.rank, f"failed: {error}")
            for seat in seats:
                seat.abandon()
        else:
            room.leave(member.rank, "has returned")

    threads = [threading.Thread(target=work, args=(seat,), daemon=True) for seat in seats]
    for thread in threads:
        thread.start()
    _wait_for_all(room)
    if errors:
        raise _first_cause(errors)
    return results


def _wait_for_all(room: Room) -> None:
    """Waits for the members; Ctrl-C reaches all of them, and a second one goes to the caller."""
    try:
        room.wait_until_empty()
    except KeyboardInterrupt:
        room.interrupt()
        room.wait_until_empty()


def _first_cause(errors: list[tuple[int, BaseException]]) -> BaseException:
    """What went wrong, rather than that others waited for it."""
    causes = [error for _, error in errors if not isinstance(error, ParallelError)]
    return causes[0] if causes else errors[0][1]


def _called(member: Member, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    with member.device.stream_scope(), registry.use(member.device):
        return function(member, *args)


def _called_beside_others(
    member: Member, function: Callable[..., Any], args: tuple[Any, ...]
) -> Any:
    """In a process that members share, where one may keep others out of the driver."""
    device = member.device
    with device.thread_scope(), device.before_waits(member.settle):
        result = _called(member, function, args)
        member.settle()
        return result
