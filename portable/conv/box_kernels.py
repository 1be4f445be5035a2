"""Convolution as a product of matrices whose rows are boxes of images with neighbouring channels.

A tile of `portable.linalg.gemm_kernels.gemm_tiles` is copied as rectangles; here the rows of the
first operand's tile are a box of images, rows and columns, moved for each tap of the filter, so
that whole vectors of channels are copied, by a copy engine where there is one, and zeros from
outside of the images come by themselves.
"""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.conv.geometry import Window
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.gemm_kernels import tile_position

__all__ = ["arrange_filters", "gather_patches", "multiply_boxes"]

GROUP: Final = 8
"""Boxes of the same filters that follow each other before the next filters."""


@kernel
def multiply_boxes(
    x: Any,
    w: Any,
    out: Any,
    bias: Any,
    *,
    WINDOW: Window,
    BOX: tuple[int, int, int],
    BN: int,
    BK: int,
    STAGES: int,
    APART: bool,
    UNITS: bool,
    ACC: Any,
    ACTIVATION: Any,
) -> None:
    """A workgroup per `BOX` of the results' places (images, rows, columns) and ``BN`` filters.

    Images `x` are (N, H, W, C), results `out` (N, H', W', K), filters `w` (taps, C, K); the
    stride is 1. A step multiplies ``BK`` channels of one tap; the taps of a channel follow each
    other, since they see nearly the same pixels. The ring of ``STAGES`` tiles is gemm's.
    Local memory: ``STAGES (BM + BN) BK`` elements for a box of ``BM`` places, and padding.
    """
    images, height, width = BOX
    BM = images * height * width
    TAPS = WINDOW.taps[0] * WINDOW.taps[1]
    n, y, z, first = box_of_workgroup(out, BOX, BN)
    AHEAD = 0 if APART else STAGES - 1
    tile_x = kl.local((STAGES, BM, BK), x.dtype)
    tile_w = kl.local((STAGES, BK, BN), w.dtype)
    acc = kl.matrix((BM, BN), ACC, scope="workgroup", units=UNITS)
    acc.fill(0)
    for stage in kl.static_range(AHEAD):
        start_copies(tile_x[stage], tile_w[stage], x, w, n, y, z, first, stage, WINDOW, BOX)
    for step in range(TAPS * kl.cdiv(x.shape[3], BK)):
        if AHEAD > 0:
            kl.copy_wait(AHEAD - 1)
            kl.barrier()
        ahead = step + AHEAD
        slot = ahead % STAGES
        start_copies(tile_x[slot], tile_w[slot], x, w, n, y, z, first, ahead, WINDOW, BOX)
        if AHEAD == 0:
            kl.copy_wait(0)
            kl.barrier()
        now = step % STAGES
        left = x.shape[3] - step // TAPS * BK
        kl.mma(acc, tile_x[now], tile_w[now], valid=(BM, out.shape[3] - first, left))
        if STAGES == 1:
            kl.barrier()
    acc.map(activated, first, bias, ACTIVATION)
    acc.store(
        out[n : n + images, y : y + height, z : z + width, first : first + BN],
    )


@function
def box_of_workgroup(out: Any, BOX: tuple[int, int, int], BN: int) -> Any:
    """The first image, row, column and filter of the results that are this workgroup's."""
    images, height, width = BOX
    down, across = kl.cdiv(out.shape[1], height), kl.cdiv(out.shape[2], width)
    boxes, columns = kl.cdiv(out.shape[0], images) * down * across, kl.cdiv(out.shape[3], BN)
    box, column = tile_position(kl.group_id(0), boxes, columns, GROUP)
    place = box % (down * across)
    return (
        box // (down * across) * images,
        place // across * height,
        place % across * width,
        column * BN,
    )


@function
def start_copies(
    tile_x: Any,
    tile_w: Any,
    x: Any,
    w: Any,
    n: Any,
    y: Any,
    z: Any,
    first: Any,
    step: Any,
    WINDOW: Window,
    BOX: tuple[int, int, int],
) -> None:
    """Starts to copy what a step multiplies."""
    images, height, width = BOX
    BK, BN = tile_w.shape
    TAPS = WINDOW.taps[0] * WINDOW.taps[1]
    tap, channel = step % TAPS, step // TAPS * BK
    top = y + tap // WINDOW.taps[1] * WINDOW.dilation[0] - WINDOW.padding[0]
    left = z + tap % WINDOW.taps[1] * WINDOW.dilation[1] - WINDOW.padding[1]
    kl.copy_async(
        tile_x,
        x[n : n + images, top : top + height, left : left + width, channel : channel + BK],
    )
    kl.copy_async(tile_w, w[tap, channel : channel + BK, first : first + BN])
    kl.copy_commit()


@function
def activated(total: Any, i: Any, j: Any, first: Any, bias: Any, activation: Any) -> Any:
    """A result in a tile, which may hold more filters than there are."""
    if bias is not None and first + j < bias.shape[0]:
        total += total.dtype(bias[first + j])
    return activation(total)


@kernel
def arrange_filters(w: Any, out: Any) -> None:
    """``out[r S + s, c, k] = w[k, c, r, s]``."""
    k, c = kl.global_id(0), kl.global_id(1)
    if k < w.shape[0] and c < w.shape[1]:
        for tap in range(out.shape[0]):
            out[tap, c, k] = w[k, c, tap // w.shape[3], tap % w.shape[3]]


@kernel
def gather_patches(x: Any, out: Any, *, WINDOW: Window) -> None:
    """``out[n, y, z, (r S + s) C + c]``: what the window sees of images (N, C, H, W), or zero."""
    at = kl.global_id(0)
    if at < out.shape[0] * out.shape[1] * out.shape[2] * out.shape[3]:
        place, d = at // out.shape[3], at % out.shape[3]
        z, rows = place % out.shape[2], place // out.shape[2]
        y, n = rows % out.shape[1], rows // out.shape[1]
        tap, c = d // x.shape[1], d % x.shape[1]
        down, across = tap // WINDOW.taps[1], tap % WINDOW.taps[1]
        i = y * WINDOW.stride[0] + down * WINDOW.dilation[0] - WINDOW.padding[0]
        j = z * WINDOW.stride[1] + across * WINDOW.dilation[1] - WINDOW.padding[1]
        value = kl.accumulator(x.dtype)(0)
        if i >= 0 and i < x.shape[2] and j >= 0 and j < x.shape[3]:
            value = value.dtype(x[n, c, i, j])
        out[n, y, z, d] = value
