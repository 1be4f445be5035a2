"""The creation functions of the Array API."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from portable import dtypes, registry
from portable import lang as kl
from portable.array.creation_kernels import counted, diagonal, generated
from portable.array.elementwise import where
from portable.array.engine import apply, number_for
from portable.array.geometry import broadcast_shapes, whole_numbers
from portable.array.manipulation import astype, broadcast_to, copied
from portable.array.operation import Operation
from portable.array.promotion import kind_of
from portable.array.storage import Storage
from portable.backend import Device
from portable.dtypes import DType, complex64, float32
from portable.errors import DTypeError, UnsupportedError

if TYPE_CHECKING:
    from portable.array.array import Array

__all__ = [
    "arange",
    "asarray",
    "default_dtype",
    "device_for",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "is_ours",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]

_GROUP = 64


def device_for(device: Any) -> Device:
    """The device that creation functions use.

    None means the one in use if its arrays are of this kind, else the first found whose are.
    """
    found = registry.device(device).for_arrays()
    if is_ours(found):
        return found
    if device is not None:
        raise UnsupportedError(
            f"{found.name} has arrays of its own; use portable.xp({found.name!r}) for them"
        )
    return _first_found()


def is_ours(device: Device) -> bool:
    """Whether a device's arrays are those of `portable.array`."""
    return getattr(device.namespace(), "__name__", "") == "portable.array"


@cache
def _first_found() -> Device:
    for device in registry.devices():
        if is_ours(device):
            return device
    raise UnsupportedError("no OpenCL device was found: pip install 'portable-arrays[cpu]'")


def default_dtype(device: Device, letter: str) -> DType:
    """The dtype of Python numbers on a device, whose floats may be single at most."""
    kind = {"b": dtypes.bool_, "i": dtypes.int64, "f": dtypes.float64, "c": dtypes.complex128}[
        letter
    ]
    if device.capabilities.float64 or letter in "bi":
        return kind
    return float32 if letter == "f" else complex64


def _dtype(device: Device, given: Any, letter: str = "f") -> DType:
    if given is None:
        return default_dtype(device, letter)
    kind = dtypes.dtype(given)
    if kind.real is dtypes.float64 and not device.capabilities.float64:
        raise UnsupportedError(
            f"{device.name} lacks double precision, so it has no {kind.name} arrays; use "
            "float32 or complex64"
        )
    return kind


def _shape(shape: Any) -> tuple[int, ...]:
    found = whole_numbers(shape)
    if any(n < 0 for n in found):
        raise ValueError(f"a shape has no negative extents: {found}")
    return found


def empty(shape: int | tuple[int, ...], *, dtype: Any = None, device: Any = None) -> Array:
    """A new array with undefined contents."""
    target = device_for(device)
    return target.empty(_shape(shape), _dtype(target, dtype))  # type: ignore[no-any-return]


def full(
    shape: int | tuple[int, ...], fill_value: Any, *, dtype: Any = None, device: Any = None
) -> Array:
    """A new array of one value."""
    target = device_for(device)
    if isinstance(fill_value, Storage):
        fill_value = fill_value.device.to_numpy(fill_value).item()
    kind = _dtype(target, dtype, kind_of(fill_value))
    if kind.kind in "iu" and isinstance(fill_value, float):
        raise DTypeError(f"full of {kind.name} by the float {fill_value!r}; give an int")
    return _filled(target.empty(_shape(shape), kind), fill_value)


@cache
def _filling(kind: DType) -> Operation:
    return Operation("full", "biufc", kl.positive, fixed=kind)


def _filled(out: Array, value: complex) -> Array:
    return apply(_filling(out.dtype), value, out=out)


def zeros(shape: int | tuple[int, ...], *, dtype: Any = None, device: Any = None) -> Array:
    """A new array of zeros."""
    return _filled(empty(shape, dtype=dtype, device=device), 0)


def ones(shape: int | tuple[int, ...], *, dtype: Any = None, device: Any = None) -> Array:
    """A new array of ones."""
    return _filled(empty(shape, dtype=dtype, device=device), 1)


