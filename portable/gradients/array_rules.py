"""What goes back through functions of `portable.array`: one rule for each.

A rule is given the gradient of the result, the result and the arguments, and gives for each array
among the arguments, in order, a function of nothing that works out its share, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

from portable import array as xp
from portable import lang as kl
from portable.array.functions import (
    diagonals,
    joining,
    manipulation,
    products,
    running_totals,
    searching,
    statistics,
)
from portable.array.linalg import outer
from portable.array.methods import indexing
from portable.array.methods.indexing import is_advanced
from portable.lang.kernel import kernel
from portable.primitives.base.operands import normalized_axes

Share = Callable[[], Any] | None
Rule = Callable[..., Sequence[Share]]


def summed_to(g: Any, shape: tuple[int, ...]) -> Any:
    """A gradient summed over the dimensions along which an array of a shape was repeated."""
    if tuple(g.shape) == tuple(shape):
        return g
    more = len(g.shape) - len(shape)
    axes = [i + more for i, n in enumerate(shape) if n == 1 and g.shape[i + more] != 1]
    axes = [*range(more), *axes]
    return xp.reshape(xp.sum(g, axis=tuple(axes), dtype=g.dtype) if axes else g, tuple(shape))


# -- reductions -------------------------------------------------------------------------------


def _kept(y: Any, x: Any, axis: Any) -> Any:
    """What was reduced along axes, with these as dimensions of 1."""
    axes = normalized_axes(axis, len(x.shape))
    return xp.reshape(y, tuple(1 if i in axes else n for i, n in enumerate(x.shape)))


def _count(x: Any, axis: Any) -> int:
    return prod(x.shape[i] for i in normalized_axes(axis, len(x.shape)))


def _sum(g: Any, _: Any, x: Any, /, *, axis: Any = None, **options: Any) -> Sequence[Share]:
    return [lambda: xp.broadcast_to(_kept(g, x, axis), x.shape)]


def _mean(g: Any, _: Any, x: Any, /, *, axis: Any = None, **options: Any) -> Sequence[Share]:
    return [lambda: xp.broadcast_to(_kept(g, x, axis) / max(1, _count(x, axis)), x.shape)]


def _extreme(g: Any, y: Any, x: Any, /, *, axis: Any = None, **options: Any) -> Sequence[Share]:
    """Those that are the greatest or least share alike."""

    def share() -> Any:
        won = xp.astype(x == _kept(y, x, axis), g.dtype)
        count = xp.sum(won, axis=axis, keepdims=True, dtype=g.dtype)
        return won * (_kept(g, x, axis) / _kept(count, x, axis))

    return [share]


def _prod(g: Any, _: Any, x: Any, /, *, axis: Any = None, **options: Any) -> Sequence[Share]:
    """The product of the others; where one is zero only that one has any."""

    def share() -> Any:
        wide = xp.astype(x, g.dtype)
        zero = wide == 0
        others = xp.where(zero, 1.0, wide)
        zeros = _kept(xp.sum(xp.astype(zero, g.dtype), axis=axis, dtype=g.dtype), x, axis)
        whole = _kept(xp.prod(others, axis=axis, dtype=g.dtype), x, axis)
        one = xp.where(zero & (zeros == 1), whole, xp.zeros_like(wide))
        return _kept(g, x, axis) * xp.where(zeros == 0, whole / others, one)

    return [share]


def _variance(
    g: Any, _: Any, x: Any, /, *, axis: Any = None, correction: float = 0.0, **options: Any
) -> Sequence[Share]:
    def share() -> Any:
        wide = xp.astype(x, g.dtype)
        apart = wide - xp.mean(wide, axis=axis, keepdims=True)
        return _kept(g, x, axis) * apart * (2 / (_count(x, axis) - correction))

    return [share]


def _deviation(
    g: Any, y: Any, x: Any, /, *, axis: Any = None, correction: float = 0.0, **options: Any
) -> Sequence[Share]:
    """Nothing where all are alike, as of other roots whose gradient nobody asks for."""

    def share() -> Any:
        some = y != 0
        half = xp.where(some, g, xp.zeros_like(g)) / xp.where(some, 2 * y, xp.ones_like(y))
        given = _variance(half, y, x, axis=axis, correction=correction)[0]
        assert given is not None
        return given()

    return [share]


# -- shapes -----------------------------------------------------------------------------------


def _reshape(g: Any, _: Any, x: Any, /, *args: Any, **options: Any) -> Sequence[Share]:
    return [lambda: xp.reshape(g, x.shape)]


def _permute(g: Any, _: Any, x: Any, /, axes: Any) -> Sequence[Share]:
    order = [a % len(x.shape) for a in axes]
    back = tuple(order.index(i) for i in range(len(order)))
    return [lambda: xp.permute_dims(g, back)]


def _moveaxis(g: Any, _: Any, x: Any, source: Any, destination: Any, /) -> Sequence[Share]:
    return [lambda: xp.moveaxis(g, destination, source)]


def _again(function: Any) -> Rule:
    """Of a function that goes back by being applied to the gradient."""

    def rule(g: Any, _: Any, x: Any, /, **options: Any) -> Sequence[Share]:
        return [lambda: function(g, **options)]

    return rule


def _broadcast(g: Any, _: Any, x: Any, /, shape: Any) -> Sequence[Share]:
    return [lambda: summed_to(g, x.shape)]


def _concat(g: Any, _: Any, arrays: Any, /, *, axis: int | None = 0) -> Sequence[Share]:
    out: list[Share] = []
    start = 0
    for x in arrays:
        count = prod(x.shape) if axis is None else x.shape[axis]
        part = (slice(start, start + count),)
        at = 0 if axis is None else axis % len(x.shape)
        key = (slice(None),) * at + part
        out.append(lambda key=key, x=x: xp.reshape(g[key], x.shape))  # type: ignore[misc]
        start += count
    return out


def _stack(g: Any, _: Any, arrays: Any, /, *, axis: int = 0) -> Sequence[Share]:
    before = (slice(None),) * (axis % len(g.shape))
    return [
        lambda i=i: g[(*before, i)]  # type: ignore[misc]
        for i in range(len(arrays))
    ]


# -- choosing elements ------------------------------------------------------------------------


@kernel
def _scatter_added(at: kl.Array, g: kl.Array, out: kl.Array) -> None:
    """Adds numbers to the elements that they belong to."""
    i = kl.global_id(0)
    kl.atomic_add(out, at[i], g[i])


def _scattered(g: Any, at: Any, x: Any) -> Any:
    """The sums of numbers by the positions, in C order, of what they were taken from."""
    out = xp.zeros(prod(x.shape), dtype=g.dtype, device=g.device)
    if prod(g.shape):
        flat = xp.reshape(at, (-1,), copy=True)
        _scatter_added[prod(g.shape)](flat, xp.reshape(g, (-1,), copy=True), out)
    return xp.reshape(out, x.shape)


def _positions(x: Any) -> Any:
    kind = xp.int32 if prod(x.shape) < 2**31 else xp.int64
    return xp.reshape(xp.arange(prod(x.shape), dtype=kind, device=x.device), x.shape)


def _chosen(function: Any) -> Rule:
    """Of a function that gives some of an array's elements: by doing it to their positions."""

    def rule(g: Any, _: Any, x: Any, /, *args: Any, **options: Any) -> Sequence[Share]:
        return [lambda: _scattered(g, function(_positions(x), *args, **options), x)]

    return rule


