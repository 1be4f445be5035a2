"""Arrays to what is no array: text, Python numbers, DLPack, other devices."""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType
from typing import Any, Final

import numpy as np

from portable import recording, registry
from portable.backend import Device
from portable.dtypes import DType
from portable.primitives.base.storage import Storage
from portable.profiling import reports
from portable.system.console import html

VERSION: Final = "2025.12"
_VERSIONS: Final = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
_HOST: Final = 1
_OPENCL: Final = 4
_SHOWN: Final = 1000
_EDGE: Final = 3


def _held(x: Storage) -> np.ndarray[Any, Any]:
    """The elements in NumPy's array, once all earlier work is done."""
    host = x.device.to_numpy(x)
    reports.raise_reported(x.device)
    return host


def namespace(api_version: str | None) -> ModuleType:
    """`portable.array`, which is of all versions.

    Later versions add to earlier ones, but for tuples where there were lists, which those who
    unpack them, index them or loop over them do not see.

    Raises
    ------
    ValueError
        For a version of the standard that it does not follow.
    """
    if api_version is not None and api_version not in _VERSIONS:
        raise ValueError(
            f"Array API {api_version!r} is not known here; these are: {', '.join(_VERSIONS)}"
        )
    return sys.modules["portable.array"]  # the package that this module is of


def to_device(x: Storage, device: Any, stream: Any = None) -> Any:
    """`x` on another device, through the host.

    Parameters
    ----------
    x : Array
        What to copy.
    device : Device or str
        Where to, or ``"cpu"`` for the host.
    stream : object
        None: the queue in use.
    """
    _check_stream(stream)
    target = registry.device(device)
    if target is x.device:
        return x
    host = _held(x)
    return recording.through_host(host if target.owns(host) else target.from_numpy(host), x)


def _check_stream(stream: Any) -> None:
    if stream is not None:
        raise ValueError(
            "stream is not supported here: pass None, and choose one by `with portable.Stream():`"
        )


def item(x: Storage, word: str) -> Any:
    """The one element as a Python number; waits for the device.

    Raises
    ------
    TypeError
        If there are dimensions, but for the truth of one element, or a complex number is to
        become a real one.
    """
    if x.shape and not (word == "bool" and x.size == 1):
        how = "; x.any() or x.all() says of all" if word == "bool" else ""
        raise TypeError(
            f"{word}(x) takes an array without dimensions, not one of shape {x.shape}{how}"
        )
    if x.dtype.is_complex and word in ("int", "float"):
        raise TypeError(f"{word}(x) of a complex number; take real(x) or abs(x)")
    return _held(x).item()


def text(x: Storage) -> str:
    """The elements as NumPy prints them, the dtype and the device; waits for the device."""
    shown = elements(x, separator=", ", prefix="Array(")
    shape = "" if 0 < x.size <= _SHOWN else f"shape={x.shape}, "
    return f"Array({shown}, {shape}dtype={x.dtype.name}, device={x.device.name})"


def elements(x: Storage, **options: Any) -> str:
    """The elements alone, by the options of `numpy.array2string`; waits for the device.

    Of more than `_SHOWN` the outer ones stand for all, and no others are read.
    """
    whole = x.size <= _SHOWN
    host = _held(x) if whole else _outer_parts(x, 0)
    return np.array2string(host, threshold=_SHOWN if whole else 0, edgeitems=_EDGE, **options)


class Elsewhere:
    """What other libraries' arrays have, and ours lack.

    Parameters
    ----------
    instead : str
        What does it here.
    """

    def __init__(self, instead: str) -> None:
        self._instead = instead

    def __get__(self, x: Any, kind: Any = None) -> Any:
        raise AttributeError(f"no such attribute; {self._instead}")


def in_html(x: Storage) -> str:
    """Its dtype, shape and device, and its elements below; waits for the device."""
    title = f"{x.dtype.name} array of shape {x.shape} on {x.device.name}"
    return html(title, text(x).removeprefix("Array(").rpartition("dtype=")[0].rstrip(", "))


def _outer_parts(x: Storage, axis: int) -> np.ndarray[Any, Any]:
    """The elements that NumPy prints of many, and one more along each axis from here on."""
    if axis == x.ndim:
        return _held(x)
    if x.shape[axis] <= 2 * _EDGE:
        return _outer_parts(x, axis + 1)
    first, last = (
        _outer_parts(x.part((slice(None),) * axis + (part,)), axis + 1)
        for part in (slice(_EDGE + 1), slice(-_EDGE, None))
    )
    return np.concatenate((first, last), axis)


def restored(device: Device, host: np.ndarray[Any, Any]) -> Any:
    """The array of which a device's name and the elements were pickled."""
    return device.from_numpy(host)


