"""Products with many reflectors: blocks of them as compact WY forms, two products each."""

from __future__ import annotations

from math import gcd, isqrt, prod
from typing import Any, Final

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType, dtype
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.linalg.products.gemm import gemm
from portable.linalg.products.kernels import gemm_sums, keep
from portable.linalg.reflectors.vector_products import add_product, subtract_product
from portable.linalg.spectral.reduction_kernels import reflector_triangles

BLOCK: Final = 64
"""Reflectors of a block: of so many rows, products take the time of arithmetic."""

_ITEMS: Final = 64
_SHAPES: Final = 4
"""How many shapes of products there are: each is planned, and on processors compiled, by itself.

A quarter more is multiplied for it than would have to be.
"""


_VECTORS: Final = 2, 4
"""Across a strip: as many as products hold sums of in registers, and twice as many where columns
are many, since each strip reads all reflectors from a core's or the last cache."""

_WIDE: Final = 600
"""Columns that are many: 1500 of double precision took 80 ms instead of 95."""

_SHORTEST: Final = 16
_SHORTEST_ALONE: Final = 64
_PARTS_ALONE: Final = 4
"""Rows at least that are added up in one sum, and parts at most where work-items are alone.

Where all terms have one sign, rounding errors of a long sum make blocks of reflectors less
orthogonal than all else does.
"""


def chain_of(device: Device, rows: int) -> int:
    """How many rows are added up in one sum: of many work-items as many as there are sums.

    Parameters
    ----------
    device : Device
        Where.
    rows : int
        Of reflectors.
    """
    least, shortest = isqrt(rows - 1) + 1, _SHORTEST
    if device.capabilities.single_work_items:
        least, shortest = -(-rows // _PARTS_ALONE), _SHORTEST_ALONE
    return max(shortest, 1 << (least - 1).bit_length())


def whole_rows(device: Device, rows: int) -> int:
    """The rows that reflectors and what they multiply are given, with zeros at the end.

    Parameters
    ----------
    device : Device
        Where.
    rows : int
        What they need.
    """
    unit = max(BLOCK, chain_of(device, rows))
    return -(-rows // unit) * unit


def reflect(device: Device, vectors: Any, factors: Any, x: Any, first: int = 0) -> None:
    """Multiplies matrices in place with products of reflectors: ``x = H_0 H_1 ... x``.

    Parameters
    ----------
    device : Device
        Where.
    vectors : array, shape (count, reflectors, rows)
        Real vectors as rows, a multiple of `BLOCK`; zeros in the k-th before its element
        ``first + k``. Of `whole_rows`.
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
    gram, triangles = (device.empty((count, blocks, BLOCK, BLOCK), kind) for _ in range(2))
    chain = chain_of(device, rows)
    _summed(device, parts, space.permute_dims(parts, (0, 1, 3, 2)), chain, gram)
    items = 1 if device.capabilities.single_work_items else _ITEMS
    reflector_triangles[(BLOCK, blocks, count), (items, 1, 1)](gram, factors, triangles)
    if device.capabilities.single_work_items:
        _reflect_strips(device, parts, triangles, x, first)
        return
    changes = gemm(triangles, parts, out=device.empty(parts.shape, kind))
    unit = max(BLOCK, chain)
    step = unit * -(-rows // (unit * _SHAPES))
    shares = device.empty((count, BLOCK, int(x.shape[2])), kind)
    for block in range(blocks - 1, -1, -1):
        start = (first + block * BLOCK) // step * step
        if start < rows:
            rest = x[:, start:, :]
            _summed(device, parts[:, block, :, start:], rest, chain, shares)
            change = space.permute_dims(changes[:, block, :, start:], (0, 2, 1))
            gemm(change, shares, alpha=-1, beta=1, c=rest, out=rest)


def _reflect_strips(device: Device, parts: Any, triangles: Any, x: Any, first: int) -> None:
    """All blocks in one launch, in which a strip of columns stays in a core's cache.

    Many work-items would be a wave of strips, one block after the other: they take products.
    """
    space, kind = device.namespace(), dtype(x.dtype)
    count, blocks, _, rows = (int(n) for n in parts.shape)
    changes = device.empty((count, blocks, rows, BLOCK), kind)
    turned = (space.permute_dims(a, (0, 1, 3, 2)) for a in (parts, triangles))
    gemm(*turned, out=changes)
    lanes, columns = _lanes_of(device, kind), int(x.shape[2])
    vectors = gcd(columns // lanes, _VECTORS[1])
    apply_blocks[groups(columns // (lanes * vectors), count), 1](
        parts, changes, x, first, LANES=lanes, VECTORS=vectors
    )


def strip_of(device: Device, kind: DType, columns: int) -> int:
    """Columns of which there are to be whole multiples in what is multiplied.

    Parameters
    ----------
    device : Device
        Where.
    kind : DType
        What they hold.
    columns : int
        How many there are.
    """
    if not device.capabilities.single_work_items:
        return 1
    return _VECTORS[columns >= _WIDE] * _lanes_of(device, kind)


def _lanes_of(device: Device, kind: DType) -> int:
    return max(1, device.capabilities.vector_bytes // kind.itemsize)


@kernel
def apply_blocks(
    v: kl.Array, changes: kl.Array, x: kl.Array, first: kl.Scalar, *, LANES: int, VECTORS: int
) -> None:
    """Multiplies strips of columns with blocks of reflectors ``I - C V^T``, the last block first.

    A work-item has a strip to itself; dimension 1 is the matrices.
    """
    STRIP = VECTORS * LANES
    matrix, column = kl.group_id(1), kl.group_id(0) * STRIP
    shares = kl.local((BLOCK, STRIP), x.dtype)
    for number in range(v.shape[1]):
        block = v.shape[1] - 1 - number
        start = (first + block * BLOCK) // BLOCK * BLOCK
        for i in range(BLOCK):
            for j in kl.static_range(0, STRIP, LANES):
                kl.vstore(shares, i, j, kl.splat(kl.cast(0, x.dtype), LANES))
        for row in range(start, x.shape[1], BLOCK):
            left = v[matrix, block, 0:BLOCK, row : row + BLOCK]
            rest = x[matrix, row : row + BLOCK, column : column + STRIP]
            add_product(shares, left, rest, LANES)
        for row in range(start, x.shape[1], BLOCK):
            rest = x[matrix, row : row + BLOCK, column : column + STRIP]
            left = changes[matrix, block, row : row + BLOCK, 0:BLOCK]
            subtract_product(rest, left, shares, LANES)


def _summed(device: Device, a: Any, b: Any, chain: int, out: Any) -> None:
    """``a @ b``, whose sums are added up in parts of so many terms."""
    space, (*lead, m, k), n = device.namespace(), (int(x) for x in a.shape), int(b.shape[-1])
    parts, axes = k // chain, range(len(lead))
    if parts <= _PARTS_ALONE:
        for start in range(0, k, chain):
            left, right = a[..., start : start + chain], b[..., start : start + chain, :]
            if start == 0:
                gemm(left, right, out=out)
            else:
                gemm(left, right, beta=1, c=out, out=out)
        return
    left = space.reshape(a, (*lead, m, parts, chain))
    left = space.permute_dims(left, (len(lead) + 1, *axes, len(lead), len(lead) + 2))
    right = space.reshape(b, (*lead, parts, chain, n))
    right = space.permute_dims(right, (len(lead), *axes, len(lead) + 1, len(lead) + 2))
    sums = gemm(left, right, out=device.empty((parts, *lead, m, n), dtype(a.dtype)))
    count = prod(int(x) for x in out.shape)
    gemm_sums[count, _ITEMS](sums, 1.0, 0.0, None, None, out, ACTIVATION=keep)
