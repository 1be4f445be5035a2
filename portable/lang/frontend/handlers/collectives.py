"""Places, barriers, and the helper in `portable.lang.library` that each collective inlines."""

from __future__ import annotations

from collections import Counter
from functools import partial
from math import prod
from typing import Any, Final, Literal

from portable.backend.capabilities import Fault
from portable.dtypes import DType, bool_, complex64, complex128, float32, int32
from portable.lang import words
from portable.lang.frontend import memory
from portable.lang.frontend.arithmetic import binary
from portable.lang.frontend.builder import Builder, handles
from portable.lang.frontend.conversion import as_type, as_value
from portable.lang.frontend.structs import is_callable
from portable.lang.frontend.values import (
    Complex,
    Struct,
    StructView,
    Value,
    View,
    describe,
    is_number,
    items_in,
    like,
    map_leaves,
    map_parts,
)
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.facts import Interval, index_limit
from portable.lang.ir.types import Array, Layout

# Where a work-item stands, and what is uniform.


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


@handles("num_sub_groups")
def _sub_groups(builder: Builder) -> int:
    return -(-prod(builder.workgroup) // builder.capabilities.sub_group_size)


@handles("sub_group_size")
def _sub_group_size(builder: Builder) -> int:
    return builder.capabilities.sub_group_size


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
    return value.made_into(var)


@handles("assume_uniform")
def _assume_uniform(builder: Builder, x: Any) -> Any:
    if isinstance(x, Complex) or items_in(x) is not None:
        return map_parts(partial(_assume_uniform, builder), x)
    if not isinstance(x, Value):
        return x
    return x.made_into(builder.let("uniform", e.AssumeUniform(x.expr)))


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


# Sub-group shuffles and reductions.

_SHUFFLES = ("shuffle", "shuffle_xor", "shuffle_up", "shuffle_down", "broadcast")


def _emit(builder: Builder, word: str, x: Any, argument: Any = None) -> Any:
    """The statement; of tuples and structs one per number."""
    op: Any = word.removeprefix("sub_group_")
    if op in _SHUFFLES and (isinstance(x, Complex) or items_in(x) is not None):
        return map_parts(lambda part: _emit(builder, word, part, argument), x)
    value = as_value(builder, x)
    if value.lanes > 1:
        builder.fail(f"kl.{word} takes a scalar, not {describe(value)}")
    wants_bool = op in ("any", "all")
    if op not in _SHUFFLES and wants_bool != (value.type is bool_):
        wanted = "a bool" if wants_bool else "a number"
        builder.fail(f"kl.{word} takes {wanted}, not {describe(value)}")
    if op in ("reduce_and", "reduce_or", "reduce_xor") and value.dtype.is_float:
        builder.fail(f"kl.{word} takes integers, not {describe(value)}")
    index = None if argument is None else as_type(builder, argument, int32)
    if lacks_shuffles(builder):
        return _by_local_memory(builder, op, value, index)
    var = builder.bind(op, value.type)
    taken = None if index is None else index.expr
    builder.emit(s.SubGroup(var, op, value.expr, taken, builder.location))
    return Value(var)


def _by_local_memory(builder: Builder, op: str, value: Value, index: Value | None) -> Any:
    """The same without shuffles, where all work-items of the workgroup get to it."""
    from portable.lang.library import collectives

    who = builder.capabilities.sub_group_size, *_group(builder, value)
    if op in _SHUFFLES:
        return builder.inline(collectives.moved, [op, value, index, *who], {})
    return builder.inline(collectives.merged, [op, value, *who], {})


@handles(
    "sub_group_shuffle",
    "sub_group_shuffle_xor",
    "sub_group_shuffle_up",
    "sub_group_shuffle_down",
    "sub_group_broadcast",
)
def _shuffle(builder: Builder, word: str, x: Any, index: Any) -> Any:
    value = index if isinstance(index, int) else as_value(builder, index)
    if isinstance(value, Value) and not value.dtype.is_integer:
        builder.fail(f"kl.{word} takes an integer index, not {describe(value)}")
    return _emit(builder, word, x, value)


@handles(
    "sub_group_reduce_add",
    "sub_group_reduce_min",
    "sub_group_reduce_max",
    "sub_group_reduce_and",
    "sub_group_reduce_or",
    "sub_group_reduce_xor",
    "sub_group_scan_add",
    "sub_group_any",
    "sub_group_all",
)
def _sub_group_reduce(builder: Builder, word: str, x: Any) -> Any:
    return _emit(builder, word, x)


# -- collectives -----------------------------------------------------------------------------------

_WHOLE: Final[tuple[tuple[Any, Literal["add", "min", "max"]], ...]] = (
    (words.add, "add"),
    (words.minimum, "min"),
    (words.maximum, "max"),
)


@handles("workgroup_reduce")
def _reduce(builder: Builder, op: Any, x: Any, width: Any) -> Any:
    from portable.lang.library import collectives

    _check_operation(builder, "workgroup_reduce", op)
    value = _strong(builder, "workgroup_reduce", x)
    span = prod(builder.workgroup) if width is None else _width(builder, "workgroup_reduce", width)
    if span == 1:
        return value
    if width is None and builder.options.whole_reductions and _is_float(value):
        for word, name in _WHOLE:
            if op is word:
                var = builder.bind("reduced", value.type)
                builder.emit(s.WorkgroupReduce(var, name, value.expr, builder.location))
                return Value(var)
    return builder.inline(collectives.reduced, [op, value, *_group(builder, value, span)], {})


def _is_float(value: Any) -> bool:
    return isinstance(value, Value) and value.dtype.is_float


def _width(builder: Builder, word: str, width: Any) -> int:
    size = prod(builder.workgroup)
    if not isinstance(width, int) or width < 1 or size % width:
        builder.fail(
            f"the width of kl.{word} is a constant that divides the {size} work-items, "
            f"not {describe(width)}"
        )
    return width


@handles("workgroup_scan")
def _scan(
    builder: Builder, op: Any, x: Any, inclusive: Any, initial: Any, total: Any, width: Any
) -> Any:
    from portable.lang.library import collectives

    _check_operation(builder, "workgroup_scan", op)
    for name, flag in (("inclusive", inclusive), ("total", total)):
        if not isinstance(flag, bool):
            builder.fail(f"{name} of kl.workgroup_scan is a constant, not {describe(flag)}")
    if initial is None and not inclusive:
        builder.fail(
            "kl.workgroup_scan without inclusive needs a value for the first work-item",
            "pass initial=, such as 0 for sums",
        )
    value = _strong(builder, "workgroup_scan", x)
    start = None if initial is None else _converted(builder, initial, value)
    span = prod(builder.workgroup) if width is None else _width(builder, "workgroup_scan", width)
    if span == 1:
        last = value if start is None else builder.call(op, [start, value])
        first = last if inclusive else start
        return (first, last) if total else first
    who = _group(builder, value, span)
    return builder.inline(collectives.scanned, [op, value, *who, inclusive, start, total], {})


@handles("workgroup_any", "workgroup_all")
def _vote(builder: Builder, word: str, x: Any) -> Any:
    from portable.lang.library import collectives

    value = as_value(builder, x)
    if value.type is not bool_:
        builder.fail(f"kl.{word} takes a bool, not {describe(x)}", "compare it: write x != 0")
    if prod(builder.workgroup) == 1:
        return value
    any_of = words.logical_or, words.sub_group_any
    how = any_of if word == "workgroup_any" else (words.logical_and, words.sub_group_all)
    return builder.inline(collectives.voted, [*how, value, *_group(builder, value)], {})


@handles("workgroup_broadcast")
def _broadcast(builder: Builder, x: Any, index: Any) -> Any:
    from portable.lang.library import collectives

    size = prod(builder.workgroup)
    if isinstance(index, int) and not 0 <= index < size:
        builder.fail(f"kl.workgroup_broadcast from work-item {index} of {size}")
    if not isinstance(index, int) and not (isinstance(index, Value) and index.dtype.is_integer):
        builder.fail(f"kl.workgroup_broadcast takes an integer index, not {describe(index)}")
    value = _strong(builder, "workgroup_broadcast", x)
    if size == 1:
        return value
    return builder.inline(collectives.broadcast, [value, index, *_group(builder, value)], {})


def _check_operation(builder: Builder, word: str, op: Any) -> None:
    if not is_callable(op):
        builder.fail(
            f"kl.{word} takes a function of two values, not {describe(op)}",
            "such as kl.add, kl.maximum, or one defined by 'def' or 'lambda'",
        )


def _strong(builder: Builder, word: str, x: Any) -> Any:
    """The value with types of its own, those that its numbers have by themselves."""

    def leaf(item: Any) -> Any:
        if isinstance(item, Complex):
            return item
        if not is_number(item) or isinstance(item, complex):
            builder.fail(
                f"kl.{word} takes numbers, and tuples and structs of numbers, not {describe(item)}"
            )
        value = as_value(builder, item)
        if value.lanes > 1:
            builder.fail(f"kl.{word} takes scalars, not {describe(value)}", "take its lanes: v[0]")
        return as_type(builder, value, value.dtype)

    return map_leaves(leaf, x)


def _converted(builder: Builder, initial: Any, x: Any) -> Any:
    """The initial value, a tuple or struct like the others, in the types of these."""
    items = items_in(x)
    if items is not None:
        items_here = items_in(initial)
        if items_here is None or len(items_here) != len(items):
            builder.fail(f"initial is {describe(initial)}, and the values are {describe(x)}")
        return like(x, (_converted(builder, i, v) for i, v in zip(items_here, items, strict=True)))
    return as_type(builder, initial, x.dtype) if isinstance(x, Value) else initial


def _group(builder: Builder, x: Any, span: int = 0) -> tuple[Struct, View | StructView | None]:
    """Who takes part, and local memory for values like `x` where some is needed."""
    from portable.lang.library.collectives import Workgroup

    size = prod(builder.workgroup)
    width = 1 if lacks_shuffles(builder) else builder.capabilities.sub_group_size
    plan = Workgroup(size, span or size, width, builder.scratch_used)
    scratch = None
    if plan.room:
        scratch = _scratch(builder, x, plan.room, Counter())
        builder.scratch_used = True
    return Struct(Workgroup, (size, plan.span, width, plan.used)), scratch


def _scratch(builder: Builder, x: Any, room: int, taken: Counter[DType]) -> View | StructView:
    """An array of values like `x`; those of one type are the same for all collectives."""
    items = items_in(x)
    if items is not None:
        kind = x.kind if isinstance(x, Struct) else tuple
        return StructView(kind, tuple(_scratch(builder, item, room, taken) for item in items))
    dtype = x.dtype
    if isinstance(x, Complex):
        dtype = complex64 if x.dtype is float32 else complex128
    key = (dtype, taken[dtype])
    taken[dtype] += 1
    array = builder.scratch.get(key)
    if array is None:
        layout = Layout.row_major((room,))
        name = builder.name(f"scratch_{dtype.short}")
        array = builder.scratch[key] = Array(name, dtype, "local", 1, (room,), layout)
        builder.arrays.append(array)
    return memory.whole(builder, array)
