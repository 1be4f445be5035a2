"""Which rows become pivots within 64 columns, and how pivots combine, as functions for kernels.

Columns are in the order in which they are eliminated: within a word the highest bit comes first. A
pivot is an eliminator, or the first row (in the order of rows) that leads in a column once the
columns before it are eliminated. That is found batch by batch of rows: what is left of a row
when all pivots so far are taken from it (its *residue*) leads where the row would come to rest, as
pivots of later columns do not change the columns before them. Within a batch the first row that
leads in the first column is a pivot; its residue is taken from all others of the batch, and so on.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.gf2.table_kernels import WORD, load_words, store_words
from portable.lang.function import function

__all__ = ["NO_SOURCE", "State", "elect", "eliminator_source", "slot_of"]

NO_SOURCE: Final = -1
"""The source of a column that has no pivot."""

NONE: Final = 0xFFFFFFFF
"""No row."""

ALL: Final = 0xFFFFFFFFFFFFFFFF
"""All columns."""


class State(NamedTuple):
    """The arrays of an elimination, places being ``64 panel + bit``.

    What is of a panel is kept at `slot_of` it; `kept` is all panels, or as many as a stripe has.

    Attributes
    ----------
    work, eliminators : array of uint64, shape (stripes, rows, words)
        The rows, and the pivots that are there from the beginning.
    owners : array of int32, shape (64 panels,)
        The eliminator that leads at a place, -1 where there is none.
    rests : array of int32, shape (rows,)
        The place at which a row came to rest, -1 for others.
    sources : array of int32, shape (kept, 64)
        The row that is the pivot of a place, or ``-2 - eliminator``, or `NO_SOURCE`.
    finals, reduced : array of uint64, shape (kept, 64)
        Of which pivots' rows, as they are before the panel, each pivot is the sum: when it comes to
        rest, and when all other pivots' columns are eliminated from it.
    found : array of uint64, shape (kept,)
        The bits of a panel that have a pivot.
    bits : array of uint64, shape (slots, rows)
        The reduced pivots of a panel that each row is to lose.
    """

    work: Any
    eliminators: Any
    owners: Any
    rests: Any
    sources: Any
    finals: Any
    reduced: Any
    found: Any
    bits: Any


@function
def eliminator_source(number: Any) -> Any:
    """How an eliminator is told from a row of the matrix, and back."""
    return -2 - number


@function
def slot_of(state: Any, panel: Any) -> Any:
    """Where a panel's pivots are kept: with room for a few panels, it is used again and again."""
    return panel % state.sources.shape[0]


@function
def bit(c: Any) -> Any:
    """A word with one bit."""
    return kl.cast(1, kl.u64) << kl.cast(c, kl.u64)


@function
def spread(words: Any, c: Any) -> Any:
    """All ones where bit `c` is set, else zeros."""
    return 0 - ((words >> kl.cast(c, kl.u64)) & 1)


@function
def elect(state: Any, own: Any, panel: Any, shape: Any, reduced: bool) -> Any:
    """Chooses the pivots of a panel, in stripe `own`, by the workgroup; returns their columns.

    `reduced`: rows that became pivots are to be left without other pivots' columns.
    """
    tails = kl.local(WORD, kl.u64)
    basis = kl.local(WORD, kl.u64)
    sums = kl.local(WORD, kl.u64)
    columns = bring_eliminators(state, tails, own, panel)
    copy_words(tails, basis)
    sweep(basis, sums, columns, shape, False, False)
    add_leads(basis, columns)
    columns = scan(state, tails, basis, columns, own, panel, shape)
    unit_words(sums, columns)
    sweep(tails, sums, columns, shape, True, True)
    if not reduced:
        store_row(state.finals, slot_of(state, panel), sums)
    sweep(tails, sums, columns, shape, False, True)
    store_row(state.reduced, slot_of(state, panel), sums)
    return columns


# -- rows one by one ------------------------------------------------------------------------------


@function
def bring_eliminators(state: Any, tails: Any, own: Any, panel: Any) -> Any:
    """Their words without the leading bits into `tails`; returns the columns that have one."""
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    width = state.work.shape[2]
    owned = kl.local(WORD, kl.i32)
    for c in range(item, WORD, items):
        owner = state.owners[panel * WORD + c]
        owned[c] = owner
        source = kl.cast(NO_SOURCE, kl.i32)
        tail = kl.cast(0, kl.u64)
        if owner >= 0:
            tail = state.eliminators[own, owner, panel % width] ^ bit(c)
            source = eliminator_source(owner)
        tails[c] = tail
        state.sources[slot_of(state, panel), c] = source
    kl.barrier()
    columns = kl.cast(0, kl.u64)
    for c in range(WORD):
        columns = columns | kl.where(owned[c] >= 0, bit(c), kl.cast(0, kl.u64))
    kl.barrier()
    return kl.workgroup_uniform(columns)


