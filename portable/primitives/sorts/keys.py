"""Elements as unsigned numbers that order as they do, their digits, and tiles ordered by these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.dtypes import DType, complex128, int32, int64, uint8, uint16, uint32, uint64
from portable.lang.function import function
from portable.primitives.base.recipe import Recipe
from portable.primitives.reductions.merging import Merge
from portable.primitives.scans.scanning import scanned

# Rows of elements that are sorted, each with the place where it was at first.


class Line(NamedTuple):
    """Elements along the last axis, and where each was at first.

    Attributes
    ----------
    elements : array or None
        None where they are not written.
    places : array or None
        None where each is in its place, or nobody asks.
    outer : tuple of int
        The index of the row.
    shift : int or None
        Where the element lies that is asked for as number 0; None for 0.
    """

    elements: Any
    places: Any
    outer: Any = ()
    shift: Any = None

    def row(self, outer: tuple[kl.Scalar, ...]) -> Any:
        """One of the rows."""
        return Line(self.elements, self.places, outer)

    def shifted(self, by: kl.Scalar) -> Any:
        """The only row, from elsewhere on."""
        return Line(self.elements, self.places, (), by)

    def at(self, i: kl.Scalar) -> Any:
        """The index of an element."""
        return (*self.outer, i if self.shift is None else i + self.shift)

    def some(self, i: kl.Scalar, lanes: int = 1) -> Any:
        """Neighbouring elements."""
        return kl.vload(self.elements, *self.at(i), lanes=lanes)

    def was(self, i: kl.Scalar, lanes: int = 1) -> Any:
        """Where elements were."""
        if self.places is not None:
            return kl.vload(self.places, *self.at(i), lanes=lanes)
        return i + kl.vector(*(lane for lane in kl.static_range(lanes))) if lanes > 1 else i

    def put(self, i: kl.Scalar, elements: kl.Scalar, was: kl.Scalar) -> None:
        """Writes an element or neighbours, and where they were."""
        if self.elements is not None:
            kl.vstore(self.elements, *self.at(i), elements)
        if self.places is not None:
            kl.vstore(self.places, *self.at(i), kl.cast(was, self.places.dtype))

    def put_chosen(
        self, i: kl.Scalar, elements: kl.Scalar, was: kl.Scalar, mask: kl.Scalar
    ) -> None:
        """Writes the chosen ones of neighbours, and over as many places behind as are left out."""
        if self.elements is not None:
            kl.vstore(self.elements, *self.at(i), kl.compress(elements, mask))
        if self.places is not None:
            chosen = kl.compress(kl.cast(was, self.places.dtype), mask)
            kl.vstore(self.places, *self.at(i), chosen)

    def copy(
        self, to: kl.Scalar, source: Line, first: kl.Scalar, stop: kl.Scalar, lanes: int
    ) -> None:
        """Writes a range of another line from `to` on, up to so many elements at a time."""
        for i, together in kl.vector_range(first, stop, lanes=lanes):
            self.put(to + (i - first), source.some(i, together), source.was(i, together))


# -- keys ------------------------------------------------------------------------------------------

DIGIT_BITS = 8
RADIX = 1 << DIGIT_BITS
"""How many digits there are."""


@function
def top_bit(word: kl.Scalar, BITS: int) -> Any:
    """The highest of `BITS` bits, in the type of `word`."""
    return kl.cast(1, word.dtype) << (BITS - 1)


@function
def float_key(word: kl.Scalar, BITS: int) -> Any:
    """Orders as floats of these bits do: zeros of both signs alike, NaN after everything."""
    exponent = 5 if BITS == 16 else 8 if BITS == 32 else 11
    infinity = ((1 << exponent) - 1) << (BITS - 1 - exponent)
    top = top_bit(word, BITS)
    ones = top | (top - 1)
    size = word & (top - 1)
    key = kl.where((word & top) != 0, word ^ ones, word | top)
    return kl.where(size == 0, top, kl.where(size > infinity, ones, key))


@dataclass(frozen=True)
class Order:
    """How elements become keys, unsigned numbers that order as they do; a constant of kernels.

    Elements are given as unsigned numbers of the same bits, complex ones too unless these have 128.
    Of complex ones the key of the imaginary part is below that of the other.

    Attributes
    ----------
    kind : str
        Of their dtype.
    bits : int
        Of an element, or of each part of complex ones.
    descending : bool
        Whether the greatest come first.
    """

    kind: str
    bits: int
    descending: bool

    def key(self, x: kl.Scalar) -> Any:
        """The key of an element; that of the real part where both have more than 64 bits."""
        key = self.ascending(x, self.bits)
        if self.kind == "c" and self.bits == 32:
            key = (kl.cast(key, kl.u64) << 32) | kl.cast(self.ascending(x, 0), kl.u64)
        return self.turned(key)

    def crowds(self, bits: kl.Scalar) -> Any:
        """Whether keys that differ in so many bits are of floats of very unlike sizes."""
        return self.kind == "f" and bits > 56 if self.bits == 64 else False

    def turned(self, key: kl.Scalar) -> Any:
        """An ascending key in the order that is wanted."""
        if self.descending:
            top = top_bit(key, 8 * key.dtype.itemsize)
            return (top | (top - 1)) - key
        return key

    def beyond(self, bound: kl.Scalar) -> Any:
        """A key as `up_to` takes it: of floats as they are compared by processors."""
        if self.kind != "f" or self.bits == 16:
            return bound
        key = (bound * 0 - 1) - bound if self.descending else bound
        exponent = 8 if self.bits == 32 else 11
        infinity = ((1 << exponent + 1) - 1) << (self.bits - 1 - exponent)
        key = kl.minimum(key, infinity)  # with NaN nothing compares
        top = top_bit(key, self.bits)
        word = kl.where((key & top) != 0, key ^ top, (top | (top - 1)) - key)
        return kl.bitcast(word, kl.f64 if self.bits == 64 else kl.f32)

    def up_to(self, x: kl.Scalar, bound: kl.Scalar) -> Any:
        """Whether the key of an element is at most another, where NaN may be on either side."""
        if self.kind != "f" or self.bits == 16:
            return self.key(x) <= bound
        number = kl.bitcast(x, kl.f64 if self.bits == 64 else kl.f32)
        return ~(number < bound) if self.descending else number <= bound

    def comes_first(self, x: kl.Scalar, y: kl.Scalar, tied: kl.Scalar) -> Any:
        """Whether `x` comes before `y`; `tied` where their keys are equal."""
        first, second = self.key(x), self.key(y)
        if self.kind == "c" and self.bits == 64:
            low, high = self.turned(self.ascending(x, 0)), self.turned(self.ascending(y, 0))
            tied = (low < high) | (tied & (low == high))
        return (first < second) | (tied & (first == second))

    def ascending(self, x: kl.Scalar, shift: kl.Scalar) -> Any:
        """The key in which bit `shift` of all of an element's keys lies, the least first."""
        if self.kind == "c" and self.bits == 64:
            return float_key(kl.bitcast(x.imag if shift < self.bits else x.real, kl.u64), 64)
        if self.kind == "c":
            part = x >> kl.cast(32 if shift < self.bits else 0, x.dtype)
            return float_key(kl.cast(part, kl.u32), 32)
        if self.kind == "f":
            return float_key(x, self.bits)
        return x ^ top_bit(x, self.bits) if self.kind == "i" else x

    def digit(self, x: kl.Scalar, shift: kl.Scalar) -> Any:
        """The `DIGIT_BITS` bits of an element's keys from bit `shift` of all of them on."""
        key = self.ascending(x, shift)
        digit = kl.cast((key >> kl.cast(shift & (self.bits - 1), key.dtype)) & (RADIX - 1), kl.i32)
        return RADIX - 1 - digit if self.descending else digit


