"""A stable radix sort by workgroups: rows that one of them holds, and one pass a digit over longer.

A tile is a part of a row of which each of `WIDTH` work-items holds `EACH` neighbours. It is brought
in the order of a digit, and each digit's elements are written to where those of the tiles before
end: A. Adinets, D. Merrill, "Onesweep: A faster least significant digit radix sort for GPUs", 2022.
How many of each digit come before is learnt by looking back: D. Merrill, M. Garland, "Single-pass
parallel prefix scan with decoupled look-back", NVIDIA technical report NVR-2016-002. Workgroups
number themselves as they start, so that whom they wait for is running already.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import unravelled
from portable.primitives.sorts.keys import DIGIT_BITS, RADIX, digit_in, key_at
from portable.primitives.sorts.tile_order import DIGIT_AT, note_of, order_notes, place_in, room

__all__ = ["count_by_workgroup", "place_by_workgroup", "sort_by_workgroup"]

OWN = 1
"""The status of a tile whose own count is published."""
UP_TO = 2
"""The status of a tile up to whose end the row's count is published."""
AT_ONCE = 5
"""Elements that a work-item writes without waiting in between."""


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
def sort_by_workgroup(
    x: Any,
    out: Any,
    order: Any,
    *,
    EACH: int,
    WIDTH: int,
    DIGITS: int,
    ORDER: Any,
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
            at = place_in(line[item * EACH + k])
            notes[k] = note_of(tile[at], at, at < length, shift, ORDER)
        kl.barrier()
        order_notes(notes, line, EACH, WIDTH)
    for k in kl.range(EACH, unroll=-1):
        i = k * WIDTH + item
        if i < length:
            origin = place_in(line[i])
            if out is not None:
                out[*outer, i] = tile[origin]
            if order is not None:
                order[*outer, i] = kl.cast(origin, order.dtype)


@kernel
def count_by_workgroup(
    x: Any,
    counts: Any,
    shift: Any,
    *,
    SECTION: int,
    AHEAD: int,
    WIDTH: int,
    DIGITS: int,
    ORDER: Any,
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
                key = key_at(mine[k], shift, ORDER.kind, ORDER.bits)
                for p in kl.range(DIGITS, unroll=-1):
                    at = shift + p * DIGIT_BITS
                    if ORDER.kind == "c":
                        key = key_at(mine[k], at, ORDER.kind, ORDER.bits)
                    d = digit_in(key, at, DIGIT_BITS, ORDER.bits, ORDER.descending)
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
    before = kl.cast(0, state.dtype)
    if tile > 0:
        kl.atomic_store(state, number * RADIX + digit, mine | (one << TOP) * OWN)
        back = number - 1
        status = 0
        while status != UP_TO:
            word = kl.atomic_load(state, back * RADIX + digit)
            status = kl.cast(word >> TOP, kl.i32)
            before = before + (word & ((one << TOP) - 1))
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

    Left in `starts`, which like `ends` holds zeros; barriers around.
    """
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
def place_by_workgroup(
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
    ORDER: Any,
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
    for d in range(item, RADIX, WIDTH):
        starts[d] = 0
        ends[d] = 0
        if state is not None and is_only_digit(begins, row, d, length):
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
            notes[k] = note_of(tile[at], at, at < valid, shift, ORDER)
        order_notes(notes, line, EACH, WIDTH)
        where = (begins, row, place, number, state)
        find_ways(line, starts, ends, valid, *where, EACH, WIDTH)
        for i in kl.range(item, valid, WIDTH, unroll=AT_ONCE):
            note = line[i]
            to = starts[note >> DIGIT_AT] + kl.cast(i, begins.dtype)
            move(tile, order, out, new_order, outer, first, place_in(note), to)