def _item(g: Any, _: Any, x: Any, /, key: Any) -> Sequence[Share]:
    def share() -> Any:
        if not is_advanced(key):
            out = xp.zeros(x.shape, dtype=g.dtype, device=g.device)
            out[key] = g
            return out
        return _scattered(g, _positions(x)[key], x)

    return [share]


def _sort(g: Any, _: Any, x: Any, /, *, axis: int = -1, **options: Any) -> Sequence[Share]:
    def share() -> Any:
        order = xp.argsort(x, axis=axis, **options)
        return _scattered(g, xp.take_along_axis(_positions(x), order, axis=axis), x)

    return [share]


def _unstack(gs: Any, ys: Any, x: Any, /, *, axis: int = 0) -> Sequence[Share]:
    parts = gs if isinstance(gs, list) else [gs]
    wanted = ys if isinstance(ys, list) else [ys]

    def share() -> Any:
        given = [xp.zeros_like(y) if g is None else g for g, y in zip(parts, wanted, strict=True)]
        return xp.stack(given, axis=axis)

    return [share]


# -- sums along an axis -----------------------------------------------------------------------


def _running(
    g: Any, _: Any, x: Any, /, *, axis: int | None = None, include_initial: bool = False, **o: Any
) -> Sequence[Share]:
    at = 0 if axis is None else axis % len(x.shape)

    def share() -> Any:
        key = (slice(None),) * at + (slice(1, None),)
        after = xp.flip(g[key] if include_initial else g, axis=at)
        return xp.flip(xp.cumulative_sum(after, axis=at, dtype=g.dtype), axis=at)

    return [share]


