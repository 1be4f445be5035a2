"""Operands of products whose rows begin anywhere, copied into rows that devices read fast."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from portable import lang as kl
from portable.backend import Capabilities, Device
from portable.dtypes import DType, dtype, float16, float32
from portable.errors import OutOfMemoryError
from portable.lang.arguments import array_spec
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


def pays(capabilities: Capabilities, kind: DType, products: int) -> bool:
    """Whether so many multiplications are worth copies: asynchronous ones want aligned rows."""
    fewest = _FEWEST_PRODUCTS.get(kind)
    return fewest is not None and products >= fewest and "vector" in capabilities.async_copy


def in_rows(device: Device, x: Any) -> Any:
    """The array, or where its rows and columns are not aligned a copy of which the rows are."""
    view = device.view(x)
    if array_spec(view).aligned or 0 in view.strides:
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
