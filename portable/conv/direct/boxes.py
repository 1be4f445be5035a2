"""Direct convolution of images whose channels are neighbours, or are made so first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import gcd, prod
from typing import Any, Final

from portable.backend import Device
from portable.conv.direct.adding import clear
from portable.conv.direct.box_kernels import (
    MOST_TURNED,
    BoxPlan,
    Gathering,
    add_parts,
    arrange,
    arrange_turning,
    gather_patches,
    multiply_boxes,
)
from portable.conv.geometry import Geometry, Layout, Pair, Window
from portable.conv.layouts import as_nchw, in_c_order
from portable.conv.method import Epilogue, Method, Split, most_workspace
from portable.conv.tuning import Scheme, direct_schemes
from portable.dtypes import DType, dtype, float32
from portable.lang.arguments.arguments import ALIGNMENT
from portable.lang.launch.enqueued import enqueue
from portable.lang.launch.geometry import groups
from portable.lang.launch.launch import Launcher
from portable.linalg.base.tiling import Tiling
from portable.linalg.products.kernels import keep
from portable.linalg.products.rows import copy_into
from portable.tune.space import Parameters
from portable.tune.table import first_accepted, state

Box = tuple[int, int, int]

POINT: Final = Window((1, 1), (1, 1), (0, 0), (1, 1))

_DEPTH: Final = 64
"""Channels of a step of the product, and edges of the smallest tiles."""

_WRITTEN: Final = 250
"""Products in whose time an element of a patch is written and read, on an H200."""

_RUN: Final = 4
"""Neighbouring results of which a work-item copies what a tap sees."""

_MOST_PATCHES: Final = 32 << 20
"""Bytes of patches at a time: a large GPU's last cache keeps them until they are multiplied."""

_LINE: Final = 128
_SECTOR: Final = 32
"""Bytes of a line of the last cache, and those that it gives at a time: what begins between them
takes copy engines longer."""

_LONG: Final = 4
"""Lines of a row from which on it may begin a line though more memory is copied."""

FARTHEST: Final = 8
"""The largest stride that copy engines take; of larger ones patches are written out."""

_MOST_SLOTS: Final = 8
_KEPT: Final = 4096
"""Bytes of local memory for what is no slot of a ring."""

_FEWEST_CHANNELS: Final = 24
"""Of a group whose images are copied with channels last for products without matrix units."""

_HALO: Final = 0.02
"""What reading a pixel again for another tile costs, beside using it."""

_EDGES: Final = (32, 64)
"""Of what tiles of channels and of filters are multiples, about."""

_COPIED: Final = 2000.0
"""Products in whose time an element of images is copied, so that channels of blocks are aligned: 3
x 3 with stride 2 of two groups of 28 to 204 channels took 218 us so on an H200, 82 in one block."""

_MOST_FOR_NOTHING: Final = 32
"""Products for each that counts up to which groups are multiplied with others' channels."""


def boxes(
    device: Device,
    shape: Geometry,
    kind: DType,
    layout: Layout,
    choice: Parameters | None = None,
    split: Split = False,
) -> Boxes | None:
    """The method, or None where images would have to be rearranged for no gain.

    Parameters
    ----------
    device, shape, kind, layout, choice, split
        As of `Method`.
    """
    channels_last = layout == "NHWC"
    units = by_matrix_units(device, kind, split)
    if 0 in (*shape.result, shape.images, shape.channels, shape.filters):
        return None
    blocks = blocks_of(shape, kind, bool(split))
    if shape.groups > 1 and not (units and _pays_in_blocks(shape, blocks)):
        return None
    far = max(folded(shape).window.stride) > FARTHEST
    patches = far or (units and shape.groups == 1 and _is_shallow(shape))
    unaligned = shape.channels // blocks * kind.itemsize % ALIGNMENT > 0
    rows = not channels_last or (units and unaligned)
    if patches and (not units or kind is float32 or shape.groups > 1):
        return None
    if rows and not units and not _worth_copying(shape):
        return None
    aligned = rows and not patches
    return Boxes(device, shape, kind, layout, choice, split, patches=patches, rows=aligned)


def by_matrix_units(device: Device, kind: DType, split: Split) -> bool:
    """Whether matrix units multiply images of a dtype, of single precision by parts."""
    units = device.capabilities.matrix_units
    if kind is float32:
        return bool(split) and "mma.tf32" in units
    return kind.itemsize == 2 and f"mma.{kind.short}" in units


