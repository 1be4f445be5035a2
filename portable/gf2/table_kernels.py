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
from portable.gf2.tuning import Shape
from portable.lang.function import function

WORD: Final = 64
"""Bits of a word, and the rows that one set of tables combines."""

CHANGES: Final = (0, 0, 1, 0, 2, 0, 1, 0)
"""Which bit changes from one number to the next in Gray's order."""


@function
def nothing(lanes: int) -> Any:
    """So many words of zeros."""
    return kl.splat(kl.cast(0, kl.u64), lanes)


@function
def build_tables(tables: kl.Array, rows: kl.Array, shape: Shape) -> None:
    """Fills `tables` (tables, 2^K, width) with the sums of `rows` (64, width), by the workgroup.

    A work-item makes the sums of eight neighbours in turn, of which each differs by one row from
    that before (F. Gray's order), so that only they are written and little is read.
    """
    LOW = min(shape.bits, 3)
    HIGH = shape.bits - LOW
    parts = shape.width // shape.lanes
    for x in kl.workgroup_range((shape.tables * parts) << HIGH):
        at, high = x % parts * shape.lanes, x // parts % (1 << HIGH)
        t = x // parts // (1 << HIGH)
        words = nothing(shape.lanes)
        for b in kl.static_range(HIGH):
            if (high >> b) & 1 != 0:
                words = words ^ row_or_nothing(rows, t * shape.bits + LOW + b, at, shape)
        kl.vstore(tables, t, high << LOW, at, words)
        low = tuple(row_or_nothing(rows, t * shape.bits + b, at, shape) for b in range(LOW))
        for g in kl.static_range(1, 1 << LOW):
            words = words ^ low[CHANGES[g]]
            kl.vstore(tables, t, (high << LOW) + (g ^ (g >> 1)), at, words)
    kl.barrier()


@function
def row_or_nothing(rows: kl.Array, row: kl.Scalar, at: kl.Scalar, shape: Shape) -> Any:
    """Words of a row, of which there may be none as the last table has fewer."""
    words = nothing(shape.lanes)
    if row < WORD:
        words = kl.vload(rows, row, at, lanes=shape.lanes)
    return words


@function
def combination(tables: kl.Array, named: kl.Scalar, at: kl.Scalar, shape: Shape) -> Any:
    """The sum of the rows that the bits of `named` name, its words from `at` on."""
    mask = (1 << shape.bits) - 1
    total = kl.vload(tables, 0, kl.cast(named & mask, kl.i32), at, lanes=shape.lanes)
    for t in kl.static_range(1, shape.tables):
        entry = kl.cast((named >> (t * shape.bits)) & mask, kl.i32)
        total = total ^ kl.vload(tables, t, entry, at, lanes=shape.lanes)
    return total


@function
def add_combinations(
    work: kl.Array, tables: kl.Array, named: kl.Scalar, s: kl.Scalar, row: kl.Scalar, shape: Shape
) -> None:
    """Adds to a row of stripe `s` what `named` names; work-items along dimension 0 share it."""
    step = kl.local_size(0) * shape.lanes
    for part in kl.static_range(shape.width // step):
        at = kl.local_id(0) * shape.lanes + part * step
        words = kl.vload(work, s, row, at, lanes=shape.lanes)
        kl.vstore(work, s, row, at, words ^ combination(tables, named, at, shape))
