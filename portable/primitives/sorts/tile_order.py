"""A tile of elements brought in the order of a digit by the workgroup that holds it.

Each work-item holds the notes of some neighbours. They are ordered in local memory by four bits of
the digit and then by the other four: each work-item counts its own, which a sum over the workgroup
turns into places (D. Merrill, A. Grimshaw, "High performance and scalable radix sorting", Parallel
Processing Letters 21, 2011).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.primitives.sorts.keys import RADIX

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


@function
def four_times(note: kl.Scalar, FROM: int) -> Any:
    """Four bits of a note, times four: by how much their counter is shifted."""
    return (note >> (FROM - 2)) & (MOST_EACH << 2)


@dataclass(frozen=True)
class Tile:
    """What a workgroup holds; a constant of kernels.

    Attributes
    ----------
    each : int
        How many neighbouring elements each work-item holds.
    width : int
        Work-items.
    """

    each: int
    width: int

    @property
    def size(self) -> int:
        """In elements."""
        return self.each * self.width

    @property
    def row(self) -> int:
        """Places for a counter of each work-item: some are left out, against bank conflicts.

        Counters next to each other are read by one work-item. Those of one are in the same bank
        where neighbouring work-items read from one row, in several where from several rows.
        """
        together = BANKS if self.width >= WORDS * BANKS else 4
        return -(-(self.width + self.width // BANKS) // together) * together

    @property
    def room(self) -> int:
        """Places of a line: for the notes of a tile, or for counters and their sums."""
        return max(self.size, WORDS * self.row + self.width // RAKE * (RAKE + 2))

    def total_before(self, line: kl.Array, total: kl.Scalar) -> Any:
        """The sum of two 16-bit halves over the work-items before, the upper following all lower.

        In places of `line` that counters leave free: `kl.workgroup_scan` would take local memory of
        its own, of which tiles need all where a device without sub-groups has 48 KiB.
        """
        item = kl.local_id(0)
        first = WORDS * self.row
        groups = first + self.width // RAKE * (RAKE + 1)
        line[first + item + item // RAKE] = total
        kl.barrier()
        if item < self.width // RAKE:
            below = kl.cast(0, kl.u32)
            for c in kl.range(RAKE, unroll=-1):
                at = first + item * (RAKE + 1) + c
                count = line[at]
                line[at] = below
                below = below + count
            line[groups + item] = below
        kl.barrier()
        before, all_of_them = line[first + item + item // RAKE], kl.cast(0, kl.u32)
        for group in kl.range(self.width // RAKE, unroll=-1):
            before = before + kl.where(group < item // RAKE, line[groups + group], 0)
            all_of_them = all_of_them + line[groups + group]
        return before + (all_of_them << 16)

    def order_by(self, notes: kl.Array, line: kl.Array, FROM: int) -> None:
        """Leaves in `line` the notes of all work-items in the order of four bits from `FROM` on.

        `line` holds counters meanwhile. A barrier comes before and after.
        """
        kl.static_assert(self.each <= MOST_EACH, "more elements than four bits can count")
        item = kl.local_id(0)
        places = kl.private((self.each,), kl.i32)
        counts = kl.cast(0, kl.u64)
        for k in kl.range(self.each, unroll=-1):
            by = kl.cast(four_times(notes[k], FROM), kl.u64)
            places[k] = kl.cast(counts >> by, kl.i32) & MOST_EACH
            counts = counts + (kl.cast(1, kl.u64) << by)
        low, high = kl.cast(counts, kl.u32), kl.cast(counts >> 32, kl.u32)
        across = item + item // BANKS
        for w in kl.range(WORDS, unroll=-1):
            both = ((low >> (w * HALF)) & MOST_EACH) | (((high >> (w * HALF)) & MOST_EACH) << 16)
            line[w * self.row + across] = both
        kl.barrier()
        self.add_counters_up(line)
        kl.barrier()
        for k in kl.range(self.each, unroll=-1):
            by_four = four_times(notes[k], FROM)
            row = kl.cast((by_four & (WORDS * 4 - 1)) * (self.row // 4), kl.i32)
            word = line[row + across]
            places[k] = places[k] + kl.cast((word >> ((by_four >> 1) & 16)) & 0xFFFF, kl.i32)
        kl.barrier()
        for k in kl.range(self.each, unroll=-1):
            line[places[k]] = notes[k]
        kl.barrier()

    def add_counters_up(self, line: kl.Array) -> None:
        """Turns counters into how many notes come before, each work-item neighbouring ones."""
        at = kl.local_id(0) * WORDS % self.width
        first = kl.local_id(0) * WORDS // self.width * self.row + at + at // BANKS
        held = kl.private((WORDS,), kl.u32)
        total = kl.cast(0, kl.u32)
        for c in kl.range(WORDS, unroll=-1):
            held[c] = total
            total = total + line[first + c]
        before = self.total_before(line, total)
        for c in kl.range(WORDS, unroll=-1):
            line[first + c] = before + held[c]

    def order_notes(self, notes: kl.Array, line: kl.Array) -> None:
        """Leaves in `line` the notes of all work-items in the order of digits; barriers around."""
        self.order_by(notes, line, DIGIT_AT)
        for k in kl.range(self.each, unroll=-1):
            notes[k] = line[kl.local_id(0) * self.each + k]
        kl.barrier()
        self.order_by(notes, line, DIGIT_AT + HALF)

    def loaded(
        self, x: kl.Array, outer: tuple[kl.Scalar, ...], first: kl.Scalar, valid: kl.Scalar
    ) -> Any:
        """A tile of a row, neighbouring work-items reading neighbours; a barrier is to follow."""
        tile, mine = kl.local((self.size,), x.dtype), kl.private((self.each,), x.dtype.register)
        for k in kl.range(self.each, unroll=-1):
            i = k * self.width + kl.local_id(0)
            value = kl.cast(0, x.dtype.register)
            if i < valid:
                value = x[*outer, first + i]
            mine[k] = value
        for k in kl.range(self.each, unroll=-1):
            tile[k * self.width + kl.local_id(0)] = mine[k]
        return tile


@function
def note_of(
    element: kl.Scalar, at: kl.Scalar, inside: kl.Scalar, shift: kl.Scalar, ORDER: Any
) -> Any:
    """A note of an element; what lies outside its row has the last of all digits."""
    digit = ORDER.digit(element, shift)
    return kl.cast(at | (kl.where(inside, digit, RADIX - 1) << DIGIT_AT), kl.u32)


@function
def place_in(note: kl.Scalar) -> Any:
    """Where in the tile the element of a note lies."""
    return kl.cast(note, kl.i32) & ((1 << DIGIT_AT) - 1)
