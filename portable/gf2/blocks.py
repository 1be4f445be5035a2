"""Products of stripes by workgroups with a block of rows each, in rounds that are even."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from portable import lang as kl
from portable.backend import Capabilities
from portable.gf2.tuning import Shape
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups

# Tables of combinations: the method of the four Russians, as functions for kernels.
#
# Rows are taken 64 at a time, as many as a word has bits. Table ``t`` holds every sum of rows ``t
# K`` to ``t K + K - 1`` for tables of K rows, so that any sum of some of the 64 rows is the sum of
# one entry of each table. `shape` is a `portable.gf2.tuning.Shape`, whose `bits` are K.
#
# V. Arlazarov, E. Dinic, M. Kronrod, I. Faradzev (1970); several tables at once as in M. Albrecht,
# G. Bard, W. Hart, "Algorithm 898", ACM TOMS 37 (2010).

WORD: Final = 64
"""Bits of a word, and the rows that one set of tables combines."""

CHANGES: Final = (0, 0, 1, 0, 2, 0, 1, 0)
"""Which bit changes from one number to the next in Gray's order."""


@function
def nothing(lanes: int) -> Any:
    """So many words of zeros."""
    return kl.splat(kl.cast(0, kl.u64), lanes)


@function
def build_tables(tables: kl.Array, rows: kl.Array, shape: Shape) -> None:
    """Fills `tables` (tables, 2^K, width) with the sums of `rows` (64, width), by the workgroup.

    A work-item makes the sums of eight neighbours in turn, of which each differs by one row from
    that before (F. Gray's order), so that only they are written and little is read.
    """
    LOW = min(shape.bits, 3)
    HIGH = shape.bits - LOW
    parts = shape.width // shape.lanes
    for x in kl.workgroup_range((shape.tables * parts) << HIGH):
        at, high = x % parts * shape.lanes, x // parts % (1 << HIGH)
        t = x // parts // (1 << HIGH)
        words = nothing(shape.lanes)
        for b in kl.static_range(HIGH):
            if (high >> b) & 1 != 0:
                words = words ^ row_or_nothing(rows, t * shape.bits + LOW + b, at, shape)
        kl.vstore(tables, t, high << LOW, at, words)
        low = tuple(row_or_nothing(rows, t * shape.bits + b, at, shape) for b in range(LOW))
        for g in kl.static_range(1, 1 << LOW):
            words = words ^ low[CHANGES[g]]
            kl.vstore(tables, t, (high << LOW) + (g ^ (g >> 1)), at, words)
    kl.barrier()


@function
def row_or_nothing(rows: kl.Array, row: kl.Scalar, at: kl.Scalar, shape: Shape) -> Any:
    """Words of a row, of which there may be none as the last table has fewer."""
    words = nothing(shape.lanes)
    if row < WORD:
        words = kl.vload(rows, row, at, lanes=shape.lanes)
    return words


@function
def combination(tables: kl.Array, named: kl.Scalar, at: kl.Scalar, shape: Shape) -> Any:
    """The sum of the rows that the bits of `named` name, its words from `at` on."""
    mask = (1 << shape.bits) - 1
    total = kl.vload(tables, 0, kl.cast(named & mask, kl.i32), at, lanes=shape.lanes)
    for t in kl.static_range(1, shape.tables):
        entry = kl.cast((named >> (t * shape.bits)) & mask, kl.i32)
        total = total ^ kl.vload(tables, t, entry, at, lanes=shape.lanes)
    return total


