"""Convolution as a product of matrices whose rows are boxes of images with neighbouring channels.

A tile of `portable.linalg.products.kernels.gemm_tiles` is copied as rectangles; here the rows of
the first operand's tile are a box of images, rows and columns, moved for each tap of the filter, so
that whole vectors of channels are copied, by a copy engine where there is one, and zeros from
outside of the images come by themselves.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.conv.geometry import Pair, Window
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.enqueued import enqueue
from portable.lang.launch.geometry import groups
from portable.linalg.base.tiling import Tiling
from portable.linalg.products.mainloop import multiply, room
from portable.linalg.products.schedules import tile_position
from portable.primitives.maps.elementwise_kernel import product_of, unravelled


class BoxPlan(NamedTuple):
    """How a workgroup multiplies boxes, a constant of kernels.

    Attributes
    ----------
    window : Window
    box : (int, int, int)
        Images, rows and columns whose places are rows of a tile, or steps of a sum.
    tiling : Tiling
    parts : int
        Into how many sums are cut.
    blocks : int
        Of as many channels and filters each, which see each other alone.
    """

    window: Window
    box: tuple[int, int, int]
    tiling: Tiling
    parts: int = 1
    blocks: int = 1


class Corner(NamedTuple):
    """The first image, row and column of a box, and the block of its channels."""

    image: Any
    row: Any
    column: Any
    block: Any

    def seen(self, tap: kl.Scalar, WINDOW: Window) -> Any:
        """The corner of the box that a tap sees from this one."""
        down, across = tap // WINDOW.taps[1], tap % WINDOW.taps[1]
        return Corner(
            self.image,
            self.row * WINDOW.stride[0] + down * WINDOW.dilation[0] - WINDOW.padding[0],
            self.column * WINDOW.stride[1] + across * WINDOW.dilation[1] - WINDOW.padding[1],
            self.block,
        )

    def pixels(
        self, x: kl.Array, PLAN: BoxPlan, tap: kl.Scalar, first: kl.Scalar, COUNT: int
    ) -> Any:
        """``COUNT`` channels, from `first` on, of what a tap sees from the box in images."""
        return self.seen(tap, PLAN.window).box(x, PLAN.box, first, COUNT, PLAN.window.stride)

    def box(
        self, x: kl.Array, BOX: tuple[int, int, int], first: kl.Scalar, COUNT: int, STEPS: Pair
    ) -> Any:
        """``COUNT`` channels, from `first` on, of the box in `x`, or of its block there."""
        (N, DOWN, ACROSS), (H, W) = BOX, STEPS
        n, y, z, b = self.image, self.row, self.column, self.block
        if x.ndim == 4:
            return x[n : n + N, y : y + DOWN * H : H, z : z + ACROSS * W : W, first : first + COUNT]
        return x[n : n + N, y : y + DOWN * H : H, z : z + ACROSS * W : W, b, first : first + COUNT]


class Products(NamedTuple):
    """Filters of a block from the `first` on, and boxes of images as their taps see them.

    Steps are counted from one that sums `begin` with.
    """

    x: Any
    w: Any
    corner: Any
    first: Any
    filters: Any
    begin: Any
    PLAN: BoxPlan

    def start(self, tile_x: kl.Array, tile_w: kl.Array, step: kl.Scalar) -> None:
        """Starts to copy what a step multiplies, channels of one tap."""
        (BK, BN), TAPS, first = tile_w.shape, self.PLAN.window.count, self.first
        step += self.begin
        tap, channel = step % TAPS, step // TAPS * BK
        kl.copy_async(tile_x, self.corner.pixels(self.x, self.PLAN, tap, channel, BK))
        filters = self.w[tap, channel : channel + BK, self.corner.block, first : first + BN]
        kl.copy_async(tile_w, filters)

    def valid(self, step: kl.Scalar) -> Any:
        """All places of the box, and the filters and channels that there are."""
        BM, _, BK = self.PLAN.tiling[0:3]
        left = channels_of(self.x) - (step + self.begin) // self.PLAN.window.count * BK
        return BM, self.filters - self.first, left


@kernel
def multiply_boxes(
    x: kl.Array,
    w: kl.Array,
    out: kl.Array,
    bias: kl.Array | None,
    residual: kl.Array | None,
    *,
    PLAN: BoxPlan,
    ACTIVATION: Any,
    ACC: Any,
) -> None:
    """A workgroup per box of the results' places, tile of filters and part of the sums.

    Or as many as run at once, of which each makes tiles in turn (`Tiling.persistent`), all parts.

    Images `x` are (N, H, W, C); filters `w` (taps, C, blocks, K); results `out` (N, H', W', K), or
    of several parts (P, N, H', W', K). Of several blocks, images and results have these before
    their channels too. A step multiplies channels of one tap; the taps of a channel follow each
    other, since they see nearly the same pixels. Local memory: ``stages (rows + columns) depth``
    elements of the tiling, whose rows are the box's places, and padding.
    """
    index, target, TILING = kl.group_id(0), out, PLAN.tiling
    steps = PLAN.window.count * kl.cdiv(channels_of(x), TILING.depth)
    span = Span(0, steps, 0)
    if PLAN.parts > 1:
        index, part = kl.group_id(0) // PLAN.parts, kl.group_id(0) % PLAN.parts
        begin, end = part * steps // PLAN.parts, (part + 1) * steps // PLAN.parts
        span, target = Span(begin, end - begin, 0), out[part]
    tiles, acc = room((x, w), ACC, TILING)
    operands, beside = (x, w), (bias, residual, ACTIVATION)
    if TILING.persistent:
        done = 0
        for turn in range(index, tiles_of(target, PLAN), kl.num_groups(0)):
            done += make_tile(
                acc, tiles, operands, turn, Span(0, steps, done), target, beside, PLAN
            )
    else:
        make_tile(acc, tiles, operands, index, span, target, beside, PLAN)


class Span(NamedTuple):
    """Steps of a tile's sums: the first, how many, and how many went through the ring before."""

    first: Any
    count: Any
    done: Any


