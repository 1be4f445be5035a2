"""Operands of products whose rows begin anywhere, copied into rows that devices read fast."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, Final

import numpy as np

from portable import lang as kl
from portable.backend import ArrayView, Capabilities, Device
from portable.dtypes import DType, dtype, float16, float32
from portable.errors import OutOfMemoryError
from portable.lang.arguments import ALIGNMENT, array_spec
from portable.lang.geometry import groups
from portable.lang.kernel import kernel
from portable.linalg.gemm_kernels import matrix_of, tile_of_workgroup

__all__ = ["copy_into_rows", "in_rows", "pays"]

_EDGE: Final = 64
_ITEMS: Final = 256
_ROW_BYTES: Final = 128
"""What rows are rounded up to: a line of the caches."""

_FEWEST_PRODUCTS: Final = {float16: 2**24, float32: 2**28}
"""Multiplications of a product from which on copies are worth their launches.

On an H200 products of 4095 took 0.05 of the time so in half and 0.89 in single precision, and as
much in double precision as without.
"""


_FEWEST_USES: Final = 128
"""Of each element that is copied."""


def pays(capabilities: Capabilities, kind: DType, shape: tuple[int, ...], k: int) -> bool:
    """Whether a product is worth copies of its operands: asynchronous ones want aligned rows.

    Parameters
    ----------
    capabilities : Capabilities
        Of the device.
    kind : DType
        Of the operands.
    shape : tuple of int
        Of the result, (..., M, N).
    k : int
        The extent that is summed over.
    """
    fewest = _FEWEST_PRODUCTS.get(kind)
    large = fewest is not None and prod(shape) * k >= fewest and min(shape[-2:]) >= _FEWEST_USES
    return large and "vector" in capabilities.async_copy


def in_rows(device: Device, x: Any) -> Any:
    """The array, or where its rows and columns are not aligned a copy of which the rows are."""
    view = device.view(x)
    if 0 in view.strides:
        return x
    if not view.address % ALIGNMENT and _are_aligned(view.dtype.char, view.shape, view.strides):
        return x
    *lead, m, n = view.shape
    per_row = _ROW_BYTES // view.dtype.itemsize
    try:
        room = device.empty((*lead, m, -(-n // per_row) * per_row), dtype(view.dtype))
    except OutOfMemoryError:
        return x
    rows = room[..., :n]
    tiles = prod(lead) * -(-m // _EDGE) * -(-n // _EDGE)
    copy_into_rows[groups(tiles), (_ITEMS, 1, 1)](x, rows, EDGE=_EDGE)
    return rows


@lru_cache(maxsize=4096)
def _are_aligned(kind: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether all rows, or columns, are if the first is; asked at each call of `gemm`."""
    return array_spec(ArrayView(np.dtype(kind), shape, strides, None, 0)).aligned


@kernel
def copy_into_rows(x: Any, out: Any, *, EDGE: int) -> None:
    """A workgroup per square tile, which passes through local memory: either side may be columns.

    Local memory: ``EDGE**2`` elements.
    """
    batch, row, column = tile_of_workgroup(out, EDGE, EDGE, 1)
    source, target = matrix_of(x, out, batch), matrix_of(out, out, batch)
    tile = kl.local((EDGE, EDGE), x.dtype)
    kl.copy(tile, source[row : row + EDGE, column : column + EDGE])
    kl.barrier()
    kl.copy(target[row : row + EDGE, column : column + EDGE], tile)
