"""Winograd's convolution where a work-item has a processor's core to itself, all stages in one.

What is transformed stays in the core's caches: a block of tiles of all channels is transformed,
multiplied with the filters, a panel of them at a time, and their results are transformed back.
Vectors hold neighbouring tiles. Neither operand of the products is copied: filters lie as they are
read, panel after panel, since there are few tiles for each of them.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.conv.geometry import Pair
from portable.conv.winograd.block_transforms import LANES, find_runs, finish_tiles, transform_tiles
from portable.conv.winograd.kernels import transformed_filter
from portable.conv.winograd.points import Transforms
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.products.kernels import keep

_AHEAD: Final = 512
"""Elements of filters that are brought to a core's caches before they are multiplied."""


class BlockPlan(NamedTuple):
    """How a work-item convolves a block, a constant of kernels.

    Attributes
    ----------
    by : Transforms
    padding : (int, int)
        Rows and columns of zeros on each side of images.
    tiles : int
        Of a block.
    filters, vectors : int
        Filters of a panel, and vectors of tiles, whose products are summed in registers.
    activation : Function
        What becomes of results.
    """

    by: Transforms
    padding: Pair
    tiles: int
    filters: int
    vectors: int
    activation: Any = keep


@kernel
def pack_filters(w: kl.Array, u: kl.Array, *, BY: Transforms, TURNED: bool) -> None:
    """``u[g, p, e, c, r]`` is element e of the transformed filter ``p R + r`` of group g.

    Panels have R filters; what the last one lacks is zero. Filters `w`, `TURNED` or not, are as of
    `winograd_kernels.transform_filters`.
    """
    c, at = kl.global_id(0), kl.global_id(1)
    panels, depth, R = u.shape[1], u.shape[3], u.shape[4]
    g, k = at // (panels * R), at % (panels * R)
    if c < depth and g < u.shape[0]:
        filters = w.shape[1] if TURNED else w.shape[0] // u.shape[0]
        p, r = k // R, k % R
        if k < filters:
            filter_number = g * filters + k
            full = transformed_filter(w, filter_number, c, (filters, depth), BY, TURNED, u.dtype)
            for e in kl.static_range(BY.inputs * BY.inputs):
                u[g, p, e, c, r] = full[e // BY.inputs, e % BY.inputs]
        else:
            for e in range(u.shape[2]):
                u[g, p, e, c, r] = 0


@kernel
def convolve_blocks(
    x: kl.Array,
    u: kl.Array,
    v: kl.Array,
    out: kl.Array,
    bias: kl.Array | None,
    residual: Any,
    tiles: Any,
    parts: kl.Scalar,
    *,
    PLAN: BlockPlan,
) -> None:
    """The results of tiles ``first + b T`` to ``first + (b + 1) T``, some work-items per block b.

    Each of the `parts` work-items of a block and group makes the results of some panels of filters.
    Images, results and the tiles' places are as of `winograd_kernels`, filters `u` as of
    `pack_filters`; ``v[i]`` is room for work-item i to keep transformed tiles (elements, channels,
    T), with a channel more: elements a power of two apart would share few lines of a cache.
    """
    R, T, SIZE = PLAN.filters, PLAN.tiles, PLAN.by.inputs * PLAN.by.inputs
    group = kl.group_id(0)
    part, rest = group % parts, group // parts
    g, block = rest % u.shape[0], rest // u.shape[0]
    runs = find_runs(x, tiles, block * T, PLAN)
    transform_tiles(x, v[group], runs, g * u.shape[3], PLAN)
    filters, panels = out.shape[1] // u.shape[0], kl.cdiv(u.shape[1], parts)
    sums = kl.private((SIZE, R, T), v.dtype)
    for p in range(part * panels, kl.minimum((part + 1) * panels, u.shape[1])):
        multiply_panel(sums, u, v[group], g, p, PLAN.vectors)
        for r in range(kl.minimum(R, filters - p * R)):
            channel = g * filters + p * R + r
            added = v.dtype(0 if bias is None else bias[channel])
            finish_tiles(sums, r, out, (channel, added, residual), runs, PLAN)


@function
def multiply_panel(
    sums: kl.Array, u: kl.Array, v: kl.Array, g: kl.Scalar, p: kl.Scalar, VECTORS: int
) -> None:
    """``sums[e, r, t]`` is the sum of ``u[g, p, e, c, r] * v[e, c, t]`` over channels c."""
    R, T, ACC = sums.shape[1], sums.shape[2], sums.dtype
    for e in range(sums.shape[0]):
        for t in range(0, T, VECTORS * LANES):
            totals = kl.private((R, VECTORS), ACC, lanes=LANES, fill=0)
            for c in range(u.shape[3]):
                # Only for what lies ahead of it: a filter's element is read as it is multiplied.
                kl.vload(u, g, p, e, c, 0, lanes=2, ahead=_AHEAD)
                tiles = tuple(kl.vload(v, e, c, t + q * LANES, lanes=LANES) for q in range(VECTORS))
                for r in kl.static_range(R):
                    factor = kl.splat(u[g, p, e, c, r], LANES)
                    for q in kl.static_range(VECTORS):
                        totals[r, q] = kl.fma(factor, tiles[q], totals[r, q])
            for r in kl.static_range(R):
                for q in kl.static_range(VECTORS):
                    kl.vstore(sums, e, r, t + q * LANES, totals[r, q])
