"""The creation functions of the Array API."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import numpy as np

from portable import dtypes
from portable.array.array import Array
from portable.array.base.conversion import to_device
from portable.array.base.defaults import device_for, dtype_for, from_host, number_of, shape_of
from portable.array.base.operations import filled
from portable.array.functions.manipulation import astype, copied
from portable.backend import Device
from portable.dtypes import DType, float32
from portable.errors import DTypeError, ShapeError
from portable.primitives.base.operands import kind_of, number_for, with_scalar
from portable.primitives.base.recipe import Launch, Plans, Recipe, repeatable
from portable.primitives.base.storage import Storage
from portable.primitives.maps.elementwise import check_arrays, check_operands
from portable.primitives.maps.elementwise_kernel import (
    ABOVE,
    BELOW,
    ON,
    Share,
    counted,
    counted_down,
    spaced,
    triangle,
)
from portable.primitives.maps.work import vector_lanes, work_of
from portable.primitives.moves.copying import copy_in
from portable.recording import taped

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like",
    "linspace", "meshgrid", "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip

# Numbers evenly apart: `arange` and `linspace`.


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: Any = None,
    device: Any = None,
) -> Array:
    """Numbers `step` apart from `start` (0 if there is no `stop`) up to but without `stop`.

    Parameters
    ----------
    start : number
        The first one; where `stop` is left out, the end of a range from 0.
    stop : number, optional
        The end, which is not reached.
    step : number
        From one to the next; not 0, and negative to count down.
    dtype : dtype, optional
        Of the elements; by default an integer's if all numbers are integers, else a float's.
    device : Device or str, optional
        Where to; by default the device in use.
    """
    if stop is None:
        start, stop = 0, start
    start, stop, step = number_of(start), number_of(stop), number_of(step)
    if step == 0:
        raise ValueError("the step of arange cannot be zero")
    target = device_for(device)
    floating = any(isinstance(x, float) for x in (start, stop, step))
    kind = dtype_for(target, dtype, "f" if floating else "i")
    count = (
        max(math.ceil((stop - start) / step), 0)
        if floating
        else len(range(int(start), int(stop), int(step)))
    )
    out = target.empty((count,), kind)
    _in_progression(out, _arithmetic(kind, target), start, step)
    return out  # type: ignore[no-any-return]


def _in_progression(out: Any, kind: DType, first: Any, step: Any, last: Any = None) -> None:
    """Fills an array with numbers `step` apart, worked out in the arithmetic of `kind`.

    The last of them is `last` if that is given. Those that are no integers are rounded down where
    the array holds integers.
    """
    if not out.size:
        return
    launch = _progression(out.device, out.shape, out.dtype, kind, last is not None)
    if kind is dtypes.uint64:
        first, step = int(first) % 2**64, int(step) % 2**64
    numbers = [None if x is None else number_for(x, kind) for x in (first, step, last)]
    launch((None, None, None, out.buffer), (0, 0, 0, out.offset), (*numbers, None))


def _arithmetic(stored: DType, device: Device) -> DType:
    """The dtype in which `arange` works numbers of a dtype out."""
    if stored.kind in "fc":
        return _widest(device)
    return dtypes.uint64 if stored.kind == "u" else dtypes.int64


def _widest(device: Device) -> DType:
    return dtypes.float64 if device.capabilities.float64 else float32


@lru_cache(maxsize=1024)
def _progression(
    device: Device, shape: tuple[int, ...], stored: DType, kind: DType, ends: bool
) -> Launch:
    """The launch for arithmetic progressions alike."""
    lanes = 1
    if device.capabilities.single_work_items:
        lanes = vector_lanes((kind, stored), shape[0], device.capabilities)
    chunk, _, ndrange, group = work_of(shape, lanes, device.capabilities, strided=False)
    number = number_for(0, kind)
    args = (number, number, number if ends else None, device.empty(shape, stored))
    operation = counted_down if kind.is_float and stored.is_integer else counted
    constants = {"OP": operation, "KIND": kind, "SHARE": Share(lanes, chunk, 1, False)}
    launcher = spaced[ndrange, group]
    return repeatable(launcher, args, constants, disjoint=True)


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
) -> Array:
    """`num` numbers evenly spaced from `start` to `stop`, which is left out if not `endpoint`.

    Integers are rounded down. Numbers from one end of the range to the other, and integers for a
    device without double precision, are made on the host.

    Parameters
    ----------
    start, stop : number
        The ends.
    num : int
        How many, not negative.
    dtype : dtype, optional
        Of the elements; by default the device's default for floats, `float64` where it has that.
    device : Device or str, optional
        Where to; by default the device in use.
    endpoint : bool
        Whether `stop` is the last one.
    """
    if num < 0:
        raise ValueError(f"linspace of {num} numbers")
    target = device_for(device)
    start, stop = number_of(start), number_of(stop)
    letter = "c" if "c" in (kind_of(start), kind_of(stop)) else "f"
    kind = dtype_for(target, dtype, letter)
    if letter == "c" and not kind.is_complex:
        raise DTypeError(f"linspace of {kind.name} from {start} to {stop}, which are complex")
    count = shape_of(num)[0]
    wide = _widest(target)
    as_numpy = not kind.is_integer or wide is dtypes.float64  # NumPy's arithmetic
    if kind.kind == "b" or not as_numpy or _are_far_apart(start, stop):
        made = _spaced_on_host(start, stop, count, kind, endpoint)
        return target.from_numpy(made)  # type: ignore[no-any-return]
    number: Any = complex if kind.is_complex else float
    first, last = number(start), number(stop)
    gaps = num - 1 if endpoint else num
    step = (last - first) / gaps if gaps > 0 else 0.0
    end = math.floor(last) if kind.is_integer else last
    out = target.empty((count,), kind)
    arithmetic = with_scalar(wide, "c" if kind.is_complex else "f")
    _in_progression(out, arithmetic, first, step, end if endpoint and num > 1 else None)
    return out  # type: ignore[no-any-return]


def _are_far_apart(start: complex, stop: complex) -> bool:
    """Whether the difference of two finite numbers is beyond all floats."""
    return any(
        math.isinf(b - a) and math.isfinite(a) and math.isfinite(b)
        for a, b in ((float(start.real), float(stop.real)), (float(start.imag), float(stop.imag)))
    )


def _spaced_on_host(
    start: complex, stop: complex, count: int, kind: DType, endpoint: bool
) -> np.ndarray[Any, Any]:
    if not _are_far_apart(start, stop):
        return np.linspace(start, stop, count, endpoint=endpoint, dtype=kind.numpy)
    return 2 * np.linspace(start / 2, stop / 2, count, endpoint=endpoint, dtype=kind.numpy)


# -- creation --------------------------------------------------------------------------------------


def empty(shape: int | tuple[int, ...], *, dtype: Any = None, device: Any = None) -> Array:
    """A new array with undefined contents.

    Parameters
    ----------
    shape : int or tuple of int
        Extents; a number stands for one dimension.
    dtype : dtype, optional
        Of the elements; by default the device's default for floats, `float64` where it has that.
    device : Device or str, optional
        Where to; by default the device in use.
    """
    target = device_for(device)
    return target.empty(shape_of(shape), dtype_for(target, dtype))  # type: ignore[no-any-return]


def full(
    shape: int | tuple[int, ...], fill_value: Any, *, dtype: Any = None, device: Any = None
) -> Array:
    """A new array of one value.

    Parameters
    ----------
    shape : int or tuple of int
        Extents; a number stands for one dimension.
    fill_value : number or Array without dimensions
        The value.
    dtype : dtype, optional
        Of the elements; by default what the device has for numbers of this kind.
    device : Device or str, optional
        Where to; by default the device in use.
    """
    target = device_for(device)
    value = number_of(fill_value)
    kind = dtype_for(target, _own_dtype(fill_value) if dtype is None else dtype, kind_of(value))
    if kind.kind in "biu" and isinstance(value, float | complex):
        raise DTypeError(f"full of {kind.name} by the number {value!r}; give an int")
    if kind.is_float and isinstance(value, complex):
        raise DTypeError(f"full of {kind.name} by the complex number {value!r}; give its real part")
    out: Array = target.empty(shape_of(shape), kind)
    return filled(out, value)


def _own_dtype(x: Any) -> Any:
    """The dtype of what has one and is no Python number besides."""
    return None if isinstance(x, int | float | complex) else getattr(x, "dtype", None)


def zeros(shape: int | tuple[int, ...], *, dtype: Any = None, device: Any = None) -> Array:
    """A new array of zeros.

    Parameters
    ----------
    shape : int or tuple of int
        Extents; a number stands for one dimension.
    dtype : dtype, optional
        Of the elements; by default the device's default for floats, `float64` where it has that.
    device : Device or str, optional
        Where to; by default the device in use.
    """
    return filled(empty(shape, dtype=dtype, device=device), 0)


def ones(shape: int | tuple[int, ...], *, dtype: Any = None, device: Any = None) -> Array:
    """A new array of ones.

    Parameters
    ----------
    shape : int or tuple of int
        Extents; a number stands for one dimension.
    dtype : dtype, optional
        Of the elements; by default the device's default for floats, `float64` where it has that.
    device : Device or str, optional
        Where to; by default the device in use.
    """
    return filled(empty(shape, dtype=dtype, device=device), 1)


def empty_like(x: Array, /, *, dtype: Any = None, device: Any = None) -> Array:
    """A new array of the shape and dtype of `x`, with undefined contents.

    Parameters
    ----------
    x : Array
        Whose shape to take.
    dtype : dtype, optional
        Of the elements; by default that of `x`.
    device : Device or str, optional
        Where to; by default the device of `x`.
    """
    check_arrays("empty_like", x)
    kind = x.dtype if dtype is None else dtype
    return empty(x.shape, dtype=kind, device=x.device if device is None else device)


def zeros_like(x: Array, /, *, dtype: Any = None, device: Any = None) -> Array:
    """Zeros of the shape and dtype of `x`.

    Parameters
    ----------
    x : Array
        Whose shape to take.
    dtype : dtype, optional
        Of the elements; by default that of `x`.
    device : Device or str, optional
        Where to; by default the device of `x`.
    """
    check_arrays("zeros_like", x)
    return filled(empty_like(x, dtype=dtype, device=device), 0)


def ones_like(x: Array, /, *, dtype: Any = None, device: Any = None) -> Array:
    """Ones of the shape and dtype of `x`.

    Parameters
    ----------
    x : Array
        Whose shape to take.
    dtype : dtype, optional
        Of the elements; by default that of `x`.
    device : Device or str, optional
        Where to; by default the device of `x`.
    """
    check_arrays("ones_like", x)
    return filled(empty_like(x, dtype=dtype, device=device), 1)


def full_like(x: Array, /, fill_value: complex, *, dtype: Any = None, device: Any = None) -> Array:
    """One value in the shape and dtype of `x`.

    Parameters
    ----------
    x : Array
        Whose shape to take.
    fill_value : number
        The value.
    dtype : dtype, optional
        Of the elements; by default that of `x`.
    device : Device or str, optional
        Where to; by default the device of `x`.
    """
    check_arrays("full_like", x)
    kind = x.dtype if dtype is None else dtype
    where_ = x.device if device is None else device
    return full(x.shape, fill_value, dtype=kind, device=where_)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: Any = None,
) -> Array:
    """Ones on the diagonal `k` above the main one, zeros elsewhere.

    Parameters
    ----------
    n_rows : int
        Rows.
    n_cols : int, optional
        Columns; by default as many.
    k : int
        Which diagonal; negative ones lie below the main one.
    dtype : dtype, optional
        Of the elements; by default the device's default for floats, `float64` where it has that.
    device : Device or str, optional
        Where to; by default the device in use.
    """
    columns = n_rows if n_cols is None else n_cols
    target = device_for(device)
    out = target.empty(shape_of((n_rows, columns)), dtype_for(target, dtype))
    if out.size:
        launch = _diagonal(target, out.shape, out.dtype)
        launch((None, out.buffer, None), (0, out.offset, 0), (None, None, _reachable(k, out)))
    return out  # type: ignore[no-any-return]


@lru_cache(maxsize=1024)
def _diagonal(device: Device, shape: tuple[int, ...], kind: DType) -> Launch:
    """The launch of `eye` for arrays alike."""
    lanes = vector_lanes((kind,), shape[1], device.capabilities)
    chunk, rows, ndrange, group = work_of(shape, lanes, device.capabilities, strided=False)
    constants = {"SIDE": ON, "SHARE": Share(lanes, chunk, rows, False)}
    args = (None, device.empty(shape, kind), 0)
    return repeatable(triangle[ndrange, group], args, constants, disjoint=True)


def _reachable(k: int, x: Array) -> int:
    """A diagonal as far out as `k`, for the matrices of `x`, and no farther than just outside."""
    return min(max(k, -x.shape[-2]), x.shape[-1])


@taped
def tril(x: Array, /, *, k: int = 0) -> Array:
    """The lower triangles, up to the diagonal `k`; zeros above it.

    Parameters
    ----------
    x : Array
        A matrix or a stack of them, of shape (..., m, n).
    k : int
        The last diagonal that is kept: 0 is the main one, 1 the one above it.

    Returns
    -------
    Array
        A new one of the same shape and dtype.

    Raises
    ------
    ValueError
        If it has fewer than two dimensions.
    """
    check_arrays("tril", x)
    return _triangle(x, k, BELOW)  # type: ignore[no-any-return]


@taped
def triu(x: Array, /, *, k: int = 0) -> Array:
    """The upper triangles, from the diagonal `k` on; zeros below it.

    Parameters
    ----------
    x : Array
        A matrix or a stack of them, of shape (..., m, n).
    k : int
        The first diagonal that is kept: 0 is the main one, 1 the one above it.

    Returns
    -------
    Array
        A new one of the same shape and dtype.

    Raises
    ------
    ValueError
        If it has fewer than two dimensions.
    """
    check_arrays("triu", x)
    return _triangle(x, k, ABOVE)  # type: ignore[no-any-return]


def _write_triangle(x: Any, k: int, side: str) -> Callable[..., Any]:
    """What `tril` and `triu` have to do for arrays like `x`."""
    if x.ndim < 2:
        raise ValueError(f"a triangle of an array of shape {x.shape}; it takes matrices")
    recipe = Recipe(x)
    out = recipe.empty(x.shape, x.dtype)
    if x.size:
        capabilities = x.device.capabilities
        neighbours = x.strides[-1] == x.dtype.itemsize
        lanes = vector_lanes((x.dtype,), x.shape[-1], capabilities) if neighbours else 1
        chunk, rows, ndrange, group = work_of(x.shape, lanes, capabilities, strided=not neighbours)
        how = {"SIDE": side, "SHARE": Share(lanes, chunk, rows, False)}
        recipe.launch(triangle, ndrange, group, x, out, _reachable(k, x), **how)
    return recipe.finish(out)


_triangle: Final = Plans(_write_triangle)


def meshgrid(*arrays: Array, indexing: str = "xy") -> tuple[Array, ...]:
    """Coordinates of a grid: each 1-d array spread along the others' axes.

    Parameters
    ----------
    *arrays : Array
        Vectors, or arrays without dimensions.
    indexing : {"xy", "ij"}
        Whether the first two dimensions of the results are of the second and the first array, or of
        the first and the second.

    Returns
    -------
    tuple of Array
        As many, each in its own dtype.

    Raises
    ------
    ShapeError
        If an array has more than one dimension.
    ValueError
        For another `indexing`.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing={indexing!r}; meshgrid knows 'xy' and 'ij'")
    check_arrays("meshgrid", *arrays)
    if any(x.ndim > 1 for x in arrays):
        raise ShapeError(f"meshgrid takes vectors, not shapes {[x.shape for x in arrays]}")
    if not arrays:
        return ()
    check_operands("meshgrid", arrays)
    grids = _grid.run(arrays, indexing)
    return tuple(grids) if len(arrays) > 1 else (grids,)


