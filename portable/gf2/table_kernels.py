"""Tables of combinations: the method of the four Russians, as functions for kernels.

Rows are taken 64 at a time, as many as a word has bits. Table ``t`` holds every sum of rows ``t K``
to ``t K + K - 1``, so that any sum of some of the 64 rows is the sum of one entry of each table.

V. Arlazarov, E. Dinic, M. Kronrod, I. Faradzev (1970); several tables at once as in M. Albrecht, G.
Bard, W. Hart, "Algorithm 898", ACM TOMS 37 (2010).
"""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function

__all__ = ["WORD", "add_combinations", "build_tables", "combination", "load_words", "store_words"]

WORD: Final = 64
"""Bits of a word, and the rows that one set of tables combines."""


@function
def load_words(x: Any, index: Any, LANES: int) -> Any:
    """`LANES` neighbouring words along the last axis, the first at `index`, a tuple."""
    return kl.vload(x, *index, lanes=LANES) if LANES > 1 else x[*index]


@function
def store_words(x: Any, index: Any, words: Any, LANES: int) -> None:
    """Writes what `load_words` reads."""
    if LANES > 1:
        kl.vstore(x, *index, words)
    else:
        x[*index] = words


@function
def build_tables(tables: Any, rows: Any, K: int, W: int, LANES: int) -> None:
    """Fills `tables` (tables, 2^K, W) with the sums of `rows` (64, W), by the whole workgroup.

    Each step doubles what is there: sums with one more row are sums without it, and that row.
    """
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    PARTS = W // LANES
    TABLES = kl.cdiv(WORD, K)
    for x in range(item, TABLES * W, items):
        tables[x // W, 0, x % W] = 0
    kl.barrier()
    for b in kl.static_range(K):
        for x in range(item, (TABLES * PARTS) << b, items):
            at, entry = x % PARTS * LANES, x // PARTS % (1 << b)
            t = x // PARTS // (1 << b)
            if t * K + b < WORD:
                words = load_words(tables, (t, entry, at), LANES)
                words = words ^ load_words(rows, (t * K + b, at), LANES)
                store_words(tables, (t, entry + (1 << b), at), words, LANES)
        kl.barrier()


@function
def combination(tables: Any, bits: Any, at: Any, K: int, LANES: int) -> Any:
    """The sum of the rows that `bits` names, its words from `at` on."""
    MASK = (1 << K) - 1
    total = load_words(tables, (0, kl.cast(bits & MASK, kl.i32), at), LANES)
    for t in kl.static_range(1, kl.cdiv(WORD, K)):
        entry = kl.cast((bits >> (t * K)) & MASK, kl.i32)
        total = total ^ load_words(tables, (t, entry, at), LANES)
    return total


@function
def add_combinations(
    work: Any, tables: Any, bits: Any, s: Any, row: Any, K: int, W: int, LANES: int
) -> None:
    """Adds to a row of stripe `s` what `bits` names; work-items along dimension 0 share it."""
    STEP = kl.local_size(0) * LANES
    for part in kl.static_range(W // STEP):
        at = kl.local_id(0) * LANES + part * STEP
        words = load_words(work, (s, row, at), LANES) ^ combination(tables, bits, at, K, LANES)
        store_words(work, (s, row, at), words, LANES)
