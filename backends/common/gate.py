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
from time import perf_counter
from typing import Any, Final, NoReturn

from portable.errors import DeviceFaultError, InterruptedLaunchError

_PATIENCE: Final = 5.0
_PAUSE: Final = 0.001
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
        patience = time.monotonic() + _PATIENCE
        while self.waiting and time.monotonic() < patience:
            time.sleep(_PAUSE)


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


# Waiting for a kernel so that Ctrl-C is heard meanwhile.
#
# OpenCL waits in the driver, where Python hears no signals, and ends no kernel that runs. A thread
# of its own waits there instead, which costs some ten microseconds, so that it is for launches that
# may be long. A processor's driver has the waiting thread do a share of the work, whichever it is.

_LONG: Final = 0.5
"""Seconds that Ctrl-C may have to wait unheard.

Where the workgroups of a kernel wait for each other, a new thread with a share of the work often
begins on a core that another one works on, and the system takes up to 20 ms to part them: with a
hundredth of a second here, every other reduction of a band of 2048 x 8 took 32 ms instead of 12.
"""

_SECONDS_TO_END: Final = 2.0
"""Seconds that a kernel may go on after Ctrl-C, for its arrays to be whole afterwards."""

_SECONDS_TO_LISTEN: Final = 1.0


def wait_listening(gate: Gate, what: str, wait: Callable[[], None]) -> bool:
    """Call `wait` so that the main thread hears Ctrl-C; says whether it took long.

    Parameters
    ----------
    gate : Gate
        Of the driver.
    what : str
        What is waited for, for the message.
    wait : callable
        Waits in the driver.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C was pressed, and what was waited for is done.
    InterruptedLaunchError
        If it goes on two seconds later, or when Ctrl-C is pressed again.
    """
    start = perf_counter()
    if threading.current_thread() is not threading.main_thread():
        wait()
        return perf_counter() - start > _LONG
    waiter = _Waiter(gate, wait)
    try:
        waiter.listen()
    except KeyboardInterrupt:
        waiter.end_soon(what)
        raise
    return perf_counter() - start > _LONG


def wait_interrupted(gate: Gate, what: str, wait: Callable[[], None]) -> None:
    """Wait, once Ctrl-C was heard, for what may have been left running.

    Python may hear it just after a kernel was enqueued and before anything waits for it.

    Parameters
    ----------
    gate, what, wait
        As for `wait_listening`.

    Raises
    ------
    InterruptedLaunchError
        If it goes on two seconds later, or when Ctrl-C is pressed again.
    """
    _Waiter(gate, wait).end_soon(what)


class _Waiter:
    """A thread that waits in a driver."""

    def __init__(self, gate: Gate, wait: Callable[[], None]) -> None:
        self._gate = gate
        self._wait = wait
        self._begun = False
        self._done = threading.Event()
        self._failure: BaseException | None = None

    def _work(self) -> None:
        self._begun = True
        try:
            self._wait()
        except BaseException as error:  # noqa: BLE001  (raised where it is heard)
            self._failure = error
        finally:
            self._done.set()
            self._gate.abandoned.discard(self)

    def _begin(self) -> None:
        threading.Thread(target=self._work, name="portable waits", daemon=True).start()

    def listen(self) -> None:
        """Start the thread and wait for it; what it raised is raised here."""
        self._begin()
        while not self._done.wait(_SECONDS_TO_LISTEN):
            pass
        if self._failure is not None:
            raise self._failure

    def end_soon(self, what: str) -> None:
        """Wait for the thread once Ctrl-C was heard.

        Raises
        ------
        InterruptedLaunchError
            If it does not end within the grace; it is then among the gate's abandoned ones.
        """
        self._gate.abandoned.add(self)  # first of all, since Ctrl-C may be pressed again
        with suppress(KeyboardInterrupt):
            if not self._begun:  # Ctrl-C may have come before; two that wait do no harm
                self._begin()
            self._done.wait(_SECONDS_TO_END)
        if not self._done.is_set():
            raise InterruptedLaunchError(
                f"{what} still runs, and kernels cannot be ended; arrays that it was given are not "
                "to be used, and this process will end without waiting for it"
            ) from None
        self._gate.abandoned.discard(self)
