"""Direct convolution where a work-item has a processor's core to itself: lanes are pixels.

A work-item copies what a block of rows of results sees of its channels, zeros outside of images,
so that the pixels which a tap sees of neighbouring results are neighbours, also across rows: for
strides, phases of rows and columns lie apart in planes of their own. A tile of filters by vectors
of pixels is then summed in registers, over channels and taps, and every pixel is read from memory
once for all filters. Depthwise convolution is the same with one filter and one channel a group.
"""

from __future__ import annotations

from itertools import product
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.conv.geometry import Pair, Window
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.products.kernels import keep

MOST_UNROLLED: Final = 25
"""Taps that are unrolled; of more, those of a row are."""


_NARROWEST: Final = 2
"""Lanes of vectors."""


class LanePlan(NamedTuple):
    """How a work-item convolves rows, a constant of kernels.

    Attributes
    ----------
    window : Window
    phases : (tuple of int, tuple of int)
        Which of the stride's phases taps see, of rows and of columns.
    filters, vectors, lanes : int
        Filters, and vectors of so many pixels, whose results are summed in registers.
    activation : Function
        What becomes of results.
    lanewise : bool
        Whether that may be given vectors.
    flat : bool
        Whether a block's results are neighbours, also across rows, which are passed as one.
    """

    window: Window
    phases: tuple[tuple[int, ...], tuple[int, ...]]
    filters: int
    vectors: int
    lanes: int
    activation: Any = keep
    lanewise: bool = True
    flat: bool = False

    @property
    def pixels(self) -> int:
        """Of a tile."""
        return self.vectors * self.lanes

    @property
    def widths(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """Lanes of the vectors by which rows are copied, and every second lane of two of them."""
        widths = [n for n in (self.lanes, self.lanes // 2, self.lanes // 4) if n >= _NARROWEST]
        return tuple((n, tuple(range(0, 2 * n, 2))) for n in widths)

    @property
    def planes(self) -> tuple[Pair, ...]:
        """The phases of rows and columns that taps see."""
        return tuple(product(*self.phases))

    @property
    def seen(self) -> tuple[tuple[Pair, ...], tuple[Pair, ...]]:
        """Of rows of taps, and of columns: the number of their phase, and steps in its plane."""
        window = self.window
        places = zip(window.taps, window.dilation, window.stride, self.phases, strict=True)
        rows, columns = (
            tuple((phases.index(t * d % s), t * d // s) for t in range(taps))
            for taps, d, s, phases in places
        )
        return rows, columns


class RowBlocks(NamedTuple):
    """How images are cut, numbers that kernels are given.

    Attributes
    ----------
    rows : int
        Of results, in a block.
    height, width : int
        Of a plane: the pixels of one phase that a block sees.
    parts : int
        Into how many the filters of a block and group are cut.
    filters : int
        Of a group.
    result : (int, int)
        Rows and columns of all results.
    """

    rows: Any
    height: Any
    width: Any
    parts: Any
    filters: Any
    result: tuple[Any, Any]


@kernel
def pack_lane_filters(w: kl.Array, u: kl.Array, *, TURNED: bool) -> None:
    """``u[g, p, c, r, s, f] = w[k, c, r, s]``, k the filter ``p F + f`` of group g, or zero.

    `TURNED`: ``w[g D + c, k of the group, R - 1 - r, S - 1 - s]``, D the channels of a group.
    """
    c, at = kl.global_id(0), kl.global_id(1)
    panels, F = u.shape[1], u.shape[5]
    g, k = at // (panels * F), at % (panels * F)
    if c < u.shape[2] and g < u.shape[0]:
        filters = w.shape[1] if TURNED else w.shape[0] // u.shape[0]
        p, f = k // F, k % F
        for r in range(u.shape[3]):
            for s in range(u.shape[4]):
                value = u.dtype(0)
                if k < filters:
                    if TURNED:
                        y, z = u.shape[3] - 1 - r, u.shape[4] - 1 - s
                        value = u.dtype(w[g * u.shape[2] + c, k, y, z])
                    else:
                        value = u.dtype(w[g * filters + k, c, r, s])
                u[g, p, c, r, s, f] = value


@kernel
def convolve_rows(
    x: kl.Array,
    u: kl.Array,
    v: kl.Array,
    out: kl.Array,
    bias: kl.Array | None,
    residual: kl.Array | None,
    blocks: RowBlocks,
    *,
    PLAN: LanePlan,
) -> None:
    """The results of blocks of rows of an image for some filters of a group, one after the other.

    Images `x` (N, C, H, W), results `out` and what is added to them, `residual`, have any strides;
    filters `u` are as of `pack_lane_filters`; ``v[i, c]`` is room for what work-item i sees of a
    channel: its planes one after the other, and a tile of pixels more.
    """
    down = kl.cdiv(blocks.result[0], blocks.rows)
    count = out.shape[0] * down * u.shape[0] * blocks.parts
    vector_of_group = v[kl.group_id(0)]
    for block in range(kl.group_id(0), count, kl.num_groups(0)):
        part, rest = block % blocks.parts, block // blocks.parts
        g, rest = rest % u.shape[0], rest // u.shape[0]
        n, y = rest // down, rest % down * blocks.rows
        pack_planes(x, vector_of_group, (n, g * u.shape[2], y), blocks, PLAN)
        panels = kl.cdiv(u.shape[1], blocks.parts)
        panels = part * panels, kl.minimum((part + 1) * panels, u.shape[1])
        convolve_block(
            u[g], vector_of_group, out, (bias, residual), (n, g, y), panels, blocks, PLAN
        )


@function
def convolve_block(
    u: kl.Array,
    v: kl.Array,
    out: kl.Array,
    beside: Any,
    at: tuple[kl.Scalar, ...],
    panels: tuple[kl.Scalar, ...],
    blocks: RowBlocks,
    PLAN: LanePlan,
) -> None:
    """The results of an image, group and block of rows for some panels of filters."""
    n, g, y = at
    filters, rows = blocks.filters, kl.minimum(blocks.rows, blocks.result[0] - y)
    pixels = (rows - 1) * blocks.width + blocks.result[1]
    for p in range(*panels):
        left, first = filters - p * PLAN.filters, g * filters + p * PLAN.filters
        for q in range(0, pixels, PLAN.pixels):
            sums = summed_tile(u[p], v, q, blocks, PLAN)
            run = Run(n, y, q, kl.minimum(PLAN.pixels, pixels - q))
            whole = PLAN.flat and PLAN.lanewise
            if whole and run.count == PLAN.pixels and left >= PLAN.filters:
                to = y * blocks.result[1] + q
                put_tile(sums, out, beside, (n, first, to), PLAN)
            else:
                lines = as_lines(sums, PLAN)
                for f in range(kl.minimum(PLAN.filters, left)):
                    finish_line(lines, f, out, beside, first + f, run, blocks, PLAN)


class Run(NamedTuple):
    """Neighbouring pixels of a block: an image, the block's first row, which and how many."""

    image: Any
    row: Any
    first: Any
    count: Any


@function
def pack_planes(
    x: kl.Array, v: kl.Array, at: tuple[kl.Scalar, ...], blocks: RowBlocks, PLAN: LanePlan
) -> None:
    """Copies what a block sees of the channels from one on, zeros outside of the image."""
    (n, first, y), (DOWN, ACROSS) = at, PLAN.window.stride
    TOP, LEFT = PLAN.window.padding
    for c in range(v.shape[0]):
        for k in kl.static_range(len(PLAN.planes)):
            ROW, COLUMN = PLAN.planes[k][0] - TOP, PLAN.planes[k][1] - LEFT
            begin = -(COLUMN // ACROSS)  # the first column that is not left of the image
            left = kl.minimum(kl.maximum(0, begin), blocks.width)
            inside = kl.cdiv(x.shape[3] - COLUMN, ACROSS)
            right = kl.maximum(left, kl.minimum(blocks.width, inside))
            for i in range(blocks.height):
                row, to = (y + i) * DOWN + ROW, (k * blocks.height + i) * blocks.width
                if row < 0 or row >= x.shape[2]:
                    clear(v[c], to, blocks.width, PLAN.lanes)
                else:
                    for j in range(left):
                        v[c, to + j] = 0
                    source = x[n, first + c, row]
                    start = left * ACROSS + COLUMN
                    copy_steps(source, start, v[c], to + left, right - left, PLAN)
                    for j in range(right, blocks.width):
                        v[c, to + j] = 0
        end = len(PLAN.planes) * blocks.height * blocks.width
        clear(v[c], end, v.shape[1] - end, PLAN.lanes)


@function
def clear(line: kl.Array, start: kl.Scalar, count: kl.Scalar, LANES: int) -> None:
    """Zeros from a place on."""
    for j, lanes in kl.vector_range(0, count, lanes=LANES):
        kl.vstore(line, start + j, kl.splat(line.dtype(0), lanes))


@function
def copy_steps(
    source: kl.Array, at: kl.Scalar, line: kl.Array, to: kl.Scalar, count: kl.Scalar, PLAN: LanePlan
) -> None:
    """Copies every stride-th pixel of a row from one on."""
    STEP = PLAN.window.stride[1]
    done = 0
    if STEP <= 2:
        # Of pairs that a last vector would read, the second may lie beyond the row.
        most = count if STEP == 1 else kl.minimum(count, (source.shape[0] - at) // 2)
        for w in kl.static_range(len(PLAN.widths)):
            WIDTH, EVEN = PLAN.widths[w]
            vectors = kl.maximum(most - done, 0) // WIDTH
            for j in range(vectors):
                first = at + (done + j * WIDTH) * STEP
                value = kl.vload(source, first, lanes=WIDTH)
                if STEP == 2:
                    value = kl.shuffle2(value, kl.vload(source, first + WIDTH, lanes=WIDTH), EVEN)
                kl.vstore(line, to + done + j * WIDTH, value)
            done += vectors * WIDTH
    for j in range(done, count):
        line[to + j] = line.dtype(source[at + j * STEP])


@function
def summed_tile(u: kl.Array, v: kl.Array, q: kl.Scalar, blocks: RowBlocks, PLAN: LanePlan) -> Any:
    """The sums of a panel of filters for a tile of pixels from one on."""
    SEEN, UNROLLED = PLAN.seen, PLAN.window.count <= MOST_UNROLLED
    F, V, LANES = PLAN.filters, PLAN.vectors, PLAN.lanes
    sums = kl.private((F, V), v.dtype, lanes=LANES)
    for f, t in product(kl.static_range(F), kl.static_range(V)):
        sums[f, t] = kl.splat(v.dtype(0), LANES)
    for c in range(v.shape[0]):
        if UNROLLED:
            for r in kl.static_range(PLAN.window.taps[0]):
                add_row(sums, u[c, r], v[c], q, SEEN[0][r], blocks, PLAN)
        else:
            STEP, SPREAD = PLAN.window.stride[0], PLAN.window.dilation[0]
            for r in range(PLAN.window.taps[0]):
                seen = r * SPREAD % STEP, r * SPREAD // STEP
                add_row(sums, u[c, r], v[c], q, seen, blocks, PLAN)
    return sums


@function
def as_lines(sums: kl.Array, PLAN: LanePlan) -> Any:
    """Sums as a line of numbers for each filter."""
    F, V, LANES = PLAN.filters, PLAN.vectors, PLAN.lanes
    lines = kl.private((F, V * LANES), sums.dtype)
    for f, t in product(kl.static_range(F), kl.static_range(V)):
        kl.vstore(lines, f, t * LANES, sums[f, t])
    return lines


@function
def add_row(
    sums: kl.Array,
    u: kl.Array,
    line: kl.Array,
    q: kl.Scalar,
    row: tuple[kl.Scalar, ...],
    blocks: RowBlocks,
    PLAN: LanePlan,
) -> None:
    """Adds the products of a row of taps, whose phase is at `row`, so many rows down."""
    COLUMNS, LANES = len(PLAN.phases[1]), PLAN.lanes
    for s in kl.static_range(PLAN.window.taps[1]):
        PHASE, STEPS = PLAN.seen[1][s]
        plane = row[0] * COLUMNS + PHASE
        at = q + (plane * blocks.height + row[1]) * blocks.width + STEPS
        pixels = tuple(kl.vload(line, at + t * LANES, lanes=LANES) for t in range(PLAN.vectors))
        for f in kl.static_range(PLAN.filters):
            factor = kl.splat(u[s, f], LANES)
            for t in kl.static_range(PLAN.vectors):
                sums[f, t] = kl.fma(factor, pixels[t], sums[f, t])


@function
def put_tile(
    sums: kl.Array, out: kl.Array, beside: Any, at: tuple[kl.Scalar, ...], PLAN: LanePlan
) -> None:
    """Finishes and writes a whole tile of results, each filter's neighbours in memory."""
    (bias, residual), (n, first, to), LANES = beside, at, PLAN.lanes
    for f, t in product(kl.static_range(PLAN.filters), kl.static_range(PLAN.vectors)):
        value = sums[f, t]
        if bias is not None:
            value = value + kl.splat(sums.dtype(bias[first + f]), LANES)
        if residual is not None:
            value = value + kl.vload(residual, n, first + f, 0, to + t * LANES, lanes=LANES)
        kl.vstore(out, n, first + f, 0, to + t * LANES, PLAN.activation(value))


@function
def finish_line(
    lines: kl.Array,
    f: kl.Scalar,
    out: kl.Array,
    beside: Any,
    channel: kl.Scalar,
    run: Run,
    blocks: RowBlocks,
    PLAN: LanePlan,
) -> None:
    """Writes a filter's results of a tile: those of each row, without what lies between rows."""
    bias, residual = beside
    added = lines.dtype(0 if bias is None else bias[channel])
    width, row, first = blocks.width, run.row, run.first
    if PLAN.flat:
        width, row, first = out.shape[3], 0, row * width + first
    q, i, z = 0, first // width, first % width
    while q < run.count:
        count = kl.maximum(kl.minimum(out.shape[3] - z, run.count - q), 0)
        y = row + i
        target = out[run.image, channel, y]
        if residual is None:
            put_run(lines[f], q, target, z, count, added, None, PLAN)
        else:
            put_run(lines[f], q, target, z, count, added, residual[run.image, channel, y], PLAN)
        q, i, z = q + width - z, i + 1, 0


@function
def put_run(
    line: kl.Array,
    at: kl.Scalar,
    target: kl.Array,
    to: kl.Scalar,
    count: kl.Scalar,
    added: kl.Scalar,
    more: kl.Array | None,
    PLAN: LanePlan,
) -> None:
    """Finishes neighbouring results of a row: adds to them, and applies the activation."""
    start = 0
    if PLAN.lanewise:
        for w in kl.static_range(len(PLAN.widths)):
            WIDTH = PLAN.widths[w][0]
            vectors = (count - start) // WIDTH
            for j in range(vectors):
                z = start + j * WIDTH
                value = kl.vload(line, at + z, lanes=WIDTH) + kl.splat(added, WIDTH)
                if more is not None:
                    value = value + kl.vload(more, to + z, lanes=WIDTH)
                kl.vstore(target, to + z, PLAN.activation(value))
            start += vectors * WIDTH
    for j in range(start, count):
        value = line[at + j] + added
        if more is not None:
            value += value.dtype(more[to + j])
        target[to + j] = PLAN.activation(value)
