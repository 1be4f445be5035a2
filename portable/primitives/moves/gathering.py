"""Elements from positions along dimensions: how the work is cut, and launched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from portable import lang as kl
from portable.dtypes import DType
from portable.errors import BadIndexError
from portable.lang.kernel import kernel
from portable.primitives.base.geometry import broadcast_shapes, broadcast_strides, collapsed
from portable.primitives.base.recipe import Plans, Recipe
from portable.primitives.base.storage import contiguous_strides
from portable.primitives.maps.elementwise_kernel import Share
from portable.primitives.maps.work import vector_lanes, work_of
from portable.primitives.moves.index_kernels import Where
from portable.primitives.moves.positions import bad_index_flag, check_flag, check_in
from portable.primitives.moves.selection import Selection, spread


@dataclass(frozen=True)
class _Gathered:
    """What a sweep does to neighbours of a row of the result."""

    x: Any
    indices: Any
    flag: Any
    out: Any
    where: Where

    def row(self, outer: tuple[kl.Scalar, ...]) -> Any:
        """Where in `x` the row lies, unless it is what the indices are for."""
        if self.where.along or self.out.ndim - 1 == self.where.axis:
            return None
        return self.where.chosen(self.x, self.where.named(self.indices, outer), self.flag, outer)

    def do(
        self,
        outer: tuple[kl.Scalar, ...],
        row: tuple[kl.Scalar, ...] | None,
        j: kl.Scalar,
        lanes: int,
    ) -> None:
        """Copies them."""
        if row is not None:
            values = kl.vload(self.x, *row, j, lanes=lanes)
        elif lanes == 1:
            values = self.one(self.where.named(self.indices, (*outer, j)), (*outer, j))
        else:
            given = [kl.vload(index, j, lanes=lanes) for index in self.indices]
            numbers = kl.static_range(lanes)
            each = [self.one([n[lane] for n in given], (*outer, j + lane)) for lane in numbers]
            values = kl.vector(*each)
        kl.vstore(self.out, *outer, j, values)

    def one(self, given: Any, at: Any) -> Any:
        """The element that indices name for a place of the result."""
        return self.x[*self.where.chosen(self.x, given, self.flag, at)]


@kernel
def gather(
    x: kl.Array,
    indices: tuple[kl.Array, ...],
    flag: kl.Array | None,
    out: kl.Array,
    *,
    WHERE: Where,
    SHARE: Share,
) -> None:
    """``out[..., n, ...] = x[..., i[n], j[n], ..., ...]``, or ``x[..., i[..., n, ...], ...]``.

    Parameters
    ----------
    x : array
        What is read.
    indices : tuple of array
        ``i, j, ...``, of integers and one shape: see `index_kernels.Where`.
    flag : array or None
        Its only element is set if an index is out of range; without it none is.
    out : array
        What is written, `n` being in the first of the dimensions.
    WHERE : Where
        The dimensions of `x` that the indices are for.
    SHARE : Share
        How work-items share `out`.
    """
    SHARE.sweep(out.shape, _Gathered(x, indices, flag, out, WHERE))


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
    return _gathered.run((x, index), axis, count)


def taken(selection: Selection) -> Any:
    """A new array of the elements selected.

    Waits for the device to learn whether all indices are in range, a copy of four bytes, unless
    that is known.

    Raises
    ------
    BadIndexError
        If one is not.
    """
    view, indices, axis, known = selection
    if known:
        return _taken.run((view, *indices), axis, True)
    flag = bad_index_flag(view.device)
    result = _taken.run((view, *indices, flag), axis, False)
    check_flag(flag, indices, selection.extents)
    return result


def gathered_along(x: Any, index: Any, axis: int) -> Any:
    """The elements at positions along an axis, the other extents of both broadcasting.

    Otherwise like `taken`.

    Parameters
    ----------
    x : Storage
        What to take from.
    index : Storage
        Integers; as many dimensions as `x`.
    axis : int
        Along which, counted from the front.

    Raises
    ------
    ShapeError
        If the other extents do not broadcast.
    """
    flag = bad_index_flag(x.device)
    result = _along.run((x, index, flag), axis)
    check_flag(flag, (index,), (x.shape[axis],))
    return result


def _write_along(arrays: tuple[Any, ...], axis: int) -> Callable[..., Any]:
    """What `gathered_along` has to do for arrays like these."""
    x, index, flag = arrays
    beside = [(*a.shape[:axis], 1, *a.shape[axis + 1 :]) for a in (x, index)]
    rest = broadcast_shapes(beside)
    shape, wide = ((*rest[:axis], n, *rest[axis + 1 :]) for n in (index.shape[axis], x.shape[axis]))
    if prod(shape) and not x.shape[axis]:
        raise BadIndexError("an index into a dimension without elements")
    recipe = Recipe(*arrays)
    out = recipe.empty(shape, x.dtype)
    if out.size:
        x, index = (
            a.viewed(to, broadcast_strides(a.shape, a.strides, to))
            for a, to in ((x, wide), (index, shape))
        )
        chunk, rows, ndrange, group = work_of(shape, 1, x.device.capabilities, strided=False)
        how = {"WHERE": Where(axis, along=True), "SHARE": Share(1, chunk, rows, False)}
        recipe.launch(gather, ndrange, group, x, (index,), flag, out, **how)
    return recipe.finish(out)


_along: Final = Plans(_write_along)


def _write_gathered(arrays: tuple[Any, ...], axis: int, count: int) -> Callable[..., Any]:
    x, index = arrays
    recipe = Recipe(*arrays)
    return recipe.finish(_gather_in(recipe, x, (index,), None, axis, count))


_gathered: Final = Plans(_write_gathered)


def _write_taken(arrays: tuple[Any, ...], axis: int, known: bool) -> Callable[..., Any]:
    """What `taken` has to do for arrays like these."""
    x, *given = arrays
    recipe = Recipe(*arrays)
    flag = None if known else given.pop()
    count = len(given)
    shape, indices = spread(tuple(given))
    if not known and not x.size:
        check_in(recipe, indices, x.shape[axis : axis + count], flag)
    out = _gather_in(recipe, x, indices, flag, axis, count)
    whole = (*out.shape[:axis], *shape, *out.shape[axis + 1 :])
    return recipe.finish(out.viewed(whole, contiguous_strides(whole, out.dtype.itemsize)))


_taken: Final = Plans(_write_taken)


def _gather_in(
    recipe: Recipe, x: Any, indices: Sequence[Any], flag: Any, axis: int, count: int
) -> Any:
    """Elements by indices of one shape, which are counted in one dimension of the result."""
    n = prod(indices[0].shape)
    out = recipe.empty((*x.shape[:axis], n, *x.shape[axis + count :]), x.dtype)
    if out.size:
        source, target = _flattened(x, out, axis, count)
        capabilities = x.device.capabilities
        rows_alike = target.ndim > axis + 1 and source.strides[-1] == x.dtype.itemsize
        kinds: tuple[DType, ...] = (x.dtype,)
        if target.ndim == axis + 1 and not capabilities.lone_work_items:
            rows_alike = all(i.ndim == 1 and i.strides[0] == i.dtype.itemsize for i in indices)
            kinds = (*(i.dtype for i in indices), x.dtype)
        lanes = vector_lanes(kinds, target.shape[-1], capabilities) if rows_alike else 1
        chunk, rows, ndrange, group = work_of(target.shape, lanes, capabilities, strided=False)
        how = {"WHERE": Where(axis, count), "SHARE": Share(lanes, chunk, rows, False)}
        arrays = (source, tuple(indices), flag, target)
        recipe.launch(gather, ndrange, group, *arrays, **how)
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
