"""Memory of other libraries, given back to them once the work that was enqueued on it is done."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Any, Final

from portable.backend.queues import Mark


class Loans:
    """Arrays that a device uses in the memory of libraries which order their own work alone.

    Such a library (JAX) uses the memory of an array that was let go for its next one at once: it
    knows nothing of launches which are still to read it. So an array taken over through DLPack is
    kept, when nobody holds it any more, until all that was enqueued by then is done. What is done
    is looked for whenever another array is taken, and where the host has waited for the device.

    Parameters
    ----------
    mark : callable
        Makes a mark at the end of this thread's queue; None where there can be none now.
    """

    def __init__(self, mark: Callable[[], Mark | None]) -> None:
        self._mark: Final = mark
        self._returned: deque[tuple[Mark | None, Any]] = deque()
        self._settling: Final = Lock()

    def loan(self, lent: Any) -> Loan:
        """What is to be held by whatever uses arrays' memory; settles earlier loans."""
        self.settle()
        return Loan(self, lent)

    def take_back(self, lent: Any) -> None:
        """Keeps arrays that nobody uses any more until what was enqueued is done."""
        self._returned.append((self._mark(), lent))

    def settle(self) -> None:
        """Lets go of arrays on which all work is done."""
        if not self._returned or not self._settling.acquire(blocking=False):
            return
        try:
            while self._returned:
                mark, lent = self._returned[0]
                if mark is None:
                    mark = self._mark()
                    self._returned[0] = mark, lent
                if mark is None or not mark.reached:
                    return
                self._returned.popleft()
        finally:
            self._settling.release()


class Loan:
    """Holds arrays of another library for as long as it is held itself, and their work goes on.

    Parameters
    ----------
    loans : Loans
        Where they go then.
    lent : object
        What keeps the other library's memory: the arrays of one call, a device's own or as DLPack
        packs them. A list may grow until the call's work is enqueued.
    """

    __slots__ = ("_lent", "_loans")

    def __init__(self, loans: Loans, lent: Any) -> None:
        self._loans = loans
        self._lent = lent

    def __del__(self) -> None:
        """Nobody uses the memory any more, but launches that were enqueued may."""
        if not sys.is_finalizing():
            self._loans.take_back(self._lent)
