"""What goes back through Portable's operations on a tape.

Most are said as kernels that do the same, of which `vjp` makes the adjoint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final, Protocol

import numpy as np

from portable import lang as kl
from portable import recording
from portable.dtypes import dtype
from portable.gradients.custom import CustomFunction
from portable.gradients.kernels import vjp
from portable.gradients.memory_of import is_real
from portable.gradients.records import Gradients, OperationRecord, Record, UnseenRecord, Value
from portable.gradients.sums import add_to, flat, nought_for
from portable.lang.arguments.arguments import is_array
from portable.lang.function import arity
from portable.lang.kernel import Kernel, kernel
from portable.linalg import gemm
from portable.primitives import copy, fill, gather, reduce, scan
from portable.primitives import map as map_each

__all__ = ["OPERATIONS", "TapeLike", "custom", "elementwise"]


class TapeLike(Protocol):
    """What operations tell."""

    def value(self, x: Any) -> Value:
        """An array as it is now."""

    def record(self, record: Record) -> None:
        """Adds a record."""

    def overwrite(self, values: Sequence[Value]) -> None:
        """Keeps what is about to be overwritten."""


# -- as kernels -----------------------------------------------------------------------------------


@kernel
def _each_of_one(x: Any, y: Any, *, F: Any) -> None:
    """A function of each element."""
    i = kl.global_id(0)
    y[i] = F(x[i])


@kernel
def _each_of_two(a: Any, b: Any, y: Any, *, F: Any) -> None:
    """A function of two elements."""
    i = kl.global_id(0)
    y[i] = F(a[i], b[i])


@kernel
def _each_with_second(a: Any, b: Any, y: Any, *, F: Any) -> None:
    """A function of an element and a number."""
    i = kl.global_id(0)
    y[i] = F(a[i], b)


@kernel
def _each_with_first(a: Any, b: Any, y: Any, *, F: Any) -> None:
    """A function of a number and an element."""
    i = kl.global_id(0)
    y[i] = F(a, b[i])


@kernel
def _sums(x: Any, y: Any, *, F: Any) -> None:
    """Sums of a function of the elements along the middle one of three axes."""
    i = kl.global_id(0)
    inner = x.shape[2]
    row = i // inner
    value = F(x[row // x.shape[1], row % x.shape[1], i % inner])
    kl.atomic_add(y, (row // x.shape[1], i % inner), value)


@kernel
def _gathered(x: Any, at: Any, y: Any) -> None:
    """Rows by their numbers."""
    i = kl.global_id(0)
    row = i // x.shape[1]
    where = at[row]
    y[row, i % x.shape[1]] = x[kl.where(where < 0, where + x.shape[0], where), i % x.shape[1]]


@kernel
def _count_winners(x: Any, y: Any, count: Any) -> None:
    """How many elements are their row's greatest or least."""
    i = kl.global_id(0)
    inner = x.shape[2]
    row = i // inner
    if x[row // x.shape[1], row % x.shape[1], i % inner] == y[row // x.shape[1], i % inner]:
        kl.atomic_add(count, (row // x.shape[1], i % inner), 1)


@kernel
def _to_winners(x: Any, y: Any, count: Any, g: Any, gx: Any) -> None:
    """Shares the gradient of the greatest or least among those that are it."""
    i = kl.global_id(0)
    inner = x.shape[2]
    row = i // inner
    o, k, j = row // x.shape[1], row % x.shape[1], i % inner
    if x[o, k, j] == y[o, j]:
        gx[o, k, j] += g[o, j] / kl.cast(count[o, j], g.dtype)


# -- records --------------------------------------------------------------------------------------


def _done(
    tape: TapeLike,
    through: Callable[[Gradients], None],
    reads: list[Value],
    result: Any,
    needs: list[Value],
) -> Any:
    """Records an operation that gave a new array."""
    written = [tape.value(result)]
    tape.record(OperationRecord(through, reads, written, needs))
    tape.overwrite(written)
    return result


def _unknown(tape: TapeLike, function: Any, args: Any, kwargs: Any, why: str = "") -> Any:
    """An operation without a gradient here, or in this form."""
    with recording.unwatched():
        result = function(*args, **kwargs)
    reads = [tape.value(x) for x in (*args, *kwargs.values()) if is_array(x)]
    written = [tape.value(x) for x in (result,) if is_array(x)]
    name = f"{function.__module__.rpartition('.')[0] or 'portable'}.{function.__name__}{why}"
    tape.record(UnseenRecord(name, reads, written))
    tape.overwrite(written)
    return result


def elementwise(
    tape: TapeLike, function: Any, name: str, operands: Sequence[Any], result: Any
) -> None:
    """A function of numbers that is about to be applied to each element of arrays.

    Parameters
    ----------
    tape : Tape
    function : function
        In the language.
    name : str
        What the user called.
    operands : sequence
        Arrays and numbers.
    result : array
        Which it is written to.
    """
    arrays = [x for x in operands if is_array(x)]
    reads, written = [tape.value(x) for x in arrays], [tape.value(result)]
    shape = tuple(result.shape)
    alike = all(tuple(x.shape) == shape and is_real(x) for x in arrays)
    chosen = _EACH.get(tuple(map(is_array, operands)))
    if not arrays or not is_real(result):
        tape.record(OperationRecord(lambda g: _forget(g, written[0]), reads, written, []))
    elif not alike or chosen is None:
        why = "" if chosen is None else " of arrays of several shapes or of integers"
        tape.record(UnseenRecord(f"{name}{why}", reads, written))
    else:
        values = iter(reads)
        given = [next(values) if is_array(x) else float(x) for x in operands]
        through = _through_each(chosen, given, written[0], result, function)
        tape.record(OperationRecord(through, reads, written, reads))
    tape.overwrite(written)


_EACH: Final[dict[tuple[bool, ...], Kernel]] = {
    (True,): _each_of_one,
    (True, True): _each_of_two,
    (True, False): _each_with_second,
    (False, True): _each_with_first,
}


def _forget(gradients: Gradients, value: Value) -> None:
    gradients.taken(value)


def _through_each(
    chosen: Kernel, given: list[Any], written: Value, result: Any, function: Any
) -> Callable[[Gradients], None]:
    """What goes back through a function of each element."""

    def through(gradients: Gradients) -> None:
        total = gradients.taken(written)
        if total is None or not total.size:
            return
        arrays: list[Any] = []
        parts: list[Any] = []
        again: list[tuple[Any, Any]] = []
        used: set[Any] = set()
        for x in given:
            if not isinstance(x, Value):
                arrays.append(x)
                parts.append(None)
                continue
            grown, last = gradients.of(x), int(dtype(x.array.dtype).is_complex)
            if grown is not None and x.memory in used:
                again.append((grown, nought_for(x.array)))
                grown = again[-1][1]
            used.add(x.memory)
            arrays.append(flat(x.array))
            parts.append(None if grown is None else flat(grown, last))
        last = int(dtype(result.dtype).is_complex)
        like = flat(copy(result))
        vjp(chosen)[like.size](*arrays, like, *parts, flat(total, last), F=function)
        for grown, more in again:
            add_to(grown, more)

    return through


# -- by name --------------------------------------------------------------------------------------


def _copied(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    x = args[0]
    out = kwargs.get("out", args[1] if len(args) > 1 else None)
    if out is None:
        with recording.unwatched():
            result = function(*args, **kwargs)
        elementwise(tape, kl.positive, "copy", (x,), result)
        return result
    elementwise(tape, kl.positive, "copy", (x,), out)
    with recording.unwatched():
        return function(*args, **kwargs)


def _filled(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    elementwise(tape, kl.positive, "fill", (0.0,), args[0] if args else kwargs["out"])
    with recording.unwatched():
        return function(*args, **kwargs)


def _mapped(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    if len(args) != 2 or not is_array(args[1]) or arity(args[0]) != 1 or kwargs:
        return _unknown(tape, function, args, kwargs, " with positions or several arrays")
    with recording.unwatched():
        result = function(*args)
    if not is_array(result):
        return _unknown(tape, function, args, kwargs, " to structs")
    elementwise(tape, args[0], "map", (args[1],), result)
    return result


def _three_axes(shape: tuple[int, ...], axis: int | None) -> tuple[int, int, int]:
    """What comes before an axis, along it, and after it."""
    if axis is None:
        return 1, prod(shape), 1
    at = axis % len(shape)
    return prod(shape[:at]), shape[at], prod(shape[at + 1 :])


def _reduced(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    known = {"op": kl.add, "each": None, "axis": None, "neutral": None, "dtype": None}
    given = {**known, **dict(zip(("x", "op"), args, strict=False)), **kwargs}
    x, op, each, axis = given["x"], given["op"], given["each"], given["axis"]
    sums = op in (kl.add, np.add)
    most = op in (kl.maximum, kl.minimum, np.maximum, np.minimum) and each is None
    plain = is_array(x) and is_real(x) and (axis is None or isinstance(axis, int))
    plain = plain and given["dtype"] is None and (each is None or arity(each) == 1)
    if not plain or not (sums or most):
        why = " by this operation, of structs, positions or several axes"
        return _unknown(tape, function, args, kwargs, why)
    with recording.unwatched():
        result = function(*args, **kwargs)
    value, shape = tape.value(x), _three_axes(tuple(x.shape), axis)
    back = _through_sum(value, shape, each or kl.positive) if sums else None
    written = tape.value(result)

    def through(gradients: Gradients) -> None:
        total, grown = gradients.taken(written), gradients.of(value)
        if total is None or grown is None or not grown.size:
            return
        if back is not None:
            back(total, grown)
        else:
            _back_to_winners(value.array, result, total, grown, shape)

    needs = [value] if most or each is not None else []
    tape.record(OperationRecord(through, [value], [written], needs))
    tape.overwrite([written])
    return result


def _through_sum(
    value: Value, shape: tuple[int, int, int], each: Any
) -> Callable[[Any, Any], None]:
    pairs = int(dtype(value.array.dtype).is_complex)

    def back(total: Any, grown: Any) -> None:
        x = value.array.reshape(shape)
        more = (2,) * pairs
        y = total.reshape((shape[0], shape[2], *more))
        sums = copy(y)
        if pairs:
            sums = copy(value.array.reshape(shape)[:, 0, :])
        vjp(_sums)[prod(shape)](x, sums, grown.reshape((*shape, *more)), y, F=each)

    return back


def _back_to_winners(
    x: Any, result: Any, total: Any, grown: Any, shape: tuple[int, int, int]
) -> None:
    rows = shape[0], shape[2]
    x, y = x.reshape(shape), result.reshape(rows)
    count = copy(total.reshape(rows))
    fill(count, 0)
    items = prod(shape)
    _count_winners[items](x, y, count)
    _to_winners[items](x, y, count, total.reshape(rows), grown.reshape(shape))


def _gathers(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    if kwargs.get("axis", 0) != 0 or len(args) != 2 or not is_real(args[0]):
        return _unknown(tape, function, args, kwargs, " along other axes than the first")
    x, indices = args
    with recording.unwatched():
        result = function(*args, **kwargs)
    value, at, written = tape.value(x), tape.value(indices), tape.value(result)
    pairs = int(dtype(x.dtype).is_complex)

    def through(gradients: Gradients) -> None:
        total, grown = gradients.taken(written), gradients.of(value)
        if total is None or grown is None or not total.size:
            return
        inner, more = prod(x.shape[1:]), (2,) * pairs
        rows = value.array.reshape((x.shape[0], inner)), flat(at.array)
        y = copy(result).reshape((rows[1].size, inner))
        into = grown.reshape((x.shape[0], inner, *more))
        back = total.reshape((rows[1].size, inner, *more))
        vjp(_gathered)[y.size](*rows, y, into, None, back)

    return _done(tape, through, [value], result, [at])


def _scanned(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    op = args[1] if len(args) > 1 else kwargs.get("op", kl.add)
    rest = {name: x for name, x in kwargs.items() if name not in ("op", "axis", "inclusive")}
    x = args[0]
    if op not in (kl.add, np.add) or rest or not is_real(x) or dtype(x.dtype).is_complex:
        return _unknown(tape, function, args, kwargs, " by this operation")
    axis, inclusive = kwargs.get("axis", -1), kwargs.get("inclusive", True)
    with recording.unwatched():
        result = function(*args, **kwargs)
    value, written = tape.value(x), tape.value(result)
    turned = [slice(None)] * len(x.shape)
    turned[axis] = slice(None, None, -1)

    def through(gradients: Gradients) -> None:
        total, grown = gradients.taken(written), gradients.of(value)
        if total is not None and grown is not None and total.size:
            after = scan(total[tuple(turned)], axis=axis, inclusive=inclusive)
            add_to(grown, copy(after[tuple(turned)]))

    return _done(tape, through, [value], result, [])


def _multiplied(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    a, b = args
    plain = all(kwargs.get(name) is None for name in ("c", "bias", "activation", "out"))
    if not plain or kwargs.get("beta") or a.ndim != 2 or b.ndim != 2 or not is_real(a):
        why = " with c, bias, activation, out or more dimensions"
        return _unknown(tape, function, args, kwargs, why)
    with recording.unwatched():
        result = function(*args, **kwargs)
    first, second, written = tape.value(a), tape.value(b), tape.value(result)
    alpha = float(kwargs.get("alpha", 1))

    def through(gradients: Gradients) -> None:
        total = gradients.taken(written)
        if total is None or not total.size:
            return
        into = gradients.of(first)
        if into is not None and into.size:
            add_to(into, gemm(total, _as(second, total).T, alpha=alpha))
        into = gradients.of(second)
        if into is not None and into.size:
            add_to(into, gemm(_as(first, total).T, total, alpha=alpha))

    return _done(tape, through, [first, second], result, [first, second])


def _as(value: Value, like: Any) -> Any:
    """An array in the precision of gradients."""
    if value.array.dtype == like.dtype:
        return value.array
    return copy(value.array, nought_for(value.array))


def custom(tape: TapeLike, function: CustomFunction, args: Any) -> Any:
    """A function with an adjoint of its own."""
    with recording.unwatched():
        result = function.function(*args)
    values = [tape.value(x) if is_array(x) else None for x in args]
    written = tape.value(result)

    def through(gradients: Gradients) -> None:
        total = gradients.taken(written)
        if total is None:
            return
        given = [x if v is None else v.array for x, v in zip(args, values, strict=True)]
        for value, share in zip(values, function.adjoint(total, *given), strict=True):
            grown = None if value is None or share is None else gradients.of(value)
            if grown is not None:
                add_to(grown, copy(share, nought_for(value.array)))  # type: ignore[union-attr]

    reads = [v for v in values if v is not None]
    return _done(tape, through, reads, result, reads)


OPERATIONS: Final[dict[Any, Callable[[TapeLike, Any, Any, Any], Any]]] = {
    getattr(copy, "__wrapped__", copy): _copied,
    getattr(fill, "__wrapped__", fill): _filled,
    getattr(map_each, "__wrapped__", map_each): _mapped,
    getattr(reduce, "__wrapped__", reduce): _reduced,
    getattr(scan, "__wrapped__", scan): _scanned,
    getattr(gather, "__wrapped__", gather): _gathers,
    gemm: _multiplied,
}
"""What is done of operations that a tape is told of."""
