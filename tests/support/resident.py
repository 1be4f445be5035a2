"""How much memory this process takes."""

from __future__ import annotations

import gc
import mmap
from pathlib import Path

_STATUS = Path("/proc/self/statm")


def measurable() -> bool:
    """Whether this system tells."""
    return _STATUS.exists()


def resident() -> int:
    """Bytes in memory, garbage left out."""
    gc.collect()
    return int(_STATUS.read_text().split()[1]) * mmap.PAGESIZE
