"""Elements to positions along dimensions: how the work is cut, and launched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from portable import lang as kl
from portable.dtypes import DType, uint8, uint16, uint32, uint64
from portable.errors import ShapeError
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.base.operands import (
    broadcast_shapes,
    broadcast_strides,
    collapsed,
    number_for,
)
from portable.primitives.base.recipe import Number, Plans, Recipe
from portable.primitives.base.storage import Storage, stored
from portable.primitives.maps.elementwise_kernel import Body, Share, product_of
from portable.primitives.maps.work import work_of
from portable.primitives.moves import gathering
from portable.primitives.moves.copying import converted, reshaped


@function
def put(x: kl.Array, at: tuple[kl.Scalar, ...], value: kl.Scalar) -> None:
    """Writes an element that others may write too: one of theirs stays."""
    if kl.target.single_work_items:
        # A plain store is indivisible there, and compilers make vectors of nothing else.
        x[*at] = value
    else:
        kl.atomic_store(x, at, value)


@function
def in_range(x: kl.Array, indices: tuple[kl.Array, ...], flag: kl.Array, AXIS: int) -> Any:
    """Whether all indices into dimensions of `x` from `AXIS` on are in range; else `flag` is set.

    The work-items of a workgroup look at all of them together.
    """
    bad = kl.local(1, kl.i32)
    item = kl.local_id(0) + kl.local_size(0) * kl.local_id(1)
    if item == 0:
        bad[0] = 0
    kl.barrier()
    step = kl.local_size(0) * kl.local_size(1)
    for n in range(item, product_of(indices[0].shape), step):
        given = gathering.named(indices, n)
        for d in kl.static_range(len(indices)):
            gathering.checked(given[d], x.shape[AXIS + d], bad)
    kl.barrier()
    if item == 0 and bad[0] != 0:
        kl.atomic_or(flag, 0, 1)
    return bad[0] == 0


@dataclass(frozen=True)
class _Scattered(Body):
    """What a sweep over the values does to one of them."""

    x: Any
    indices: Any
    values: Any
    where: gathering.Where
    number: bool

    def do(self, outer: tuple[kl.Scalar, ...], row: Any, m: kl.Scalar, lanes: int) -> None:
        """Writes it to where its indices say."""
        at = (*outer, m)
        target = self.where.chosen(self.x, self.where.named(self.indices, at), None, at)
        put(self.x, target, self.values if self.number else self.values[*at])


@kernel
def scatter(
    x: kl.Array,
    indices: tuple[kl.Array, ...],
    flag: kl.Array | None,
    values: Any,
    *,
    WHERE: gathering.Where,
    NUMBER: bool,
    AT_ONCE: bool,
    SHARE: Share,
) -> None:
    """``x[..., i[n], j[n], ..., ...] = values[..., n, ...]``, unless an index is out of range.

    Parameters
    ----------
    x : array
        What is written.
    indices : tuple of array
        ``i, j, ...``, of integers and one shape: see
        `portable.primitives.moves.gathering.Where.chosen`.
    flag : array or None
        Says in its only element whether an index is out of range; None is none.
    values : array or number
        What is assigned, `n` being in the first of the dimensions.
    WHERE : Where
        The dimensions of `x` that the indices are for.
    NUMBER : bool
        Whether `values` is a number.
    AT_ONCE : bool
        Whether each workgroup finds out by itself if an index is out of range, and sets `flag`.
    SHARE : Share
        How work-items share the values, one at a time.
    """
    shape = (
        *x.shape[: WHERE.axis],
        product_of(indices[0].shape),
        *x.shape[WHERE.axis + WHERE.count :],
    )
    good = True
    if AT_ONCE:
        good = in_range(x, indices, flag, WHERE.axis)
    elif flag is not None:
        good = flag[0] == 0
    if good:
        SHARE.sweep(shape, _Scattered(x, indices, values, WHERE, NUMBER))


_WORDS: Final = {kind.itemsize: kind for kind in (uint8, uint16, uint32, uint64)}
_FEW: Final = 4096
"""Elements written in one launch, whose workgroups look at all indices first."""


def scattered(selection: gathering.Selection, value: Any) -> None:
    """Writes a value to the elements selected; where one is named twice one of its values stays.

    Of `complex128`, whose halves are written one after the other, it may be the halves of two.
    Waits for the device to learn whether all indices are in range, a copy of four bytes, unless
    that is known; nothing is written if one is not.

    Parameters
    ----------
    selection : Selection
        Where to write.
    value : Array or number
        Of a kind that the array holds, and broadcasting to the elements selected. In other memory,
        and so are the indices.

    Raises
    ------
    BadIndexError
        If an index is out of range.
    ShapeError
        If the value does not broadcast.
    """
    view, indices, axis, known = selection
    if not isinstance(value, Storage):
        value = _bits(value, view.dtype) if _word(view)[1] == 1 else _everywhere(value, view)
    flag = gathering.bad_index_flag(view.device)
    values, numbers = ((value,), ()) if isinstance(value, Storage) else ((), (value,))
    arrays = (view, *indices, *values, flag)
    _scatter.plan(arrays, axis, len(indices), known)(*arrays, *numbers)
    if not known:
        gathering.check_flag(flag, indices, selection.extents)


def _everywhere(value: Any, x: Any) -> Any:
    """A number as an array of the device."""
    host = np.asarray(number_for(value, x.dtype)).astype(x.dtype.numpy)
    return stored(x.device, x.device.from_numpy(host))


def _word(x: Any) -> tuple[DType, int]:
    """The widest unsigned integer that is stored at once, and how many of them an element takes."""
    size = x.dtype.itemsize
    most = 8 if x.device.capabilities.atomics64 else 4
    return _WORDS[min(size, most)], max(1, size // most)


def _in_words(x: Any) -> Any:
    """The same bits as unsigned integers."""
    kind, pieces = _word(x)
    if pieces == 1:
        return x.viewed(x.shape, x.strides, dtype=kind)
    return x.viewed((*x.shape, pieces), (*x.strides, kind.itemsize), dtype=kind)


def _bits(value: Any, kind: DType) -> Any:
    """A Python number as the bits of an element, in the type by which kernels take them."""
    element = np.asarray(number_for(value, kind)).astype(kind.numpy)
    word = _WORDS[kind.itemsize]
    return word.register.numpy.type(element.view(word.numpy)[()])


def _write_scatter(
    arrays: tuple[Any, ...], axis: int, count: int, known: bool
) -> Callable[..., None]:
    """What `scattered` does for arrays like these; without values there, to write a number."""
    x, *rest, flag = arrays
    number = None if len(rest) > count else Number(_bits(0, x.dtype))
    recipe = Recipe(*arrays, *((number,) if number else ()))
    shape, indices = gathering.spread(tuple(rest[:count]))
    extents = x.shape[axis : axis + count]
    whole = (*x.shape[:axis], *shape, *x.shape[axis + count :])
    values = number or _spread(recipe, rest[count], x.dtype, whole)
    written = prod(whole) if x.size else 0
    at_once = not known and 0 < written <= _FEW
    if known:
        flag = None
    elif not at_once:
        gathering.check_in(recipe, indices, extents, flag)
    if written:
        flat = (*x.shape[:axis], prod(shape), *x.shape[axis + count :])
        values = number or reshaped(recipe, values, flat)
        _scatter_in(recipe, x, indices, flag, values, gathering.Where(axis, count), at_once)
    return recipe.finish()


_scatter: Final = Plans(_write_scatter)


def _spread(recipe: Recipe, value: Any, kind: DType, shape: tuple[int, ...]) -> Any:
    """A value in the dtype and shape of what it is assigned to."""
    if broadcast_shapes([value.shape, shape]) != shape:
        raise ShapeError(f"a value of shape {value.shape} assigned to elements of shape {shape}")
    value = converted(recipe, value, kind)
    return value.viewed(shape, broadcast_strides(value.shape, value.strides, shape))


def _scatter_in(
    recipe: Recipe,
    x: Any,
    indices: tuple[Any, ...],
    flag: Any,
    values: Any,
    where: gathering.Where,
    at_once: bool,
) -> None:
    """Values, one for each index of one shape, or a number, to where they say."""
    axis, indexed = where.axis, where.axis + where.count
    words = [_in_words(a) for a in (x, values) if isinstance(a, Storage)]
    behind = [words[0].strides[indexed:], *(a.strides[axis + 1 :] for a in words[1:])]
    rest, steps = collapsed(words[0].shape[indexed:], behind) if behind[0] else ((), behind)
    lead, lead_steps = words[0].shape[:indexed], words[0].strides[:indexed]
    target = words[0].viewed((*lead, *rest), (*lead_steps, *steps[0]))
    shape = (*x.shape[:axis], prod(indices[0].shape), *rest)
    for source, step in zip(words[1:], steps[1:], strict=True):
        values = source.viewed(shape, (*source.strides[: axis + 1], *step))
    chunk, rows, ndrange, group = work_of(shape, 1, x.device.capabilities, strided=False)
    how = {"WHERE": where, "AT_ONCE": at_once, "SHARE": Share(1, chunk, rows, False)}
    how["NUMBER"] = isinstance(values, Number)
    recipe.launch(scatter, ndrange, group, target, tuple(indices), flag, values, **how)
