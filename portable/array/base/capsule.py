"""DLPack's capsules of memory that no library of the host exports: buffers of OpenCL.

NumPy makes a capsule of memory at any address, keeps its owner alive, and lets go of it by compiled
code, which may run at any time. Only what the capsule says of the memory is written over here.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np

from portable.dtypes import DType

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
