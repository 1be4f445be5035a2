"""Sorting by digits in workgroups: how rows are cut into tiles, and launched.

The floor is to read elements once to count them, and to read and write them once for each digit.
Through NVIDIA's OpenCL an H200 was at 0.3 of it with 2^26 `uint32` in one row, in 2.2 to 2.4 ms:
0.7 to 0.8 of the speed of CuPy's `sort`, and as fast as its `argsort`. By count of its accesses,
local memory takes most of a pass. Where workgroups do not wait and each pass counts tiles first, 32
bits took as long, and 64 a tenth longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from portable import lang as kl
from portable.backend import Capabilities
from portable.dtypes import DType, int32, int64, uint32, uint64
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.base.operands import power_of_two
from portable.primitives.base.recipe import Recipe
from portable.primitives.base.storage import contiguous_strides
from portable.primitives.maps.elementwise_kernel import Share, counted, spaced, unravelled
from portable.primitives.reductions.axis import section_at
from portable.primitives.sorts.keys import (
    DIGIT_AT,
    DIGIT_BITS,
    RADIX,
    Line,
    Order,
    Tile,
    begins_of,
    buffers_for,
    digits_of,
    in_words,
    note_of,
    order_of,
    passes,
    place_for,
    place_in,
)
from portable.primitives.tuning import pieces_for

# A stable radix sort by workgroups: rows that one of them holds, and one pass a digit over longer.
#
# A tile is a part of a row of which each work-item holds some neighbours. It is brought in the
# order of a digit, and each digit's elements are written to where those of the tiles before end: A.
# Adinets, D. Merrill, "Onesweep: A faster least significant digit radix sort for GPUs", 2022. How
# many of each digit come before is learnt by looking back: D. Merrill, M. Garland, "Single-pass
# parallel prefix scan with decoupled look-back", NVIDIA technical report NVR-2016-002. Workgroups
# number themselves as they start, so that whom they wait for is running already.

OWN = 1
"""The status of a tile whose own count is published."""
UP_TO = 2
"""The status of a tile up to whose end the row's count is published."""
AT_ONCE = 5
"""Elements that a work-item writes without waiting in between."""


@kernel
def sort_by_workgroup(x: kl.Array, out: Any, *, TILE: Any, DIGITS: int, ORDER: Any) -> None:
    """Sorts rows that fit in a tile, a workgroup each.

    Parameters
    ----------
    x : array
        What is sorted, as unsigned numbers.
    out : Line
        The result.
    TILE : Tile
        What a workgroup holds.
    DIGITS : int
        Of an element.
    ORDER : Order
        How elements become keys.
    """
    outer = unravelled(kl.group_id(0), x.shape[: x.ndim - 1])
    length = x.shape[x.ndim - 1]
    item = kl.local_id(0)
    tile = TILE.loaded(x, outer, 0, length)
    line = kl.local((TILE.room,), kl.u32)
    notes = kl.private((TILE.each,), kl.u32)
    for k in kl.range(TILE.each, unroll=-1):
        line[item * TILE.each + k] = kl.cast(item * TILE.each + k, kl.u32)
    kl.barrier()
    for shift in range(0, DIGITS * DIGIT_BITS, DIGIT_BITS):
        for k in kl.range(TILE.each, unroll=-1):
            at = place_in(line[item * TILE.each + k])
            notes[k] = note_of(tile[at], at, at < length, shift, ORDER)
        kl.barrier()
        TILE.order_notes(notes, line)
    for k in kl.range(TILE.each, unroll=-1):
        i = k * TILE.width + item
        if i < length:
            origin = place_in(line[i])
            out.row(outer).put(i, tile[origin], origin)


@dataclass(frozen=True)
class Counting:
    """How digits are counted; a constant of `count_by_workgroup`.

    Attributes
    ----------
    section : int
        Elements of a section, which a workgroup does.
    ahead : int
        How many elements a work-item reads before it counts them.
    width : int
        Work-items.
    digits : int
        How many digits of each element are counted.
    """

    section: int
    ahead: int
    width: int
    digits: int


