"""Where a work-item stands among the lanes and warps of its workgroup."""

from __future__ import annotations

from dataclasses import dataclass

from portable.lang.ir import expressions as e
from portable.lang.ir.nodes import constant
from portable.lang.tiles.mma_shapes import LANES
from portable.lang.tiles.work import Code, add, mul


@dataclass(frozen=True, slots=True)
class Lanes:
    """The numbers of a work-item, bound at the top of the kernel.

    Attributes
    ----------
    lane, warp : Expression
        Its number in its warp, and the warp's in the workgroup.
    group, member : Expression
        The lane divided by 4, and the remainder.
    """

    lane: e.Expression
    warp: e.Expression
    group: e.Expression
    member: e.Expression

    @staticmethod
    def of(code: Code) -> Lanes:
        """Binds them."""
        linear = code.let("linear", _linear(code))
        lane = code.let("lane", remainder(linear, LANES))
        return Lanes(
            lane,
            code.let("warp", divided(linear, LANES)),
            code.let("lane_group", divided(lane, 4)),
            code.let("lane_member", remainder(lane, 4)),
        )


def _linear(code: Code) -> e.Expression:
    kernel = code.work.kernel
    total: e.Expression = code.index(0)
    size = 1
    for dim, extent in enumerate(kernel.workgroup):
        if extent > 1:
            total = add(total, mul(e.WorkItem("local_id", dim, kernel.index_type), size))
        size *= extent
    return total


def divided(x: e.Expression, by: int) -> e.Expression:
    """An index that is never negative, divided by a constant."""
    if isinstance(x, e.Const):
        return constant(int(x.value) // by, x.type)
    return x if by == 1 else e.Binary("floordiv", x, constant(by, x.type), nonnegative=True)


def remainder(x: e.Expression, by: int) -> e.Expression:
    """What is left of that division."""
    if by == 1 or isinstance(x, e.Const):
        return constant(int(x.value) % by if isinstance(x, e.Const) else 0, x.type)
    return e.Binary("mod", x, constant(by, x.type), nonnegative=True)
