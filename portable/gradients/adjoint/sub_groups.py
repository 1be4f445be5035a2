"""The adjoints of what a sub-group or workgroup works out together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from portable.gradients.adjoint.names import Names, refuse, zero
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel, linear_id, sub_group_local_id
from portable.lang.ir.nodes import cast


def sub_group_shares(
    x: s.SubGroup | s.WorkgroupUniform | s.WorkgroupReduce,
    of: Callable[[e.Expression], e.Expression],
    adjoint: e.Expression,
    kernel: Kernel,
    names: Names,
) -> tuple[s.Block, e.Expression]:
    """The statements before it, and what is added to the adjoint of the value.

    Parameters
    ----------
    x : SubGroup, WorkgroupUniform or WorkgroupReduce
    of : callable
        Gives expressions in the names in sight.
    adjoint : Expression
        Of the result.
    kernel : Kernel
        Whose sub-groups they are.
    names : Names
    """
    if kernel.sub_group_size == 1 and isinstance(x, s.SubGroup):
        return (), adjoint
    lanes = _Lanes(kernel)
    match x:
        case s.SubGroup(op="reduce_add") | s.WorkgroupReduce(op="add"):
            return _summed(adjoint, x, names)
        case s.SubGroup(op="shuffle_xor"):
            assert x.argument is not None
            return _together("shuffle_xor", adjoint, of(x.argument), x, names)
        case s.SubGroup(op="shuffle_up" | "shuffle_down", argument=e.Const()):
            return _moved(x, adjoint, lanes, names)
        case s.SubGroup(op="broadcast", argument=e.Expression() as given):
            return _to_one(x, cast(of(given), lanes.kind), adjoint, lanes, names)
        case s.SubGroup(op="shuffle" | "shuffle_up" | "shuffle_down", argument=given) if given:
            return _scattered(x, cast(of(given), lanes.kind), adjoint, lanes, names)
        case s.SubGroup(op="scan_add"):
            return _scan(x, adjoint, lanes, names)
        case s.SubGroup(op="reduce_min" | "reduce_max") | s.WorkgroupReduce():
            won = e.Compare("eq", of(x.value), of(x.var))
            return _winner(x, won, adjoint, names)
        case _:
            word = "workgroup_uniform" if isinstance(x, s.WorkgroupUniform) else f"sub_group_{x.op}"
            refuse(
                f"of kl.{word} of floats",
                x,
                "use kl.workgroup_broadcast, or give the kernel an adjoint of your own by "
                "portable.custom_vjp",
            )


class _Lanes:
    """Where a work-item is in its sub-group, and which others there are."""

    def __init__(self, kernel: Kernel) -> None:
        self.kind: Final = kernel.index_type
        self.size: Final = kernel.sub_group_size
        self.items: Final = kernel.workgroup[0] * kernel.workgroup[1] * kernel.workgroup[2]
        self.own: Final = sub_group_local_id(kernel, self.kind)
        self._first: Final = e.Binary("sub", linear_id(kernel, self.kind), self.own)

    def number(self, x: int) -> e.Expression:
        """A number of a lane."""
        return e.Const(x, self.kind)

    def has(self, lane: e.Expression) -> e.Expression:
        """Whether there is a work-item at a lane."""
        inside = e.Binary(
            "and",
            e.Compare("ge", lane, self.number(0)),
            e.Compare("lt", lane, self.number(self.size)),
        )
        if self.items % self.size == 0:
            return inside
        position = e.Binary("add", self._first, lane)
        return e.Binary("and", inside, e.Compare("lt", position, self.number(self.items)))


def _together(
    op: s.SubGroupOp,
    value: e.Expression,
    argument: e.Expression | None,
    x: s.Statement,
    names: Names,
) -> tuple[s.Block, e.Expression]:
    variable = names.variable("together", value.type)
    return (s.SubGroup(variable, op, value, argument, x.loc),), variable


def _moved(
    x: s.SubGroup, adjoint: e.Expression, lanes: _Lanes, names: Names
) -> tuple[s.Block, e.Expression]:
    """Of a shuffle by so many lanes: back by as many; who got its own value keeps its own."""
    assert isinstance(x.argument, e.Const)
    by = lanes.number(int(x.argument.value))
    back: s.SubGroupOp = "shuffle_down" if x.op == "shuffle_up" else "shuffle_up"
    ahead, behind = e.Binary("add", lanes.own, by), e.Binary("sub", lanes.own, by)
    taker, giver = (ahead, behind) if x.op == "shuffle_up" else (behind, ahead)
    made, variable = _together(back, adjoint, x.argument, x, names)
    nothing = zero(adjoint.type)
    taken = e.Select(lanes.has(taker), variable, nothing)
    kept = e.Select(lanes.has(giver), nothing, adjoint)
    return made, e.Binary("add", taken, kept)


def _to_one(
    x: s.SubGroup, source: e.Expression, adjoint: e.Expression, lanes: _Lanes, names: Names
) -> tuple[s.Block, e.Expression]:
    """Of a broadcast: the sum goes to the lane that the value came from, if there is one."""
    made, total = _together("reduce_add", adjoint, None, x, names)
    share = e.Select(e.Compare("eq", source, lanes.own), total, zero(adjoint.type))
    return made, e.Select(lanes.has(source), share, adjoint)


def _scattered(
    x: s.SubGroup, source: e.Expression, adjoint: e.Expression, lanes: _Lanes, names: Names
) -> tuple[s.Block, e.Expression]:
    """Of any shuffle: each lane's adjoint goes to the lane that its value came from."""
    if x.op in ("shuffle_up", "shuffle_down"):
        source = e.Binary("sub" if x.op == "shuffle_up" else "add", lanes.own, source)
    given = names.variable("source", lanes.kind)
    out: list[s.Statement] = [s.Let(given, e.Select(lanes.has(source), source, lanes.own), x.loc)]
    total: e.Expression = zero(adjoint.type)
    for lane in range(min(lanes.size, lanes.items)):
        number = lanes.number(lane)
        share, variable = _together("broadcast", adjoint, number, x, names)
        asked, wanted = _together("broadcast", given, number, x, names)
        ours = e.Binary("and", lanes.has(number), e.Compare("eq", wanted, lanes.own))
        added = e.Binary("add", total, e.Select(ours, variable, zero(adjoint.type)))
        sum_ = names.variable("scattered", adjoint.type)
        out += [*share, *asked, s.Let(sum_, added, x.loc)]
        total = sum_
    return tuple(out), total


