"""The gradient by filters of few channels a group, bound by memory."""

from __future__ import annotations

from math import gcd
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Device
from portable.conv.direct.adding import add_up
from portable.conv.geometry import Geometry, Layout, Window
from portable.conv.layouts import as_nchw
from portable.dtypes import dtype
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.enqueued import enqueue
from portable.lang.launch.geometry import groups

MOST_TAPS: Final = 64
"""Taps whose sums a work-item holds at most."""

_ITEMS: Final = 2048
"""Work-items for each compute unit above which sums are not cut further."""

_GROUPS: Final = 8
"""The same of workgroups."""

_WORKGROUP: Final = 128

_PER_ITEM: Final = 8
"""Bytes of neighbouring channels that a work-item reads at a time, at most."""


class SumPlan(NamedTuple):
    """How sums over pixels are made, a constant of kernels.

    Attributes
    ----------
    window : Window
    lanes : int
        Neighbouring filters, or pixels, of a vector.
    depthwise : bool
        Whether groups have one channel and one filter.
    """

    window: Window
    lanes: int
    depthwise: bool


class Span(NamedTuple):
    """Rows of results of all images, from the first to the last, and how many an image has."""

    first: Any
    last: Any
    each: Any


@function
def span_of(part: kl.Scalar, parts: kl.Scalar, dy: kl.Array) -> Any:
    """A part of the rows of all images."""
    rows = dy.shape[0] * dy.shape[2]
    each = kl.cdiv(rows, parts)
    first = kl.minimum(part * each, rows)
    return Span(first, kl.minimum(first + each, rows), dy.shape[2])


@kernel
def sum_group_channels(
    x: kl.Array, dy: kl.Array, out: kl.Array, channels: kl.Scalar, *, PLAN: SumPlan
) -> None:
    """``out[p, r, s, c, k]`` sums ``dy[n, k, y, z] x[n, what the tap saw]`` over part p of rows.

    A work-item for a row of taps and a vector of filters, neighbours in memory; `channels` are
    those of a group.
    """
    L, S = PLAN.lanes, PLAN.window.taps[1]
    parts, taps, count = out.shape[0], out.shape[1], out.shape[4] // L
    index = kl.global_id(0)
    vector, rest = index % count, index // count
    c, rest = rest % channels, rest // channels
    r, part = rest % taps, rest // taps
    if part < parts:
        k, span = vector * L, span_of(part, parts, dy)
        first = k
        if not PLAN.depthwise:
            first = k // (out.shape[4] * channels // x.shape[1]) * channels + c
        sums = kl.private((S,), out.dtype, lanes=L, fill=0)
        for at in range(span.first, span.last):
            n, y = at // span.each, at % span.each
            row = y * PLAN.window.stride[0] + r * PLAN.window.dilation[0] - PLAN.window.padding[0]
            if row >= 0 and row < x.shape[2]:
                for z in range(dy.shape[3]):
                    slope = kl.vload(dy, n, k, y, z, lanes=L, axis=1)
                    add_taps(sums, slope, x, (n, first, row, z), PLAN)
        for s in kl.static_range(S):
            kl.vstore(out, part, r, s, c, k, sums[s])


@function
def add_taps(
    sums: kl.Array, slope: kl.Scalar, x: kl.Array, at: tuple[kl.Scalar, ...], PLAN: SumPlan
) -> None:
    """Adds the products of gradients with what a row of taps saw."""
    (n, first, row, z), L = at, PLAN.lanes
    for s in kl.static_range(PLAN.window.taps[1]):
        j = z * PLAN.window.stride[1] + s * PLAN.window.dilation[1] - PLAN.window.padding[1]
        column, inside = kl.clip(j, 0, x.shape[3] - 1), j >= 0 and j < x.shape[3]
        if PLAN.depthwise:
            seen = kl.vload(x, n, first, row, column, lanes=L, axis=1)
            seen = kl.where(inside, seen, kl.splat(sums.dtype(0), L))
            sums[s] = kl.fma(slope, seen, sums[s])
        else:
            one = kl.where(inside, sums.dtype(x[n, first, row, column]), sums.dtype(0))
            sums[s] = kl.fma(slope, kl.splat(one, L) if L > 1 else one, sums[s])


