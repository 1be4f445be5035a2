"""Kernels between rows of words, as users have them, and stripes in the order of elimination.

In stripes the highest bit of the first word is eliminated first. That is the highest column of a
matrix `BACKWARD`, whose words are in reverse order; else the lowest, and bits are reversed.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = [
    "fill_words",
    "find_beyond",
    "find_leads",
    "from_stripes",
    "random_words",
    "take_rows",
    "to_stripes",
    "transpose_blocks",
]


@function
def reversed_bits(x: Any) -> Any:
    """The word's bits from the last to the first."""
    for step, mask in (
        (1, 0x5555555555555555),
        (2, 0x3333333333333333),
        (4, 0x0F0F0F0F0F0F0F0F),
        (8, 0x00FF00FF00FF00FF),
        (16, 0x0000FFFF0000FFFF),
        (32, 0x00000000FFFFFFFF),
    ):
        x = ((x >> step) & mask) | ((x & mask) << step)
    return x


@kernel
def to_stripes(words: Any, work: Any, first: Any, turn: Any, *, BACKWARD: bool) -> None:
    """Words of rows to stripes, from place `first` on; what lies beyond them is zero.

    The stripes are `turn.first`, ``turn.first + turn.size`` and so on of all.
    """
    at, row = kl.global_id(0), kl.global_id(1)
    width = work.shape[2]
    stripe = at // width
    place = (turn.first + stripe * turn.size) * width + at % width - first
    if stripe < work.shape[0] and row < words.shape[0] and place >= 0:
        found = kl.cast(0, kl.u64)
        if place < words.shape[1]:
            if BACKWARD:
                found = words[row, words.shape[1] - 1 - place]
            else:
                found = reversed_bits(words[row, place])
        work[stripe, row, at % width] = found


@kernel
def from_stripes(
    work: Any, rows: Any, words: Any, first: Any, parts: Any, *, BACKWARD: bool
) -> None:
    """The inverse: row i is row ``rows[i]`` of the stripes, empty for -1; `rows` None: row i.

    Stripe s is in part ``s % parts``; the parts follow each other.
    """
    place, row = kl.global_id(0), kl.global_id(1)
    width = work.shape[2]
    if place < words.shape[1] and row < words.shape[0]:
        source = row + 0
        if rows is not None:
            source = rows[row]
        found = kl.cast(0, kl.u64)
        if source >= 0:
            stripe = (first + place) // width
            held = stripe % parts * (work.shape[0] // parts) + stripe // parts
            found = work[held, source, (first + place) % width]
        if BACKWARD:
            words[row, words.shape[1] - 1 - place] = found
        else:
            words[row, place] = reversed_bits(found)


@kernel
def find_beyond(work: Any, rests: Any, flags: Any, first: Any) -> None:
    """Marks rows that became no pivot and have ones in words from place `first` on."""
    row = kl.global_id(0)
    if row < rests.shape[0]:
        seen = kl.cast(0, kl.u64)
        if rests[row] < 0:
            for place in range(first, work.shape[0] * work.shape[2]):
                seen = seen | work[place // work.shape[2], row, place % work.shape[2]]
        flags[row] = kl.where(seen != 0, 1, 0)


@kernel
def take_rows(words: Any, rows: Any, units: Any, out: Any) -> None:
    """Row i of `out`: row ``rows[i]``, and a one at column ``units[i]``; -1 stands for neither."""
    word, row = kl.global_id(0), kl.global_id(1)
    if word < out.shape[1] and row < out.shape[0]:
        found = kl.cast(0, kl.u64)
        if rows[row] >= 0:
            found = words[rows[row], word]
        unit = units[row]
        if unit >= 0 and unit // 64 == word:
            found = found | (kl.cast(1, kl.u64) << kl.cast(unit % 64, kl.u64))
        out[row, word] = found


@kernel
def transpose_blocks(words: Any, out: Any) -> None:
    """The transpose, a workgroup to each block of 64 rows and a word.

    Quarters of a block off its diagonal change places, then those of its quarters, and so on
    (H. Warren, "Hacker's Delight", 7-3).
    """
    block = kl.local(64, kl.u64)
    items, item = kl.local_size(0), kl.local_id(0)
    word, top = kl.group_id(0), kl.group_id(1) * 64
    for i in range(item, 64, items):
        found = kl.cast(0, kl.u64)
        if top + i < words.shape[0]:
            found = words[top + i, word]
        block[i] = found
    kl.barrier()
    for half, mask in (
        (32, 0x00000000FFFFFFFF),
        (16, 0x0000FFFF0000FFFF),
        (8, 0x00FF00FF00FF00FF),
        (4, 0x0F0F0F0F0F0F0F0F),
        (2, 0x3333333333333333),
        (1, 0x5555555555555555),
    ):
        for pair in range(item, 32, items):
            i = pair // half * (2 * half) + pair % half
            moved = ((block[i] >> half) ^ block[i + half]) & mask
            block[i] = block[i] ^ (moved << half)
            block[i + half] = block[i + half] ^ moved
        kl.barrier()
    for i in range(item, 64, items):
        if word * 64 + i < out.shape[0]:
            out[word * 64 + i, kl.group_id(1)] = block[i]


@kernel
def find_leads(words: Any, leads: Any) -> None:
    """The highest column of each row, -1 for an empty one."""
    row = kl.global_id(0)
    if row < words.shape[0]:
        lead = kl.cast(-1, kl.i32)
        word = words.shape[1] - 1
        while word >= 0:
            found = words[row, word]
            if found != 0:
                lead = word * 64 + 63 - kl.cast(kl.clz(found), kl.i32)
                word = 0
            word = word - 1
        leads[row] = lead


@kernel
def fill_words(out: Any, value: Any) -> None:
    """A number to all elements of an array of one dimension."""
    i = kl.global_id(0)
    if i < out.shape[0]:
        out[i] = value


@kernel
def random_words(words: Any, columns: Any, seed: Any, density: Any, *, STEPS: int) -> None:
    """Bits that are ones with probability ``density / 2^STEPS``, zeros beyond `columns`.

    A random bit for each binary digit of the density, from the last: ones are added where the digit
    is 1, and taken where it is 0, so that each step halves the difference.
    """
    word, row = kl.global_id(0), kl.global_id(1)
    if word < words.shape[1] and row < words.shape[0]:
        index = kl.cast(row, kl.u64) * kl.cast(words.shape[1], kl.u64) + kl.cast(word, kl.u64)
        found = kl.cast(0, kl.u64)
        for pair in kl.static_range(STEPS // 2):
            a, b, c, d = kl.random.bits(seed, index, pair)
            for half in kl.static_range(2):
                high, low = ((a, b), (c, d))[half]
                bits = (kl.cast(high, kl.u64) << 32) | kl.cast(low, kl.u64)
                adds = (density >> (2 * pair + half)) & 1 != 0
                found = kl.where(adds, found | bits, found & bits)
        if density >> STEPS != 0:
            found = kl.cast(0xFFFFFFFFFFFFFFFF, kl.u64)
        left = columns - word * 64
        if left < 64:
            found = found & ((kl.cast(1, kl.u64) << kl.cast(left, kl.u64)) - 1)
        words[row, word] = found
