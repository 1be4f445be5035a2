"""What goes back through Portable's operations on a tape.

Most are said as kernels that do the same, of which `vjp` makes the adjoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, Final, Protocol

import numpy as np

from portable import lang as kl
from portable import recording
from portable.array import broadcast_to
from portable.array.fuse import Fused
from portable.conv import conv2d, conv2d_input_gradient, conv2d_weight_gradient
from portable.dtypes import dtype
from portable.errors import UnsupportedError
from portable.gradients.array_rules import ARRAY_RULES, VIEWS, summed_to
from portable.gradients.custom import CustomFunction
from portable.gradients.kernels import vjp
from portable.gradients.linalg_rules import LINALG_RULES
from portable.gradients.memory_of import is_real
from portable.gradients.records import Gradients, OperationRecord, Record, UnseenRecord, Value
from portable.gradients.sums import add_to, flat, nought_for
from portable.lang.arguments.arguments import is_array
from portable.lang.function import arity, function
from portable.lang.kernel import Kernel, kernel
from portable.linalg import gemm
from portable.namespace import device_of, to_numpy
from portable.primitives import argsort, copy, fill, gather, reduce, scan, scatter, sort
from portable.primitives import map as map_each
from portable.primitives.base.storage import Storage

__all__ = ["OPERATIONS", "TapeLike", "custom", "elementwise"]


class TapeLike(Protocol):
    """What operations tell."""

    def value(self, x: Any, *, view: bool = False) -> Value:
        """An array as it is now; `view`: it may be a view of another one that is known."""

    def record(self, record: Record) -> None:
        """Adds a record."""

    def overwrite(self, values: Sequence[Value]) -> None:
        """Keeps what is about to be overwritten."""

    def replayed(
        self, steps: Callable[..., Any], inputs: Sequence[Any], number: int, total: Any
    ) -> list[tuple[Any, Any]]:
        """Arrays that a result of some steps depends on, each with its gradient."""


# -- as kernels -----------------------------------------------------------------------------------


@function
def _at(x: Any, i: Any, number: Any) -> Any:
    """An element, or the number."""
    if number:
        return x
    return x[i]


@kernel
def _each_of_one(a: Any, y: Any, *, F: Any, NUMBERS: Any) -> None:
    """A function of each element."""
    i = kl.global_id(0)
    y[i] = F(_at(a, i, NUMBERS[0]))


@kernel
def _each_of_two(a: Any, b: Any, y: Any, *, F: Any, NUMBERS: Any) -> None:
    """A function of two elements, or of one and a number."""
    i = kl.global_id(0)
    y[i] = F(_at(a, i, NUMBERS[0]), _at(b, i, NUMBERS[1]))


@kernel
def _each_of_three(a: Any, b: Any, c: Any, y: Any, *, F: Any, NUMBERS: Any) -> None:
    """A function of three elements, or of some and numbers."""
    i = kl.global_id(0)
    y[i] = F(_at(a, i, NUMBERS[0]), _at(b, i, NUMBERS[1]), _at(c, i, NUMBERS[2]))


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
        Arrays, which broadcast, and numbers.
    result : array
        Which it is written to.
    """
    arrays = [x for x in operands if is_array(x)]
    reads, written = [tape.value(x) for x in arrays], [tape.value(result)]
    spread = any(tuple(x.shape) != tuple(result.shape) for x in arrays)
    complexes = any(dtype(x.dtype).is_complex for x in (*arrays, result))
    if not arrays or not is_real(result) or not any(map(is_real, arrays)):
        tape.record(OperationRecord(lambda g: _forget(g, written[0]), reads, written, []))
    elif len(operands) > len(_EACH) or (spread and complexes):
        why = " of complex arrays of several shapes" if spread else " of so many arrays"
        tape.record(UnseenRecord(f"{name}{why}", reads, written))
    else:
        values = iter(reads)
        given = [next(values) if is_array(x) else x for x in operands]
        through = _through_each(given, written[0], result, function)
        tape.record(OperationRecord(through, reads, written, reads))
    tape.overwrite(written)


_EACH: Final[tuple[Kernel, ...]] = (_each_of_one, _each_of_two, _each_of_three)