def _worth_copying(shape: Geometry) -> bool:
    """Whether images with channels first are copied for gradients without matrix units.

    On two cores 3 x 3 with stride 2 of 256 channels of 7 x 7 took 0.4 of the time so, 5 x 5 of 24
    of 28 x 28 0.55; what filters see of few channels is gathered.
    """
    return shape.channels // shape.groups >= _FEWEST_CHANNELS and shape.window.count > 1


def folded(shape: Geometry) -> Geometry:
    """The same convolution with the taps of a row as channels, where they lie side by side.

    So they do where windows leave no pixel out and share none.
    """
    (rows, taps), (down, across) = shape.window.taps, shape.window.stride
    above, left = shape.window.padding
    below, right = shape.behind or shape.window.padding
    apart = taps == across > 1 and left == right == 0 and shape.window.dilation[1] == 1
    if not apart or shape.width % across or shape.groups > 1:
        return shape
    window = Window((rows, 1), (down, 1), (above, 0), (shape.window.dilation[0], 1))
    behind = None if below == above else (below, 0)
    extents = shape.channels * across, shape.height, shape.width // across
    return Geometry(shape.images, *extents, shape.filters, 1, window, behind)


def _is_shallow(shape: Geometry) -> bool:
    """Whether it takes less time to write all that windows see than to multiply few channels.

    Counted in products for a result's place: a step multiplies whole tiles, however few channels.
    """
    taps, columns = shape.window.count, -(-shape.filters // _DEPTH)
    step = columns * _DEPTH * _DEPTH
    written = _WRITTEN * taps * shape.channels + -(-taps * shape.channels // _DEPTH) * step
    return written < taps * -(-shape.channels // _DEPTH) * step


@lru_cache(maxsize=1024)
def blocks_of(shape: Geometry, kind: DType, merged: bool) -> int:
    """Into how many blocks channels and filters come apart, of whole groups each.

    Those with least to multiply: a tile of the product is filled by several small groups, which see
    each other's channels times zero. Channels of a block that would not begin aligned are copied.

    Parameters
    ----------
    shape : Geometry
    kind : DType
        Of images and filters.
    merged : bool
        Whether a block may hold several groups: an infinite number in one makes results NaN of all.
    """
    groups, aligned = shape.groups, ALIGNMENT // kind.itemsize
    if not merged:
        return groups
    possible = [n for n in range(1, groups + 1) if groups % n == 0]

    def cost(blocks: int) -> float:
        products = shape.images * prod(shape.result) * shape.window.count
        copied = blocks > 1 and kind.itemsize == 2 and shape.channels // blocks % aligned > 0
        pixels = shape.images * shape.height * shape.width * shape.channels
        return products * products_of(shape, blocks) + _COPIED * pixels * copied

    return min(possible, key=cost)


def products_of(shape: Geometry, blocks: int) -> int:
    """Products for each tap and place of so many blocks, with those of tiles' edges."""
    depth, filters = (
        -(-n // blocks // edge) * edge
        for n, edge in zip((shape.channels, shape.filters), _EDGES, strict=True)
    )
    return blocks * depth * filters


def _pays_in_blocks(shape: Geometry, blocks: int) -> bool:
    useful = shape.channels // shape.groups * shape.filters
    return products_of(shape, blocks) <= _MOST_FOR_NOTHING * useful


@dataclass(frozen=True, kw_only=True)
class Boxes(Method):
    """The product of `portable.conv.direct.box_kernels`, for images of one shape.

    Results with channels first are made with channels last, then copied.

    Attributes
    ----------
    patches : bool
        Whether what windows see is written out first, as it is for few channels.
    rows : bool
        Whether images are copied first, so that channels are neighbours in aligned rows.
    """

    patches: bool
    rows: bool

    @cached_property
    def seen(self) -> Geometry:
        """The convolution as it is multiplied."""
        return self.shape if self.patches else folded(self.shape)

    @cached_property
    def blocks(self) -> int:
        """Into how many blocks of channels and filters groups are put together."""
        return blocks_of(self.shape, self.kind, bool(self.split))

    def in_blocks(self, x: Any, count: int) -> Any:
        """Images, results or parts of their sums with blocks of `count` channels apart."""
        if self.blocks == 1:
            return x
        extents = (*x.shape[:-1], self.blocks, x.shape[-1] // self.blocks)
        return self.device.namespace().reshape(x, extents)[..., : count // self.blocks]

    def workspace(self) -> tuple[int, int]:
        """Elements of workspace for all images, if they are rearranged, and for one."""
        each = sum(self.rearranged_elements)
        size = max(1, each) * self.kind.itemsize
        most = most_workspace(self.device)
        if self.patches and not self.splits:
            most = min(most, _MOST_PATCHES)
        return min(self.shape.images, max(1, most // size)) * each, each

    @cached_property
    def window(self) -> Window:
        """What filters see of images as they are multiplied."""
        return POINT if self.patches else self.seen.window

    @cached_property
    def along_channels(self) -> bool:
        """Whether filters lie along channels, of which warpgroups take tiles of any width."""
        kind = "tf32" if self.splits == "first" else self.kind.short
        return f"wgmma.{kind}" in self.device.capabilities.matrix_units

    def filters(self, w: Any, turned: bool = False) -> Any:
        """Filters as matrices (taps, C, blocks, K) of blocks, patches being channels of a tap."""
        shape, blocks, space = self.shape, self.blocks, self.device.namespace()
        taps, depth, count = shape.window.count, shape.channels // blocks, shape.filters // blocks
        each, merged = shape.filters // shape.groups, shape.groups // blocks
        steps = self.window.count
        if self.along_channels:
            deep = taps // steps * depth
            row = _rounded(deep, _LINE // self.kind.itemsize)
            laid_out = self.device.empty((steps, blocks, count, row), self.kind)
            laid_out = laid_out[..., :deep]
            room = space.reshape(laid_out, (steps, blocks, count, taps // steps, depth))
            if shape.groups == 1 and steps in (1, taps) and taps <= MOST_TURNED:
                filters = space.permute_dims(room, (1, 2, 0, 3, 4))
                arrange_turning(w, filters[0, :, 0] if steps == 1 else filters[0, :, :, 0], turned)
            else:
                arrange(w, space.permute_dims(room, (0, 3, 4, 1, 2)), each, merged, turned)
            return space.permute_dims(laid_out, (0, 3, 1, 2))
        room = self.device.empty((taps, depth, blocks, self.padded(count)), self.kind)
        arrange(w, room, each, merged, turned)
        return space.reshape(room, (steps, -1, blocks, room.shape[3]))[..., :count]

    def run(self, x: Any, filters: Any, out: Any, epilogue: Epilogue, workspace: Any) -> None:
        """Makes results of images."""
        each = sum(self.rearranged_elements)
        if not each:
            self._multiply(x, filters, out, epilogue)
            return
        batch = workspace.shape[0] // each
        for first in range(0, self.shape.images, batch):
            part = slice(first, first + batch)
            self._batch(x[part], filters, out[part], epilogue.of_images(part), workspace)

    def _batch(self, x: Any, filters: Any, out: Any, epilogue: Epilogue, workspace: Any) -> None:
        """The results of some images, which the workspace is large enough for."""
        images, size = self._rearrange(x, workspace)
        if self.layout == "NHWC":
            self._multiply(images, filters, out, epilogue)
            return
        space, (count, filtered, *places) = self.device.namespace(), out.shape
        extents = (count, *places, filtered if self.blocks > 1 else self.padded(filtered))
        room = space.reshape(workspace[size:][: prod(extents)], extents)[..., :filtered]
        self._multiply(images, filters, room, epilogue)
        copy_into(room, space.permute_dims(out, (0, 2, 3, 1)))

    def as_multiplied(self, x: Any) -> Any:
        """Images (N, H, W, C) as they are, folded or with blocks apart."""
        seen = self.seen
        is_folded = seen.width < self.shape.width
        if self.patches or not (is_folded or self.blocks > 1):
            return x
        if not in_c_order(self.device, x):
            room = self.device.empty(x.shape, self.kind)
            copy_into(x, room)
            x = room
        if is_folded:
            extents = *x.shape[:2], seen.width, seen.channels
            return self.device.namespace().reshape(x, extents)
        return self.in_blocks(x, seen.channels)

    def rearranged(self, x: Any) -> Any:
        """Some images as `run` multiplies them: as they are where that will do."""
        if not (self.patches or self.rows):
            return x
        room = self.device.empty((x.shape[0] * self.rearranged_elements[0],), self.kind)
        return self._rearrange(x, room)[0]

    def _rearrange(self, x: Any, workspace: Any) -> tuple[Any, int]:
        """Images (N, H, W, C) or what filters see of them, and how much workspace they take."""
        space, count = self.device.namespace(), x.shape[0]
        x = as_nchw(self.device, x, self.layout)
        size = count * self.rearranged_elements[0]
        height, width, depth = self._rearranged()
        extents = (count, height, width, self.padded(depth))
        room = space.reshape(workspace[:size], extents)
        if not self.patches:
            return channels_last(self.device, x, room, self.blocks)[..., :depth], size
        lanes = ALIGNMENT // self.kind.itemsize
        piece = gcd(self.shape.channels, lanes) if self.layout == "NHWC" else 1
        plan = Gathering(self.shape.window, lanes, piece, _RUN)
        items = count * height * -(-width // _RUN) * room.shape[3] // lanes
        enqueue(gather_patches[items, None], x, room, PLAN=plan)
        return room[..., :depth], size

    def _multiply(self, x: Any, w: Any, out: Any, epilogue: Epilogue) -> None:
        places, images = out.shape[:3], self.as_multiplied(x)
        bias, activation, residual = epilogue
        accumulator, target = self.kind.register, out
        if self.blocks > 1 and not in_c_order(self.device, out):
            target = self.device.empty(out.shape, self.kind)
        if residual is not None and self.layout == "NCHW":
            residual = self.device.namespace().permute_dims(residual, (0, 2, 3, 1))

        def use(scheme: Scheme) -> None:
            launcher, plan = self._planned(scheme, tuple(places), residual is None)
            if plan.parts == 1:
                beside, sums, last = (bias, residual), target, activation
            else:
                shape = plan.parts, *out.shape
                beside, sums, last = (None, None), self.device.empty(shape, accumulator), keep
            given = images, w, self.in_blocks(sums, out.shape[3]), *beside
            enqueue(launcher, *given, PLAN=plan, ACTIVATION=last, ACC=accumulator)
            if plan.parts > 1:
                adder = add_parts[prod(out.shape), None]
                enqueue(adder, sums, target, bias, residual, ACTIVATION=activation)

        first_accepted(self._schemes, use)
        if target is not out:
            copy_into(target, out)

    @cached_property
    def _plans(self) -> dict[Any, tuple[Launcher, BoxPlan]]:
        """By choice and places: one object each, which launches recognise at once."""
        return {}

    def _planned(self, scheme: Scheme, places: Box, alone: bool) -> tuple[Launcher, BoxPlan]:
        """How results of so many places are multiplied by filters.

        Tiles are made in turn where nothing is added to sums, which would be read first.
        """
        (choice, parts), window = scheme, self.window
        key = id(choice), parts, places, alone
        if key not in self._plans:
            box = box_of(choice["BM"], places, window.taps)
            tiles = prod(-(-n // extent) for n, extent in zip(places, box, strict=True))
            count = tiles * self.blocks * -(-self.shape.filters // self.blocks // choice["BN"])
            resident = choice.get("RESIDENT", 0) if alone and parts == 1 else 0
            slots = self._slots(choice, count * parts)
            given = {**choice, "RESIDENT": resident, "STAGES": slots}
            tiling = Tiling.of(given, split=self.splits)
            plan = BoxPlan(window, box, tiling, parts, self.blocks)
            most = resident * self.device.capabilities.compute_units
            count = min(count, most) if tiling.persistent else count * parts
            workgroup = (choice["WORKGROUP"], 1, 1)
            self._plans[key] = multiply_boxes[groups(count), workgroup], plan
        return self._plans[key]

    def _slots(self, choice: Parameters, workgroups: int) -> int:
        """Of the ring: as many as fit where a unit has one workgroup, whose copies come late."""
        can = self.device.capabilities
        if not choice["SPECIALISED"] or workgroups > can.compute_units:
            return int(choice["STAGES"])
        slot = int(choice["BM"] + choice["BN"]) * choice["BK"] * self.kind.itemsize
        most: int = (can.local_memory_most - _KEPT) // slot
        return max(int(choice["STAGES"]), min(_MOST_SLOTS, most))

    @cached_property
    def _schemes(self) -> tuple[Scheme, ...]:
        if self.choice is not None:
            return ((self.choice, 1),)
        given = self.kind, self.multiplied, state(), self.splits, self.blocks
        return direct_schemes(self.device, *given)

    @property
    def multiplied(self) -> Geometry:
        """The convolution by whose extents tiles are chosen: as it is seen, patches of one tap."""
        if not self.patches:
            return self.seen
        shape = self.shape
        return replace(
            shape,
            channels=shape.window.count * shape.channels,
            window=POINT,
            height=shape.result[0],
            width=shape.result[1],
            behind=None,
        )

    @cached_property
    def rearranged_elements(self) -> tuple[int, int]:
        """Elements of workspace for a rearranged image, and for its results in another order."""
        images = results = 0
        if self.patches or self.rows:
            height, width, depth = self._rearranged()
            images = height * width * self.padded(depth)
        if self.layout == "NCHW":
            results = prod(self.shape.result) * self.row(self.shape.filters)
        return images, results

    def _rearranged(self) -> tuple[int, int, int]:
        """Height, width and depth of rearranged images."""
        shape = self.shape
        if self.patches:
            return *shape.result, shape.window.count * shape.channels
        depth = shape.channels if shape.groups == 1 else self.row(shape.channels)
        return shape.height, shape.width, depth

    def row(self, filters: int) -> int:
        """Elements of a row of channels, those of each block aligned."""
        return self.blocks * self.padded(filters // self.blocks)

    def padded(self, extent: int) -> int:
        """An extent rounded up so that rows of it are aligned, as is fastest to copy."""
        unit, size = ALIGNMENT, extent * self.kind.itemsize
        if self.along_channels and self.blocks == 1 and size > unit:
            unit = _LINE if self.rows and size >= _LONG * _LINE else _SECTOR
        return _rounded(extent, unit // self.kind.itemsize)


def _rounded(extent: int, multiple: int) -> int:
    return -(-extent // multiple) * multiple


def channels_last(device: Device, x: Any, room: Any, blocks: int = 1) -> Any:
    """Images copied so that channels are neighbours.

    Parameters
    ----------
    device : Device
        Where they are.
    x : array, shape (N, C, H, W)
        The images, of any strides.
    room : array, shape (N, H or more, W or more, C or more)
        Where to put them, with zeros behind them.
    blocks : int
        Of as many channels each, which have as much of the room.

    Returns
    -------
    array
        `room`.
    """
    space, (count, channels, *extents) = device.namespace(), x.shape
    depth, whole = channels // blocks, list(room.shape[1:3]) == extents
    lines = (1, prod(extents)) if whole else tuple(room.shape[1:3])
    rows = space.reshape(room, (count, *lines, blocks, -1))
    if not whole:
        clear(room)  # vectors are read whole
        lines = tuple(extents)
    elif depth % (vector := ALIGNMENT // dtype(room.dtype).itemsize):
        clear(rows[:, 0, ..., depth : _rounded(depth, vector)])
    pixels = space.reshape(x, (count, blocks, depth, *lines))
    target = space.permute_dims(rows[:, : lines[0], : lines[1], :, :depth], (0, 3, 1, 2, 4))
    copy_into(space.permute_dims(pixels, (0, 1, 3, 4, 2)), target)
    return room


@lru_cache(maxsize=4096)
def box_of(count: int, places: Box, taps: Pair) -> Box:
    """Images, rows and columns of boxes that cover all places with least left over.

    Boxes of few rows and columns cover best where there are many images, but read each pixel for
    more tiles.

    Parameters
    ----------
    count : int
        Places of a box.
    places : (int, int, int)
        Images, rows and columns to cover.
    taps : (int, int)
        Of the filter.
    """

    def cost(box: Box) -> float:
        covered = prod(-(-n // extent) * extent for n, extent in zip(places, box, strict=True))
        _, height, width = box
        seen = (height + taps[0] - 1) * (width + taps[1] - 1) / (height * width)
        return covered / prod(places) * (1 + _HALO * seen)

    return min(_boxes(count), key=lambda box: (cost(box), -box[2]))


def _boxes(count: int) -> list[Box]:
    """All boxes of so many places."""
    divisors = [n for n in range(1, count + 1) if count % n == 0]
    return [(count // h // w, h, w) for h in divisors for w in divisors if count % (h * w) == 0]
