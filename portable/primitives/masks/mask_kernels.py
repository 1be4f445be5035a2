"""Masks as bits: 32 or 64 neighbours to a word, the first in the lowest bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = [
    "Section",
    "before_group",
    "before_section",
    "bits_of",
    "element_if",
    "long_bits_of",
    "lowest_bit",
    "pack",
    "pack_by_workgroup",
    "pack_words",
    "split_word",
]

GATHER4 = 0x01020408
"""Times four bytes that are 0 or 1: these as bits, 24 places up, and nothing above them."""
GATHER8 = 0x0102040810204080
"""The same for eight bytes, 56 places up."""
ROW = 16
"""Work-items whose counts each of them adds up alone."""


@function
def lowest_bit(word: Any) -> Any:
    """The place of the lowest bit of a word that is not zero."""
    return kl.cast(kl.popcount((word & (~word + 1)) - 1), kl.i32)


@function
def bits_one_by_one(mask: Any, first: Any, count: Any, KIND: Any) -> Any:
    """Which of the elements from `first` on are not zero; `count` bits of a `KIND` at most."""
    word = kl.cast(0, KIND)
    for place in range(kl.minimum(count, mask.shape[0] - first)):
        element = mask[first + place]
        true = element if mask.dtype == kl.bool_ else element != 0
        word = word | (kl.cast(true, KIND) << kl.cast(place, KIND))
    return word


@function
def bits_of(mask: Any, by_four: Any, at: Any) -> Any:
    """The `at`-th word of a mask's bits: elements that are true, or not zero; none behind its end.

    `by_four` is the mask as integers of 32 bits, or None.
    """
    word = kl.u32(0)
    first = at * 32
    if by_four is None:
        word = bits_one_by_one(mask, first, 32, kl.u32)
    elif first + 32 <= mask.shape[0]:
        for half in kl.static_range(2):
            four = kl.vload(by_four, at * 8 + half * 4, lanes=4)
            for lane in kl.static_range(4):
                some = (four[lane] * kl.u32(GATHER4)) >> 24
                word = word | (some << (16 * half + 4 * lane))
    else:
        word = bits_one_by_one(mask, first, 32, kl.u32)
    return word


@function
def long_bits_of(mask: Any, by_eight: Any, first: Any) -> Any:
    """The same of 64 elements, with `by_eight`, the mask as integers of 64 bits."""
    word = kl.u64(0)
    if by_eight is None:
        word = bits_one_by_one(mask, first, 64, kl.u64)
    elif first + 64 <= mask.shape[0]:
        for byte in kl.static_range(8):
            some = (by_eight[first // 8 + byte] * kl.u64(GATHER8)) >> 56
            word = word | (some << (8 * byte))
    else:
        word = bits_one_by_one(mask, first, 64, kl.u64)
    return word


@kernel
def pack(mask: Any, by_eight: Any, bits: Any, counts: Any, *, SECTION: int) -> None:
    """The bits of a mask in bytes, and how many are true in each section.

    A work-item does `SECTION` elements. `by_eight` is the mask as integers of 64 bits, or None; the
    bytes are so many that words of 64 bits can be read.
    """
    s = kl.global_id(0)
    if s < counts.shape[0]:
        first = s * SECTION
        stop = kl.minimum(first + SECTION, mask.shape[0])
        whole = first
        count = kl.cast(0, counts.dtype)
        if by_eight is not None:
            whole = first + (stop - first) // 64 * 64
            found = kl.splat(kl.u64(0), 8)
            for i in range(first, whole, 64):
                eight = kl.vload(by_eight, i // 8, lanes=8)
                found = found + kl.popcount(eight)
                kl.vstore(bits, i // 8, kl.cast((eight * kl.u64(GATHER8)) >> 56, kl.u32))
            for lane in kl.static_range(8):
                count = count + kl.cast(found[lane], counts.dtype)
        for i in range(whole, stop, 64):
            word = bits_one_by_one(mask, i, 64, kl.u64)
            count = count + kl.cast(kl.popcount(word), counts.dtype)
            for byte in kl.static_range(8):
                bits[i // 8 + byte] = kl.cast(word >> (8 * byte), kl.u32)
        counts[s] = count


@function
def words_added_up(word: Any, WIDTH: Any) -> Any:
    """How many bits of a workgroup's words are set before a work-item's own, and up to its end."""
    item = kl.local_id(0)
    count = kl.cast(kl.popcount(word), kl.i32)
    sums = kl.local((WIDTH,), kl.i32)
    tops = kl.local((WIDTH // ROW,), kl.i32)
    sums[item] = count
    kl.barrier()
    row = item // ROW
    before = 0
    for other in kl.static_range(ROW - 1):
        if other < item % ROW:
            before = before + sums[row * ROW + other]
    if item % ROW == ROW - 1:
        tops[row] = before + count
    kl.barrier()
    for other in kl.static_range(WIDTH // ROW - 1):
        if other < row:
            before = before + tops[other]
    return before, before + count


@dataclass(frozen=True)
class Section:
    """Elements of which a workgroup takes some together, 32 for each of its work-items.

    Attributes
    ----------
    words : array
        The bits of what is taken, as `packed_word` gives them.
    own : int
        Where in `words` the first is in which this work-item has a bit.
    done : int
        How many are taken before the section.
    begin, size : int
        The first element, and how many there are in all.
    """

    words: Any
    own: Any
    done: Any
    begin: Any
    size: Any

    @function
    def sweep(self, body: Any, WIDTH: Any, AHEAD: Any) -> None:
        """Has `body` take them: ``body.take(e, chosen, places)``.

        That is told of `AHEAD` elements, `WIDTH` apart from the `e`-th of the section on, whether
        they are to be taken, and how many are before them. Neighbouring work-items have neighbours.
        """
        bit = kl.u32(1) << kl.cast(kl.local_id(0) % 32, kl.u32)
        for turn in range(kl.cdiv(kl.minimum(WIDTH * 32, self.size - self.begin), WIDTH * AHEAD)):
            first = self.own + turn * (WIDTH * AHEAD // 32)
            pairs = [split_word(self.words[first + u * (WIDTH // 32)]) for u in range(AHEAD)]
            chosen = [(word & bit) != 0 for word, _ in pairs]
            before = [
                count + kl.cast(kl.popcount(word & (bit - 1)), kl.i32) for word, count in pairs
            ]
            e = turn * (WIDTH * AHEAD) + kl.local_id(0)
            body.take(e, chosen, [self.done + count for count in before])


@function
def element_if(there: Any, x: Any, at: Any) -> Any:
    """An element, or 0 if it is not there."""
    value = kl.cast(0, x.dtype)
    if there:
        value = x[at]
    return value


@function
def before_section(counts: Any, s: Any) -> Any:
    """How many are taken before a section, if `counts` are those in each."""
    total = kl.cast(0, s.dtype)
    for before in range(s):
        total = total + counts[before]
    return total


@function
def before_group(counts_upto: Any) -> Any:
    """How many are taken before a workgroup's section, if `counts_upto` are those to ends."""
    done = kl.cast(0, counts_upto.dtype)
    if kl.group_id(0) > 0:
        done = counts_upto[kl.group_id(0) - 1]
    return done


