"""The statistical functions of the Array API, and ``any`` and ``all``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf, nan
from math import prod as product_of
from typing import Any, Final

from portable import dtypes
from portable import lang as kl
from portable.array.base.defaults import default_dtype
from portable.array.base.operations import OPERATIONS, ArrayT, filled, filling
from portable.array.functions.complex_pairs import sum_of_pairs
from portable.array.functions.elementwise import not_equal
from portable.array.functions.manipulation import astype, expand_dims, permute_dims
from portable.dtypes import DType, bool_, int8, int64, uint64
from portable.errors import DTypeError
from portable.primitives.base.operands import (
    accumulator,
    highest,
    lowest,
    normalized_axes,
    number_for,
    reduced_shape,
)
from portable.primitives.base.recipe import Plans, Recipe
from portable.primitives.base.storage import Storage
from portable.primitives.maps.elementwise import applied, check_operands, recorded
from portable.primitives.maps.work import Expression, conversion_to
from portable.primitives.moves.copying import converted
from portable.primitives.reductions import axis as k
from portable.primitives.reductions.axis import grouped, reduced
from portable.primitives.reductions.bool_words import counted_in_words, in_words
from portable.primitives.reductions.merging import Merge
from portable.primitives.reductions.stateful import variance
from portable.recording import taped

__all__ = ["all", "any", "count_nonzero", "max", "mean", "min", "prod", "std", "sum", "var"]

Axis = int | tuple[int, ...] | None


def check_kind(name: str, x: Any, kinds: str, wanted: str) -> None:
    """Refuses what is no array of a dtype of these kinds, which are `wanted` in words.

    Parameters
    ----------
    name : str
        The function, as users call it.
    x : object
        What it was given.
    kinds : str
        Letters of the kinds of dtype that it takes.
    wanted : str
        These in words.
    """
    check_operands(name, (x,))
    if x.dtype.kind not in kinds:
        raise DTypeError(f"{name} takes {wanted}, not {x.dtype.name}")


@dataclass(frozen=True, slots=True)
class _Statistic:
    """A reduction: what it takes, and how it merges.

    Attributes
    ----------
    name : str
        As users call it.
    kinds, wanted : str
        The kinds of dtype that it takes, as letters and in words.
    merge : callable
        What a dtype is merged with, for a result of a dtype.
    result : callable
        The dtype of the result, of a dtype and what the user asked for.
    empty : bool
        Whether nothing has a result.
    """

    name: str
    kinds: str
    wanted: str
    merge: Callable[[DType, DType], Merge]
    result: Callable[[DType, Any], DType]
    empty: bool = True


def _write_reduction(
    x: Any, statistic: _Statistic, axis: Axis, dtype: Any, keepdims: bool
) -> Callable[[Any], Any]:
    """What a reduction has to do for arrays like `x`."""
    check_kind(statistic.name, x, statistic.kinds, statistic.wanted)
    axes = normalized_axes(axis, x.ndim)
    result = statistic.result(x.dtype, dtype)
    merge = statistic.merge(x.dtype, result)
    kept = reduced_shape(x.shape, axes, keepdims)
    if not statistic.empty and product_of(x.shape[a] for a in axes) == 0:
        name = statistic.name
        raise ValueError(f"{name} of no elements, along axes {axis} of shape {x.shape}")
    if x.size == 0:
        return lambda x: filled(x.device.empty(kept, result), merge.initial)
    if not axes:
        return lambda x: astype(x if merge.first is None else not_equal(x, 0), result)
    recipe = Recipe(x)
    if statistic is _SUM and x.dtype.is_complex and result is x.dtype:
        reduced_values = sum_of_pairs(recipe, x, axes)
        if reduced_values is not None:
            return recipe.finish(reduced_values.shaped(kept))
    if result.is_integer and not x.dtype.is_integer and statistic is not _COUNT:
        x = converted(recipe, x, result)
        merge = statistic.merge(result, result)
    stored = result
    if x.dtype is bool_ and statistic in (_ANY, _ALL):
        x, merge, stored = in_words(x, axes, merge)
    elif x.dtype is bool_ and statistic is _COUNT:
        x, merge = counted_in_words(x, axes, merge)
    reduced_values = reduced(recipe, x, axes, merge, stored)
    return recipe.finish(reduced_values.shaped(kept, result))


_reduction: Final = Plans(_write_reduction)


def _reduced(statistic: _Statistic, x: Any, axis: Axis, dtype: Any, keepdims: bool) -> Any:
    if isinstance(x, Expression):
        return x.reduce(statistic.name, axis, dtype, keepdims)
    if not isinstance(x, Storage):
        check_operands(statistic.name, (x,))
    if isinstance(axis, Iterable):
        axis = tuple(axis)
    return _reduction(x, statistic, axis, dtype, keepdims)


def _holds_bools(x: Any) -> bool:
    return isinstance(x, Storage) and x.dtype is bool_


def _numbers(x: Any) -> Any:
    """The array, bools as numbers."""
    return astype(x, int8) if _holds_bools(x) else x


def _floats(x: Any) -> Any:
    """The array, bools and integers as the floats that its device makes of numbers."""
    return x if x.dtype.kind in "fc" else astype(x, default_dtype(x.device, "f"))


def sum_dtype(kind: DType, dtype: Any) -> DType:
    """What sums of a dtype are given in."""
    result = dtypes.dtype(dtype) if dtype is not None else kind
    if dtype is None and kind.is_integer:
        result = int64 if kind.kind == "i" else uint64
    if result.kind not in "iufc" or (kind.is_complex and not result.is_complex):
        raise DTypeError(f"{kind.name} has no sum or product of dtype {result.name}")
    return result


_SUM: Final = _Statistic(
    "sum", "iufc", "numbers", lambda x, out: Merge(kl.add, accumulator(out), 0), sum_dtype
)
_PROD: Final = _Statistic(
    "prod", "iufc", "numbers", lambda x, out: Merge(kl.multiply, accumulator(out), 1), sum_dtype
)


def _extreme(name: str, op: Any, beyond: Callable[[DType], Any]) -> _Statistic:
    def merge(x: DType, _: DType) -> Merge:
        return Merge(op, x.register, beyond(x))

    return _Statistic(name, "iuf", "real numbers", merge, lambda x, _: x, empty=False)


def _of_truths(name: str, op: Any, kind: DType, neutral: Any) -> _Statistic:
    def merge(x: DType, _: DType) -> Merge:
        return Merge(op, kind, neutral, None if x is bool_ else k.is_true)

    return _Statistic(name, "biufc", "", merge, lambda x, _: kind)


_MAX: Final = _extreme("max", kl.maximum, lowest)
_MIN: Final = _extreme("min", kl.minimum, highest)
_ANY: Final = _of_truths("any", kl.bitwise_or, bool_, False)
_ALL: Final = _of_truths("all", kl.bitwise_and, bool_, True)
_COUNT: Final = _of_truths("count_nonzero", kl.add, int64, 0)


def _of_sizes(merge: Callable[[DType], Merge], *, wide: bool = False, empty: bool = True) -> Any:
    """A reduction of the sizes of floating-point numbers, which norms are made of."""
    return _Statistic(
        "vector_norm",
        "fc",
        "floating-point numbers",
        lambda x, _: merge(x),
        lambda x, _: accumulator(x.real) if wide else x.real,
        empty,
    )


_OF_SIZES: Final = {
    1: _of_sizes(lambda x: Merge(kl.add, accumulator(x.real), 0, kl.abs)),
    2: _of_sizes(
        lambda x: Merge(
            kl.add, accumulator(x.real), 0, k.square_size if x.is_complex else kl.square
        ),
        wide=True,
    ),
    inf: _of_sizes(lambda x: Merge(kl.maximum, x.real.register, 0, kl.abs)),
    -inf: _of_sizes(lambda x: Merge(kl.minimum, x.real.register, inf, kl.abs), empty=False),
}


@taped
def sum(x: ArrayT, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> ArrayT:
    """The sum along axes; 0 of nothing.

    Parameters
    ----------
    x : Array
        Numbers; bools count as 0 and 1.
    axis : int or tuple of int, optional
        Along which; None means all.
    dtype : dtype, optional
        In which to add up and to give it; that of `x` by default, but 64 bits wide for integers.
    keepdims : bool
        Whether these dimensions stay, with an extent of 1.

    Raises
    ------
    DTypeError
        For complex numbers with a real `dtype`.

    Notes
    -----
    Floating-point numbers are added up in chains of bounded length, and these in turn: a sum of n
    is off by ``(10 + 4 log2(n)) eps sum(abs(x))`` at most, `eps` that of the type to sum in
    (``float32`` of 16 bits) and half of one of the result's beside. Of equal numbers, whose errors
    all go one way, 2^28 were seen to be off by a few eps.
    """
    if dtype is None and _holds_bools(x):
        return count_nonzero(x, axis=axis, keepdims=keepdims)
    return _reduced(_SUM, _numbers(x), axis, dtype, keepdims)  # type: ignore[no-any-return]


def summed_in(recipe: Recipe, x: Any, axes: tuple[int, ...], kind: DType) -> Any:
    """The sum along axes of an array of a recipe, a new array of it, in `kind`.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    x : Storage
        An array of it.
    axes : tuple of int
        Which go, counted from the front.
    kind : DType
        Of the result.
    """
    shape = reduced_shape(x.shape, axes)
    if not x.size:
        out = recipe.empty(shape, kind)
        if out.size:
            applied(recipe, filling(kind), 0, out=out)
        return out
    total = sum_of_pairs(recipe, x, axes) if kind is x.dtype else None
    if total is None:
        total = reduced(recipe, x, axes, Merge(kl.add, accumulator(kind), 0), kind)
    return total.shaped(shape)


def merged_sizes(
    x: ArrayT, order: float, /, *, axis: Axis = None, keepdims: bool = False
) -> ArrayT:
    """Along axes (None: all) the sum of sizes for 1, the greatest for inf, the least for -inf.

    For 2 the sum of their squares, as wide as floats are summed.

    Parameters
    ----------
    x : Array
        Floating-point numbers.
    order : {1, 2, inf, -inf}
        What is wanted of the sizes.
    axis : int or tuple of int, optional
        Along which; all by default.
    keepdims : bool
        Whether these axes stay with extent 1.
    """
    if axis == () or not x.ndim:
        x, axis, keepdims = expand_dims(x, axis=-1), -1, False
    return _reduced(_OF_SIZES[order], x, axis, None, keepdims)  # type: ignore[no-any-return]


@taped
def prod(x: ArrayT, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> ArrayT:
    """The product along axes; 1 of nothing.

    Parameters
    ----------
    x : Array
        Numbers; bools count as 0 and 1.
    axis : int or tuple of int, optional
        Along which; None means all.
    dtype : dtype, optional
        In which to multiply and to give it; that of `x` by default, but 64 bits wide for integers.
    keepdims : bool
        Whether these dimensions stay, with an extent of 1.

    Raises
    ------
    DTypeError
        For complex numbers with a real `dtype`.
    """
    return _reduced(_PROD, _numbers(x), axis, dtype, keepdims)  # type: ignore[no-any-return]


@taped
def max(x: ArrayT, /, *, axis: Axis = None, keepdims: bool = False) -> ArrayT:
    """The greatest element along axes; NaN if there is one.

    Parameters
    ----------
    x : Array
        Real numbers.
    axis : int or tuple of int, optional
        Along which; None means all.
    keepdims : bool
        Whether these dimensions stay, with an extent of 1.

    Raises
    ------
    ValueError
        If there are no elements to choose from.
    DTypeError
        For bools and complex numbers.
    """
    return _reduced(_MAX, x, axis, None, keepdims)  # type: ignore[no-any-return]


@taped
def min(x: ArrayT, /, *, axis: Axis = None, keepdims: bool = False) -> ArrayT:
    """The least element along axes; NaN if there is one.

    Parameters
    ----------
    x : Array
        Real numbers.
    axis : int or tuple of int, optional
        Along which; None means all.
    keepdims : bool
        Whether these dimensions stay, with an extent of 1.

    Raises
    ------
    ValueError
        If there are no elements to choose from.
    DTypeError
        For bools and complex numbers.
    """
    return _reduced(_MIN, x, axis, None, keepdims)  # type: ignore[no-any-return]


def any(x: ArrayT, /, *, axis: Axis = None, keepdims: bool = False) -> ArrayT:
    """Whether some element along axes is not zero; False of nothing.

    Parameters
    ----------
    x : Array
        Of any dtype; NaN is not zero.
    axis : int or tuple of int, optional
        Along which; None means all.
    keepdims : bool
        Whether these dimensions stay, with an extent of 1.
    """
    return _reduced(_ANY, x, axis, None, keepdims)  # type: ignore[no-any-return]


def all(x: ArrayT, /, *, axis: Axis = None, keepdims: bool = False) -> ArrayT:
    """Whether every element along axes is not zero; True of nothing.

    Parameters
    ----------
    x : Array
        Of any dtype; NaN is not zero.
    axis : int or tuple of int, optional
        Along which; None means all.
    keepdims : bool
        Whether these dimensions stay, with an extent of 1.
    """
    return _reduced(_ALL, x, axis, None, keepdims)  # type: ignore[no-any-return]


def count_nonzero(x: ArrayT, /, *, axis: Axis = None, keepdims: bool = False) -> ArrayT:
    """How many elements along axes are not zero, as `int64`.

    Parameters
    ----------
    x : Array
        Of any dtype; NaN is not zero.
    axis : int or tuple of int, optional
        Along which; None means all.
    keepdims : bool
        Whether these dimensions stay, with an extent of 1.
    """
    return _reduced(_COUNT, x, axis, None, keepdims)  # type: ignore[no-any-return]


@taped
def mean(x: ArrayT, /, *, axis: Axis = None, keepdims: bool = False) -> ArrayT:
    """The arithmetic mean along axes; NaN of nothing.

    Parameters
    ----------
    x : Array
        Numbers; bools and integers are converted to floats.
    axis : int or tuple of int, optional
        Along which; None means all.
    keepdims : bool
        Whether these dimensions stay, with an extent of 1.

    Notes
    -----
    As precise as `sum`, and rounded once more where it is divided by the number of elements.
    """
    return _averaged(x, axis, keepdims)  # type: ignore[no-any-return]


def _averaged(x: Any, axis: Axis, keepdims: bool) -> Any:
    if isinstance(x, Expression):
        return x.reduce("mean", axis, None, keepdims)
    check_operands("mean", (x,))
    axis = tuple(axis) if isinstance(axis, Iterable) else axis
    return _mean(_floats(x), axis, keepdims)


def _write_mean(x: Any, axis: Axis, keepdims: bool) -> Callable[[Any], Any]:
    """What means have to do for arrays like `x`."""
    check_kind("mean", x, "fc", "floating-point numbers")
    axes = normalized_axes(axis, x.ndim)
    kept = reduced_shape(x.shape, axes, keepdims)
    if not x.size:
        nothing = complex(nan, nan) if x.dtype.is_complex else nan
        return lambda x: filled(x.device.empty(kept, x.dtype), nothing)
    recipe = Recipe(x)
    out = recipe.empty(kept, x.dtype)
    kind = accumulator(x.dtype)
    total = reduced(recipe, x, axes, Merge(kl.add, kind, 0), kind) if axes else x
    count = product_of(x.shape[a] for a in axes)
    # Dividing by a power of two is multiplying by its inverse, exactly.
    name, factor = ("multiply", 1 / count) if count & (count - 1) == 0 else ("divide", float(count))
    shaped = total.shaped(kept) if axes else x
    applied(recipe, OPERATIONS[name], shaped, factor, out=out)
    return recipe.finish(out)


_mean: Final = Plans(_write_mean)


@taped
def var(
    x: ArrayT, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> ArrayT:
    """The variance along axes.

    Parameters
    ----------
    x : Array
        Real numbers; bools and integers are converted to floats.
    axis : int or tuple of int, optional
        Along which; None means all.
    correction : float
        What to take from the count of elements for the divisor: 1 for the variance of a population
        of which `x` is a sample. The result is NaN where nothing above zero is left.
    keepdims : bool
        Whether these dimensions stay, with an extent of 1.

    Raises
    ------
    DTypeError
        For complex numbers.
    """
    return _variance(x, axis, correction, keepdims, False)


def _variance(x: ArrayT, axis: Axis, correction: float, keepdims: bool, root: bool) -> ArrayT:
    check_operands("std" if root else "var", (x,))
    x = _floats(x)
    if isinstance(axis, Iterable):
        axis = tuple(axis)
    return _spread(x, axis, float(correction), keepdims, root)  # type: ignore[no-any-return]


def _write_spread(
    x: Any, axis: Axis, correction: float, keepdims: bool, root: bool
) -> Callable[[Any], Any]:
    """What variances or standard deviations have to do for arrays like `x`."""
    check_kind("std" if root else "var", x, "f", "real floating-point numbers")
    axes = normalized_axes(axis, x.ndim)
    divisor = product_of(x.shape[a] for a in axes) - correction
    kind = accumulator(x.dtype)
    kept = reduced_shape(x.shape, axes, keepdims)
    if not x.size:
        return lambda x: filled(x.device.empty(kept, x.dtype), nan)
    recipe = Recipe(x)
    number = number_for(divisor if divisor > 0 else nan, kind)
    spread = variance(recipe, _as_one_axis(recipe, x, axes), kind, number, root)
    return recipe.finish(spread.shaped(kept))


def _as_one_axis(recipe: Recipe, x: Any, axes: tuple[int, ...]) -> Any:
    """A view with these axes as the last one, of a copy where they are not one in memory."""
    kept = [a for a in range(x.ndim) if a not in axes]
    array, lead = grouped(x, kept, list(axes))
    if array.ndim == lead + 1:
        return array
    copy = recorded(recipe, conversion_to(x.dtype), permute_dims(x, (*kept, *axes)))
    return grouped(copy, list(range(len(kept))), list(range(len(kept), x.ndim)))[0]


_spread: Final = Plans(_write_spread)


@taped
def std(
    x: ArrayT, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> ArrayT:
    """The standard deviation along axes, the square root of `var`.

    Parameters
    ----------
    x : Array
        Real numbers; bools and integers are converted to floats.
    axis : int or tuple of int, optional
        Along which; None means all.
    correction : float
        As of `var`.
    keepdims : bool
        Whether these dimensions stay, with an extent of 1.

    Raises
    ------
    DTypeError
        For complex numbers.
    """
    return _variance(x, axis, correction, keepdims, True)
