"""Local and private arrays, vectors, their loads and stores."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from numpy import ndindex

from portable import dtypes
from portable.dtypes import DType
from portable.errors import DTypeError
from portable.lang.frontend import memory, structs
from portable.lang.frontend.builder import Builder, handles
from portable.lang.frontend.conversion import as_value, cast, register_of, splat, unify
from portable.lang.frontend.values import (
    Complex,
    Struct,
    StructView,
    Value,
    View,
    describe,
    items_in,
    labelled,
    sequence,
)
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.facts import Interval
from portable.lang.ir.types import LANES, Array, Fragment, Layout, Space, Vector

_MOST_STORES: Final = 64
"""Elements that are filled one by one."""


def as_dtype(builder: Builder, x: Any) -> DType:
    """A dtype known at compile time."""
    try:
        return dtypes.named_in_kernels(x) if isinstance(x, str) else dtypes.dtype(x)
    except DTypeError:
        builder.fail(f"a dtype is needed here, not {describe(x)}", "such as kl.f32 or x.dtype")


def fragment_of(builder: Builder, x: Any, word: str) -> Fragment:
    """An argument that must be a matrix.

    Parameters
    ----------
    builder : Builder
    x : anything
    word : str
        Who asks, for the error.
    """
    if not isinstance(x, Fragment):
        builder.fail(f"{word} takes a kl.matrix, not {describe(x)}")
    return x


def _shape(builder: Builder, shape: Any) -> tuple[int, ...]:
    items = sequence(shape) or (shape,)
    for item in items:
        if not isinstance(item, int) or isinstance(item, bool) or item < 1:
            builder.fail(
                "the shape of a local or private array needs positive constants, "
                f"not {describe(item)}",
                "pass the size as a keyword-only argument of the kernel",
            )
    return tuple(items)


def _allocate(
    builder: Builder, space: Space, shape: Any, dtype: Any, lanes: int, name: str = ""
) -> View | StructView:
    """An array; of structs, one per field."""
    extents = _shape(builder, shape)
    name = name or builder.hint or space
    struct = structs.element_types(builder, dtype)
    if struct is not None:
        parts = (
            _allocate(builder, space, extents, item, lanes, name + part)
            for part, item in labelled(struct)
        )
        kind = struct.kind if isinstance(struct, Struct) else tuple
        return StructView(kind, tuple(parts))
    element = as_dtype(builder, dtype)
    register_of(builder, element)
    array = Array(
        builder.name(name),
        element,
        space,
        len(extents),
        extents,
        Layout.row_major(extents),
        lanes=lanes,
    )
    builder.arrays.append(array)
    return memory.whole(builder, array)


@handles("local")
def _local(builder: Builder, shape: Any, dtype: Any) -> View | StructView:
    return _allocate(builder, "local", shape, dtype, 1)


@handles("private")
def _private(builder: Builder, shape: Any, dtype: Any, lanes: Any, fill: Any) -> View | StructView:
    array = _allocate(builder, "private", shape, dtype, _check_lanes(builder, lanes))
    if fill is not None:
        _fill(builder, array, fill)
    return array


def _fill(builder: Builder, array: View | StructView, value: Any) -> None:
    """Every element the same; few of them one by one, so that they can be registers."""
    if isinstance(array, StructView):
        values = items_in(value) or [value] * len(array.items)
        if len(values) != len(array.items):
            builder.fail(f"{describe(value)} does not fill a {describe(array)}")
        for part, item in zip(array.items, values, strict=True):
            _fill(builder, part, item)
        return
    whole = array.array
    if isinstance(value, Value):
        value = value.made_into(builder.let("fill", value.expr))
    elif whole.lanes > 1:
        value = cast(builder, value, whole.dtype.register)
    if whole.lanes > 1 and value.lanes == 1:
        value = splat(as_value(builder, value), whole.lanes)
    if prod(whole.shape) <= _MOST_STORES:
        for index in ndindex(*whole.shape):
            memory.store(builder, array, index, value)
    else:
        _fill_in_loops(builder, array, value)


def _fill_in_loops(
    builder: Builder, array: View, value: Any, index: tuple[Value, ...] = ()
) -> None:
    if len(index) == array.ndim:
        memory.store(builder, array, index, value)
        return
    extent = array.array.shape[len(index)]
    var = builder.bind("i", builder.index_type)
    builder.intervals[var] = Interval(0, extent - 1)
    with builder.block() as body:
        _fill_in_loops(builder, array, value, (*index, Value(var)))
    start, stop, step = map(builder.index_const, (0, extent, 1))
    builder.emit(s.For(var, start, stop, step, tuple(body), builder.location, 0))


def _check_lanes(builder: Builder, lanes: Any) -> int:
    """A number of lanes; a vector of one is a scalar."""
    if type(lanes) is not int or lanes not in (1, *LANES):
        builder.fail(f"vectors have 1, 2, 3, 4, 8, 16 or 32 lanes, not {lanes!r}")
    return lanes


def view_of(builder: Builder, x: Any, word: str) -> View:
    """An argument that must be an array."""
    if not isinstance(x, View):
        builder.fail(f"kl.{word} takes an array, not {describe(x)}")
    return x


@handles("vload")
def _vload(
    builder: Builder, array: Any, index: tuple[Any, ...], lanes: Any, axis: Any, ahead: Any
) -> Any:
    view = view_of(builder, array, "vload")
    if type(ahead) is not int:
        builder.fail(f"ahead is a compile-time integer, not {describe(ahead)}")
    return memory.load(builder, view, index, _check_lanes(builder, lanes), axis, ahead)


@handles("vstore")
def _vstore(
    builder: Builder, array: Any, index_and_value: tuple[Any, ...], axis: Any, streaming: Any
) -> None:
    view = view_of(builder, array, "vstore")
    if len(index_and_value) != view.ndim + 1:
        builder.fail(f"kl.vstore into a {describe(view)} takes {view.ndim} indices and a value")
    if not isinstance(streaming, bool):
        builder.fail(f"streaming is a compile-time bool, not {describe(streaming)}")
    memory.store(builder, view, index_and_value[:-1], index_and_value[-1], axis, streaming)


@handles("vector")
def vector(builder: Builder, elements: tuple[Any, ...]) -> Value | Complex:
    """A vector of scalars; of a single one the scalar itself."""
    if _check_lanes(builder, len(elements)) == 1 and isinstance(elements[0], Complex):
        return elements[0]
    values = unify(builder, *elements)
    if any(v.lanes > 1 for v in values):
        builder.fail("kl.vector takes scalars")
    if len(values) == 1:
        return values[0]
    kind = Vector(values[0].dtype, len(values))
    made = e.MakeVector(tuple(v.expr for v in values), kind)
    return Value(made, values[0].weak, values[0].slots)


@handles("splat")
def _splat(builder: Builder, x: Any, lanes: Any) -> Value | Complex:
    if _check_lanes(builder, lanes) == 1 and isinstance(x, Complex):
        return x
    return splat(as_value(builder, x), lanes)


@handles("shuffle2")
def _shuffle2(builder: Builder, x: Any, y: Any, lanes: Any) -> Value:
    a, b = unify(builder, x, y)
    width = a.lanes
    if b.expr.type != a.expr.type:
        builder.fail(f"kl.shuffle2 takes two vectors alike, not {describe(x)} and {describe(y)}")
    known = isinstance(lanes, tuple) and all(type(n) is int for n in lanes)
    if not known or not all(0 <= n < 2 * width for n in lanes):
        builder.fail(
            f"kl.shuffle2 of vectors of {width} lanes takes constants from 0 to "
            f"{2 * width - 1}, not {lanes!r}"
        )
    _check_lanes(builder, len(lanes))
    both = builder.let("first", a.expr), builder.let("second", b.expr)
    picked = [both[n // width] for n in lanes]
    if width > 1:
        picked = [e.Lane(x, n % width) for x, n in zip(picked, lanes, strict=True)]
    if len(picked) == 1:
        return a.made_into(picked[0])
    return a.made_into(e.MakeVector(tuple(picked), Vector(a.dtype, len(lanes))))


@handles("compress")
def _compress(builder: Builder, x: Any, mask: Any) -> Value:
    value, chosen = as_value(builder, x), _mask(builder, "compress", mask)
    if value.lanes != chosen.lanes:
        builder.fail(f"{describe(x)} and a mask of {chosen.lanes} lanes do not match")
    return value.made_into(e.Compress(value.expr, chosen.expr))


@handles("count")
def _count(builder: Builder, mask: Any) -> Value:
    return Value(e.Count(_mask(builder, "count", mask).expr))


def _mask(builder: Builder, word: str, mask: Any) -> Value:
    if not (isinstance(mask, Value) and mask.lanes > 1 and mask.dtype is dtypes.bool_):
        builder.fail(f"kl.{word} takes a vector of bool, not {describe(mask)}", "such as v > 0")
    return mask
