"""How element-wise work is shared among work-items, and by how many lanes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from portable.backend import Capabilities
from portable.dtypes import DType, float16
from portable.primitives.base.operands import power_of_two
from portable.primitives.tuning import row_shares_for

_WIDE_ENOUGH: Final = 4
_HALF: Final = 4
"""A half takes as many bytes in a processor's registers."""
_STREAMED: Final = 1 << 25
"""What a processor's caches hold for whoever reads a result next."""


def conversion_of(kind: DType, wanted: DType | None) -> DType | None:
    """What a kernel has to convert an operand to; None where loading it gives that already."""
    if wanted is None or kind is wanted or kind.is_complex:
        return None if wanted is None or kind is wanted else wanted
    if wanted.is_complex:
        return wanted
    return None if kind.register is wanted.register else wanted.register


def streams(size: int, capabilities: Capabilities) -> bool:
    """Whether results of so many bytes are to pass the caches by: they are more than those hold.

    Else a processor reads each line before it writes it, a third of what a copy moves.
    """
    return capabilities.streaming_stores and size >= _STREAMED


def vector_lanes(
    kinds: Sequence[DType], extent: int, capabilities: Capabilities, *, streaming: bool = False
) -> int:
    """How many neighbours of these dtypes to take at a time along contiguous rows; 1 for none.

    The last dtype is the result's: on a GPU a narrow one is written in wide pieces too, on a
    processor what passes the caches by (`streaming`) in whole lines of them.

    Parameters
    ----------
    kinds : sequence of DType
        Of the operands, and last of the result.
    extent : int
        Of the rows.
    capabilities : Capabilities
        The device's.
    streaming : bool
        Whether the result passes the caches by.
    """
    if capabilities.lone_work_items:
        lanes = _cpu_lanes(
            kinds, capabilities.cache_line if streaming else capabilities.vector_bytes
        )
    else:
        lanes = _gpu_lanes(kinds, capabilities)
    return lanes if 1 < lanes <= extent and not any(kind.is_complex for kind in kinds) else 1


def _cpu_lanes(kinds: Sequence[DType], widest: int) -> int:
    """Compilers make vectors of narrow integers by themselves, but not of halves."""
    widths = [_HALF if kind is float16 else kind.itemsize for kind in kinds]
    if min(widths) < _WIDE_ENOUGH and float16 not in kinds:
        return 1
    return widest // max(widths)


def _gpu_lanes(kinds: Sequence[DType], capabilities: Capabilities) -> int:
    widest = max(kind.itemsize for kind in kinds)
    share = row_shares_for(capabilities)
    lanes = min(share.vector, capabilities.vector_bytes) // widest
    return max(lanes, min(share.vector // kinds[-1].itemsize, share.loaded // widest))


def work_of(
    shape: tuple[int, ...], lanes: int, capabilities: Capabilities, *, strided: bool
) -> tuple[int, int, tuple[int, int], tuple[int, int]]:
    """Elements and rows for a work-item, the ndrange and the workgroup.

    A CPU gets few long work-items, or square tiles where an operand is strided along the rows (as
    a transpose is), whose cache lines then serve a tile's worth of rows. A GPU gets one vector for
    each work-item in workgroups as wide as the rows, and of several rows where a launch cannot have
    so many workgroups.

    Parameters
    ----------
    shape : tuple of int
        Of the result, the last dimension being its rows'.
    lanes : int
        Neighbours that are taken at a time.
    capabilities : Capabilities
        The device's.
    strided : bool
        Whether an operand's neighbours do not lie along the rows.
    """
    inner, rows = shape[-1], prod(shape[:-1])
    share = row_shares_for(capabilities)
    if capabilities.lone_work_items and strided and len(shape) > 1:
        tiles = -(-inner // share.tile), -(-rows // share.tile)
        return share.tile, share.tile, tiles, (1, 1)
    if capabilities.lone_work_items:
        many = max(1, share.chunk // inner)
        return share.chunk, many, (-(-inner // share.chunk), -(-rows // many)), (1, 1)
    wide = -(-inner // lanes)
    across = min(share.group, power_of_two(wide))
    tall = share.group // across if rows > 1 else 1
    many = rows_for_each(rows, tall, capabilities)
    return lanes, many, (wide, -(-rows // many)), (across, tall)


def rows_for_each(rows: int, tall: int, capabilities: Capabilities) -> int:
    """How many rows a work-item does: one, unless a launch has too few workgroups along them.

    Parameters
    ----------
    rows : int
        In all.
    tall : int
        Work-items of a workgroup along them, the ndrange's dimension 1.
    capabilities : Capabilities
        The device's.
    """
    return -(-rows // (tall * capabilities.max_groups[1]))
