"""Layouts of operand tiles for matrix units: the contiguous dimension, and padding of rows.

Rows are contiguous where the array that fills the tile is, so that copies move whole vectors; the
instructions read either way.
"""

from __future__ import annotations

from typing import Final

from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array, Layout, chunk_bytes
from portable.lang.tiles.strategy import Tile, alike_dims
from portable.lang.tiles.work import Work

_CHUNK: Final = 16
_BANKS: Final = 128


def contiguous_dim(tile: Tile) -> int:
    """The dimension of a tile along which the arrays that fill it have unit stride."""
    dims = {
        to
        for copy in tile.copies
        for to, start in alike_dims(copy).items()
        if copy.source.array.strides[start] == "unit"
    }
    last = tile.array.ndim - 1
    return dims.pop() if len(dims) == 1 else last


def spread(work: Work, tiles: list[Tile]) -> None:
    """Gives tiles rows that fall into different banks, by padding where there is room."""
    free = [tile for tile in tiles if not tile.bulk]
    padded = {tile.array: _padded(tile) for tile in free}
    capabilities = work.capabilities
    room = max(capabilities.local_memory, capabilities.local_memory_opt_in)
    if _bytes(work.kernel, padded) > room:
        swizzled = {tile.array: _swizzled(tile) for tile in free}
        fits = _bytes(work.kernel, swizzled) <= room
        if fits or _bytes(work.kernel, padded) > capabilities.local_memory_most:
            padded = swizzled
    for array, layout in padded.items():
        work.replace(array, layout)


def _bytes(kernel: Kernel, new: dict[Array, Layout]) -> int:
    total = 0
    for array in kernel.arrays:
        layout = new.get(array, array.layout)
        if array.space == "local" and layout is not None:
            total += -(-layout.size * array.dtype.itemsize // _BANKS) * _BANKS
    return total


def _padded(tile: Tile) -> Layout:
    """Rows an odd number of ldmatrix's rows apart; for others, 4 lanes of 8 rows side by side.

    Singles that are neighbours across the sum are read by 8 lanes of 4 rows.
    """
    array = tile.array
    chunk = 4 if array.dtype.itemsize == 8 else _CHUNK // array.dtype.itemsize
    if array.dtype.itemsize == 4 and not _along_sum(tile):
        chunk *= 2
    extent = array.shape[contiguous_dim(tile)]
    return rows(tile, staggered(extent, chunk))


def _along_sum(tile: Tile) -> bool:
    """Whether the contiguous dimension is the one that is summed over."""
    inner = contiguous_dim(tile)
    return any(inner == (columns if use == "a" else rows) for use, rows, columns in tile.uses)


def staggered(extent: int, chunk: int) -> int:
    """From one row to the next, so that chunks below each other lie in different banks."""
    return extent + chunk if extent % (2 * chunk) == 0 else extent


def _swizzled(tile: Tile) -> Layout:
    """Rows without padding, their chunks turned where their number is a power of two."""
    array = tile.array
    extent, size = array.shape[contiguous_dim(tile)], array.dtype.itemsize
    chunks, rest = divmod(extent * size, chunk_bytes(size))
    plain = rows(tile, extent)
    turns = not rest and chunks > 1 and chunks & (chunks - 1) == 0 and size in (2, 8)
    return Layout(plain.strides, plain.size, chunks) if turns else plain


def rows(tile: Tile, stride: int) -> Layout:
    """Contiguous along one dimension, `stride` elements from row to row, the rest outside."""
    array, inner = tile.array, contiguous_dim(tile)
    outer = [dim for dim in range(array.ndim) if dim != inner]
    strides = [0] * array.ndim
    strides[inner] = 1
    size = stride
    rows_of_uses = {dim for use in tile.uses for dim in use[1:]}
    for dim in sorted(outer, key=lambda dim: (dim in rows_of_uses, dim), reverse=True):
        strides[dim] = size
        size *= array.shape[dim]
    return Layout(tuple(strides), size)