@function
def add_combinations(
    work: kl.Array, tables: kl.Array, named: kl.Scalar, s: kl.Scalar, row: kl.Scalar, shape: Shape
) -> None:
    """Adds to a row of stripe `s` what `named` names; work-items along dimension 0 share it."""
    step = kl.local_size(0) * shape.lanes
    for part in kl.static_range(shape.width // step):
        at = kl.local_id(0) * shape.lanes + part * step
        words = kl.vload(work, s, row, at, lanes=shape.lanes)
        kl.vstore(work, s, row, at, words ^ combination(tables, named, at, shape))


# -- blocks ----------------------------------------------------------------------------------------


@kernel
def multiply_stripes(
    named: kl.Array, rows: kl.Array, out: kl.Array, height: kl.Scalar, *, shape: Shape, adds: bool
) -> None:
    """A block of `height` rows of a stripe of ``out = named @ rows``, or of ``out + named @ rows``.

    ``named[place, row]`` are the words of the first matrix from its last columns on, `rows` and
    `out` stripes. The rows of a block are kept in registers where work-items share it, for all
    tables in turn; a lone work-item keeps them in its caches.
    """
    tables = kl.local((shape.tables, 1 << shape.bits, shape.width), kl.u64)
    part = kl.local((WORD, shape.width), kl.u64)
    s, first = kl.group_id(1), kl.group_id(0) * height
    last = kl.minimum(first + height, out.shape[1])
    if shape.alone:
        if not adds:
            clear_rows(out, s, first, last, shape)
        for step in range(named.shape[0]):
            bring_rows(rows, part, s, (named.shape[0] - 1 - step) * WORD, shape)
            build_tables(tables, part, shape)
            for row in range(first, last):
                add_combinations(out, tables, named[step, row], s, row, shape)
    else:
        multiply_block(named, rows, out, tables, part, (first, last), shape, adds)


@function
def multiply_block(
    named: kl.Array,
    rows: kl.Array,
    out: kl.Array,
    tables: kl.Array,
    part: kl.Array,
    block: tuple[kl.Scalar, ...],
    shape: Shape,
    adds: bool,
) -> None:
    """Some rows, by work-items that keep them in registers for all tables in turn."""
    s, apart = kl.group_id(1), kl.local_size(1)
    first, last = block
    COUNT = shape.rows // apart
    sums = kl.private(COUNT, kl.u64, lanes=shape.lanes)
    names = kl.local(shape.rows, kl.u64)
    item, at = kl.local_id(1), kl.local_id(0) * shape.lanes
    for i in kl.static_range(COUNT):
        sums[i] = nothing(shape.lanes)
        if adds and first + item + i * apart < last:
            sums[i] = kl.vload(out, s, first + item + i * apart, at, lanes=shape.lanes)
    for step in range(named.shape[0]):
        for i in kl.workgroup_range(shape.rows):
            names[i] = kl.cast(0, kl.u64)
            if first + i < last:
                names[i] = named[step, first + i]
        bring_rows(rows, part, s, (named.shape[0] - 1 - step) * WORD, shape)
        build_tables(tables, part, shape)
        for i in kl.static_range(COUNT):
            if first + i * apart < last:
                sums[i] = sums[i] ^ combination(tables, names[item + i * apart], at, shape)
        kl.barrier()
    for i in kl.static_range(COUNT):
        if first + item + i * apart < last:
            kl.vstore(out, s, first + item + i * apart, at, sums[i])


@function
def clear_rows(
    out: kl.Array, s: kl.Scalar, first: kl.Scalar, last: kl.Scalar, shape: Shape
) -> None:
    """Zeros to the rows of a block."""
    for row in range(first, last):
        for at in kl.static_range(0, shape.width, shape.lanes):
            kl.vstore(out, s, row, at, nothing(shape.lanes))


@function
def bring_rows(rows: kl.Array, part: kl.Array, s: kl.Scalar, top: kl.Scalar, shape: Shape) -> None:
    """64 rows of a stripe from `top` on, zeros where there are fewer."""
    items, item = kl.local_size(0) * kl.local_size(1), kl.local_linear_id()
    parts = shape.width // shape.lanes
    for x in range(item, WORD * parts, items):
        c, at = x // parts, x % parts * shape.lanes
        words = nothing(shape.lanes)
        if top + c < rows.shape[1]:
            words = kl.vload(rows, s, top + c, at, lanes=shape.lanes)
        kl.vstore(part, c, at, words)
    kl.barrier()


_BUILDING: Final = 3.7
"""Rows that are looked up while one entry of each table is built, on an H200."""

_BESIDE: Final = 0.5
"""What a workgroup takes longer than its share of a unit where it has it to itself, likewise."""


def multiply_blocks(
    named: Any, rows: Any, out: Any, *, shape: Shape, capabilities: Capabilities, adds: bool
) -> None:
    """Enqueues ``out = named @ rows``, or ``out + named @ rows``, on the device in use.

    Parameters
    ----------
    named, rows, out : array of uint64
        As `multiply_stripes` takes them; none is empty.
    shape : Shape
        Their layout.
    capabilities : Capabilities
        Of the device.
    adds : bool
        Whether the product is added.
    """
    stripes, count = int(out.shape[0]), int(out.shape[1])
    units = capabilities.compute_units
    height = block_rows(shape, count, stripes, units, shape.resident(capabilities))
    multiply_stripes[groups(-(-count // height), stripes), shape.workgroup](
        named, rows, out, height, shape=shape, adds=adds
    )


@lru_cache(maxsize=1024)
def block_rows(shape: Shape, rows: int, stripes: int, units: int, resident: int) -> int:
    """Rows of a block: many, as tables are built for each, but such that all units are busy.

    Workgroups come in rounds, and a last round of few takes nearly as long as a full one.

    Parameters
    ----------
    shape : Shape
        Whose `rows` are the most.
    rows, stripes : int
        Of the product.
    units, resident : int
        Compute units, and workgroups that each runs at once.
    """
    if shape.alone:
        return shape.rows

    def cost(height: int) -> float:
        rounds, rest = divmod(stripes * -(-rows // height), units * resident)
        last = (-(-rest // units) + _BESIDE) / (resident + _BESIDE) if rest else 0
        return (rounds + last) * (height + _BUILDING * (1 << shape.bits))

    return min(range(shape.rows, 0, -shape.workgroup[1]), key=cost)