@function
def make_tile(
    acc: Any,
    tiles: tuple[kl.Array, ...],
    operands: tuple[kl.Array, ...],
    index: kl.Scalar,
    span: Span,
    target: kl.Array,
    beside: tuple[Any, ...],
    PLAN: BoxPlan,
) -> Any:
    """Multiplies and stores the tile that has a number; how many steps it took."""
    (x, w), (bias, residual, ACTIVATION), BN = operands, beside, PLAN.tiling.columns
    filters = target.shape[target.ndim - 1]
    columns, block = kl.cdiv(filters, BN), 0
    boxes = boxes_of(target, PLAN.box)
    box, column = tile_position(index, boxes, columns * PLAN.blocks, PLAN.tiling.group)
    if PLAN.blocks > 1:
        block, column = column // columns, column % columns
    corner, first = corner_of(target, box, PLAN.box, block), column * BN
    products = Products(x, w, corner, first, filters, span.first - span.done, PLAN)
    multiply(acc, tiles, products, (span.done, span.done + span.count), PLAN.tiling)
    if PLAN.parts == 1:
        acc.map(activated, block * filters + first, bias, ACTIVATION, corner, residual, PLAN.box)
        if residual is not None:  # which may be the result
            kl.barrier()
    acc.store(corner.box(target, PLAN.box, first, BN, (1, 1)))
    return span.count


@function
def tiles_of(target: kl.Array, PLAN: BoxPlan) -> Any:
    """How many tiles results have."""
    columns = kl.cdiv(target.shape[target.ndim - 1], PLAN.tiling.columns) * PLAN.blocks
    return boxes_of(target, PLAN.box) * columns


@kernel
def add_parts(parts: kl.Array, out: kl.Array, bias: Any, residual: Any, *, ACTIVATION: Any) -> None:
    """Results (N, H', W', K) from parts (P, N, H', W', K) of their sums."""
    at = kl.global_id(0)
    if at < product_of(out.shape):
        n, y, z, k = unravelled(at, out.shape)
        total = parts[0, n, y, z, k]
        for p in range(1, parts.shape[0]):
            total += parts[p, n, y, z, k]
        if bias is not None:
            total += total.dtype(bias[k])
        if residual is not None:
            total += total.dtype(residual[n, y, z, k])
        out[n, y, z, k] = ACTIVATION(total)


@function
def channels_of(x: kl.Array) -> Any:
    """How many channels images have, or a block of them."""
    return x.shape[x.ndim - 1]


@function
def boxes_of(x: kl.Array, BOX: tuple[int, int, int]) -> Any:
    """How many boxes cover all places."""
    images, height, width = BOX
    return kl.cdiv(x.shape[0], images) * kl.cdiv(x.shape[1], height) * kl.cdiv(x.shape[2], width)


