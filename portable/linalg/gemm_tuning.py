"""What may be tuned of the tile kernel, and which choices a call of `gemm` tries."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from portable.backend import Capabilities, Device
from portable.dtypes import DType
from portable.tune.space import Parameters, Space
from portable.tune.table import lookup, state

__all__ = ["SPACE", "SPACE_NT", "candidates"]

_BUSY: Final = 1
"""A choice is preferred while it gives every compute unit at least so many tiles."""


def _fits(choice: Parameters, dtype: DType, capabilities: Capabilities) -> bool:
    m, n, k, stages = (choice[name] for name in ("BM", "BN", "BK", "STAGES"))
    single = choice["WORKGROUP"] == 1
    if single != (capabilities.kind == "cpu") or choice["WORKGROUP"] > capabilities.max_workgroup:
        return False
    width = max(dtype.itemsize, 4) if single else dtype.itemsize
    needed = stages * (m + n) * k * width
    room = max(capabilities.local_memory, capabilities.local_memory_opt_in)
    per_item = m * n // choice["WORKGROUP"]
    registers = per_item * dtype.register.itemsize // 4
    return bool(needed * 17 // 16 <= room and (single or 16 <= registers <= 160))


_VALUES: Final = {
    "BM": (32, 64, 96, 128, 192, 256),
    "BN": (32, 64, 128, 256),
    "BK": (8, 16, 32, 64, 96, 128),
    "STAGES": (1, 2, 3, 4),
    "WORKGROUP": (1, 64, 128, 256, 512),
    "GROUP": (1, 8),
    "UNITS": (False, True),
}

SPACE: Final = Space("gemm", _VALUES, _fits)

SPACE_NT: Final = Space("gemm_nt", _VALUES, _fits)
"""For a `b` whose columns are contiguous.

Register tiles want its rows: copies across cost more, and larger tiles need fewer of them.
"""


def candidates(
    device: Device,
    dtype: DType,
    algorithm: str,
    size: tuple[int, int, int],
    b_columns: bool = False,
) -> tuple[Parameters, ...]:
    """Parameters to try for a result of (M, N, batch), the best first.

    The table lists choices from large tiles to small; the first that keeps all compute units busy
    is tried first, then the smaller, then the larger ones. For a `b` whose columns are contiguous
    those of "gemm_nt" come first.
    """
    return _ranked(device.capabilities, dtype, algorithm, size, b_columns, state())


@lru_cache(maxsize=4096)
def _ranked(
    capabilities: Capabilities,
    dtype: DType,
    algorithm: str,
    size: tuple[int, int, int],
    b_columns: bool,
    table: Any,
) -> tuple[Parameters, ...]:
    """The candidates as of one state of the user's table."""
    spaces = (SPACE_NT, SPACE) if b_columns else (SPACE,)
    found = [dict(c) for space in spaces for c in lookup(space.kernel, dtype, capabilities)]
    units = capabilities.compute_units * _BUSY
    busy = [choice for choice in found if _tiles(choice, size) >= units]
    small = sorted((c for c in found if c not in busy), key=lambda c: -_tiles(c, size))
    return tuple(_for_rung(choice, algorithm) for choice in busy + small)


def _tiles(choice: Parameters, size: tuple[int, int, int]) -> int:
    m, n, batch = size
    return int(-(-m // choice["BM"]) * -(-n // choice["BN"]) * batch)


def _for_rung(choice: dict[str, Any], algorithm: str) -> dict[str, Any]:
    """The same choice restricted to what a rung of the ladder may use."""
    if algorithm == "register":
        return {**choice, "UNITS": False, "STAGES": 1}
    if algorithm == "pipelined":
        return {**choice, "UNITS": False, "STAGES": max(2, choice["STAGES"])}
    return choice