# What sorting by digits takes on every device: keys, what passes read and write, their starts.

_WORDS: Final = {1: uint8, 2: uint16, 4: uint32, 8: uint64}


def digits_of(kind: DType) -> int:
    """How many passes a dtype takes."""
    return 8 * kind.itemsize // DIGIT_BITS


def in_words(x: Any) -> Any:
    """The same bits as unsigned numbers; None, and numbers of more bits, stay as they are."""
    if x is None or x.dtype is complex128:
        return x
    return x.viewed(x.shape, x.strides, dtype=_WORDS[x.dtype.itemsize])


def order_of(kind: DType, descending: bool) -> Order:
    """As kernels take it how elements become keys; complex numbers have two."""
    return Order(kind.kind, 8 * kind.itemsize // (2 if kind.is_complex else 1), descending)


def place_for(length: int) -> DType:
    """What counts the elements of a row."""
    return int32 if length < 2**31 else int64


def begins_of(recipe: Recipe, counts: Any, position: DType) -> Any:
    """Where each digit's elements begin in each section, ``counts[..., d, s]`` being how many.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    counts : Storage
        Counts, of shape (..., digits, sections).
    position : DType
        Of the positions.
    """
    *lead, digits, sections = counts.shape
    line = counts.viewed((*lead, digits * sections), (*counts.strides[:-2], counts.strides[-1]))
    starts = recipe.empty((*lead, digits * sections + 1), position)
    scanned(recipe, line, starts, Merge(kl.add, position, 0), 1)
    size = position.itemsize
    return starts.viewed(counts.shape, (*starts.strides[:-1], sections * size, size))


class Pass(NamedTuple):
    """What a pass reads and writes; positions not needed are None.

    Attributes
    ----------
    digit : int
        Which it orders by.
    source, order : Array or None
        Elements, and where they were at first.
    out, new_order : Array or None
        The same after the pass.
    """

    digit: int
    source: Any
    order: Any
    out: Any
    new_order: Any


def buffers_for(recipe: Recipe, x: Any, *, values: bool, order: bool) -> list[tuple[Any, Any]]:
    """Elements and positions that the last pass writes, and those that passes write in between.

    What no pass writes is None.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    x : Storage
        What is sorted.
    values, order : bool
        Whether elements in order, and where they were, are wanted.
    """
    digits = digits_of(x.dtype)
    out = recipe.empty(x.shape, x.dtype) if values or digits > 2 else None
    spare = recipe.empty(x.shape, x.dtype) if digits > 1 else None
    places = recipe.empty(x.shape, int64) if order else None
    spare_places = recipe.empty(x.shape, place_for(x.shape[-1])) if order and digits > 1 else None
    return [(out, places), (spare, spare_places)]


def passes(x: Any, buffers: list[tuple[Any, Any]], *, values: bool) -> Iterator[Pass]:
    """The passes over `x`, elements taken as words.

    Parameters
    ----------
    x : Storage
        What is sorted.
    buffers : list of (Storage, Storage)
        What `buffers_for` gives.
    values : bool
        Whether the elements in order are wanted.
    """
    digits = digits_of(x.dtype)
    source, order = in_words(x), None
    for digit in range(digits):
        out, new_order = buffers[(digits - 1 - digit) % 2]
        out = in_words(out) if values or digit < digits - 1 else None
        yield Pass(digit, source, order, out, new_order)
        source, order = out, new_order


# A tile of elements brought in the order of a digit by the workgroup that holds it.
#
# Each work-item holds the notes of some neighbours. They are ordered in local memory by four bits
# of the digit and then by the other four: each work-item counts its own, which a sum over the
# workgroup turns into places (D. Merrill, A. Grimshaw, "High performance and scalable radix
# sorting", Parallel Processing Letters 21, 2011).

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
