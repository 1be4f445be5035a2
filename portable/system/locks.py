"""Locks that a forked child finds open, whatever thread of its parent held them.

Threads do not go along into a forked child, so that one which held a lock would never open it.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Final

_made: Final[weakref.WeakSet[Any]] = weakref.WeakSet()


def fork_safe_lock() -> threading.RLock:
    """A reentrant lock."""
    lock = threading.RLock()
    _made.add(lock)
    return lock


def _open_all() -> None:
    for lock in list(_made):
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_all)
