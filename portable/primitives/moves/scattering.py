"""Elements to positions along dimensions: how the work is cut, and launched."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

import numpy as np

from portable.dtypes import DType, uint8, uint16, uint32, uint64
from portable.errors import ShapeError
from portable.primitives.base.borrowed import stored
from portable.primitives.base.geometry import broadcast_shapes, broadcast_strides, collapsed
from portable.primitives.base.numbers import number_for
from portable.primitives.base.recipe import Number, Plans, Recipe
from portable.primitives.base.storage import Storage
from portable.primitives.maps.elementwise_kernel import Share
from portable.primitives.maps.work import work_of
from portable.primitives.moves.index_kernels import Where
from portable.primitives.moves.positions import bad_index_flag, check_flag, check_in
from portable.primitives.moves.reshaping import converted, reshaped
from portable.primitives.moves.scatter_kernels import scatter
from portable.primitives.moves.selection import Selection, spread

__all__ = ["scattered"]

_WORDS: Final = {kind.itemsize: kind for kind in (uint8, uint16, uint32, uint64)}
_FEW: Final = 4096
"""Elements written in one launch, whose workgroups look at all indices first."""


def scattered(selection: Selection, value: Any) -> None:
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
    flag = bad_index_flag(view.device)
    values, numbers = ((value,), ()) if isinstance(value, Storage) else ((), (value,))
    arrays = (view, *indices, *values, flag)
    _scatter.plan(arrays, axis, len(indices), known)(*arrays, *numbers)
    if not known:
        check_flag(flag, indices, selection.extents)


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
    shape, indices = spread(tuple(rest[:count]))
    extents = x.shape[axis : axis + count]
    whole = (*x.shape[:axis], *shape, *x.shape[axis + count :])
    values = number or _spread(recipe, rest[count], x.dtype, whole)
    written = prod(whole) if x.size else 0
    at_once = not known and 0 < written <= _FEW
    if known:
        flag = None
    elif not at_once:
        check_in(recipe, indices, extents, flag)
    if written:
        flat = (*x.shape[:axis], prod(shape), *x.shape[axis + count :])
        values = number or reshaped(recipe, values, flat)
        _scatter_in(recipe, x, indices, flag, values, Where(axis, count), at_once)
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
    where: Where,
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
