"""The kernel that applies the reflectors of a panel to what is right of it (or, turned, below)."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.arrivals import arrived_last
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.reflector_tree import line

__all__ = ["apply_reflectors"]


@kernel
def apply_reflectors(
    a: Any,
    v: Any,
    t: Any,
    counts: Any,
    first: Any,
    column: Any,
    base: Any,
    nodes: Any,
    stride: Any,
    strips: Any,
    *,
    P: int,
    FAN: int,
    UNIT: int,
    STRIP: int,
    PAD: int,
    TURNED: bool,
    CLIMB: bool,
) -> None:
    """``Q^T A`` (`TURNED`: ``A Q``) for the Q of a tree, `STRIP` columns (rows) to a workgroup.

    A workgroup reads its block of the matrix once, into local memory, and writes it once. The last
    one to arrive among a node's children goes on with it, unless each level is a launch (`CLIMB`).
    Local memory: ``FAN P (STRIP + P + PAD) + P (STRIP + P)`` elements.
    """
    strip, node = kl.group_id(0) % strips, kl.group_id(0) // strips
    row, start = first * UNIT, column * UNIT + strip * STRIP
    going = node < nodes
    count, below, apart = nodes + 0, base + 0, stride + 0
    while going:
        if TURNED:
            combine_columns(a, v, t, row, start, node, below, apart, P, FAN, STRIP, PAD)
        else:
            combine_rows(a, v, t, row, start, node, below, apart, P, FAN, STRIP, PAD)
        going = False
        if CLIMB and count > 1:
            above = node // FAN
            siblings = kl.minimum(count - above * FAN, FAN)
            below = below + count
            going = arrived_last(counts, (below + above) * strips + strip, siblings)
            node, count, apart = above, kl.cdiv(count, FAN), apart * FAN


@function
def combine_rows(
    a: Any,
    v: Any,
    t: Any,
    row: Any,
    start: Any,
    node: Any,
    base: Any,
    stride: Any,
    P: int,
    FAN: int,
    STRIP: int,
    PAD: int,
) -> None:
    """``A -= V (T^T (V^T A))`` for the rows of a node and the columns of a strip."""
    kind = a.dtype
    block = kl.local((FAN, P, STRIP), kind)
    reflectors = kl.local((FAN, P, P + PAD), kind)
    factor = kl.local((P, P), kind)
    product = kl.local((P, STRIP), kind)
    chunks = kl.minimum(kl.cdiv(a.shape[0] - row - line(node, 0, stride, P, FAN), stride * P), FAN)
    own = (base + node) * (FAN * P)
    kl.copy_async(factor, t[base + node, 0:P, 0:P])
    for chunk in range(chunks):
        at = row + line(node, chunk, stride, P, FAN)
        kl.copy_async(block[chunk], a[at : at + P, start : start + STRIP])
        from_row = own + chunk * P
        kl.copy_async(reflectors[chunk, 0:P, 0:P], v[from_row : from_row + P, 0:P])
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
        at = row + line(node, chunk, stride, P, FAN)
        total.load(block[chunk])
        kl.mma(total, reflectors[chunk, 0:P, 0:P], product)
        total.store(a[at : at + P, start : start + STRIP])


@function
def combine_columns(
    a: Any,
    v: Any,
    t: Any,
    row: Any,
    start: Any,
    node: Any,
    base: Any,
    stride: Any,
    P: int,
    FAN: int,
    STRIP: int,
    PAD: int,
) -> None:
    """``A -= ((A V) T) V^T`` for the columns of a node and the rows of a strip."""
    kind = a.dtype
    block = kl.local((FAN, STRIP, P + PAD), kind)
    reflectors = kl.local((FAN, P, P + PAD), kind)
    factor = kl.local((P, P), kind)
    product = kl.local((STRIP, P + PAD), kind)
    chunks = kl.minimum(kl.cdiv(a.shape[1] - row - line(node, 0, stride, P, FAN), stride * P), FAN)
    own = (base + node) * (FAN * P)
    kl.copy_async(factor, t[base + node, 0:P, 0:P])
    for chunk in range(chunks):
        at = row + line(node, chunk, stride, P, FAN)
        kl.copy_async(block[chunk, 0:STRIP, 0:P], a[start : start + STRIP, at : at + P])
        from_row = own + chunk * P
        kl.copy_async(reflectors[chunk, 0:P, 0:P], v[from_row : from_row + P, 0:P])
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
        at = row + line(node, chunk, stride, P, FAN)
        total.load(block[chunk, 0:STRIP, 0:P])
        kl.mma(total, product[0:STRIP, 0:P], reflectors[chunk, 0:P, 0:P].T)
        total.store(a[start : start + STRIP, at : at + P])
