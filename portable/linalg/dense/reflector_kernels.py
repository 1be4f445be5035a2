"""The kernel that applies the reflectors of a panel to what is right of it (or, turned, below)."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.dense.reflector_tree import Level, Node, Panel, Reflectors
from portable.linalg.dense.shapes import DenseShape
from portable.linalg.reflectors.vector_reflectors import combine_single


@kernel
def apply_reflectors(
    a: kl.Array,
    q: Reflectors,
    panel: Panel,
    level: Level,
    strips: kl.Scalar,
    *,
    SHAPE: DenseShape,
    UNIT: int,
    TRANSPOSED: bool,
) -> None:
    """``Q^T A`` (`TRANSPOSED`: ``A Q``) for the Q of a tree, `STRIP` columns (rows) to a workgroup.

    A workgroup reads its block of the matrix once, into local memory, and writes it once. The last
    one to arrive among a node's children goes on with it, unless each level is a launch.
    Local memory: ``FAN P (STRIP + P + PAD) + P (STRIP + P)`` elements.
    """
    strip = kl.group_id(0) % strips
    row, start = panel.row * UNIT, panel.column * UNIT + strip * SHAPE.strip
    node = Node(kl.group_id(0) // strips, level)
    going = node.number < level.nodes
    while going:
        if SHAPE.lanes > 1:
            combine_single(a, q, (row, start), node, SHAPE, TRANSPOSED)
        else:
            combine(a, q, (row, start), node, SHAPE, TRANSPOSED)
        node, going = node.climbed(q.counts, strip, strips, SHAPE)


@function
def block_of(
    a: kl.Array, at: kl.Scalar, start: kl.Scalar, SHAPE: DenseShape, TRANSPOSED: bool
) -> Any:
    """The rows of the matrix from `at` on in a strip; its columns where it is turned."""
    P, STRIP = SHAPE.panel, SHAPE.strip
    if TRANSPOSED:
        return a[start : start + STRIP, at : at + P]
    return a[at : at + P, start : start + STRIP]


@function
def add_product(total: Any, left: kl.Array, right: kl.Array, TRANSPOSED: bool) -> None:
    """``total += left @ right``; `TRANSPOSED` where `total` and `right` stand transposed."""
    if TRANSPOSED:
        kl.mma(total, right, left.T)
    else:
        kl.mma(total, left, right)


@function
def combine(
    a: kl.Array,
    q: Reflectors,
    column: tuple[kl.Scalar, ...],
    node: Node,
    SHAPE: DenseShape,
    TRANSPOSED: bool,
) -> None:
    """``A -= V (T^T (V^T A))`` for the rows of a node and the columns of a strip.

    `TRANSPOSED`: ``A -= ((A V) T) V^T`` for the columns of a node and the rows of a strip. `column`
    is where the tree and the strip begin.
    """
    P, FAN, PAD, kind = SHAPE.panel, SHAPE.fan, SHAPE.padding, a.dtype
    HEIGHT, WIDTH = (SHAPE.strip, P) if TRANSPOSED else (P, SHAPE.strip)
    PITCH = WIDTH + PAD if TRANSPOSED else WIDTH
    row, start = column
    blocks = kl.local((FAN, HEIGHT, PITCH), kind)
    reflectors = kl.local((FAN, P, P + PAD), kind)
    factor = kl.local((P, P), kind)
    room = kl.local((HEIGHT, PITCH), kind)
    product = room[0:HEIGHT, 0:WIDTH]
    chunks = node.chunks((a.shape[1] if TRANSPOSED else a.shape[0]) - row, SHAPE)
    first = node.index * SHAPE.height
    kl.copy_async(factor, q.t[node.index, 0:P, 0:P])
    for chunk in range(chunks):
        block = block_of(a, row + node.line(chunk, SHAPE), start, SHAPE, TRANSPOSED)
        kl.copy_async(blocks[chunk, 0:HEIGHT, 0:WIDTH], block)
        from_row = first + chunk * P
        kl.copy_async(reflectors[chunk, 0:P, 0:P], q.v[from_row : from_row + P, 0:P])
    kl.copy_commit()
    kl.copy_wait(0)
    kl.barrier()
    total = kl.matrix((HEIGHT, WIDTH), kind)
    total.fill(0)
    for chunk in range(chunks):
        block = blocks[chunk, 0:HEIGHT, 0:WIDTH]
        add_product(total, reflectors[chunk, 0:P, 0:P].T, block, TRANSPOSED)
    for i, j, value in kl.elements(total):
        product[i, j] = value
    kl.barrier()
    total.fill(0)
    add_product(total, factor, product, TRANSPOSED)
    kl.barrier()
    for i, j, value in kl.elements(total):
        product[i, j] = -value
    kl.barrier()
    for chunk in range(chunks):
        total.load(blocks[chunk, 0:HEIGHT, 0:WIDTH])
        add_product(total, reflectors[chunk, 0:P, 0:P], product, TRANSPOSED)
        total.store(block_of(a, row + node.line(chunk, SHAPE), start, SHAPE, TRANSPOSED))
