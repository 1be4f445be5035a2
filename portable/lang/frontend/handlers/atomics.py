"""Atomic operations."""

from __future__ import annotations

from typing import Any

from portable.dtypes import bool_
from portable.lang.frontend import memory
from portable.lang.frontend.builder import Builder
from portable.lang.frontend.handlers.memory import view_of
from portable.lang.frontend.handlers.registry import handles
from portable.lang.frontend.values import Value, View
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s

_ORDERS = {
    "atomic_load": ("relaxed", "acquire"),
    "atomic_store": ("relaxed", "release"),
}
_ANY_ORDER = ("relaxed", "acquire", "release", "acq_rel")
_FLOAT = ("load", "store", "add", "sub", "exchange", "min", "max")


def _checked(builder: Builder, word: str, array: Any, order: Any, scope: Any) -> View:
    view = view_of(builder, array, word)
    dtype = view.array.dtype
    op = word.removeprefix("atomic_")
    fits = dtype.itemsize in (4, 8) and not dtype.is_complex and dtype is not bool_
    if op == "store" and order == "relaxed":
        fits = fits or dtype.is_integer
    if view.array.space == "private" or not fits or (dtype.is_float and op not in _FLOAT):
        builder.fail(
            f"kl.{word} on a {dtype.short} {view.array.space} array",
            "atomics take 32- and 64-bit integers, and floats except for bit operations and "
            "compare_exchange, in global or local memory; relaxed stores all integers",
        )
    allowed = _ORDERS.get(word, _ANY_ORDER)
    if order not in allowed:
        builder.fail(f"kl.{word} takes the order {' or '.join(allowed)}, not {order!r}")
    if scope not in ("workgroup", "device"):
        builder.fail(f"kl.{word} takes the scope workgroup or device, not {scope!r}")
    return view


def _emit(
    builder: Builder,
    word: str,
    view: View,
    index: Any,
    value: e.Expression | None,
    order: Any,
    scope: Any,
    expected: e.Expression | None = None,
) -> Value:
    where = memory.place(builder, view, index)
    var = builder.bind("before", view.array.dtype)
    op: Any = word.removeprefix("atomic_")
    result = None if op == "store" else var
    builder.emit(
        s.Atomic(result, op, view.array, where, value, expected, order, scope, builder.location)
    )
    return Value(var)


@handles("atomic_load")
def _load(builder: Builder, array: Any, index: Any, order: Any, scope: Any) -> Value:
    view = _checked(builder, "atomic_load", array, order, scope)
    return _emit(builder, "atomic_load", view, index, None, order, scope)


@handles("atomic_store")
def _store(builder: Builder, array: Any, index: Any, value: Any, order: Any, scope: Any) -> None:
    view = _checked(builder, "atomic_store", array, order, scope)
    stored = memory.store_value(builder, view.array, value)
    _emit(builder, "atomic_store", view, index, stored.expr, order, scope)


@handles(
    "atomic_add",
    "atomic_sub",
    "atomic_min",
    "atomic_max",
    "atomic_and",
    "atomic_or",
    "atomic_xor",
    "atomic_exchange",
)
def _change(
    builder: Builder, word: str, array: Any, index: Any, value: Any, order: Any, scope: Any
) -> Value:
    view = _checked(builder, word, array, order, scope)
    operand = memory.store_value(builder, view.array, value)
    return _emit(builder, word, view, index, operand.expr, order, scope)


@handles("atomic_compare_exchange")
def _compare_exchange(
    builder: Builder, array: Any, index: Any, expected: Any, value: Any, order: Any, scope: Any
) -> Value:
    word = "atomic_compare_exchange"
    view = _checked(builder, word, array, order, scope)
    old = memory.store_value(builder, view.array, expected)
    new = memory.store_value(builder, view.array, value)
    return _emit(builder, word, view, index, new.expr, order, scope, old.expr)
