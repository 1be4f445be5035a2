"""Compiled programs kept on disk, found by a hash of everything they depend on.

A damaged or unwritable cache costs a recompilation, never an error. ``PORTABLE_CACHE_DIR`` moves
the cache and ``PORTABLE_CACHE=0`` switches it off. Where it would grow beyond its limit, programs
that were not used for longest go, in the process that stores another. Programs are code that will
be run: none is taken from a folder that somebody else can write to.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import platformdirs

from portable.system import private_folders
from portable.system.console import warn_once
from portable.system.files import write_whole
from portable.system.locks import fork_safe_lock

_VARIABLE = "PORTABLE_CACHE_DIR"
_PROGRAMS = "programs"
_FORMAT = b"portable-cache-1\n"
DEFAULT_LIMIT: Final = 2**30
"""Bytes that programs take at most, unless `set_limit` says otherwise."""

_LIMIT_FILE: Final = "limit"
_KEPT_SHARE: Final = 0.9
"""Of the limit, down to which programs go once it is reached, so that not each one removes one."""
_LOOK_SHARE: Final = 1 / 16
"""Of the limit, after which a process looks again at how much all processes have stored."""

_DIGEST_BYTES = hashlib.sha256().digest_size


def folder() -> Path:
    """The user's cache folder, or, with a warning, a temporary one if others can write to that.

    It is there on return, and nobody else can write to it.
    """
    named = os.environ.get(_VARIABLE)
    wanted = Path(named or platformdirs.user_cache_dir("portable-arrays"))
    try:
        private_folders.make(wanted)
    except private_folders.UnsafeFolderError as error:
        _warn(f"compiled programs are not kept: {error}")
    except OSError as error:
        if named:
            _warn(f"{_VARIABLE} names {named}, which cannot be used ({error.strerror})")
    else:
        return wanted
    return private_folders.temporary()


def _warn(what: str) -> None:
    warn_once(f"{what}; a temporary folder is used until the process ends")


def enabled() -> bool:
    """Whether anything is to be kept."""
    return os.environ.get("PORTABLE_CACHE", "1") != "0"


def key(*parts: str) -> str:
    """A name for what was made from `parts` (source, flags, device, driver, ...), in this format.

    Each part is hashed with its length, so that moving text between parts changes the key.
    """
    digest = hashlib.sha256(_FORMAT)
    for part in parts:
        data = part.encode()
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()


def load(name: str) -> bytes | None:
    """What was stored under `name`; None if nothing was, or if the file is damaged.

    A damaged file is removed.
    """
    if not enabled():
        return None
    path = _path(name)
    try:
        if any(private_folders.distrust(p) for p in (path.parent.parent, path.parent, path)):
            return None
        data = path.read_bytes()
    except OSError:
        return None
    content = _checked(data)
    if content is None:
        _remove(path)
    else:
        with suppress(OSError):
            os.utime(path)  # the time of a program is that of its last use
    return content


def store(name: str, content: bytes) -> None:
    """Keep `content` under `name`; does nothing where the folder cannot be written.

    What was not used for longest goes where all would be more than the limit.
    """
    if not enabled():
        return
    path = _path(name)
    try:
        private_folders.make(path.parent.parent)
        private_folders.make(path.parent)
        write_whole(path, _FORMAT + hashlib.sha256(content).digest() + content)
    except OSError:
        return
    _keep_within_limit(path, len(content))


def limit() -> int:
    """How many bytes programs may take."""
    try:
        return max(int((folder() / _LIMIT_FILE).read_text(encoding="ascii")), 0)
    except (OSError, ValueError):
        return DEFAULT_LIMIT


def set_limit(nbytes: int) -> None:
    """Says how many bytes programs may take, and removes what is more.

    Raises
    ------
    OSError
        If that cannot be written.
    """
    write_whole(folder() / _LIMIT_FILE, str(nbytes).encode())
    _remove_oldest(nbytes, nbytes)


class _Unseen:
    """What this process has stored since it last looked at what all have.

    To look at thousands of files for each program would take longer than to compile some.
    """

    def __init__(self) -> None:
        self.lock = fork_safe_lock()
        self.folder: Path | None = None
        self.nbytes = 0


_unseen: Final = _Unseen()


def _keep_within_limit(stored: Path, nbytes: int) -> None:
    most, where = limit(), stored.parent.parent
    with _unseen.lock:
        _unseen.nbytes += nbytes
        if _unseen.folder == where and _unseen.nbytes <= _LOOK_SHARE * most:
            return
        _unseen.folder, _unseen.nbytes = where, 0
    _remove_oldest(most, int(_KEPT_SHARE * most))


def _remove_oldest(most: int, wanted: int) -> None:
    """Where programs take more than `most` bytes: removes those not used for longest.

    Several processes may do so at once, and find what others have removed gone.
    """
    files = []
    for path in _kept():
        with suppress(OSError):
            status = path.stat()
            files.append((status.st_mtime_ns, status.st_size, path))
    whole = sum(size for _, size, _ in files)
    if whole <= most:
        return
    for _, size, path in sorted(files):
        if whole <= wanted:
            return
        _remove(path)
        whole -= size


class Usage(NamedTuple):
    """What is kept: how many programs, and their bytes."""

    programs: int
    nbytes: int


def usage() -> Usage:
    """What is kept in the cache."""
    sizes = []
    for path in _kept():
        with suppress(OSError):  # another process may have removed it
            sizes.append(path.stat().st_size)
    return Usage(len(sizes), sum(sizes))


def clear() -> int:
    """Remove what is kept; returns how many programs could not be removed.

    Processes that have loaded programs go on with them.
    """
    for path in _kept():
        _remove(path)
    return len(_kept())


def _kept() -> list[Path]:
    return [path for path in (folder() / _PROGRAMS).glob("*/*") if path.is_file()]


def _path(name: str) -> Path:
    return folder() / _PROGRAMS / name[:2] / name


def _checked(data: bytes) -> bytes | None:
    start = len(_FORMAT) + _DIGEST_BYTES
    content = data[start:]
    intact = data[:start] == _FORMAT + hashlib.sha256(content).digest()
    return content if intact else None


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        return