def empty_like(x: Array, /, *, dtype: Any = None, device: Any = None) -> Array:
    """A new array of the shape and dtype of `x`, with undefined contents."""
    kind = x.dtype if dtype is None else dtype
    return empty(x.shape, dtype=kind, device=x.device if device is None else device)


def zeros_like(x: Array, /, *, dtype: Any = None, device: Any = None) -> Array:
    """Zeros of the shape and dtype of `x`."""
    return _filled(empty_like(x, dtype=dtype, device=device), 0)


def ones_like(x: Array, /, *, dtype: Any = None, device: Any = None) -> Array:
    """Ones of the shape and dtype of `x`."""
    return _filled(empty_like(x, dtype=dtype, device=device), 1)


def full_like(x: Array, /, fill_value: complex, *, dtype: Any = None, device: Any = None) -> Array:
    """One value in the shape and dtype of `x`."""
    kind = x.dtype if dtype is None else dtype
    where_ = x.device if device is None else device
    return full(x.shape, fill_value, dtype=kind, device=where_)


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: Any = None,
    device: Any = None,
) -> Array:
    """Numbers `step` apart from `start` (0 if there is no `stop`) up to but without `stop`."""
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ValueError("the step of arange cannot be zero")
    target = device_for(device)
    floating = any(isinstance(x, float) for x in (start, stop, step))
    kind = _dtype(target, dtype, "f" if floating else "i")
    count = (
        max(math.ceil((stop - start) / step), 0)
        if floating
        else len(range(int(start), int(stop), int(step)))
    )
    out = target.empty((count,), kind)
    _generate(out, counted, start, step)
    return out  # type: ignore[no-any-return]


def _generate(out: Any, function: Any, a: Any, b: Any) -> None:
    """Each element from its number in C order and two numbers, in the dtype's own arithmetic."""
    if not out.size:
        return
    wide = dtypes.float64 if out.device.capabilities.float64 else float32
    kind = wide if out.dtype.kind in "fc" else dtypes.int64
    numbers = number_for(a, kind), number_for(b, kind)
    flat = out.viewed((out.size,), (out.dtype.itemsize,))
    generated[out.size, _GROUP](*numbers, flat, OP=function, KIND=kind, STORED=out.dtype)


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
    """`num` numbers evenly spaced from `start` to `stop`, which is left out if not `endpoint`."""
    if num < 0:
        raise ValueError(f"linspace of {num} numbers")
    target = device_for(device)
    letter = "c" if "c" in (kind_of(start), kind_of(stop)) else "f"
    kind = _dtype(target, dtype, letter)
    if kind.is_complex:
        made = np.linspace(start, stop, num, endpoint=endpoint).astype(kind.numpy)
        return target.from_numpy(made)  # type: ignore[no-any-return]
    out = target.empty(_shape(num), kind)
    gaps = num - 1 if endpoint else num
    step = (float(stop.real) - float(start.real)) / gaps if gaps > 0 else 0.0
    _generate(out, counted, float(start.real), step)
    if endpoint and num > 1:
        out[num - 1] = stop
    return out  # type: ignore[no-any-return]


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: Any = None,
) -> Array:
    """Ones on the diagonal `k` above the main one, zeros elsewhere."""
    columns = n_rows if n_cols is None else n_cols
    target = device_for(device)
    out = target.empty(_shape((n_rows, columns)), _dtype(target, dtype))
    if out.size:
        flat = out.viewed((out.size,), (out.dtype.itemsize,))
        numbers = np.int64(columns), np.int64(k)
        generated[out.size, _GROUP](
            *numbers, flat, OP=diagonal, KIND=dtypes.int64, STORED=out.dtype
        )
    return out  # type: ignore[no-any-return]


def tril(x: Array, /, *, k: int = 0) -> Array:
    """The lower triangles, up to the diagonal `k`; zeros above it."""
    return where(_below(x, k), x, zeros((), dtype=x.dtype, device=x.device))


def triu(x: Array, /, *, k: int = 0) -> Array:
    """The upper triangles, from the diagonal `k` on; zeros below it."""
    return where(_below(x, k - 1), zeros((), dtype=x.dtype, device=x.device), x)


