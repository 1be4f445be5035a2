"""Which rows become pivots within 64 columns, and how pivots combine, as functions for kernels.

Columns are in the order in which they are eliminated: within a word the highest bit comes first. A
pivot is an eliminator, or the first row (in the order of rows) that leads in a column once the
columns before it are eliminated. That is found batch by batch of rows: what is left of a row
when all pivots so far are taken from it (its *residue*) leads where the row would come to rest, as
pivots of later columns do not change the columns before them. Within a batch the first row that
leads in the first column is a pivot; its residue is taken from all others of the batch, and so on.
"""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.gf2.table_kernels import WORD, load_words, store_words
from portable.lang.function import function

__all__ = ["NO_SOURCE", "elect", "eliminator_source"]

NO_SOURCE: Final = -1
"""The source of a column that has no pivot."""

_NONE: Final = 0xFFFFFFFF


@function
def eliminator_source(number: Any) -> Any:
    """How an eliminator is told from a row of the matrix, and back."""
    return -2 - number


@function
def bit(c: Any) -> Any:
    """A word with one bit."""
    return kl.cast(1, kl.u64) << kl.cast(c, kl.u64)


@function
def spread(words: Any, c: Any) -> Any:
    """All ones where bit `c` is set, else zeros."""
    return 0 - ((words >> kl.cast(c, kl.u64)) & 1)


@function
def elect(
    work: Any,
    eliminators: Any,
    owners: Any,
    rests: Any,
    sources: Any,
    finals: Any,
    reduced: Any,
    panel: Any,
    BATCH: int,
    LANES: int,
    REDUCED: bool,
) -> Any:
    """Chooses the pivots of a panel of 64 columns, by the whole workgroup; returns their columns.

    `sources` then names their rows, `finals` and `reduced` the sums of these that each pivot is at
    rest, and with all other pivots' columns eliminated from it.
    """
    stripe, word = panel // work.shape[2], panel % work.shape[2]
    tails = kl.local(WORD, kl.u64)
    basis = kl.local(WORD, kl.u64)
    sums = kl.local(WORD, kl.u64)
    columns = bring_eliminators(eliminators, owners, sources, tails, panel, stripe, word)
    copy_words(tails, basis)
    sweep(basis, sums, columns, LANES, False, False)
    add_leads(basis, columns)
    columns = scan(work, rests, sources, tails, basis, columns, panel, BATCH, LANES)
    unit_words(sums, columns)
    sweep(tails, sums, columns, LANES, True, True)
    if not REDUCED:
        store_row(finals, panel, sums)
    sweep(tails, sums, columns, LANES, False, True)
    if REDUCED:
        store_row(finals, panel, sums)
    store_row(reduced, panel, sums)
    return columns


# -- rows one by one ------------------------------------------------------------------------------


@function
def bring_eliminators(
    eliminators: Any, owners: Any, sources: Any, tails: Any, panel: Any, stripe: Any, word: Any
) -> Any:
    """Their words without the leading bits into `tails`; returns the columns that have one."""
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    owned = kl.local(WORD, kl.i32)
    for c in range(item, WORD, items):
        owner = owners[panel * WORD + c]
        owned[c] = owner
        source = kl.cast(NO_SOURCE, kl.i32)
        tail = kl.cast(0, kl.u64)
        if owner >= 0:
            tail = eliminators[stripe, owner, word] ^ bit(c)
            source = eliminator_source(owner)
        tails[c] = tail
        sources[panel, c] = source
    kl.barrier()
    columns = kl.cast(0, kl.u64)
    for c in range(WORD):
        columns = columns | kl.where(owned[c] >= 0, bit(c), kl.cast(0, kl.u64))
    kl.barrier()
    return kl.workgroup_uniform(columns)