def _forget(gradients: Gradients, value: Value) -> None:
    gradients.taken(value)


def _through_each(
    given: list[Any], written: Value, result: Any, function: Any
) -> Callable[[Gradients], None]:
    """What goes back through a function of each element."""
    shape = tuple(result.shape)

    def through(gradients: Gradients) -> None:
        total = gradients.taken(written)
        if total is None or not total.size:
            return
        arrays: list[Any] = []
        parts: list[Any] = []
        behind: list[tuple[Any, Any]] = []
        used: set[Any] = set()
        for x in given:
            if not isinstance(x, Value):
                arrays.append(x)
                parts.append(None)
                continue
            grown = gradients.of(x) if is_real(x.array) else None
            alike = tuple(x.array.shape) == shape
            whole = x.array if alike else copy(broadcast_to(x.array, shape))
            if grown is not None and (x.memory in used or not alike):
                behind.append((grown, nought_for(whole)))
                grown = behind[-1][1]
            used.add(x.memory)
            arrays.append(flat(whole))
            last = int(dtype(x.array.dtype).is_complex)
            parts.append(None if grown is None else flat(grown, last))
        last = int(dtype(result.dtype).is_complex)
        like = flat(copy(result))
        adjoint = vjp(_EACH[len(given) - 1])[like.size]
        numbers = tuple(not isinstance(x, Value) for x in given)
        adjoint(*arrays, like, *parts, flat(total, last), F=function, NUMBERS=numbers)
        for grown, more in behind:
            add_to(grown, more if more.shape == grown.shape else summed_to(more, grown.shape))

    return through


