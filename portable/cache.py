"""Compiled programs kept on disk, found by a hash of everything they depend on.

A damaged or unwritable cache costs a recompilation, never an error. ``PORTABLE_CACHE_DIR`` moves
the cache and ``PORTABLE_CACHE=0`` switches it off.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import platformdirs

from portable.files import write_whole

__all__ = ["folder", "key", "load", "store"]

_FORMAT = b"portable-cache-1\n"
_DIGEST_BYTES = hashlib.sha256().digest_size


def folder() -> Path:
    """The user's cache folder, which need not exist."""
    return Path(
        os.environ.get("PORTABLE_CACHE_DIR") or platformdirs.user_cache_dir("portable-arrays")
    )


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
    if not _enabled():
        return None
    path = _path(name)
    try:
        data = path.read_bytes()
    except OSError:
        return None
    content = _checked(data)
    if content is None:
        _remove(path)
    return content


def store(name: str, content: bytes) -> None:
    """Keep `content` under `name`; does nothing where the folder cannot be written."""
    if not _enabled():
        return
    path = _path(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, _FORMAT + hashlib.sha256(content).digest() + content)
    except OSError:
        return


def _enabled() -> bool:
    return os.environ.get("PORTABLE_CACHE", "1") != "0"


def _path(name: str) -> Path:
    return folder() / "programs" / name[:2] / name


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