def _scan(
    x: s.SubGroup, adjoint: e.Expression, lanes: _Lanes, names: Names
) -> tuple[s.Block, e.Expression]:
    """The sums of what comes after, by steps of doubled width."""
    out: list[s.Statement] = []
    total, step = adjoint, 1
    while step < min(lanes.size, lanes.items):
        width = lanes.number(step)
        made, after = _together("shuffle_down", total, width, x, names)
        inside = lanes.has(e.Binary("add", lanes.own, width))
        added = e.Binary("add", total, e.Select(inside, after, zero(total.type)))
        total = names.variable("after", adjoint.type)
        out += [*made, s.Let(total, added, x.loc)]
        step *= 2
    return tuple(out), total


def _summed(
    value: e.Expression, x: s.SubGroup | s.WorkgroupReduce, names: Names
) -> tuple[s.Block, e.Expression]:
    """The sum of a value over all those who took part."""
    if isinstance(x, s.SubGroup):
        return _together("reduce_add", value, None, x, names)
    variable = names.variable("together", value.type)
    return (s.WorkgroupReduce(variable, "add", value, x.loc),), variable


def _winner(
    x: s.SubGroup | s.WorkgroupReduce, won: e.Expression, adjoint: e.Expression, names: Names
) -> tuple[s.Block, e.Expression]:
    """Those that have the greatest value share alike."""
    made, total = _summed(adjoint, x, names)
    one = e.Cast(won, adjoint.type)
    counted, count = _summed(one, x, names)
    share = e.Select(won, e.Binary("div", total, count), zero(total.type))
    return (*made, *counted), share
