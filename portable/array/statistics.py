"""The statistical and cumulative functions of the Array API, and ``any`` and ``all``."""

from __future__ import annotations

from math import prod as product_of
from typing import TYPE_CHECKING, Any

from portable import dtypes
from portable import lang as kl
from portable.array import reduction_kernels as k
from portable.array.axis import Merge, reduced, scanned
from portable.array.creation import full
from portable.array.elementwise import multiply, sqrt, subtract
from portable.array.engine import check_operands
from portable.array.geometry import normalized_axes, normalized_axis
from portable.array.manipulation import astype, concat, moveaxis, reshape
from portable.dtypes import DType, bool_, int64, uint64
from portable.errors import DTypeError

if TYPE_CHECKING:
    from portable.array.array import Array

__all__ = [
    "all",
    "any",
    "count_nonzero",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]

Axis = int | tuple[int, ...] | None


def _merged(x: Array, axis: Axis, merge: Merge, result: DType, keepdims: bool) -> Array:
    """The reduction, converted, with the shape that `keepdims` asks for."""
    axes = normalized_axes(axis, x.ndim)
    shape = tuple(n for a, n in enumerate(x.shape) if a not in axes)
    if product_of(shape) == 0:
        out = x.device.empty(shape, result)
    elif x.size == 0:
        out = full(shape, merge.initial, dtype=result, device=x.device)
    else:
        out = astype(reduced(x, axes, merge), result, copy=False)
    if keepdims:
        kept = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
        return reshape(out, kept)
    return out  # type: ignore[no-any-return]


def _check(name: str, x: Any, kinds: str, wanted: str) -> None:
    check_operands(name, (x,))
    if x.dtype.kind not in kinds:
        raise DTypeError(f"{name} takes {wanted}, not {x.dtype.name}")


def _sum_dtype(x: Array, dtype: Any) -> DType:
    if dtype is not None:
        return dtypes.dtype(dtype)
    if x.dtype.kind == "i":
        return int64
    return uint64 if x.dtype.kind == "u" else x.dtype


def _accumulator(kind: DType) -> DType:
    """The dtype to sum in, which memory holds between passes."""
    if kind.kind in "fc":
        return dtypes.float32 if kind is dtypes.float16 else kind
    return int64 if kind.kind == "i" else uint64


def _totals(name: str, x: Array, dtype: Any) -> tuple[Array, DType, DType]:
    """The array, converted where the sum needs it, the dtype to sum in, and that of the result."""
    _check(name, x, "iufc", "numbers")
    result = _sum_dtype(x, dtype)
    if result.kind not in "iufc":
        raise DTypeError(f"{name} has no result of dtype {result.name}")
    if result.is_integer and not x.dtype.is_integer:
        x = astype(x, result)
    return x, _accumulator(result), result


