"""The threads that run kernels: Python starts them, and they work in code compiled by LLVM.

A thread that has nothing to do looks for work for a bounded time, then sleeps in the system until
it is woken. None is started before a launch needs it. A forked child starts its own.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any, Final, NamedTuple

from portable.errors import DeviceError
from portable.system.locks import fork_safe_lock
from portable_backends.common.native_compiler import Compiler, Linked, compiler, keep_for_good
from portable_backends.cpu import processor

_SPIN: Final = 50_000
"""Nanoseconds that a thread looks for work before it sleeps."""

_LOOK: Final = 0.0005
"""Seconds between looks at workers that are about to leave."""

_LINE: Final = 128
SYSTEMS: Final = {"linux": "linux", "darwin": "macos", "win32": "windows"}
_OF_PYTHON: Final = ("PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_CheckSignals")
_OF_KERNELS: Final = ("portable_print", "portable_linger")
_OF_WINDOWS: Final = {
    "api-ms-win-core-synch-l1-2-0": ("WaitOnAddress", "WakeByAddressSingle", "WakeByAddressAll"),
    "kernel32": ("QueryPerformanceCounter", "QueryPerformanceFrequency", "SwitchToThread"),
    "ucrtbase": ("_aligned_malloc", "_aligned_free", "_write"),
}
_OF_WINDOWS_FOR_KERNELS: Final = {"ntdll": ("__chkstk",)}
"""What is called where more than a page is taken from the stack."""


def _line(*fields: tuple[str, Any]) -> list[tuple[str, Any]]:
    """Fields that fill two lines of the caches, which processors fetch in pairs."""
    used = sum(ctypes.sizeof(kind) for _, kind in fields)
    return [*fields, (f"_after_{fields[0][0]}", ctypes.c_char * (_LINE - used))]


class _State(ctypes.Structure):
    """As `%Pool` of pool.ll."""

    _fields_ = [
        *_line(
            ("busy", ctypes.c_int32),
            ("workers", ctypes.c_int32),
            ("spin", ctypes.c_int64),
            ("stand_ins", ctypes.c_int32),
        ),
        *_line(
            ("generation", ctypes.c_int32),
            ("ending", ctypes.c_int32),
            ("sleepers", ctypes.c_int32),
        ),
        *_line(("job", ctypes.c_void_p)),
        *_line(("next", ctypes.c_int64)),
        *_line(("inside", ctypes.c_int32), ("waited", ctypes.c_int32)),
        *_line(
            ("stand_in_generation", ctypes.c_int32),
            ("stopped", ctypes.c_int32),
            ("stand_in_sleepers", ctypes.c_int32),
            ("left", ctypes.c_int32),
        ),
        *_line(("room", ctypes.c_void_p), ("room_bytes", ctypes.c_int64)),
        ("seats", ctypes.c_uint64 * (16 * 2 * _LINE // 8)),
    ]


def pool_text(machine: str, system: str) -> str:
    """The pool as LLVM IR.

    Parameters
    ----------
    machine : {"x86_64", "aarch64"}
        The instruction set.
    system : {"linux", "macos", "windows"}
        The operating system.
    """
    parts = (files(__package__) / f"{name}.ll" for name in (machine, system, "pool"))
    return "\n".join(part.read_text(encoding="utf-8") for part in parts)


def _addresses() -> dict[str, int]:
    """Of what the pool calls and a linker might not find."""
    of_python = {name: _address(ctypes.pythonapi, name) for name in _OF_PYTHON}
    return of_python | _of_windows(_OF_WINDOWS)


def _of_windows(functions: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """The addresses of functions, by their libraries; none under other systems."""
    if SYSTEMS.get(sys.platform) != "windows":
        return {}
    loaded = {library: ctypes.CDLL(library) for library in functions}
    return {x: _address(loaded[library], x) for library, names in functions.items() for x in names}


def _address(library: Any, name: str) -> int:
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


class _Code(NamedTuple):
    """The compiled pool.

    Attributes
    ----------
    linked : Linked
        Held for good.
    run : callable
        Runs a job, given as bytes.
    work : callable
        What threads do.
    state_at : ctypes.c_void_p
        Where it looks for the state.
    """

    linked: Linked
    run: Callable[[bytes], int]
    work: Callable[[int, int], None]
    state_at: ctypes.c_void_p


def _compiled(by: Compiler) -> _Code:
    machine, system = processor.machine(), SYSTEMS.get(sys.platform)
    if machine is None or system is None:
        raise DeviceError(f"cpu:native has no threads for {machine} under {sys.platform}")
    names = ("portable_run", "portable_work", "portable_pool", *_OF_KERNELS)
    image = by.object_of(pool_text(machine, system), "the pool of threads", passes=False)
    linked = by.link(image, names, _addresses())
    keep_for_good(linked.holder)
    run, work, state = (linked.addresses[name] for name in names[:3])
    # The first holds the interpreter's lock when it is called, and leaves and takes it by itself.
    return _Code(
        linked,
        ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_char_p)(run),
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)(work),
        ctypes.c_void_p.from_address(state),
    )


class Pool:
    """The threads of this process, one fewer than run kernels: whoever launches works too.

    Parameters
    ----------
    by : Compiler
        Compiles the pool.
    """

    def __init__(self, by: Compiler) -> None:
        self._compiler = by
        self._lock = fork_safe_lock()
        self._code: _Code | None = None
        self._memory: Any = None
        self.state = _State()

    @property
    def code(self) -> _Code:
        """The compiled pool, with a state; its threads need not have been started."""
        code = self._code
        if code is None:
            with self._lock:
                if self._code is None:
                    self._code = _compiled(self._compiler)
                    self.renew()
                code = self._code
        return code

    @property
    def run(self) -> Callable[[bytes], int]:
        """Runs a job: its head, then its arguments. What it gives is told in pool.ll."""
        return self.code.run

    @property
    def for_kernels(self) -> dict[str, int]:
        """The addresses of functions that kernels call: by which they print, and wait."""
        of_pool = {name: self.code.linked.addresses[name] for name in _OF_KERNELS}
        return of_pool | _of_windows(_OF_WINDOWS_FOR_KERNELS)

    def renew(self) -> None:
        """Begin anew without threads; those of the old state are left to themselves."""
        if self._code is None:
            return
        with self._lock:
            self._memory = ctypes.create_string_buffer(ctypes.sizeof(_State) + _LINE)
            keep_for_good(self._memory)
            address = ctypes.addressof(self._memory)
            self.state = _State.from_address(address + -address % _LINE)
            self.state.spin = _SPIN
            self._code.state_at.value = ctypes.addressof(self.state)

    def start(self, *, workers: bool = True) -> None:
        """Start the stand-in, and the workers if they are wanted, unless that was done."""
        code, missing = self.code, processor.threads() - 1 if workers else 0
        if self.state.stand_ins and self.state.workers >= missing:
            return
        with self._lock:
            state, at = self.state, ctypes.addressof(self.state)
            if not state.stand_ins:
                _start(code, at, 0)
                state.stand_ins = 1
            while state.workers < missing:
                _start(code, at, state.workers + 1)
                state.workers += 1

    def wait(self, state: _State) -> None:
        """Wait until no worker is inside of a job that was stopped."""
        while state.inside:
            time.sleep(_LOOK)

    def resume(self, state: _State) -> None:
        """Take launches again after one that was stopped, whose workers have left."""
        state.stopped = 0
        state.busy = 0


def _start(code: _Code, state: int, number: int) -> None:
    threading.Thread(
        target=code.work, args=(state, number), name="portable works", daemon=True
    ).start()


pool: Final = Pool(compiler)
"""Of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.renew)
