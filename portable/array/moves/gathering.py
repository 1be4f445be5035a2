"""Elements from positions along a dimension: how the work is cut, and launched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from portable.array.base.geometry import collapsed
from portable.array.base.recipe import Plans, Recipe
from portable.array.base.storage import contiguous_strides
from portable.array.base.work import vector_lanes, work_of
from portable.array.masks.positions import bad_index_flag, check_flag, linear_positions
from portable.array.moves.gather_kernels import gather, gather_along
from portable.dtypes import DType
from portable.errors import BadIndexError

__all__ = ["gather_in", "gathered", "gathered_along", "gathered_checked"]


def gathered(x: Any, index: Any, axis: int = 0, count: int = 1) -> Any:
    """A new array, `index` having taken the place of `count` dimensions of `x` from `axis` on.

    Parameters
    ----------
    x : Array
        What to take from.
    index : Array
        Positions in these dimensions, counted in C order, which are known to be in range.
    axis, count : int
        The dimensions.
    """
    return _gathered.together((x, index), axis, count)


def gathered_checked(x: Any, index: Any, axis: int = 0) -> Any:
    """The same with an index of one dimension, whose negative elements count from the end.

    Waits for the device to learn whether all are in range, a copy of four bytes.

    Raises
    ------
    BadIndexError
        If one is out of range.
    """
    if not x.size:
        return gathered(x, linear_positions((index,), (x.shape[axis],), index.shape), axis)
    flag = bad_index_flag(x.device)
    found = _gathered.together((x, index, flag), axis, 1)
    check_flag(flag, (index,), (x.shape[axis],))
    return found


def gathered_along(x: Any, index: Any, axis: int) -> Any:
    """The elements at positions along an axis, `index` having the other extents of `x`.

    Otherwise like `gathered_checked`.
    """
    if index.size and not x.shape[axis]:
        raise BadIndexError("an index into a dimension without elements")
    flag = bad_index_flag(x.device)
    found = _along.together((x, index, flag), axis)
    check_flag(flag, (index,), (x.shape[axis],))
    return found


def _write_along(arrays: tuple[Any, ...], axis: int) -> Callable[..., Any]:
    x, index, flag = arrays
    recipe = Recipe(*arrays)
    out = recipe.empty(index.shape, x.dtype)
    if out.size:
        chunk, rows, ndrange, group = work_of(out.shape, 1, x.device.capabilities, strided=False)
        cut = {"AXIS": axis, "CHUNK": chunk, "ROWS": rows}
        recipe.launch(gather_along, ndrange, group, x, index, flag, out, **cut)
    return recipe.finish(out)


_along: Final = Plans(_write_along)


def _write_gather(arrays: tuple[Any, ...], axis: int, count: int) -> Callable[..., Any]:
    recipe = Recipe(*arrays)
    x, index = arrays[:2]
    flag = arrays[2] if len(arrays) > 2 else None
    return recipe.finish(gather_in(recipe, x, index, flag, axis, count))


def gather_in(recipe: Recipe, x: Any, index: Any, flag: Any, axis: int, count: int) -> Any:
    """`gathered` as a step of a recipe; a `flag` is where it says that an index is bad, if any."""
    out = recipe.empty((*x.shape[:axis], index.size, *x.shape[axis + count :]), x.dtype)
    if out.size:
        source, target = _flattened(x, out, axis, count)
        capabilities = x.device.capabilities
        rows_alike = target.ndim > axis + 1 and source.strides[-1] == x.dtype.itemsize
        kinds: tuple[DType, ...] = (x.dtype,)
        if target.ndim == axis + 1 and capabilities.kind != "cpu":
            rows_alike = index.ndim == 1 and index.strides[0] == index.dtype.itemsize
            kinds = (index.dtype, x.dtype)
        lanes = vector_lanes(kinds, target.shape[-1], capabilities) if rows_alike else 1
        chunk, rows, ndrange, group = work_of(target.shape, lanes, capabilities, strided=False)
        cut = {"LANES": lanes, "CHUNK": chunk, "ROWS": rows}
        where = {"AXIS": axis, "COUNT": count}
        recipe.launch(gather, ndrange, group, source, index, flag, target, **where, **cut)
    return out


def _flattened(x: Any, out: Any, axis: int, count: int) -> tuple[Any, Any]:
    """Views of both whose dimensions behind those indexed are as few as `x` allows."""
    indexed = axis + count
    if x.ndim == indexed:
        return x, out
    rest, steps = collapsed(x.shape[indexed:], [x.strides[indexed:]])
    source = x.viewed((*x.shape[:indexed], *rest), (*x.strides[:indexed], *steps[0]))
    shape = (*out.shape[: axis + 1], *rest)
    return source, out.viewed(shape, contiguous_strides(shape, out.dtype.itemsize))


_gathered: Final = Plans(_write_gather)
