"""Rules for the gradients of recorded operations.

Products of matrices and convolutions come first, then what moves elements (gathered, sorted and
scattered ones), then reductions and scans; at the end stands the table of all, by their functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, Final

import numpy as np

from portable import lang as kl
from portable import recording
from portable.array.fuse import Fused
from portable.array.methods import indexing
from portable.conv import (
    conv1d,
    conv1d_input_gradient,
    conv1d_weight_gradient,
    conv2d,
    conv2d_input_gradient,
    conv2d_weight_gradient,
    conv3d,
    conv3d_input_gradient,
    conv3d_weight_gradient,
)
from portable.dtypes import dtype
from portable.errors import UnsupportedError
from portable.gradients.array_rules import ARRAY_RULES, JOINING, VIEWS
from portable.gradients.assigning import assigned
from portable.gradients.custom import CustomFunction
from portable.gradients.elementwise import copied, filled, mapped, summed_together
from portable.gradients.kernels import vjp
from portable.gradients.linalg_rules import LINALG_RULES
from portable.gradients.memory_of import is_real
from portable.gradients.recorders import (
    TapeLike,
    add_shares,
    apart,
    called,
    done,
    done_into,
    in_precision_of,
    three_axes,
    unknown,
)
from portable.gradients.records import Gradients, OperationRecord, UnseenRecord
from portable.gradients.sums import add_to, flat, nought_for
from portable.gradients.versions import Value
from portable.lang.arguments.arguments import is_array
from portable.lang.function import arity
from portable.lang.kernel import kernel
from portable.linalg import gemm
from portable.namespace import to_numpy
from portable.primitives import argsort, copy, fill, gather, reduce, scan, scatter, sort
from portable.primitives import map as map_each
from portable.primitives.base.storage import Storage


@kernel
def _sums(x: kl.Array, y: kl.Array, *, F: Any) -> None:
    """Sums of a function of the elements along the middle one of three axes."""
    i = kl.global_id(0)
    inner = x.shape[2]
    row = i // inner
    value = F(x[row // x.shape[1], row % x.shape[1], i % inner])
    kl.atomic_add(y, (row // x.shape[1], i % inner), value)


@kernel
def _count_winners(x: kl.Array, y: kl.Array, count: kl.Array) -> None:
    """How many elements are their row's greatest or least."""
    i = kl.global_id(0)
    inner = x.shape[2]
    row = i // inner
    if x[row // x.shape[1], row % x.shape[1], i % inner] == y[row // x.shape[1], i % inner]:
        kl.atomic_add(count, (row // x.shape[1], i % inner), 1)


@kernel
def _to_winners(x: kl.Array, y: kl.Array, count: kl.Array, g: kl.Array, gx: kl.Array) -> None:
    """Shares the gradient of the greatest or least among those that are it."""
    i = kl.global_id(0)
    inner = x.shape[2]
    row = i // inner
    o, k, j = row // x.shape[1], row % x.shape[1], i % inner
    if x[o, k, j] == y[o, j]:
        gx[o, k, j] += g[o, j] / kl.cast(count[o, j], g.dtype)


def reduced(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    """Sums, and the greatest and least."""
    known = {"op": kl.add, "each": None, "axis": None, "neutral": None, "dtype": None}
    given = {**known, **dict(zip(("x", "op"), args, strict=False)), **kwargs}
    x, op, each, axis = given["x"], given["op"], given["each"], given["axis"]
    sums = op in (kl.add, np.add)
    most = op in (kl.maximum, kl.minimum, np.maximum, np.minimum) and each is None
    plain = is_array(x) and is_real(x) and (axis is None or isinstance(axis, int))
    plain = plain and given["dtype"] is None and (each is None or arity(each) == 1)
    if sums and each is not None and axis is None and not plain and given["dtype"] is None:
        return summed_together(tape, function, args, kwargs, x, each)
    if not plain or not (sums or most):
        why = " by this operation, of structs, positions or several axes"
        return unknown(tape, function, args, kwargs, why)
    with recording.unwatched():
        result = function(*args, **kwargs)
    value, shape = tape.value(x), three_axes(tuple(x.shape), axis)
    back = _through_sum(value, shape, each or kl.positive) if sums else None

    def into(total: Any, grown: Any) -> None:
        if back is not None:
            back(total, grown)
        else:
            _back_to_winners(value.array, result, total, grown, shape)

    return done_into(tape, into, value, result, [value] if most or each is not None else [])


def _through_sum(
    value: Value, shape: tuple[int, int, int], each: Any
) -> Callable[[Any, Any], None]:
    pairs = int(dtype(value.array.dtype).is_complex)

    def back(total: Any, grown: Any) -> None:
        x = value.array.reshape(shape)
        more = (2,) * pairs
        y = total.reshape((shape[0], shape[2], *more))
        sums = copy(x[:, 0, :] if pairs else y)
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


def scanned(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    """Running sums."""
    op = args[1] if len(args) > 1 else kwargs.get("op", kl.add)
    rest = {name: x for name, x in kwargs.items() if name not in ("op", "axis", "inclusive")}
    x = args[0]
    if op not in (kl.add, np.add) or rest or not is_real(x) or dtype(x.dtype).is_complex:
        return unknown(tape, function, args, kwargs, " by this operation")
    axis, inclusive = kwargs.get("axis", -1), kwargs.get("inclusive", True)
    with recording.unwatched():
        result = function(*args, **kwargs)
    turned = [slice(None)] * len(x.shape)
    turned[axis] = slice(None, None, -1)

    def shares(total: Any) -> Any:
        after = scan(total[tuple(turned)], axis=axis, inclusive=inclusive)
        yield lambda: copy(after[tuple(turned)])

    return done(tape, shares, [tape.value(x)], result, [])


@kernel
def _gathered(x: kl.Array, at: kl.Array, y: kl.Array) -> None:
    """Rows by their numbers."""
    i = kl.global_id(0)
    row = i // x.shape[1]
    where = at[row]
    y[row, i % x.shape[1]] = x[kl.where(where < 0, where + x.shape[0], where), i % x.shape[1]]


def gathers(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    """Rows by their numbers."""
    if kwargs.get("axis", 0) != 0 or len(args) != 2 or not is_real(args[0]):
        return unknown(tape, function, args, kwargs, " along other axes than the first")
    x, indices = args
    with recording.unwatched():
        result = function(*args, **kwargs)
    value, at = tape.value(x), tape.value(indices)
    pairs = int(dtype(x.dtype).is_complex)

    def into(total: Any, grown: Any) -> None:
        inner, more = prod(x.shape[1:]), (2,) * pairs
        rows = value.array.reshape((x.shape[0], inner)), flat(at.array)
        y = copy(result).reshape((rows[1].size, inner))
        slopes = grown.reshape((x.shape[0], inner, *more))
        back = total.reshape((rows[1].size, inner, *more))
        vjp(_gathered)[y.size](*rows, y, slopes, None, back)

    return done_into(tape, into, value, result, [at])


def in_order(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    """The values in order: each gradient goes to where its value came from."""
    x = args[0]
    if not is_real(x) or dtype(x.dtype).is_complex:
        return unknown(tape, function, args, kwargs, " of complex numbers")
    axis, descending = kwargs.get("axis", -1), kwargs.get("descending", False)
    with recording.unwatched():
        result = function(*args, **kwargs)
    value = tape.value(x)

    def into(total: Any, grown: Any) -> None:
        order = argsort(value.array, axis=axis, descending=descending)
        shape = three_axes(tuple(x.shape), axis)
        _add_to_rows[total.size](
            copy(order).reshape(shape), copy(total).reshape(shape), grown.reshape(shape)
        )

    return done_into(tape, into, value, result, [value])


@kernel
def _add_to_rows(at: kl.Array, g: kl.Array, out: kl.Array) -> None:
    """Adds numbers to positions along the middle one of three axes, each of which comes once."""
    i = kl.global_id(0)
    inner = out.shape[2]
    row = i // inner
    o, k, j = row // g.shape[1], row % g.shape[1], i % inner
    out[o, at[o, k, j], j] += g[o, k, j]


def scatters(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
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
        total = gradients.held(written.memory)
        if total is None or not total.size or not prod(rows):
            return
        where, wide = flat(copy(at.array)), total.reshape((out.shape[0], -1))
        _refuse_repeated(where, out.shape[0])
        grown = gradients.of(value)
        if grown is not None:
            add_to(grown, gather(wide, where).reshape(grown.shape))
        nought = nought_for(value.array)
        scatter(wide, where, nought.reshape((where.size, -1)))

    tape.record(OperationRecord(through, [value], [written], [at]))
    tape.overwrite([written])
    with recording.unwatched():
        return function(*args, **kwargs)


def _refuse_repeated(where: Any, size: int) -> None:
    """Refuses positions that come twice: nobody knows whose value stayed."""
    rows = to_numpy(where).astype(np.int64) % size  # narrow types may not hold the size
    if np.unique(rows).size < rows.size:
        raise UnsupportedError(
            "primitives.scatter has no gradient where a position comes twice: one of its values "
            "stays, and nothing says which"
        )


def _unseen_writes(tape: TapeLike, function: Any, args: Any, kwargs: Any, why: str) -> Any:
    """An operation that writes to its first argument and has no gradient in this form."""
    reads = [tape.value(x) for x in args[1:] if is_array(x)]
    written = [tape.value(args[0])]
    tape.record(UnseenRecord(called(function) + why, [*reads, *written], written))
    tape.overwrite(written)
    with recording.unwatched():
        return function(*args, **kwargs)


_BACK: Final[dict[str, tuple[Any, Any]]] = {
    "conv1d": (conv1d_input_gradient, conv1d_weight_gradient),
    "conv2d": (conv2d_input_gradient, conv2d_weight_gradient),
    "conv3d": (conv3d_input_gradient, conv3d_weight_gradient),
}
"""By images, and by filters."""


def multiplied(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    """A product of two matrices."""
    a, b = args
    plain = all(kwargs.get(name) is None for name in ("c", "bias", "activation", "out"))
    if not plain or kwargs.get("beta") or a.ndim != 2 or b.ndim != 2 or not is_real(a):
        why = " with c, bias, activation, out or more dimensions"
        return unknown(tape, function, args, kwargs, why)
    with recording.unwatched():
        result = function(*args, **kwargs)
    first, second = tape.value(a), tape.value(b)
    alpha = float(kwargs.get("alpha", 1))

    def shares(total: Any) -> Any:
        yield lambda: gemm(total, in_precision_of(second, total).T, alpha=alpha)
        yield lambda: gemm(in_precision_of(first, total).T, total, alpha=alpha)

    return done(tape, shares, [first, second], result, [first, second])


def convolved(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    """A convolution of lines, images or volumes, and a bias."""
    known = {"stride", "padding", "dilation", "groups", "layout", "algorithm", "precision"}
    given = {name for name, x in kwargs.items() if x is not None}
    if len(args) != 2 or given - known - {"bias"}:
        return unknown(tape, function, args, kwargs, " with scale, residual, activation or out")
    x, w = args
    bias = kwargs.get("bias")
    options = {name: y for name, y in kwargs.items() if name in known - {"algorithm"}}
    with recording.unwatched():
        result = function(*args, **kwargs)
    images, filters = tape.value(x), tape.value(w)
    reads = [images, filters] + ([] if bias is None else [tape.value(bias)])
    axis = 1 if kwargs.get("layout", "NC").startswith("NC") else x.ndim - 1
    by_images, by_filters = _BACK[function.__name__]

    def shares(total: Any) -> Any:
        seen, weights = in_precision_of(images, total), in_precision_of(filters, total)
        yield lambda: by_images(total, weights, tuple(x.shape), **options)
        yield lambda: by_filters(seen, total, tuple(w.shape), **options)
        sides = three_axes(tuple(total.shape), axis)
        yield lambda: reduce(reduce(total.reshape(sides), axis=2), axis=0)

    return done(tape, shares, reads, result, [images, filters])


def by_rule(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    """A function with a rule of its own (`array_rules`, `linalg_rules`)."""
    plain = getattr(function, "__wrapped__", function)
    if plain in _JOINING and is_array(args[0]):  # its rows, one by one
        args = (tuple(args[0]), *args[1:])
    with recording.unwatched():
        result = function(*args, **kwargs)
    operands = list(_arrays_in((args, kwargs)))
    reads = [tape.value(x) for x in operands]
    results = list(result) if isinstance(result, tuple) else [result]
    seen = plain in _VIEWS
    if seen and all(tape.is_part(x, operands[0]) for x in results):
        return result
    written = [tape.value(x, view=seen) for x in results]
    if any(dtype(x.dtype).is_complex for x in (*operands, *results)):
        tape.record(UnseenRecord(f"{called(function)} of complex numbers", reads, written))
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
        slopes = rule(
            totals if several else totals[0], y if several else y[0], *then(args), **given
        )
        add_shares(gradients, read[1], slopes)

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


def _fused(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    """A fused function: what goes back is what goes back through its steps."""
    fused, *given = args
    arrays = [x for x in given if is_array(x)]
    ours = all(isinstance(x, Storage) for x in arrays)
    if not ours or any(dtype(x.dtype).is_complex for x in arrays):
        why = " of complex numbers" if ours else " of another library's arrays"
        return unknown(tape, function, args, kwargs, f" ({fused.__name__}){why}")
    with recording.unwatched():
        result = function(*args)
    numbers = {id(x): number for number, x in enumerate({id(x): x for x in arrays}.values())}
    reads = [tape.value(x) for x in {id(x): x for x in arrays}.values()]
    results = list(result) if isinstance(result, tuple) else [result]
    written = [tape.value(x) for x in results]

    def through(gradients: Gradients) -> None:
        totals = [gradients.taken(value) for value in written]
        held = apart(reads)
        inputs = [held[numbers[id(x)]] if is_array(x) else x for x in given]
        for number, total in enumerate(totals):
            if total is None or not total.size:
                continue
            for x, share in tape.replayed(fused.__wrapped__, inputs, number, total):
                value = next(v for v, y in zip(reads, held, strict=True) if y is x)
                add_shares(gradients, [value], [lambda share=share: share])  # type: ignore[misc]

    tape.record(OperationRecord(through, reads, written, reads))
    tape.overwrite(written)
    return result


def custom(tape: TapeLike, function: CustomFunction, args: Any) -> Any:
    """A function with an adjoint of its own."""
    reads = [tape.value(x) for x in args if is_array(x)]
    tape.need(reads)
    with recording.unwatched():
        result = function.function(*args)

    def shares(total: Any) -> Any:
        held = iter(apart(reads))
        given = [next(held) if is_array(x) else x for x in args]
        slopes = zip(args, function.adjoint(total, *given), strict=True)
        return [None if g is None else (lambda g=g: g) for x, g in slopes if is_array(x)]

    return done(tape, shares, reads, result, reads)


def _plain(x: Any) -> Any:
    return getattr(x, "__wrapped__", x)


RULES: Final = {_plain(f): rule for f, rule in (*ARRAY_RULES.items(), *LINALG_RULES.items())}
_JOINING: Final = frozenset(map(_plain, JOINING))
_VIEWS: Final = frozenset(map(_plain, VIEWS))

OPERATIONS: Final[dict[Any, Callable[[TapeLike, Any, Any, Any], Any]]] = {
    **dict.fromkeys(RULES, by_rule),
    _plain(copy): copied,
    _plain(indexing.put): assigned,
    _plain(fill): filled,
    _plain(map_each): mapped,
    _plain(reduce): reduced,
    _plain(scan): scanned,
    _plain(gather): gathers,
    _plain(scatter): scatters,
    _plain(sort): in_order,
    **dict.fromkeys(map(_plain, (conv1d, conv2d, conv3d)), convolved),
    _plain(Fused.called): _fused,
    gemm: multiplied,
}
"""The rule of each operation that a tape records."""
