"""Local and private arrays, vectors, their loads and stores, and copies of tiles."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any, Final, NamedTuple

from numpy import ndindex

from portable import dtypes
from portable.dtypes import DType, bool_, uint64
from portable.errors import DTypeError
from portable.lang.frontend import memory, structs
from portable.lang.frontend.builder import Builder, handles
from portable.lang.frontend.conversion import (
    as_index,
    as_type,
    as_value,
    cast,
    register_of,
    splat,
    unify,
)
from portable.lang.frontend.handlers.collectives import meeting_items
from portable.lang.frontend.structs import is_callable
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
from portable.lang.ir import nodes, walks
from portable.lang.ir import statements as s
from portable.lang.ir.facts import Interval
from portable.lang.ir.pipeline import Pipeline
from portable.lang.ir.types import LANES, Array, Fragment, Layout, Space, Vector, lanes_of

_MOST_STORES: Final = 64
"""Elements that are filled one by one."""


def as_dtype(builder: Builder, x: Any) -> DType:
    """A dtype known at compile time."""
    try:
        return dtypes.dtype(x)
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
        value = Value(builder.let("fill", value.expr), value.weak, value.slots)
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
def _vector(builder: Builder, elements: tuple[Any, ...]) -> Value | Complex:
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
        return Value(picked[0], a.weak, a.slots)
    return Value(e.MakeVector(tuple(picked), Vector(a.dtype, len(lanes))), a.weak, a.slots)


@handles("compress")
def _compress(builder: Builder, x: Any, mask: Any) -> Value:
    value, chosen = as_value(builder, x), _mask(builder, "compress", mask)
    if value.lanes != chosen.lanes:
        builder.fail(f"{describe(x)} and a mask of {chosen.lanes} lanes do not match")
    return Value(e.Compress(value.expr, chosen.expr), value.weak, value.slots)


@handles("count")
def _count(builder: Builder, mask: Any) -> Value:
    return Value(e.Count(_mask(builder, "count", mask).expr))


def _mask(builder: Builder, word: str, mask: Any) -> Value:
    if not (isinstance(mask, Value) and mask.lanes > 1 and mask.dtype is dtypes.bool_):
        builder.fail(f"kl.{word} takes a vector of bool, not {describe(mask)}", "such as v > 0")
    return mask


# Atomic operations.

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
    return as_value(builder, _vector(builder, tuple(before))) if before else None


# Copies between global and local memory.


# Pipelines of tiles.


class _PipelineOptions(NamedTuple):
    """The keyword arguments of `portable.lang.pipeline`."""

    ahead: Any
    valid: Any
    transposed: Any
    rotated: Any
    after: Any


@handles("pipeline")
def _pipeline(
    builder: Builder,
    accumulator: Any,
    tiles: Any,
    read: Any,
    start: Any,
    stop: Any,
    **how: Any,
) -> None:
    from portable.lang.library import collectives

    total = fragment_of(builder, accumulator, "kl.pipeline")
    stages = _stages(builder, tiles)
    ahead, valid, transposed, rotated, after = options = _PipelineOptions(**how)
    _check(builder, stages, read, options)
    var, first, last = _steps(builder, start, stop)
    builder.scratch_used = True  # what a later round begins with
    step = Value(var)
    with builder.block() as copies:
        builder.inline(collectives.read_slot, [tiles, read, step, ahead, stages], {})
    with builder.block() as product:
        given = [total, tiles, valid, step, stages, transposed]
        builder.inline(collectives.multiply_slot, given, {})
    here = builder.location
    multiply = product.pop()
    assert isinstance(multiply, s.Multiply)
    # The location is the user's, not the helper's.
    product.append(replace(multiply, loc=here, anew=after is not None))
    if after is not None:
        with builder.block() as following:
            builder.inline(collectives.follow, [after, step], {})
        _check_no_meeting(builder, tuple(following))
        product += following
    whole = tuple(copies), tuple(product)
    builder.emit(Pipeline(var, first, last, *whole, stages, ahead, rotated, here))


def _check_no_meeting(builder: Builder, following: s.Block) -> None:
    """Refuses what work-items that only copy would have to take part in."""
    for x in walks.all_statements(following):
        if x.together() != "work_item" and not isinstance(x, s.FragmentFill | s.ForElements):
            builder.fail(
                f"after of kl.pipeline holds {type(x).__name__}, for which work-items meet",
                "it may map and fill matrices, and do what a work-item does alone",
            )


def _stages(builder: Builder, tiles: Any) -> int:
    """How many slots both operands have."""
    pair = tiles if isinstance(tiles, tuple) and len(tiles) == 2 else ()
    local = all(isinstance(x, View) and x.array.space == "local" and x.ndim == 3 for x in pair)
    if not pair or not local:
        builder.fail(
            f"kl.pipeline takes two local arrays of three dimensions, not {describe(tiles)}",
            "such as kl.local((STAGES, M, K), kl.f32) and kl.local((STAGES, K, N), kl.f32)",
        )
    left, right = (x.extents[0] for x in pair)
    if not isinstance(left, int) or left != right:
        builder.fail(f"the tiles of kl.pipeline have {left} and {right} slots", "give both as many")
    return left


def _check(builder: Builder, stages: int, read: Any, options: _PipelineOptions) -> None:
    """Refuses what is no constant, no function, or copies that would overtake products."""
    ahead, functions = options.ahead, (read, options.valid, options.after)
    if not isinstance(ahead, int) or not 0 <= ahead < stages:
        builder.fail(
            f"ahead of kl.pipeline is {describe(ahead)} for {stages} slots",
            f"a constant from 0 to {stages - 1}: a slot more is multiplied meanwhile",
        )
    for name, given in zip(("read", "valid", "after"), functions, strict=True):
        if not is_callable(given) and (name == "read" or given is not None):
            builder.fail(f"{name} of kl.pipeline is a function, not {describe(given)}")
    for name, flag in (("transposed", options.transposed), ("rotated", options.rotated)):
        if not isinstance(flag, bool):
            builder.fail(f"{name} of kl.pipeline is a constant, not {describe(flag)}")


def _steps(
    builder: Builder, start: Any, stop: Any
) -> tuple[e.Variable, e.Expression, e.Expression]:
    """The variable that counts steps, and where it begins and ends."""
    for x in (start, stop):
        integer = isinstance(x, Value) and x.dtype.is_integer and x.lanes == 1
        if not integer and (not isinstance(x, int) or isinstance(x, bool)):
            builder.fail(f"the steps of kl.pipeline are integers, not {describe(x)}")
    values = unify(builder, start, stop, 1)
    dtype = values[0].dtype
    ends = zip(("start", "stop"), values, strict=False)
    first, last = (builder.let(name, as_type(builder, x, dtype).expr) for name, x in ends)
    var = builder.bind("step", first.type)
    low, high = builder.bounds(first).low, builder.bounds(last).high
    builder.intervals[var] = Interval(low, max(low, high - 1))
    return var, first, last


# -- copies ----------------------------------------------------------------------------------------


@handles("copy_async", "copy")
def _copy(builder: Builder, word: str, target: Any, source: Any) -> None:
    matrix = isinstance(target, View) and target.ndim == 2
    to = memory.region(builder, target, what=f"kl.{word}")
    start = memory.region(builder, source, what=f"kl.{word}", joins=matrix, spread=True)
    _check_spaces(builder, word, to.array, start.array)
    if to.shape != start.shape:
        builder.fail(f"kl.{word} of a part of shape {start.shape} to one of shape {to.shape}")
    builder.emit(s.CopyTile(to, start, builder.location, word == "copy_async"))


def _check_spaces(builder: Builder, word: str, target: Array, source: Array) -> None:
    if {target.space, source.space} != {"global", "local"}:
        builder.fail(f"kl.{word} goes between a global and a local array")
    if target.dtype is not source.dtype:
        builder.fail(
            f"kl.{word} of {source.dtype.short} to {target.dtype.short}",
            "copy to a local array of the same dtype and convert when loading from it",
        )


@handles("copy_commit")
def _commit(builder: Builder) -> None:
    builder.emit(s.CopyCommit(builder.location))


@handles("copy_wait")
def _wait(builder: Builder, pending: Any) -> None:
    if not isinstance(pending, int) or pending < 0:
        builder.fail(f"kl.copy_wait takes a constant number, not {describe(pending)}")
    builder.emit(s.CopyWait(pending, builder.location))


@handles("completion")
def _completion(builder: Builder, slots: Any) -> View:
    if not isinstance(slots, int) or slots < 1:
        builder.fail(f"kl.completion takes a positive constant, not {describe(slots)}")
    shape = (slots,)
    array = Array(builder.name("completion"), uint64, "local", 1, shape, Layout.row_major(shape))
    builder.arrays.append(array)
    builder.completions.add(array)
    return memory.whole(builder, array)


def _slot(builder: Builder, word: str, done: Any) -> tuple[Array, e.Expression]:
    if not isinstance(done, View) or done.ndim or done.array not in builder.completions:
        builder.fail(f"kl.{word} takes a slot of kl.completion(n), such as done[0]")
    return done.array, done.starts[0]


@handles("bulk_copy")
def _bulk_copy(
    builder: Builder,
    target: Any,
    target_index: Any,
    source: Any,
    source_index: Any,
    count: Any,
    done: Any,
) -> None:
    to, start = (view_of(builder, v, "bulk_copy") for v in (target, source))
    _check_spaces(builder, "bulk_copy", to.array, start.array)
    if (to.array.space == "local") != (done is not None):
        builder.fail("kl.bulk_copy takes a slot for completion into local memory, and only there")
    completion, slot = (None, None) if done is None else _slot(builder, "bulk_copy", done)
    builder.emit(
        s.BulkCopy(
            to.array,
            memory.place(builder, to, target_index),
            start.array,
            memory.place(builder, start, source_index),
            as_index(builder, count),
            completion,
            slot,
            builder.location,
        )
    )


@handles("bulk_wait")
def _bulk_wait(builder: Builder, done: Any, phase: Any, sub_groups: Any) -> None:
    completion, slot = _slot(builder, "bulk_wait", done)
    value = as_value(builder, phase)
    if not value.dtype.is_integer:
        builder.fail(f"the phase of kl.bulk_wait is an integer, not {describe(phase)}")
    number = as_type(builder, value, builder.index_type)
    meeting = meeting_items(builder, "bulk_wait", sub_groups)
    builder.emit(s.BulkWait(completion, slot, number.expr, builder.location, meeting))
