"""The adjoints of what a sub-group works out together."""

from __future__ import annotations

from collections.abc import Callable

from portable.gradients.adjoint.names import Names, refuse, zero
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.places import linear_id, sub_group_local_id

__all__ = ["sub_group_shares"]


def sub_group_shares(
    x: s.SubGroup | s.WorkgroupUniform,
    of: Callable[[e.Expression], e.Expression],
    adjoint: e.Expression,
    kernel: Kernel,
    names: Names,
) -> tuple[s.Block, e.Expression]:
    """The statements before it, and what is added to the adjoint of the value.

    Parameters
    ----------
    x : SubGroup or WorkgroupUniform
    of : callable
        Gives expressions in the names in sight.
    adjoint : Expression
        Of the result.
    kernel : Kernel
        Whose sub-groups they are.
    names : Names
    """
    match x:
        case s.SubGroup(op="reduce_add"):
            return _together("reduce_add", adjoint, None, x, names)
        case s.SubGroup(op="shuffle_xor"):
            assert x.argument is not None
            return _together("shuffle_xor", adjoint, of(x.argument), x, names)
        case s.SubGroup(op="broadcast"):
            return _broadcast(x, of, adjoint, names)
        case s.SubGroup(op="scan_add"):
            return _scan(x, adjoint, kernel, names)
        case s.SubGroup(op="reduce_min" | "reduce_max"):
            return _winner(x, of, adjoint, names)
        case _:
            word = "workgroup_uniform" if isinstance(x, s.WorkgroupUniform) else f"sub_group_{x.op}"
            refuse(
                f"of kl.{word}",
                x,
                "use a reduction, a scan, a broadcast or sub_group_shuffle_xor, or give the kernel "
                "an adjoint of your own by portable.custom_vjp",
            )


def _together(
    op: s.SubGroupOp, value: e.Expression, argument: e.Expression | None, x: s.Statement, names: Names
) -> tuple[s.Block, e.Expression]:
    found = names.variable("together", value.type)
    return (s.SubGroup(found, op, value, argument, x.loc),), found


def _broadcast(
    x: s.SubGroup,
    of: Callable[[e.Expression], e.Expression],
    adjoint: e.Expression,
    names: Names,
) -> tuple[s.Block, e.Expression]:
    made, total = _together("reduce_add", adjoint, None, x, names)
    assert x.argument is not None
    argument = of(x.argument)
    own = e.WorkItem("sub_group_local_id", 0, argument.type)  # type: ignore[arg-type]
    return made, e.Select(e.Compare("eq", own, argument), total, zero(total.type))


def _scan(
    x: s.SubGroup, adjoint: e.Expression, kernel: Kernel, names: Names
) -> tuple[s.Block, e.Expression]:
    """The sums of what comes after, by steps of doubled width."""
    kind = kernel.index_type
    items = kernel.workgroup[0] * kernel.workgroup[1] * kernel.workgroup[2]
    out: list[s.Statement] = []
    total, step = adjoint, 1
    while step < min(kernel.sub_group_size, items):
        width = e.Const(step, kind)
        made, after = _together("shuffle_down", total, width, x, names)
        lane = e.Binary("add", sub_group_local_id(kernel, kind), width)
        item = e.Binary("add", linear_id(kernel, kind), width)
        inside = e.Binary(
            "and",
            e.Compare("lt", lane, e.Const(kernel.sub_group_size, kind)),
            e.Compare("lt", item, e.Const(items, kind)),
        )
        added = e.Binary("add", total, e.Select(inside, after, zero(total.type)))
        total = names.variable("after", adjoint.type)
        out += [*made, s.Let(total, added, x.loc)]
        step *= 2
    return tuple(out), total


def _winner(
    x: s.SubGroup,
    of: Callable[[e.Expression], e.Expression],
    adjoint: e.Expression,
    names: Names,
) -> tuple[s.Block, e.Expression]:
    """Those that have the greatest value share alike."""
    made, total = _together("reduce_add", adjoint, None, x, names)
    won = e.Compare("eq", of(x.value), of(x.var))
    one = e.Cast(won, adjoint.type)
    counted, count = _together("reduce_add", one, None, x, names)
    share = e.Select(won, e.Binary("div", total, count), zero(total.type))
    return (*made, *counted), share