@function
def scan(state: Any, tails: Any, basis: Any, columns: Any, own: Any, panel: Any, shape: Any) -> Any:
    """Goes through the rows until each column has a pivot; returns the columns that have one."""
    left = kl.local(shape.batch, kl.u64)
    start = 0
    found = columns
    while start < state.work.shape[1] and found != ALL:
        bring_batch(state, left, start, own, panel, shape)
        take_pivots(left, basis, found, shape)
        first = first_leader(left, shape)
        while first != NONE:
            c, at = 63 - kl.cast(first // shape.batch, kl.i32), kl.cast(first % shape.batch, kl.i32)
            promote(state, left, tails, basis, start, at, c, own, panel, shape)
            found = found | bit(c)
            first = first_leader(left, shape)
        start = start + shape.batch
    return found


@function
def bring_batch(state: Any, left: Any, start: Any, own: Any, panel: Any, shape: Any) -> None:
    """The panel's words of rows from `start` on, zeros of those that are pivots."""
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    width, rows = state.work.shape[2], state.work.shape[1]
    for i in range(item, shape.batch, items):
        word = kl.cast(0, kl.u64)
        if start + i < rows and state.rests[start + i] < 0:
            word = state.work[own, start + i, panel % width]
        left[i] = word
    kl.barrier()


@function
def promote(
    state: Any,
    left: Any,
    tails: Any,
    basis: Any,
    start: Any,
    at: Any,
    c: Any,
    own: Any,
    panel: Any,
    shape: Any,
) -> None:
    """Makes row `at` of the batch the pivot of column `c`, and takes it from the others."""
    width = state.work.shape[2]
    pivot = left[at]
    kl.barrier()
    eliminate_column(left, pivot, c, shape.batch, shape)
    eliminate_column(basis, pivot, c, WORD, shape)
    kl.barrier()
    if kl.local_linear_id() == 0:
        basis[c] = pivot
        tails[c] = state.work[own, start + at, panel % width] ^ bit(c)
        state.sources[slot_of(state, panel), c] = start + at
        state.rests[start + at] = panel * WORD + c


@function
def eliminate_column(words: Any, pivot: Any, c: Any, COUNT: int, shape: Any) -> None:
    """Adds the pivot to those words that have its column."""
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    for i in range(item * shape.abreast, COUNT, items * shape.abreast):
        own = load_words(words, (i,), shape.abreast)
        store_words(words, (i,), own ^ spread(own, c) & pivot, shape.abreast)


@function
def take_pivots(left: Any, basis: Any, columns: Any, shape: Any) -> None:
    """Leaves the residues of a batch of words; `basis` is zero in each other's columns."""
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    for i in range(item * shape.abreast, shape.batch, items * shape.abreast):
        words = load_words(left, (i,), shape.abreast)
        total = words
        for c in range(WORD):
            if columns & bit(c) != 0:
                total = total ^ spread(words, c) & basis[c]
        store_words(left, (i,), total, shape.abreast)
    kl.barrier()


@function
def first_leader(left: Any, shape: Any) -> Any:
    """The first row that leads in the first column of a batch: ``(63 - column) batch + row``.

    Or `NONE`, where nothing is left. A barrier for the workgroup.
    """
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    own = kl.cast(NONE, kl.u32)
    for i in range(item, shape.batch, items):
        if left[i] != 0:
            place = kl.cast(kl.clz(left[i]), kl.u32) * shape.batch + kl.cast(i, kl.u32)
            own = kl.minimum(own, place)
    if items > 1:
        least = kl.local(1, kl.u32)
        if item == 0:
            least[0] = NONE
        kl.barrier()
        kl.atomic_min(least, 0, own, scope="workgroup")
        kl.barrier()
        own = least[0]
    return kl.workgroup_uniform(own)


# -- pivots among themselves ----------------------------------------------------------------------


@function
def sweep(tails: Any, sums: Any, columns: Any, shape: Any, DOWN: bool, SUMS: bool) -> None:
    """Eliminates pivots' columns from the others' words: of later columns (`DOWN`), or of earlier.

    Words are without their own leading bit. `sums` follow along where `SUMS`.
    """
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    for step in range(WORD):
        d = WORD - 1 - step if DOWN else step
        if columns & bit(d) != 0:
            pivot = tails[d] ^ bit(d)
            more = sums[d] if SUMS else pivot
            for i in range(item * shape.abreast, WORD, items * shape.abreast):
                words = load_words(tails, (i,), shape.abreast)
                hit = spread(words, d)
                if DOWN:
                    hit = hit & lower(i, d, shape.abreast)
                if shape.abreast > 1 or hit != 0:  # the pivot itself is read by all, and never hit
                    store_words(tails, (i,), words ^ hit & pivot, shape.abreast)
                    if SUMS:
                        store_words(
                            sums,
                            (i,),
                            load_words(sums, (i,), shape.abreast) ^ hit & more,
                            shape.abreast,
                        )
            kl.barrier()


@function
def lower(first: Any, d: Any, LANES: int) -> Any:
    """All ones for those of `LANES` numbers from `first` on that are below `d`, else zeros."""
    if LANES == 1:
        return 0 - (kl.cast(first - d, kl.u64) >> 63)
    numbers = ()
    for lane in kl.static_range(LANES):
        numbers = (*numbers, kl.cast(first + lane - d, kl.u64) >> 63)  # type: ignore[assignment]
    return 0 - kl.vector(*numbers)


@function
def copy_words(source: Any, target: Any) -> None:
    """The 64 words of one local array to another; their owners alone may go on with them."""
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    for c in range(item, WORD, items):
        target[c] = source[c]
    kl.barrier()


@function
def add_leads(words: Any, columns: Any) -> None:
    """Gives pivots their leading bits back."""
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    for c in range(item, WORD, items):
        words[c] = words[c] ^ (columns & bit(c))
    kl.barrier()


@function
def unit_words(sums: Any, columns: Any) -> None:
    """Each pivot is at first its own row alone."""
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    for c in range(item, WORD, items):
        sums[c] = columns & bit(c)
    kl.barrier()


@function
def store_row(target: Any, panel: Any, words: Any) -> None:
    """64 local words to a row of a global array."""
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    for c in range(item, WORD, items):
        target[panel, c] = words[c]
    kl.barrier()
