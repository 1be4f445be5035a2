"""Kernels that eliminate 64 columns at a time from stripes of a matrix.

A stripe holds some words of each row, rows below each other: ``work[stripe, row, word]``. Columns
are in the order of their elimination, the highest bit of a word first. Two schedules are made of
the same functions: `advance_stripes`, in which a work-item has a stripe to itself and one of them
runs ahead to choose the next stripe's pivots (processors: one launch for each stripe); and
`choose_pivots`, `combine_pivots`, `apply_pivots`, in which workgroups share stripes (GPUs: three
launches for each 64 columns). The first would leave most of a GPU idle, the second read the whole
matrix from memory as many times more often as a stripe has words, which a processor cannot bear.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.gf2.election_kernels import NO_SOURCE, elect, eliminator_source, slot_of
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
    state: Any, stripe: Any, first: Any, applies: Any, chooses: Any, *, shape: Any, reduced: bool
) -> None:
    """Applies the pivots of `stripe` to those that are held from `first` on, a workgroup each.

    The first of them is stripe ``stripe + 1`` where it goes on to choose its own pivots, for the
    next launch. Numbers say whether one or the other is wanted.
    """
    own = first + kl.group_id(0)
    tables = kl.local((shape.tables, 1 << shape.bits, shape.width), kl.u64)
    pivots = kl.local((WORD, shape.width), kl.u64)
    if applies != 0:
        for panel in range(stripe * shape.width, last_panel(state, stripe, shape)):
            if kl.workgroup_uniform(state.found[slot_of(state, panel)]) != 0:
                advance(state, tables, pivots, own, panel, shape, reduced)
    if chooses != 0 and kl.group_id(0) == 0:
        for panel in range((stripe + 1) * shape.width, last_panel(state, stripe + 1, shape)):
            found = elect(state, own, panel, shape, reduced)
            if kl.local_linear_id() == 0:
                state.found[slot_of(state, panel)] = found
            if found != 0:
                note_bits(state, found, own, panel, 0, state.work.shape[1], reduced)
                kl.barrier()
                advance(state, tables, pivots, own, panel, shape, reduced)


@function
def last_panel(state: Any, stripe: Any, shape: Any) -> Any:
    """The end of a stripe's panels."""
    return kl.minimum((stripe + 1) * shape.width, state.owners.shape[0] // WORD)


@function
def advance(
    state: Any, tables: Any, pivots: Any, s: Any, panel: Any, shape: Any, reduced: bool
) -> None:
    """Eliminates the columns of a panel from stripe `s`, which no other workgroup touches."""
    bring_pivots(state, pivots, panel, s, shape)
    build_tables(tables, pivots, shape)
    combine(state, tables, pivots, panel, s, shape, reduced)
    kl.barrier()
    build_tables(tables, pivots, shape)
    add_to_rows(state, tables, panel, s, 0, state.work.shape[1], shape)
    kl.barrier()


@function
def bring_pivots(state: Any, pivots: Any, panel: Any, s: Any, shape: Any) -> None:
    """A stripe's words of the rows that pivots are made of, zeros where a column has none."""
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    parts = shape.width // shape.lanes
    for x in range(item, WORD * parts, items):
        c, at = x // parts, x % parts * shape.lanes
        source = state.sources[slot_of(state, panel), c]
        if source >= 0:
            store_words(
                pivots, (c, at), load_words(state.work, (s, source, at), shape.lanes), shape.lanes
            )
        elif source != NO_SOURCE:
            place = (s, eliminator_source(source), at)
            store_words(
                pivots, (c, at), load_words(state.eliminators, place, shape.lanes), shape.lanes
            )
        else:
            for i in kl.static_range(shape.lanes):
                pivots[c, at + i] = 0
    kl.barrier()


@function
def combine(
    state: Any, tables: Any, pivots: Any, panel: Any, s: Any, shape: Any, reduced: bool
) -> None:
    """The reduced pivots into `pivots`; rows that became pivots are left as they come to rest."""
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    parts = shape.width // shape.lanes
    for x in range(item, WORD * parts, items):
        c, at = x // parts, x % parts * shape.lanes
        words = combination(tables, state.reduced[slot_of(state, panel), c], at, shape)
        store_words(pivots, (c, at), words, shape.lanes)
        source = state.sources[slot_of(state, panel), c]
        if source >= 0:
            if not reduced:
                words = combination(tables, state.finals[slot_of(state, panel), c], at, shape)
            store_words(state.work, (s, source, at), words, shape.lanes)


@function
def note_bits(
    state: Any, found: Any, own: Any, panel: Any, first: Any, last: Any, reduced: bool
) -> None:
    """Notes which pivots of a panel each row from `first` to `last` is to lose."""
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    width = state.work.shape[2]
    for row in range(first + item, last, items):
        rest = state.rests[row]
        taken = kl.cast(0, kl.u64)
        if rest < 0 or (reduced and rest // WORD != panel):
            taken = state.work[own, row, panel % width] & found
        state.bits[panel % state.bits.shape[0], row] = taken


@function
def add_to_rows(
    state: Any, tables: Any, panel: Any, s: Any, first: Any, last: Any, shape: Any
) -> None:
    """Takes from each row the pivots that it is to lose, rows along dimension 1."""
    slot = panel % state.bits.shape[0]
    for row in range(first + kl.local_id(1), last, kl.local_size(1)):
        taken = state.bits[slot, row]
        if taken != 0:
            add_combinations(state.work, tables, taken, s, row, shape)


# -- many workgroups to a stripe ------------------------------------------------------------------


@kernel
def choose_pivots(state: Any, own: Any, panel: Any, *, shape: Any, reduced: bool) -> None:
    """Chooses the pivots of a panel, which is part of stripe `own`, by one workgroup."""
    found = elect(state, own, panel, shape, reduced)
    if kl.local_linear_id() == 0:
        state.found[slot_of(state, panel)] = found


@kernel
def combine_pivots(
    state: Any, made: Any, first: Any, count: Any, panel: Any, *, shape: Any, reduced: bool
) -> None:
    """The reduced pivots into `made`, a workgroup to each of `count` stripes from `first` on.

    Further workgroups note rows' bits, the panel being part of stripe `first`.
    """
    tables = kl.local((shape.tables, 1 << shape.bits, shape.width), kl.u64)
    pivots = kl.local((WORD, shape.width), kl.u64)
    s = first + kl.group_id(0)
    if kl.group_id(0) < count:
        bring_pivots(state, pivots, panel, s, shape)
        build_tables(tables, pivots, shape)
        combine(state, tables, pivots, panel, s, shape, reduced)
        kl.barrier()
        copy_rows(pivots, (), made, (s,), shape)
    else:
        top = (kl.group_id(0) - count) * shape.rows
        last = kl.minimum(top + shape.rows, state.work.shape[1])
        note_bits(state, state.found[slot_of(state, panel)], first, panel, top, last, reduced)


@kernel
def apply_pivots(state: Any, made: Any, first: Any, panel: Any, *, shape: Any) -> None:
    """Takes a panel's pivots from a block of rows of each of the stripes from `first` on."""
    tables = kl.local((shape.tables, 1 << shape.bits, shape.width), kl.u64)
    pivots = kl.local((WORD, shape.width), kl.u64)
    s = first + kl.group_id(1)
    if kl.workgroup_uniform(state.found[slot_of(state, panel)]) != 0:
        copy_rows(made, (s,), pivots, (), shape)
        kl.barrier()
        build_tables(tables, pivots, shape)
        top = kl.group_id(0) * shape.rows
        last = kl.minimum(top + shape.rows, state.work.shape[1])
        add_to_rows(state, tables, panel, s, top, last, shape)


@function
def copy_rows(source: Any, outer: Any, target: Any, target_outer: Any, shape: Any) -> None:
    """64 rows of a stripe from one array to another, by the whole workgroup."""
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    parts = shape.width // shape.lanes
    for x in range(item, WORD * parts, items):
        place = (x // parts, x % parts * shape.lanes)
        words = load_words(source, (*outer, *place), shape.lanes)
        store_words(target, (*target_outer, *place), words, shape.lanes)
