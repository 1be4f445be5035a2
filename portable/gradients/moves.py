"""What goes back through what moves elements: gathered, sorted, scattered ones."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from portable import lang as kl
from portable import recording
from portable.dtypes import dtype
from portable.errors import UnsupportedError
from portable.gradients.kernels import vjp
from portable.gradients.memory_of import is_real
from portable.gradients.recorders import TapeLike, called, done_into, three_axes, unknown
from portable.gradients.records import Gradients, OperationRecord, UnseenRecord
from portable.gradients.sums import add_to, flat, nought_for
from portable.lang.arguments.arguments import is_array
from portable.lang.kernel import kernel
from portable.namespace import device_of, to_numpy
from portable.primitives import argsort, copy


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


@kernel
def _taken_back(at: kl.Array, g: kl.Array, gout: kl.Array, *, SIZE: int) -> None:
    """Takes the gradients at positions of rows, whose values were overwritten."""
    i = kl.global_id(0)
    row, column = i // gout.shape[1], i % gout.shape[1]
    where = at[row]
    position = kl.where(where < 0, where + SIZE, where)
    g[row, column] = gout[position, column]


@kernel
def _cleared_rows(at: kl.Array, gout: kl.Array, *, SIZE: int) -> None:
    """Makes rows nought."""
    i = kl.global_id(0)
    row, column = i // gout.shape[1], i % gout.shape[1]
    where = at[row]
    gout[kl.where(where < 0, where + SIZE, where), column] = 0


@kernel
def _counted_rows(at: kl.Array, counts: kl.Array) -> None:
    """How often each row is named."""
    where = at[kl.global_id(0)]
    kl.atomic_add(counts, kl.where(where < 0, where + counts.shape[0], where), 1)


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


def _unseen_writes(tape: TapeLike, function: Any, args: Any, kwargs: Any, why: str) -> Any:
    """An operation that writes to its first argument and has no gradient in this form."""
    reads = [tape.value(x) for x in args[1:] if is_array(x)]
    written = [tape.value(args[0])]
    tape.record(UnseenRecord(called(function) + why, [*reads, *written], written))
    tape.overwrite(written)
    with recording.unwatched():
        return function(*args, **kwargs)
