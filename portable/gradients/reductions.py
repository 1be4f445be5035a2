"""What goes back through reductions and scans."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from portable import lang as kl
from portable import recording
from portable.dtypes import dtype
from portable.gradients.kernels import vjp
from portable.gradients.memory_of import is_real
from portable.gradients.recorders import TapeLike, done, done_into, three_axes, unknown
from portable.gradients.records import Value
from portable.lang.arguments.arguments import is_array
from portable.lang.function import arity
from portable.lang.kernel import kernel
from portable.primitives import copy, fill, scan


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
