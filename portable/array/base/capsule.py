"""DLPack's capsules of memory that no library of the host exports: buffers of OpenCL."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from itertools import count
from typing import Any, Final

from portable.dtypes import DType

_VERSION: Final = (1, 0)
_CODES: Final = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_NARROW: Final = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}


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
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    """``DLManagedTensor``, with what it calls when nobody needs the memory any more."""

    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))


class _Versioned(ctypes.Structure):
    """``DLManagedTensorVersioned``, of DLPack 1.0 and later."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_lent: Final[dict[int, tuple[Any, ...]]] = {}
"""What must outlive a capsule or who took it over, by the number that is the capsule's context."""
_numbers: Final[Iterator[int]] = count(1)

_new: Any = ctypes.pythonapi.PyCapsule_New
_new.restype = ctypes.py_object
_new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_valid: Any = ctypes.pythonapi.PyCapsule_IsValid
_valid.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
_pointer: Any = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = (ctypes.c_void_p, ctypes.c_char_p)


def _deleter(structure: Any) -> Any:
    def forget(address: int) -> None:
        _lent.pop(structure.from_address(address).context, None)

    return _Deleter(forget)


def _destructor(name: bytes, forget: Any) -> Any:
    def destroy(capsule: int) -> None:
        if _valid(capsule, name):  # nobody took it over, which would have renamed it
            forget(_pointer(capsule, name))

    return ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(destroy)


_Structure = type[_Managed] | type[_Versioned]
_NAMES: Final[dict[_Structure, bytes]] = {
    _Managed: b"dltensor",
    _Versioned: b"dltensor_versioned",
}
_FORGET: Final = {kind: _deleter(kind) for kind in _NAMES}
_DESTROY: Final = {kind: _destructor(name, _FORGET[kind]) for kind, name in _NAMES.items()}


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
    many = ctypes.c_int64 * max(1, len(shape))
    held = many(*shape), many(*(x // dtype.itemsize for x in strides))
    code = _NARROW[dtype.name] if dtype.name in _NARROW else _CODES[dtype.numpy.kind]
    tensor = _Tensor(
        address, *device, len(shape), code, 8 * dtype.itemsize, 1, *held, byte_offset=offset
    )
    number = next(_numbers)
    made: _Managed | _Versioned
    if max_version is not None and max_version[0] >= _VERSION[0]:
        made = _Versioned(*_VERSION, number, _FORGET[_Versioned], 0, tensor)
    else:
        made = _Managed(tensor, number, _FORGET[_Managed])
    _lent[number] = (owner, held, made)
    structure: _Structure = type(made)
    destroy = ctypes.cast(_DESTROY[structure], ctypes.c_void_p)
    return _new(ctypes.addressof(made), _NAMES[structure], destroy)