def dlpack(
    x: Storage,
    stream: Any,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    """The memory itself, or a copy on the host for those who ask for one.

    Parameters
    ----------
    x : Storage
        The array.
    stream : object
        None: the queue in use.
    max_version : tuple of int or None
        The newest version that the caller knows.
    dl_device : tuple of int or None
        Where the memory is wanted, in the words of DLPack; None: where it is.
    copy : bool or None
        Whether a copy is wanted; None: where it is needed.

    Raises
    ------
    BufferError
        Where the device's memory is not the host's and a copy was ruled out, and for memory of
        another kind than the device's and the host's.
    """
    _check_stream(stream)
    here = dlpack_device(x)
    wanted = here if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
    if wanted[0] != _HOST and wanted != here:
        raise BufferError(
            f"{x.device.name} gives memory of the host ({_HOST}) or of its own ({here[0]}), not of "
            f"DLPack's kind {wanted[0]}"
        )
    if wanted[0] != _HOST:
        own = x.device.from_numpy(_held(x)) if copy else x
        return _capsule_on_device(own, here, max_version)
    host = None if copy else x.device.shared(x)
    if host is None and copy is False:
        raise BufferError(
            f"the memory of {x.device.name} is not shared; ask for a copy on the host with "
            "from_dlpack(x, device='cpu', copy=True), or take portable.to_numpy(x)"
        )
    held = _held(x) if host is None else host
    return held.__dlpack__(max_version=max_version)


def _capsule_on_device(x: Storage, here: tuple[int, int], max_version: Any) -> Any:
    """OpenCL's memory, once the work on it is done: other libraries have queues of their own."""
    x.device.synchronize()
    reports.raise_reported(x.device)
    handle = getattr(x.buffer, "int_ptr", 0)
    return capsule(handle, x.dtype, (x.shape, x.strides), x.offset, here, x.buffer, max_version)


def dlpack_device(x: Storage) -> tuple[int, int]:
    """DLPack's number for host or OpenCL memory, and which of the devices it is."""
    nothing = x.viewed((0,), (x.dtype.itemsize,))  # for which no device waits
    if x.device.shared(nothing) is not None:
        return _HOST, 0
    devices = registry.devices_of_backend(x.device.backend)
    return _OPENCL, devices.index(x.device) if x.device in devices else 0


# -- capsules --------------------------------------------------------------------------------------

# DLPack's capsules of memory that no library of the host exports: buffers of OpenCL.
#
# NumPy makes a capsule of memory at any address, keeps its owner alive, and lets go of it by
# compiled code, which may run at any time. Only what the capsule says of the memory is written over
# here.

_NARROW: Final = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}
"""DLPack's codes of types that NumPy does not export."""
_BITS: Final = {1: "|u1", 2: "<u2"}


class _Tensor(ctypes.Structure):
    """``DLTensor``: what of the memory is meant."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


_BEGINS: Final = {b"dltensor": 0, b"dltensor_versioned": 32}
"""Bytes before the tensor: a version, a context, a deleter and flags."""

# Functions of this module's own: those of `ctypes.pythonapi` take what others said last.
_NAME: Final = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_POINTER: Final = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class _Owned:
    """Memory as NumPy takes it, without looking at it, and whose it is."""

    def __init__(self, owner: object, interface: dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = interface


def capsule(
    address: int,
    dtype: DType,
    extents: tuple[tuple[int, ...], tuple[int, ...]],
    offset: int,
    device: tuple[int, int],
    owner: object,
    max_version: tuple[int, int] | None,
) -> Any:
    """A capsule by which another library takes memory over, as DLPack has it.

    Parameters
    ----------
    address : int
        Of the memory; OpenCL's handle of it.
    dtype : DType
        Of the elements.
    extents : (tuple of int, tuple of int)
        The shape, and the bytes between neighbours.
    offset : int
        Bytes to the first element.
    device : (int, int)
        DLPack's kind of memory, and which of its devices.
    owner : object
        Lives for as long as somebody has the memory.
    max_version : tuple of int or None
        The newest version that the caller knows.
    """
    shape, strides = extents
    code = _NARROW.get(dtype.name)
    elements = dtype.numpy.str if code is None else _BITS[dtype.itemsize]
    memory = {"version": 3, "data": (address, False), "typestr": elements}
    owned = _Owned(owner, {**memory, "shape": shape, "strides": strides})
    made = np.asarray(owned).__dlpack__(max_version=max_version)
    name = _NAME(made)
    tensor = _Tensor.from_address(_POINTER(made, name) + _BEGINS[name])
    tensor.data, tensor.byte_offset = address, offset
    tensor.device_type, tensor.device_id = device
    if code is not None:
        tensor.code = code
    return made
