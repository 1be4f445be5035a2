"""The reflectors of a panel applied by a work-item alone, in vectors."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.linalg.reflectors.vector_products import add_product, subtract_product, transpose


@function
def combine_single(
    a: kl.Array,
    q: Any,
    column: tuple[kl.Scalar, ...],
    node: Any,
    SHAPE: Any,
    TRANSPOSED: bool,
) -> None:
    """As `reduction.combine`, of a matrix with zeros behind it, so that blocks are whole.

    They are read twice and written once where they lie. Meanwhile those right of them, with which
    the same core mostly goes on, come to the caches.
    """
    P, STRIP, LANES, kind = SHAPE.panel, SHAPE.strip, SHAPE.lanes, a.dtype
    kl.static_assert(STRIP % LANES == 0 and P % LANES == 0, "blocks are whole vectors")
    HEIGHT, WIDTH = (STRIP, P) if TRANSPOSED else (P, STRIP)
    products, shares = kl.local((HEIGHT, WIDTH), kind), kl.local((HEIGHT, WIDTH), kind)
    turned, t = kl.local((P, P), kind), q.t[node.index, 0:P, 0:P]
    for r in range(HEIGHT):
        for c in range(0, WIDTH, LANES):
            kl.vstore(products, r, c, kl.splat(kl.cast(0, kind), LANES))
            kl.vstore(shares, r, c, kl.splat(kl.cast(0, kind), LANES))
    rows = (a.shape[1] if TRANSPOSED else a.shape[0]) - SHAPE.beyond - column[0]
    chunks = node.chunks(rows, SHAPE)
    for chunk in range(chunks):
        block, v = parts(a, q, column, (node, chunk), SHAPE, TRANSPOSED)
        if TRANSPOSED:
            add_product(products, block, v, LANES)
        else:
            add_product(products, v.T, block, LANES)
    if TRANSPOSED:
        transpose(t, turned, LANES)
        add_product(shares, products, turned, LANES)
    else:
        add_product(shares, t, products, LANES)
    for chunk in range(chunks):
        block, v = parts(a, q, column, (node, chunk), SHAPE, TRANSPOSED)
        if TRANSPOSED:
            transpose(v, turned, LANES)
            subtract_product(block, shares, turned, LANES)
        else:
            subtract_product(block, v, shares, LANES, STRIP)


@function
def parts(
    a: kl.Array, q: Any, column: tuple[kl.Scalar, ...], which: Any, SHAPE: Any, TRANSPOSED: bool
) -> Any:
    """The block of the matrix that a chunk of a node has in a strip, and its rows of V."""
    P, STRIP = SHAPE.panel, SHAPE.strip
    (row, start), (node, chunk) = column, which
    at, first = row + node.line(chunk, SHAPE), node.index * SHAPE.height + chunk * P
    v = q.v[first : first + P, 0:P]
    if TRANSPOSED:
        return a[start : start + STRIP, at : at + P], v
    return a[at : at + P, start : start + STRIP], v
