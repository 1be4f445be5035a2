"""Parts of sums of gradients by filters, added up; elements that nothing is added to."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from portable import lang as kl
from portable.backend import Device
from portable.conv.geometry import Pair
from portable.conv.layouts import in_c_order
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.enqueued import enqueue
from portable.lang.launch.geometry import groups
from portable.primitives.maps.elementwise_kernel import product_of, unravelled

_ITEMS: Final = 128
_ENOUGH: Final = 1024
"""Work-items for each compute unit beside which no element takes several of them."""

_CROWD: Final = 1536
"""The same of which each may take several elements."""

_MOST_TAPS: Final = 49
"""Of which local memory holds those of all work-items."""

_FEWEST_PARTS: Final = 4
"""That a work-item adds up."""


@kernel
def add_up_filters(parts: kl.Array, out: kl.Array, filters: kl.Scalar, *, ROWS: int) -> None:
    """``out[a, b, c, d]`` sums ``parts[:, a, b, c, d]``; `ROWS` work-items take an element's parts.

    Where parts have more channels d, they are those of several groups, each of so many filters c,
    of which an element takes its own. Neighbouring work-items take neighbouring elements. Local
    memory: an element a work-item.
    """
    WIDTH = kl.local_size(0) // ROWS
    item, row = kl.local_id(0) % WIDTH, kl.local_id(0) // WIDTH
    at = kl.group_id(0) * WIDTH + item
    exists = at < product_of(out.shape)
    place = unravelled(kl.where(exists, at, 0), out.shape)
    total = parts.dtype.register(0)
    if exists:
        total = added(parts, place, out.shape[3], filters, row, ROWS)
    if ROWS > 1:
        sums = kl.local((ROWS, WIDTH), total.dtype)
        sums[row, item] = total
        kl.barrier()
        if row == 0:
            for i in kl.static_range(1, ROWS):
                total += sums[i, item]
    if exists and row == 0:
        a, b, c, d = place
        out[a, b, c, d] = total


@function
def added(
    parts: kl.Array,
    place: tuple[kl.Scalar, ...],
    depth: kl.Scalar,
    filters: kl.Scalar,
    row: kl.Scalar,
    ROWS: int,
) -> Any:
    """The sum of every `ROWS`-th part from one on of an element."""
    a, b, c, d = place
    channel = channel_of(parts, c, d, depth, filters)
    total = parts.dtype.register(0)
    for p in range(row, parts.shape[0], ROWS):
        total += parts[p, a, b, c, channel]
    return total


@function
def channel_of(
    parts: kl.Array, c: kl.Scalar, d: kl.Scalar, depth: kl.Scalar, filters: kl.Scalar
) -> Any:
    """Where channel d of the group of filter c lies among those that parts have."""
    return c // filters % (parts.shape[4] // depth) * depth + d


@kernel
def add_up_taps(
    parts: kl.Array, out: kl.Array, depth: kl.Scalar, filters: kl.Scalar, *, TAPS: Pair
) -> None:
    """As `add_up_filters` does, into a row of elements (c, d, a, b), those of so many channels d.

    A work-item adds up all taps of a channel, which pass through local memory, so that neighbours
    are written together: an element for each of them.
    """
    ITEMS, COUNT, item = kl.local_size(0), TAPS[0] * TAPS[1], kl.local_id(0)
    sums = kl.local(ITEMS * COUNT, parts.dtype)
    if kl.global_id(0) * COUNT < out.shape[0]:
        c, d = kl.global_id(0) // depth, kl.global_id(0) % depth
        channel = channel_of(parts, c, d, depth, filters)
        totals = kl.private((COUNT,), parts.dtype.register, fill=0)
        for p in range(parts.shape[0]):  # taps at once, so that none waits for another
            for tap in kl.static_range(COUNT):
                totals[tap] += parts[p, tap // TAPS[1], tap % TAPS[1], c, channel]
        for tap in kl.static_range(COUNT):
            sums[item * COUNT + tap] = totals[tap]
    kl.barrier()
    first = kl.group_id(0) * ITEMS * COUNT
    for i in range(item, kl.minimum(ITEMS * COUNT, out.shape[0] - first), ITEMS):
        out[first + i] = sums[i]


def add_up(device: Device, parts: Any, out: Any, filters: int = 1) -> None:
    """Adds parts up.

    Parameters
    ----------
    device : Device
        Where they are.
    parts : array, shape (P, ...)
        Of four dimensions more, in the order of memory.
    out : array
        Where the sum goes, of these dimensions and any strides; of fewer channels, the last, where
        parts have those of several groups.
    filters : int
        Of each of these groups.
    """
    count, most = prod(out.shape), int(parts.shape[0])
    rows = 1
    if not device.capabilities.single_work_items:
        idle = _ENOUGH * max(1, device.capabilities.compute_units) // max(1, count)
        while rows < min(_ITEMS // 4, idle, most // _FEWEST_PARTS):
            rows *= 2
    if rows == 1 and _taps_are_neighbours(device, out):
        space, taps, depth = device.namespace(), tuple(out.shape[:2]), int(out.shape[3])
        row = space.reshape(space.permute_dims(out, (2, 3, 0, 1)), (count,))
        launcher = add_up_taps[groups(-(-count // (prod(taps) * _ITEMS))), (_ITEMS, 1, 1)]
        enqueue(launcher, parts, row, depth, filters, TAPS=taps)
        return
    items = _ITEMS if rows > 1 or not device.capabilities.single_work_items else 1
    launcher = add_up_filters[groups(-(-count * rows // items)), (items, 1, 1)]
    enqueue(launcher, parts, out, filters, ROWS=rows)


def _taps_are_neighbours(device: Device, out: Any) -> bool:
    """Whether the first two dimensions are neighbours in memory, of enough others."""
    taps, turned = prod(out.shape[:2]), device.namespace().permute_dims(out, (2, 3, 0, 1))
    crowd = prod(out.shape[2:]) >= _CROWD * max(1, device.capabilities.compute_units)
    lone = device.capabilities.single_work_items
    return not lone and crowd and 1 < taps <= _MOST_TAPS and in_c_order(device, turned)


@kernel
def clear_pixels(out: kl.Array) -> None:
    """Zeros for an array of four dimensions."""
    at = kl.global_id(0)
    if at < product_of(out.shape):
        a, b, c, d = unravelled(at, out.shape)
        out[a, b, c, d] = 0


def clear(x: Any) -> None:
    """Zeros for an array of four dimensions and any strides."""
    enqueue(clear_pixels[prod(x.shape), None], x)
