"""Locks: of threads, which a forked child finds open, and of processes, one at a time.

Threads do not go along into a forked child, so that one which held a lock would never open it.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

_locks: Final[weakref.WeakSet[Any]] = weakref.WeakSet()


def fork_safe_lock() -> threading.RLock:
    """A reentrant lock."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _open_all() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_all)


# One process at a time.

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        while True:  # the system gives up after ten seconds, and we do not
            with suppress(OSError):
                msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
                return

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """A block that one process at a time is in; `path` is an empty file, left where it is.

    The system opens the lock when the process that holds it ends, however it ends.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(descriptor)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def locked_folder(folder: Path, busy: str) -> Iterator[None]:
    """A block that has a folder to itself.

    The folder is made if it is not there, and removed at the end if the block left nothing in it.

    Parameters
    ----------
    folder : Path
        Its parent is there.
    busy : str
        What to say where another process, or another thread of this one, has it.

    Raises
    ------
    BlockingIOError
        At once, if another has the folder.
    """
    lock = folder / "lock"
    descriptor = _own_lock(folder, lock, busy)
    try:
        yield
    finally:
        _release(folder, lock, descriptor)


def _release(folder: Path, lock: Path, descriptor: int) -> None:
    with suppress(OSError):
        if any(path != lock for path in folder.iterdir()):
            os.close(descriptor)
            return
    try:
        lock.unlink()  # while it is held: a name that is removed later could be another's lock
    except OSError:  # systems that let no open file go keep others' locks from being removed, too
        os.close(descriptor)
        with suppress(OSError):
            lock.unlink()
    else:
        os.close(descriptor)
    with suppress(OSError):
        folder.rmdir()


def _own_lock(folder: Path, lock: Path, busy: str) -> int:
    """The open and locked file of a folder that was not removed meanwhile."""
    while True:
        folder.mkdir(exist_ok=True)
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:  # removed by another, between the two
            continue
        try:
            if not _try_lock(descriptor):
                raise BlockingIOError(errno.EWOULDBLOCK, busy, os.fspath(folder))
            if _is_open(descriptor, lock):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_open(descriptor: int, path: Path) -> bool:
    """Whether a name stands for the file that is open, and not for none or another."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
