"""What launches through SYCL use, kept alive until they are done.

dpctl keeps arguments by a task on the host that waits for the kernel, in a thread that then waits
for Python's lock: five times what the launch itself takes. Here they are let go of as later calls
come by and find the kernel done.
"""

from __future__ import annotations

from collections import deque
from typing import Any


class InFlight:
    """The arguments of launches that may not be done, the earliest first.

    Not safe under threads by itself: its owner calls it under a lock.
    """

    def __init__(self) -> None:
        from dpctl import event_status_type

        self._launches: deque[tuple[Any, Any]] = deque()
        self._done = event_status_type.complete

    def __len__(self) -> int:
        return len(self._launches)

    def add(self, event: Any, arguments: Any) -> None:
        """Keep what a launch uses, and let go of what finished ones used."""
        self.release()
        self._launches.append((event, arguments))

    def release(self) -> None:
        """Let go of what finished launches used, up to the first that is not done."""
        launches, done = self._launches, self._done
        while launches and launches[0][0].execution_status == done:
            launches.popleft()
