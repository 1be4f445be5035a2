"""Subscripts: element loads and stores, views by partial indexing and slicing, regions."""

from __future__ import annotations

from typing import Any

from portable.dtypes import DType, bool_, float64
from portable.lang.frontend.arithmetic import binary
from portable.lang.frontend.builder import Builder
from portable.lang.frontend.conversion import as_index, as_type, cast, register_of, splat
from portable.lang.frontend.values import Complex, Value, View, describe, is_number
from portable.lang.ir import expressions as e
from portable.lang.ir import facts
from portable.lang.ir import statements as s
from portable.lang.ir.types import Array, Vector, vector_type


def whole(builder: Builder, array: Array) -> View:
    """The view of all of an array."""
    dims = range(array.ndim)
    extents: tuple[int | e.Expression, ...] = array.shape or tuple(
        e.Extent(array, d, builder.index_type) for d in dims
    )
    zero = builder.index_const(0)
    return View(array, tuple(zero for _ in dims), tuple(dims), extents)


def _items(builder: Builder, view: View, index: Any) -> list[Any]:
    items = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis in items:
        at = items.index(Ellipsis)
        items[at : at + 1] = [slice(None)] * (view.ndim - len(items) + 1)
    if len(items) > view.ndim:
        builder.fail(f"{len(items)} indices into a {describe(view)}")
    return items + [slice(None)] * (view.ndim - len(items))


def _shifted(builder: Builder, start: e.Expression, index: e.Expression) -> e.Expression:
    if isinstance(start, e.Const) and start.value == 0:
        return index
    total = binary(builder, "add", Value(start), Value(index))
    assert isinstance(total, Value)
    return total.expr


def _checked(builder: Builder, view: View, position: int, item: Any) -> e.Expression:
    extent = view.extents[position]
    constant = isinstance(item, int)
    index = as_index(builder, item)
    bounds = builder.bounds(index)
    # Between narrow bounds it may stand in a branch that constants have emptied.
    if bounds.high < 0 and (constant or bounds.low < -facts.INDEX_MARGIN):
        what = f"the constant index {item}" if constant else "this index, whatever runs,"
        length = extent if isinstance(extent, int) else f"x.shape[{position}]"
        hint = f"indices do not wrap: count from the end by {length} - 1"
        builder.fail(f"{what} is negative", hint)
    if constant and isinstance(extent, int) and item >= extent:
        builder.fail(f"index {item} is out of range for extent {extent} of {describe(view)}")
    return index


def subscript(builder: Builder, view: View, index: Any) -> View:
    """The part of a view that indices and slices select; no memory is touched.

    Where ``start`` and ``stop`` of slices are run-time values, their difference must be a constant,
    as in ``a[m : m + TILE]``. Parts with steps are for copies to local memory.

    Parameters
    ----------
    builder : Builder
    view : View
    index : anything
        What stands between the brackets.
    """
    if view.steps:
        builder.fail(
            "a part of an array that was taken with a step cannot be taken apart further",
            "index elements one by one",
        )
    starts, steps = list(view.starts), [1] * view.array.ndim
    kept: list[int] = []
    extents: list[int | e.Expression] = []
    for position, item in enumerate(_items(builder, view, index)):
        dim = view.kept[position]
        if isinstance(item, slice):
            start, extent, steps[dim] = _slice(builder, view, position, item)
            kept.append(dim)
            extents.append(extent)
        else:
            start = _checked(builder, view, position, item)
        starts[dim] = _shifted(builder, starts[dim], start)
    spread = tuple(steps) if any(step > 1 for step in steps) else ()
    return View(view.array, tuple(starts), tuple(kept), tuple(extents), spread)