@function
def packed_word(word: Any, before: Any) -> Any:
    """32 bits and how many are set before them, in one word, the bits in the lower half."""
    return (kl.cast(before, kl.u64) << 32) | kl.cast(word, kl.u64)


@function
def split_word(pair: Any) -> Any:
    """What `packed_word` has joined."""
    return kl.cast(pair & 0xFFFFFFFF, kl.u32), kl.cast(pair >> 32, kl.i32)


@function
def pack_words(word: Any, at: Any, bits: Any, counts: Any, WIDTH: Any) -> Any:
    """Packs a word for each work-item of a workgroup; `counts` gets how many are set in all."""
    before, upto = words_added_up(word, WIDTH)
    bits[at] = packed_word(word, before)
    if kl.local_id(0) == WIDTH - 1:
        counts[kl.group_id(0)] = kl.cast(upto, counts.dtype)
    return upto


@kernel
def pack_by_workgroup(mask: Any, by_four: Any, bits: Any, counts: Any, *, WIDTH: int) -> None:
    """The bits of a mask as `packed_word` has them, and how many are true in each section.

    A work-item makes one word; there are words for all work-items.
    """
    at = kl.group_id(0) * WIDTH + kl.local_id(0)
    pack_words(bits_of(mask, by_four, at), at, bits, counts, WIDTH)