def sum(x: Array, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The sum along axes (None: all); 64-bit for integers unless `dtype` says otherwise."""
    x, kind, result = _totals("sum", x, dtype)
    return _merged(x, axis, Merge(k.total, kind, 0), result, keepdims)


def prod(x: Array, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The product along axes (None: all); 64-bit for integers unless `dtype` says otherwise."""
    x, kind, result = _totals("prod", x, dtype)
    return _merged(x, axis, Merge(k.product, kind, 1), result, keepdims)


def _extreme(name: str, x: Array, axis: Axis, keepdims: bool, word: Any, sign: int) -> Array:
    _check(name, x, "iuf", "real numbers")
    axes = normalized_axes(axis, x.ndim)
    if product_of(x.shape[a] for a in axes) == 0:
        raise ValueError(f"{name} of no elements, along axes {axis} of shape {x.shape}")
    kind = x.dtype.register
    return _merged(x, axis, Merge(word, kind, _limit(x.dtype, sign)), x.dtype, keepdims)


def _limit(kind: DType, sign: int) -> Any:
    """The least (`sign` -1) or greatest number of a dtype."""
    if kind.is_float:
        return sign * float("inf")
    if sign > 0:
        return 2 ** (kind.bits - (kind.kind == "i")) - 1
    return -(2 ** (kind.bits - 1)) if kind.kind == "i" else 0


def max(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The greatest element along axes (None: all); NaN if there is one."""
    return _extreme("max", x, axis, keepdims, kl.maximum, -1)


def min(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The least element along axes (None: all); NaN if there is one."""
    return _extreme("min", x, axis, keepdims, kl.minimum, 1)


def any(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Whether some element along axes (None: all) is not zero."""
    return _logical(x, axis, keepdims, Merge(k.either, bool_, False, _truth(x), vector=False))


def all(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Whether every element along axes (None: all) is not zero."""
    return _logical(x, axis, keepdims, Merge(k.both, bool_, True, _truth(x), vector=False))


def _truth(x: Array) -> object:
    check_operands("any and all", (x,))
    return None if x.dtype is bool_ else k.is_true


def _logical(x: Array, axis: Axis, keepdims: bool, merge: Merge) -> Array:
    return _merged(x, axis, merge, bool_, keepdims)


def count_nonzero(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """How many elements along axes (None: all) are not zero."""
    return _merged(x, axis, Merge(k.total, int64, 0, _truth(x)), int64, keepdims)


def mean(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The arithmetic mean along axes (None: all); NaN of nothing."""
    _check("mean", x, "fc", "floating-point numbers")
    count = product_of(x.shape[a] for a in normalized_axes(axis, x.ndim))
    kind = _accumulator(x.dtype)
    total = _merged(x, axis, Merge(k.total, kind, 0), kind, keepdims)
    factor = 1 / count if count else float("nan")
    exact = count & (count - 1) == 0
    result = multiply(total, factor) if exact or not count else total / float(count)
    return astype(result, x.dtype, copy=False)


def var(
    x: Array, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Array:
    """The variance along axes (None: all), the divisor being the count less `correction`."""
    _check("var", x, "f", "real floating-point numbers")
    count = product_of(x.shape[a] for a in normalized_axes(axis, x.ndim))
    kind = _accumulator(x.dtype)
    wide = astype(x, kind, copy=False)
    gap = subtract(wide, mean(wide, axis=axis, keepdims=True))
    total = sum(multiply(gap, gap), axis=axis, keepdims=keepdims)
    divisor = count - correction
    result = total / float(divisor) if divisor > 0 else multiply(total, float("nan"))
    return astype(result, x.dtype, copy=False)


def std(
    x: Array, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Array:
    """The standard deviation along axes (None: all), the square root of `var`."""
    return sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def cumulative_sum(
    x: Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Running sums along an axis, from 0 on if `include_initial`."""
    x, kind, result = _totals("cumulative_sum", x, dtype)
    return _running(x, axis, Merge(k.total, kind, 0), result, include_initial)


def cumulative_prod(
    x: Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Running products along an axis, from 1 on if `include_initial`."""
    x, kind, result = _totals("cumulative_prod", x, dtype)
    return _running(x, axis, Merge(k.product, kind, 1), result, include_initial)


def _running(x: Array, axis: int | None, merge: Merge, result: DType, initial: bool) -> Array:
    if axis is None:
        if x.ndim > 1:
            raise ValueError(f"a running total of shape {x.shape} needs an axis")
        x, axis = reshape(x, (-1,)), 0
    place = normalized_axis(axis, x.ndim)
    shape = (*x.shape[:place], x.shape[place] + initial, *x.shape[place + 1 :])
    if x.size == 0:
        return full(shape, merge.initial, dtype=result, device=x.device)
    out = x.device.empty(shape, result)
    scanned(moveaxis(x, place, -1), moveaxis(out, place, -1), merge, int(initial))
    return out  # type: ignore[no-any-return]


def diff(
    x: Array,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Array | None = None,
    append: Array | None = None,
) -> Array:
    """The differences of neighbours along an axis, taken `n` times."""
    _check("diff", x, "iufc", "numbers")
    place = normalized_axis(axis, x.ndim)
    x = concat([part for part in (prepend, x, append) if part is not None], axis=place)
    lead = (slice(None),) * place
    for _ in range(n):
        x = subtract(x[(*lead, slice(1, None))], x[(*lead, slice(None, -1))])
    return x