@kernel
def count_by_workgroup(
    x: kl.Array, counts: kl.Array, shift: kl.Scalar, *, COUNTING: Counting, ORDER: Any
) -> None:
    """Counts digits of sections of the last axis.

    Parameters
    ----------
    x : array
        What is sorted, as unsigned numbers.
    counts : array
        ``counts[r, p * RADIX + d]``, which holds zeros: how often in row `r` the `p`-th digit is
        `d`; with a third dimension, how often that is so in each section.
    shift : int
        The bit from which on digits are counted.
    COUNTING : Counting
        Into which sections rows are cut.
    ORDER : Order
        How elements become keys.
    """
    AHEAD, WIDTH = COUNTING.ahead, COUNTING.width
    section, item = section_at(x, COUNTING.section, kl.group_id(0)), kl.local_id(0)
    result = kl.local((COUNTING.digits * RADIX,), kl.i32)
    for j in range(item, COUNTING.digits * RADIX, WIDTH):
        result[j] = 0
    kl.barrier()
    mine = kl.private((AHEAD,), x.dtype.register)
    for begin in range(section.first + item, section.stop, AHEAD * WIDTH):
        for k in kl.range(AHEAD, unroll=-1):
            if begin + k * WIDTH < section.stop:
                mine[k] = x[*section.outer, begin + k * WIDTH]
        for k in kl.range(AHEAD, unroll=-1):
            if begin + k * WIDTH < section.stop:
                for p in kl.range(COUNTING.digits, unroll=-1):
                    d = ORDER.digit(mine[k], shift + p * DIGIT_BITS)
                    kl.atomic_add(result, p * RADIX + d, 1, scope="workgroup")
    kl.barrier()
    for j in range(item, COUNTING.digits * RADIX, WIDTH):
        if counts.ndim == 3:
            counts[section.row, j, section.number] = result[j]
        elif result[j] > 0:
            kl.atomic_add(counts, (section.row, j), kl.cast(result[j], counts.dtype))


@function
def looked_back(
    state: kl.Array, number: kl.Scalar, tile: kl.Scalar, digit: kl.Scalar, count: kl.Scalar
) -> Any:
    """How many elements of tiles before in the row have a digit, where this tile has `count`."""
    TOP = state.dtype.itemsize * 8 - 2
    one = kl.cast(1, state.dtype)
    mine = kl.cast(count, state.dtype)
    before = kl.cast(0, state.dtype)
    if tile > 0:
        kl.atomic_store(state, number * RADIX + digit, mine | (one << TOP) * OWN)
        back = number - 1
        status = kl.i32(0)
        while status != UP_TO:
            word = kl.atomic_load(state, back * RADIX + digit)
            status = kl.cast(word >> TOP, kl.i32)
            before = before + (word & ((one << TOP) - 1))
            back = back - kl.cast(status != 0, back.dtype)
    kl.atomic_store(state, number * RADIX + digit, (before + mine) | (one << TOP) * UP_TO)
    return before


class Ways(NamedTuple):
    """Where elements of each digit belong.

    Attributes
    ----------
    begins : array
        ``begins[r, d]`` is where in row `r` elements of digit `d` begin; where workgroups do not
        wait, ``begins[r, d, t]`` where those of each tile do.
    ticket, state : array or None
        For workgroups that wait: zeros, `state` one for each digit of each tile, of which the two
        highest bits are a status.
    """

    begins: Any
    ticket: Any
    state: Any

    def is_only_digit(self, row: kl.Scalar, digit: kl.Scalar, length: kl.Scalar) -> Any:
        """Whether all elements of a row have a digit, which then is in order."""
        end = kl.cast(length, self.begins.dtype)
        if digit < RADIX - 1:
            end = self.begins[row, digit + 1]
        return (self.begins[row, digit] == 0) & (end == length)


