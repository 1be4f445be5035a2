"""Kernels that LLVM compiled in this process, ready to be launched."""

from __future__ import annotations

import atexit
import ctypes
import math
import re
import struct
import threading
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Final
from weakref import WeakSet

from portable.backend import Argument, Device, Executable, Program
from portable.errors import InterruptedLaunchError, LaunchError, OutOfMemoryError
from portable.profiling import timeline
from portable_backends.common.gate import Gate
from portable_backends.common.listening import wait_interrupted
from portable_backends.cpu.native_compiler import Linked, keep_for_good
from portable_backends.cpu.native_pool import Pool

_HEAD: Final = struct.Struct("=11Q")
_MOST_HEADS: Final = 256
_ONE_BY_ONE: Final = 1
_LISTENING: Final = 2
_LONG: Final = 0.5
"""Seconds that Ctrl-C may have to wait unheard."""

_HELP_WANTED: Final = 1
_NO_MEMORY: Final = 2
"""Results of a launch, as pool.ll tells them."""

"""What generated programs put before the names of kernels, which may be those of C's functions."""

_WAITING: Final = re.compile(" acq(uire|_rel)")
"""In the text of kernels some of whose workgroups wait for what others release."""

_loaded: Final[WeakSet[NativeExecutable]] = WeakSet()
_abandoned: Final[list[object]] = []
"""What launches use that Ctrl-C left running."""


def _slot(argument: Argument) -> str:
    """How an argument is packed in eight bytes."""
    if argument.kind == "pointer":
        return "Q"
    size, kind = argument.type.itemsize, argument.type.kind
    letter = (
        "?" if kind == "b" else {"f": " e f   d", "i": "bh i   q", "u": "BH I   Q"}[kind][size - 1]
    )
    return f"{letter}{8 - size}x" if size < 8 else letter


class NativeExecutable(Executable):
    """A kernel in memory, with its workgroup and its arguments' types.

    Parameters
    ----------
    program : Program
        What was compiled.
    linked : Linked
        Its code.
    pool : Pool
        The threads that run it.
    gate : Gate
        Where launches are noted that nobody waits for.
    device : Device
        For profiles.
    """

    def __init__(
        self, program: Program, linked: Linked, pool: Pool, gate: Gate, device: Device
    ) -> None:
        self._program = program
        self._linked = linked
        self._pool = pool
        self._gate = gate
        self._device = device
        self._name = program.name
        self._entry = linked.addresses[program.entry]
        self._times = ctypes.c_int64(0)
        # Of machine code alone nobody knows whether workgroups wait.
        may_wait = not program.source or _WAITING.search(program.source)
        self._flags = _ONE_BY_ONE if may_wait else 0
        self._pack = struct.Struct("=" + "".join(map(_slot, program.arguments))).pack
        self._enqueue = pool.run
        self._heads: dict[tuple[int, int, int], bytes] = {}
        self._may_be_long = True
        _loaded.add(self)

    def _head(self, groups: tuple[int, int, int], flags: int = 0) -> bytes:
        """What stands before the arguments of launches of so many workgroups."""
        sizes = (n * size for n, size in zip(groups, self._program.workgroup, strict=True))
        return _HEAD.pack(
            self._entry,
            math.prod(groups),
            *groups,
            *sizes,
            self._program.local_bytes,
            ctypes.addressof(self._times),
            self._flags | flags,
        )

    def _new_head(self, groups: tuple[int, int, int]) -> bytes:
        if len(self._heads) >= _MOST_HEADS:
            self._heads.clear()
        made = self._heads[groups] = self._head(groups)
        return made

    def _packed(self, arguments: Sequence[Any]) -> bytes:
        try:
            return self._pack(*arguments)
        except struct.error as error:
            raise LaunchError(f"launching {self._name}: {error}") from error

    def launch(self, groups: tuple[int, int, int], arguments: Sequence[Any]) -> None:
        """Run the kernel; it is finished on return.

        Each call in here is a tenth of a launch, so that there are few.
        """
        if self._may_be_long or timeline.recording is not None:
            self._launch_slowly(groups, self._packed(arguments))
            return
        try:
            job = (self._heads.get(groups) or self._new_head(groups)) + self._pack(*arguments)
        except struct.error as error:
            raise LaunchError(f"launching {self._name}: {error}") from error
        try:
            result = self._enqueue(job)
        except KeyboardInterrupt:
            self._leave(job)
            raise
        if result:
            self._after(result)

    def prepare(self, groups: tuple[int, int, int], arguments: Sequence[Any]) -> Callable[[], None]:
        """A launch of a job that is made once."""
        packed = self._packed(arguments)
        job, enqueue = self._head(groups) + packed, self._enqueue

        def run() -> None:
            if self._may_be_long or timeline.recording is not None:
                self._launch_slowly(groups, packed)
                return
            try:
                result = enqueue(job)
            except KeyboardInterrupt:
                self._leave(job)
                raise
            if result:
                self._after(result)

        return run

    def _launch_slowly(self, groups: tuple[int, int, int], packed: bytes) -> None:
        """A launch that may be long, or is to be noted."""
        recording = timeline.recording
        if recording is None:
            self._listen(groups, packed)
            return
        entry = timeline.Entry(self._name, "launch", groups, self._program.workgroup)
        with recording.between(self._device, entry):
            self._listen(groups, packed)

    def _listen(self, groups: tuple[int, int, int], packed: bytes) -> None:
        """A launch of which Ctrl-C is heard while a workgroup runs, if it may be long."""
        listens = self._may_be_long and threading.current_thread() is threading.main_thread()
        if listens:
            self._pool.start(workers=math.prod(groups) > 1)
        job = self._head(groups, _LISTENING if listens else 0) + packed
        start = perf_counter()
        try:
            result = self._enqueue(job)
        except KeyboardInterrupt:
            self._leave(job)
            raise
        self._may_be_long = perf_counter() - start > _LONG
        if result:
            self._after(result)

    def _after(self, result: int) -> None:
        if result == _HELP_WANTED:
            self._pool.start()
        elif result == _NO_MEMORY:
            raise OutOfMemoryError(
                f"no room for the {self._program.local_bytes} bytes of local memory of "
                f"{self._name} in each thread"
            )

    def _leave(self, job: bytes) -> None:
        """Wait for the workgroups that run as Ctrl-C is heard; no further one begins.

        The caller's arrays must not go away beneath them.
        """
        self._may_be_long = True
        state = self._pool.state
        if not state.stopped:
            return
        what = f"kernel {self._name}"
        try:
            wait_interrupted(self._gate, what, lambda: self._pool.wait(state))
        except InterruptedLaunchError:
            _abandoned.extend((job, self._times))
            keep_for_good(self._linked.holder)
            self._pool.renew()
            raise
        self._pool.resume(state)


@atexit.register
def _keep_code() -> None:
    """Threads that have not ended may still run it."""
    for executable in list(_loaded):
        keep_for_good(executable._linked.holder)
