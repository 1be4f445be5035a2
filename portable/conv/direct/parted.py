"""Single precision by Hopper's matrix units: products of parts of pixels and of filters.

A number is the sum of a high part of 11 bits and what is left, a low one. Warpgroups read factors
from local memory, 11 bits of each, so the parts lie there one after the other: what copies images
so that channels are neighbours writes both. Of the four products of parts the least is left out (H.
Ootomo, R. Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the FP32
theoretical peak performance", IJHPCA 36, 2022).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, Final

from portable import lang as kl
from portable.backend import Capabilities, Device
from portable.conv.direct.box_kernels import arrange, seen_by
from portable.conv.direct.boxes import FARTHEST, POINT, Boxes, blocks_of, products_of
from portable.conv.geometry import Geometry, Layout, Window
from portable.conv.layouts import as_nchw
from portable.conv.method import Epilogue
from portable.conv.tuning import leaves_units_idle
from portable.dtypes import DType, float32
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.enqueued import enqueue
from portable.lang.launch.geometry import groups
from portable.primitives.maps.elementwise_kernel import product_of, unravelled

PART: Final = 32
"""Channels whose high parts are neighbours; their low ones follow, both of a step of sums."""

_PLACES: Final = 64
"""Places of a tile that is turned in local memory."""

_ITEMS: Final = 256

_FEWEST_USES: Final = 384
_FEWEST_OF_STRIDES: Final = 160
_FEWEST_OF_SMALL: Final = 256
_SMALL: Final = 256
"""Products of an element that its copy has to save; strides take images apart anyway, and images of
few pixels leave tiles of other products empty."""

_FEWEST_PRODUCTS: Final = 2e8
_FEWEST_WITH_TAPS: Final = 2e7
"""Beside which further launches, and rings to be filled, are little: of one tap, and of others."""

_FEW_CHANNELS: Final = 8
_LONG: Final = 128
"""Channels beyond which, and products of a result from which on, patches are copied for few results
that would be gathered: such a product would not cut its sums. 7 x 7 of 344 channels of 14 x 14 with
stride 2 took 21 instead of 2,925 us so on an H200, of 24 channels of 21 x 21 23 instead of 124."""

_FEWEST_FILTERS: Final = 48
_FEWEST_OF_GROUPS: Final = 16
_FEWEST_DEPTH: Final = 64
"""Of fewer, tiles are left empty."""

_DROPPED: Final = 0x1FFF
"""The bits of a number that matrix units leave out."""


def parted(device: Device, shape: Geometry, kind: DType, layout: Layout) -> Parted | None:
    """The method, or None where there are no such units, or it does not pay.

    Parameters
    ----------
    device, shape, kind, layout
        As of `Method`.
    """
    if not pays(device.capabilities, shape, kind):
        return None
    patches = not _keeps_pixels(shape)
    return Parted(device, shape, kind, layout, None, "given", patches=patches, rows=True)


def pays(capabilities: Capabilities, shape: Geometry, kind: DType) -> bool:
    """Whether a device has instructions and copies for products of parts, and they pay."""
    if kind is not float32 or "wgmma.tf32" not in capabilities.matrix_units:
        return False
    strided, places = shape.window.stride != (1, 1), shape.images * prod(shape.result)
    if shape.groups > 1:
        each = places * shape.window.count * products_of(shape, blocks_of(shape, kind, True))
        wide = min(shape.channels, shape.filters) // shape.groups > _FEWEST_OF_GROUPS
        return wide and shape.window.count > 1 and each >= _FEWEST_WITH_TAPS
    copied = shape.images * shape.height * shape.width * shape.channels
    if not _keeps_pixels(shape):
        copied = places * shape.depth
    products = float(places * shape.depth * shape.filters)
    uses = _FEWEST_OF_STRIDES if strided else _FEWEST_USES
    plain = shape.window.count == 1 and not strided
    if plain and prod(shape.result) < _SMALL:
        uses = _FEWEST_OF_SMALL
    fewest = _FEWEST_PRODUCTS if plain else _FEWEST_WITH_TAPS
    deep = shape.depth >= _FEWEST_DEPTH and shape.filters >= _FEWEST_FILTERS
    if deep and products >= max(fewest, uses * copied):
        return True
    gathered = shape.channels > _FEW_CHANNELS and (strided or shape.channels < PART)
    return gathered and shape.depth >= _LONG and leaves_units_idle(capabilities, shape)


def _keeps_pixels(shape: Geometry) -> bool:
    """Whether pixels are copied as they are, for windows of any taps that share some."""
    window = shape.window
    sides = zip(window.taps, window.stride, strict=True)
    shared = window.stride == (1, 1) or any(taps > step for taps, step in sides)
    near = max(window.stride) <= FARTHEST
    return near and shape.channels >= PART and (shared or shape.groups > 1)


def doubled(depth: int) -> int:
    """Elements of a row of parts of so many channels."""
    return -(-depth // PART) * 2 * PART


@dataclass(frozen=True, kw_only=True)
class Parted(Boxes):
    """The product of `portable.conv.direct.box_kernels` of parts of images and of filters."""

    @cached_property
    def seen(self) -> Geometry:
        """The convolution as it is multiplied."""
        return replace(self.shape, channels=self._row)

    @cached_property
    def _row(self) -> int:
        """Elements of a row of parts of images, of each block by itself."""
        depth = self.shape.channels * (self.shape.window.count if self.patches else 1)
        return self.blocks * doubled(depth // self.blocks)

    def filters(self, w: Any, turned: bool = False) -> Any:
        """Parts of filters (taps, 2 C, blocks, K), along channels; patches are those of a tap."""
        shape, space, blocks = self.shape, self.device.namespace(), self.blocks
        depth, count = shape.channels // blocks, shape.filters // blocks
        room = self.device.empty((shape.window.count, depth, blocks, count), self.kind)
        each, merged = shape.filters // shape.groups, shape.groups // blocks
        arrange(w, room, each, merged, turned)
        taps = self.window.count
        arranged = space.reshape(room, (taps, -1, blocks, count))
        laid_out = self.device.empty((taps, blocks, count, self._row // blocks), self.kind)
        enqueue(part_filters[prod(laid_out.shape) // 2, None], arranged, laid_out)
        return space.permute_dims(laid_out, (0, 3, 1, 2))

    def _batch(self, x: Any, filters: Any, out: Any, epilogue: Epilogue, workspace: Any) -> None:
        if self.layout == "NCHW":
            out = self.device.namespace().permute_dims(out, (0, 2, 3, 1))
        self._multiply(self._rearrange(x, workspace)[0], filters, out, epilogue)

    def _rearrange(self, x: Any, workspace: Any) -> tuple[Any, int]:
        """Parts of images (N, H, W, 2 C), or of what windows see of them."""
        x, space = as_nchw(self.device, x, self.layout), self.device.namespace()
        (height, width, _), size = self._rearranged(), x.shape[0] * self.rearranged_elements[0]
        places = space.reshape(workspace[:size], (x.shape[0], height * width, self._row))
        tiles = x.shape[0] * -(-height * width // _PLACES) * self._row // (2 * PART)
        launcher, turned = part_pixels[groups(tiles), (_ITEMS, 1, 1)], self.layout == "NCHW"
        given: dict[str, Any] = {"WINDOW": self.shape.window if self.patches else POINT}
        given |= {"PLACES": _PLACES, "TURNED": turned, "BLOCKS": self.blocks}
        enqueue(launcher, x, places, width, **given)
        return space.reshape(places, (x.shape[0], height, width, places.shape[2])), size

    @cached_property
    def rearranged_elements(self) -> tuple[int, int]:
        """Elements of workspace for the parts of an image."""
        height, width, _ = self._rearranged()
        return height * width * self._row, 0

    @property
    def multiplied(self) -> Geometry:
        """Of pixels' parts, or of those of patches."""
        return replace(super().multiplied, channels=self._row)