# -- products ---------------------------------------------------------------------------------


def _matmul(g: Any, _: Any, a: Any, b: Any, /) -> Sequence[Share]:
    first = xp.expand_dims(a, axis=0) if len(a.shape) == 1 else a
    second = xp.expand_dims(b, axis=-1) if len(b.shape) == 1 else b
    if len(b.shape) == 1:
        g = xp.expand_dims(g, axis=-1)
    if len(a.shape) == 1:
        g = xp.expand_dims(g, axis=-2)

    def left() -> Any:
        made = xp.matmul(g, xp.matrix_transpose(xp.astype(second, g.dtype)))
        return xp.reshape(summed_to(made, first.shape), a.shape)

    def right() -> Any:
        made = xp.matmul(xp.matrix_transpose(xp.astype(first, g.dtype)), g)
        return xp.reshape(summed_to(made, second.shape), b.shape)

    return [left, right]


def _outer(g: Any, _: Any, a: Any, b: Any, /) -> Sequence[Share]:
    return [
        lambda: xp.matmul(g, xp.astype(b, g.dtype)),
        lambda: xp.matmul(xp.astype(a, g.dtype), g),
    ]


def _vecdot(g: Any, _: Any, a: Any, b: Any, /, *, axis: int = -1) -> Sequence[Share]:
    wide = xp.expand_dims(g, axis=axis)
    return [lambda: summed_to(wide * b, a.shape), lambda: summed_to(wide * a, b.shape)]


def _trace(g: Any, _: Any, x: Any, /, *, offset: int = 0, dtype: Any = None) -> Sequence[Share]:
    def share() -> Any:
        at = diagonals.diagonal(_positions(x), offset=offset)
        return _scattered(xp.broadcast_to(xp.expand_dims(g, axis=-1), at.shape), at, x)

    return [share]


ARRAY_RULES: Final[dict[Any, Rule]] = {
    statistics.sum: _sum,
    statistics.mean: _mean,
    statistics.max: _extreme,
    statistics.min: _extreme,
    statistics.prod: _prod,
    statistics.var: _variance,
    statistics.std: _deviation,
    manipulation.reshape: _reshape,
    manipulation.expand_dims: _reshape,
    manipulation.squeeze: _reshape,
    manipulation.permute_dims: _permute,
    manipulation.moveaxis: _moveaxis,
    manipulation.flip: _again(xp.flip),
    manipulation.broadcast_to: _broadcast,
    joining.concat: _concat,
    joining.stack: _stack,
    manipulation.unstack: _unstack,
    joining.roll: _chosen(joining.roll),
    joining.tile: _chosen(joining.tile),
    joining.repeat: _chosen(joining.repeat),
    indexing.get: _item,
    searching.take: _chosen(searching.take),
    searching.take_along_axis: _chosen(searching.take_along_axis),
    searching.sort: _sort,
    running_totals.cumulative_sum: _running,
    diagonals.diagonal: _chosen(diagonals.diagonal),
    diagonals.trace: _trace,
    xp.tril: _again(xp.tril),
    xp.triu: _again(xp.triu),
    products.matmul: _matmul,
    products.matrix_transpose: _again(xp.matrix_transpose),
    products.vecdot: _vecdot,
    outer: _outer,
}
"""By the functions, which tell a tape of themselves (`portable.recording.taped`)."""

JOINING: Final = (joining.concat, joining.stack)
"""Functions that take several arrays as one argument."""

VIEWS: Final = frozenset({
    manipulation.reshape, manipulation.expand_dims, manipulation.squeeze,
    manipulation.permute_dims, manipulation.moveaxis, manipulation.flip, manipulation.broadcast_to,
    manipulation.unstack, indexing.get, products.matrix_transpose, diagonals.diagonal,
})  # fmt: skip
"""Functions whose results may be views of their arguments."""
