"""The kernel that applies the reflectors of a panel to what is right of it (or, turned, below)."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.arrivals import arrived_last
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.dense_shapes import DenseShape
from portable.linalg.reflector_tree import Level, Node, Panel, Reflectors

__all__ = ["apply_reflectors"]


@kernel
def apply_reflectors(
    a: Any,
    q: Reflectors,
    panel: Panel,
    level: Level,
    strips: Any,
    *,
    SHAPE: DenseShape,
    UNIT: int,
    TURNED: bool,
) -> None:
    """``Q^T A`` (`TURNED`: ``A Q``) for the Q of a tree, `STRIP` columns (rows) to a workgroup.

    A workgroup reads its block of the matrix once, into local memory, and writes it once. The last
    one to arrive among a node's children goes on with it, unless each level is a launch (`CLIMB`).
    Local memory: ``FAN P (STRIP + P + PAD) + P (STRIP + P)`` elements.
    """
    strip = kl.group_id(0) % strips
    row, start = panel.row * UNIT, panel.column * UNIT + strip * SHAPE.strip
    node = Node(kl.group_id(0) // strips, level)
    going = node.number < level.nodes
    while going:
        if TURNED:
            combine_columns(a, q, row, start, node, SHAPE)
        else:
            combine_rows(a, q, row, start, node, SHAPE)
        going = False
        if SHAPE.climb and node.level.nodes > 1:
            siblings = node.siblings(SHAPE)
            node = node.above(SHAPE)
            going = arrived_last(q.counts, node.index * strips + strip, siblings)


@function
def combine_rows(a: Any, q: Any, row: Any, start: Any, node: Any, SHAPE: Any) -> None:
    """``A -= V (T^T (V^T A))`` for the rows of a node and the columns of a strip."""
    P, FAN, STRIP, PAD = SHAPE.panel, SHAPE.fan, SHAPE.strip, SHAPE.padding
    kind = a.dtype
    block = kl.local((FAN, P, STRIP), kind)
    reflectors = kl.local((FAN, P, P + PAD), kind)
    factor = kl.local((P, P), kind)
    product = kl.local((P, STRIP), kind)
    chunks = node.chunks(a.shape[0] - row, SHAPE)
    own = node.index * SHAPE.height
    kl.copy_async(factor, q.t[node.index, 0:P, 0:P])
    for chunk in range(chunks):
        at = row + node.line(chunk, SHAPE)
        kl.copy_async(block[chunk], a[at : at + P, start : start + STRIP])
        from_row = own + chunk * P
        kl.copy_async(reflectors[chunk, 0:P, 0:P], q.v[from_row : from_row + P, 0:P])
    kl.copy_commit()
    kl.copy_wait(0)
    kl.barrier()
    total = kl.matrix((P, STRIP), kind)
    total.fill(0)
    for chunk in range(chunks):
        kl.mma(total, reflectors[chunk, 0:P, 0:P].T, block[chunk])
    for i, j, value in kl.elements(total):
        product[i, j] = value
    kl.barrier()
    total.fill(0)
    kl.mma(total, factor, product)
    kl.barrier()
    for i, j, value in kl.elements(total):
        product[i, j] = -value
    kl.barrier()
    for chunk in range(chunks):
        at = row + node.line(chunk, SHAPE)
        total.load(block[chunk])
        kl.mma(total, reflectors[chunk, 0:P, 0:P], product)
        total.store(a[at : at + P, start : start + STRIP])


@function
def combine_columns(a: Any, q: Any, row: Any, start: Any, node: Any, SHAPE: Any) -> None:
    """``A -= ((A V) T) V^T`` for the columns of a node and the rows of a strip."""
    P, FAN, STRIP, PAD = SHAPE.panel, SHAPE.fan, SHAPE.strip, SHAPE.padding
    kind = a.dtype
    block = kl.local((FAN, STRIP, P + PAD), kind)
    reflectors = kl.local((FAN, P, P + PAD), kind)
    factor = kl.local((P, P), kind)
    product = kl.local((STRIP, P + PAD), kind)
    chunks = node.chunks(a.shape[1] - row, SHAPE)
    own = node.index * SHAPE.height
    kl.copy_async(factor, q.t[node.index, 0:P, 0:P])
    for chunk in range(chunks):
        at = row + node.line(chunk, SHAPE)
        kl.copy_async(block[chunk, 0:STRIP, 0:P], a[start : start + STRIP, at : at + P])
        from_row = own + chunk * P
        kl.copy_async(reflectors[chunk, 0:P, 0:P], q.v[from_row : from_row + P, 0:P])
    kl.copy_commit()
    kl.copy_wait(0)
    kl.barrier()
    total = kl.matrix((STRIP, P), kind)
    total.fill(0)
    for chunk in range(chunks):
        kl.mma(total, block[chunk, 0:STRIP, 0:P], reflectors[chunk, 0:P, 0:P])
    for i, j, value in kl.elements(total):
        product[i, j] = value
    kl.barrier()
    total.fill(0)
    kl.mma(total, product[0:STRIP, 0:P], factor.T)
    kl.barrier()
    for i, j, value in kl.elements(total):
        product[i, j] = -value
    kl.barrier()
    for chunk in range(chunks):
        at = row + node.line(chunk, SHAPE)
        total.load(block[chunk, 0:STRIP, 0:P])
        kl.mma(total, product[0:STRIP, 0:P], reflectors[chunk, 0:P, 0:P].T)
        total.store(a[start : start + STRIP, at : at + P])
