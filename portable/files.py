"""How files are written."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

__all__ = ["write_whole"]


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes to a temporary name beside `path`, then renames: the file is whole or not there.

    Raises
    ------
    OSError
        If that fails; it names `path`.
    """
    target = Path(path)
    unfinished = target.with_name(f".{target.name}.{uuid4().hex}")
    try:
        unfinished.write_bytes(data)
        unfinished.replace(target)
    except BaseException as error:
        if isinstance(error, OSError) and error.errno is not None:
            error.filename, error.filename2 = os.fspath(path), None
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise
