"""Vectors multiplied with the reflectors of a bulge chase, by blocks of them.

`B` neighbouring sweeps make a group. Its reflectors of one hop stand in ``2 B`` rows, each a row
below the one before: a block ``I - V T V^T``. The last group goes first, and of each its first hop;
a hop may go when the next group has made the same one. So one launch applies all blocks of several
groups: a workgroup takes a group and a strip of columns by ticket, the last group first, and
follows the workgroup that has the next group in the same strip.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import dtype
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.linalg.bands.kernels import FINISHED, follow, publish, taken_pack
from portable.linalg.dense.kernels import clear
from portable.linalg.dense.reflector_kernels import combine
from portable.linalg.dense.reflector_tree import Level, Node, Reflectors
from portable.linalg.dense.shapes import DenseShape
from portable.linalg.products.gemm import gemm
from portable.linalg.reflectors.vector_reflectors import combine_alone
from portable.linalg.spectral.reduction_kernels import reflector_triangles

_TILE: Final = (32, 8, 1)
_ITEMS: Final = 64
_AT_ONCE: Final = 1 << 26
"""Bytes of blocks that are made at a time."""


def lead_back_hops(
    device: Device, kept: Any, x: Any, size: tuple[int, int], b: int, shape: DenseShape
) -> None:
    """Multiplies a matrix in place with all reflectors of a chase.

    Parameters
    ----------
    device : Device
        Where.
    kept : array
        The reflectors, as `portable.linalg.bands.kernels.Kept` has them.
    x : array
        The matrix, with zeros around it.
    size : (int, int)
        Columns of the band, and of the matrix.
    b : int
        Superdiagonals of the band, and columns of a panel.
    shape : DenseShape
        A layout for such panels.
    """
    (n, columns), kind = size, dtype(x.dtype)
    shape = replace(shape, fan=2, climb=False)
    room, strips = x[1 : n + shape.beyond], -(-columns // shape.strip)
    last = (n - 3) // b
    while last >= 0:
        most = together = 0
        while together <= last:
            hops = (n - 3) // b - (last - together) + 1
            if together and (together + 1) * hops * 2 * b * b * kind.itemsize > _AT_ONCE:
                break
            together, most = together + 1, hops
        v, t = _blocks(device, kept, (last, together, most), n, b)
        sync = device.empty((1 + together * strips,), kl.i32)
        clear[int(sync.shape[0]), _ITEMS](sync)
        packs = groups(together * strips)
        hop_packs[packs, shape.workgroup](
            room, Reflectors(v, t, sync), (last, most, strips), n, SHAPE=shape
        )
        last -= together


def _blocks(
    device: Device, kept: Any, packs: tuple[int, int, int], n: int, b: int
) -> tuple[Any, Any]:
    """V and transposed T of the blocks of groups, so many hops of each."""
    last, together, most = packs
    kind, count = dtype(kept.dtype), together * most
    v = device.empty((count, 2 * b, b), kind)
    gram, t = device.empty((count, b, b), kind), device.empty((1, count, b, b), kind)
    spread_hops[(b, 2 * b, count), _TILE](kept, v, last, most, n, B=b)
    gemm(device.namespace().permute_dims(v, (0, 2, 1)), v, out=gram)
    items = 1 if device.capabilities.lone_work_items else min(_ITEMS, b)
    reflector_triangles[(b, count, 1), (items, 1, 1)](gram[None], None, t)
    return device.namespace().reshape(v, (count * 2 * b, b)), t[0]


@kernel
def spread_hops(
    kept: kl.Array, v: kl.Array, last: kl.Scalar, most: kl.Scalar, n: kl.Scalar, *, B: int
) -> None:
    """V of the blocks of groups from the `last` one on, `most` hops of each.

    Dimension 0 is the sweeps of a group, 1 the rows, 2 the blocks.
    """
    sweep, row, block = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    if block < v.shape[0] and row < 2 * B and sweep < B:
        group, hop = last - block // most, block % most
        line, element = group * B + sweep, (group + hop) * B + row
        value = kl.cast(0, v.dtype)
        begun = (group + hop) * B + sweep
        if row >= sweep and row < sweep + B and begun <= n - 3 and element <= n - 2:
            value = kept[line, element]
        v[block, row, sweep] = value


@kernel
def hop_packs(
    x: kl.Array, q: Reflectors, packs: tuple[kl.Scalar, ...], n: kl.Scalar, *, SHAPE: DenseShape
) -> None:
    """Applies the blocks of groups from the last one on; a workgroup for each group and strip."""
    B = SHAPE.panel
    last, most, strips = packs
    ticket = taken_pack(q.counts)
    pack, strip = ticket // strips, ticket % strips
    group = last - pack
    hops = (n - 3) // B - group + 1
    for hop in range(hops):
        if kl.local_id(0) == 0:
            follow(q.counts, ticket + 1 - strips, hop + 1)
        kl.barrier()
        node, begin = Node(0, Level(pack * most + hop, 1, 1)), ((group + hop) * B, strip * SHAPE.strip)
        if SHAPE.lanes > 1:
            combine_alone(x, q, begin, node, SHAPE, "back")
        else:
            combine(x, q, begin, node, SHAPE, "back")
        kl.barrier()
        if kl.local_id(0) == 0:
            publish(q.counts, ticket, kl.where(hop + 1 == hops, FINISHED, hop + 1))
