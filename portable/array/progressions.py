"""Numbers evenly apart: `arange` and `linspace`."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from portable import dtypes
from portable.array.array import Array
from portable.array.base.defaults import device_for, dtype_for, shape_of
from portable.array.base.host_values import number_of
from portable.backend import Device
from portable.dtypes import DType, float32
from portable.errors import DTypeError
from portable.primitives.base.numbers import number_for
from portable.primitives.base.promotion import kind_of, with_scalar
from portable.primitives.base.recipe import Launch, repeatable
from portable.primitives.maps.creation_kernels import counted, counted_down, spaced
from portable.primitives.maps.elementwise_kernel import Share
from portable.primitives.maps.work import vector_lanes, work_of


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
    if device.capabilities.lone_work_items:
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
