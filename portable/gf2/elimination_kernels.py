"""Kernels that eliminate 64 columns at a time from stripes of a matrix.

A stripe holds `W` words of each row, rows below each other: ``work[stripe, row, word]``. Columns
are in the order of their elimination, the highest bit of a word first. Two schedules are made of
the same functions: `advance_stripes`, in which a work-item has a stripe to itself and one of them
runs ahead to choose the next stripe's pivots (processors: one launch for each stripe); and
`choose_pivots`, `combine_pivots`, `apply_pivots`, in which workgroups share stripes (GPUs: three
launches for each 64 columns). The first would leave most of a GPU idle, the second read the
whole matrix from memory `W` times as often as a processor's caches can bear.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.gf2.election_kernels import NO_SOURCE, elect, eliminator_source
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

__all__ = ["advance_stripes", "apply_pivots", "choose_pivots", "combine_pivots"]


# -- a workgroup to a stripe ----------------------------------------------------------------------


@kernel
def advance_stripes(
    work: Any,
    eliminators: Any,
    owners: Any,
    rests: Any,
    sources: Any,
    finals: Any,
    reduced: Any,
    columns: Any,
    bits: Any,
    stripe: Any,
    *,
    K: int,
    W: int,
    LANES: int,
    BATCH: int,
    REDUCED: bool,
) -> None:
    """Applies the pivots of `stripe` (-1: none) to those after it, a workgroup each.

    The first goes on to choose the pivots of its own stripe, for the next launch.
    """
    own = stripe + 1 + kl.group_id(0)
    if stripe >= 0:
        for word in range(W):
            advance(
                work, eliminators, sources, finals, reduced, columns, bits, own, stripe * W + word,
                K, W, LANES, REDUCED,
            )  # fmt: skip
    if kl.group_id(0) == 0:
        for word in range(W):
            panel = own * W + word
            if panel < sources.shape[0]:
                found = elect(
                    work, eliminators, owners, rests, sources, finals, reduced, panel,
                    BATCH, LANES, REDUCED,
                )  # fmt: skip
                columns[panel] = found
                kl.barrier()
                if found != 0:
                    keep_bits(work, rests, bits, found, panel, 0, work.shape[1], REDUCED)
                    kl.barrier()
                    advance(
                        work, eliminators, sources, finals, reduced, columns, bits, own, panel,
                        K, W, LANES, REDUCED,
                    )  # fmt: skip


@function
def advance(
    work: Any,
    eliminators: Any,
    sources: Any,
    finals: Any,
    reduced: Any,
    columns: Any,
    bits: Any,
    s: Any,
    panel: Any,
    K: int,
    W: int,
    LANES: int,
    REDUCED: bool,
) -> None:
    """Eliminates the columns of a panel from a stripe that no other workgroup touches."""
    TABLES = kl.cdiv(WORD, K)
    tables = kl.local((TABLES, 1 << K, W), kl.u64)
    pivots = kl.local((WORD, W), kl.u64)
    if kl.workgroup_uniform(columns[panel]) != 0:
        bring_pivots(work, eliminators, sources, pivots, panel, s, W, LANES)
        build_tables(tables, pivots, K, W, LANES)
        combine(work, sources, finals, reduced, tables, pivots, panel, s, K, W, LANES, REDUCED)
        kl.barrier()
        build_tables(tables, pivots, K, W, LANES)
        add_to_rows(work, tables, bits, panel, s, 0, work.shape[1], K, W, LANES)
        kl.barrier()


@function
def bring_pivots(
    work: Any, eliminators: Any, sources: Any, pivots: Any, panel: Any, s: Any, W: int, LANES: int
) -> None:
    """A stripe's words of the rows that pivots are made of, zeros where a column has none."""
    PARTS = W // LANES
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    for x in range(item, WORD * PARTS, items):
        c, at = x // PARTS, x % PARTS * LANES
        source = sources[panel, c]
        if source >= 0:
            store_words(pivots, (c, at), load_words(work, (s, source, at), LANES), LANES)
        elif source != NO_SOURCE:
            place = (s, eliminator_source(source), at)
            store_words(pivots, (c, at), load_words(eliminators, place, LANES), LANES)
        else:
            for i in kl.static_range(LANES):
                pivots[c, at + i] = 0
    kl.barrier()


@function
def combine(
    work: Any,
    sources: Any,
    finals: Any,
    reduced: Any,
    tables: Any,
    pivots: Any,
    panel: Any,
    s: Any,
    K: int,
    W: int,
    LANES: int,
    REDUCED: bool,
) -> None:
    """The reduced pivots into `pivots`; rows that became pivots are left as they come to rest."""
    PARTS = W // LANES
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    for x in range(item, WORD * PARTS, items):
        c, at = x // PARTS, x % PARTS * LANES
        words = combination(tables, reduced[panel, c], at, K, LANES)
        store_words(pivots, (c, at), words, LANES)
        source = sources[panel, c]
        if source >= 0:
            if not REDUCED:
                words = combination(tables, finals[panel, c], at, K, LANES)
            store_words(work, (s, source, at), words, LANES)