@function
def high_part(x: kl.Scalar) -> Any:
    """The first 11 bits of a number, rounded."""
    bits = kl.bitcast(x, kl.u32)
    return kl.bitcast((bits + kl.u32((_DROPPED + 1) // 2)) & ~kl.u32(_DROPPED), kl.f32)


@kernel
def part_pixels(
    x: kl.Array,
    out: kl.Array,
    columns: kl.Scalar,
    *,
    WINDOW: Window,
    PLACES: int,
    TURNED: bool,
    BLOCKS: int,
) -> None:
    """``out[n, y columns + z]``: parts of what windows see of images (N, C, H, W).

    High parts of `PART` of (tap, channel), then their low ones, zero beyond the last of a block. A
    makes those of a tile of places; where it is `TURNED`, neighbouring work-items read neighbouring
    pixels, and they pass through local memory: ``PART (PLACES + 1)`` elements.
    """
    down, places = WINDOW.count * x.shape[1] // BLOCKS, out.shape[1]
    across = out.shape[2] // (2 * PART)
    tiles = kl.cdiv(places, PLACES) * across
    n, tile = kl.group_id(0) // tiles, kl.group_id(0) % tiles
    first, chunk, each = tile // across * PLACES, tile % across, across // BLOCKS
    channel, before = chunk % each * PART, chunk // each * down
    room = kl.local((PART, PLACES + 1), x.dtype)
    if TURNED:
        lane, line = kl.local_id(0) % PLACES, kl.local_id(0) // PLACES
        for i in kl.static_range(0, PART, kl.local_size(0) // PLACES):
            d, at = channel + line + i, first + lane
            if d < down and at < places:
                room[line + i, lane] = seen_at(x, n, at, before + d, columns, WINDOW)
        kl.barrier()
    lane, line = kl.local_id(0) % PART, kl.local_id(0) // PART
    d, target = before + channel + lane, 2 * PART * chunk + lane
    for i in kl.static_range(0, PLACES, kl.local_size(0) // PART):
        at = first + line + i
        if at < places:
            value = x.dtype(0)
            if channel + lane < down:
                value = room[lane, line + i] if TURNED else seen_at(x, n, at, d, columns, WINDOW)
            high = high_part(value)
            out[n, at, target] = high
            out[n, at, target + PART] = value - high


@function
def seen_at(
    x: kl.Array, n: kl.Scalar, at: kl.Scalar, d: kl.Scalar, columns: kl.Scalar, WINDOW: Window
) -> Any:
    """What the window of the `at`-th place sees as (tap, channel) d."""
    tap = 0 if WINDOW.count == 1 else d // x.shape[1]
    return seen_by(x, n, d - tap * x.shape[1], tap, at // columns, at % columns, WINDOW)


@kernel
def part_filters(w: kl.Array, out: kl.Array) -> None:
    """``out[t, b, k]``: parts of ``w[t, :, b, k]`` as of `part_pixels`."""
    extents = out.shape[0], out.shape[1], out.shape[2], out.shape[3] // 2
    if kl.global_id(0) < product_of(extents):
        t, b, k, d = unravelled(kl.global_id(0), extents)
        value = w.dtype(0)
        if d < w.shape[1]:
            value = w[t, d, b, k]
        high, at = high_part(value), d // PART * PART + d
        out[t, b, k, at] = high
        out[t, b, k, at + PART] = value - high
