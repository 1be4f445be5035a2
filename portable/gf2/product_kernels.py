"""The kernel of products over GF(2)."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.gf2.table_kernels import (
    WORD,
    add_combinations,
    build_tables,
    combination,
    load_words,
    store_words,
)
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["multiply_stripes"]


@kernel
def multiply_stripes(named: Any, rows: Any, out: Any, *, shape: Any) -> None:
    """A block of rows of a stripe of ``out = named @ rows``.

    ``named[place, row, 0]`` are the words of the first matrix from its last columns on, `rows` and
    `out` stripes. The rows of a block are kept in registers where work-items share it, for all
    tables in turn; a lone work-item keeps them in its caches.
    """
    tables = kl.local((shape.tables, 1 << shape.bits, shape.width), kl.u64)
    part = kl.local((WORD, shape.width), kl.u64)
    s, first = kl.group_id(1), kl.group_id(0) * shape.rows
    last = kl.minimum(first + shape.rows, out.shape[1])
    COUNT = 1 if shape.alone else shape.rows // kl.local_size(1)
    sums = kl.private(COUNT, kl.u64, lanes=shape.lanes)
    at = kl.local_id(0) * shape.lanes
    if shape.alone:
        clear_rows(out, s, first, last, shape)
    else:
        for i in kl.static_range(COUNT):
            sums[i] = nothing(shape.lanes)
    for step in range(named.shape[0]):
        top = (named.shape[0] - 1 - step) * WORD
        bring_rows(rows, part, s, top, shape)
        build_tables(tables, part, shape)
        if shape.alone:
            for row in range(first, last):
                add_combinations(out, tables, named[step, row, 0], s, row, shape)
        else:
            for i in kl.static_range(COUNT):
                row = first + i * kl.local_size(1) + kl.local_id(1)
                if row < last:
                    sums[i] = sums[i] ^ combination(tables, named[step, row, 0], at, shape)
        kl.barrier()
    if not shape.alone:
        for i in kl.static_range(COUNT):
            row = first + i * kl.local_size(1) + kl.local_id(1)
            if row < last:
                store_words(out, (s, row, at), sums[i], shape.lanes)


@function
def nothing(lanes: int) -> Any:
    """So many words of zeros."""
    zero = kl.cast(0, kl.u64)
    return kl.splat(zero, lanes) if lanes > 1 else zero


@function
def clear_rows(out: Any, s: Any, first: Any, last: Any, shape: Any) -> None:
    """Zeros to the rows of a block."""
    for row in range(first, last):
        for at in kl.static_range(0, shape.width, shape.lanes):
            store_words(out, (s, row, at), nothing(shape.lanes), shape.lanes)


@function
def bring_rows(rows: Any, part: Any, s: Any, top: Any, shape: Any) -> None:
    """64 rows of a stripe from `top` on, zeros where there are fewer."""
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    parts = shape.width // shape.lanes
    for x in range(item, WORD * parts, items):
        c, at = x // parts, x % parts * shape.lanes
        words = nothing(shape.lanes)
        if top + c < rows.shape[1]:
            words = load_words(rows, (s, top + c, at), shape.lanes)
        store_words(part, (c, at), words, shape.lanes)
    kl.barrier()