@dataclass(frozen=True)
class _Digits:
    """Where in a line of `valid` ordered notes each digit begins and ends: zeros at first."""

    starts: Any
    ends: Any
    line: Any
    valid: Any

    def mark(self, EACH: int) -> None:
        """Notes that of all digits there are."""
        first = kl.local_id(0) * EACH
        previous = kl.cast(self.line[kl.maximum(first - 1, 0)] >> DIGIT_AT, kl.i32)
        for k in kl.range(EACH, unroll=AT_ONCE):
            i = first + k
            digit = kl.cast(self.line[i] >> DIGIT_AT, kl.i32)
            if digit != previous and i < self.valid:
                self.starts[digit] = kl.cast(i, self.starts.dtype)
                self.ends[previous] = i
            previous = digit
        if first == 0:
            self.ends[self.line[self.valid - 1] >> DIGIT_AT] = self.valid

    def find_ways(self, ways: Ways, section: Any, number: kl.Scalar, TILE: Any) -> None:
        """How far elements go from their places in the line, left in `starts`; barriers around."""
        self.mark(TILE.each)
        kl.barrier()
        for d in range(kl.local_id(0), RADIX, TILE.width):
            inside = self.starts[d]
            if ways.state is None:
                self.starts[d] = ways.begins[section.row, d, section.number] - inside
            else:
                count = self.ends[d] - kl.cast(inside, kl.i32)
                before = looked_back(ways.state, number, section.number, d, count)
                begin = ways.begins[section.row, d] + kl.cast(before, ways.begins.dtype)
                self.starts[d] = begin - inside
        kl.barrier()


@kernel
def place_by_workgroup(
    given: Any, ways: Ways, made: Any, shift: kl.Scalar, *, TILE: Any, ORDER: Any
) -> None:
    """Brings the last axis in the order of a digit, a tile a workgroup.

    Where workgroups wait, rows are copied that have but one digit.

    Parameters
    ----------
    given, made : Line
        What is read and written.
    ways : Ways
        Where elements of each digit belong.
    shift : int
        The bit with which the digit begins.
    TILE : Tile
        What a workgroup holds.
    ORDER : Order
        How elements become keys.
    """
    x, EACH, WIDTH = given.elements, TILE.each, TILE.width
    length = x.shape[x.ndim - 1]
    item = kl.local_id(0)
    number = kl.group_id(0)
    ordered = kl.local((1,), kl.i32)
    if ways.ticket is not None:
        own_ticket = kl.group_id(0)
        if item == 0:
            own_ticket = kl.cast(kl.atomic_add(ways.ticket, 0, 1), own_ticket.dtype)
            ordered[0] = 0
        number = kl.workgroup_uniform(own_ticket)
    section = section_at(x, TILE.size, number)
    valid = kl.cast(kl.minimum(length - section.first, TILE.size), kl.i32)
    source, to = given.row(section.outer), made.row(section.outer)
    starts = kl.local((RADIX,), ways.begins.dtype)
    ends = kl.local((RADIX,), kl.i32)
    tile = TILE.loaded(x, section.outer, section.first, valid)
    line = kl.local((TILE.room,), kl.u32)
    notes = kl.private((EACH,), kl.u32)
    in_order = False
    for d in range(item, RADIX, WIDTH):
        starts[d] = 0
        ends[d] = 0
        if ways.state is not None and ways.is_only_digit(section.row, d, length):
            ordered[0] = 1
    kl.barrier()
    if ways.state is not None:
        in_order = kl.assume_uniform(ordered[0] == 1)
    if in_order:
        for i in kl.range(item, valid, WIDTH, unroll=AT_ONCE):
            to.put(section.first + i, tile[i], source.was(section.first + i))
    else:
        for k in kl.range(EACH, unroll=-1):
            at = item * EACH + k
            notes[k] = note_of(tile[at], at, at < valid, shift, ORDER)
        TILE.order_notes(notes, line)
        _Digits(starts, ends, line, valid).find_ways(ways, section, number, TILE)
        for i in kl.range(item, valid, WIDTH, unroll=AT_ONCE):
            note = line[i]
            at, origin = starts[note >> DIGIT_AT] + kl.cast(i, starts.dtype), place_in(note)
            to.put(at, tile[origin], source.was(section.first + origin))