@function
def keep_bits(
    work: Any,
    rests: Any,
    bits: Any,
    found: Any,
    panel: Any,
    first: Any,
    last: Any,
    REDUCED: bool,
) -> None:
    """Notes which pivots of a panel each row from `first` to `last` is to lose."""
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    stripe, word = panel // work.shape[2], panel % work.shape[2]
    for row in range(first + item, last, items):
        rest = rests[row]
        taken = kl.cast(0, kl.u64)
        if rest < 0 or (REDUCED and rest // WORD != panel):
            taken = work[stripe, row, word] & found
        bits[panel % bits.shape[0], row] = taken


@function
def add_to_rows(
    work: Any,
    tables: Any,
    bits: Any,
    panel: Any,
    s: Any,
    first: Any,
    last: Any,
    K: int,
    W: int,
    LANES: int,
) -> None:
    """Takes from each row the pivots that it is to lose, rows along dimension 1."""
    slot = panel % bits.shape[0]
    for row in range(first + kl.local_id(1), last, kl.local_size(1)):
        taken = bits[slot, row]
        if taken != 0:
            add_combinations(work, tables, taken, s, row, K, W, LANES)


# -- many workgroups to a stripe ------------------------------------------------------------------


@kernel
def choose_pivots(
    work: Any,
    eliminators: Any,
    owners: Any,
    rests: Any,
    sources: Any,
    finals: Any,
    reduced: Any,
    columns: Any,
    panel: Any,
    *,
    BATCH: int,
    REDUCED: bool,
) -> None:
    """Chooses the pivots of a panel, by one workgroup."""
    found = elect(
        work, eliminators, owners, rests, sources, finals, reduced, panel, BATCH, 1, REDUCED
    )
    if kl.local_linear_id() == 0:
        columns[panel] = found


@kernel
def combine_pivots(
    work: Any,
    eliminators: Any,
    rests: Any,
    sources: Any,
    finals: Any,
    reduced: Any,
    columns: Any,
    bits: Any,
    made: Any,
    panel: Any,
    *,
    K: int,
    W: int,
    LANES: int,
    ROWS: int,
    REDUCED: bool,
) -> None:
    """The reduced pivots into `made`, a workgroup to a stripe; further ones note rows' bits."""
    TABLES = kl.cdiv(WORD, K)
    tables = kl.local((TABLES, 1 << K, W), kl.u64)
    pivots = kl.local((WORD, W), kl.u64)
    first = panel // W
    s = first + kl.group_id(0)
    PARTS = W // LANES
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    if s < work.shape[0]:
        bring_pivots(work, eliminators, sources, pivots, panel, s, W, LANES)
        build_tables(tables, pivots, K, W, LANES)
        combine(work, sources, finals, reduced, tables, pivots, panel, s, K, W, LANES, REDUCED)
        for x in range(item, WORD * PARTS, items):
            c, at = x // PARTS, x % PARTS * LANES
            store_words(made, (s, c, at), load_words(pivots, (c, at), LANES), LANES)
    else:
        start = (s - work.shape[0]) * ROWS
        last = kl.minimum(start + ROWS, work.shape[1])
        keep_bits(work, rests, bits, columns[panel], panel, start, last, REDUCED)


@kernel
def apply_pivots(
    work: Any,
    bits: Any,
    made: Any,
    columns: Any,
    panel: Any,
    *,
    K: int,
    W: int,
    LANES: int,
    ROWS: int,
) -> None:
    """Takes a panel's pivots from blocks of `ROWS` rows of the stripes from its own on."""
    TABLES = kl.cdiv(WORD, K)
    tables = kl.local((TABLES, 1 << K, W), kl.u64)
    pivots = kl.local((WORD, W), kl.u64)
    PARTS = W // LANES
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    s = panel // W + kl.group_id(1)
    if kl.workgroup_uniform(columns[panel]) != 0:
        for x in range(item, WORD * PARTS, items):
            c, at = x // PARTS, x % PARTS * LANES
            store_words(pivots, (c, at), load_words(made, (s, c, at), LANES), LANES)
        kl.barrier()
        build_tables(tables, pivots, K, W, LANES)
        first = kl.group_id(0) * ROWS
        last = kl.minimum(first + ROWS, work.shape[1])
        add_to_rows(work, tables, bits, panel, s, first, last, K, W, LANES)
