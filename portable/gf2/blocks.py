"""Products of stripes by workgroups with a block of rows each, in rounds that are even."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from portable.backend import Capabilities
from portable.gf2.product_kernels import multiply_stripes
from portable.gf2.tuning import Shape
from portable.lang.launch.geometry import groups

__all__ = ["block_rows", "multiply_blocks"]

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