def _write_grid(arrays: tuple[Any, ...], indexing: str) -> Callable[..., Any]:
    """What `meshgrid` has to do for vectors like these."""
    ndim = len(arrays)
    order = list(range(ndim))
    if indexing == "xy" and ndim > 1:
        order[:2] = [1, 0]
    shape = tuple(arrays[i].size for i in order)
    recipe = Recipe(*arrays)
    spread = [
        x.viewed(shape, tuple(x.strides[0] if i == axis and x.ndim else 0 for i in order))
        for axis, x in enumerate(arrays)
    ]
    grids = [recipe.empty(shape, x.dtype) for x in arrays]
    copy_in(recipe, list(zip(spread, grids, strict=True)))
    return recipe.finish(*grids)


_grid: Final = Plans(_write_grid)


def asarray(
    obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None
) -> Array:
    """`obj` as an array: an array of any library, a nested sequence, or a number.

    Parameters
    ----------
    obj : array, sequence or number
        What to take; other libraries' arrays are copied through the host.
    dtype, device
        What to convert to, and where.
    copy : bool, optional
        True: always a copy; False: never one; None: only where it is needed.

    Raises
    ------
    ValueError
        If `copy` is False and a copy is needed.
    OverflowError
        For integers that the dtype does not hold.
    DTypeError
        For what is no number, and complex numbers as real ones.
    """
    if isinstance(obj, Storage):
        return _from_ours(obj, dtype, device, copy)  # type: ignore[no-any-return]
    if copy is False:
        raise ValueError(
            f"asarray of a {type(obj).__name__} copies it to the device; leave out copy=False"
        )
    return from_host(obj, device_for(device), dtype)  # type: ignore[no-any-return]


