"""Which rows become pivots within 64 columns, and how pivots combine, as functions for kernels.

Columns are in the order in which they are eliminated: within a word the highest bit comes first. A
pivot is an eliminator, or the first row (in the order of rows) that leads in a column once the
columns before it are eliminated. That is found row after row: what is left of a row when all pivots
so far are taken from it (its *residue*) leads where the row would come to rest, as pivots of later
columns do not change the columns before them; the first row that leads somewhere is a pivot there.
A batch of rows loses the pivots known before it at once, and each pivot found in it is taken from
all rows after.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.gf2.blocks import WORD, combination
from portable.gf2.tuning import Shape
from portable.lang.function import function

NO_SOURCE: Final = -1
"""The source of a column that has no pivot."""

NO_COLUMN: Final = -2
"""The owner of a place that is no column of the matrix, beyond its last one."""

AT_ONCE: Final = 8
"""Rows that a work-item looks at while it looks for the next one."""

ALL: Final = 0xFFFFFFFFFFFFFFFF
"""All columns."""


class State(NamedTuple):
    """The arrays of an elimination, places being ``64 panel + bit``.

    What is of a panel is kept at `slot_of` it, with room for the panels of two stripes.

    Attributes
    ----------
    work, eliminators : array of uint64, shape (stripes, rows, words)
        The rows, and the pivots that are there from the beginning.
    owners : array of int32, shape (64 panels,)
        The eliminator that leads at a place, -1 where there is none, `NO_COLUMN` beyond the last
        column.
    rests : array of int32, shape (rows,)
        The place at which a row came to rest, -1 for others.
    settled : array of int32, shape (rows,)
        The same as of the panel that is being eliminated, where the next one is chosen meanwhile.
    cursor : array of int32, shape (3,)
        A number of rows, from the first on, that are all pivots; and how many steps were taken here
        where workgroups share stripes, for launches of even numbers and of odd ones.
    told : array of uint64, shape (slots, 64 + rows)
        What others have to know of a panel: the sources of its pivots, which are rows, or ``-2 -
        eliminator``, or `NO_SOURCE`; then which pivots, as they are before the panel, each row
        takes on in it.
    """

    work: Any
    eliminators: Any
    owners: Any
    rests: Any
    settled: Any
    cursor: Any
    told: Any


class Transform(NamedTuple):
    """Pivots of a panel as sums of their rows, which are as they were before the panel.

    Attributes
    ----------
    finals : array of uint64, shape (64,)
        Of each pivot as it comes to rest.
    reduced : array of uint64, shape (64,)
        Of each pivot with all others' columns eliminated.
    columns : array of uint64, shape (1,)
        The bits that have a pivot.

    Where the next panel is chosen at the same time there are two of each, one after the other.
    """

    finals: Any
    reduced: Any
    columns: Any


@dataclass(frozen=True)
class Panel:
    """64 columns that are eliminated together.

    Attributes
    ----------
    state : State
        The elimination.
    shape : Shape
        How the work is cut up.
    number : int
        Among the panels of the whole matrix.
    own : int
        The place of its stripe among those that are held; None where nobody asks for it.
    """

    state: State
    shape: Shape
    number: Any
    own: Any = None

    @property
    def slot(self) -> Any:
        """Where its pivots are kept, which is used again and again."""
        return self.number % (2 * self.shape.width)

    @property
    def word(self) -> Any:
        """Which word of its stripe its columns are."""
        return self.number % self.shape.width

    def source(self, c: kl.Scalar) -> Any:
        """The source of the pivot of a column."""
        return kl.cast(self.state.told[self.slot, c], kl.i32)

    def sum_of(self, row: kl.Scalar) -> Any:
        """Which of its pivots a row takes on."""
        return self.state.told[self.slot, WORD + row]

    def note_sum(self, row: kl.Scalar, named: kl.Scalar) -> None:
        """Writes what `sum_of` reads."""
        self.state.told[self.slot, WORD + row] = named

    def own_word(self, x: kl.Array, row: kl.Scalar) -> Any:
        """What a row of stripes has in its columns."""
        return x[self.own, row, self.word]


class Rows(NamedTuple):
    """The rows of a stripe that is being eliminated, panel by panel, in two places in turn.

    Attributes
    ----------
    words : array of uint64, shape (2, rows, words)
    slot : int
        Where they are as they were before the panel that is eliminated now.
    """

    words: Any
    slot: Any


class Ahead(NamedTuple):
    """What rows are still to lose in the panel before, which is eliminated at the same time.

    Attributes
    ----------
    rows : Rows
        As they were before that panel.
    tables : array
        Tables of single words: what a row loses in the columns of the panel to be chosen, by what
        it has in those of the panel before.
    columns : array of uint64, shape (1,)
        The bits of that panel that have a pivot.
    """

    rows: Any
    tables: Any
    columns: Any


class Known(NamedTuple):
    """The pivots of a panel so far, an array of 64 words each in local memory.

    Attributes
    ----------
    basis : array
        What is left of each when those before it are taken from it; zero where there is none.
    tails : array
        Each as it was before the panel, without the bit that it leads with.
    """

    basis: Any
    tails: Any


@function
def eliminator_source(number: kl.Scalar) -> Any:
    """How the source of a pivot encodes an eliminator, and back."""
    return -2 - number


@function
def fresh_word(panel: Panel, ahead: Any, row: kl.Scalar) -> Any:
    """What a row has in the columns of a panel when all panels before it are eliminated."""
    if panel.shape.alone:
        return panel.own_word(panel.state.work, row)
    offset = panel.word
    word = kl.cast(0, kl.u64)
    if offset == 0:
        word = panel.own_word(panel.state.work, row)
    else:
        words, slot = ahead.rows
        named = words[slot, row, offset - 1] & ahead.columns[0]
        word = words[slot, row, offset] ^ combination(ahead.tables, named, 0, panel.shape.names)
    return word


@function
def bit(c: kl.Scalar) -> Any:
    """A word with one bit."""
    return kl.cast(1, kl.u64) << kl.cast(c, kl.u64)


@function
def either(a: tuple[kl.Scalar, ...], b: tuple[kl.Scalar, ...]) -> Any:
    """The bits of both of two pairs of words."""
    return a[0] | b[0], a[1] | b[1]


@function
def spread(words: kl.Scalar, c: kl.Scalar) -> Any:
    """All ones where bit `c` is set, else zeros."""
    return 0 - ((words >> kl.cast(c, kl.u64)) & 1)


@function
def elect(
    panel: Panel, transform: Transform, known: Known, raw: kl.Array, ahead: Ahead | None
) -> None:
    """Chooses the pivots of a panel, by the workgroup, and what becomes of them.

    The whole workgroup may read `transform` afterwards, whether it is local or global. `known` and
    `raw`, a batch of words, are local memory for it. `ahead` is of no matter where a lone work-item
    chooses.
    """
    columns, absent = bring_eliminators(panel, known)
    columns = scan(panel, known, raw, columns, absent, ahead)
    settle(known.tails, transform, columns, panel.shape)


# -- rows one by one ------------------------------------------------------------------------------


@function
def bring_eliminators(panel: Panel, known: Known) -> Any:
    """The first pivots known; returns their columns, and the bits that are none of the matrix."""
    state, columns, absent = panel.state, kl.cast(0, kl.u64), kl.cast(0, kl.u64)
    for c in kl.workgroup_range(WORD, unroll=panel.shape.copies):
        owner = state.owners[panel.number * WORD + c]
        source = kl.cast(NO_SOURCE, kl.i32)
        word, lead = kl.cast(0, kl.u64), kl.cast(0, kl.u64)
        if owner >= 0:
            word, lead = panel.own_word(state.eliminators, owner), bit(c)
            source = eliminator_source(owner)
        elif owner == NO_COLUMN:
            absent = absent | bit(c)
        known.basis[c] = word
        known.tails[c] = word ^ lead
        columns = columns | lead
        state.told[panel.slot, c] = kl.cast(source, kl.u64)
    kl.barrier()
    return kl.workgroup_reduce(either, (columns, absent))


@function
def scan(
    panel: Panel, known: Known, raw: kl.Array, columns: kl.Scalar, absent: kl.Scalar, ahead: Any
) -> Any:
    """Goes through the rows until each column has a pivot; returns the columns that have one.

    Of a batch `raw` are the words as they are, `left` what is left of them.
    """
    state, shape = panel.state, panel.shape
    left = kl.local(shape.batch, kl.u64)
    begin = kl.workgroup_uniform(state.cursor[0])
    start = begin
    pivots = columns | absent
    while start < state.work.shape[1] and pivots != ALL:
        if kl.workgroup_any(bring_batch(panel, ahead, raw, start)):
            take_pivots(raw, left, known.basis, pivots, shape)
            pivots = promote_batch(panel, raw, left, known, pivots, start)
        elif start == begin:
            begin = begin + shape.batch
        start = start + shape.batch
        if pivots != ALL and not shape.alone:
            start = next_left(panel, ahead, known.basis, start)
    if kl.local_linear_id() == 0:
        state.cursor[0] = begin
    return pivots ^ absent


@function
def next_left(panel: Panel, ahead: Ahead | None, basis: kl.Array, start: kl.Scalar) -> Any:
    """The first row from `start` on of which something is left; else their number.

    Where rows depend on those before, most of them are passed over here, many at a time.
    """
    rows = panel.state.work.shape[1]
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    words = kl.private(AT_ONCE, kl.u64)
    start_row = start
    first = rows + 0
    while start_row < rows and first == rows:
        for k in kl.static_range(AT_ONCE):
            row = start_row + k * items + item
            words[k] = kl.cast(0, kl.u64)
            if row < rows and panel.state.rests[row] < 0:
                words[k] = fresh_word(panel, ahead, row)
        for step in kl.range(WORD, unroll=1):
            c = WORD - 1 - step
            for k in kl.static_range(AT_ONCE):
                words[k] = words[k] ^ spread(words[k], c) & basis[c]
        own_first = rows + 0
        for k in kl.static_range(AT_ONCE - 1, -1, -1):
            if words[k] != 0:
                own_first = start_row + k * items + item
        first = kl.workgroup_reduce(kl.minimum, own_first)
        start_row = start_row + AT_ONCE * items
    return first


@function
def bring_batch(panel: Panel, ahead: Ahead | None, raw: kl.Array, start: kl.Scalar) -> Any:
    """The panel's words of rows from `start` on, zeros of pivots; returns whether others are here.

    They are for the work-items that bring them.
    """
    rows = panel.state.work.shape[1]
    any_left = False
    for i in kl.workgroup_range(panel.shape.batch, unroll=panel.shape.copies):
        word = kl.cast(0, kl.u64)
        if start + i < rows and panel.state.rests[start + i] < 0:
            word = fresh_word(panel, ahead, start + i)
            any_left = True
        raw[i] = word
    return any_left


@function
def take_pivots(
    raw: kl.Array, left: kl.Array, basis: kl.Array, columns: kl.Scalar, shape: Shape
) -> None:
    """Leaves the residues of a batch of words, a pivot's column after the other.

    The basis is zero where there is no pivot: to look first pays for lone work-items only.
    """
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    step = items * shape.abreast
    for i in kl.range(item * shape.abreast, shape.batch, step, unroll=shape.copies):
        words = kl.vload(raw, i, lanes=shape.abreast)
        for bit_number in kl.range(WORD, unroll=1 if shape.alone else 4):
            c = WORD - 1 - bit_number
            if not shape.alone or columns & bit(c) != 0:
                words = words ^ spread(words, c) & basis[c]
        kl.vstore(left, i, words)
    kl.barrier()


@function
def promote_batch(
    panel: Panel,
    raw: kl.Array,
    left: kl.Array,
    known: Known,
    columns: kl.Scalar,
    start: kl.Scalar,
) -> Any:
    """Rows of which something is left become pivots, in order; returns all columns that have one.

    They are gone through a few at a time, as the search for the next one takes as long. What need
    not be known for the next one is noted afterwards.
    """
    state, shape = panel.state, panel.shape
    chosen = kl.local(WORD, kl.i32)
    for c in kl.workgroup_range(WORD, unroll=shape.copies):
        chosen[c] = -1
    pivots = columns
    first = first_left(left, 0, shape)
    kl.barrier()
    while first < shape.batch:
        stop = kl.minimum(first + shape.stride, shape.batch)
        for i in kl.range(first, stop, unroll=shape.copies):
            pivot = kl.assume_uniform(left[i])
            if pivot != 0:
                c = 63 - kl.cast(kl.clz(pivot), kl.i32)
                pivots = pivots | bit(c)
                if kl.local_linear_id() == 0:
                    known.basis[c] = pivot
                    chosen[c] = i
                take_pivot(left, pivot, c, i, shape)
                kl.barrier()
        first = first_left(left, stop, shape)
    for c in kl.workgroup_range(WORD, unroll=shape.copies):
        if chosen[c] >= 0:
            row = start + chosen[c]
            known.tails[c] = raw[chosen[c]] ^ bit(c)
            state.told[panel.slot, c] = kl.cast(row, kl.u64)
            state.rests[row] = panel.number * WORD + c
    kl.barrier()
    return pivots


@function
def take_pivot(left: kl.Array, pivot: kl.Scalar, c: kl.Scalar, at: kl.Scalar, shape: Shape) -> None:
    """Adds the pivot, row `at` of a batch, to those after it that have its column."""
    if shape.abreast > 1:
        for i in range(at // shape.abreast * shape.abreast, shape.batch, shape.abreast):
            words = kl.vload(left, i, lanes=shape.abreast)
            kl.vstore(left, i, words ^ spread(words, c) & pivot)
    else:
        for i in kl.workgroup_range(shape.batch, unroll=shape.copies):
            if i > at and left[i] & bit(c) != 0:
                left[i] = left[i] ^ pivot


@function
def first_left(left: kl.Array, start: kl.Scalar, shape: Shape) -> Any:
    """The first row of a batch, from `start` on, of which something is left; else its length."""
    if shape.alone:
        return start
    first = kl.cast(shape.batch, kl.i32)
    for i in kl.workgroup_range(shape.batch, unroll=shape.copies):
        if i >= start and left[i] != 0:
            first = kl.minimum(first, i)
    return kl.workgroup_reduce(kl.minimum, first)


# -- pivots among themselves ----------------------------------------------------------------------


@function
def settle(tails: kl.Array, transform: Transform, columns: kl.Scalar, shape: Shape) -> None:
    """Eliminates pivots' columns from each other, and notes of which rows they become the sums.

    Words are without their own leading bit, so that no pivot is taken from itself. Columns are
    taken in order: a pivot is as it comes to rest when its column's turn has come. A sub-group
    needs no barriers for that, where there are any.
    """
    if not shape.alone and shape.batch >= kl.sub_group_size() > 1:
        if kl.sub_group_id() == 0:
            settle_by_sub_group(tails, transform, columns)
    else:
        settle_by_items(tails, transform, columns, shape)
    if kl.local_linear_id() == 0:
        transform.columns[0] = columns
    kl.barrier()


@function
def settle_by_sub_group(tails: kl.Array, transform: Transform, columns: kl.Scalar) -> None:
    """A work-item keeps its words, and what each is the sum of, in registers."""
    SIZE = kl.sub_group_size()
    EACH = WORD // SIZE
    lane = kl.cast(kl.sub_group_local_id(), kl.i32)
    words, sums = kl.private(EACH, kl.u64), kl.private(EACH, kl.u64)
    for k in kl.static_range(EACH):
        words[k] = tails[k * SIZE + lane]
        sums[k] = columns & bit(k * SIZE + lane)
    for k in kl.static_range(EACH - 1, -1, -1):
        for step in kl.range(SIZE, unroll=2):
            bit_number = SIZE - 1 - step
            d = k * SIZE + bit_number
            pivot = kl.sub_group_shuffle(words[k], bit_number) ^ bit(d)
            more = kl.sub_group_shuffle(sums[k], bit_number)
            if lane == bit_number:
                transform.finals[d] = more
            for j in kl.static_range(EACH):
                hit = spread(words[j] & columns, d)
                words[j] = words[j] ^ hit & pivot
                sums[j] = sums[j] ^ hit & more
    for k in kl.static_range(EACH):
        transform.reduced[k * SIZE + lane] = sums[k]


@function
def settle_by_items(
    tails: kl.Array, transform: Transform, columns: kl.Scalar, shape: Shape
) -> None:
    """Work-items, or a lone one, change words in local memory, a column after the other."""
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    sums = kl.local(WORD, kl.u64)
    for c in kl.workgroup_range(WORD, unroll=shape.copies):
        sums[c] = columns & bit(c)
    kl.barrier()
    for step in kl.range(WORD, unroll=shape.copies):
        d = WORD - 1 - step
        if columns & bit(d) != 0:
            pivot, more = tails[d] ^ bit(d), sums[d]
            if item == 0:
                transform.finals[d] = more
            first, apart = item * shape.abreast, items * shape.abreast
            for i in kl.range(first, WORD, apart, unroll=shape.copies):
                # The pivot has not its own column, so that nobody writes what others still read.
                words = kl.vload(tails, i, lanes=shape.abreast)
                hit = spread(words, d)
                if shape.alone:
                    kl.vstore(tails, i, words ^ hit & pivot)
                    kl.vstore(sums, i, kl.vload(sums, i, lanes=shape.abreast) ^ hit & more)
                elif hit != 0:
                    tails[i] = words ^ pivot
                    sums[i] = sums[i] ^ more
            kl.barrier()
    for c in kl.workgroup_range(WORD, unroll=shape.copies):
        transform.reduced[c] = sums[c]
