"""Masks as bits, and what is done to elements that are chosen: alone, or by a workgroup together.

32 or 64 neighbours are a word, the first in the lowest bit. What chooses is a *source*: a `Mask`,
or another struct like it. What is done is a `Target`: it keeps elements, assigns to them, or tells
groups of equal ones.

One kernel for work-items alone and together would cost one of them: those that are alone skip 64
elements at a time and write eight places without looking at bits, which in a workgroup would all go
to the same memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType, bool_, int32, int64, uint8, uint32, uint64
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.base.operands import power_of_two
from portable.primitives.base.recipe import Recipe
from portable.primitives.base.storage import fetched
from portable.primitives.reductions.merging import Merge
from portable.primitives.scans.scanning import scanned
from portable.primitives.tuning import sections_for

GATHER4 = 0x10204080
"""Times four bytes that are 0 or 1: these as bits, 28 places up, and nothing above them."""
GATHER8 = 0x0102040810204080
"""The same for eight bytes, 56 places up."""
ROW = 16
"""Work-items whose counts each of them adds up alone."""


@function
def lowest_bit(word: kl.Scalar) -> Any:
    """The place of the lowest bit of a word that is not zero."""
    return kl.cast(kl.popcount((word & (~word + 1)) - 1), kl.i32)


@function
def bits_one_by_one(source: Any, first: kl.Scalar, count: int, KIND: Any) -> Any:
    """Which of the elements from `first` on are chosen; `count` bits of a `KIND` at most."""
    word = kl.cast(0, KIND)
    for bit in range(kl.minimum(count, source.size() - first)):
        word = word | (kl.cast(source.chooses(first + bit), KIND) << kl.cast(bit, KIND))
    return word


class Mask(NamedTuple):
    """A mask in one dimension, and what is known of it.

    Attributes
    ----------
    flags : array or None
        What is true, or not zero; None where the bits tell all.
    words : array or None
        The same as integers that hold several: of 64 bits, or for workgroups 32.
    bits : array or None
        Its bits in words of 64, or for workgroups as `pack_by_workgroup` leaves them. Without them
        there is one section.
    counts : array or None
        How many are true in each section, or for workgroups up to each section's end.
    """

    flags: Any
    words: Any = None
    bits: Any = None
    counts: Any = None

    def size(self) -> Any:
        """How many elements it has, or more, of which no bit is set, where only bits are given."""
        if self.flags is None:
            return self.bits.shape[0] * (64 if kl.target.single_work_items else 32)
        return self.flags.shape[0]

    def chooses(self, i: kl.Scalar) -> Any:
        """Whether it is true, or not zero, at a place."""
        return self.flags[i] if self.flags.dtype == kl.bool_ else self.flags[i] != 0

    def bits_from(self, first: kl.Scalar, KIND: Any) -> Any:
        """As many bits as a `KIND` has from that of an element on; none is set behind the end."""
        word, count = kl.cast(0, KIND), 8 * KIND.itemsize
        if self.words is not None and first + count <= self.size():
            each = self.words.dtype.itemsize
            gather = kl.cast(GATHER4 if each == 4 else GATHER8, self.words.dtype)
            for byte in kl.static_range(0, count, 4 * each):
                four = kl.vload(self.words, (first + byte) // each, lanes=4)
                some = (four * gather) >> (7 * each)
                for lane in kl.static_range(4):
                    word = word | (kl.cast(some[lane], KIND) << (byte + each * lane))
        else:
            word = bits_one_by_one(self, first, count, KIND)
        return word


class Few(NamedTuple):
    """A few elements of a section that a work-item takes, as far apart as there are work-items.

    Attributes
    ----------
    offset : int
        Where the first lies in the section.
    chosen : tuple of bool
        Which of them are chosen.
    before : tuple of int
        How many chosen ones of the section come before each.
    """

    offset: Any
    chosen: Any
    before: Any


@dataclass(frozen=True)
class Target:
    """What is done to elements that are chosen.

    Work-items that are alone call ``put(k, at)`` for the `k`-th of them, which comes `at`-th in C
    order, or ``put_many`` for all of a word if it ``has_word``. Those of a workgroup
    call ``take`` for several, and ``put`` where they are few.
    """

    def look(self, k: kl.Scalar, first: kl.Scalar, word: kl.Scalar) -> None:
        """What is done to all elements of a word, chosen or not: nothing."""

    def finish(self, count: kl.Scalar, first: kl.Scalar, step: int) -> None:
        """What every `step`-th work-item does once all `count` are done: nothing."""


# -- by work-items alone --------------------------------------------------------------------------


@kernel
def pack(source: Mask, bits: kl.Array, counts: kl.Array, *, SECTION: int) -> None:
    """The bits of what is chosen in bytes, and how many are in each section.

    Parameters
    ----------
    source : Mask or alike
        What chooses.
    bits : array
        Bytes, so many that words of 64 bits can be read.
    counts : array
        How many elements of each section are chosen.
    SECTION : int
        Elements of a section, which a work-item does; whole words of 64 bits.
    """
    s = kl.global_id(0)
    if s < counts.shape[0]:
        first = s * SECTION
        stop = kl.minimum(first + SECTION, source.size())
        whole = first
        count = kl.cast(0, counts.dtype)
        if source.words is not None:
            whole = first + (stop - first) // 64 * 64
            result = kl.splat(kl.u64(0), 8)
            for i in range(first, whole, 64):
                eight = kl.vload(source.words, i // 8, lanes=8)
                result = result + kl.popcount(eight)
                kl.vstore(bits, i // 8, kl.cast((eight * kl.u64(GATHER8)) >> 56, kl.u32))
            for lane in kl.static_range(8):
                count = count + kl.cast(result[lane], counts.dtype)
        for i in range(whole, stop, 64):
            word = source.bits_from(i, kl.u64)
            count = count + kl.cast(kl.popcount(word), counts.dtype)
            for byte in kl.static_range(8):
                bits[i // 8 + byte] = kl.cast(word >> (8 * byte), kl.u32)
        counts[s] = count


@kernel
def take(
    source: Any,
    target: Any,
    places: kl.Array | None,
    chosen_count: kl.Array | None,
    *,
    SECTION: int,
    FEW: int,
) -> None:
    """Does what is to be done to elements that are chosen, in order.

    Parameters
    ----------
    source : Mask or alike
        What chooses.
    target : Target
        What is done.
    places : array or None
        ``places[b]`` are those of the bits in a byte `b`; for `FEW` below 64.
    chosen_count : array or None
        Becomes how many are chosen, if there is one section only.
    SECTION : int
        Elements of a section, which a work-item does.
    FEW : int
        Where more of 64 are chosen they are not looked for one by one. Below 64, and if there is
        one section only, results have room for 64 more.
    """
    s = kl.global_id(0)
    size = source.size()
    if s * SECTION < size:
        k = kl.cast(0, s.dtype)
        end = k + size + 64
        if source.counts is not None:
            for before in range(s):
                k = k + source.counts[before]
            end = k + source.counts[s]
        WORDS = SECTION // 64
        for w in range(s * WORDS, kl.minimum((s + 1) * WORDS, kl.cdiv(size, 64))):
            i = w * 64
            word = source.bits_from(i, kl.u64) if source.bits is None else source.bits[w]
            target.look(k, i, word)
            if FEW < 64:
                count = kl.cast(kl.popcount(word), kl.i32)
                if count > FEW and k + 64 <= end and target.has_word(i):
                    target.put_many(k, i, word, places)
                    k = k + count
                    word = kl.u64(0)
            while word != 0:
                target.put(k, i + lowest_bit(word))
                k = k + 1
                word = word & (word - 1)
        if chosen_count is not None:
            chosen_count[0] = kl.cast(k, kl.i64)
            target.finish(k, 0, 1)


# -- by a workgroup together ----------------------------------------------------------------------


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
    count : int
        How many are taken.
    """

    words: Any
    own: Any
    done: Any
    begin: Any
    size: Any
    count: Any

    def sweep(self, target: Any, WIDTH: int, AHEAD: int) -> None:
        """Has them taken: ``target.take(self, few, WIDTH)``, of `AHEAD` elements `WIDTH` apart.

        Neighbouring work-items have neighbours.
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
            target.take(self, Few(e, chosen, before), WIDTH)


@function
def element_if(there: kl.Scalar, x: kl.Array, *at: kl.Scalar) -> Any:
    """An element, or 0 if it is not there."""
    value = kl.cast(0, x.dtype)
    if there:
        value = x[*at]
    return value


@function
def packed_word(word: kl.Scalar, before: kl.Scalar) -> Any:
    """32 bits and how many are set before them, in one word, the bits in the lower half."""
    return (kl.cast(before, kl.u64) << 32) | kl.cast(word, kl.u64)


@function
def split_word(pair: kl.Scalar) -> Any:
    """What `packed_word` has joined."""
    return kl.cast(pair & 0xFFFFFFFF, kl.u32), kl.cast(pair >> 32, kl.i32)


@function
def words_added_up(word: kl.Scalar, WIDTH: int) -> Any:
    """How many bits of a workgroup's words are set before a work-item's own, and up to its end.

    `kl.workgroup_scan` made ``x[mask]`` 3 to 8 % slower on an H200 through NVIDIA's OpenCL.
    """
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


@function
def pack_words(word: kl.Scalar, at: kl.Scalar, bits: kl.Array, counts: kl.Array, WIDTH: int) -> Any:
    """Packs a word of each work-item; `counts` gets how many bits are set in all.

    Returns how many are up to its end.
    """
    before, upto = words_added_up(word, WIDTH)
    bits[at] = packed_word(word, before)
    if kl.local_id(0) == WIDTH - 1:
        counts[kl.group_id(0)] = kl.cast(upto, counts.dtype)
    return upto


@kernel
def pack_by_workgroup(source: Any, bits: kl.Array, counts: kl.Array, *, WIDTH: int) -> None:
    """As `pack`, a workgroup of `WIDTH` doing a section together, 32 elements a work-item.

    `bits` has a word for each work-item, as `packed_word` gives it.
    """
    at = kl.group_id(0) * WIDTH + kl.local_id(0)
    pack_words(source.bits_from(at * 32, kl.u32), at, bits, counts, WIDTH)


@function
def own_section(source: Any, chosen_count: kl.Array | None, WIDTH: int) -> Any:
    """The section of a workgroup; `chosen_count` becomes how many, if it is the only one."""
    item, group = kl.local_id(0), kl.group_id(0)
    if source.bits is None:
        words = kl.local((WIDTH,), kl.u64)
        last = kl.local((1,), kl.i32)
        upto = pack_words(source.bits_from(item * 32, kl.u32), item, words, chosen_count, WIDTH)
        if item == WIDTH - 1:
            last[0] = upto
        kl.barrier()
        return Section(words, item // 32, 0, 0, source.size(), last[0])
    done = kl.cast(0, source.counts.dtype)
    if group > 0:
        done = source.counts[group - 1]
    count = kl.assume_uniform(kl.cast(source.counts[group] - done, kl.i32))
    first = group * WIDTH
    return Section(source.bits, first + item // 32, done, first * 32, source.size(), count)


@function
def take_few(section: Section, target: Any, WIDTH: int, FEW: int) -> None:
    """Does to what a section chooses, no more than `FEW`: through places in local memory."""
    item = kl.local_id(0)
    places = kl.local((FEW,), kl.u16)
    word, bit = split_word(section.words[section.own - item // 32 + item])
    while word != 0:
        places[bit] = kl.cast(item * 32 + lowest_bit(word), kl.u32)
        bit = bit + 1
        word = word & (word - 1)
    kl.barrier()
    for k in range(item, section.count, WIDTH):
        target.put(section.done + k, section.begin + kl.cast(places[k], kl.i32))


@kernel
def take_by_workgroup(
    source: Any, target: Any, count: kl.Array | None, *, WIDTH: int, AHEAD: int, FEW: int
) -> None:
    """As `take`, a workgroup of `WIDTH` doing a section together, 32 elements a work-item.

    Parameters
    ----------
    AHEAD : int
        Elements that each takes before it does anything to the first.
    FEW : int
        So many of a section are gone through by themselves; none, if 0.
    """
    section = own_section(source, count, WIDTH)
    if FEW == 0:
        section.sweep(target, WIDTH, AHEAD)
    elif section.count <= FEW:
        take_few(section, target, WIDTH, FEW)
    else:
        section.sweep(target, WIDTH, AHEAD)
    if source.bits is None:
        kl.barrier()
        target.finish(section.count, kl.local_id(0), WIDTH)


# Masks as bits: how a mask is cut into sections, packed and counted.

AT_ONCE: Final = 8192
"""So many elements are worth no second launch, and a result of them may lie in a larger buffer."""
_BYTE: Final = 8


@dataclass(frozen=True, slots=True)
class Cut:
    """A mask in sections, each one work-item's or that of a workgroup of `width`.

    `word` is the type that the bools are read in, several at a time.
    """

    section: int
    sections: int
    width: int
    word: DType

    @property
    def ndrange(self) -> int:
        """In work-items."""
        return self.sections * self.width


def cut_of(size: int, device: Device) -> Cut:
    """Sections such that all compute units have work."""
    capabilities = device.capabilities
    share = sections_for(capabilities)
    if share.group == 1:
        wanted = capabilities.compute_units * share.groups
        section = max(share.shortest, power_of_two(-(-size // wanted)))
        return Cut(section, -(-size // section), 1, uint64)
    section = share.group * 32
    return Cut(section, -(-size // section), share.group, uint32)


def packed(recipe: Recipe, mask: Any, cut: Cut) -> tuple[Any, Any]:
    """The mask's bits in words, and how many are true in each section or up to its end.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    mask : Storage
        In one dimension.
    cut : Cut
        Into which sections.
    """
    return packed_of(recipe, Mask(mask, in_words(mask, cut.word)), mask.size, cut)


def packed_of(recipe: Recipe, source: Any, size: int, cut: Cut) -> tuple[Any, Any]:
    """The bits of what is chosen of so many elements, and how many, as of `packed`.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    source : Mask or alike
        What chooses.
    size : int
        Of how many elements.
    cut : Cut
        Into which sections.
    """
    counts = recipe.empty((cut.sections,), int32 if size < 2**31 else int64)
    if cut.width == 1:
        bits = recipe.empty((-(-size // 64),), uint64)
        in_bytes = bits.viewed((bits.size * _BYTE,), (1,), dtype=uint8)
        recipe.launch(pack, cut.sections, 1, source, in_bytes, counts, SECTION=cut.section)
        return bits, counts
    bits = recipe.empty((cut.ndrange,), uint64)
    given = source, bits, counts
    recipe.launch(pack_by_workgroup, cut.ndrange, cut.width, *given, WIDTH=cut.width)
    return bits, _running_counts(recipe, counts)


def _running_counts(recipe: Recipe, counts: Any) -> Any:
    """How many are true up to the end of each section."""
    if counts.size == 1:
        return counts
    counts_upto = recipe.empty(counts.shape, counts.dtype)
    scanned(recipe, counts, counts_upto, Merge(kl.add, counts.dtype, 0), 0)
    return counts_upto


def how_many(counts: Any, cut: Cut) -> int:
    """How many are true in the whole mask; waits for the device."""
    host = fetched(counts if cut.width == 1 else counts.part(slice(-1, None)))
    return int(host[0] if host.size == 1 else host.sum())


def in_line(x: Any) -> Any:
    """A mask in one dimension."""
    return x if x.ndim == 1 else x.shaped((x.size,))


def in_words(mask: Any, word: DType) -> Any:
    """The mask as integers that hold several of its bools, or None where they do not."""
    size = word.itemsize
    whole = mask.dtype is bool_ and mask.strides == (1,) and mask.offset % size == 0
    return mask.viewed((mask.size // size,), (size,), dtype=word) if whole else None
