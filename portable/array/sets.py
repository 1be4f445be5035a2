"""The set functions of the Array API; but for `isin` they wait to learn the result's shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from portable import lang as kl
from portable.array.array import Array
from portable.array.base.defaults import beside
from portable.array.functions.manipulation import astype, reshape
from portable.array.functions.searching import ordered, sort
from portable.dtypes import DType, bool_, int64, uint8
from portable.errors import DTypeError
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.base.operands import promoted_on
from portable.primitives.base.recipe import Plans, Recipe, resizable
from portable.primitives.base.storage import Storage, fetched, new
from portable.primitives.maps.elementwise import check_arrays, check_operands
from portable.primitives.masks import mask_kernels as masks
from portable.primitives.moves.copying import converted, reshaped
from portable.primitives.reductions.merging import folded
from portable.primitives.sorts.sorting_kernels import member
from portable.recording import taped

__all__ = ["isin", "unique_all", "unique_counts", "unique_inverse", "unique_values"]


# Distinct elements of a sorted line: how it is cut, and launched.
#
# As with masks (`portable.primitives.masks.compaction`), a short line takes one launch, which
# writes to more memory than it turns out to need; in a longer one what begins is counted first.


class Beginnings(NamedTuple):
    """Chooses what begins a group: a source of `portable.primitives.masks.mask_kernels`.

    Attributes
    ----------
    x : array
        The line.
    bits, counts : array or None
        As of `Mask`.
    words : None
        What a mask has.
    """

    x: Any
    bits: Any = None
    counts: Any = None
    words: Any = None

    def size(self) -> Any:
        """How many elements there are."""
        return self.x.shape[0]

    def chooses(self, i: kl.Scalar) -> Any:
        """Whether an element is the first, or another than that before it; each NaN is."""
        new = i == 0
        if i > 0:
            new = self.x[i] != self.x[i - 1]
        return new

    def bits_from(self, first: kl.Scalar, KIND: Any) -> Any:
        """As many bits as a `KIND` has; of 64 whole vectors are compared where there are such."""
        x, lanes, count = self.x, min(16, 64 // self.x.dtype.itemsize), 8 * KIND.itemsize
        word = kl.cast(0, KIND)
        if count == 32 or x.dtype.is_complex or first == 0 or first + count > self.size():
            word = masks.bits_one_by_one(self, first, count, KIND)
        else:
            bits = kl.vector(*[kl.i32(1 << lane) for lane in kl.static_range(lanes)])
            for bit in kl.static_range(0, count, lanes):
                old, new = [kl.vload(x, first + bit - d, lanes=lanes) for d in (1, 0)]
                some = folded(kl.where(old != new, bits, bits * 0), lanes, kl.add)
                word = word | (kl.cast(some, KIND) << bit)
        return word


@function
def size_of(starts: kl.Array, k: kl.Scalar, count: kl.Scalar, end: kl.Scalar) -> Any:
    """How many elements are in the `k`-th of so many groups."""
    stop = kl.cast(end, kl.i64)
    if k + 1 < count:
        stop = starts[k + 1]
    return stop - starts[k]


@dataclass(frozen=True)
class Groups(masks.Target):
    """What is asked for of groups of equal elements in a sorted line; what is None is left out.

    Attributes
    ----------
    x : array
        The line.
    order : array or None
        Where each element was before it was sorted.
    values : array
        Of which element each group is.
    starts : array or None
        Where it begins.
    firsts : array or None
        Where the first of it was.
    inverse : array or None
        The group of the element that was at each place.
    sizes : array or None
        How many elements each has.
    """

    x: Any
    order: Any
    values: Any
    starts: Any
    firsts: Any
    inverse: Any
    sizes: Any

    def put(self, k: kl.Scalar, at: kl.Scalar) -> None:
        """Writes which element the `k`-th group is of, and where it begins."""
        self.values[k] = self.x[at]
        if self.starts is not None:
            self.starts[k] = kl.cast(at, kl.i64)
        if self.firsts is not None:
            self.firsts[k] = self.order[at]

    def look(self, k: kl.Scalar, first: kl.Scalar, word: kl.Scalar) -> None:
        """Writes in which groups elements are, of which 64 `word` says what begins one."""
        if self.inverse is not None:
            for bit in range(kl.minimum(64, self.x.shape[0] - first)):
                k = k + kl.cast((word >> kl.cast(bit, kl.u64)) & 1, k.dtype)
                self.inverse[self.order[first + bit]] = kl.cast(k - 1, kl.i64)

    def finish(self, count: kl.Scalar, first: kl.Scalar, step: int) -> None:
        """Writes every `step`-th group's size, once all `count` are known."""
        if self.sizes is not None:
            for k in range(first, count, step):
                self.sizes[k] = size_of(self.starts, k, count, self.x.shape[0])

    def take(self, section: Any, few: masks.Few, WIDTH: int) -> None:
        """Writes what is asked for of a few elements, of which those chosen begin a group."""
        offset, chosen, before = few
        for u in kl.static_range(len(chosen)):
            i, k = section.begin + offset + u * WIDTH, section.done + before[u]
            if chosen[u]:
                self.put(k, i)
            if self.inverse is not None and i < self.x.shape[0]:
                group = kl.cast(k, kl.i64) - kl.where(chosen[u], kl.i64(0), kl.i64(1))
                self.inverse[self.order[i]] = group


