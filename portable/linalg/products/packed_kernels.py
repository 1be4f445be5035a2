"""Products of operands that were packed first, for work-items that have a core to themselves.

Both operands are copied once into the order in which they are read, instead of by each tile that
needs them: strips as wide as a micro-tile, which is what a core holds in its registers, of rows of
the left operand and of columns of the right one. Those of the right one are packed first, for all
cores; each of the left one by the core that is about to multiply it, in whose cache it stays. The
scheme is that of K. Goto and R. van de Geijn,
"Anatomy of high-performance matrix multiplication", ACM TOMS 34 (2008).
"""

from __future__ import annotations

from itertools import product
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.tiles.micro_shape import MicroShape
from portable.linalg.base.lanes import mixed
from portable.linalg.products.kernels import keep

_UNROLLED = 2
"""Rows of strips: in double precision one core took 0.93 of the time so; of four it spills."""


class Side(NamedTuple):
    """How an operand is packed; the right one is seen as its transpose.

    Attributes
    ----------
    width : int
        Rows of a strip.
    run : int
        Of these, how many are stored at a time; divides `width` and `lanes`.
    lanes : int
        Of the vectors that are read where rows lie together.
    upright : bool
        Whether columns lie together, not rows.
    times : int
        How often each number is stored.
    """

    width: int
    run: int
    lanes: int
    upright: bool
    times: int = 1