# -- sweep sorting ---------------------------------------------------------------------------------

_NARROWEST: Final = 32
# Odd, so that work-items next to each other find theirs in different banks.
_EACHES: Final = (3, 7, 11, 15)
# Where there are fewer rows, workgroups are as wide as these have work for.
_ROWS_PER_UNIT: Final = 4
# Elements of each work-item whose notes take the place of its counters.
_COUNTERS: Final = 11
_ALIGNMENT: Final = 256
_AHEAD: Final = 8
# Two bits of a count say what it counts.
_LONGEST_IN_32_BITS: Final = 2**30 - 1
_LANES: Final = 4
_GROUP: Final = 256
_SHORTEST_SECTION: Final = 16384


def tile_for(x: Any, capabilities: Capabilities) -> Tile:
    """Tiles for rows like those of `x`; empty where local memory has no room for any."""
    length, rows = x.shape[-1], prod(x.shape[:-1])
    share = pieces_for(capabilities)
    fitting = [e for e in _EACHES if e <= share.each]
    room = capabilities.local_memory
    eaches = [e for e in fitting if _bytes_for(x, e, share.group) <= room] or [0]
    width = _NARROWEST
    if rows < capabilities.compute_units * _ROWS_PER_UNIT:
        width = min(share.group, max(width, power_of_two(-(-length // _EACHES[0]))))
    while width < share.group and length > eaches[-1] * width:
        width *= 2
    return Tile(next((each for each in eaches if length <= each * width), eaches[-1]), width)


def _bytes_for(x: Any, each: int, width: int) -> int:
    """Local memory of the widest workgroup, if its work-items hold `each` elements of `x`."""
    digits = RADIX * (int32.itemsize + place_for(x.shape[-1]).itemsize)
    elements: int = each * x.dtype.itemsize + max(each, _COUNTERS) * uint32.itemsize
    return digits + elements * width + _ALIGNMENT


def can_sweep(x: Any) -> bool:
    """Whether the device of `x` has workgroups and local memory for tiles of its elements."""
    capabilities: Capabilities = x.device.capabilities
    wide = capabilities.max_workgroup >= pieces_for(capabilities).group > 1
    return wide and tile_for(x, capabilities).each > 0


def sweep_sorted(
    recipe: Recipe, x: Any, descending: bool, *, values: bool, order: bool, tile: Tile | None = None
) -> tuple[Any, Any]:
    """The last axis of `x` sorted, and where its elements were; what is not asked for is None.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    x : Storage
        An array of it, not empty.
    descending : bool
        Whether the greatest come first.
    values, order : bool
        Whether the elements in order, and where they were, are wanted.
    tile : Tile, optional
        How much a workgroup holds; by default what suits the device.
    """
    tile = tile or tile_for(x, x.device.capabilities)
    keys = order_of(x.dtype, descending)
    if x.shape[-1] > tile.size:
        return _tile_by_tile(recipe, x, tile, values, order, keys)
    out = recipe.empty(x.shape, x.dtype) if values else None
    places = recipe.empty(x.shape, int64) if order else None
    items, given = prod(x.shape[:-1]) * tile.width, (in_words(x), Line(in_words(out), places))
    constants = {"TILE": tile, "DIGITS": digits_of(x.dtype), "ORDER": keys}
    recipe.launch(sort_by_workgroup, items, tile.width, *given, **constants)
    return out, places


def _tile_by_tile(
    recipe: Recipe, x: Any, tile: Tile, values: bool, order: bool, keys: Order
) -> tuple[Any, Any]:
    """Passes over memory, one for each digit."""
    buffers = buffers_for(recipe, x, values=values, order=order)
    items = prod(x.shape[:-1]) * -(-x.shape[-1] // tile.size) * tile.width
    waits = _Waits(recipe, in_words(x), tile, digits_of(x.dtype), keys) if _can_wait(x) else None
    constants = {"TILE": tile, "ORDER": keys}
    for digit, source, was, out, becomes in passes(x, buffers, values=values):
        shift = np.int32(digit * DIGIT_BITS)
        ways = waits.of(digit) if waits else _of_tiles(recipe, source, tile, shift, keys)
        arrays = (Line(source, was), ways, Line(out, becomes), shift)
        recipe.launch(place_by_workgroup, items, tile.width, *arrays, **constants)
    out, places = buffers[0]
    return (out if values else None), places


def _can_wait(x: Any) -> bool:
    """Whether workgroups may wait for the counts of others, which take 64 bits for long rows."""
    capabilities: Capabilities = x.device.capabilities
    return capabilities.forward_progress and (
        x.shape[-1] <= _LONGEST_IN_32_BITS or capabilities.atomics64
    )


def _of_tiles(recipe: Recipe, x: Any, tile: Tile, shift: Any, keys: Order) -> Ways:
    """Where in each row each tile's elements of a digit begin, and nothing to wait for."""
    rows, tiles = prod(x.shape[:-1]), -(-x.shape[-1] // tile.size)
    counts = recipe.empty((rows, RADIX, tiles), int32)
    _count(recipe, x, counts, shift, Counting(tile.size, _AHEAD, tile.width, 1), keys)
    return Ways(begins_of(recipe, counts, place_for(x.shape[-1])), None, None)


class _Waits:
    """What passes need whose workgroups wait for each other; all digits are counted beforehand."""

    def __init__(self, recipe: Recipe, x: Any, tile: Tile, digits: int, keys: Order) -> None:
        rows, length = prod(x.shape[:-1]), x.shape[-1]
        self._slots = rows * -(-length // tile.size) * RADIX
        self._states = digits * (1 + self._slots)
        size = self._states + rows * digits * RADIX
        self._zeros = _zeros(recipe, size, uint32 if length <= _LONGEST_IN_32_BITS else uint64)
        counts = _part(self._zeros, self._states, (rows, digits * RADIX))
        capabilities = x.device.capabilities
        wanted = capabilities.compute_units * pieces_for(capabilities).groups
        section = max(_SHORTEST_SECTION, power_of_two(-(-length * rows // wanted)))
        counting = Counting(section, _AHEAD, tile.width, digits)
        _count(recipe, x, counts, np.int32(0), counting, keys)
        counts = _part(self._zeros, self._states, (rows, digits, RADIX, 1))
        self._begins = begins_of(recipe, counts, place_for(length))

    def of(self, digit: int) -> Ways:
        """Where a digit's elements begin, and a ticket and a state, both zeros, for its pass."""
        begins = self._begins.part((slice(None), digit, slice(None), 0))
        first = digit * (1 + self._slots)
        ticket = _part(self._zeros, first, (1,))
        return Ways(begins, ticket, _part(self._zeros, first + 1, (self._slots,)))


def _count(
    recipe: Recipe, x: Any, counts: Any, shift: Any, counting: Counting, keys: Order
) -> None:
    """Counts digits from bit `shift` on."""
    groups = prod(x.shape[:-1]) * -(-x.shape[-1] // counting.section)
    items, constants = groups * counting.width, {"COUNTING": counting, "ORDER": keys}
    recipe.launch(count_by_workgroup, items, counting.width, x, counts, shift, **constants)


def _zeros(recipe: Recipe, count: int, dtype: DType) -> Any:
    """A new array of zeros."""
    zeros, zero = recipe.empty((count,), dtype), np.int32(0)
    formula = {"OP": counted, "KIND": int32, "SHARE": Share(_LANES, _LANES, 1, False)}
    items, group = (-(-count // _LANES), 1), (_GROUP, 1)
    recipe.launch(spaced, items, group, zero, zero, None, zeros, **formula)
    return zeros


def _part(x: Any, first: int, shape: tuple[int, ...]) -> Any:
    """Elements of a one-dimensional array from `first` on, in a shape."""
    size = x.dtype.itemsize
    return x.viewed(shape, contiguous_strides(shape, size), x.offset + first * size)
