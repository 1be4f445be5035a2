"""Running totals along an axis, and their counterpart, the differences of neighbours."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from portable import lang as kl
from portable.array.base.operations import OPERATIONS, ArrayT, filled
from portable.array.functions.joining import joined
from portable.array.functions.manipulation import astype, moveaxis
from portable.array.functions.statistics import check_kind, sum_dtype
from portable.primitives.base.operands import accumulator, normalized_axis
from portable.primitives.base.recipe import Plans, Recipe
from portable.primitives.maps.elementwise import check_operands, recorded
from portable.primitives.reductions.merging import Merge
from portable.primitives.scans.scanning import scanned
from portable.recording import taped

__all__ = ["cumulative_prod", "cumulative_sum", "diff"]


@taped
def cumulative_sum(
    x: ArrayT, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> ArrayT:
    """Running sums along an axis.

    Parameters
    ----------
    x : Array
        Numbers.
    axis : int, optional
        Along which; may be left out where there is one dimension.
    dtype : dtype, optional
        Of the result; that of `x` by default, but 64 bits wide for integers.
    include_initial : bool
        Whether a 0 comes first, so that the axis is longer by one.

    Raises
    ------
    ValueError
        If there are several dimensions and no `axis`.

    Notes
    -----
    Floating-point numbers are added up in chains of bounded length, and their totals in turn, so
    that results differ from those of a loop by rounding. The total up to the n-th is off by
    ``(80 + 4 log2(n)) eps`` of the sum of sizes up to there at most, for n up to 2^28; a loop's by
    ``n eps / 2``.
    """
    check_operands("cumulative_sum", (x,))
    return _scan(x, "cumulative_sum", kl.add, 0, axis, dtype, bool(include_initial))  # type: ignore[no-any-return]


def cumulative_prod(
    x: ArrayT, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> ArrayT:
    """Running products along an axis.

    Parameters
    ----------
    x : Array
        Numbers.
    axis : int, optional
        Along which; may be left out where there is one dimension.
    dtype : dtype, optional
        Of the result; that of `x` by default, but 64 bits wide for integers.
    include_initial : bool
        Whether a 1 comes first, so that the axis is longer by one.

    Raises
    ------
    ValueError
        If there are several dimensions and no `axis`.

    Notes
    -----
    Floating-point numbers are multiplied in chains, and their totals in turn, so that results
    differ from those of a loop by rounding; where those of a chain are too large for the dtype, and
    zero goes before it, they are NaN.
    """
    check_operands("cumulative_prod", (x,))
    return _scan(x, "cumulative_prod", kl.multiply, 1, axis, dtype, bool(include_initial))  # type: ignore[no-any-return]


def _write_scan(
    x: Any, name: str, function: Any, neutral: int, axis: int | None, dtype: Any, initial: bool
) -> Callable[[Any], Any]:
    """What running totals have to do for arrays like `x`."""
    check_kind(name, x, "iufc", "numbers")
    result = sum_dtype(x.dtype, dtype)
    if axis is None and x.ndim != 1:
        raise ValueError(f"{name} of shape {x.shape} needs an axis")
    dim = normalized_axis(0 if axis is None else axis, x.ndim)
    shape = (*x.shape[:dim], x.shape[dim] + initial, *x.shape[dim + 1 :])
    if x.size == 0:
        return lambda x: filled(x.device.empty(shape, result), neutral)
    if result.is_integer and not x.dtype.is_integer:
        rest = _write_scan(astype(x, result), name, function, neutral, dim, dtype, initial)
        return lambda x: rest(astype(x, result))
    recipe = Recipe(x)
    out = recipe.empty(shape, result)
    merge = Merge(function, accumulator(result), neutral)
    scanned(recipe, moveaxis(x, dim, -1), moveaxis(out, dim, -1), merge, int(initial))
    return recipe.finish(out)


_scan: Final = Plans(_write_scan)


def diff(
    x: ArrayT,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: ArrayT | None = None,
    append: ArrayT | None = None,
) -> ArrayT:
    """The differences of neighbours along an axis, each less the one before it.

    Parameters
    ----------
    x : Array
        Numbers.
    axis : int
        Along which.
    n : int
        How often to take them; each makes the axis shorter by one. 0 gives `x`, as in NumPy.
    prepend, append : Array, optional
        What to put before `x` and behind it first, of its shape but for `axis`.

    Raises
    ------
    ValueError
        If `n` is negative.
    """
    parts = tuple(part for part in (prepend, x, append) if part is not None)
    check_operands("diff", parts)
    dim, n = normalized_axis(axis, x.ndim), operator.index(n)
    return _differences.run(parts if n else (x,), dim, n)  # type: ignore[no-any-return]


def _write_differences(arrays: tuple[Any, ...], axis: int, n: int) -> Callable[..., Any]:
    """What `diff` has to do for arrays like these, joined."""
    for x in arrays:
        check_kind("diff", x, "iufc", "numbers")
    if n < 0:
        raise ValueError(f"diff taken {n} times")
    lead = (slice(None),) * axis
    recipe = Recipe(*arrays)
    x = joined(recipe, arrays, axis) if len(arrays) > 1 else arrays[0]
    if not n:
        return recipe.finish(x)
    for _ in range(n):
        later, earlier = x.part((*lead, slice(1, None))), x.part((*lead, slice(None, -1)))
        x = recorded(recipe, OPERATIONS["subtract"], later, earlier)
    return recipe.finish(x)


_differences: Final = Plans(_write_differences)
