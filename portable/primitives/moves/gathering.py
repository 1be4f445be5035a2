"""Elements from positions along dimensions: how the work is cut, and launched."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType, int64
from portable.errors import BadIndexError, ShapeError
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.base.operands import broadcast_shapes, broadcast_strides, collapsed
from portable.primitives.base.recipe import Plans, Recipe
from portable.primitives.base.storage import fetched, stored
from portable.primitives.maps.elementwise_kernel import Share, product_of, unravelled
from portable.primitives.maps.work import vector_lanes, work_of

# What arrays of indices say, element by element.


@function
def checked(given: kl.Scalar, extent: kl.Scalar, flag: kl.Array | None) -> Any:
    """An index counted from the front; one out of range sets `flag` and counts as 0.

    Without a `flag` it is known to be in range.
    """
    n = kl.cast(given, kl.i64)
    position = kl.where(n < 0, n + extent, n)
    if flag is None:
        return position
    # An index beyond the range of i64 comes out negative.
    bad = (n >= extent) | (n < -extent) | ((n < 0) & (given > 0))
    if bad:
        kl.atomic_or(flag, 0, 1)
    return kl.where(bad, 0, position)


@function
def named(indices: tuple[kl.Array, ...], n: kl.Scalar) -> Any:
    """What arrays of indices of one shape hold for the element that comes `n`-th in C order."""
    at = unravelled(n, indices[0].shape)
    return [index[*at] for index in indices]


@dataclass(frozen=True)
class Where:
    """Which dimensions of an array indices are for; a constant of kernels.

    Attributes
    ----------
    axis, count : int
        The first of them, and how many they are.
    along : bool
        Whether indices have an element for each of the selection, instead of for each place in the
        dimension `axis` of that.
    """

    axis: int
    count: int = 1
    along: bool = False

    def named(self, indices: tuple[kl.Array, ...], at: tuple[kl.Scalar, ...]) -> Any:
        """What arrays of indices hold for the element `at` of a selection."""
        if self.along:
            return [index[*at] for index in indices]
        return named(indices, at[self.axis])

    def chosen(
        self,
        x: kl.Array,
        given: tuple[kl.Scalar, ...],
        flag: kl.Array | None,
        at: tuple[kl.Scalar, ...],
    ) -> Any:
        """Where in `x` the element `at` of a selection lies.

        `given` is what the indices hold for it: a place in each of the dimensions, or one position
        in them, in C order, which is in range. Without a `flag` all are.
        """
        extents = x.shape[self.axis : self.axis + self.count]
        if len(given) < self.count:
            inside = unravelled(given[0], extents)
        else:
            inside = [checked(n, extent, flag) for n, extent in zip(given, extents, strict=True)]
        return (*at[: self.axis], *inside, *at[self.axis + 1 :])


@kernel
def check(
    indices: tuple[kl.Array, ...], flag: kl.Array, extents: tuple[kl.Scalar, ...], *, CHUNK: int
) -> None:
    """Sets `flag` if one of the indices, of one shape, into dimensions of these extents is bad.

    Each work-item looks at `CHUNK`.
    """
    start = kl.global_id(0) * CHUNK
    for n in range(start, kl.minimum(start + CHUNK, product_of(indices[0].shape))):
        given = named(indices, n)
        for d in kl.static_range(len(indices)):
            checked(given[d], extents[d], flag)


# Arrays of indices checked against the extents that they index.

_CHUNK: Final = 4096
_GROUP: Final = 256


class _Flags(threading.local):
    """A flag of each device; each thread has its own, since what one enqueues runs in order."""

    def __init__(self) -> None:
        self.of: dict[Device, Any] = {}


_flags: Final = _Flags()


def bad_index_flag(device: Device) -> Any:
    """An integer of the device, zero, for kernels to say in it that an index is out of range."""
    flag = _flags.of.get(device)
    if flag is None:
        flag = _flags.of[device] = stored(device, device.from_numpy(np.zeros(1, np.int32)))
    return flag


def check_flag(flag: Any, indices: Sequence[Any], extents: Sequence[int]) -> None:
    """Waits for the device to learn what kernels have said in a flag of `bad_index_flag`.

    Parameters
    ----------
    flag : Storage
        What kernels said.
    indices : sequence of Storage
        The arrays that they looked at.
    extents : sequence of int
        The dimensions that these are for.

    Raises
    ------
    BadIndexError
        If an index is out of range, saying which.
    """
    if fetched(flag)[0]:
        _flags.of.pop(flag.device, None)  # it is no longer zero
        raise BadIndexError(_first_complaint(indices, extents))


def check_in(recipe: Recipe, indices: Sequence[Any], extents: Sequence[int], flag: Any) -> None:
    """A step of a recipe that says in `flag` whether one of the indices, of one shape, is bad.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    indices : sequence of Array
        One per dimension; negative ones count from the end.
    extents : sequence of int
        The dimensions.
    flag : Array
        What `bad_index_flag` gives.
    """
    size = prod(indices[0].shape)
    if not size:
        return
    if 0 in extents:
        raise BadIndexError("an index into a dimension without elements")
    chunk, group = (_CHUNK, 1) if flag.device.capabilities.single_work_items else (1, _GROUP)
    limits = tuple(int64.numpy.type(n) for n in extents)
    recipe.launch(check, -(-size // chunk), group, tuple(indices), flag, limits, CHUNK=chunk)


def complaint(index: np.ndarray[Any, Any], extent: int) -> str:
    """Which of the integers of an index on the host is out of range; empty if none is."""
    if not index.size or (index.max() < extent and index.min() >= -extent):
        return ""
    bad = index[(index >= extent) | (index < -extent)]
    return f"index {bad[0]} is out of range for extent {extent}"


def _first_complaint(indices: Sequence[Any], extents: Sequence[int]) -> str:
    """Which index is out of range; copies them to the host."""
    for index, extent in zip(indices, extents, strict=True):
        complaint_here = complaint(fetched(index), extent)
        if complaint_here:
            return complaint_here
    return "an index is out of range"


# What arrays of indices name in an array.


class Selection(NamedTuple):
    """Elements that arrays of indices name.

    Attributes
    ----------
    view : Array
        The array as integers and slices beside these leave it, the indexed dimensions side by side.
    indices : tuple of Array
        One for each of them; they broadcast. Negative ones count from the end.
    axis : int
        The first of these dimensions.
    known : bool
        Whether all indices are known to be in range.
    """

    view: Any
    indices: tuple[Any, ...]
    axis: int
    known: bool

    @property
    def extents(self) -> tuple[int, ...]:
        """Of the indexed dimensions."""
        return self.view.shape[self.axis : self.axis + len(self.indices)]  # type: ignore[no-any-return]


def spread(indices: tuple[Any, ...]) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """The shape that arrays broadcast to, and views of them in it.

    Raises
    ------
    BadIndexError
        If they do not.
    """
    try:
        shape = broadcast_shapes([x.shape for x in indices])
    except ShapeError as error:
        raise BadIndexError(f"arrays of indices: {error}") from None
    return shape, tuple(
        x.viewed(shape, broadcast_strides(x.shape, x.strides, shape)) for x in indices
    )


def first_dimensions(view: Any, dims: tuple[int, ...]) -> Any:
    """The view with some dimensions first."""
    order = [*dims, *(d for d in range(view.ndim) if d not in dims)]
    return view.viewed(tuple(view.shape[d] for d in order), tuple(view.strides[d] for d in order))


# -- gathering -------------------------------------------------------------------------------------


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
        ``i, j, ...``, of integers and one shape: see `Where`.
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
    x, index = (
        a.viewed(to, broadcast_strides(a.shape, a.strides, to))
        for a, to in ((x, wide), (index, shape))
    )
    return recipe.finish(gather_along(recipe, x, index, flag, axis))


def gather_along(recipe: Recipe, x: Any, index: Any, flag: Any, axis: int) -> Any:
    """The elements at positions along an axis; without a `flag` these are known to be in range."""
    out = recipe.empty(index.shape, x.dtype)
    if out.size:
        chunk, rows, ndrange, group = work_of(out.shape, 1, x.device.capabilities, strided=False)
        how = {"WHERE": Where(axis, along=True), "SHARE": Share(1, chunk, rows, False)}
        recipe.launch(gather, ndrange, group, x, (index,), flag, out, **how)
    return out


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
    return recipe.finish(out.shaped((*out.shape[:axis], *shape, *out.shape[axis + 1 :])))


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
        if target.ndim == axis + 1 and not capabilities.single_work_items:
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
    return source, out.shaped((*out.shape[: axis + 1], *rest))