def _from_ours(x: Any, dtype: Any, device: Any, copy: bool | None) -> Any:
    target = x.device if device is None else device_for(device)
    kind = x.dtype if dtype is None else dtypes.dtype(dtype)
    moved, changed = target is not x.device, kind is not x.dtype
    if copy is False and (moved or changed):
        raise ValueError("asarray with copy=False cannot change the dtype or the device")
    if moved:
        x = to_device(x, target)
    if changed:
        return astype(x, kind)
    return copied(x) if copy and not moved else x


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array of a library that offers DLPack, copied to the device through the host.

    Parameters
    ----------
    x : array
        Of a library that offers DLPack.
    device : Device or str, optional
        Where to; by default the device in use.
    copy : bool, optional
        False asks for shared memory, and is refused.

    Raises
    ------
    BufferError
        If `copy` is False, since memory of other libraries is not shared.
    AttributeError
        If `x` does not offer DLPack.
    """
    if isinstance(x, Storage):
        return _from_ours(x, None, device, copy)  # type: ignore[no-any-return]
    if copy is False:
        raise BufferError("from_dlpack copies to the device; leave out copy=False")
    if not hasattr(x, "__dlpack__"):
        raise AttributeError(f"{type(x).__name__} offers no __dlpack__; use asarray")
    return asarray(x, device=device)
