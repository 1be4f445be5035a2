"""Products with many reflectors: blocks of them as compact WY forms, two products each."""

from __future__ import annotations

from typing import Any, Final

from portable.backend import Device
from portable.dtypes import dtype
from portable.linalg.products.gemm import gemm
from portable.linalg.spectral.reduction_kernels import reflector_triangles

BLOCK: Final = 64
"""Reflectors of a block: of so many rows, products take the time of arithmetic."""

_ITEMS: Final = 64
_SHAPES: Final = 4
"""How many shapes of products there are: each is planned, and on processors compiled, by itself.

A quarter more is multiplied for it than would have to be.
"""


_SUMMED: Final = 64
_SUMS: Final = 4
"""Rows at least, and sums at most, of products with reflectors that are added up by themselves.

Rounding errors of one long sum make blocks of reflectors less orthogonal than all else does.
"""


def reflect(device: Device, vectors: Any, factors: Any, x: Any, first: int = 0) -> None:
    """Multiplies matrices in place with products of reflectors: ``x = H_0 H_1 ... x``.

    Parameters
    ----------
    device : Device
        Where.
    vectors : array, shape (count, reflectors, rows)
        Real vectors as rows, a multiple of `BLOCK`; zeros in the k-th before its element
        ``first + k``.
    factors : array, shape (count, reflectors)
        The tau of each.
    x : array, shape (count, rows, columns)
        What is multiplied.
    first : int
        As said.
    """
    count, reflectors, rows = (int(n) for n in vectors.shape)
    space, kind = device.namespace(), dtype(vectors.dtype)
    blocks = reflectors // BLOCK
    parts = space.reshape(vectors, (count, blocks, BLOCK, rows))
    gram = _summed(device, parts, space.permute_dims(parts, (0, 1, 3, 2)))
    triangles = device.empty((count, blocks, BLOCK, BLOCK), kind)
    items = 1 if device.capabilities.lone_work_items else _ITEMS
    reflector_triangles[(BLOCK, blocks, count), (items, 1, 1)](gram, factors, triangles)
    changes = gemm(triangles, parts)
    step = BLOCK * -(-rows // (BLOCK * _SHAPES))
    shares = device.empty((count, BLOCK, int(x.shape[2])), kind)
    for block in range(blocks - 1, -1, -1):
        start = (first + block * BLOCK) // step * step
        if start < rows:
            rest = x[:, start:, :]
            _summed(device, parts[:, block, :, start:], rest, shares)
            change = space.permute_dims(changes[:, block, :, start:], (0, 2, 1))
            gemm(change, shares, alpha=-1, beta=1, c=rest, out=rest)


def _summed(device: Device, a: Any, b: Any, out: Any = None) -> Any:
    """``a @ b``, of rows that are added up in some sums where work-items are alone.

    Many share a sum out by themselves.
    """
    rows = int(a.shape[-1])
    length = max(_SUMMED, -(-rows // _SUMS)) if device.capabilities.lone_work_items else rows
    for start in range(0, rows, length):
        some, others = a[..., start : start + length], b[..., start : start + length, :]
        if start == 0:
            out = gemm(some, others, out=out)
        else:
            gemm(some, others, beta=1, c=out, out=out)
    return out
