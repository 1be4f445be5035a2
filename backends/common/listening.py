"""Waiting for a kernel so that Ctrl-C is heard meanwhile.

OpenCL waits in the driver, where Python hears no signals, and ends no kernel that runs. A thread of
its own waits there instead, which costs some ten microseconds, so that it is for launches that may
be long. A processor's driver has the waiting thread do a share of the work, whichever it is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import Final

from portable.errors import InterruptedLaunchError
from portable_backends.common.gate import Gate

_LONG: Final = 0.5
"""Seconds that Ctrl-C may have to wait unheard.

Where the workgroups of a kernel wait for each other, a new thread with a share of the work often
begins on a core that another one works on, and the system takes up to 20 ms to part them: with a
hundredth of a second here, every other reduction of a band of 2048 x 8 took 32 ms instead of 12.
"""

_GRACE: Final = 2.0
"""Seconds that a kernel may go on after Ctrl-C, for its arrays to be whole afterwards."""

_LOOK: Final = 1.0


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
        while not self._done.wait(_LOOK):
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
            self._done.wait(_GRACE)
        if not self._done.is_set():
            raise InterruptedLaunchError(
                f"{what} still runs, and kernels cannot be ended; arrays that it was given are not "
                "to be used, and this process will end without waiting for it"
            ) from None
        self._gate.abandoned.discard(self)