class Packing(NamedTuple):
    """How operands are packed and multiplied.

    Attributes
    ----------
    micro : MicroShape
        Of the sums.
    slab : int
        Products of each sum between packing.
    rows : int
        Of the left operand at most that a work-item packs before it multiplies them.
    ahead : int
        Elements that the right operand is asked for beforehand.
    cores : int
        Of the device.
    streaming : bool
        Whether the result passes the caches by.
    left : Side
        How the left operand is packed.
    activation : Function
        Of each element of the result.
    lanewise : bool
        Whether that may be given vectors.
    run : int
        How many products are summed in half precision, in vectors of twice as many lanes, before
        these sums are added to others; 0 where none are.
    """

    micro: MicroShape
    slab: int
    rows: int
    ahead: int
    cores: int
    streaming: bool = False
    left: Any = None
    activation: Any = keep
    lanewise: bool = True
    run: int = 0

    def groups(self, rows: int) -> int:
        """Work-items for a result of so many rows: as many for each core."""
        return -(-rows // (self.rows * self.cores)) * self.cores


class Slab(NamedTuple):
    """What of the right operand is packed at a time.

    Attributes
    ----------
    begin : int
        Where its rows begin, and the columns of the left operand that they are multiplied by.
    left, width : int
        Its first column, and how many there are.
    turned : int
        How many of the last of these come first, fewer than a vector has lanes: where rows of the
        result begin as far behind a line of the caches, all other tiles begin with a line.
    """

    begin: Any
    left: Any
    width: Any
    turned: Any = 0


@kernel
def pack_right(
    x: kl.Array, out: kl.Array, slab: Slab, *, HOW: Side, COUNT: int, DEPTH: int
) -> None:
    """Copies some rows and columns of a matrix to strips of a few columns, a row after the other.

    A work-item does some rows of some strips.

    Parameters
    ----------
    x : array, shape (N, K)
        The transpose of the matrix, of any strides.
    out : array, shape (S, D, W)
        Strips of D rows.
    slab : Slab
        Which columns, and where the D rows begin.
    HOW : Side
        How to pack.
    COUNT, DEPTH : int
        Strips, and rows of each, for a work-item.
    """
    begin, left, width, turned = slab
    steps = kl.cdiv(out.shape[1], DEPTH)
    strip, first = kl.group_id(0) // steps * COUNT, kl.group_id(0) % steps * DEPTH
    end = kl.minimum(kl.minimum(x.shape[1] - begin, out.shape[1]), first + DEPTH)
    last = kl.minimum(strip + COUNT, out.shape[0])
    pack_strips(x, out, (strip, last), (begin, first, end), (left, width, turned), HOW)


pack_halves: Final = kernel(native_half=True)(pack_right.python)
"""`pack_right` of halves as they are."""


@function
def pack_strips(
    x: kl.Array,
    out: kl.Array,
    strips: tuple[kl.Scalar, ...],
    terms: tuple[kl.Scalar, ...],
    panel: tuple[kl.Scalar, ...],
    HOW: Side,
) -> None:
    """Copies rows from a strip to another, a column after the other.

    The `terms` are where the columns begin, and those from there on from one to another that are
    copied; a `panel` is as a slab has it.
    """
    (begin, start, end), (left, width, turned) = terms, panel
    WIDTH, RUN, LANES, UPRIGHT, TIMES = HOW
    if UPRIGHT:
        for k in range(start, end):
            for strip in range(*strips):
                row = strip * WIDTH - turned
                if row >= 0 and row + WIDTH <= width:
                    for u in kl.static_range(0, WIDTH, RUN):
                        value = kl.vload(x, left + row + u, begin + k, lanes=RUN, axis=0)
                        put(value, out, (strip, k, u), HOW)
                else:
                    for u in range(WIDTH):
                        put_one(x[row_of(row + u, panel), begin + k], out, (strip, k, u), TIMES)
    else:
        for strip in range(*strips):
            row = strip * WIDTH - turned
            for k, lanes in kl.vector_range(start, end, lanes=LANES):
                for u in kl.static_range(0, WIDTH, RUN):
                    rows = tuple(row_of(row + u + i, panel) for i in range(RUN))
                    held = tuple(kl.vload(x, i, begin + k, lanes=lanes) for i in rows)
                    put_upright(held, out, (strip, k, u), HOW, lanes)


@function
def row_of(row: kl.Scalar, panel: tuple[kl.Scalar, ...]) -> Any:
    """Where a row of a panel lies: its last ones come first; beyond it is its last but these."""
    left, width, _ = panel
    return left + kl.where(row < 0, row + width, kl.minimum(row, width - 1))


@function
def put_one(value: kl.Scalar, out: kl.Array, at: tuple[kl.Scalar, ...], TIMES: int) -> None:
    """Puts a number at a place of a strip, so many times."""
    strip, k, u = at
    for i in kl.static_range(TIMES):
        out[strip, k, TIMES * u + i] = value


@function
def put(value: kl.Scalar, out: kl.Array, at: tuple[kl.Scalar, ...], HOW: Side) -> None:
    """Puts a run of numbers at a place of a strip, each as many times as that has it."""
    (strip, k, u), RUN, TIMES = at, HOW.run, HOW.times
    if RUN == 1:
        put_one(value, out, at, TIMES)
    elif TIMES > 1:
        places = ()
        for i in kl.static_range(RUN * TIMES):
            places = (*places, i // TIMES)  # type: ignore[assignment]
        kl.vstore(out, strip, k, TIMES * u, kl.shuffle2(value, value, places))
    else:
        kl.vstore(out, strip, k, u, value)


@function
def put_upright(
    rows: tuple[kl.Scalar, ...], out: kl.Array, at: tuple[kl.Scalar, ...], HOW: Side, LANES: int
) -> None:
    """Puts vectors, or numbers, side by side, a lane of each below the other."""
    strip, k, u = at
    if LANES == 1:
        for i in kl.static_range(HOW.run):
            put_one(rows[i], out, (strip, k, u + i), HOW.times)
    else:
        put_mixed(mixed(rows, HOW.run, LANES), out, at, HOW, LANES // HOW.run)


@function
def put_mixed(
    rows: tuple[kl.Scalar, ...], out: kl.Array, at: tuple[kl.Scalar, ...], HOW: Side, COUNT: int
) -> None:
    """Puts runs of lanes of vectors one below the other."""
    (strip, k, u), RUN = at, HOW.run
    for j in kl.static_range(RUN):
        for i in kl.static_range(COUNT):
            value = rows[j][i * RUN : (i + 1) * RUN] if RUN > 1 else rows[j][i]
            put(value, out, (strip, k + j * COUNT + i, u), HOW)


@function
def start_sums(sums: kl.Array, MICRO: MicroShape) -> None:
    """Begins a micro-tile of sums of a slab's products."""
    for u, v in product(kl.static_range(MICRO.rows), kl.static_range(MICRO.vectors)):
        sums[u, v] = kl.splat(kl.cast(0, sums.dtype), MICRO.lanes)


@function
def add_kept(sums: kl.Array, kept: kl.Array, at: tuple[kl.Scalar, ...], MICRO: MicroShape) -> None:
    """Adds what was kept of the slabs before: apart, so that long sums do not drift."""
    for u, v in product(kl.static_range(MICRO.rows), kl.static_range(MICRO.vectors)):
        sums[u, v] = kl.vload(kept, *at, u, v * MICRO.lanes, lanes=MICRO.lanes) + sums[u, v]


@function
def row_of_strip(
    strips: kl.Array, at: tuple[kl.Scalar, ...], VECTORS: int, LANES: int, AHEAD: int
) -> Any:
    """A row of a strip in vectors, while one further on is asked for."""
    held = ()
    for v in kl.static_range(VECTORS):
        value = kl.vload(strips, *at, v * LANES, lanes=LANES, ahead=AHEAD)
        held = (*held, value)  # type: ignore[assignment]
    return held


@function
def add_up(
    sums: kl.Array,
    left: kl.Array,
    right: kl.Array,
    at: tuple[kl.Scalar, ...],
    depth: kl.Scalar,
    PLAN: Packing,
) -> None:
    """Adds the products of two strips."""
    MICRO = PLAN.micro
    for k in kl.range(depth, unroll=_UNROLLED):
        held = row_of_strip(right, (at[1], k), MICRO.vectors, MICRO.lanes, PLAN.ahead)
        for u in kl.static_range(MICRO.rows):
            factor = kl.splat(left[at[0], k, u], MICRO.lanes)
            for v in kl.static_range(MICRO.vectors):
                sums[u, v] = sums[u, v] + factor * held[v]


@function
def add_up_halves(
    sums: kl.Array,
    left: kl.Array,
    right: kl.Array,
    at: tuple[kl.Scalar, ...],
    depth: kl.Scalar,
    PLAN: Packing,
) -> None:
    """Adds the products of two strips, which are summed in half precision some at a time.

    Numbers of the left strip are there twice. Processors make a vector of two halves that lie
    together while they load them; of one half that takes them an instruction more.
    """
    MICRO, LANES = PLAN.micro, 2 * PLAN.micro.lanes
    VECTORS = MICRO.vectors // 2
    PAIRS = ()
    for _ in kl.static_range(MICRO.lanes):
        PAIRS = (*PAIRS, 0, 1)  # type: ignore[assignment]
    halves = kl.private((MICRO.rows, VECTORS), kl.f16, lanes=LANES)
    for first in range(0, depth, PLAN.run):
        for u, v in product(kl.static_range(MICRO.rows), kl.static_range(VECTORS)):
            halves[u, v] = kl.splat(kl.cast(0, kl.f16), LANES)
        for k in range(first, kl.minimum(first + PLAN.run, depth)):
            held = row_of_strip(right, (at[1], k), VECTORS, LANES, PLAN.ahead)
            for u in kl.static_range(MICRO.rows):
                both = kl.vload(left, at[0], k, 2 * u, lanes=2)
                factor = kl.shuffle2(both, both, PAIRS)
                for v in kl.static_range(VECTORS):
                    halves[u, v] = halves[u, v] + factor * held[v]
        for u, v in product(kl.static_range(MICRO.rows), kl.static_range(VECTORS)):
            low, high = halves[u, v][: MICRO.lanes], halves[u, v][MICRO.lanes :]
            sums[u, 2 * v] = sums[u, 2 * v] + kl.f32(low)
            sums[u, 2 * v + 1] = sums[u, 2 * v + 1] + kl.f32(high)


@function
def keep_sums(sums: kl.Array, kept: kl.Array, at: tuple[kl.Scalar, ...], MICRO: MicroShape) -> None:
    """Keeps a micro-tile of sums for the next slab."""
    for u, v in product(kl.static_range(MICRO.rows), kl.static_range(MICRO.vectors)):
        kl.vstore(kept, *at, u, v * MICRO.lanes, sums[u, v])


@function
def put_sums(
    sums: kl.Array,
    edge: kl.Array,
    terms: Any,
    out: kl.Array,
    at: tuple[kl.Scalar, ...],
    panel: tuple[kl.Scalar, ...],
    PLAN: Packing,
) -> None:
    """Finishes a micro-tile of sums, and puts it at a row and a column of a panel.

    The `terms` are a factor and a bias or None. Columns before the panel's first one are its last
    ones.
    """
    MICRO, (row, column), (left, width) = PLAN.micro, at, panel
    rows, columns = row + MICRO.rows <= out.shape[0], column + MICRO.columns <= width
    if PLAN.lanewise and column >= 0 and rows and columns:
        put_vectors(sums, terms, out, (row, left + column), PLAN)
    else:
        factor, bias = terms
        scale = kl.splat(factor, MICRO.lanes)
        for u, v in product(kl.static_range(MICRO.rows), kl.static_range(MICRO.vectors)):
            kl.vstore(edge, u, v * MICRO.lanes, scale * sums[u, v])
        for u in range(kl.minimum(out.shape[0] - row, MICRO.rows)):
            for x in range(kl.minimum(width - column, MICRO.columns)):
                column_start = left + column + x + kl.where(column + x < 0, width, 0)
                value = edge[u, x]
                if bias is not None:
                    value = value + bias[column_start]
                out[row + u, column_start] = PLAN.activation(value)


@function
def put_vectors(
    sums: kl.Array, terms: Any, out: kl.Array, at: tuple[kl.Scalar, ...], PLAN: Packing
) -> None:
    """The same for a micro-tile that lies in the result as a whole, vector by vector."""
    MICRO, (factor, bias), (row, column) = PLAN.micro, terms, at
    scale = kl.splat(factor, MICRO.lanes)
    for u, v in product(kl.static_range(MICRO.rows), kl.static_range(MICRO.vectors)):
        value, column_start = scale * sums[u, v], column + v * MICRO.lanes
        if bias is not None:
            value = value + kl.vload(bias, column_start, lanes=MICRO.lanes)
        kl.vstore(out, row + u, column_start, PLAN.activation(value), streaming=PLAN.streaming)


@kernel
def multiply(
    factor: kl.Scalar,
    a: kl.Array,
    strips: kl.Array,
    right: kl.Array,
    kept: kl.Array,
    bias: kl.Array | None,
    out: kl.Array,
    slab: Slab,
    *,
    PLAN: Packing,
    PART: Any,
) -> None:
    """A work-item for some strips of rows, which it multiplies by one strip of columns at a time.

    Work-items share the strips of rows out evenly.

    Parameters
    ----------
    factor : float
        Of the sums at last.
    a : array, shape (M, K)
        Of any strides.
    strips : array, shape (S, D, W)
        Room for strips of D of its columns.
    right : array, shape (T, D, W')
        Packed by `pack_right`.
    kept : array, shape (T, S, W, W')
        Sums between slabs, as a core holds them: rows of the result are often far apart, so that
        their lines get into each other's way in caches.
    bias : array, shape (N,), or None
        Added to each row of the result.
    out : array, shape (M, N)
        The result.
    slab : Slab
        Which columns of `a`, and which of the result.
    PLAN : Packing
        How it does so.
    PART : (bool, bool)
        Whether this is the first slab, and whether it is the last.
    """
    begin, left, width, turned = slab
    MICRO, (FIRST, LAST) = PLAN.micro, PART
    count = kl.cdiv(out.shape[0], MICRO.rows)
    first = kl.group_id(0) * count // kl.num_groups(0)
    last = (kl.group_id(0) + 1) * count // kl.num_groups(0)
    depth = kl.minimum(a.shape[1] - begin, strips.shape[1])
    pack_strips(a, strips, (first, last), (begin, 0, depth), (0, a.shape[0], 0), PLAN.left)
    edge = kl.private((MICRO.rows, MICRO.columns), kept.dtype)
    sums = kl.private((MICRO.rows, MICRO.vectors), kept.dtype, lanes=MICRO.lanes)
    for column in range(kl.cdiv(width, MICRO.columns)):
        for strip in range(first, last):
            start_sums(sums, MICRO)
            if PLAN.run:
                add_up_halves(sums, strips, right, (strip, column), depth, PLAN)
            else:
                add_up(sums, strips, right, (strip, column), depth, PLAN)
            if not FIRST:
                add_kept(sums, kept, (column, strip), MICRO)
            if LAST:
                origin = strip * MICRO.rows, column * MICRO.columns - turned
                put_sums(sums, edge, (factor, bias), out, origin, (left, width), PLAN)
            else:
                keep_sums(sums, kept, (column, strip), MICRO)


multiply_halves: Final = kernel(native_half=True)(multiply.python)
"""`multiply` in half precision but for some products at a time."""
