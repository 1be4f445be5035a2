"""Vectors multiplied with the reflectors of a bulge chase, by blocks of them.

`B` neighbouring sweeps make a group. Its reflectors of one hop stand in ``2 B`` rows, each a row
below the one before: a block ``I - V T V^T``. Of the last group the first hop goes first. A hop of
a group goes when all groups behind it have made theirs in its rows, which is one step after the
next group has made the same hop. So what goes at the same time stands in ``2 B`` rows each without
room between, and is applied like the nodes of a tree of reflectors (as in A. Haidar, P. Luszczek,
J. Dongarra, "New algorithm for computing eigenvectors of the symmetric eigenvalue problem", IPDPS
Workshops 2014, but that blocks of several groups go together).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import dtype
from portable.lang.kernel import kernel
from portable.linalg.dense.reduction import apply_back
from portable.linalg.dense.reflector_tree import Level, Reflectors
from portable.linalg.dense.shapes import DenseShape
from portable.linalg.products.gemm import gemm
from portable.linalg.spectral.reduction_kernels import reflector_triangles

_TILE: Final = (32, 8, 1)
_ITEMS: Final = 64
_AT_ONCE: Final = 1 << 25
"""Bytes of blocks that are made at a time: caches hold them until they are applied."""


class Step(NamedTuple):
    """Blocks that are applied at the same time: so many hops from `hop` on, of groups in turn.

    The first one is `group`'s, and begins in `row`, counted from the matrix' second.
    """

    group: int
    hop: int
    row: int
    blocks: int


def steps_of(n: int, b: int) -> list[Step]:
    """All steps of a chase in order.

    Parameters
    ----------
    n : int
        Columns of the band.
    b : int
        Its superdiagonals.
    """
    last, steps = (n - 3) // b, []
    for number in range(last + (n - 3) // b + 1):
        hop = max(0, number - last)
        group = last - number + hop
        row = (group + hop) * b
        blocks = min((n - 3 - row) // (2 * b), last - group) + 1
        steps.append(Step(group, hop, row, blocks))
    return steps


def lead_back_hops(
    device: Device, kept: Any, x: Any, size: tuple[int, int], b: int, shape: DenseShape
) -> None:
    """Multiplies matrices in place with all reflectors of a chase.

    Parameters
    ----------
    device : Device
        Where.
    kept : array
        The reflectors, as `portable.linalg.bands.kernels.Kept` has them.
    x : array
        A matrix, with zeros around it.
    size : (int, int)
        Columns of the band, and of the matrix.
    b : int
        Superdiagonals of the band, and columns of a panel.
    shape : DenseShape
        A layout for such panels.
    """
    (n, columns), kind = size, dtype(x.dtype)
    shape = replace(shape, fan=2, climb=False)
    steps, most = steps_of(n, b), -(-n // (2 * b))
    together = max(1, _AT_ONCE // (most * 2 * b * b * kind.itemsize))
    room = x[1 : n + shape.beyond]
    counts = device.empty((1,), kl.i32)
    for first in range(0, len(steps), together):
        some = steps[first : first + together]
        v, t = _blocks(device, kept, some, most, n, b)
        for number, step in enumerate(some):
            place = slice(number * most, (number + 1) * most)
            v_here, t_here = v[place], t[place]
            v_here = device.namespace().reshape(v_here, (most * 2 * b, b))
            level = Level(0, step.blocks, 1)
            reflectors = Reflectors(v_here, t_here, counts)
            apply_back(room, reflectors, (step.row, b), level, columns, shape)


def _blocks(
    device: Device, kept: Any, steps: list[Step], most: int, n: int, b: int
) -> tuple[Any, Any]:
    """V and transposed T of steps, so many blocks each."""
    kind, count = dtype(kept.dtype), len(steps) * most
    v = device.empty((count, 2 * b, b), kind)
    gram, t = device.empty((count, b, b), kind), device.empty((1, count, b, b), kind)
    first = steps[0]
    begin = first.hop - first.group
    spread_hops[(b, 2 * b, count), _TILE](kept, v, begin, most, n, B=b)
    gemm(device.namespace().permute_dims(v, (0, 2, 1)), v, out=gram)
    items = 1 if device.capabilities.lone_work_items else min(_ITEMS, b)
    reflector_triangles[(b, count, 1), (items, 1, 1)](gram[None], None, t)
    return v, t[0]


@kernel
def spread_hops(
    kept: kl.Array, v: kl.Array, begin: kl.Scalar, most: kl.Scalar, n: kl.Scalar, *, B: int
) -> None:
    """V of blocks, `most` a step; of the first step's group and hop the difference is `begin`.

    Dimension 0 is the sweeps of a group, 1 the rows, 2 the blocks.
    """
    sweep, row, block = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    if block < v.shape[0] and row < 2 * B and sweep < B:
        apart = begin + block // most
        hop = kl.maximum(apart, 0) + block % most
        group = hop - apart
        line, element = group * B + sweep, (group + hop) * B + row
        value = kl.cast(0, v.dtype)
        begun = (group + hop) * B + sweep
        if row >= sweep and row < sweep + B and begun <= n - 3 and element <= n - 2:
            value = kept[line, element]
        v[block, row, sweep] = value
