"""Elements to positions along dimensions: how the work is cut, and launched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from portable.array.base.geometry import collapsed
from portable.array.base.recipe import Plans, Recipe, resizable
from portable.array.base.storage import Storage
from portable.array.base.work import work_of
from portable.array.engine import number_for
from portable.array.masks.positions import bad_index_flag, check_flag
from portable.array.moves.scatter_kernels import check, scatter
from portable.dtypes import DType, int64, uint8, uint16, uint32, uint64
from portable.errors import BadIndexError

__all__ = ["checked_index", "scattered"]

_CPU_CHUNK: Final = 4096
_GROUP: Final = 256
_WORDS: Final = {kind.itemsize: kind for kind in (uint8, uint16, uint32, uint64)}


def checked_index(index: Any, extent: int) -> None:
    """Waits for the device to learn whether all of an index are in range, a copy of four bytes.

    Raises
    ------
    BadIndexError
        If one is not.
    """
    if not index.size:
        return
    if not extent:
        raise BadIndexError("an index into a dimension without elements")
    flag = bad_index_flag(index.device)
    _check.together((index, flag), extent)
    check_flag(flag, (index,), (extent,))


def _write_check(arrays: tuple[Any, ...], extent: int) -> Callable[..., Any]:
    index, flag = arrays
    recipe = Recipe(*arrays)
    cpu = index.device.capabilities.kind == "cpu"
    chunk, group = (_CPU_CHUNK, 1) if cpu else (1, _GROUP)
    items = -(-index.size // chunk)
    recipe.launch(check, items, group, index, flag, int64.numpy.type(extent), CHUNK=chunk)
    return recipe.finish(flag)


_check: Final = Plans(_write_check)


def scattered(x: Any, index: Any, values: Any, count: int = 1) -> None:
    """Writes `values` to positions, of which several may be the same: then one of theirs stays.

    Of `complex128`, whose halves are written one after the other, it may be the halves of two.

    Parameters
    ----------
    x : Array
        What to write to.
    index : Array
        Positions in the first `count` dimensions of `x`, in C order, or negative ones that count
        from the end of the first; all are in range.
    values : Array or number
        Of the dtype of `x`, and of the shape of `index` in one dimension and the other dimensions
        of `x`. In other memory than `x` and `index`.
    count : int
        How many dimensions are indexed.
    """
    if not index.size or not x.size:
        return
    if not isinstance(values, Storage) and _word(x)[1] > 1:
        values = _everywhere(values, x, index, count)
    given = (values,) if isinstance(values, Storage) else ()
    _scatter.plan((x, index, *given), count)(x, index, values)


def _everywhere(value: Any, x: Any, index: Any, count: int) -> Any:
    """A number as an array that is the same everywhere."""
    from portable.array.creation import full

    shape = (index.size, *x.shape[count:])
    one = full((), value, dtype=x.dtype, device=x.device)
    return one.viewed(shape, (0,) * len(shape))


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


def _write_scatter(arrays: tuple[Any, ...], count: int) -> Callable[..., None]:
    """What `scattered` does; numbers are of dtypes whose elements are one word."""
    x, index, *given = arrays
    number = not given
    words = [_in_words(x), *map(_in_words, given)]
    steps = [words[0].strides[count:], *(array.strides[1:] for array in words[1:])]
    rest, inner = collapsed(words[0].shape[count:], steps) if steps[0] else ((), steps)
    shape = (index.size, *rest)
    lead, lead_steps = words[0].shape[:count], words[0].strides[:count]
    target = words[0].viewed((*lead, *rest), (*lead_steps, *inner[0]))
    taken: Any = _bits(0, x.dtype) if number else None
    for values, step in zip(words[1:], inner[1:], strict=True):
        taken = values.viewed(shape, (values.strides[0], *step)).at(None, values.offset)
    target = target.at(None, x.offset)
    like = index.at(None, index.offset)
    chunk, rows, ndrange, group = work_of(shape, 1, x.device.capabilities, strided=False)
    constants = {"COUNT": count, "NUMBER": number, "CHUNK": chunk, "ROWS": rows}
    launch = resizable(scatter[ndrange, group], (target, like, taken), constants)

    def run(x: Any, index: Any, values: Any) -> None:
        kind = x.dtype
        from_where = _bits(values, kind) if number else taken.at(values.buffer, values.offset)
        launch(target.at(x.buffer, x.offset), index, from_where)

    return run


_scatter: Final = Plans(_write_scatter)


def _bits(value: Any, kind: DType) -> Any:
    """A Python number as the bits of an element, in the type by which kernels take them."""
    element = np.asarray(number_for(value, kind)).astype(kind.numpy)
    word = _WORDS[kind.itemsize]
    return word.register.numpy.type(element.view(word.numpy)[()])
