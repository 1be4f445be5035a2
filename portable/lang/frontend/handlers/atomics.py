"""Atomic operations."""

from __future__ import annotations

from typing import Any

from portable.dtypes import bool_
from portable.lang.frontend import memory
from portable.lang.frontend.builder import Builder, handles
from portable.lang.frontend.conversion import as_value, register_of
from portable.lang.frontend.handlers.memory import vector, view_of
from portable.lang.frontend.values import Value, View
from portable.lang.ir import expressions as e
from portable.lang.ir import nodes
from portable.lang.ir import statements as s
from portable.lang.ir.types import Vector, lanes_of

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


@handles(
    "atomic_load",
    "atomic_store",
    "atomic_add",
    "atomic_sub",
    "atomic_min",
    "atomic_max",
    "atomic_and",
    "atomic_or",
    "atomic_xor",
    "atomic_exchange",
    "atomic_compare_exchange",
)
def _atomic(
    builder: Builder, word: str, array: Any, index: Any, order: Any, scope: Any, **numbers: Any
) -> Value | None:
    """Of an element; of vectors one for each lane, on neighbours along the last dimension."""
    view = _checked(builder, word, array, order, scope)
    place = memory.place(builder, view, index)
    given = {n: memory.store_value(builder, view.array, x).expr for n, x in numbers.items()}
    op: Any = word.removeprefix("atomic_")
    if op == "sub" and view.array.dtype.is_float:  # devices add floats, and take none off
        op, given = "add", {n: builder.let(n, e.Unary("neg", x)) for n, x in given.items()}
    width = max((lanes_of(x.type) for x in given.values()), default=1)
    if width > 1:
        kind = Vector(register_of(builder, view.array.dtype), width)
        given = {n: builder.let("lanes", nodes.splat(x, kind)) for n, x in given.items()}
    before: list[Value] = []
    for k in range(width):
        at = nodes.neighbour(place, view.kept[-1], k) if k else place
        part = {n: e.Lane(x, k) if width > 1 else x for n, x in given.items()}
        operands = part.get("value"), part.get("expected")
        var = None if op == "store" else builder.bind("before", view.array.dtype)
        builder.emit(s.Atomic(var, op, view.array, at, *operands, order, scope, builder.location))
        before += () if var is None else (Value(var),)
    return as_value(builder, vector(builder, tuple(before))) if before else None
