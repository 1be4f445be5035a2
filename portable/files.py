"""How files are written."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

__all__ = ["write_whole"]


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes to a temporary name beside `path`, then renames: the file is whole or not there."""
    target = Path(path)
    unfinished = target.with_name(f".{target.name}.{uuid4().hex}")
    try:
        unfinished.write_bytes(data)
        unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
