"""How many compiled programs of a device a driver holds in memory.

A driver was seen to take half a megabyte for a program that it loaded, and four times that for
one that it compiled (Intel's, for processors), so that a process which goes through thousands of
specialisations would fill the memory. Programs beyond so many are given up, those that were not
launched for long first, and loaded again from the disk cache when they are launched.
"""

from __future__ import annotations

import weakref
from collections import deque

from portable_backends.opencl.executable import OpenCLExecutable


class KeptPrograms:
    """The programs that are loaded, oldest first, with a second chance for those in use.

    Not safe under threads by itself: its owner calls it under a lock. To mark a program as in use
    is one attribute set, which is all that a launch pays.

    Parameters
    ----------
    most : int
        How many are kept.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._loaded: deque[weakref.ref[OpenCLExecutable]] = deque()

    def __len__(self) -> int:
        return len(self._loaded)

    def add(self, program: OpenCLExecutable) -> None:
        """Take up a program that was loaded just now, giving up others beyond the most."""
        self._loaded.append(weakref.ref(program))
        if len(self._loaded) > self.most:
            self._loaded = deque(r for r in self._loaded if r() is not None)
        while len(self._loaded) > self.most:
            reference = self._loaded.popleft()
            oldest = reference()
            if oldest is not None and oldest.launched:
                oldest.launched = False
                self._loaded.append(reference)
            elif oldest is not None:
                oldest.release()
