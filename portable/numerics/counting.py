"""Elements counted by value: histograms."""

from __future__ import annotations

from operator import index
from typing import Any, Final, NamedTuple

import numpy as np
from array_api_compat import is_numpy_namespace

from portable import lang as kl
from portable import namespace
from portable.backend import Device
from portable.dtypes import DType, dtype
from portable.errors import DTypeError, ShapeError
from portable.interchange.libraries import runs_where_chosen, takes_other_libraries
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.namespace import device_of_arrays
from portable.numerics.namespaces import default_float, floating, like, namespace_of
from portable.primitives.base.operands import power_of_two
from portable.primitives.base.searching import partition_point

# Numbers on a logarithmic scale, and in which interval numbers lie.


@runs_where_chosen
def digitize(x: Any, bins: Any, /, *, right: bool = False) -> Any:
    """The index of the bin that each element lies in.

    Parameters
    ----------
    x : array
        Real numbers, any shape.
    bins : array, shape (n,)
        Where intervals begin, in ascending or in descending order.
    right : bool
        Whether intervals hold their right end, and not their left one.

    Returns
    -------
    array
        int64, of the shape of `x`: i for ``bins[i - 1] <= x < bins[i]``, 0 before the first, n
        behind the last. With descending bins ``bins[i - 1] > x >= bins[i]``.

    Raises
    ------
    ShapeError
        If `bins` is no vector.
    ValueError
        For bins in no order.

    Notes
    -----
    By binary search. Reads from the device whether bins are in order.
    """
    xp = namespace_of(x, bins)
    if bins.ndim != 1:
        raise ShapeError(f"digitize takes a vector of bins, not shape {tuple(bins.shape)}")
    if bool(xp.all(bins[1:] >= bins[:-1])):
        return xp.searchsorted(bins, x, side="left" if right else "right")
    if not bool(xp.all(bins[1:] <= bins[:-1])):
        raise ValueError("bins of digitize are in ascending or in descending order")
    numbers = xp.searchsorted(xp.flip(bins), x, side="right" if not right else "left")
    return bins.shape[0] - numbers


def logspace(
    start: float,
    stop: float,
    /,
    num: int = 50,
    *,
    endpoint: bool = True,
    base: float = 10.0,
    dtype: Any = None,
    device: Any = None,
) -> Any:
    """Numbers evenly spaced on a logarithmic scale, from ``base ** start`` to ``base ** stop``.

    Parameters
    ----------
    start, stop : float
        The exponents of the first and the last number.
    num : int
        How many.
    endpoint : bool
        Whether the last one is ``base ** stop``.
    base : float
        Of the powers.
    dtype : dtype, optional
        Of the result; by default the device's default for floats.
    device : Device or str, optional
        Where the result is to be; by default the device in use.

    Returns
    -------
    array, shape (num,)
        Of the kind that `portable.xp` makes for the device.
    """
    xp = namespace.xp(device)
    powers = xp.pow(base, xp.linspace(start, stop, num, endpoint=endpoint))
    return powers if dtype is None else xp.astype(powers, dtype)


# -- counting --------------------------------------------------------------------------------------

LOCAL_BINS: Final = 2048
"""The most bins that a workgroup keeps in local memory of its own."""


@function
def bin_of(value: kl.Scalar, edges: kl.Array) -> Any:
    """How many of the edges, which ascend, are not above `value`, less one; the last bin is closed.

    NaN is in no bin: it gives -1.
    """
    last = edges.shape[0] - 1
    if value == edges[last]:
        return last - 1
    return partition_point(0, last + 1, lambda k: edges[k] <= value) - 1


@function
def even_bin_of(value: kl.Scalar, edges: kl.Array, scale: kl.Scalar) -> Any:
    """`bin_of` for edges that are about ``1 / scale`` apart: looks about where it should be."""
    last = edges.shape[0] - 1
    number = kl.clip(kl.i32((value - edges[0]) * scale), 0, last - 1)
    while number > 0 and value < edges[number]:
        number -= 1
    while number < last - 1 and value >= edges[number + 1]:
        number += 1
    return number if edges[0] <= value and value <= edges[last] else -1


