"""Kernels that eliminate 64 columns at a time from stripes of a matrix.

A stripe holds some words of each row, rows below each other: ``work[stripe, row, word]``. Columns
are in the order of their elimination, the highest bit of a word first. To eliminate a panel of 64
columns is to choose its pivots and to add to each row a sum of their rows, as these were before.

Two schedules are made of that. `advance_stripes` gives each stripe to one work-item, of which one
runs ahead to choose the next stripe's pivots (processors: one launch for each stripe). Where
workgroups share stripes (GPUs), LAPACK's blocks are what they do: `choose_pivots` and
`advance_panel` eliminate the panels of one stripe in turn, `solve_pivots` brings the pivots' rows
in other stripes up to date, and `multiply_stripes` of `product_kernels` adds them to all rows
there. The first schedule would leave most of a GPU idle, the second has no work for a lone
work-item's caches.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.gf2.election_kernels import (
    NO_SOURCE,
    Panel,
    Transform,
    bit,
    elect,
    eliminator_source,
    note_sum,
    own_word,
    source_of,
    sum_of,
)
from portable.gf2.table_kernels import (
    WORD,
    add_combinations,
    build_tables,
    combination,
    nothing,
)
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = [
    "advance_panel",
    "advance_stripes",
    "choose_pivots",
    "place_pivots",
    "solve_pivots",
]


@function
def last_panel(state: Any, stripe: Any, shape: Any) -> Any:
    """The end of a stripe's panels."""
    return kl.minimum((stripe + 1) * shape.width, state.owners.shape[0] // WORD)


@function
def pivot_words(state: Any, source: Any, s: Any, at: Any, lanes: int) -> Any:
    """A pivot's words from `at` on in stripe `s`; zeros where a column has none."""
    words = nothing(lanes)
    if source >= 0:
        words = kl.vload(state.work, s, source, at, lanes=lanes)
    elif source != NO_SOURCE:
        words = kl.vload(state.eliminators, s, eliminator_source(source), at, lanes=lanes)
    return words


@function
def bring_pivots(state: Any, pivots: Any, panel: Any, s: Any, shape: Any) -> None:
    """A stripe's words of the rows that are pivots of a panel, by the workgroup."""
    parts = shape.width // shape.lanes
    for x in kl.workgroup_range(WORD * parts, unroll=shape.copies):
        c, at = x // parts, x % parts * shape.lanes
        words = pivot_words(state, source_of(state, panel, c, shape), s, at, shape.lanes)
        kl.vstore(pivots, c, at, words)
    kl.barrier()


@function
def sum_for(
    state: Any, transform: Any, names: Any, row: Any, panel: Any, shape: Any, reduced: bool
) -> Any:
    """Which pivots of a panel a row takes on; `names` are tables of the reduced ones' sums.

    What a row has in the columns of pivots says which reduced ones it is to lose.
    """
    rest = state.rests[row]
    found = kl.cast(0, kl.u64)
    if rest >= 0 and rest // WORD == panel.number:
        c = rest % WORD
        found = (transform.reduced[c] if reduced else transform.finals[c]) ^ bit(c)
    elif reduced or rest < 0:
        named = own_word(state.work, row, panel, shape) & transform.columns[0]
        found = combination(names, named, 0, shape.names)
    return found


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
    tables = kl.local((shape.ahead, shape.tables, 1 << shape.bits, shape.width), kl.u64)
    pivots = kl.local((WORD, shape.width), kl.u64)
    if applies != 0:
        last = last_panel(state, stripe, shape)
        for begin in range(stripe * shape.width, last, shape.ahead):
            end = kl.minimum(begin + shape.ahead, last)
            advance(state, tables, pivots, own, begin, end, shape)
    if chooses != 0 and kl.group_id(0) == 0:
        transform = Transform(kl.local(WORD, kl.u64), kl.local(WORD, kl.u64), kl.local(1, kl.u64))
        for number in range((stripe + 1) * shape.width, last_panel(state, stripe + 1, shape)):
            elect(state, transform, Panel(number, own), shape)
            note_sums(state, transform, Panel(number, own), shape, reduced)
            advance(state, tables, pivots, own, number, number + 1, shape)


@function
def note_sums(state: Any, transform: Any, panel: Any, shape: Any, reduced: bool) -> None:
    """Notes which pivots of a panel all rows take on."""
    names = kl.local((shape.tables, 1 << shape.bits, 1), kl.u64)
    build_name_tables(names, transform, shape)
    for row in kl.workgroup_range(state.work.shape[1]):
        found = sum_for(state, transform, names, row, panel, shape, reduced)
        note_sum(state, panel.number, row, found, shape)
    kl.barrier()


@function
def build_name_tables(names: Any, transform: Any, shape: Any) -> None:
    """Tables of the sums of reduced pivots, as sums of pivots' rows."""
    rows = kl.local((WORD, 1), kl.u64)
    for c in kl.workgroup_range(WORD):
        rows[c, 0] = transform.reduced[c]
    kl.barrier()
    build_tables(names, rows, shape.names)


@function
def advance(state: Any, tables: Any, pivots: Any, s: Any, begin: Any, end: Any, shape: Any) -> None:
    """Eliminates the columns of some panels from stripe `s`, which no other workgroup touches.

    Rows are gone through once for all these panels, as there may be more of them than caches hold.
    """
    for panel in range(begin, end):
        bring_pivots(state, pivots, panel, s, shape)
        for c in range(WORD):
            source = source_of(state, panel, c, shape)
            if source >= 0:
                add_sums(state, pivots, (c,), source, tables, begin, panel, shape)
        build_tables(tables[panel - begin, :, :, :], pivots, shape)
    for row in range(state.work.shape[1]):
        add_sums(state, state.work, (s, row), row, tables, begin, end, shape)


@function
def add_sums(
    state: Any, x: Any, place: Any, row: Any, tables: Any, begin: Any, end: Any, shape: Any
) -> None:
    """Adds to the words at a place what a row takes on of panels of which there are tables."""
    named = kl.cast(0, kl.u64)
    for panel in range(begin, end):
        named = named | sum_of(state, panel, row, shape)
    if named != 0:
        for at in kl.static_range(0, shape.width, shape.lanes):
            words = kl.vload(x, *place, at, lanes=shape.lanes)
            for panel in range(begin, end):
                entries = tables[panel - begin, :, :, :]
                words = words ^ combination(entries, sum_of(state, panel, row, shape), at, shape)
            kl.vstore(x, *place, at, words)


# -- many workgroups to a stripe ------------------------------------------------------------------


@function
def panel_at(index: Any, stripe: Any, own: Any, shape: Any) -> Any:
    """The panel of a stripe that is chosen as so manieth of all that are chosen here, from 0."""
    return Panel(stripe * shape.width + index % shape.width, own)


@kernel
def choose_pivots(
    state: Any, transform: Any, brought: Any, stripe: Any, own: Any, *, shape: Any
) -> None:
    """Chooses the pivots of the next panel of a stripe, which is the held one `own`.

    By one workgroup. Their rows in that stripe go to `brought`, as they are before anybody changes
    them. Which panel it is the device knows, so that the host prepares one launch for all of them.
    """
    index = kl.assume_uniform(state.cursor[1])
    panel = panel_at(index, stripe, own, shape)
    elect(state, transform, panel, shape)
    bring_pivots(state, brought, panel.number, own, shape)
    if kl.local_linear_id() == 0:
        state.cursor[1] = index + 1


@kernel
def advance_panel(
    state: Any, transform: Any, brought: Any, stripe: Any, own: Any, *, shape: Any, reduced: bool
) -> None:
    """Eliminates the columns of the panel chosen last from its stripe, a workgroup to some rows.

    It notes which pivots rows take on, for other stripes.
    """
    panel = panel_at(kl.assume_uniform(state.cursor[1]) - 1, stripe, own, shape)
    tables = kl.local((shape.tables, 1 << shape.bits, shape.width), kl.u64)
    names = kl.local((shape.tables, 1 << shape.bits, 1), kl.u64)
    pivots = kl.local((WORD, shape.width), kl.u64)
    sums = kl.local(shape.batch, kl.u64)
    parts = shape.width // shape.lanes
    for x in kl.workgroup_range(WORD * parts):
        place = (x // parts, x % parts * shape.lanes)
        kl.vstore(pivots, *place, kl.vload(brought, *place, lanes=shape.lanes))
    build_name_tables(names, transform, shape)
    build_tables(tables, pivots, shape)
    top = kl.group_id(0) * shape.batch
    for i in kl.workgroup_range(shape.batch):
        if top + i < state.work.shape[1]:
            found = sum_for(state, transform, names, top + i, panel, shape, reduced)
            note_sum(state, panel.number, top + i, found, shape)
            sums[i] = found
    kl.barrier()
    last = kl.minimum(shape.batch, state.work.shape[1] - top)
    for i in range(kl.local_id(1), last, kl.local_size(1)):
        if sums[i] != 0:
            add_combinations(state.work, tables, sums[i], own, top + i, shape)


@kernel
def place_pivots(state: Any, stripe: Any, *, shape: Any) -> None:
    """Notes where the rows rest that were chosen elsewhere, by one workgroup."""
    first = stripe * shape.width * WORD
    for place in kl.workgroup_range(first, last_panel(state, stripe, shape) * WORD):
        source = source_of(state, place // WORD, place % WORD, shape)
        if source >= 0:
            state.rests[source] = place


@kernel
def solve_pivots(state: Any, solved: Any, stripe: Any, first: Any, *, shape: Any) -> None:
    """The rows of a stripe's pivots in the stripes from `first` on, as each was before its panel.

    A workgroup to a few words of the held stripe `first`, or of one after it. They go to `solved`,
    the last panel's first, which is how `multiply_stripes` takes them.
    """
    part = shape.slice
    begin, end = stripe * shape.width, last_panel(state, stripe, shape)
    rows = kl.local((shape.width * WORD, part.width), kl.u64)
    sources = kl.local(shape.width * WORD, kl.i32)
    tables = kl.local((part.tables, 1 << part.bits, part.width), kl.u64)
    at, s = kl.group_id(0) * part.width, first + kl.group_id(1)
    count = (end - begin) * WORD
    for x in kl.workgroup_range(count):
        sources[x] = source_of(state, begin + x // WORD, x % WORD, shape)
        words = pivot_words(state, sources[x], s, at, part.lanes)
        kl.vstore(rows, x, 0, words)
    kl.barrier()
    for panel in range(begin, end):
        top = (panel - begin) * WORD
        build_tables(tables, rows[top : top + WORD, :], part)
        for x in kl.workgroup_range(top + WORD, count):
            if sources[x] >= 0:
                named = sum_of(state, panel, sources[x], shape)
                words = kl.vload(rows, x, 0, lanes=part.lanes)
                words = words ^ combination(tables, named, 0, part)
                kl.vstore(rows, x, 0, words)
        kl.barrier()
    for x in kl.workgroup_range(count):
        target = (end - begin - 1 - x // WORD) * WORD + x % WORD
        kl.vstore(solved, s, target, at, kl.vload(rows, x, 0, lanes=part.lanes))
