"""A stable radix sort by workgroups: rows that one of them holds, and one pass a digit over longer.

A tile is a part of a row of which each of `WIDTH` work-items holds `EACH` neighbours. It is brought
in the order of a digit in local memory, four bits at a time, and each digit's elements are written
to where those of the tiles before end: A. Adinets, D. Merrill, "Onesweep: A faster least
significant digit radix sort for GPUs", 2022, where tiles are ranked by match instructions instead.
How many of each digit come before is learnt by looking back: D. Merrill, M. Garland, "Single-pass
parallel prefix scan with decoupled look-back", NVIDIA technical report NVR-2016-002. Workgroups
number themselves as they start, so that whom they wait for is running already.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.array.elementwise_kernel import unravelled
from portable.array.radix_kernels import DIGIT_BITS, RADIX, digit_of
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["MOST_EACH", "RAKE", "count_together", "place_together", "sort_together"]

HALF = 4
"""Bits by which a tile is ordered at a time."""
WORDS = 1 << (HALF - 1)
"""Counters of a work-item, of 32 bits: the lower half counts one digit, the upper half another."""
MOST_EACH = (1 << HALF) - 1
"""A work-item counts its own elements in as many bits."""
DIGIT_AT = 16
"""A note says in its lower bits where in the tile an element lies, above them its digit."""
RAKE = 16
"""Work-items whose counts one of them adds up."""
BANKS = 32
AT_ONCE = 5
"""Elements that a work-item writes without waiting in between."""
LOOK_BACK = 8
"""Tiles whose counts are read at once."""
OWN = 1
"""The status of a tile whose own count is published."""
UP_TO = 2
"""The status of a tile up to whose end the row's count is published."""


