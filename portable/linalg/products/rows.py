"""Operands of products whose rows begin anywhere, copied into rows that devices read fast."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from portable import lang as kl
from portable.backend import ArrayView, Capabilities, Device
from portable.dtypes import DType, bfloat16, dtype, float16, float32
from portable.errors import OutOfMemoryError
from portable.lang.arguments.arguments import ALIGNMENT, array_spec
from portable.lang.kernel import kernel
from portable.lang.launch.enqueued import enqueue
from portable.lang.launch.geometry import groups
from portable.linalg.products.kernels import matrix_of
from portable.linalg.products.schedules import tile_of_workgroup

_EDGE: Final = 64
_ITEMS: Final = 256

_ROW_BYTES: Final = 128
"""What rows are rounded up to: a line of the caches."""

_FEWEST_PRODUCTS: Final = {float16: 2**24, bfloat16: 2**24, float32: 2**28}
"""Multiplications of a product from which on copies are worth their launches.

On an H200 products of 4095 took 0.05 of the time so in half and 0.89 in single precision, and as
much in double precision as without.
"""


_FEWEST_USES: Final = 128
"""Of each element that is copied."""


_SECTOR: Final = 32
"""Bytes that caches give at a time: rows that begin between them cost TMA more."""

_FEWEST_FOR_SECTORS: Final = 2**33
"""Multiplications of a product from which on b's rows are worth copies to sectors.

On an H200 half-precision products of 3000, 4104, 5000 and 8200 took 0.77 to 0.80 of the time so;
copies of both operands 0.80 to 0.85, and a b of contiguous columns 1.02.
"""


_FEWEST_ROWS_TURNED: Final = 2048
"""Of a product of single precision, from which on a `b` of contiguous columns is worth turning.

Work-items that multiply by themselves read rows of it: each of its tiles is turned on its way into
local memory, which took a product of 4096 on an H200 1.04 times as long as both kernels do.
"""


class Rows(NamedTuple):
    """How operands of a product should lie in memory, or be copied to.

    Attributes
    ----------
    a, b : int
        Bytes of which their rows begin at multiples.
    turned : bool
        Whether rows of `b` are contiguous even if its columns are.
    across : bool
        Whether columns of `a` are where it is copied.
    along_sum : bool
        Whether rows of `a` and columns of `b` have to be contiguous, as instructions that multiply
        bytes want them.
    """

    a: int
    b: int
    turned: bool = False
    across: bool = False
    along_sum: bool = False


def row_multiples(
    capabilities: Capabilities, kind: DType, shape: tuple[int, ...], k: int, b_columns: bool
) -> Rows | None:
    """How the rows of a and b should lie; None where copies do not pay.

    Asynchronous copies want aligned rows.

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
    b_columns : bool
        Whether b's columns are contiguous.
    """
    if bytes_by_units(capabilities, kind, shape[-2:], prod(shape) * k):
        return Rows(ALIGNMENT, ALIGNMENT, along_sum=True)
    fewest, products = _FEWEST_PRODUCTS.get(kind), prod(shape) * k
    if fewest is None or products < fewest or min(shape[-2:]) < _FEWEST_USES:
        return None
    if "vector" not in capabilities.async_copy:
        return None
    boxes = kind.itemsize == 2 and "tensor" in capabilities.async_copy and not b_columns
    sectors = boxes and products >= _FEWEST_FOR_SECTORS
    turned = b_columns and kind is float32 and shape[-2] >= _FEWEST_ROWS_TURNED
    across = kind is float32  # of which work-items multiply columns with rows
    return Rows(ALIGNMENT, _SECTOR if sectors else ALIGNMENT, turned, across)


def bytes_by_units(
    capabilities: Capabilities, kind: DType, extents: tuple[int, ...], products: int
) -> bool:
    """Whether matrix units multiply operands of bytes, which are copied where they lie otherwise.

    Parameters
    ----------
    capabilities : Capabilities
        Of the device.
    kind : DType
        Of the operands.
    extents : (int, int)
        M and N.
    products : int
        Multiplications, in all.
    """
    known = kind.itemsize == 1 and f"wgmma.{kind.short}" in capabilities.matrix_units
    return known and products >= _FEWEST_PRODUCTS[float16] and min(extents) >= _FEWEST_USES


def in_rows(
    device: Device,
    x: Any,
    multiple: int = ALIGNMENT,
    turned: bool = False,
    across: bool = False,
) -> Any:
    """The array, or where its rows and columns do not begin at such bytes a copy whose rows do.

    Parameters
    ----------
    device : Device
        Where it lives.
    x : array, shape (..., M, N)
        The matrices.
    multiple : int
        Bytes.
    turned : bool
        Whether columns that begin so will not do.
    across : bool
        Whether columns of a copy lie together, not its rows.
    """
    view = device.view(x)
    if 0 in view.strides:
        return x
    layout = view.dtype, view.shape, view.strides
    lies_well = not turned or view.strides[-1] == view.dtype.itemsize
    if lies_well and not view.address % multiple and _are_aligned(*layout, multiple):
        return x
    try:
        rows = _room_for(device, dtype(view.dtype), view.shape, across)
    except OutOfMemoryError:
        return x
    copy_into(x, rows)
    return rows


def _room_for(device: Device, kind: DType, shape: tuple[int, ...], across: bool) -> Any:
    """A new array whose rows, or columns where `across`, begin at lines of the caches."""
    *lead, m, n = shape
    count, length = (n, m) if across else (m, n)
    per_row = _ROW_BYTES // kind.itemsize
    room = device.empty((*lead, count, -(-length // per_row) * per_row), kind)
    rows = room[..., :length]
    return rows.swapaxes(-1, -2) if across else rows


def copy_into(x: Any, out: Any) -> None:
    """Copies matrices (..., m, n) to others, either of which may be transposed views."""
    *lead, m, n = out.shape
    tiles = prod(lead) * -(-m // _EDGE) * -(-n // _EDGE)
    enqueue(copy_into_rows[groups(tiles), (_ITEMS, 1, 1)], x, out, EDGE=_EDGE)


@lru_cache(maxsize=4096)
def _are_aligned(
    kind: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...], multiple: int
) -> bool:
    """Whether all rows, or columns, are if the first is; asked at each call of `gemm`."""
    aligned = array_spec(ArrayView(kind, shape, strides, None, 0)).aligned
    return aligned and not any(n % multiple for n in strides if n != kind.itemsize)


@kernel
def copy_into_rows(x: kl.Array, out: kl.Array, *, EDGE: int) -> None:
    """A workgroup per square tile, which passes through local memory: either side may be columns.

    Local memory: ``EDGE**2`` elements, and 16 bytes a row so that columns are not in one bank.

    Parameters
    ----------
    x, out : array, shape (..., M, N)
        The matrices and where they go, of any strides.
    EDGE : int
        Of a tile.
    """
    batch, row, column = tile_of_workgroup(out, EDGE, EDGE)
    source, target = matrix_of(x, out, batch), matrix_of(out, out, batch)
    room = kl.local((EDGE, EDGE + ALIGNMENT // x.dtype.itemsize), x.dtype)
    tile = room[0:EDGE, 0:EDGE]
    kl.copy(tile, source[row : row + EDGE, column : column + EDGE])
    kl.barrier()
    kl.copy(target[row : row + EDGE, column : column + EDGE], tile)