@kernel
def sum_group_pixels(
    x: kl.Array, dy: kl.Array, out: kl.Array, channels: kl.Scalar, *, PLAN: SumPlan
) -> None:
    """``out[p, k, c, r, s]``, the same sums, by a workgroup for each filter, channel and part.

    Lanes, where there are several, are neighbouring pixels.
    """
    R, S = PLAN.window.taps
    index = kl.group_id(0)
    c, rest = index % channels, index // channels
    k, part = rest % out.shape[1], rest // out.shape[1]
    span = span_of(part, out.shape[0], dy)
    channel = k // (out.shape[1] * channels // x.shape[1]) * channels + c
    sums = kl.private((R * S,), out.dtype, fill=0)
    if PLAN.lanes == 1:
        add_pixels(sums, x, dy, (k, channel), span, PLAN)
    else:
        add_vectors(sums, x, dy, (k, channel), span, PLAN)
    for t in kl.static_range(R * S):
        total = kl.workgroup_reduce(kl.add, sums[t])
        if kl.local_id(0) == 0:
            out[part, k, c, t // S, t % S] = total


@function
def add_pixels(
    sums: kl.Array,
    x: kl.Array,
    dy: kl.Array,
    which: tuple[kl.Scalar, ...],
    span: Span,
    PLAN: SumPlan,
) -> None:
    """Pixel by pixel, which the work-items share out."""
    (k, channel), width = which, dy.shape[3]
    WINDOW, S = PLAN.window, PLAN.window.taps[1]
    start = span.first * width + kl.local_id(0)
    for at in range(start, span.last * width, kl.local_size(0)):
        row, z = at // width, at % width
        n, y = row // span.each, row % span.each
        slope = sums.dtype(dy[n, k, y, z])
        for r in kl.static_range(WINDOW.taps[0]):
            i = y * WINDOW.stride[0] + r * WINDOW.dilation[0] - WINDOW.padding[0]
            line, above = kl.clip(i, 0, x.shape[2] - 1), i >= 0 and i < x.shape[2]
            for s in kl.static_range(S):
                j = z * WINDOW.stride[1] + s * WINDOW.dilation[1] - WINDOW.padding[1]
                column, inside = kl.clip(j, 0, x.shape[3] - 1), j >= 0 and j < x.shape[3]
                seen = sums.dtype(x[n, channel, line, column])
                seen = kl.where(above and inside, seen, sums.dtype(0))
                sums[r * S + s] = kl.fma(slope, seen, sums[r * S + s])


@function
def add_vectors(
    sums: kl.Array,
    x: kl.Array,
    dy: kl.Array,
    which: tuple[kl.Scalar, ...],
    span: Span,
    PLAN: SumPlan,
) -> None:
    """By vectors of pixels of which all taps saw images, the others one by one; stride 1."""
    (k, channel), width, L = which, dy.shape[3], PLAN.lanes
    WINDOW, (R, S) = PLAN.window, PLAN.window.taps
    LEFT, REACH = WINDOW.padding[1], (WINDOW.taps[1] - 1) * WINDOW.dilation[1]
    held = kl.private((R * S,), sums.dtype, lanes=L, fill=0)
    inner = kl.minimum(kl.maximum(LEFT, 0), width)
    vectors = kl.maximum(kl.minimum(width, x.shape[3] + LEFT - REACH) - inner, 0) // L
    for at in range(span.first, span.last):
        n, y = at // span.each, at % span.each
        for r in kl.static_range(R):
            i = y * WINDOW.stride[0] + r * WINDOW.dilation[0] - WINDOW.padding[0]
            if i >= 0 and i < x.shape[2]:
                for v in range(vectors):
                    z = inner + v * L
                    slope = kl.vload(dy, n, k, y, z, lanes=L)
                    for s in kl.static_range(S):
                        j = z + s * WINDOW.dilation[1] - LEFT
                        seen = kl.vload(x, n, channel, i, j, lanes=L)
                        held[r * S + s] = kl.fma(slope, seen, held[r * S + s])
                for z in range(width):
                    if z < inner or z >= inner + vectors * L:
                        slope = sums.dtype(dy[n, k, y, z])
                        for s in kl.static_range(S):
                            j = z + s * WINDOW.dilation[1] - LEFT
                            if j >= 0 and j < x.shape[3]:
                                seen = sums.dtype(x[n, channel, i, j])
                                sums[r * S + s] = kl.fma(slope, seen, sums[r * S + s])
    for t in kl.static_range(R * S):
        for lane in kl.static_range(L):
            sums[t] += held[t][lane]


def sum_groups(device: Device, shape: Geometry, layout: Layout, x: Any, dy: Any, dw: Any) -> None:
    """Makes the gradient by filters.

    Parameters
    ----------
    device : Device
        Where the arrays are.
    shape : Geometry
        Of the convolution, of at most `MOST_TAPS` taps.
    layout : {"NCHW", "NHWC"}
        Of images and gradients.
    x, dy : array
        Images and gradients by results.
    dw : array, shape (K, C / groups, R, S)
        Where to put the gradient.
    """
    x, dy = (as_nchw(device, a, layout) for a in (x, dy))
    make = _by_channels if layout == "NHWC" else _by_pixels
    make(device, shape, x, dy, dw)


def _by_channels(device: Device, shape: Geometry, x: Any, dy: Any, dw: Any) -> None:
    can, space, depth = device.capabilities, device.namespace(), shape.channels // shape.groups
    depthwise = depth == 1 and shape.filters == shape.groups
    room = can.vector_bytes if can.single_work_items else _PER_ITEM
    lanes = max(1, min(16, room // dtype(dy.dtype).itemsize))
    lanes = gcd(lanes, shape.filters if depthwise else shape.filters // shape.groups)
    vectors = shape.filters // lanes * depth * shape.window.taps[0]
    wanted = can.compute_units * (1 if can.single_work_items else _ITEMS)
    parts = max(1, min(shape.images * shape.result[0], wanted // vectors))
    kind = dtype(dw.dtype).register
    sums = device.empty((parts, *shape.window.taps, depth, shape.filters), kind)
    plan = SumPlan(shape.window, lanes, depthwise)
    enqueue(sum_group_channels[vectors * parts, None], x, dy, sums, depth, PLAN=plan)
    add_up(device, sums, space.permute_dims(dw, (2, 3, 1, 0)))


def _by_pixels(device: Device, shape: Geometry, x: Any, dy: Any, dw: Any) -> None:
    kind = dtype(dw.dtype).register
    can, depth = device.capabilities, shape.channels // shape.groups
    alone = can.single_work_items
    vectors = alone and shape.window.stride[1] == 1
    lanes = min(16, can.vector_bytes // kind.itemsize) if vectors else 1
    wanted = can.compute_units * _GROUPS
    parts = max(1, min(shape.images * shape.result[0], wanted // (shape.filters * depth)))
    sums = device.empty((parts, shape.filters, depth, *shape.window.taps), kind)
    launcher = sum_group_pixels[
        groups(shape.filters * depth * parts), (1 if alone else _WORKGROUP, 1, 1)
    ]
    plan = SumPlan(shape.window, lanes, depthwise=False)
    enqueue(launcher, x, dy, sums, depth, PLAN=plan)
    add_up(device, sums, dw)
