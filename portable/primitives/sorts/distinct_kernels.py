"""What differs from the element before it, in a sorted line: by work-items alone, or together."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.masks.compaction_kernels import places_before
from portable.primitives.masks.mask_kernels import joined, words_added_up

__all__ = ["count_distinct", "distinct", "distinct_by_workgroup", "pack_distinct", "sizes_of"]


@function
def begins(x: Any, i: Any) -> Any:
    """Whether an element is the first, or another than that before it; each NaN is."""
    new = i == 0
    if i > 0:
        new = x[i] != x[i - 1]
    return new


@function
def size_of(starts: Any, k: Any, count: Any, end: Any) -> Any:
    """How many elements are in the `k`-th of so many groups."""
    stop = kl.cast(end, kl.i64)
    if k + 1 < count:
        stop = starts[k + 1]
    return stop - starts[k]


@function
def noted(x: Any, order: Any, i: Any, k: Any, values: Any, starts: Any, firsts: Any) -> None:
    """Writes what is asked for of the `k`-th group, which begins with element `i`."""
    values[k] = x[i]
    if starts is not None:
        starts[k] = kl.cast(i, kl.i64)
    if firsts is not None:
        firsts[k] = order[i]


@kernel
def count_distinct(x: Any, counts: Any, *, SECTION: int) -> None:
    """How many groups begin in each section; a work-item does one."""
    s = kl.global_id(0)
    if s < counts.shape[0]:
        count = kl.cast(0, counts.dtype)
        for i in range(s * SECTION, kl.minimum(s * SECTION + SECTION, x.shape[0])):
            count = count + kl.cast(begins(x, i), counts.dtype)
        counts[s] = count


@kernel
def distinct(
    x: Any,
    order: Any,
    counts: Any,
    values: Any,
    starts: Any,
    firsts: Any,
    inverse: Any,
    sizes: Any,
    found: Any,
    *,
    SECTION: int,
) -> None:
    """The groups of equal elements in a sorted line: of each its value, and where it begins.

    Work-items do sections, `counts` being how many groups begin in each. `order` says where the
    elements were: `firsts` becomes where the first of each group was, and ``inverse[n]`` the group
    of the element that was the `n`-th. Without `counts` there is one section, and ``found[0]``
    becomes how many groups there are, `sizes` how many elements each has. What is None is left out.
    """
    s = kl.global_id(0)
    size = x.shape[0]
    if s * SECTION < size:
        k = kl.cast(0, s.dtype)
        if counts is not None:
            for before in range(s):
                k = k + counts[before]
        for i in range(s * SECTION, kl.minimum(s * SECTION + SECTION, size)):
            if begins(x, i):
                noted(x, order, i, k, values, starts, firsts)
                k = k + 1
            if inverse is not None:
                inverse[order[i]] = kl.cast(k - 1, kl.i64)
        if counts is None:
            found[0] = kl.cast(k, kl.i64)
            if sizes is not None:
                for group in range(k):
                    sizes[group] = size_of(starts, group, k, size)


@kernel
def sizes_of(starts: Any, sizes: Any, end: Any) -> None:
    """How many elements are in each group, the last of which ends at `end`."""
    k = kl.global_id(0)
    if k < sizes.shape[0]:
        sizes[k] = size_of(starts, k, sizes.shape[0], end)


@function
def begins_packed(x: Any, first: Any) -> Any:
    """Which of 32 elements begin a group; none are beyond the end."""
    word = kl.u32(0)
    for place in range(kl.minimum(32, x.shape[0] - first)):
        word = word | (kl.cast(begins(x, first + place), kl.u32) << kl.cast(place, kl.u32))
    return word


@kernel
def pack_distinct(x: Any, bits: Any, counts: Any, *, WIDTH: int) -> None:
    """As `mask_kernels.pack_by_workgroup`, a bit being whether a group begins."""
    item = kl.local_id(0)
    at = kl.group_id(0) * WIDTH + item
    word = begins_packed(x, at * 32)
    before, upto = words_added_up(word, WIDTH)
    bits[at] = joined(word, before)
    if item == WIDTH - 1:
        counts[kl.group_id(0)] = kl.cast(upto, counts.dtype)


@function
def section_noted(
    x: Any,
    order: Any,
    words: Any,
    own: Any,
    done: Any,
    begin: Any,
    values: Any,
    starts: Any,
    firsts: Any,
    inverse: Any,
    WIDTH: Any,
    AHEAD: Any,
) -> None:
    """Writes what is asked for of the groups that begin in a section, `done` beginning before it.

    `own` is where in `words` the first is in which the work-item has a bit.
    """
    size = x.shape[0]
    for turn in range(kl.cdiv(kl.minimum(WIDTH * 32, size - begin), WIDTH * AHEAD)):
        chosen, before = places_before(words, own + turn * (WIDTH * AHEAD // 32), AHEAD, WIDTH)
        for u in kl.static_range(AHEAD):
            i = begin + (turn * AHEAD + u) * WIDTH + kl.local_id(0)
            k = done + before[u]
            if chosen[u]:
                noted(x, order, i, k, values, starts, firsts)
                k = k + 1
            if inverse is not None and i < size:
                inverse[order[i]] = kl.cast(k - 1, kl.i64)


@kernel
def distinct_by_workgroup(
    x: Any,
    order: Any,
    bits: Any,
    counts_upto: Any,
    values: Any,
    starts: Any,
    firsts: Any,
    inverse: Any,
    sizes: Any,
    found: Any,
    *,
    WIDTH: int,
    AHEAD: int,
) -> None:
    """As `distinct`, a workgroup of `WIDTH` doing a section together, 32 elements a work-item.

    `bits` are as `pack_distinct` leaves them, `counts_upto` how many groups begin up to each
    section's end. Without them there is one section.
    """
    item = kl.local_id(0)
    group = kl.group_id(0)
    begin = group * (WIDTH * 32)
    own = item // 32
    if bits is None:
        words = kl.local((WIDTH,), kl.u64)
        count = kl.local((1,), kl.i32)
        word = begins_packed(x, item * 32)
        before, upto = words_added_up(word, WIDTH)
        words[item] = joined(word, before)
        if item == WIDTH - 1:
            count[0] = upto
            found[0] = kl.cast(upto, kl.i64)
        kl.barrier()
        what = (values, starts, firsts, inverse)
        section_noted(x, order, words, own, 0, begin, *what, WIDTH, AHEAD)
        if sizes is not None:
            kl.barrier()
            for k in range(item, count[0], WIDTH):
                sizes[k] = size_of(starts, k, count[0], x.shape[0])
    else:
        done = kl.cast(0, counts_upto.dtype)
        if group > 0:
            done = counts_upto[group - 1]
        own = own + group * WIDTH
        what = (values, starts, firsts, inverse)
        section_noted(x, order, bits, own, done, begin, *what, WIDTH, AHEAD)
