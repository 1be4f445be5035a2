"""Kernels that eliminate 64 columns at a time from stripes of a matrix.

A stripe holds some words of each row, rows below each other: ``work[stripe, row, word]``. Columns
are in the order of their elimination, the highest bit of a word first. To eliminate a panel of 64
columns is to choose its pivots and to add to each row a sum of their rows, as these were before.

Two schedules are made of that. `advance_stripes` gives each stripe to one work-item, of which one
runs ahead to choose the next stripe's pivots (processors: one launch for each stripe). Where
workgroups share stripes (GPUs), LAPACK's blocks are what they do: `take_step` eliminates a panel of
one stripe while the next one's pivots are chosen, `solve_pivots` brings the pivots' rows in other
stripes up to date, and `multiply_stripes` of `blocks` adds them to all rows there. The
first schedule would leave most of a GPU idle, the second has no work for a lone work-item's caches.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from portable import lang as kl
from portable.gf2.blocks import WORD, build_tables, combination, nothing
from portable.gf2.election_kernels import (
    NO_SOURCE,
    Ahead,
    Known,
    Panel,
    Rows,
    State,
    Transform,
    bit,
    elect,
    eliminator_source,
)
from portable.gf2.tuning import Shape
from portable.lang.function import function
from portable.lang.kernel import kernel


@function
def last_panel(state: State, stripe: kl.Scalar, shape: Shape) -> Any:
    """The end of a stripe's panels."""
    return kl.minimum((stripe + 1) * shape.width, state.owners.shape[0] // WORD)


@function
def pivot_words(
    state: State, s: kl.Scalar, rows: Rows, source: kl.Scalar, at: kl.Scalar, lanes: int
) -> Any:
    """A pivot's words from `at` on in stripe `s`, of these rows; zeros where a column has none."""
    words = nothing(lanes)
    if source >= 0:
        words = kl.vload(rows.words, rows.slot, source, at, lanes=lanes)
    elif source != NO_SOURCE:
        words = kl.vload(state.eliminators, s, eliminator_source(source), at, lanes=lanes)
    return words


@function
def bring_pivots(panel: Panel, pivots: kl.Array, s: kl.Scalar) -> None:
    """A stripe's words of the rows that are pivots of a panel, by the workgroup."""
    shape = panel.shape
    parts = shape.width // shape.lanes
    for x in kl.workgroup_range(WORD * parts, unroll=shape.copies):
        c, at = x // parts, x % parts * shape.lanes
        rows = Rows(panel.state.work, s)
        words = pivot_words(panel.state, s, rows, panel.source(c), at, shape.lanes)
        kl.vstore(pivots, c, at, words)
    kl.barrier()


@function
def sum_for(
    panel: Panel,
    transform: Transform,
    names: kl.Array,
    rest: kl.Scalar,
    word: kl.Scalar,
    reduced: bool,
) -> Any:
    """Which pivots of a panel a row takes on that came to rest there, or nowhere (-1).

    What a row has in the columns of pivots, its `word`, says which reduced ones it is to lose, of
    whose sums `names` are tables.
    """
    sums = kl.cast(0, kl.u64)
    if rest >= 0 and rest // WORD == panel.number:
        c = rest % WORD
        sums = (transform.reduced[c] if reduced else transform.finals[c]) ^ bit(c)
    elif reduced or rest < 0:
        sums = combination(names, word & transform.columns[0], 0, panel.shape.names)
    return sums


# -- a workgroup to a stripe ----------------------------------------------------------------------


@kernel
def advance_stripes(
    state: State,
    stripe: kl.Scalar,
    first: kl.Scalar,
    applies: kl.Scalar,
    chooses: kl.Scalar,
    *,
    shape: Shape,
    reduced: bool,
) -> None:
    """Applies the pivots of `stripe` to those that are held from `first` on, a workgroup each.

    The first of them is stripe ``stripe + 1`` where it goes on to choose its own pivots, for the
    next launch. Numbers say whether one or the other is wanted.
    """
    stripe_number = first + kl.group_id(0)
    tables = kl.local((shape.ahead, shape.tables, 1 << shape.bits, shape.width), kl.u64)
    pivots = kl.local((WORD, shape.width), kl.u64)
    if applies != 0:
        last = last_panel(state, stripe, shape)
        for begin in range(stripe * shape.width, last, shape.ahead):
            end = kl.minimum(begin + shape.ahead, last)
            advance(state, tables, pivots, stripe_number, begin, end, shape)
    if chooses != 0 and kl.group_id(0) == 0:
        transform = Transform(kl.local(WORD, kl.u64), kl.local(WORD, kl.u64), kl.local(1, kl.u64))
        for number in range((stripe + 1) * shape.width, last_panel(state, stripe + 1, shape)):
            known = Known(kl.local(WORD, kl.u64), kl.local(WORD, kl.u64))
            raw = kl.local(shape.batch, kl.u64)
            panel = Panel(state, shape, number, stripe_number)
            elect(panel, transform, known, raw, None)
            note_sums(panel, transform, reduced)
            advance(state, tables, pivots, stripe_number, number, number + 1, shape)


@function
def note_sums(panel: Panel, transform: Transform, reduced: bool) -> None:
    """Notes which pivots of a panel all rows take on."""
    state, shape = panel.state, panel.shape
    names = kl.local((shape.tables, 1 << shape.bits, 1), kl.u64)
    build_name_tables(names, transform, shape)
    for row in kl.workgroup_range(state.work.shape[1]):
        word = panel.own_word(state.work, row)
        panel.note_sum(row, sum_for(panel, transform, names, state.rests[row], word, reduced))
    kl.barrier()


@function
def build_name_tables(names: kl.Array, transform: Transform, shape: Shape) -> None:
    """Tables of the sums of reduced pivots, as sums of pivots' rows."""
    rows = kl.local((WORD, 1), kl.u64)
    for c in kl.workgroup_range(WORD):
        rows[c, 0] = transform.reduced[c]
    kl.barrier()
    build_tables(names, rows, shape.names)


@function
def advance(
    state: State,
    tables: kl.Array,
    pivots: kl.Array,
    s: kl.Scalar,
    begin: kl.Scalar,
    end: kl.Scalar,
    shape: Shape,
) -> None:
    """Eliminates the columns of some panels from stripe `s`, which no other workgroup touches.

    Rows are gone through once for all these panels, as there may be more of them than caches hold.
    """
    for panel in range(begin, end):
        bring_pivots(Panel(state, shape, panel), pivots, s)
        for c in range(WORD):
            source = Panel(state, shape, panel).source(c)
            if source >= 0:
                add_sums(state, pivots, (c,), source, tables, begin, panel, shape)
        build_tables(tables[panel - begin, :, :, :], pivots, shape)
    for row in range(state.work.shape[1]):
        add_sums(state, state.work, (s, row), row, tables, begin, end, shape)


@function
def add_sums(
    state: State,
    x: kl.Array,
    position: tuple[kl.Scalar, ...],
    row: kl.Scalar,
    tables: kl.Array,
    begin: kl.Scalar,
    end: kl.Scalar,
    shape: Shape,
) -> None:
    """Adds to the words at a place what a row takes on of panels of which there are tables."""
    named = kl.cast(0, kl.u64)
    for panel in range(begin, end):
        named = named | Panel(state, shape, panel).sum_of(row)
    if named != 0:
        for at in kl.static_range(0, shape.width, shape.lanes):
            words = kl.vload(x, *position, at, lanes=shape.lanes)
            for panel in range(begin, end):
                entries, sums = tables[panel - begin, :, :, :], Panel(state, shape, panel)
                words = words ^ combination(entries, sums.sum_of(row), at, shape)
            kl.vstore(x, *position, at, words)


# -- many workgroups to a stripe ------------------------------------------------------------------


@kernel
def take_step(
    state: State,
    transform: Transform,
    words: kl.Array,
    stripe: kl.Scalar,
    index: kl.Scalar,
    odd: kl.Scalar,
    *,
    shape: Shape,
    reduced: bool,
) -> None:
    """Eliminates the columns of a panel from its stripe, and chooses the pivots of the next one.

    The stripe is the held one `index`, and has a step more than panels: the first eliminates
    nothing, the last chooses nothing. The first workgroup chooses, from rows as they were before
    the panel that the others eliminate at the same time, a workgroup to some rows; all read one of
    two places in `words`, and the others write the other one. Which step it is the device knows, so
    that the host prepares two launches for all of them, of even numbers and of odd ones.
    """
    taken = kl.assume_uniform(state.cursor[1 + odd])
    step = taken % (shape.width + 1)
    number, last = stripe * shape.width + step, last_panel(state, stripe, shape)
    rows = Rows(words, (step + 1) % 2)
    before = Transform(*(x[rows.slot, :] for x in transform))
    tables = kl.local((shape.tables, 1 << shape.bits, shape.width), kl.u64)
    names = kl.local((shape.tables, 1 << shape.bits, 1), kl.u64)
    pivots = kl.local((WORD, shape.width), kl.u64)
    sums = kl.local(shape.batch, kl.u64)
    if kl.group_id(0) == 0:
        if number < last:
            after = Transform(*(x[1 - rows.slot, :] for x in transform))
            room = Room(names, pivots, sums)
            elect_ahead(Panel(state, shape, number, index), before, after, rows, room)
        if kl.local_linear_id() == 0:
            state.cursor[2 - odd] = taken + 1
    elif step == 0:
        copy_rows(Panel(state, shape, number, index), rows)
    else:
        room, panel = Room(names, pivots, sums), Panel(state, shape, number - 1, index)
        advance_rows(panel, before, rows, tables, room, number == last, reduced)


class Room(NamedTuple):
    """Local memory of a workgroup that chooses pivots, or eliminates a panel.

    Attributes
    ----------
    names : array of uint64, shape (tables, 2^K, 1)
        Tables of single words.
    pivots : array of uint64, shape (64, words)
        Words of pivots.
    sums : array of uint64
        A word for each of a batch of rows.
    """

    names: Any
    pivots: Any
    sums: Any


@function
def elect_ahead(panel: Panel, before: Transform, after: Transform, rows: Rows, room: Room) -> None:
    """Chooses the pivots of a panel while the one before is eliminated, by one workgroup.

    `before` and `after` are the transforms of the two.
    """
    shape = panel.shape
    if panel.word != 0:
        lost = room.pivots[:, 0:1]
        for c in kl.workgroup_range(WORD):
            source = Panel(panel.state, shape, panel.number - 1).source(c)
            lost[c, 0] = pivot_words(panel.state, panel.own, rows, source, panel.word, 1)
        kl.barrier()
        build_tables(room.names, lost, shape.names)
        for c in kl.workgroup_range(WORD):
            lost[c, 0] = combination(room.names, before.reduced[c], 0, shape.names)
        kl.barrier()
        build_tables(room.names, lost, shape.names)
    known = Known(room.pivots[:, 0], room.pivots[:, 1])
    ahead = Ahead(rows, room.names, before.columns)
    elect(panel, after, known, room.sums, ahead)


@function
def copy_rows(panel: Panel, rows: Rows) -> None:
    """Some rows of a stripe to where the next step reads them, by a workgroup."""
    state, shape = panel.state, panel.shape
    top = (kl.group_id(0) - 1) * shape.batch
    last = kl.minimum(top + shape.batch, state.work.shape[1])
    for row in range(top + kl.local_id(1), last, kl.local_size(1)):
        for part in kl.static_range(0, shape.width, kl.local_size(0) * shape.lanes):
            at = kl.local_id(0) * shape.lanes + part
            words = kl.vload(state.work, panel.own, row, at, lanes=shape.lanes)
            kl.vstore(rows.words, 1 - rows.slot, row, at, words)


@function
def advance_rows(
    panel: Panel,
    transform: Transform,
    rows: Rows,
    tables: kl.Array,
    room: Room,
    is_last: kl.Scalar,
    reduced: bool,
) -> None:
    """Eliminates a panel's columns from some rows of its stripe, by a workgroup.

    It notes which pivots rows take on, for other stripes. What the last panel leaves goes to the
    stripe itself.
    """
    state, shape = panel.state, panel.shape
    names, pivots, sums = room
    build_name_tables(names, transform, shape)
    top = (kl.group_id(0) - 1) * shape.batch
    count = kl.minimum(shape.batch, state.work.shape[1] - top)
    parts = shape.width // shape.lanes
    for x in kl.workgroup_range(WORD * parts):
        c, at = x // parts, x % parts * shape.lanes
        source = panel.source(c)
        if at == 0 and source >= top and source < top + count:
            state.settled[source] = panel.number * WORD + c
        words = pivot_words(state, panel.own, rows, source, at, shape.lanes)
        kl.vstore(pivots, c, at, words)
    kl.barrier()
    build_tables(tables, pivots, shape)
    for i in kl.workgroup_range(count):
        word = rows.words[rows.slot, top + i, panel.word]
        rest = state.settled[top + i]
        sums[i] = sum_for(panel, transform, names, rest, word, reduced)
        panel.note_sum(top + i, sums[i])
    kl.barrier()
    for i in range(kl.local_id(1), count, kl.local_size(1)):
        for part in kl.static_range(0, shape.width, kl.local_size(0) * shape.lanes):
            at = kl.local_id(0) * shape.lanes + part
            words = kl.vload(rows.words, rows.slot, top + i, at, lanes=shape.lanes)
            if sums[i] != 0:
                words = words ^ combination(tables, sums[i], at, shape)
            if is_last:
                kl.vstore(state.work, panel.own, top + i, at, words)
            else:
                kl.vstore(rows.words, 1 - rows.slot, top + i, at, words)


@kernel
def place_pivots(state: State, stripe: kl.Scalar, *, shape: Shape) -> None:
    """Notes where the rows rest that were chosen elsewhere, by one workgroup."""
    first = stripe * shape.width * WORD
    for position in kl.workgroup_range(first, last_panel(state, stripe, shape) * WORD):
        source = Panel(state, shape, position // WORD).source(position % WORD)
        if source >= 0:
            state.rests[source] = position
            state.settled[source] = position


@kernel
def solve_pivots(
    state: State, solved: kl.Array, stripe: kl.Scalar, first: kl.Scalar, *, shape: Shape
) -> None:
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
        sources[x] = Panel(state, shape, begin + x // WORD).source(x % WORD)
        words = pivot_words(state, s, Rows(state.work, s), sources[x], at, part.lanes)
        kl.vstore(rows, x, 0, words)
    kl.barrier()
    EACH = -(-shape.width * WORD // shape.batch)
    names = kl.private(EACH, kl.u64)
    for panel in range(begin, end):
        top = (panel - begin) * WORD
        first_row = top + WORD + kl.local_id(0)
        for k in kl.static_range(EACH):  # brought while tables are built
            x = first_row + k * shape.batch
            names[k] = kl.cast(0, kl.u64)
            if x < count and sources[kl.minimum(x, count - 1)] >= 0:
                names[k] = Panel(state, shape, panel).sum_of(sources[x])
        build_tables(tables, rows[top : top + WORD, :], part)
        for k in kl.static_range(EACH):
            x = first_row + k * shape.batch
            if names[k] != 0:
                words = kl.vload(rows, x, 0, lanes=part.lanes)
                words = words ^ combination(tables, names[k], 0, part)
                kl.vstore(rows, x, 0, words)
        kl.barrier()
    for x in kl.workgroup_range(count):
        target = (end - begin - 1 - x // WORD) * WORD + x % WORD
        kl.vstore(solved, s, target, at, kl.vload(rows, x, 0, lanes=part.lanes))