@function
def scan(
    work: Any,
    rests: Any,
    sources: Any,
    tails: Any,
    basis: Any,
    columns: Any,
    panel: Any,
    BATCH: int,
    LANES: int,
) -> Any:
    """Goes through the rows until each column has a pivot; returns the columns that have one."""
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    stripe, word = panel // work.shape[2], panel % work.shape[2]
    left = kl.local(BATCH, kl.u64)
    start = 0
    found = columns
    while start < work.shape[1] and found != 0xFFFFFFFFFFFFFFFF:
        for i in range(item, BATCH, items):
            own = kl.cast(0, kl.u64)
            if start + i < work.shape[1] and rests[start + i] < 0:
                own = work[stripe, start + i, word]
            left[i] = own
        kl.barrier()
        take_pivots(left, basis, found, BATCH, LANES)
        first = first_leader(left, BATCH)
        while first != _NONE:
            c, at = 63 - kl.cast(first // BATCH, kl.i32), kl.cast(first % BATCH, kl.i32)
            pivot = left[at]
            kl.barrier()
            for i in range(item * LANES, BATCH, items * LANES):
                words = load_words(left, (i,), LANES)
                store_words(left, (i,), words ^ spread(words, c) & pivot, LANES)
            for i in range(item * LANES, WORD, items * LANES):
                words = load_words(basis, (i,), LANES)
                store_words(basis, (i,), words ^ spread(words, c) & pivot, LANES)
            kl.barrier()
            if item == 0:
                basis[c] = pivot
                tails[c] = work[stripe, start + at, word] ^ bit(c)
                sources[panel, c] = start + at
                rests[start + at] = panel * WORD + c
            found = found | bit(c)
            first = first_leader(left, BATCH)
        start = start + BATCH
    return found


@function
def take_pivots(left: Any, basis: Any, columns: Any, BATCH: int, LANES: int) -> None:
    """Leaves the residues of a batch of words; `basis` is zero in each other's columns."""
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    for i in range(item * LANES, BATCH, items * LANES):
        words = load_words(left, (i,), LANES)
        total = words
        for c in range(WORD):
            if columns & bit(c) != 0:
                total = total ^ spread(words, c) & basis[c]
        store_words(left, (i,), total, LANES)
    kl.barrier()


@function
def first_leader(left: Any, BATCH: int) -> Any:
    """The first row that leads in the first column of a batch: ``63 - column, row`` as one number.

    Or `_NONE`, where nothing is left. A barrier for the workgroup.
    """
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    own = kl.cast(_NONE, kl.u32)
    for i in range(item, BATCH, items):
        if left[i] != 0:
            own = kl.minimum(own, kl.cast(kl.clz(left[i]), kl.u32) * BATCH + kl.cast(i, kl.u32))
    if items > 1:
        least = kl.local(1, kl.u32)
        if item == 0:
            least[0] = _NONE
        kl.barrier()
        kl.atomic_min(least, 0, own, scope="workgroup")
        kl.barrier()
        own = least[0]
    return kl.workgroup_uniform(own)


# -- pivots among themselves ----------------------------------------------------------------------


@function
def sweep(tails: Any, sums: Any, columns: Any, LANES: int, DOWN: bool, SUMS: bool) -> None:
    """Eliminates pivots' columns from the others' words: of later columns (`DOWN`), or of earlier.

    Words are without their own leading bit. `sums` follow along where `SUMS`.
    """
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    for step in range(WORD):
        d = WORD - 1 - step if DOWN else step
        if columns & bit(d) != 0:
            pivot = tails[d] ^ bit(d)
            more = sums[d] if SUMS else pivot
            for i in range(item * LANES, WORD, items * LANES):
                words = load_words(tails, (i,), LANES)
                hit = spread(words, d)
                if DOWN:
                    hit = hit & lower(i, d, LANES)
                if LANES > 1 or hit != 0:  # the pivot itself is read by all, and never hit
                    store_words(tails, (i,), words ^ hit & pivot, LANES)
                    if SUMS:
                        store_words(sums, (i,), load_words(sums, (i,), LANES) ^ hit & more, LANES)
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
