"""The gate to a driver: through it goes one thread at a time, and none when that would do harm.

A forked child has its parent's memory without the driver's threads, and waits for them for ever. A
thread that is inside a driver while the interpreter goes down ends the process by SIGABRT.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, Final, NoReturn

from portable.errors import DeviceFaultError

_GRACE: Final = 5.0
_LOOK: Final = 0.001
"""Seconds in which threads that waited for a driver come back to Python, and between looks."""

_INTERRUPTED: Final = 130
"""What a shell sees of a program that Ctrl-C ended."""

_gates: Final[weakref.WeakSet[Gate]] = weakref.WeakSet()


class Gate:
    """What every call that reaches a driver's queue goes through.

    Attributes
    ----------
    lock : context manager
        Let in by it, a thread is alone. Look it up each time: it changes as the process forks
        or ends.
    waiting : set
        One object for each thread that waits in the driver, outside of the lock.
    abandoned : set
        Threads that wait in the driver for what may never end, and which nobody waits for.
    opened : bool
        Whether the driver is in use, so that a forked child finds it spoilt.

    Parameters
    ----------
    name : str
        The device, for what is said in a forked child.
    drain : callable
        Waits until the driver has done all its work.
    opened : bool
        As above, from the beginning.
    """

    def __init__(self, name: str, drain: Callable[[], object], *, opened: bool = True) -> None:
        self.opened = False
        self.waiting: set[object] = set()
        self.abandoned: set[object] = set()
        self.lock: AbstractContextManager[Any] = threading.RLock()
        self._name = name
        self._drain = drain
        _gates.add(self)
        if opened:
            self.open()

    def open(self) -> None:
        """Have forked children refused, and the gate closed before libraries clean up at the end.

        What is registered last is called first, so that this is to be called once the library is
        imported.
        """
        self.opened = True
        atexit.unregister(_close_all)
        atexit.register(_close_all)

    def pass_through(self) -> None:
        """Return if a thread may go in at all.

        Raises
        ------
        DeviceFaultError
            In a forked child of the process that opened the device.
        """
        with self.lock:
            return

    def refuse(self) -> None:
        """Let nobody in any more, but say why."""
        if self.opened:
            self.lock = _Refusal(self._name)

    def close(self) -> None:
        """Let nobody in but this thread, and wait for what is going on."""
        if isinstance(self.lock, _Refusal):
            return
        self.lock.__enter__()  # for ever: threads that wait for it go no further
        self.lock = threading.RLock()
        self.lock.__enter__()
        if self.abandoned:
            return
        with suppress(Exception):  # nobody is there to be told
            self._drain()
        patience = time.monotonic() + _GRACE
        while self.waiting and time.monotonic() < patience:
            time.sleep(_LOOK)


class _Refusal:
    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> NoReturn:
        raise DeviceFaultError(
            f"{self._name} cannot be used here: it was opened before this process was forked, and "
            "its driver's threads stayed with the parent; start processes by multiprocessing's "
            "'spawn' or 'forkserver', or fork before the first use of a device"
        )

    def __exit__(self, *_: object) -> None: ...


def _refuse_all() -> None:
    for gate in list(_gates):
        gate.refuse()


def _close_all() -> None:
    for gate in list(_gates):
        gate.close()
    if any(gate.abandoned for gate in list(_gates)):
        # A driver would wait for its kernels for ever as it is unloaded.
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(_INTERRUPTED)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_refuse_all)
