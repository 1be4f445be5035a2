"""What may be tuned of the tile kernel, and which choices a call of `gemm` tries."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from portable.backend import Capabilities, Device
from portable.dtypes import DType, float16
from portable.tune.space import Parameters, Space
from portable.tune.table import lookup, state

__all__ = ["SPACE", "SPACE_NT", "candidates", "multiplying"]

_STEP: Final = 0.15
"""What each place further down in the table counts for: smaller tiles read more for each product.

Between 64x256 and 32x64 elements it is 0.01 to 0.3 in single precision on an H200.
"""

_PLAIN_HALF: Final = 8.0
"""What a product in half precision costs without matrix units beside one with them.

Double precision counts both alike: small results are done sooner without them, in smaller tiles
that more compute units share (training 4x1024x64x256x64 on an H200 1.7 ms, with them 2.7).
"""

_WARPGROUP: Final = 128
"""Work-items that multiply together; where copies are made apart, a part of one has that to do."""


def multiplying(choice: Parameters) -> int:
    """The work-items that share a tile of the result out."""
    items = int(choice["WORKGROUP"])
    return (items - 1) // _WARPGROUP * _WARPGROUP if choice["APART"] else items


def _fits(choice: Parameters, dtype: DType, capabilities: Capabilities) -> bool:
    m, n, k, stages = (choice[name] for name in ("BM", "BN", "BK", "STAGES"))
    single = choice["WORKGROUP"] == 1
    if single != capabilities.lone_work_items or choice["WORKGROUP"] > capabilities.max_workgroup:
        return False
    width = max(dtype.itemsize, 4) if single else dtype.itemsize
    apart = choice["APART"]
    if apart and not _may_be_apart(choice, dtype, capabilities):
        return False
    needed = stages * (m + n) * k * width
    room = max(capabilities.local_memory, capabilities.local_memory_opt_in)
    per_item = m * n // multiplying(choice)
    registers = per_item * dtype.register.itemsize // 4
    return bool(needed * 17 // 16 <= room and (single or 16 <= registers <= 160))


def _may_be_apart(choice: Parameters, dtype: DType, capabilities: Capabilities) -> bool:
    """Where multiplications run on their own, in a ring with slots to run ahead in."""
    units = choice["UNITS"] and dtype is float16 and "wgmma.f16" in capabilities.matrix_units
    return bool(units and choice["STAGES"] > 2 and choice["WORKGROUP"] > _WARPGROUP)


_VALUES: Final = {
    "BM": (16, 32, 48, 64, 96, 128, 192, 256),
    "BN": (32, 64, 128, 192, 256),
    "BK": (8, 16, 32, 64, 96, 128),
    "STAGES": (1, 2, 3, 4),
    "APART": (False, True),
    "WORKGROUP": (1, 64, 128, 160, 256, 288, 384, 512),
    "GROUP": (1, 8),
    "UNITS": (False, True),
}

SPACE: Final = Space("gemm", _VALUES, _fits, {"APART": False})

SPACE_NT: Final = Space("gemm_nt", _VALUES, _fits, {"APART": False})
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

    The table lists choices from large tiles to small, and large ones do more with what they read;
    but the compute unit with most tiles sets the time (`_cost`). For a `b` whose columns are
    contiguous those of "gemm_nt" come first.
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
    listed = (c for space in spaces for c in lookup(space, dtype, capabilities))
    found = [_for_rung(dict(choice), algorithm) for choice in listed]
    units = max(1, capabilities.compute_units)
    costs = [
        _cost(choice, size, units) * _without_units(choice, dtype, capabilities) * (1 + _STEP * at)
        for at, choice in enumerate(found)
    ]
    ranked = sorted(range(len(found)), key=costs.__getitem__)
    return tuple(found[at] for at in ranked)


def _without_units(choice: Parameters, dtype: DType, capabilities: Capabilities) -> float:
    """How much longer a choice takes that leaves matrix units out; 1 where there are none."""
    left_out = "mma.f16" in capabilities.matrix_units and not choice["UNITS"]
    return _PLAIN_HALF if dtype is float16 and left_out else 1.0


def _cost(choice: Parameters, size: tuple[int, int, int], units: int) -> float:
    """Elements that the busiest compute unit works out.

    A work-item alone leaves out what a tile holds beyond the result, others work that out too.
    """
    m, n, batch = size
    tiles = _tiles(choice, size)
    each = m * n * batch / tiles if choice["WORKGROUP"] == 1 else choice["BM"] * choice["BN"]
    return -(-tiles // units) * float(each)


def _tiles(choice: Parameters, size: tuple[int, int, int]) -> int:
    m, n, batch = size
    return int(-(-m // choice["BM"]) * -(-n // choice["BN"]) * batch)


def _for_rung(choice: dict[str, Any], algorithm: str) -> dict[str, Any]:
    """The same choice restricted to what a rung of the ladder may use."""
    if algorithm == "register":
        return {**choice, "UNITS": False, "APART": False, "STAGES": 1}
    if algorithm == "pipelined":
        return {**choice, "UNITS": False, "APART": False, "STAGES": max(2, choice["STAGES"])}
    return choice
