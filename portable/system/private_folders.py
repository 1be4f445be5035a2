"""Folders that nobody else can write to, for what is loaded and run from them.

Who can write to such a folder could have the next user run a program of theirs.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from portable.system.locks import fork_safe_lock

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