def by_rule(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    """A function with a rule of its own (`array_rules`, `linalg_rules`)."""
    plain = getattr(function, "__wrapped__", function)
    with recording.unwatched():
        result = function(*args, **kwargs)
    operands = [x for x in _arrays_in((args, kwargs)) if is_real(x)]
    reads = [tape.value(x) for x in operands]
    results = list(result) if isinstance(result, tuple) else [result]
    seen = plain in _VIEWS
    written = [tape.value(x, view=seen) for x in results]
    if any(dtype(x.dtype).is_complex for x in (*operands, *results)):
        tape.record(UnseenRecord(f"{_named(function)} of complex numbers", reads, written))
    else:
        through = _through_rule(RULES[plain], args, kwargs, (operands, reads), written)
        needs = reads if seen else [*reads, *written]
        tape.record(OperationRecord(through, reads, written, needs))
    if not seen:
        tape.overwrite(written)
    return result


def _through_rule(
    rule: Any,
    args: Any,
    kwargs: Any,
    read: tuple[list[Any], list[Value]],
    written: list[Value],
) -> Callable[[Gradients], None]:
    """What goes back by a rule."""
    several = len(written) > 1
    kept = {id(x): value for x, value in zip(*read, strict=True)}

    def then(x: Any) -> Any:
        """Arguments with arrays as they were."""
        if isinstance(x, tuple | list):
            return type(x)(map(then, x)) if type(x) in (tuple, list) else x
        return kept[id(x)].array if id(x) in kept else x

    def through(gradients: Gradients) -> None:
        totals = [gradients.taken(value) for value in written]
        if all(x is None for x in totals):
            return
        y = [value.array for value in written]
        given = {name: then(x) for name, x in kwargs.items()}
        found = rule(totals if several else totals[0], y if several else y[0], *then(args), **given)
        shares = [
            (value, share) for value, share in zip(read[1], found, strict=True) if share is not None
        ]
        for value, share in shares:
            grown = gradients.of(value)
            if grown is not None and grown.size:
                add_to(grown, copy(share(), nought_for(value.array)))

    return through


def _arrays_in(x: Any) -> Iterator[Any]:
    """The arrays in tuples, lists and dicts, in order."""
    if isinstance(x, dict):
        x = tuple(x.values())
    if isinstance(x, tuple | list):
        for item in x:
            yield from _arrays_in(item)
    elif is_array(x) and hasattr(x, "dtype"):
        yield x


def _named(function: Any) -> str:
    return f"{function.__module__.rpartition('.')[0] or 'portable'}.{function.__name__}"


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


def _sorted(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    """The values in order: each gradient goes to where its value came from."""
    x = args[0]
    if not is_real(x) or dtype(x.dtype).is_complex:
        return _unknown(tape, function, args, kwargs, " of complex numbers")
    axis, descending = kwargs.get("axis", -1), kwargs.get("descending", False)
    with recording.unwatched():
        result = function(*args, **kwargs)
    value, written = tape.value(x), tape.value(result)

    def through(gradients: Gradients) -> None:
        total, grown = gradients.taken(written), gradients.of(value)
        if total is None or grown is None or not total.size:
            return
        order = argsort(value.array, axis=axis, descending=descending)
        shape = _three_axes(tuple(x.shape), axis)
        _add_to_rows[total.size](
            copy(order).reshape(shape), copy(total).reshape(shape), grown.reshape(shape)
        )

    return _done(tape, through, [value], result, [value])


@kernel
def _add_to_rows(at: Any, g: Any, out: Any) -> None:
    """Adds numbers to positions along the middle one of three axes, each of which comes once."""
    i = kl.global_id(0)
    inner = out.shape[2]
    row = i // inner
    o, k, j = row // g.shape[1], row % g.shape[1], i % inner
    out[o, at[o, k, j], j] += g[o, k, j]


@kernel
def _taken_back(at: Any, g: Any, gout: Any, *, SIZE: Any) -> None:
    """Takes the gradients at positions of rows, whose values were overwritten."""
    i = kl.global_id(0)
    row, column = i // gout.shape[1], i % gout.shape[1]
    where = at[row]
    place = kl.where(where < 0, where + SIZE, where)
    g[row, column] = gout[place, column]


@kernel
def _cleared_rows(at: Any, gout: Any, *, SIZE: Any) -> None:
    """Makes rows nought."""
    i = kl.global_id(0)
    row, column = i // gout.shape[1], i % gout.shape[1]
    where = at[row]
    gout[kl.where(where < 0, where + SIZE, where), column] = 0


@kernel
def _counted_rows(at: Any, counts: Any) -> None:
    """How often each row is named."""
    where = at[kl.global_id(0)]
    kl.atomic_add(counts, kl.where(where < 0, where + counts.shape[0], where), 1)


def _scatters(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    """Rows that are overwritten by values."""
    if len(args) != 3 or kwargs.get("axis", 0) != 0:
        return _unseen_writes(tape, function, args, kwargs, " along other axes than the first")
    out, indices, values = args
    rows = (*indices.shape, *out.shape[1:])
    fits = is_array(values) and is_real(values) and tuple(values.shape) == tuple(rows)
    if not is_real(out) or dtype(out.dtype).is_complex or not fits:
        return _unseen_writes(tape, function, args, kwargs, " of numbers or complex numbers")
    value, at, written = tape.value(values), tape.value(indices), tape.value(out)

    def through(gradients: Gradients) -> None:
        total = gradients.found.get(written.memory)
        if total is None or not total.size or not prod(rows):
            return
        size = out.shape[0]
        where, wide = flat(copy(at.array)), total.reshape((size, -1))
        _refuse_repeated(where, size)
        grown = gradients.of(value)
        if grown is not None:
            more = nought_for(value.array)
            _taken_back[prod(rows)](where, more.reshape((where.size, -1)), wide, SIZE=size)
            add_to(grown, more)
        _cleared_rows[prod(rows)](where, wide, SIZE=size)

    tape.record(OperationRecord(through, [value], [written], [at]))
    tape.overwrite([written])
    with recording.unwatched():
        return function(*args, **kwargs)


def _refuse_repeated(where: Any, size: int) -> None:
    """Refuses positions that come twice: nobody knows whose value stayed."""
    counts = device_of(where).from_numpy(np.zeros(size, np.int32))
    if isinstance(where, np.ndarray):
        counts = np.zeros(size, np.int32)
    _counted_rows[where.size](where, counts)
    if int(to_numpy(counts).max()) > 1:
        raise UnsupportedError(
            "primitives.scatter has no gradient where a position comes twice: one of its values "
            "stays, and nothing says which"
        )


def _unseen_writes(
    tape: TapeLike, function: Any, args: Any, kwargs: Any, why: str
) -> Any:
    """An operation that writes to its first argument and has no gradient in this form."""
    reads = [tape.value(x) for x in args[1:] if is_array(x)]
    written = [tape.value(args[0])]
    tape.record(UnseenRecord(_named(function) + why, [*reads, *written], written))
    tape.overwrite(written)
    with recording.unwatched():
        return function(*args, **kwargs)


def _convolved(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    """A convolution of images, and a bias."""
    known = {"stride", "padding", "dilation", "groups", "layout", "algorithm", "precision"}
    given = {name for name, x in kwargs.items() if x is not None}
    if len(args) != 2 or given - known - {"bias"}:
        return _unknown(tape, function, args, kwargs, " with scale, residual, activation or out")
    x, w = args
    bias = kwargs.get("bias")
    options = {name: y for name, y in kwargs.items() if name in known - {"algorithm"}}
    with recording.unwatched():
        result = function(*args, **kwargs)
    images, filters = tape.value(x), tape.value(w)
    reads = [images, filters] + ([] if bias is None else [tape.value(bias)])
    written = tape.value(result)
    axis = 1 if kwargs.get("layout", "NCHW") == "NCHW" else 3

    def through(gradients: Gradients) -> None:
        total = gradients.taken(written)
        if total is None or not total.size:
            return
        into = gradients.of(images)
        if into is not None and into.size:
            shape = tuple(x.shape)
            add_to(into, conv2d_input_gradient(total, _as(filters, total), shape, **options))
        into = gradients.of(filters)
        if into is not None and into.size:
            made = conv2d_weight_gradient(_as(images, total), total, tuple(w.shape), **options)
            add_to(into, made)
        into = None if bias is None else gradients.of(reads[2])
        if into is not None:
            before, count, after = _three_axes(tuple(total.shape), axis)
            sums = reduce(total.reshape((before, count, after)), axis=2)
            add_to(into, reduce(sums, axis=0))

    return _done(tape, through, reads, result, [images, filters])


def _fused(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    """A fused function: what goes back is what goes back through its steps."""
    fused, *given = args
    arrays = [x for x in given if is_array(x)]
    ours = all(isinstance(x, Storage) for x in arrays)
    if not ours or any(dtype(x.dtype).is_complex for x in arrays):
        why = " of complex numbers" if ours else " of another library's arrays"
        return _unknown(tape, function, args, kwargs, f" ({fused.__name__}){why}")
    with recording.unwatched():
        result = function(*args)
    values = {id(x): tape.value(x) for x in arrays}
    results = list(result) if isinstance(result, tuple) else [result]
    written = [tape.value(x) for x in results]

    def through(gradients: Gradients) -> None:
        totals = [gradients.taken(value) for value in written]
        inputs = [values[id(x)].array if is_array(x) else x for x in given]
        for number, total in enumerate(totals):
            if total is None or not total.size:
                continue
            for x, share in tape.replayed(fused.__wrapped__, inputs, number, total):
                value = next(v for v in values.values() if v.array is x)
                grown = gradients.of(value)
                if grown is not None:
                    add_to(grown, copy(share, nought_for(value.array)))

    reads = list(values.values())
    tape.record(OperationRecord(through, reads, written, reads))
    tape.overwrite(written)
    return result


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


def _plain(x: Any) -> Any:
    return getattr(x, "__wrapped__", x)


RULES: Final = {_plain(f): rule for f, rule in (*ARRAY_RULES.items(), *LINALG_RULES.items())}
_VIEWS: Final = frozenset(map(_plain, VIEWS))

OPERATIONS: Final[dict[Any, Callable[[TapeLike, Any, Any, Any], Any]]] = {
    **dict.fromkeys(RULES, by_rule),
    _plain(copy): _copied,
    _plain(fill): _filled,
    _plain(map_each): _mapped,
    _plain(reduce): _reduced,
    _plain(scan): _scanned,
    _plain(gather): _gathers,
    _plain(scatter): _scatters,
    _plain(sort): _sorted,
    _plain(conv2d): _convolved,
    _plain(Fused.__call__): _fused,
    gemm: _multiplied,
}
"""What is done of operations that a tape is told of."""
