"""Compiled programs kept on disk, found by a hash of everything they depend on.

A damaged or unwritable cache costs a recompilation, never an error. ``PORTABLE_CACHE_DIR`` moves
the cache and ``PORTABLE_CACHE=0`` switches it off. Programs are code that will be run: none is
taken from a folder that somebody else can write to.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import platformdirs

from portable import private
from portable.files import write_whole
from portable.notices import warn_once

__all__ = ["Usage", "clear", "enabled", "folder", "key", "load", "store", "usage"]

_VARIABLE = "PORTABLE_CACHE_DIR"
_PROGRAMS = "programs"
_FORMAT = b"portable-cache-1\n"
_DIGEST_BYTES = hashlib.sha256().digest_size


def folder() -> Path:
    """The user's cache folder, or, with a warning, a temporary one if others can write to that.

    It is there on return, and nobody else can write to it.
    """
    named = os.environ.get(_VARIABLE)
    wanted = Path(named or platformdirs.user_cache_dir("portable-arrays"))
    try:
        private.make(wanted)
    except private.UnsafeFolderError as error:
        _warn(f"compiled programs are not kept: {error}")
    except OSError as error:
        if named:
            _warn(f"{_VARIABLE} names {named}, which cannot be used ({error.strerror})")
    else:
        return wanted
    return private.temporary()


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
        if any(private.distrust(p) for p in (path.parent.parent, path.parent, path)):
            return None
        data = path.read_bytes()
    except OSError:
        return None
    content = _checked(data)
    if content is None:
        _remove(path)
    return content


def store(name: str, content: bytes) -> None:
    """Keep `content` under `name`; does nothing where the folder cannot be written."""
    if not enabled():
        return
    path = _path(name)
    try:
        private.make(path.parent.parent)
        private.make(path.parent)
        write_whole(path, _FORMAT + hashlib.sha256(content).digest() + content)
    except OSError:
        return


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