@function
def row_of_counters(WIDTH: Any) -> Any:
    """Places for a counter of each work-item: some are left out, against bank conflicts.

    A work-item finds all its counters in one bank, and counters next to each other in several.
    """
    return kl.cdiv(WIDTH + WIDTH // BANKS, BANKS) * BANKS


@function
def room(EACH: Any, WIDTH: Any) -> Any:
    """Places of a line: for the notes of a tile, or for counters and their sums."""
    counting = WORDS * row_of_counters(WIDTH) + WIDTH // RAKE * (RAKE + 2)
    return kl.maximum(EACH * WIDTH, counting)


@function
def total_before(line: Any, own: Any, WIDTH: Any) -> Any:
    """The sum of two 16-bit halves over the work-items before, upper halves following all lower."""
    item = kl.local_id(0)
    first = WORDS * row_of_counters(WIDTH)
    groups = first + WIDTH // RAKE * (RAKE + 1)
    line[first + item + item // RAKE] = own
    kl.barrier()
    if item < WIDTH // RAKE:
        below = kl.cast(0, kl.u32)
        for c in kl.range(RAKE, unroll=-1):
            at = first + item * (RAKE + 1) + c
            count = line[at]
            line[at] = below
            below = below + count
        line[groups + item] = below
    kl.barrier()
    before, all_of_them = line[first + item + item // RAKE], kl.cast(0, kl.u32)
    for group in kl.range(WIDTH // RAKE, unroll=-1):
        before = before + kl.where(group < item // RAKE, line[groups + group], 0)
        all_of_them = all_of_them + line[groups + group]
    return before + (all_of_them << 16)


@function
def four_times(note: Any, FROM: Any) -> Any:
    """Four bits of a note, times four: by how much their counter is shifted."""
    return (note >> (FROM - 2)) & (MOST_EACH << 2)


@function
def order_by(notes: Any, line: Any, FROM: Any, EACH: Any, WIDTH: Any) -> None:
    """Leaves in `line` the notes of all work-items in the order of their four bits from `FROM` on.

    `line` holds counters meanwhile. A barrier comes before and after.
    """
    item = kl.local_id(0)
    places = kl.private((EACH,), kl.i32)
    counts = kl.cast(0, kl.u64)
    for k in kl.range(EACH, unroll=-1):
        by = kl.cast(four_times(notes[k], FROM), kl.u64)
        places[k] = kl.cast(counts >> by, kl.i32) & MOST_EACH
        counts = counts + (kl.cast(1, kl.u64) << by)
    low, high = kl.cast(counts, kl.u32), kl.cast(counts >> 32, kl.u32)
    ROW = row_of_counters(WIDTH)
    across = item + item // BANKS
    for w in kl.range(WORDS, unroll=-1):
        both = ((low >> (w * HALF)) & MOST_EACH) | (((high >> (w * HALF)) & MOST_EACH) << 16)
        line[w * ROW + across] = both
    kl.barrier()
    add_counters_up(line, WIDTH)
    kl.barrier()
    for k in kl.range(EACH, unroll=-1):
        by_four = four_times(notes[k], FROM)
        word = line[kl.cast((by_four & (WORDS * 4 - 1)) * (ROW // 4), kl.i32) + across]
        places[k] = places[k] + kl.cast((word >> ((by_four >> 1) & 16)) & 0xFFFF, kl.i32)
    kl.barrier()
    for k in kl.range(EACH, unroll=-1):
        line[places[k]] = notes[k]
    kl.barrier()


@function
def add_counters_up(line: Any, WIDTH: Any) -> None:
    """Turns counters into how many notes come before, each work-item neighbouring ones."""
    at = kl.local_id(0) * WORDS % WIDTH
    first = kl.local_id(0) * WORDS // WIDTH * row_of_counters(WIDTH) + at + at // BANKS
    held = kl.private((WORDS,), kl.u32)
    own = kl.cast(0, kl.u32)
    for c in kl.range(WORDS, unroll=-1):
        held[c] = own
        own = own + line[first + c]
    before = total_before(line, own, WIDTH)
    for c in kl.range(WORDS, unroll=-1):
        line[first + c] = before + held[c]


@function
def order_notes(notes: Any, line: Any, EACH: Any, WIDTH: Any) -> None:
    """Leaves in `line` the notes of all work-items in the order of their digits; barriers around.

    `notes` are this work-item's, of neighbours.
    """
    order_by(notes, line, DIGIT_AT, EACH, WIDTH)
    for k in kl.range(EACH, unroll=-1):
        notes[k] = line[kl.local_id(0) * EACH + k]
    kl.barrier()
    order_by(notes, line, DIGIT_AT + HALF, EACH, WIDTH)


@function
def note_of(
    element: Any, at: Any, inside: Any, shift: Any, KIND: Any, BITS: Any, DESCENDING: Any
) -> Any:
    """A note of an element; what lies outside its row has the last of all digits."""
    digit = digit_of(element, shift, DIGIT_BITS, KIND, BITS, DESCENDING)
    return kl.cast(at | (kl.where(inside, digit, RADIX - 1) << DIGIT_AT), kl.u32)


@function
def load(x: Any, outer: Any, first: Any, valid: Any, tile: Any, EACH: Any, WIDTH: Any) -> None:
    """Reads a tile of a row, neighbouring work-items neighbouring elements; a barrier follows."""
    mine = kl.private((EACH,), x.dtype.register)
    item = kl.local_id(0)
    for k in kl.range(EACH, unroll=-1):
        i = k * WIDTH + item
        value = kl.cast(0, x.dtype.register)
        if i < valid:
            value = x[*outer, first + i]
        mine[k] = value
    for k in kl.range(EACH, unroll=-1):
        tile[k * WIDTH + item] = mine[k]


@kernel
def sort_together(
    x: Any,
    out: Any,
    order: Any,
    *,
    EACH: int,
    WIDTH: int,
    DIGITS: int,
    KIND: str,
    BITS: int,
    DESCENDING: bool,
) -> None:
    """Sorts rows that fit in a tile, a workgroup each; `out` or `order` may be None."""
    lead = x.shape[: x.ndim - 1]
    length = x.shape[x.ndim - 1]
    outer = unravelled(kl.group_id(0), lead)
    item = kl.local_id(0)
    tile = kl.local((EACH * WIDTH,), x.dtype)
    line = kl.local((room(EACH, WIDTH),), kl.u32)
    notes = kl.private((EACH,), kl.u32)
    load(x, outer, 0, length, tile, EACH, WIDTH)
    for k in kl.range(EACH, unroll=-1):
        line[item * EACH + k] = kl.cast(item * EACH + k, kl.u32)
    kl.barrier()
    for shift in range(0, DIGITS * DIGIT_BITS, DIGIT_BITS):
        for k in kl.range(EACH, unroll=-1):
            at = kl.cast(line[item * EACH + k], kl.i32) & ((1 << DIGIT_AT) - 1)
            notes[k] = note_of(tile[at], at, at < length, shift, KIND, BITS, DESCENDING)
        kl.barrier()
        order_notes(notes, line, EACH, WIDTH)
    for k in kl.range(EACH, unroll=-1):
        i = k * WIDTH + item
        if i < length:
            origin = kl.cast(line[i], kl.i32) & ((1 << DIGIT_AT) - 1)
            if out is not None:
                out[*outer, i] = tile[origin]
            if order is not None:
                order[*outer, i] = kl.cast(origin, order.dtype)


@kernel
def count_together(
    x: Any,
    counts: Any,
    shift: Any,
    *,
    SECTION: int,
    AHEAD: int,
    WIDTH: int,
    DIGITS: int,
    KIND: str,
    BITS: int,
    DESCENDING: bool,
) -> None:
    """Counts digits from bit `shift` on in sections of `SECTION` elements, a workgroup each.

    ``counts[r, p * RADIX + d]``, which holds zeros, is how often in row `r` the `p`-th digit is
    `d`; with a third dimension, how often that is so in each section. A work-item reads `AHEAD`
    elements before it counts them.
    """
    lead = x.shape[: x.ndim - 1]
    sections = kl.cdiv(x.shape[x.ndim - 1], SECTION)
    row, s = kl.group_id(0) // sections, kl.group_id(0) % sections
    outer = unravelled(row, lead)
    stop = kl.minimum(s * SECTION + SECTION, x.shape[x.ndim - 1])
    item = kl.local_id(0)
    found = kl.local((DIGITS * RADIX,), kl.i32)
    for j in range(item, DIGITS * RADIX, WIDTH):
        found[j] = 0
    kl.barrier()
    mine = kl.private((AHEAD,), x.dtype.register)
    for begin in range(s * SECTION + item, stop, AHEAD * WIDTH):
        for k in kl.range(AHEAD, unroll=-1):
            if begin + k * WIDTH < stop:
                mine[k] = x[*outer, begin + k * WIDTH]
        for k in kl.range(AHEAD, unroll=-1):
            if begin + k * WIDTH < stop:
                for p in kl.range(DIGITS, unroll=-1):
                    at = shift + p * DIGIT_BITS
                    d = digit_of(mine[k], at, DIGIT_BITS, KIND, BITS, DESCENDING)
                    kl.atomic_add(found, p * RADIX + d, 1, scope="workgroup")
    kl.barrier()
    for j in range(item, DIGITS * RADIX, WIDTH):
        if counts.ndim == 3:
            counts[row, j, s] = found[j]
        elif found[j] > 0:
            kl.atomic_add(counts, (row, j), kl.cast(found[j], counts.dtype))


@function
def mark_digits(line: Any, starts: Any, ends: Any, valid: Any, EACH: Any) -> None:
    """Where in a line of `valid` ordered notes each digit begins and ends."""
    first = kl.local_id(0) * EACH
    previous = kl.cast(line[kl.maximum(first - 1, 0)] >> DIGIT_AT, kl.i32)
    for k in kl.range(EACH, unroll=AT_ONCE):
        i = first + k
        digit = kl.cast(line[i] >> DIGIT_AT, kl.i32)
        if digit != previous and i < valid:
            starts[digit] = kl.cast(i, starts.dtype)
            ends[previous] = i
        previous = digit
    if first == 0:
        ends[line[valid - 1] >> DIGIT_AT] = valid


@function
def looked_back(state: Any, number: Any, tile: Any, digit: Any, count: Any) -> Any:
    """How many elements of tiles before in the row have a digit, where this tile has `count`."""
    TOP = state.dtype.itemsize * 8 - 2
    one = kl.cast(1, state.dtype)
    mine = kl.cast(count, state.dtype)
    before = mine - mine
    if tile > 0:
        kl.atomic_store(state, number * RADIX + digit, mine | (one << TOP) * OWN)
        words = kl.private((LOOK_BACK,), state.dtype)
        back = number - 1
        status = 0
        while status != UP_TO:
            for w in kl.range(LOOK_BACK, unroll=-1):
                words[w] = kl.atomic_load(state, kl.maximum(back - w, 0) * RADIX + digit)
            status = OWN
            for w in kl.range(LOOK_BACK, unroll=-1):
                if status == OWN:
                    status = kl.cast(words[w] >> TOP, kl.i32)
                    before = before + (words[w] & ((one << TOP) - 1))
                    back = back - kl.cast(status != 0, back.dtype)
    kl.atomic_store(state, number * RADIX + digit, (before + mine) | (one << TOP) * UP_TO)
    return before


@function
def is_only_digit(begins: Any, row: Any, digit: Any, length: Any) -> Any:
    """Whether all elements of a row have a digit, which then is in order."""
    end = kl.cast(length, begins.dtype)
    if digit < RADIX - 1:
        end = begins[row, digit + 1]
    return (begins[row, digit] == 0) & (end == length)


@function
def find_ways(
    line: Any,
    starts: Any,
    ends: Any,
    valid: Any,
    begins: Any,
    row: Any,
    place: Any,
    number: Any,
    state: Any,
    EACH: Any,
    WIDTH: Any,
) -> None:
    """How far elements of each digit go from their places in a line of `valid` ordered notes.

    Left in `starts`; barriers around.
    """
    for d in range(kl.local_id(0), RADIX, WIDTH):
        starts[d] = 0
        ends[d] = 0
    kl.barrier()
    mark_digits(line, starts, ends, valid, EACH)
    kl.barrier()
    for d in range(kl.local_id(0), RADIX, WIDTH):
        inside = starts[d]
        if state is None:
            starts[d] = begins[row, d, place] - inside
        else:
            count = ends[d] - kl.cast(inside, kl.i32)
            before = looked_back(state, number, place, d, count)
            starts[d] = begins[row, d] + kl.cast(before, begins.dtype) - inside
    kl.barrier()


@function
def move(
    tile: Any, order: Any, out: Any, new_order: Any, outer: Any, first: Any, origin: Any, to: Any
) -> None:
    """Writes an element of the tile that begins at `first`, and where it was."""
    if out is not None:
        out[*outer, to] = tile[origin]
    if new_order is not None:
        was = first + origin if order is None else order[*outer, first + origin]
        new_order[*outer, to] = kl.cast(was, new_order.dtype)


@kernel
def place_together(
    x: Any,
    order: Any,
    begins: Any,
    ticket: Any,
    state: Any,
    out: Any,
    new_order: Any,
    shift: Any,
    *,
    EACH: int,
    WIDTH: int,
    KIND: str,
    BITS: int,
    DESCENDING: bool,
) -> None:
    """Brings the last axis in the order of the digit from bit `shift` on, a tile a workgroup.

    ``begins[r, d]`` is where in row `r` elements of digit `d` begin. `ticket` and `state` hold
    zeros, `state` one for each digit of each tile, of which the two highest bits are a status.
    Where they are None, workgroups do not wait: ``begins[r, d, t]`` is where those of each tile
    begin. `out`, `order` and `new_order` may be None. Where workgroups wait, rows are copied that
    have but one digit.
    """
    lead = x.shape[: x.ndim - 1]
    length = x.shape[x.ndim - 1]
    tiles = kl.cdiv(length, EACH * WIDTH)
    item = kl.local_id(0)
    number = kl.group_id(0)
    ordered = kl.local((1,), kl.i32)
    if ticket is not None:
        own_ticket = kl.group_id(0)
        if item == 0:
            own_ticket = kl.cast(kl.atomic_add(ticket, 0, 1), own_ticket.dtype)
            ordered[0] = 0
        number = kl.workgroup_uniform(own_ticket)
    row, place = number // tiles, number % tiles
    first = place * (EACH * WIDTH)
    valid = kl.cast(kl.minimum(length - first, EACH * WIDTH), kl.i32)
    outer = unravelled(row, lead)
    starts = kl.local((RADIX,), begins.dtype)
    ends = kl.local((RADIX,), kl.i32)
    tile = kl.local((EACH * WIDTH,), x.dtype)
    line = kl.local((room(EACH, WIDTH),), kl.u32)
    notes = kl.private((EACH,), kl.u32)
    load(x, outer, first, valid, tile, EACH, WIDTH)
    in_order = False
    if state is not None:
        for d in range(item, RADIX, WIDTH):
            if is_only_digit(begins, row, d, length):
                ordered[0] = 1
    kl.barrier()
    if state is not None:
        in_order = kl.assume_uniform(ordered[0] == 1)
    if in_order:
        for i in kl.range(item, valid, WIDTH, unroll=AT_ONCE):
            move(tile, order, out, new_order, outer, first, i, first + i)
    else:
        for k in kl.range(EACH, unroll=-1):
            at = item * EACH + k
            notes[k] = note_of(tile[at], at, at < valid, shift, KIND, BITS, DESCENDING)
        order_notes(notes, line, EACH, WIDTH)
        where = (begins, row, place, number, state)
        find_ways(line, starts, ends, valid, *where, EACH, WIDTH)
        for i in kl.range(item, valid, WIDTH, unroll=AT_ONCE):
            note = line[i]
            to = starts[note >> DIGIT_AT] + kl.cast(i, begins.dtype)
            origin = kl.cast(note, kl.i32) & ((1 << DIGIT_AT) - 1)
            move(tile, order, out, new_order, outer, first, origin, to)
