"""How the host's memory is used, which processors and the simulator work in."""

from __future__ import annotations

import os

from portable.backend import MemoryUse


def host_memory_use() -> MemoryUse:
    """Of the machine; NumPy keeps no pool and no count."""
    return MemoryUse(None, None, _bytes("SC_AVPHYS_PAGES"), _bytes("SC_PHYS_PAGES"))


def _bytes(name: str) -> int | None:
    """Of so many pages, where the system says."""
    if not hasattr(os, "sysconf") or name not in os.sysconf_names:
        return None
    return os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")