def _slice(
    builder: Builder, view: View, position: int, item: slice
) -> tuple[e.Expression, int | e.Expression, int]:
    full, step = view.extents[position], 1 if item.step is None else item.step
    if not isinstance(step, int) or step < 1:
        builder.fail(f"the step of a slice is {describe(step)}", "give a constant from 1 on")
    start = 0 if item.start is None else item.start
    stop = Value(full) if item.stop is None and not isinstance(full, int) else item.stop
    stop = full if stop is None else stop
    length = binary(builder, "sub", stop, start) if start != 0 else stop
    if isinstance(length, Value):
        constant = _difference(as_index(builder, start), as_index(builder, stop))
        length = constant if constant is not None else length
    if isinstance(length, int) and length < 0:
        builder.fail(f"the slice {start}:{stop} is empty")
    if isinstance(length, int):
        return as_index(builder, start), -(-length // step), step
    if step > 1:
        builder.fail("a slice with a step needs a length known at compile time")
    return as_index(builder, start), as_index(builder, length), step


def _difference(start: e.Expression, stop: e.Expression) -> int | None:
    """``stop - start`` where it is plain to see: the same expression plus a constant."""
    base, offset = _split(start)
    other, far = _split(stop)
    return far - offset if base == other else None


def _split(x: e.Expression) -> tuple[e.Expression | None, int]:
    if isinstance(x, e.Const):
        return None, int(x.value)
    if isinstance(x, e.Binary) and x.op == "add":
        for a, b in ((x.x, x.y), (x.y, x.x)):
            if isinstance(b, e.Const):
                base, offset = _split(a)
                return base, offset + int(b.value)
    return x, 0


def place(builder: Builder, view: View, index: Any) -> tuple[e.Expression, ...]:
    """The full index into the view's array of the one element that `index` names.

    Parameters
    ----------
    builder : Builder
    view : View
    index : anything
        What stands between the brackets: an integer for each dimension.
    """
    part = subscript(builder, view, index)
    if part.ndim:
        builder.fail(
            f"{describe(view)} needs {view.ndim} integer indices here",
            "an element can be read or written, a part of an array cannot",
        )
    return part.starts


def _may_spread(x: View) -> bool:
    return x.array.space == "global" and x.steps[max(x.kept)] == 1


def region(
    builder: Builder,
    x: Any,
    ndim: int | None = None,
    what: str = "this",
    joins: bool = False,
    spread: bool = False,
) -> e.Region:
    """A view as a region with static extents.

    Where it `joins`, a view of more dimensions is taken for one of two: all but its last are
    counted as one.

    Parameters
    ----------
    builder : Builder
    x : View
    ndim : int, optional
        How many dimensions it must have.
    what : str
        What it is, for the error.
    joins : bool
    spread : bool
        Whether it may have steps, along all dimensions of a global array but the last.
    """
    transposed = False
    if isinstance(x, View) and x.steps and not (spread and _may_spread(x)):
        builder.fail(
            f"{what} takes neighbouring elements",
            "steps are for sources of kl.copy and kl.copy_async in global memory, along all "
            "dimensions but the last",
        )
    if not isinstance(x, View):
        builder.fail(f"{what} takes part of an array, not {describe(x)}", "such as tile[i:i+16]")
    joined = joins and x.ndim > 2
    if ndim is not None and x.ndim != ndim and not joined:
        builder.fail(f"{what} takes a {ndim}-d part of an array, not a {describe(x)}")
    kept = x.kept
    if list(kept) != sorted(kept):
        if joined:
            builder.fail(f"{what} takes dimensions of an array in their order where there are more")
        transposed, kept = True, kept[::-1]
    if not all(isinstance(extent, int) for extent in x.extents):
        builder.fail(
            f"{what} needs extents known at compile time",
            "slice with a constant length, as in a[i : i + TILE, k : k + DEPTH]",
        )
    by_dim = dict(zip(x.kept, x.extents, strict=True))
    extents = tuple(by_dim.get(d) for d in range(x.array.ndim))
    starts = tuple(builder.let("start", start) for start in x.starts)
    return e.Region(x.array, starts, extents, transposed, joined, x.steps)  # type: ignore[arg-type]


def load(
    builder: Builder, view: View, index: Any, lanes: int = 1, axis: int = -1, ahead: int = 0
) -> Any:
    """An element, or `lanes` neighbours along a dimension of the view.

    Parameters
    ----------
    builder : Builder
    view : View
    index : anything
        What stands between the brackets: an integer for each dimension.
    lanes : int
    axis : int
        The dimension of the neighbours.
    ahead : int
        How many elements further memory may be fetched to the caches; 0 for none.
    """
    array = view.array
    where = place(builder, view, index)
    register = register_of(builder, array.dtype)
    if array.dtype.is_complex:
        if lanes > 1:
            builder.fail("vectors of complex numbers are not in the language")
        return Complex(
            _load_one(builder, array, where, register, -1, 0),
            _load_one(builder, array, where, register, -1, 1),
        )
    kind = vector_type(register, max(lanes, array.lanes))
    return _load_one(builder, array, where, kind, _axis(builder, view, axis, lanes), None, ahead)


def _axis(builder: Builder, view: View, axis: int, lanes: int) -> int:
    if lanes == 1:
        return -1
    if not -view.ndim <= axis < view.ndim:
        builder.fail(f"axis {axis} of a {describe(view)}")
    return view.kept[axis]


def _load_one(
    builder: Builder,
    array: Array,
    where: tuple[e.Expression, ...],
    kind: DType | Vector,
    axis: int,
    component: int | None,
    ahead: int = 0,
) -> Value:
    var = builder.bind(f"{array.name}_at", kind)
    builder.emit(s.Load(var, array, where, builder.location, axis, component, ahead=ahead))
    return Value(var)


def store(
    builder: Builder, view: View, index: Any, value: Any, axis: int = -1, streaming: bool = False
) -> None:
    """Writes an element, or neighbours along a dimension of the view if `value` is a vector.

    Parameters
    ----------
    builder : Builder
    view : View
    index : anything
        What stands between the brackets: an integer for each dimension.
    value : number or Value
    axis : int
        The dimension of the neighbours.
    streaming : bool
        Whether nothing reads it soon, so that caches need not keep it.
    """
    array = view.array
    if isinstance(value, View | tuple) or not is_number(value):
        hint = ""
        if isinstance(value, View):
            hint = "take its elements: such as x[i], or x[()] of a 0-d array"
        elif isinstance(value, tuple):
            hint = "store its items one by one: x[i, 0], x[i, 1] = a, b"
        builder.fail(f"{describe(value)} cannot be stored in an array", hint)
    where = place(builder, view, index)
    if array.dtype.is_complex:
        _store_complex(builder, array, where, value)
        return
    stored = store_value(builder, array, value)
    if array.lanes > 1:
        stored = _whole_vector(builder, array, stored)
    along = _axis(builder, view, axis, 1 if array.lanes > 1 else stored.lanes)
    builder.emit(s.Store(array, where, stored.expr, builder.location, along, streaming=streaming))


def _whole_vector(builder: Builder, array: Array, value: Value) -> Value:
    builder.meet(Value(e.Variable(array.name, Vector(value.dtype, array.lanes))), value)
    if value.lanes == 1:
        return splat(value, array.lanes)
    if value.lanes != array.lanes:
        builder.fail(f"a vector of {value.lanes} lanes stored where each has {array.lanes}")
    return value


def store_value(builder: Builder, array: Array, value: Any) -> Value:
    """A number converted to the register type of an array's elements; only within its kind.

    Parameters
    ----------
    builder : Builder
    array : Array
    value : number or Value
    """
    register = register_of(builder, array.dtype)
    if isinstance(value, Complex | complex):
        builder.fail(f"a complex number stored in {array.dtype.short} array {array.name}")
    if isinstance(value, Value):
        kinds = (value.dtype, register)
        to_int_from_float = value.dtype.is_float and not register.is_float
        if to_int_from_float or (kinds[0] is bool_) != (kinds[1] is bool_):
            builder.fail(
                f"{describe(value)} stored in {array.dtype.short} array {array.name}",
                f"convert it: kl.{array.dtype.short}(...)",
            )
        _remark_narrowing(builder, array, value)
        if value.dtype is float64:
            rounded = cast(builder, value, array.dtype)
            assert isinstance(rounded, Value)
            return rounded
    elif isinstance(value, int) and not isinstance(value, bool) and array.dtype.is_integer:
        _check_literal(builder, array, value)
    return as_type(builder, value, register)


def _remark_narrowing(builder: Builder, array: Array, value: Value) -> None:
    """Storing integers wraps; of those of 64 bits in fewer this is seldom what was meant."""
    kind, register = value.dtype, array.dtype
    integers = kind.is_integer and register.is_integer
    if integers and kind.bits > max(register.bits, 32) and not value.weak:
        builder.inference.remarks[builder.location] = (
            f"{describe(value)} stored in {register.short} array {array.name} wraps where it does "
            f"not fit; write kl.{register.short}(...) if that is meant, or pass an array of "
            f"{kind.short}"
        )


def _check_literal(builder: Builder, array: Array, value: int) -> None:
    dtype = array.dtype
    held = facts.whole(dtype)
    if not held.low <= value <= held.high:
        builder.fail(f"{value} does not fit {dtype.short} array {array.name}")


def _store_complex(
    builder: Builder, array: Array, where: tuple[e.Expression, ...], value: Any
) -> None:
    real, imag = (value.real, value.imag) if isinstance(value, Complex | complex) else (value, 0.0)
    register = register_of(builder, array.dtype)
    for component, part in enumerate((real, imag)):
        stored = as_type(builder, part, register)
        builder.emit(s.Store(array, where, stored.expr, builder.location, -1, component))
