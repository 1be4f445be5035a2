"""How factorisations are laid out on a device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from portable.backend import Capabilities
from portable.dtypes import DType

_BLOCK: Final = 64
"""Rows of a diagonal block where work-items are many, and that a lone one solves for, at most."""

_SOLVED: Final = 128
"""Rows that many work-items solve for in one launch at most."""

TILE: Final = 4
"""Rows and columns of a positive definite block that a work-item has in registers."""

LONG_SEGMENT: Final = 16
"""Rows that a work-item which is alone has in registers."""

WIDE: Final = 256
"""Columns (rows) of the blocks whose products change the rest of a matrix."""

PANEL: Final = 16
_PANEL_ALONE: Final = 32
"""Columns of a panel, where work-items are many and where they are alone."""

_CROWD: Final = 256
_STRIP: Final = 64
_LINE_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class Layout:
    """One layout, a constant of the kernels.

    Attributes
    ----------
    block : int
        Rows of a diagonal block of a positive definite matrix.
    solved : int
        Rows that one launch solves for at most, unless it reads a triangle where it lies.
    lanes : int
        Columns of a vector; 1 where work-items are many, and of complex numbers.
    items : int
        Work-items that factor a panel together, or load what a strip of columns is solved with.
    strip : int
        Columns of a strip.
    panel : int
        Columns of a panel that is eliminated one by one.
    strips, least : int
        Parts in which what is left of a positive definite matrix is changed, and rows of one at
        least, if blocks have as many. The more, the less is changed for nothing, but products of
        few rows leave compute units idle.
    """

    block: int
    solved: int
    lanes: int
    items: int
    strip: int
    panel: int
    strips: int
    least: int


@lru_cache(maxsize=256)
def layout_of(kind: DType, can: Capabilities) -> Layout:
    """The layout for numbers that are computed in `kind`.

    Parameters
    ----------
    kind : DType
        ``float32``, ``float64`` or complex.
    can : Capabilities
        Of the device.
    """
    if can.single_work_items:
        solved, room = _BLOCK, max(can.local_memory, can.local_memory_opt_in)
        while 2 * solved * (solved + 1) * kind.itemsize > room:
            solved //= 2
        lanes = 1 if kind.is_complex else max(1, can.vector_bytes // kind.itemsize)
        return Layout(WIDE, solved, lanes, 1, _STRIP, _PANEL_ALONE, strips=32, least=128)
    block, solved, room = _BLOCK, _SOLVED, can.local_memory_most
    while solved > PANEL and solved * (solved + 2) * kind.itemsize > room // 2:
        solved //= 2
    most = min(can.max_workgroup, can.max_workgroup_shape[0])
    strip = min(_STRIP, most)
    while block > 8 and block * (block + strip) // TILE**2 > most:
        block //= 2
    return Layout(block, solved, 1, min(_CROWD, most), strip, PANEL, strips=4, least=512)


def room_of(columns: int, kind: DType) -> int:
    """Places that a row is given.

    Rows begin at lines of the caches, an odd number of them apart: a cache has few places for lines
    whose addresses differ by a power of two.

    Parameters
    ----------
    columns : int
        Elements of a row.
    kind : DType
        Of the elements.
    """
    line = _LINE_BYTES // kind.itemsize
    return line * (-(-columns // line) | 1)
