"""The gradient by filters in the way of each method."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Device
from portable.conv.direct import gathered
from portable.conv.direct.adding import add_up
from portable.conv.direct.box_kernels import BoxPlan, sum_boxes
from portable.conv.direct.boxes import Boxes, box_of, boxes, channels_last
from portable.conv.direct.grouped import has_few_channels
from portable.conv.direct.product import Product, is_product
from portable.conv.geometry import Geometry, Layout, Window
from portable.conv.layouts import as_nchw, in_c_order
from portable.conv.method import Method, most_workspace
from portable.conv.tuning import sum_choices
from portable.conv.winograd.blocks import WinogradBlocks
from portable.conv.winograd.kernels import transform_gradient, transform_sums
from portable.conv.winograd.winograd import Winograd
from portable.dtypes import dtype
from portable.lang.arguments.arguments import ALIGNMENT
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.enqueued import enqueue
from portable.lang.launch.geometry import groups
from portable.linalg.base.tiling import Tiling
from portable.linalg.products.gemm import gemm
from portable.tune.space import Parameters
from portable.tune.table import first_accepted, state

# The gradient by filters by Winograd's minimal filtering, the transpose of the convolution.
#
# What is summed over tiles of images are the products of transformed tiles of images and of
# gradients by results; their sums are transformed to filters at last.


@dataclass(frozen=True, slots=True)
class WinogradGradient:
    """The gradient by filters of a convolution.

    Attributes
    ----------
    forward : Winograd
        The convolution.
    """

    forward: Winograd

    def run(self, x: Any, dy: Any, dw: Any) -> None:
        """Makes `dw` (K, C / groups, 3, 3) of images and gradients, seen as (N, C, H, W)."""
        forward = self.forward
        device, kind = forward.device, forward.workspace_kind
        workspace = device.empty((forward.workspace()[0],), kind)
        block = forward.block
        batch = workspace.shape[0] // forward.each * block
        firsts, count = range(0, forward.total, batch), forward.shape.groups
        each = forward.shape.filters // count, forward.shape.channels // count
        sums = device.empty((len(firsts), forward.by.inputs**2, count, *each), kind)
        for at, first in enumerate(firsts):
            blocks = -(-min(batch, forward.total - first) // block)
            v, m = forward.matrices(workspace, blocks)
            forward.transform_images(x, v, first)
            launcher = transform_gradient[forward.launch(blocks, forward.shape.filters)]
            enqueue(launcher, dy, m, forward.tiles_from(first), PLAN=forward.plan)
            images = forward.turned(forward.side_by_side(v))
            gemm(forward.side_by_side(m), images, out=sums[at], precision=forward.precision)
        enqueue(transform_sums[(dw.shape[1], dw.shape[0]), None], sums, dw, BY=forward.by)


# The gradient by filters of few channels a group, bound by memory.

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


# The gradient by filters as products whose rows are boxes of images, the transpose of `boxes`.

_ENOUGH: Final = 4
"""Workgroups for each compute unit above which sums are not cut further."""

_FEWEST_STEPS: Final = 4
"""Of a part."""


@dataclass(frozen=True)
class BoxGradient:
    """The gradient by filters of a convolution.

    Attributes
    ----------
    forward : Boxes
        The convolution.
    """

    forward: Boxes

    def run(self, x: Any, dy: Any, dw: Any) -> None:
        """Makes `dw` (K, C / groups, R, S) of images and gradients in the convolution's layout."""
        forward = self.forward
        device, space, shape = forward.device, forward.device.namespace(), forward.shape
        batch = self._batch
        firsts = range(0, shape.images, batch)
        parts = self._parts(min(batch, shape.images))
        taps, filters, channels = self._matrices
        extents = (len(firsts) * parts, taps, forward.blocks, filters, channels)
        # What nothing is added to is rounded once, as it is stored.
        alone = extents[0] == 1
        sums = device.empty(extents, forward.kind if alone else forward.kind.register)
        for at, first in enumerate(firsts):
            images, gradient = (a[first : first + batch] for a in (x, dy))
            target = sums[at * parts : (at + 1) * parts]
            seen = forward.as_multiplied(forward.rearranged(images))
            self._sum(seen, self._rearranged(gradient), target)
        (down, across), each = shape.window.taps, shape.filters // shape.groups
        if forward.patches:  # whose one tap has all taps' channels
            lying, order = (shape.filters, down, across, shape.channels), (0, 2, 3, 1)
        elif forward.seen is not shape:  # whose taps have those beside them as channels
            lying, order = (down, shape.filters, across, shape.channels), (2, 0, 3, 1)
        else:
            lying, order = (down, across, shape.filters, channels), (2, 3, 0, 1)
        sums = space.reshape(sums, (sums.shape[0], *lying))
        add_up(device, sums, space.permute_dims(dw, order), each)

    @cached_property
    def _matrices(self) -> tuple[int, int, int]:
        """Taps, and filters and channels of a tap that a block has."""
        taps, blocks = self.forward.window.count, self.forward.blocks
        shape = self.forward.shape
        depth = shape.channels * shape.window.count // taps
        return taps, shape.filters // blocks, depth // blocks

    @property
    def _batch(self) -> int:
        """Images that are taken at a time, so that those which are rearranged take no more room."""
        forward = self.forward
        each = sum(forward.rearranged_elements) * forward.kind.itemsize
        return max(1, min(forward.shape.images, most_workspace(forward.device) // max(1, each)))

    def _rearranged(self, dy: Any) -> Any:
        """Gradients (N, H', W', K) with aligned rows, or with blocks of their channels apart."""
        forward = self.forward
        filters, device = forward.shape.filters, forward.device
        aligned = filters // forward.blocks * forward.kind.itemsize % ALIGNMENT == 0
        whole = forward.blocks == 1 or in_c_order(device, dy)
        if forward.layout == "NHWC" and aligned and whole:
            return forward.in_blocks(dy, filters)
        extents = (dy.shape[0], *forward.shape.result, forward.row(filters))
        room, dy = device.empty(extents, forward.kind), as_nchw(device, dy, forward.layout)
        channels_last(device, dy, room, forward.blocks)
        apart = forward.blocks > 1
        return forward.in_blocks(room, filters) if apart else room[..., :filters]

    @cached_property
    def _choices(self) -> tuple[Parameters, ...]:
        forward = self.forward
        if forward.choice is not None:
            return (forward.choice,)
        taps, *size = self._matrices
        size = [*size, taps * forward.blocks]
        given = forward.kind, forward.shape, tuple(size), state(), forward.splits
        return sum_choices(forward.device, *given)

    def _parts(self, images: int) -> int:
        """Into how many parts the sums over so many images are cut, to have all units at work."""
        choice, (taps, rows, columns) = self._choices[0], self._matrices
        taps *= self.forward.blocks
        products = taps * -(-rows // choice["BM"]) * -(-columns // choice["BN"])
        units = self.forward.device.capabilities.compute_units
        places = images * prod(self.forward.shape.result)
        most = places // (_FEWEST_STEPS * int(choice["BK"]))
        return max(1, min(_ENOUGH * units // int(products), most))

    def _sum(self, x: Any, dy: Any, sums: Any) -> None:
        places, window = tuple(dy.shape[:3]), self.forward.window

        def use(choice: Parameters) -> None:
            tiles = -(-dy.shape[-1] // choice["BM"]) * -(-self._matrices[2] // choice["BN"])
            box, forward = box_of(choice["BK"], places, window.taps), self.forward
            tiling = Tiling.of(choice, split=forward.splits)
            plan = BoxPlan(window, box, tiling, blocks=forward.blocks)
            many = groups(prod(sums.shape[:3]) * tiles)
            launcher = sum_boxes[many, (choice["WORKGROUP"], 1, 1)]
            enqueue(launcher, x, dy, sums, PLAN=plan, ACC=forward.kind.register)

        first_accepted(self._choices, use)


# -- whichever -------------------------------------------------------------------------------------


def sum_gradient(method: Method, x: Any, dy: Any, dw: Any) -> None:
    """Makes the gradient by filters.

    Parameters
    ----------
    method : Method
        Of the convolution.
    x, dy : array
        Images and the gradient by results, in the method's layout.
    dw : array, shape (K, C / groups, R, S)
        Where to put the gradient.
    """
    device, shape = method.device, method.shape
    if has_few_channels(shape) and shape.window.count <= MOST_TAPS and dy.size:
        sum_groups(device, shape, method.layout, x, dy, dw)
        return
    boxed, transformed = None, isinstance(method, Winograd | WinogradBlocks)
    if isinstance(method, Boxes) or not (transformed or is_product(shape)):
        boxed = boxes(device, shape, method.kind, method.layout, method.choice, method.split)
    flat = shape.window.stride == (1, 1) or boxed is None
    # Sums over pixels of all images are not rounded on their way: there is one, or wide ones.
    exact = method.layout == "NHWC" or method.kind is method.kind.register
    if is_product(shape) and exact and flat and dy.size:
        Product(device, shape, method.kind, method.layout).sum_gradient(x, dy, dw)
        return
    if boxed is not None:
        BoxGradient(boxed).run(x, dy, dw)
        return
    images, gradient = (as_nchw(device, a, method.layout) for a in (x, dy))
    if isinstance(method, WinogradBlocks):
        method = method.stages
    if isinstance(method, Winograd) and dy.size:
        WinogradGradient(method).run(images, gradient, dw)
        return
    partial = device.empty((gathered.parts(device, shape), *dw.shape), method.kind.register)
    gathered.filter_gradient(device, shape, images, gradient, partial, method.choice)
    add_up(device, partial, dw)
