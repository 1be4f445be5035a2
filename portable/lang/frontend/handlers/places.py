"""Where a work-item stands, and what is uniform."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

from portable.backend.faults import Fault
from portable.lang.frontend.arithmetic import binary
from portable.lang.frontend.builder import Builder
from portable.lang.frontend.conversion import as_value
from portable.lang.frontend.handlers.registry import handles
from portable.lang.frontend.values import Complex, Value, describe, items_in, map_parts
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.facts import Interval, index_limit


def _dim(builder: Builder, word: str, dim: Any) -> int:
    if not isinstance(dim, int) or not 0 <= dim <= 2:
        hint = "repeat the code for each by kl.static_range" if isinstance(dim, Value) else ""
        builder.fail(f"kl.{word} takes a constant dimension 0, 1 or 2, not {describe(dim)}", hint)
    return dim


def _bounded(builder: Builder, name: str, node: e.WorkItem, high: int | None) -> Value:
    if high == 0:
        return Value(builder.index_const(0))
    var = builder.let(builder.hint or name, node)
    assert isinstance(var, e.Variable)
    top = index_limit(node.type) if high is None else high
    builder.intervals[var] = Interval(0, top)
    return Value(var)


@handles("global_id", "local_id", "group_id", "global_size", "num_groups")
def _place(builder: Builder, word: Any, dim: Any) -> Value:
    along = _dim(builder, word, dim)
    high = builder.workgroup[along] - 1 if word == "local_id" else None
    return _bounded(builder, word, e.WorkItem(word, along, builder.index_type), high)


@handles("local_size")
def _local_size(builder: Builder, dim: Any) -> int:
    return builder.workgroup[_dim(builder, "local_size", dim)]


@handles("local_linear_id")
def linear_id(builder: Builder) -> Any:
    """This work-item's number in its workgroup."""
    total: Any = 0
    for dim in (2, 1, 0):
        number = _place_of(builder, dim)
        total = binary(
            builder, "add", binary(builder, "mul", total, builder.workgroup[dim]), number
        )
    if isinstance(total, int):
        return total
    var = builder.let("local_linear_id", total.expr)
    if isinstance(var, e.Variable):
        builder.intervals[var] = Interval(0, prod(builder.workgroup) - 1)
    return Value(var)


def _place_of(builder: Builder, dim: int) -> Any:
    if builder.workgroup[dim] == 1:
        return 0
    return _bounded(
        builder,
        "local_id",
        e.WorkItem("local_id", dim, builder.index_type),
        builder.workgroup[dim] - 1,
    )


def _sub_groups(builder: Builder) -> int:
    return -(-prod(builder.workgroup) // builder.capabilities.sub_group_size)


@handles("sub_group_size")
def _sub_group_size(builder: Builder) -> int:
    return builder.capabilities.sub_group_size


@handles("num_sub_groups")
def _num_sub_groups(builder: Builder) -> int:
    return _sub_groups(builder)


@handles("sub_group_id", "sub_group_local_id")
def _in_sub_groups(builder: Builder, word: Any) -> Any:
    size, is_number = builder.capabilities.sub_group_size, word == "sub_group_id"
    if lacks_shuffles(builder):
        return binary(builder, "floordiv" if is_number else "mod", linear_id(builder), size)
    high = (_sub_groups(builder) if is_number else size) - 1
    return _bounded(builder, word, e.WorkItem(word, 0, builder.index_type), high)


def lacks_shuffles(builder: Builder) -> bool:
    """Whether sub-groups go by local memory: an adjoint is made, whose shuffles would lose lanes.

    The program is then compiled without sub-groups.
    """
    return builder.options.whole_reductions and Fault.LOST_LANES in builder.capabilities.faults


@handles("workgroup_uniform")
def _workgroup_uniform(builder: Builder, x: Any) -> Any:
    if isinstance(x, Complex) or items_in(x) is not None:
        return map_parts(partial(_workgroup_uniform, builder), x)
    value = as_value(builder, x)
    if value.lanes > 1:
        builder.fail("kl.workgroup_uniform takes a scalar")
    var = builder.bind("uniform", value.type)
    builder.emit(s.WorkgroupUniform(var, value.expr, builder.location))
    return Value(var, value.weak, value.slots)


@handles("assume_uniform")
def _assume_uniform(builder: Builder, x: Any) -> Any:
    if isinstance(x, Complex) or items_in(x) is not None:
        return map_parts(partial(_assume_uniform, builder), x)
    if not isinstance(x, Value):
        return x
    return Value(builder.let("uniform", e.AssumeUniform(x.expr)), x.weak, x.slots)


@handles("barrier")
def _barrier(builder: Builder, sub_groups: Any) -> None:
    builder.emit(s.Barrier(builder.location, meeting_items(builder, "barrier", sub_groups)))


def meeting_items(builder: Builder, word: str, sub_groups: Any) -> int:
    """How many work-items so many sub-groups are; 0 where they are all of the workgroup.

    Parameters
    ----------
    builder : Builder
    word : str
        Of which they are an argument.
    sub_groups : object
        A positive constant, or None.

    Raises
    ------
    KernelError
        For anything else.
    """
    if sub_groups is not None and not (isinstance(sub_groups, int) and sub_groups > 0):
        builder.fail(f"kl.{word} takes a constant number of sub-groups, not {describe(sub_groups)}")
    meeting: int = (sub_groups or 0) * builder.capabilities.sub_group_size
    return meeting if meeting < prod(builder.workgroup) else 0


@handles("fence")
def _fence(builder: Builder, order: Any, scope: Any) -> None:
    if order not in ("acquire", "release", "acq_rel"):
        builder.fail(f"kl.fence takes the order acquire, release or acq_rel, not {order!r}")
    if scope not in ("workgroup", "device"):
        builder.fail(f"kl.fence takes the scope workgroup or device, not {scope!r}")
    builder.emit(s.Fence(order, scope, builder.location))
