"""What new arrays are where a user does not say: their device, dtype and shape."""

from __future__ import annotations

from functools import cache
from typing import Any

from portable import dtypes, registry
from portable.backend import Device
from portable.dtypes import DType, complex64, float32
from portable.errors import UnsupportedError
from portable.primitives.base.geometry import whole_numbers


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
