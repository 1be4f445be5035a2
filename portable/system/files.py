"""How files are written: whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final
from uuid import uuid4

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