def _below(x: Array, k: int) -> Array:
    """Whether an element of a matrix lies on the diagonal `k` or below it."""
    if x.ndim < 2:
        raise ValueError(f"a triangle of an array of shape {x.shape}; it takes matrices")
    rows = arange(x.shape[-2], device=x.device)[:, None]
    columns = arange(x.shape[-1], device=x.device)[None, :]
    return columns - rows <= k  # type: ignore[no-any-return]


def meshgrid(*arrays: Array, indexing: str = "xy") -> list[Array]:
    """Coordinates of a grid: each 1-d array spread along the others' axes."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing={indexing!r}; meshgrid knows 'xy' and 'ij'")
    ndim = len(arrays)
    order = list(range(ndim))
    if indexing == "xy" and ndim > 1:
        order[:2] = [1, 0]
    spread = [
        x.viewed(
            tuple(x.size if order[d] == i else 1 for d in range(ndim)),
            tuple(x.strides[0] if order[d] == i and x.ndim else 0 for d in range(ndim)),
        )
        for i, x in enumerate(arrays)
    ]
    if not spread:
        return []
    shape = broadcast_shapes([x.shape for x in spread])
    return [copied(broadcast_to(x, shape)) for x in spread]


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
    """
    if isinstance(obj, Storage):
        return _from_ours(obj, dtype, device, copy)
    if copy is False:
        raise ValueError(
            f"asarray of a {type(obj).__name__} copies it to the device; leave out copy=False"
        )
    owner = device_for(device)
    host = _on_host(obj)
    if dtype is None:
        python = not isinstance(obj, np.ndarray | np.generic) and not hasattr(obj, "__dlpack__")
        letter = host.dtype.kind.replace("u", "i") if python else ""
        kind = default_dtype(owner, letter) if letter in tuple("bifc") else dtypes.dtype(host.dtype)
        if letter == "i" and host.dtype.kind == "u":
            kind = dtypes.uint64
    else:
        kind = dtypes.dtype(dtype)
    kind = _dtype(owner, kind)
    with np.errstate(all="ignore"):
        return owner.from_numpy(host.astype(kind.numpy, copy=False))  # type: ignore[no-any-return]


def _from_ours(x: Any, dtype: Any, device: Any, copy: bool | None) -> Array:
    target = x.device if device is None else device_for(device)
    kind = x.dtype if dtype is None else dtypes.dtype(dtype)
    moved, changed = target is not x.device, kind is not x.dtype
    if copy is False and (moved or changed):
        raise ValueError("asarray with copy=False cannot change the dtype or the device")
    if moved:
        x = x.to_device(target)
    if changed:
        return astype(x, kind)
    return copied(x) if copy and not moved else x


def _on_host(obj: Any) -> np.ndarray[Any, Any]:
    if isinstance(obj, np.ndarray):
        return obj
    if hasattr(obj, "__dlpack__"):
        return _from_dlpack(obj)
    if isinstance(obj, list | tuple):
        obj = _plain(obj)
    found = np.asarray(obj)
    if found.dtype == object:
        raise DTypeError(
            f"asarray of {type(obj).__name__} holds things that are no numbers in range"
        )
    return found


def _plain(items: Any) -> Any:
    """A nested sequence with the arrays in it brought to the host."""
    if isinstance(items, list | tuple):
        return [_plain(item) for item in items]
    return items.device.to_numpy(items) if isinstance(items, Storage) else items


def _from_dlpack(obj: Any) -> np.ndarray[Any, Any]:
    from portable.namespace import to_numpy

    try:
        return np.from_dlpack(obj)
    except (BufferError, RuntimeError, TypeError, ValueError):
        return to_numpy(obj)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array of a library that offers DLPack, copied to the device through the host.

    Raises
    ------
    BufferError
        If `copy` is False, since memory of other libraries is not shared.
    """
    if isinstance(x, Storage):
        return _from_ours(x, None, device, copy)
    if copy is False:
        raise BufferError("from_dlpack copies to the device; leave out copy=False")
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"{type(x).__name__} offers no __dlpack__; use asarray")
    return asarray(x, device=device)