@function
def corner_of(x: kl.Array, index: kl.Scalar, BOX: tuple[int, int, int], block: kl.Scalar) -> Any:
    """The corner of the `index`-th box of the places of `x`, for a block of its channels."""
    images, height, width = BOX
    down, across = kl.cdiv(x.shape[1], height), kl.cdiv(x.shape[2], width)
    pixel = index % (down * across)
    image = index // (down * across) * images
    return Corner(image, pixel // across * height, pixel % across * width, block)


@function
def activated(
    total: kl.Scalar,
    i: kl.Scalar,
    j: kl.Scalar,
    first: kl.Scalar,
    bias: kl.Array | None,
    activation: Any,
    corner: Corner,
    residual: kl.Array | None,
    BOX: Any,
) -> Any:
    """A result in a tile, which may hold more filters and places than there are."""
    if bias is not None and first + j < bias.shape[0]:
        total += total.dtype(bias[first + j])
    if residual is not None:
        n = corner.image + i // (BOX[1] * BOX[2])
        y, z = corner.row + i // BOX[2] % BOX[1], corner.column + i % BOX[2]
        inside = n < residual.shape[0] and y < residual.shape[1] and z < residual.shape[2]
        if inside and first + j < residual.shape[3]:
            total += total.dtype(residual[n, y, z, first + j])
    return activation(total)


class Sums(NamedTuple):
    """Gradients, and images as a tap sees them, from places in a block of channels and a box on."""

    dy: Any
    x: Any
    tap: Any
    block: Any
    row: Any
    column: Any
    first: Any
    PLAN: BoxPlan

    def start(self, tile_dy: kl.Array, tile_x: kl.Array, step: kl.Scalar) -> None:
        """Starts to copy what a step multiplies, the places of a box."""
        PLAN, COUNT = self.PLAN, tile_x.shape[1]
        corner = corner_of(self.dy, self.first + step, PLAN.box, self.block)
        kl.copy_async(tile_dy, corner.box(self.dy, PLAN.box, self.row, tile_dy.shape[1], (1, 1)))
        kl.copy_async(tile_x, corner.pixels(self.x, PLAN, self.tap, self.column, COUNT))

    def valid(self, step: kl.Scalar) -> Any:
        """The filters and channels that there are, and all places of the box."""
        channels, PLACES = channels_of(self.x), self.PLAN.tiling.depth
        return self.dy.shape[self.dy.ndim - 1] - self.row, channels - self.column, PLACES


@kernel
def sum_boxes(x: kl.Array, dy: kl.Array, out: kl.Array, *, PLAN: BoxPlan, ACC: Any) -> None:
    """``out[s, t, b, k, c]`` sums ``dy[place, b, k] * x[what tap t sees from there, b, c]``.

    The sum is over part s of the results' places, in boxes; each part but the last has as many. A
    workgroup per tile of a block's filters by channels, tap and part, taps next to each other,
    since they see nearly the same pixels. Arrays and local memory as of `multiply_boxes`, a step
    being the places of a box. The pipeline is not rotated: gradients took 1.01 to 1.6 times as long
    so on an H200 through NVIDIA's OpenCL.
    """
    BM, BN = PLAN.tiling[0:2]
    TAPS = PLAN.window.count
    rows, columns = kl.cdiv(dy.shape[dy.ndim - 1], BM), kl.cdiv(channels_of(x), BN)
    tap, tile = kl.group_id(0) % TAPS, kl.group_id(0) // TAPS
    block, tile = tile // (rows * columns), tile % (rows * columns)
    part, block = block // PLAN.blocks, block % PLAN.blocks
    row, column = tile % rows * BM, tile // rows * BN
    boxes = boxes_of(dy, PLAN.box)
    each = kl.cdiv(boxes, out.shape[0])
    first = part * each
    tiles, acc = room((dy, x), ACC, PLAN.tiling, True)
    reader = Sums(dy, x, tap, block, row, column, first, PLAN)
    steps = kl.maximum(kl.minimum(boxes - first, each), 0)
    multiply(acc, tiles, reader, (0, steps), PLAN.tiling, ROTATED=False, TRANSPOSED=True)
    acc.store(out[part, tap, block, row : row + BM, column : column + BN])


@kernel
def arrange_filters(
    w: kl.Array, out: kl.Array, filters: kl.Scalar, merged: kl.Scalar, *, TAPS: Pair, TURNED: bool
) -> None:
    """``out[r S + s, c, b, k] = w[b K + k, c, r, s]``; taps are two dimensions of an `out` of five.

    `TURNED`: ``w[g D + c, k of the group, R - 1 - r, S - 1 - s]``, for k of group g of D channels.
    A block of K filters is `merged` groups of so many filters, which see their own channels: others
    get zeros. Zero beyond the taps, and the filters of a block: vectors are read whole.
    """
    at, c, LAST = kl.global_id(0), kl.global_id(1), out.ndim - 1
    block, k = at // out.shape[LAST], at % out.shape[LAST]
    if block < out.shape[LAST - 1] and c < out.shape[LAST - 2]:
        depth, (R, S) = out.shape[LAST - 2] // merged, TAPS
        group, channel = block * merged + k // filters, c % depth
        seen = k < filters * merged and c // depth == k // filters
        first, second = group * filters + k % filters, channel
        if TURNED:
            first, second = group * depth + channel, k % filters
        for tap in range(out.shape[0] if LAST == 3 else out.shape[0] * out.shape[1]):
            value, from_tap = kl.accumulator(out.dtype)(0), R * S - 1 - tap if TURNED else tap
            if seen and tap < R * S:
                value = value.dtype(w[first, second, from_tap // S, from_tap % S])
            if LAST == 3:
                out[tap, c, block, k] = value
            else:
                out[tap // out.shape[1], tap % out.shape[1], c, block, k] = value


_EDGE: Final = 32
"""Channels of a tile that passes through local memory."""

MOST_TURNED: Final = 256
"""Taps of a filter, at most, and so rows of the tile."""

_ROWS: Final = (256, 128, 64, 32)
_MANY: Final = 512
"""Filters of it times taps, where these are fewer: as many as leave so many tiles. On an H200 64
and 128 filters took 1 to 3.5 us less in the least tiles, 1,280 of 2,560 channels 7 to 27 more."""

_ITEMS: Final = 256


@kernel
def arrange_along_channels(
    w: kl.Array, out: kl.Array, *, TAPS: Pair, EACH: int, TURNED: bool
) -> None:
    """``out[k, r S + s, c] = w[k, c, r, s]``, `TURNED` ``w[c, k, R - 1 - r, S - 1 - s]``.

    A workgroup for a tile of `EACH` filters by channels, which passes through local memory:
    neighbouring work-items read neighbours of `w`, and write neighbours of `out`.
    """
    T, EDGE = TAPS[0] * TAPS[1], _EDGE
    tile = kl.local((EACH * T, EDGE + 1), w.dtype)
    across = kl.cdiv(out.shape[2], EDGE)
    first, channel = kl.group_id(0) // across * EACH, kl.group_id(0) % across * EDGE
    for i in range(kl.local_id(0), EACH * T * EDGE, kl.local_size(0)):
        rest, tap = i // T, i % T
        k, c = (rest % EACH, rest // EACH) if TURNED else (rest // EDGE, rest % EDGE)
        if first + k < out.shape[0] and channel + c < out.shape[2]:
            r, s = tap // TAPS[1], tap % TAPS[1]
            if TURNED:
                tile[k * T + T - 1 - tap, c] = w[channel + c, first + k, r, s]
            else:
                tile[k * T + tap, c] = w[first + k, channel + c, r, s]
    kl.barrier()
    for i in range(kl.local_id(0), EACH * T * EDGE, kl.local_size(0)):
        c, rest = i % EDGE, i // EDGE
        k, tap = rest // T, rest % T
        if first + k < out.shape[0] and channel + c < out.shape[2]:
            out[first + k, tap, channel + c] = tile[rest, c]


def arrange_turning(w: Any, room: Any, turned: bool) -> None:
    """Enqueues `arrange_along_channels`, whose arguments it takes."""
    count, taps, depth = room.shape
    across = -(-depth // _EDGE)
    for rows in _ROWS:
        each = max(1, rows // taps)
        tiles = -(-count // each) * across
        if tiles >= _MANY:
            break
    launcher = arrange_along_channels[groups(tiles), (_ITEMS, 1, 1)]
    enqueue(launcher, w, room, TAPS=tuple(w.shape[2:]), EACH=each, TURNED=turned)


def arrange(w: Any, room: Any, filters: int, merged: int = 1, turned: bool = False) -> None:
    """Enqueues `arrange_filters`, whose arguments it takes."""
    depth, blocks, count = room.shape[-3:]
    launcher = arrange_filters[(blocks * count, max(1, depth)), None]
    enqueue(launcher, w, room, filters, merged, TAPS=tuple(w.shape[2:]), TURNED=turned)


@function
def seen_by(
    x: kl.Array, n: kl.Scalar, c: kl.Scalar, tap: kl.Scalar, y: kl.Scalar, z: kl.Scalar, WINDOW: Any
) -> Any:
    """What a tap of the window of result (y, z) sees of images (N, C, H, W), zero outside."""
    (DOWN, ACROSS), (TOP, LEFT), ALONG = WINDOW.stride, WINDOW.padding, WINDOW.dilation
    i = y * DOWN + tap // WINDOW.taps[1] * ALONG[0] - TOP
    j = z * ACROSS + tap % WINDOW.taps[1] * ALONG[1] - LEFT
    inside = i >= 0 and i < x.shape[2] and j >= 0 and j < x.shape[3]
    value = x[n, c, kl.clip(i, 0, x.shape[2] - 1), kl.clip(j, 0, x.shape[3] - 1)]
    return kl.where(inside, value, value.dtype(0))


class Gathering(NamedTuple):
    """How a work-item copies what windows see, a constant of kernels.

    Attributes
    ----------
    window : Window
    lanes : int
        Neighbours of a patch that are written together.
    piece : int
        Of these, channels of one tap that are read together.
    run : int
        Neighbouring results.
    """

    window: Window
    lanes: int
    piece: int
    run: int


class Seen(NamedTuple):
    """Where a piece of a patch lies: whether it does, its channel, row, and first column."""

    inside: Any
    channel: Any
    row: Any
    column: Any


@function
def seen_from(x: kl.Array, y: kl.Scalar, d: kl.Scalar, PLAN: Gathering) -> Any:
    """Where the piece from (tap, channel) d on lies, for the first result of row y."""
    WINDOW, (DOWN, _) = PLAN.window, PLAN.window.stride
    (ALONG, ACROSS), (TOP, LEFT) = WINDOW.dilation, WINDOW.padding
    tap = d // x.shape[1]
    row = y * DOWN + tap // WINDOW.taps[1] * ALONG - TOP
    inside = tap < WINDOW.count and row >= 0 and row < x.shape[2]
    column = tap % WINDOW.taps[1] * ACROSS - LEFT
    channel = (d - tap * x.shape[1]) // PLAN.piece * PLAN.piece  # a multiple, as vectors want it
    return Seen(inside, channel, kl.clip(row, 0, x.shape[2] - 1), column)


@function
def piece_at(x: kl.Array, n: kl.Scalar, seen: Seen, z: kl.Scalar, PLAN: Gathering) -> Any:
    """The numbers of a piece for result z of the row; zeros outside of the image."""
    column = seen.column + z * PLAN.window.stride[1]
    inside = seen.inside and column >= 0 and column < x.shape[3]
    at = kl.clip(column, 0, x.shape[3] - 1)
    if PLAN.piece == 1:
        value = x[n, seen.channel, seen.row, at]
        return (kl.where(inside, value, value.dtype(0)),)
    values = kl.vload(x, n, seen.channel, seen.row, at, lanes=PLAN.piece, axis=1)
    zero = values.dtype(0)
    return tuple(kl.where(inside, values[k], zero) for k in kl.static_range(PLAN.piece))


@kernel
def gather_patches(x: kl.Array, out: kl.Array, *, PLAN: Gathering) -> None:
    """``out[n, y, z, (r S + s) C + c]``: what a window sees of images (N, C, H, W), or zero.

    A work-item for a vector of these of some neighbouring results, so that it finds taps once. Zero
    beyond the last tap: vectors are read whole.
    """
    runs, vectors = kl.cdiv(out.shape[2], PLAN.run), out.shape[3] // PLAN.lanes
    n, y, run, vector = unravelled(kl.global_id(0), (out.shape[0], out.shape[1], runs, vectors))
    if n < out.shape[0]:
        first = vector * PLAN.lanes
        pieces = tuple(
            seen_from(x, y, first + k, PLAN) for k in kl.static_range(0, PLAN.lanes, PLAN.piece)
        )
        for k in kl.static_range(PLAN.run):
            z = run * PLAN.run + k
            if z < out.shape[2]:
                numbers = [number for piece in pieces for number in piece_at(x, n, piece, z, PLAN)]
                kl.vstore(out, n, y, z, first, kl.vector(*numbers))
