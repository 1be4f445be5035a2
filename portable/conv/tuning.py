"""What may be tuned of convolutions, and which choices one tries."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from portable.backend import Capabilities
from portable.dtypes import DType, float16, float32
from portable.linalg.gemm_tuning import SPACE as GEMM
from portable.tune.space import Parameters, Space
from portable.tune.table import lookup

__all__ = ["DIRECT", "WINOGRAD", "direct_choices", "winograd_choices"]

_STEP: Final = 0.15
"""What each place further down in the table counts for: smaller tiles read more."""

_PLAIN: Final = {float16: 8.0, float32: 2.5}
"""What products cost without matrix units beside those with them."""


def _fits(choice: Parameters, dtype: DType, capabilities: Capabilities) -> bool:
    m, n, k, stages = (choice[name] for name in ("BM", "BN", "BK", "STAGES"))
    alone = choice["WORKGROUP"] == 1
    if alone != capabilities.lone_work_items or choice["WORKGROUP"] > capabilities.max_workgroup:
        return False
    if choice["SPLIT"] and not _may_split(choice, dtype, capabilities):
        return False
    room = max(capabilities.local_memory, capabilities.local_memory_opt_in)
    per_item = m * n // choice["WORKGROUP"] * dtype.register.itemsize // 4
    small = stages * (m + n) * k * dtype.register.itemsize * 17 // 16 <= room
    return bool(small and choice["T"] >= n and (alone or 16 <= per_item <= 160))


def _may_split(choice: Parameters, dtype: DType, capabilities: Capabilities) -> bool:
    units = choice["UNITS"] and "mma.tf32" in capabilities.matrix_units
    return bool(units and dtype.register is float32)


WINOGRAD: Final = Space(
    "conv_winograd",
    {
        "T": (32, 64, 128, 256),
        "BM": (32, 48, 64, 96, 128, 192, 256),
        "BN": (32, 64, 128, 256),
        "BK": (8, 16, 32, 64, 96, 128),
        "STAGES": (1, 2, 3, 4),
        "WORKGROUP": (1, 64, 128, 256),
        "UNITS": (False, True),
        "SPLIT": (False, True),
    },
    _fits,
)
"""Tiles of images in a block, ``T``, and the tiles of the products of their elements."""

DIRECT: Final = Space("conv_direct", GEMM.values, GEMM.fits, GEMM.left_out)
"""The tiles of `portable.conv.box_kernels.multiply_boxes`, which are those of gemm."""


@lru_cache(maxsize=1024)
def winograd_choices(
    capabilities: Capabilities, dtype: DType, size: tuple[int, int, int], table: Any
) -> tuple[Parameters, ...]:
    """Choices for so many filters, tiles and matrices, the best first, all of them of one ``T``."""
    found = lookup(WINOGRAD, dtype, capabilities)
    ranked = _ranked(found, size, dtype, capabilities)
    return tuple(choice for choice in ranked if choice["T"] == ranked[0]["T"])


@lru_cache(maxsize=1024)
def direct_choices(
    capabilities: Capabilities, dtype: DType, size: tuple[int, int], table: Any
) -> tuple[Parameters, ...]:
    """Choices for so many places of results and filters, the best first; `table` is its state."""
    found = [*lookup(DIRECT, dtype, capabilities), *lookup(GEMM, dtype, capabilities)]
    return tuple(_ranked(found, (*size, 1), dtype, capabilities))


def _without_units(choice: Parameters, dtype: DType, capabilities: Capabilities) -> float:
    """How much longer a product takes that leaves matrix units out."""
    units = {float16: "mma.f16", float32: "mma.tf32"}.get(dtype)
    left_out = units in capabilities.matrix_units and not choice["UNITS"]
    return _PLAIN[dtype] if left_out else 1.0


def _ranked(
    listed: list[Parameters],
    size: tuple[int, int, int],
    dtype: DType,
    capabilities: Capabilities,
) -> list[Parameters]:
    """By what the busiest compute unit has to work out; the table lists large tiles first."""
    units = max(1, capabilities.compute_units)
    costs = [
        _cost(choice, size, units) * _without_units(choice, dtype, capabilities) * (1 + _STEP * at)
        for at, choice in enumerate(listed)
    ]
    return [listed[at] for at in sorted(range(len(listed)), key=costs.__getitem__)]


def _cost(choice: Parameters, size: tuple[int, int, int], units: int) -> float:
    m, n, count = size
    n = -(-n // choice.get("T", 1)) * choice.get("T", 1)
    tiles = -(-m // choice["BM"]) * -(-n // choice["BN"]) * count
    alone = choice["WORKGROUP"] == 1
    each = m * n * count / tiles if alone else choice["BM"] * choice["BN"]
    return float(-(-tiles // units) * each)