@kernel
def count(
    x: kl.Array,
    edges: kl.Array | None,
    scale: kl.Scalar | None,
    weights: kl.Array | None,
    totals: kl.Array,
    each: kl.Scalar,
    *,
    BINS: int,
    EDGE: Any,
) -> None:
    """Adds to `totals` what lies in each bin: 1 for each element, or its weight.

    Without edges (None) elements are numbers of bins; others are passed over. With a `scale` edges
    are about evenly spaced. Each work-item takes `each` elements. With up to `BINS` bins a
    workgroup counts in local memory first, where many additions meet, and a lone work-item needs no
    atomic ones.
    """
    item = kl.local_id(0)
    bins = totals.shape[0]
    if BINS > 0:
        inside = kl.local(BINS, totals.dtype)
        for b in range(item, bins, kl.local_size(0)):
            inside[b] = 0
        kl.barrier()
    first = kl.group_id(0) * kl.local_size(0) * each + item
    for k in range(each):
        i = first + k * kl.local_size(0)
        if i < x.shape[0]:
            b = kl.i32(-1)
            if edges is None:
                if x[i] >= 0 and x[i] < bins:
                    b = kl.i32(x[i])
            else:
                value = kl.cast(x[i], EDGE)
                if scale is None:
                    b = kl.i32(bin_of(value, edges))
                else:
                    b = kl.i32(even_bin_of(value, edges, scale))
            if b >= 0 and b < bins:
                amount = 1 if weights is None else weights[i]
                if BINS > 0 and kl.local_size(0) == 1:
                    inside[b] += amount
                elif BINS > 0:
                    kl.atomic_add(inside, b, amount, scope="workgroup")
                else:
                    kl.atomic_add(totals, b, amount)
    if BINS > 0:
        kl.barrier()
        for b in range(item, bins, kl.local_size(0)):
            kl.atomic_add(totals, b, inside[b])


_WORKGROUP: Final = 128
_GROUPS_A_UNIT: Final = 8
_FEWEST_EACH: Final = 16


class Histogram(NamedTuple):
    """The result of `histogram`.

    Attributes
    ----------
    counts : array, shape (n,)
        How many elements lie in each bin; their weights' sum, or the density.
    edges : array, shape (n + 1,)
        Where bins begin and end.
    """

    counts: Any
    edges: Any


@runs_where_chosen
def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    """How often each number from 0 on occurs.

    Parameters
    ----------
    x : array, shape (n,)
        Integers, none negative.
    weights : array, shape (n,), optional
        Real numbers, added up instead of ones.
    minlength : int
        The least length of the result.

    Returns
    -------
    array, shape (max(x) + 1,) or (minlength,)
        int64, or the library's default float with weights, whose order of addition is not fixed.

    Raises
    ------
    ValueError
        For negative numbers.
    TypeError
        For a `minlength` that is no integer.
    DTypeError
        For an `x` that holds no integers, or weights that are complex.
    ShapeError
        For arrays that are no vectors of one length.

    Notes
    -----
    The length of the result is read from the device.
    """
    xp = namespace_of(x, weights)
    if not xp.isdtype(x.dtype, "integral"):
        raise DTypeError(f"bincount takes integers, not {x.dtype}")
    if x.ndim != 1:
        raise ShapeError(f"bincount takes a vector, not shape {tuple(x.shape)}")
    weights = _checked_weights(xp, x, weights)
    length = index(minlength)
    if length < 0:
        raise ValueError(f"bincount: minlength={minlength!r} is negative")
    if x.shape[0]:
        if int(xp.min(x)) < 0:
            raise ValueError("bincount takes numbers that are not negative")
        length = max(length, int(xp.max(x)) + 1)
    if is_numpy_namespace(xp):
        return xp.bincount(x, weights, length)
    counts = _counted(x, None, weights, length)
    kind = xp.int64 if weights is None else default_float(xp, x)
    return xp.astype(counts, kind, copy=False)