@kernel
def sizes_of(starts: kl.Array, sizes: kl.Array, end: kl.Scalar) -> None:
    """How many elements are in each group, the last of which ends at `end`."""
    k = kl.global_id(0)
    if k < sizes.shape[0]:
        sizes[k] = size_of(starts, k, sizes.shape[0], end)


_AHEAD: Final = 4


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for besides the values; see `Distinct`."""

    firsts: bool = False
    inverse: bool = False
    sizes: bool = False


@dataclass(frozen=True, slots=True)
class Distinct:
    """Groups of equal elements.

    Attributes
    ----------
    values : Array
        The element that each is of.
    firsts : Array or None
        Where the first of each was before the line was sorted.
    inverse : Array or None
        Which group each element is in, in the order from before.
    sizes : Array or None
        How many elements each has.
    """

    values: Any
    firsts: Any
    inverse: Any
    sizes: Any


def distinct_of(line: Any, order: Any, wanted: Wanted) -> Distinct:
    """The groups in a sorted line, with elements in it; waits for the device to count them.

    Parameters
    ----------
    line : Array
        In order, contiguous.
    order : Array or None
        Where each element was, for `firsts` and `inverse`.
    wanted : Wanted
        What to find.
    """
    arrays = (line,) if order is None else (line, order)
    return _distinct.run(arrays, wanted)  # type: ignore[no-any-return]


def _write(arrays: tuple[Any, ...], wanted: Wanted) -> Callable[..., Distinct]:
    line, order = arrays[0], arrays[1] if len(arrays) > 1 else None
    cut = masks.cut_of(line.size, line.device)
    if cut.sections == 1 and line.size <= masks.AT_ONCE:
        return _write_at_once(line, order, wanted, cut)
    return _write_counted_first(line, order, wanted, cut)


_distinct: Final = Plans(_write)


def _results(size: int, count: int, wanted: Wanted, empty: Callable[..., Any]) -> list[Any]:
    """Arrays for starts, firsts, inverse and sizes of so many groups of elements, or None."""
    return [
        empty((count,), int64) if wanted.sizes else None,
        empty((count,), int64) if wanted.firsts else None,
        empty((size,), int64) if wanted.inverse else None,
        empty((count,), int64) if wanted.sizes else None,
    ]


def _kernel(cut: masks.Cut) -> tuple[Any, tuple[None, ...], dict[str, int]]:
    """The kernel that writes groups, what it takes besides, and its constants."""
    if cut.width == 1:
        return masks.take, (None,), {"SECTION": cut.section, "FEW": 64}
    return masks.take_by_workgroup, (), {"WIDTH": cut.width, "AHEAD": _AHEAD, "FEW": 0}


def _write_at_once(
    line: Any, order: Any, wanted: Wanted, cut: masks.Cut
) -> Callable[..., Distinct]:
    recipe = Recipe(*(x for x in (line, order) if x is not None))
    lines = iter(_lines(recipe.empty((4 * line.size + 1,), int64), line.size))
    result = next(lines)
    rest = _results(line.size, line.size, wanted, lambda *_: next(lines))
    values = recipe.empty((line.size,), line.dtype)
    kernel, none, constants = _kernel(cut)
    args = Beginnings(line), Groups(line, order, values, *rest), *none, result
    recipe.launch(kernel, cut.ndrange, cut.width, *args, **constants)
    run = recipe.finish(result, values, *(x for x in rest if x is not None))
    present = [x is not None for x in rest]

    def at_once(*arrays: Any) -> Distinct:
        result, values, *some = run(*arrays)
        count = int(fetched(result)[0])
        given = iter(some)
        _, firsts, inverse, sizes = (next(given) if there else None for there in present)
        return Distinct(_first(values, count), _first(firsts, count), inverse, _first(sizes, count))

    return at_once


def _lines(x: Any, size: int) -> list[Any]:
    """An array in pieces of a size, after one of a single element."""
    step = x.dtype.itemsize
    starts = [0, *range(1, x.size - size + 1, size)]
    return [x.viewed((size if start else 1,), (step,), x.offset + start * step) for start in starts]


def _first(x: Any, count: int) -> Any:
    """The first elements of a line, if it is one."""
    return None if x is None else x.viewed((count,), x.strides)


def _write_counted_first(
    line: Any, order: Any, wanted: Wanted, cut: masks.Cut
) -> Callable[..., Distinct]:
    recipe = Recipe(line)
    counted = masks.packed_of(recipe, Beginnings(line), line.size, cut)
    kernel, none, constants = _kernel(cut)
    like = partial(_like, line)
    results = [like((line.size,), line.dtype), *_results(line.size, line.size, wanted, like)]
    given = (line.at(None, line.offset), None if order is None else order.at(None, order.offset))
    args = Beginnings(given[0], *counted), Groups(*given, *results), *none, None
    write = resizable(kernel[cut.ndrange, cut.width], args, constants)
    count_all = recipe.finish(*counted)
    device, size = line.device, np.int64(line.size)

    def counted_first(line: Any, order: Any = None) -> Distinct:
        counted = count_all(line)
        count = masks.how_many(counted[1], cut)
        make = partial(new, device)
        values = make((count,), line.dtype)
        results = [values, *_results(line.size, count, wanted, make)]
        write(line, *counted, None, line, order, *results, *none, None)
        _, starts, firsts, inverse, sizes = results
        if sizes is not None:
            sizes_of[count, _GROUP](starts, sizes, size)
        return Distinct(values, firsts, inverse, sizes)

    return counted_first


def _like(x: Any, shape: tuple[int, ...], kind: DType) -> Any:
    """An array to stand for others, without memory."""
    return x.shaped(shape, kind).at(None, 0)


# -- sets ------------------------------------------------------------------------------------------

_GROUP: Final = 256


class UniqueAll(NamedTuple):
    """Distinct elements, where each first stands, which of them each element is, how often."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """Distinct elements in order, and how often each occurs."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """Distinct elements in order, and which of them each element is."""

    values: Array
    inverse_indices: Array


def _found(name: str, x: Any, **wanted: bool) -> Distinct:
    check_operands(name, (x,))
    line, order = x if x.ndim == 1 else reshape(x, (-1,)), None
    if not line.size:
        empty = x.device.empty((0,), int64)
        return Distinct(x.device.empty((0,), x.dtype), empty, reshape(empty, x.shape), empty)
    if "firsts" in wanted or "inverse" in wanted:
        line, order = ordered(line, descending=False)
    else:
        line = sort(line)
    distinct = distinct_of(line, order, Wanted(**wanted))
    if x.ndim != 1 and distinct.inverse is not None:
        return replace(distinct, inverse=reshape(distinct.inverse, x.shape))
    return distinct


def isin(x1: Array | int, x2: Array | int, /, *, invert: bool = False) -> Array:
    """Whether each element of one array is among those of another.

    NaN are not equal to one another, zeros of either sign are. The second array is sorted, and
    each element of the first looked for by halving it.

    Parameters
    ----------
    x1 : Array or number
        What is looked for, of any shape: real numbers or bools.
    x2 : Array or number
        Among which, of any shape; one of the two has to be an array.
    invert : bool
        Whether to tell which elements are not there.

    Returns
    -------
    Array
        Bools in the shape of `x1`.

    Raises
    ------
    DTypeError
        For complex numbers, and int64 with uint64.
    OverflowError
        For a number that the other's dtype does not hold.
    """
    check_operands("isin", (x1, x2))
    values: Any = beside(x1, x2) if isinstance(x2, Storage) else x1
    table = beside(x2, values)
    check_arrays("isin", values, table)
    kind = promoted_on(values.device, values.dtype, table.dtype)
    if kind.is_complex:
        raise DTypeError(f"isin takes real numbers and bools, not {kind.name}")
    kind = uint8 if kind is bool_ else kind
    table = sort(reshape(astype(table, kind, copy=False), (-1,)))
    return _membership.run((table, values), kind, bool(invert))  # type: ignore[no-any-return]


def _write_membership(arrays: tuple[Any, ...], kind: DType, inverted: bool) -> Callable[..., Any]:
    """What `isin` has to do for arrays like these, the first one sorted."""
    table, values = arrays
    recipe = Recipe(table, values)
    out = recipe.empty(values.shape, bool_)
    if out.size:
        size = (values.size,)
        flat = reshaped(recipe, converted(recipe, values, kind), size)
        result = out.viewed(size, (bool_.itemsize,))
        recipe.launch(member, out.size, _GROUP, table, flat, result, INVERTED=inverted)
    return recipe.finish(out)


_membership: Final = Plans(_write_membership)


@taped
def unique_values(x: Array, /) -> Array:
    """The distinct elements.

    NaN are not equal to one another, zeros of either sign are. Waits for the device.

    Parameters
    ----------
    x : Array
        Any shape and dtype.

    Returns
    -------
    Array
        In ascending order, in one dimension.
    """
    return _found("unique_values", x).values  # type: ignore[no-any-return]


@taped
def unique_counts(x: Array, /) -> UniqueCounts:
    """The distinct elements, and how often each occurs.

    NaN are not equal to one another, zeros of either sign are. Waits for the device.

    Parameters
    ----------
    x : Array
        Any shape and dtype.

    Returns
    -------
    values : Array
        The distinct elements in ascending order, in one dimension.
    counts : Array
        How often each occurs; `int64`.
    """
    distinct = _found("unique_counts", x, sizes=True)
    return UniqueCounts(distinct.values, distinct.sizes)


@taped
def unique_inverse(x: Array, /) -> UniqueInverse:
    """The distinct elements, and which of them each element is.

    NaN are not equal to one another, zeros of either sign are. Waits for the device.

    Parameters
    ----------
    x : Array
        Any shape and dtype.

    Returns
    -------
    values : Array
        The distinct elements in ascending order, in one dimension.
    inverse_indices : Array
        Which of them each element of `x` is, in its shape; `int64`.
    """
    distinct = _found("unique_inverse", x, inverse=True)
    return UniqueInverse(distinct.values, distinct.inverse)


@taped
def unique_all(x: Array, /) -> UniqueAll:
    """The distinct elements, where each first stands, the inverse, and the counts.

    NaN are not equal to one another, zeros of either sign are. Waits for the device.

    Parameters
    ----------
    x : Array
        Any shape and dtype.

    Returns
    -------
    values : Array
        The distinct elements in ascending order, in one dimension.
    indices : Array
        Where in `x`, counted in C order, each stands first; `int64`.
    inverse_indices : Array
        Which of them each element of `x` is, in its shape; `int64`.
    counts : Array
        How often each occurs; `int64`.
    """
    distinct = _found("unique_all", x, firsts=True, inverse=True, sizes=True)
    return UniqueAll(distinct.values, distinct.firsts, distinct.inverse, distinct.sizes)
