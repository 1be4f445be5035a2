"""What new arrays are where a user does not say: their device, dtype and shape."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from portable import dtypes, recording, registry
from portable.backend import Device
from portable.dtypes import DType, complex64, float32
from portable.errors import DTypeError, UnsupportedError
from portable.namespace import to_numpy
from portable.primitives.base.operands import in_single, kind_of, whole_numbers
from portable.primitives.base.storage import Storage
from portable.primitives.maps.work import common_type


def device_for(device: Any) -> Device:
    """The device that creation functions use.

    None means the one in use if its arrays are of this kind, else the first found whose are.
    """
    chosen = registry.device(device)
    chosen_device = _ours_of(chosen)
    if chosen_device is not None:
        return chosen_device
    if device is not None:
        name = chosen.for_arrays().name
        raise UnsupportedError(f"{name} has arrays of its own; use portable.xp({name!r}) for them")
    return _first_found()


@cache
def _ours_of(device: Device) -> Device | None:
    """The device for arrays of `portable.array`, if it has such."""
    provided = device.for_arrays()
    return provided if is_ours(provided) else None


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


def dtype_for(device: Device, given: Any, letter: str = "f") -> DType:
    """A dtype that a user gave, or the device's default for a kind of numbers.

    Parameters
    ----------
    device : Device
        Where the array is to be.
    given : dtype or None
        What the user gave.
    letter : str
        The kind, as of `portable.dtypes.DType.kind`.

    Raises
    ------
    UnsupportedError
        If the device lacks it.
    """
    if given is None:
        return default_dtype(device, letter)
    kind = dtypes.dtype(given)
    if kind.real is dtypes.float64 and not device.capabilities.float64:
        raise UnsupportedError(
            f"{device.name} lacks double precision, so it has no {kind.name} arrays; use "
            "float32 or complex64"
        )
    return kind


def shape_of(shape: Any) -> tuple[int, ...]:
    """A shape that a user gave; ValueError for negative extents."""
    extents = whole_numbers(shape)
    if any(n < 0 for n in extents):
        raise ValueError(f"a shape has no negative extents: {extents}")
    return extents


# Numbers that users have on the host, or in arrays of other libraries, as arrays of a device.


def number_of(x: Any) -> Any:
    """The Python number that a NumPy scalar or an array without dimensions stands for."""
    if isinstance(x, Storage):
        x = x.device.to_numpy(x)
    return x.item() if isinstance(x, np.generic | np.ndarray) else x


def beside(x: Any, other: Storage) -> Any:
    """A number or sequence as an array on the device of another; anything else as it is.

    Parameters
    ----------
    x : number, sequence or Array
        What a user gave.
    other : Storage
        Which a number takes its dtype from, as beside it in an operation.

    Raises
    ------
    OverflowError
        For integers that the dtype does not hold.
    """
    if isinstance(x, list | tuple | np.generic):
        return from_host(x, other.device)
    if not isinstance(x, int | float | complex):
        return x
    kind = common_type((other.dtype, kind_of(x)))
    double = other.device.capabilities.float64
    return from_host(x, other.device, kind if double else in_single(kind))


def from_host(obj: Any, device: Device, dtype: Any = None) -> Any:
    """Numbers that are in no array of ours, as an array of a device.

    Parameters
    ----------
    obj : array, sequence or number
        An array of any library, a nested sequence, or a number.
    device : Device
        Where to.
    dtype : dtype, optional
        Of the result; by default that of an array, and the device's default for Python's numbers.

    Raises
    ------
    OverflowError
        For integers that the dtype does not hold.
    DTypeError
        For what is no number, and complex numbers as real ones.
    """
    host = _on_host(obj, None if dtype is None else dtypes.dtype(dtype))
    typed = isinstance(obj, np.ndarray | np.generic) or hasattr(obj, "__dlpack__")
    if dtype is not None:
        kind = dtype_for(device, dtype)
    else:
        kind = dtypes.dtype(host.dtype)
        wide = kind.real is dtypes.float64 and not typed
        kind = default_dtype(device, kind.kind) if wide else dtype_for(device, kind)
    made = device.from_numpy(_converted(host, kind, None if typed else obj))
    return recording.through_host(made, *_arrays_in(obj)) if recording.active else made


def _arrays_in(x: Any) -> Iterator[Any]:
    """The arrays in nested sequences."""
    if isinstance(x, list | tuple):
        for item in x:
            yield from _arrays_in(item)
    elif isinstance(x, np.ndarray | Storage):
        yield x


def _on_host(obj: Any, wanted: DType | None) -> np.ndarray[Any, Any]:
    if isinstance(obj, np.ndarray):
        return obj
    if hasattr(obj, "__dlpack__"):
        return _from_dlpack(obj)
    try:
        values = np.asarray(obj)
    except TypeError:  # arrays in a sequence, which are not copied to the host unasked
        values = np.asarray(_plain(obj))
    return _of_numbers(values, wanted) if values.dtype == object else values


def _converted(host: np.ndarray[Any, Any], kind: DType, python: Any) -> np.ndarray[Any, Any]:
    """An array on the host in another dtype; Python's integers may not be out of range."""
    if host.dtype.kind == "c" and kind.kind in "iuf":
        raise DTypeError(f"asarray of complex numbers as {kind.name}; take their real parts")
    if python is not None and kind.is_integer and host.dtype != kind.numpy:
        return np.asarray(_plain(python), dtype=kind.numpy)
    with np.errstate(all="ignore"):
        return host.astype(kind.numpy, copy=False)


def _of_numbers(numbers: np.ndarray[Any, Any], wanted: DType | None) -> np.ndarray[Any, Any]:
    """Python's numbers, of which NumPy makes no dtype since an integer is too large for any."""
    for x in numbers.flat:
        if not isinstance(x, int | float | complex):
            raise DTypeError(f"asarray of {x!r}, which is no number")
    letters = {kind_of(x) for x in numbers.flat} | ({wanted.kind} if wanted else set())
    if not letters & {"f", "c"}:
        raise OverflowError("asarray of an integer out of range for 64 bits; name a float's dtype")
    return numbers.astype(np.complex128 if "c" in letters else np.float64)


def _plain(items: Any) -> Any:
    """A nested sequence with the arrays in it brought to the host."""
    if isinstance(items, list | tuple):
        return [_plain(item) for item in items]
    return items.device.to_numpy(items) if isinstance(items, Storage) else items


def _from_dlpack(obj: Any) -> np.ndarray[Any, Any]:
    try:
        return np.from_dlpack(obj)
    except (BufferError, RuntimeError, TypeError, ValueError):
        return to_numpy(obj)
