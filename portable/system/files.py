"""Files: how they are written, one process at a time, and folders that nobody else writes to."""

from __future__ import annotations

import atexit
import errno
import os
import re
import shutil
import stat
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final
from uuid import uuid4

# Locks that a forked child finds open, whatever thread of its parent held them.
#
# Threads do not go along into a forked child, so that one which held a lock would never open it.

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


# Folders that nobody else can write to, for what is loaded and run from them.
#
# Who can write to such a folder could have the next user run a program of theirs.

_PREFIX: Final = "portable-private-"
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_ROOT: Final = 0
_DAY: Final = 86_400.0
_folders_lock: Final = fork_safe_lock()
_made: dict[int, Path] = {}
"""The temporary folder by process, since a forked child is not to remove its parent's."""


class UnsafeFolderError(OSError):
    """A folder that somebody else can write to."""


def make(folder: Path) -> None:
    """Makes a folder for this user alone, if it is not there.

    Raises
    ------
    UnsafeFolderError
        If it is there, and somebody else can write to it.
    OSError
        If it cannot be made.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    reason = distrust(folder)
    if reason:
        raise UnsafeFolderError(reason)


def distrust(path: Path) -> str:
    """Why a file or a folder could be somebody else's work; empty if it could not.

    The administrator is trusted, who can do anything anyway.

    Raises
    ------
    OSError
        If it is not there.
    """
    if sys.platform == "win32":
        return ""
    status = path.stat()
    if status.st_uid not in (os.geteuid(), _ROOT):
        return f"{path} belongs to another user"
    if status.st_mode & _OTHERS_WRITE:
        return f"others can write to {path}; if nobody did, chmod go-w {path} makes it usable"
    return ""


def temporary() -> Path:
    """This process's own temporary folder, which is removed when the process ends."""
    process = os.getpid()
    with _folders_lock:
        folder = _made.get(process)
        if folder is None or not folder.is_dir():
            _remove_abandoned_folders()
            folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{process}-"))
            _made[process] = folder
            atexit.register(_remove, process, folder)
        return folder


def _remove(process: int, folder: Path) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned_folders() -> None:
    """Remove the folders of processes that were killed, a day later.

    Processes of other containers, which cannot be asked, may use the same folder.
    """
    if sys.platform == "win32":
        return
    with suppress(OSError):
        for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            named, status = re.match(r"(\d+)-", path.name.removeprefix(_PREFIX)), path.lstat()
            is_old = status.st_uid == os.geteuid() and status.st_mtime < time.time() - _DAY
            if named and is_old and not _runs(int(named[1])):
                shutil.rmtree(path, ignore_errors=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


# How files are written.

_UNFINISHED: Final = re.compile(r"\..*\.[0-9a-f]{32}\.unfinished")
_ABANDONED: Final = 600.0
"""Seconds without a write after which nobody finishes a file any more."""

_BINARY: Final = getattr(os, "O_BINARY", 0)
"""Without it Windows puts a carriage return before each byte that is a line feed."""

_OPEN_FILES: Final = ("/dev/", "/proc/")
"""Names below these stand for what is open already, such as the standard output."""


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file so that it is whole or as it was, whenever that is interrupted.

    A regular file is written under a temporary name beside it, which then replaces it; it keeps its
    permissions, and its owner where that is allowed. Symbolic links are followed. What is no
    regular file (a device, a pipe) is written to as it is.

    Raises
    ------
    OSError
        If that fails, as on a full disk; it names `path`.
    """
    with writing_whole(path) as file:
        file.write(data)


@contextmanager
def writing_whole(path: str | os.PathLike[str], *, size: int = 0) -> Iterator[BinaryIO]:
    """A file to write to in pieces, by the rules of `write_whole`.

    `size` is about how many bytes it will have, if the disk is to be asked for room before.

    Raises
    ------
    OSError
        If that fails, or there is no room; it names `path`.
    """
    target = target_of(path)
    try:
        old = _status(target)
        if old is not None and _is_written_through(target, old):
            with _written_through(target) as file:
                yield file
        else:
            require_room(target.parent, size)
            with _replacing(target, old) as file:
                yield file
    except OSError as error:
        if error.errno is not None:
            error.filename, error.filename2 = os.fspath(path), None
        raise


def target_of(path: str | os.PathLike[str]) -> Path:
    """The file that is written when `path` is: symbolic links are followed to it."""
    target = Path(path).absolute()
    if target.as_posix().startswith(_OPEN_FILES):
        return target
    return Path(os.path.realpath(target))  # which leaves loops to whoever opens them


def put_in_place(unfinished: Path, path: str | os.PathLike[str]) -> None:
    """Gives a finished file its name, by the rules of `write_whole`.

    Parameters
    ----------
    unfinished : Path
        On the same file system as ``target_of(path)``; it is gone afterwards.
    path : path
    """
    target = target_of(path)
    old = _status(target)
    if old is not None and _is_written_through(target, old):
        with unfinished.open("rb") as file, _written_through(target) as out:
            shutil.copyfileobj(file, out)
        unfinished.unlink()
        return
    if old is not None:
        _take_over(unfinished, old)
    unfinished.replace(target)


def require_room(folder: str | os.PathLike[str], size: int) -> None:
    """Refuses to begin writing so many bytes where a disk has no room for them.

    Raises
    ------
    OSError
        Saying what is needed and what is free.
    """
    free = shutil.disk_usage(folder).free if size else 0
    if size > free:
        needed, left = (f"{x / 2**20:,.1f} MiB" for x in (size, free))
        raise OSError(
            errno.ENOSPC,
            f"not enough disk: {needed} are needed, {left} are free",
            os.fspath(folder),
        )


def _status(path: Path) -> os.stat_result | None:
    """What is there, links followed; None if nothing is."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _written_through(target: Path) -> BinaryIO:
    """A device or a pipe, to write to: neither made anew nor cut short."""
    return os.fdopen(os.open(target, os.O_WRONLY | _BINARY), "wb")


def _is_written_through(path: Path, old: os.stat_result) -> bool:
    return not stat.S_ISREG(old.st_mode) or path.as_posix().startswith(_OPEN_FILES)


@contextmanager
def _replacing(target: Path, old: os.stat_result | None) -> Iterator[BinaryIO]:
    """A file beside `target` that takes its place once all is written."""
    _remove_abandoned(target.parent)
    unfinished = target.with_name(f".{target.name}.{uuid4().hex}.unfinished")
    try:
        # What is to be read by its owner alone never is by others, not even unfinished.
        descriptor = os.open(
            unfinished,
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY,
            0o666 if old is None else 0o600,
        )
        with os.fdopen(descriptor, "wb") as file:
            yield file
        if old is not None:
            _take_over(unfinished, old)
        unfinished.replace(target)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def _take_over(path: Path, old: os.stat_result) -> None:
    """Give a file the owner and the permissions of the one that it replaces."""
    if hasattr(os, "chown"):
        with suppress(OSError):
            os.chown(path, old.st_uid, old.st_gid)
    path.chmod(stat.S_IMODE(old.st_mode))


def _remove_abandoned(folder: Path) -> None:
    """Remove what processes left behind that were killed while they wrote."""
    latest = time.time() - _ABANDONED
    with suppress(OSError):
        for path in folder.iterdir():
            if _UNFINISHED.fullmatch(path.name) and path.lstat().st_mtime < latest:
                path.unlink(missing_ok=True)
