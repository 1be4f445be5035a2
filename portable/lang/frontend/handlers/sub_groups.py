"""Sub-group shuffles and reductions."""

from __future__ import annotations

from typing import Any

from portable.dtypes import bool_, int32
from portable.lang.frontend.builder import Builder
from portable.lang.frontend.conversion import as_type, as_value
from portable.lang.frontend.handlers.registry import handles
from portable.lang.frontend.values import Complex, Value, describe, items_in, map_parts
from portable.lang.ir import statements as s

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
    index = None if argument is None else as_type(builder, argument, int32).expr
    var = builder.bind(op, value.type)
    builder.emit(s.SubGroup(var, op, value.expr, index, builder.location))
    return Value(var)


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
def _reduce(builder: Builder, word: str, x: Any) -> Any:
    return _emit(builder, word, x)
