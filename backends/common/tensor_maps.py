"""Arrays as NVIDIA's copy engine is told of them, since Hopper: tensor maps, made by the driver."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache as kept_in_process
from functools import lru_cache
from typing import Any, Final

from portable.backend.program import Argument
from portable.errors import LaunchError

BOXES_BYTES: Final = 128
"""Of ``CUtensorMap``, which the driver writes at a multiple of half as many."""

_TYPES: Final = {
    "uint8": 0,
    "int8": 0,
    "uint16": 1,
    "uint32": 2,
    "int32": 3,
    "uint64": 4,
    "int64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 8,
}
"""``CUtensorMapDataType``."""

_SWIZZLES: Final = {0: 0, 2: 1, 4: 2, 8: 3}
"""``CUtensorMapSwizzle`` by the number of 16-byte chunks that are turned."""

_NO_INTERLEAVE: Final = 0
_PROMOTED_TO_256_BYTES: Final = 3
_ZEROS_OUTSIDE: Final = 0
_WITHOUT_CONTEXT: Final = (3, 201)
"""Errors of a driver that was not told to begin, and where no context is current."""


def describing(
    argument: Argument, shape: tuple[int, ...], strides: tuple[int, ...]
) -> Callable[[int, int], bytes]:
    """A function from the address of an array like that, and bytes beyond it, to its tensor map.

    Parameters
    ----------
    argument : Argument
        Of kind "box".
    shape, strides : tuple of int
        Extents, and bytes between neighbours.

    Returns
    -------
    callable
        It raises `LaunchError` where the driver refuses; it keeps the latest maps.
    """
    box = argument.box
    assert box is not None
    rank = len(box.dims)
    sizes = (ctypes.c_uint64 * rank)(*(shape[d] for d in box.dims))
    outer_strides = (ctypes.c_uint64 * (rank - 1))(*(strides[d] for d in box.dims[1:]))
    spans = ((n - 1) * step + 1 for n, step in zip(box.extents, box.steps, strict=True))
    extents, steps = (ctypes.c_uint32 * rank)(*spans), (ctypes.c_uint32 * rank)(*box.steps)
    kind, swizzle = _TYPES[argument.type.name], _SWIZZLES[box.swizzle]

    @lru_cache(maxsize=256)
    def described(address: int, offset: int = 0) -> bytes:
        half = BOXES_BYTES // 2
        room = ctypes.create_string_buffer(BOXES_BYTES + half)
        start = -ctypes.addressof(room) % half
        given = (
            ctypes.addressof(room) + start, kind, rank, address + offset, sizes, outer_strides,
            extents, steps, _NO_INTERLEAVE, swizzle, _PROMOTED_TO_256_BYTES, _ZEROS_OUTSIDE,
        )  # fmt: skip
        refused = _encode()(*given)
        if refused in _WITHOUT_CONTEXT:
            with _context():
                refused = _encode()(*given)
        if refused:
            raise LaunchError(
                f"the driver refuses boxes of {box.extents} elements of an array of {shape} with "
                f"strides of {strides} bytes (error {refused})"
            )
        return room.raw[start : start + BOXES_BYTES]

    return described


@kept_in_process
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


@kept_in_process
def _own_context() -> ctypes.c_void_p:
    """The first device's, where CUDA is used for nothing else."""
    driver, device, context = _driver(), ctypes.c_int(), ctypes.c_void_p()
    driver.cuInit(0)
    driver.cuDeviceGet(ctypes.byref(device), 0)
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    return context


@contextmanager
def _context() -> Iterator[None]:
    """With a context of CUDA's, without which the driver makes no maps; OpenCL has others."""
    driver = _driver()
    driver.cuCtxPushCurrent_v2(_own_context())
    try:
        yield
    finally:
        driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))


@kept_in_process
def _encode() -> Any:
    """The driver's function."""
    function = _driver().cuTensorMapEncodeTiled
    number, pointer = ctypes.c_int, ctypes.c_void_p
    function.argtypes = [
        pointer, number, ctypes.c_uint32, pointer, pointer, pointer, pointer, pointer,
        number, number, number, number,
    ]  # fmt: skip
    return function
