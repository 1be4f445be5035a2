"""Tables of combinations: the method of the four Russians, as functions for kernels.

Rows are taken 64 at a time, as many as a word has bits. Table ``t`` holds every sum of rows ``t K``
to ``t K + K - 1`` for tables of K rows, so that any sum of some of the 64 rows is the sum of one
entry of each table. `shape` is a `portable.gf2.tuning.Shape`, whose `bits` are K.

V. Arlazarov, E. Dinic, M. Kronrod, I. Faradzev (1970); several tables at once as in M. Albrecht, G.
Bard, W. Hart, "Algorithm 898", ACM TOMS 37 (2010).
"""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function

__all__ = [
    "WORD",
    "add_combinations",
    "build_tables",
    "combination",
    "load_words",
    "nothing",
    "store_words",
]

WORD: Final = 64
"""Bits of a word, and the rows that one set of tables combines."""


@function
def load_words(x: Any, index: Any, lanes: int) -> Any:
    """`lanes` neighbouring words along the last axis, the first at `index`, a tuple."""
    return kl.vload(x, *index, lanes=lanes) if lanes > 1 else x[*index]


@function
def store_words(x: Any, index: Any, words: Any, lanes: int) -> None:
    """Writes what `load_words` reads."""
    if lanes > 1:
        kl.vstore(x, *index, words)
    else:
        x[*index] = words


@function
def nothing(lanes: int) -> Any:
    """So many words of zeros."""
    zero = kl.cast(0, kl.u64)
    return kl.splat(zero, lanes) if lanes > 1 else zero


@function
def build_tables(tables: Any, rows: Any, shape: Any) -> None:
    """Fills `tables` (tables, 2^K, width) with the sums of `rows` (64, width), by the workgroup.

    Each step doubles what is there: sums with one row more are sums without it, and that row.
    """
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    parts = shape.width // shape.lanes
    for x in range(item, shape.tables * shape.width, items):
        tables[x // shape.width, 0, x % shape.width] = 0
    kl.barrier()
    for b in kl.static_range(shape.bits):
        for x in range(item, (shape.tables * parts) << b, items):
            at, entry = x % parts * shape.lanes, x // parts % (1 << b)
            t = x // parts // (1 << b)
            if t * shape.bits + b < WORD:
                words = load_words(tables, (t, entry, at), shape.lanes)
                words = words ^ load_words(rows, (t * shape.bits + b, at), shape.lanes)
                store_words(tables, (t, entry + (1 << b), at), words, shape.lanes)
        kl.barrier()


@function
def combination(tables: Any, named: Any, at: Any, shape: Any) -> Any:
    """The sum of the rows that the bits of `named` name, its words from `at` on."""
    mask = (1 << shape.bits) - 1
    total = load_words(tables, (0, kl.cast(named & mask, kl.i32), at), shape.lanes)
    for t in kl.static_range(1, shape.tables):
        entry = kl.cast((named >> (t * shape.bits)) & mask, kl.i32)
        total = total ^ load_words(tables, (t, entry, at), shape.lanes)
    return total


@function
def add_combinations(work: Any, tables: Any, named: Any, s: Any, row: Any, shape: Any) -> None:
    """Adds to a row of stripe `s` what `named` names; work-items along dimension 0 share it."""
    step = kl.local_size(0) * shape.lanes
    for part in kl.static_range(shape.width // step):
        at = kl.local_id(0) * shape.lanes + part * step
        words = load_words(work, (s, row, at), shape.lanes) ^ combination(tables, named, at, shape)
        store_words(work, (s, row, at), words, shape.lanes)
