"""Products of stripes by workgroups with a block of rows each, in rounds that are even."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from portable import lang as kl
from portable.backend import Capabilities
from portable.gf2.table_kernels import (
    WORD,
    add_combinations,
    build_tables,
    combination,
    nothing,
)
from portable.gf2.tuning import Shape
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups


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
