"""A member of a group, and what it does together with the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from portable.backend import Device
from portable.backend.collectives import Collectives, Writer
from portable.dtypes import dtype
from portable.errors import PortableError, ShapeError
from portable.namespace import device_of, on_device
from portable.parallel.meeting import COMBINE, Interrupts, Meeting, Operation, ParallelError

# What a member that has nobody to meet does instead of collectives: copies.


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


# -- member ----------------------------------------------------------------------------------------


class Transfer:
    """A transfer that may still be under way.

    Until its `wait`, members that are threads of one process call Portable's functions alone:
    another library would not know that others may have yet to join the transfer, and would wait for
    ever for its device as it loads a program.

    Attributes
    ----------
    result : array or list of arrays
        What it brings; to be used after `wait`.
    """

    def __init__(self, result: Any, wait: Callable[[], None] | None = None) -> None:
        self.result: Final = result
        self._wait = wait

    def wait(self) -> Any:
        """Makes what the device does from here on wait for it; returns `result`."""
        if self._wait is not None:
            self._wait()
            self._wait = None
        return self.result


class Opened(NamedTuple):
    """An array of each member, which others write into.

    Attributes
    ----------
    array : array
        This member's.
    start_broadcast : callable
        Takes the number of a part and the root, and begins a broadcast of that part as
        `Member.start_broadcast` does, with the same root for all. It is not for `Member.replay`.
    direct : bool
        Whether it goes straight into others' memory, which waits for no kernel to end.
    """

    array: Any
    start_broadcast: Callable[[int, int], Transfer]
    direct: bool


class Kept(NamedTuple):
    """What a group keeps of an opened array: its shape, dtype and parts, and what writes."""

    form: tuple[tuple[int, ...], str, int]
    array: Any
    writer: Writer | None


class Member:
    """One of a group; made by `Group.run`.

    Collectives are called by all members, in the same order, with arrays of the same shape and
    dtype; they are refused on every member if these differ. On devices that have a library for
    them they are enqueued after the work already there, and do not wait for it.

    Attributes
    ----------
    rank, size : int
        This member's number, and how many there are.
    device : Device
        Where its arrays live.
    ending : ExitStack
        Closed when all members have returned from a run.
    """

    def __init__(
        self,
        meeting: Meeting,
        device: Device,
        library: Collectives | None,
        kept: dict[str, Kept],
    ) -> None:
        self.rank: Final = meeting.rank
        self.size: Final = meeting.size
        self.device: Final = device
        self.ending: Final = ExitStack()
        self._meeting = meeting
        self._library = Lone(device) if library is None and meeting.size == 1 else library
        self._kept: Final = kept

    def __repr__(self) -> str:
        by = "host" if self._library is None else self._library.name
        return f"<member {self.rank} of {self.size} on {self.device.name}, by {by}>"

    def part(self, count: int) -> slice:
        """This member's share of so many things, in order and as even as can be."""
        each, more = divmod(count, self.size)
        begin = self.rank * each + min(self.rank, more)
        return slice(begin, begin + each + (self.rank < more))

    @property
    def by_host(self) -> bool:
        """Whether collectives go by way of the host, which waits for each of them."""
        return self._library is None

    def barrier(self) -> None:
        """Waits for all members, and for what their devices were given before."""
        self.device.synchronize()
        self._agree("barrier", ())

    def exchange(self, value: Any) -> list[Any]:
        """A small object of each member, by rank."""
        return self._meeting.exchange(value)

    def all_reduce(self, x: Any, op: Operation = "sum", *, out: Any = None) -> Any:
        """The sum, greatest or least of all members' arrays, element by element.

        Parameters
        ----------
        x : array
            Contiguous.
        op : {"sum", "max", "min"}
            How elements are combined; the order of sums is the library's.
        out : array, optional
            Where to put the result; may be `x`.

        Returns
        -------
        array
            `out`, or a new array like `x`.
        """
        self._agree(self._named("all_reduce", op), self._form(x))
        target = self._target(x.shape, x, out)
        if self._library is not None:
            self._library.all_reduce(x, target, op)
            return self._enqueued(target)
        return self._brought(self._meeting.start_combine(self._on_host(x), op)(), target)

    def start_all_reduce(
        self, x: Any, op: Operation = "sum", *, out: Any = None, agreed: bool = False
    ) -> Transfer:
        """Begins an `all_reduce`, beside what comes next.

        For parts of a gradient that are added up while the next part is worked out.

        Parameters
        ----------
        x : array
            Contiguous.
        op : {"sum", "max", "min"}
        out : array, optional
            Where to put the result; `x` if left out.
        agreed : bool
            Whether all members are known to mean the same, as of `start_gather`.

        Returns
        -------
        Transfer
            Its `wait` comes before the result is used or `x` is written again.
        """
        if not agreed:
            self._agree(self._named("start_all_reduce", op), self._form(x))
        target = x if out is None else self._target(x.shape, x, out)
        if self._library is not None:
            return self._started(target, self._library.start_all_reduce(x, target, op))
        arrived = self._meeting.start_combine(self._on_host(x), op)

        def wait() -> None:
            self._brought(arrived(), target)

        return Transfer(target, wait)

    def reduce_scatter(self, x: Any, op: Operation = "sum", *, out: Any = None) -> Any:
        """This member's part of `all_reduce`; the first extent is a multiple of the members.

        Parameters
        ----------
        x : array, shape (size * n, ...)
            Contiguous.
        op : {"sum", "max", "min"}
        out : array, shape (n, ...), optional
            Where to put the result.
        """
        self._agree(self._named("reduce_scatter", op), self._form(x))
        if x.shape[0] % self.size:
            raise ShapeError(f"{x.shape[0]} rows are not shared evenly by {self.size} members")
        target = self._target((x.shape[0] // self.size, *x.shape[1:]), x, out)
        if self._library is not None:
            self._library.reduce_scatter(x, target, op)
            return self._enqueued(target)
        part = self.part(x.shape[0])
        gathered = np.stack([y[part] for y in self._meeting.exchange(self._on_host(x))])
        return self._brought(COMBINE[op](gathered, axis=0), target)

    def all_gather(self, x: Any, *, out: Any = None) -> Any:
        """All members' arrays, one after the other along the first axis.

        Parameters
        ----------
        x : array
            Contiguous, of one dimension at least.
        out : array, optional
            Where to put the result, ``size`` times as long.

        Returns
        -------
        array
            `out`, or a new array.
        """
        self._agree("all_gather", self._form(x))
        target = self._target((x.shape[0] * self.size, *x.shape[1:]), x, out)
        if self._library is not None:
            self._library.all_gather(x, target)
            return self._enqueued(target)
        return self._brought(np.concatenate(self._meeting.exchange(self._on_host(x))), target)

    def start_gather(self, x: Any, outs: Sequence[Any], *, agreed: bool = False) -> Transfer:
        """Begins to bring each member's `x` into ``outs[rank]`` of all, beside what comes next.

        For parts of a larger array that are gathered while the next part is worked out.

        Parameters
        ----------
        x : array
            Contiguous.
        outs : sequence of array
            A contiguous one for each member, like `x`.
        agreed : bool
            Whether all members are known to mean the same, so that they need not be compared, for
            which they would wait for each other.

        Returns
        -------
        Transfer
            Its `wait` comes before the outs are used or `x` is written again.
        """
        if not agreed:
            self._agree("start_gather", self._form(x))
        if self._library is not None:
            return self._started(outs, self._library.start_gather(x, outs))
        for part, out in zip(self._meeting.exchange(self._on_host(x)), outs, strict=True):
            self._brought(part, out)
        return Transfer(outs)

    def prepare_gather(self, x: Any, outs: Sequence[Any]) -> Callable[[], Transfer]:
        """What begins the same gather at each call, at the least cost to what goes on beside it.

        All members call it, and what it gives, together. GPUs of one machine write straight into
        each other's memory where they can, which leaves their units to kernels.

        Parameters
        ----------
        x, outs
            As of `start_gather`; they must stay where they are.
        """
        self._agree("prepare_gather", self._form(x))
        write = self._writer(outs)
        if write is None:
            return partial(self.start_gather, x, outs, agreed=True)
        return lambda: self._started(outs, write.gather(x, self.rank))

    def opened(self, name: str, shape: tuple[int, ...], kind: Any, *, parts: int) -> Opened:
        """An array for broadcasts, which GPUs of one machine write into each other's.

        To open memory takes milliseconds: where that is the way, the group keeps the array from
        run to run, until it is asked for another one of that name.

        Parameters
        ----------
        name : str
            What it is for. There is one array of each name.
        shape : tuple of int
        kind : dtype-like
        parts : int
            Into how many parts it is cut along the first axis, evenly.

        Returns
        -------
        Opened
            This member's array, which holds anything at first, and what begins broadcasts.

        Raises
        ------
        ShapeError
            If the first extent is no multiple of `parts`.
        """
        if parts < 1 or shape[0] % parts:
            raise ShapeError(
                f"an array of shape {tuple(shape)} is not cut into {parts} even parts along its "
                "first axis; give a first extent that `parts` divides"
            )
        form = tuple(shape), dtype(kind).name, parts
        self._agree(f"opened {name}", form)
        kept = self._kept.get(name)
        if kept is None or kept.form != form:
            self._kept.pop(name, None)  # before there is another one beside it
            array = self.device.empty(shape, dtype(kind))
            kept = Kept(form, array, self._writer(_cut(array, parts)))
            if kept.writer is not None:
                self._kept[name] = kept
        return Opened(kept.array, partial(self._start_part, kept), kept.writer is not None)

    def _start_part(self, kept: Kept, number: int, root: int) -> Transfer:
        """Begins a broadcast of a part of an opened array."""
        self._check_rank("start_broadcast from", root)
        part = _cut(kept.array, kept.form[2])[number]
        if kept.writer is None:
            return self.start_broadcast(part, root, agreed=True)
        return self._started(part, kept.writer.broadcast(part, number, root))

    def _writer(self, arrays: Sequence[Any]) -> Writer | None:
        """What writes into all members' arrays, where the vendor's library lets each of them."""
        offers = self.exchange(None if self._library is None else self._library.offer(arrays))
        if self._library is None or None in offers:
            return None
        write = self._library.writer(offers)
        return write if all(self.exchange(write is not None)) else None

    def broadcast(self, x: Any, root: int = 0) -> Any:
        """Member `root`'s array in all members' `x`, which is contiguous and is returned."""
        self._check_rank("broadcast from", root)
        self._agree(f"broadcast from {root}", self._form(x))
        if self._library is not None:
            self._library.broadcast(x, root)
            return self._enqueued(x)
        mine = self._on_host(x) if self.rank == root else None
        return self._brought(self._meeting.exchange(mine)[root], x)

    def start_broadcast(self, x: Any, root: int = 0, *, agreed: bool = False) -> Transfer:
        """Begins a `broadcast`, beside what comes next.

        Parameters
        ----------
        x : array
            Contiguous; the `result`.
        root : int
            Whose array it is that all get.
        agreed : bool
            Whether all members are known to mean the same, as of `start_gather`.

        Returns
        -------
        Transfer
            Its `wait` comes before `x` is used, or written by the root.
        """
        self._check_rank("start_broadcast from", root)
        if not agreed:
            self._agree(f"start_broadcast from {root}", self._form(x))
        if self._library is not None:
            return self._started(x, self._library.start_broadcast(x, root))
        if self.rank == root:
            host = np.ascontiguousarray(self._on_host(x))
        else:
            host = np.empty(tuple(x.shape), dtype(x.dtype).numpy)
        arrived = self._meeting.start_broadcast(host, root)

        def wait() -> None:
            array = arrived()
            if self.rank != root:
                self._brought(array, x)

        return Transfer(x, wait)

    def all_to_all(self, parts: Sequence[Any]) -> list[Any]:
        """Small objects, or NumPy's arrays: part i goes to member i; what they gave to this one."""
        if len(parts) != self.size:
            raise ShapeError(f"{len(parts)} parts for {self.size} members; give one to each")
        return self._meeting.all_to_all(parts)

    def send(self, x: Any, to: int) -> None:
        """Gives an array to another member, which calls `recv`."""
        self._check_rank("send to", to)
        self._meeting.send(self._on_host(x), to)

    def recv(self, source: int, *, out: Any = None) -> Any:
        """The array that another member sends, in `out` or a new array."""
        self._check_rank("recv from", source)
        array = self._meeting.receive(source)
        target = self.device.empty(array.shape, dtype(array.dtype)) if out is None else out
        return self._brought(array, target)

    def replay(self, work: Callable[[], object]) -> Callable[[], object]:
        """What enqueues the same launches and collectives at each call, at the least cost.

        All members call it, and what it gives, together. For processes with NVIDIA's GPUs it is a
        launch of a CUDA graph. Members that are threads, or meet on the host, get the work itself:
        graphs with collectives of several GPUs of one process were seen to wait for each other for
        ever. What they do between collectives may be replayed by `Device.replay`.

        Parameters
        ----------
        work : callable
            As `portable.backend.Device.replay` takes it; collectives are `agreed`, and waited for.
        """
        if self._library is None or not self._library.replays:
            return work
        again = self.device.replay(work)

        def run() -> None:
            again()
            self._meeting.enqueued()

        return run

    # -- failing together ---------------------------------------------------------------------

    @contextmanager
    def agreeing(self) -> Iterator[None]:
        """Raises an error in all members alike where some meet one in the block; the first's.

        That holds for errors of ours, of files and of values.
        """
        met: Exception | None = None
        try:
            yield
        except (PortableError, OSError, ValueError) as error:
            met = error
        first = next((error for error in self.exchange(met) if error is not None), None)
        if first is not None:
            raise first

    def returns(self) -> None:
        """Refuses that a member returns from a run while others wait for it; for processes."""
        self._agree("nothing more", ())

    def interrupts(self) -> Interrupts | None:
        """What notes Ctrl-C in this process from here to the end of the run.

        None of threads, which all hear it.
        """
        interrupts = self._meeting.interrupts()
        return interrupts and self.ending.enter_context(interrupts)

    def abandon(self) -> None:
        """Ends collectives of the vendor's library that wait for a member which failed."""
        if self._library is not None:
            self._library.abort()

    def settle(self) -> None:
        """Waits until all members have enqueued the collectives that this one has; costs little.

        Members that are threads need it before they wait for their device, or let it load a
        program, where transfers may be under way. `Transfer.wait`, `Device.synchronize` and copies
        to the host do it themselves, as do Portable's kernels as they are compiled.
        """
        self._meeting.settle()

    def maker(self, x: Any) -> Device:
        """The device that makes arrays like this one; the simulator takes two kinds."""
        of_arrays = self.device.for_arrays()
        return of_arrays if of_arrays.owns(x) else self.device

    # -- what they have in common -------------------------------------------------------------

    def _agree(self, what: str, form: tuple[Any, ...]) -> None:
        """Refuses a collective that means different things to the members, on each of them."""
        meant = self._meeting.exchange((what, form))
        if any(other != meant[0] for other in meant):
            listed = "; ".join(
                f"member {r}: {name} {' '.join(map(str, said))}"
                for r, (name, said) in enumerate(meant)
            )
            raise ParallelError(f"members of a group call different things: {listed}")

    def _enqueued(self, result: Any) -> Any:
        """What a collective gives that this member has enqueued, once all members have."""
        self._meeting.enqueued()
        self.settle()
        return result

    def _started(self, result: Any, wait: Callable[[], None]) -> Transfer:
        """A collective that this member has enqueued, and others may have yet to enqueue."""
        self._meeting.enqueued()

        def arrive() -> None:
            wait()
            self.settle()

        return Transfer(result, arrive)

    def _on_host(self, x: Any) -> np.ndarray[Any, Any]:
        return self.device.to_numpy(on_device(self.device, x))

    def _named(self, what: str, op: Operation) -> str:
        """A collective that combines elements, by its name."""
        if op not in COMBINE:
            raise ParallelError(f"{what} by {op!r}; there are {', '.join(COMBINE)}")
        return f"{what} {op}"

    def _check_rank(self, what: str, rank: int) -> None:
        if rank not in range(self.size):
            raise ParallelError(
                f"{what} member {rank!r} of a group of {self.size}, whose ranks are 0 to "
                f"{self.size - 1}"
            )

    def _form(self, x: Any) -> tuple[Any, ...]:
        if not hasattr(x, "dtype"):
            device_of(x)  # says what is no array
        return tuple(x.shape), dtype(x.dtype).name

    def _target(self, shape: tuple[int, ...], x: Any, out: Any) -> Any:
        if out is None:
            return self.maker(x).empty(shape, dtype(x.dtype))
        if tuple(out.shape) != tuple(shape) or dtype(out.dtype) is not dtype(x.dtype):
            raise ShapeError(
                f"out is {tuple(out.shape)} {out.dtype}; the result is {tuple(shape)} {x.dtype}"
            )
        return out

    def _brought(self, host: np.ndarray[Any, Any], target: Any) -> Any:
        """An array of the host in one of the device."""
        if prod(target.shape):
            kept = host.astype(dtype(target.dtype).numpy, copy=False)
            target[...] = self.maker(target).from_numpy(np.ascontiguousarray(kept))
        return target


def _cut(array: Any, parts: int) -> list[Any]:
    """Even parts of an array along its first axis."""
    each = int(array.shape[0]) // parts
    return [array[i * each : (i + 1) * each] for i in range(parts)]