@runs_where_chosen
def histogram(
    x: Any,
    /,
    bins: Any = 10,
    range: tuple[float, float] | None = None,
    *,
    weights: Any = None,
    density: bool = False,
) -> Histogram:
    """The number of elements in each bin.

    Parameters
    ----------
    x : array
        Real numbers, any shape.
    bins : int, or array of shape (n + 1,)
        How many intervals of equal width, or where they begin and end, in ascending order.
    range : (float, float), optional
        From where to where, for a number of intervals; the least and the greatest element by
        default, which are read from the device. Elements outside are not counted.
    weights : array, the shape of `x`, optional
        Real numbers, added up instead of ones.
    density : bool
        Whether to divide by the sum and the intervals' widths.

    Returns
    -------
    Histogram
        Counts (int64, or floats) and edges. All intervals but the last are open at their end.

    Raises
    ------
    ValueError
        For a range that is not finite or edges that do not ascend.
    DTypeError
        For complex numbers.
    """
    xp = namespace_of(x, weights)
    if not xp.isdtype(x.dtype, ("integral", "real floating")):
        raise DTypeError(f"histogram takes real numbers, not {x.dtype}")
    weights = _checked_weights(xp, x, weights)
    if is_numpy_namespace(xp):
        host = bins if hasattr(bins, "shape") or isinstance(bins, int) else xp.asarray(bins)
        return Histogram(*xp.histogram(x, host, range, weights=weights, density=density))
    edges, scale = _edges(xp, x, bins, range)
    flat = xp.reshape(x, (-1,))
    if weights is not None:
        weights = xp.reshape(weights, (-1,))
    result = _counted(flat, edges, weights, int(edges.shape[0]) - 1, scale)
    kind = edges.dtype if density or weights is not None else xp.int64
    counts = xp.astype(result, kind, copy=False)
    if density:
        counts = counts / (edges[1:] - edges[:-1]) / xp.sum(counts)
    return Histogram(counts, edges)


def _checked_weights(xp: Any, x: Any, weights: Any) -> Any:
    if weights is None:
        return None
    if tuple(weights.shape) != tuple(x.shape):
        raise ShapeError(f"weights of shape {tuple(weights.shape)} for {tuple(x.shape)} elements")
    return floating("weights", xp, weights)


def _edges(
    xp: Any, x: Any, bins: Any, limits: tuple[float, float] | None
) -> tuple[Any, float | None]:
    """Where the intervals begin and end, in the dtype that elements are compared in.

    And how many there are to a unit; None where they may be uneven.
    """
    kind = x.dtype if xp.isdtype(x.dtype, "real floating") else default_float(xp, x)
    if hasattr(bins, "shape") and not isinstance(bins, np.ndarray):
        edges = xp.astype(floating("histogram", xp, bins), kind, copy=False)
        if edges.ndim != 1 or bool(xp.any(edges[1:] < edges[:-1])):
            raise ValueError("edges are a vector of numbers in ascending order")
        return edges, None
    sample = np.zeros(0, dtype(kind).numpy)
    if limits is None and isinstance(bins, int):
        limits = (0.0, 1.0) if 0 in x.shape else (float(xp.min(x)), float(xp.max(x)))
        if kind == x.dtype:  # NumPy steps from the least to the greatest in their own precision.
            limits = (sample.dtype.type(limits[0]), sample.dtype.type(limits[1]))
    edges = np.histogram_bin_edges(sample, bins, limits).astype(sample.dtype)
    scale = bins / float(edges[-1] - edges[0]) if isinstance(bins, int) else None
    return like(xp, x, edges, kind), scale if scale and np.isfinite(scale) else None


@takes_other_libraries
def _counted(x: Any, edges: Any, weights: Any, bins: int, scale: float | None = None) -> Any:
    """What lies in each bin: int32, or int64 where so many could; with weights floats."""
    device = device_of_arrays(x)
    kind = _total(device, int(x.shape[0]), weights)
    totals = device.from_numpy(np.zeros(bins, kind.numpy))
    if not bins or not x.shape[0]:
        return totals
    n, can = int(x.shape[0]), device.capabilities
    items = 1 if can.single_work_items else _WORKGROUP
    groups_wanted = max(can.compute_units, 1) * _GROUPS_A_UNIT
    each = max(-(-n // (groups_wanted * items)), _FEWEST_EACH)
    count[groups(-(-n // (each * items))), items](
        x,
        edges,
        None if scale is None else dtype(edges.dtype).register(scale),
        weights,
        totals,
        each,
        # A power of two, so that few programs serve all numbers of bins.
        BINS=power_of_two(bins) if bins <= LOCAL_BINS else 0,
        EDGE=None if edges is None else dtype(edges.dtype).register,
    )
    return totals


def _total(device: Device, n: int, weights: Any) -> DType:
    if weights is None:
        return kl.i32 if n < 2**31 else kl.i64
    return kl.f64 if device.capabilities.float64 else kl.f32
