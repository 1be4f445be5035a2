"""The processor by LLVM: NumPy arrays, and kernels that are compiled in this process.

Launches are finished when they return. Ctrl-C stops a launch between workgroups: those that run are
waited for, for two seconds. It is heard while a workgroup runs during a kernel's first launch and
after one that was long; during others between two workgroups of the calling thread.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib.util
import math
import platform
import re
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter
from typing import Any, Final
from weakref import WeakSet

import numpy as np

from portable.backend import (
    Argument,
    ArrayView,
    Capabilities,
    Device,
    Executable,
    Program,
    ViewCode,
)
from portable.errors import (
    CompileError,
    DeviceError,
    InterruptedLaunchError,
    LaunchError,
    OutOfMemoryError,
)
from portable.profiling import timeline
from portable.system import cache
from portable_backends.common import addresses
from portable_backends.common.addresses import HostArray, address_of, refuse_unaligned
from portable_backends.common.devices import check, host_memory_use
from portable_backends.common.gate import Gate, wait_interrupted
from portable_backends.common.native_compiler import Linked, compiler, keep_for_good
from portable_backends.cpu import processor
from portable_backends.cpu.native_pool import SYSTEMS, Pool, pool
from portable_backends.cpu.numpy_device import NumPyDevice

# Kernels that LLVM compiled in this process, ready to be launched.

_HEAD: Final = struct.Struct("=11Q")
_MOST_HEADS: Final = 256
_ONE_BY_ONE: Final = 1
_LISTENING: Final = 2
_LONG: Final = 0.5
"""Seconds that Ctrl-C may have to wait unheard."""

_HELP_WANTED: Final = 1
_NO_MEMORY: Final = 2
"""Results of a launch, as pool.ll tells them."""

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


# -- native device ---------------------------------------------------------------------------------

_new_view: Callable[..., ArrayView] = tuple.__new__


class AddressedMemory:
    """For devices whose kernels take addresses of the host's memory."""

    def __init__(self) -> None:
        self._codes = {writable: self._code_of_views(writable) for writable in (False, True)}

    def view(self, array: HostArray) -> ArrayView:
        """Describe `array`; its handle is the address of its first element."""
        flags = array.flags
        if not flags.aligned:
            refuse_unaligned(array)
        at = address_of(array)
        # Past the constructor, which would be a third of the time that this takes.
        return _new_view(
            ArrayView,
            (array.dtype, array.shape, array.strides, at, at, 0, None, flags.writeable, None),
        )

    def behind(self, handle: Any, by: int) -> Any:
        """A later address."""
        return handle + by

    def view_code(self, array: HostArray) -> ViewCode | None:
        """How compiled code sees arrays like this one, read-only ones as JAX gives them, too."""
        flags = array.flags
        if type(array) is not np.ndarray or not flags.aligned:
            return None
        return self._codes[flags.writeable]

    def _code_of_views(self, writable: bool) -> ViewCode:
        # Launches compare where arrays begin modulo 16, by which they are aligned as the first was.
        same = (
            "{x}.dtype is {x}_dtype and {x}.shape == {x}_shape and {x}.strides == {x}_strides "
            f"and {'' if writable else 'not '}{{x}}.flags.writeable"
        )
        handle = "asked({x})"
        if addresses.WORDS is not None:
            handle = f"words[(id({{x}}) + {addresses.DATA}) >> 3]"
        return ViewCode(
            np.ndarray,
            same=same,
            handle=handle,
            address="{x}_handle",
            offset="0",
            owner="None",
            names={"words": addresses.WORDS, "asked": address_of},
        )


_PACKAGE: Final = "llvmlite"
_LOCAL_MEMORY: Final = 256 * 1024
"""Ordinary memory of each thread, of which so much stays in the caches of most processors."""

_MAX_WORKGROUP: Final = 4096


def why_not() -> str:
    """Why kernels cannot be compiled here; empty where they can. Imports nothing large."""
    if importlib.util.find_spec(_PACKAGE) is None:
        return f"{_PACKAGE} is not installed"
    if processor.machine() is None or sys.platform not in SYSTEMS:
        bits, where = 8 * addresses.WORD_BYTES, f"{platform.machine()} under {sys.platform}"
        return f"LLVM's kernels are not made for a Python of {bits} bits on {where}"
    return ""


def _version() -> str:
    try:
        return f"{_PACKAGE} {version(_PACKAGE)}"
    except PackageNotFoundError:
        return _PACKAGE


def _capabilities() -> Capabilities:
    total = host_memory_use().total or 0
    vector_bytes = processor.vector_bytes()
    return Capabilities(
        dialect="llvm",
        kind="cpu",
        vendor="llvm",
        architecture=processor.instruction_set(),
        name=processor.model_name(),
        driver=_version(),
        float64=True,
        native_half=True,
        local_memory=_LOCAL_MEMORY,
        local_memory_opt_in=_LOCAL_MEMORY,
        local_memory_dedicated=False,
        max_workgroup=_MAX_WORKGROUP,
        max_workgroup_shape=(_MAX_WORKGROUP,) * 3,
        compute_units=processor.threads(),
        vector_bytes=vector_bytes,
        vector_registers=processor.vector_registers(),
        vectorizes_work_items=True,
        single_work_items=True,
        streaming_stores=True,
        compressed_bytes=64 if vector_bytes == 64 else 0,
        float_atomics=True,
        workgroup_atomics=True,
        memory_orders="acq_rel",
        forward_progress=True,
        unified_memory=True,
        global_memory=total,
        max_allocation=total,
    )


class _Gate(Gate):
    """Forked children may use the processor: they have threads of their own."""

    def refuse(self) -> None:
        """Nobody."""


class NativeDevice(NumPyDevice):
    """The processor, with kernels compiled by LLVM and run by threads of this package."""

    name = "cpu:native"
    words = frozenset({"native", "llvm", "cpu", "numpy"})

    def __init__(self) -> None:
        self.capabilities = _capabilities()
        self._memory = AddressedMemory()
        self._gate = _Gate(self.name, lambda: None, opened=False)

    def compile(self, program: Program) -> Executable:
        """Compile by LLVM, or take the object that is kept on the disk."""
        check(program, self.capabilities)
        what = f"kernel {program.name}"
        image = compiler.object_of(program.source, what)
        try:
            return self._executable(program, self._link(program, image))
        except DeviceError:  # of a damaged object
            image = compiler.compile(program.source, what)
        try:
            linked = self._link(program, image)
        except DeviceError as error:
            raise CompileError(f"LLVM does not link {what}", program.source, str(error)) from None
        cache.store(compiler.name_of(program.source), image)
        return self._executable(program, linked)

    def _link(self, program: Program, image: bytes) -> Linked:
        return compiler.link(image, (program.entry,), pool.for_kernels)

    def _executable(self, program: Program, linked: Linked) -> Executable:
        self._gate.open()
        return NativeExecutable(program, linked, pool, self._gate, self)

    def program_facts(self) -> dict[str, str]:
        """LLVM's version and the processor: others may lack instructions."""
        return compiler.facts()

    def export(self, program: Program) -> bytes:
        """The object file."""
        check(program, self.capabilities)
        return compiler.object_of(program.source, f"kernel {program.name}")

    def load(self, program: Program, code: bytes) -> Executable:
        """Link an object file."""
        check(program, self.capabilities)
        return self._executable(program, self._link(program, code))

    def synchronize(self) -> None:
        """Nothing to wait for: a launch returns when it is done."""
