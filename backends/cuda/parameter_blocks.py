"""Arguments of a launch, packed as drivers of GPUs take them."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Sequence
from functools import cache as kept_in_process
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

from portable.backend.program import Argument
from portable.errors import LaunchError

# Arrays as NVIDIA's copy engine is told of them, since Hopper: tensor maps, made by the driver.

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


def describing(
    argument: Argument, shape: tuple[int, ...], strides: tuple[int, ...]
) -> Callable[[int], bytes]:
    """A function from the address of an array like that to its tensor map.

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
    extents = (ctypes.c_uint32 * rank)(*box.extents)
    steps = (ctypes.c_uint32 * rank)(*[1] * rank)
    kind, swizzle = _TYPES[argument.type.name], _SWIZZLES[box.swizzle]

    @lru_cache(maxsize=256)
    def described(address: int) -> bytes:
        half = BOXES_BYTES // 2
        room = ctypes.create_string_buffer(BOXES_BYTES + half)
        start = -ctypes.addressof(room) % half
        refused = _encode()(
            ctypes.addressof(room) + start, kind, rank, address, sizes, outer_strides,
            extents, steps, _NO_INTERLEAVE, swizzle, _PROMOTED_TO_256_BYTES, _ZEROS_OUTSIDE,
        )  # fmt: skip
        if refused:
            raise LaunchError(
                f"the driver refuses boxes of {box.extents} elements of an array of {shape} with "
                f"strides of {strides} bytes (error {refused})"
            )
        return room.raw[start : start + BOXES_BYTES]

    return described


@kept_in_process
def _encode() -> Any:
    """The driver's function."""
    driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    function = driver.cuTensorMapEncodeTiled
    number, pointer = ctypes.c_int, ctypes.c_void_p
    function.argtypes = [
        pointer, number, ctypes.c_uint32, pointer, pointer, pointer, pointer, pointer,
        number, number, number, number,
    ]  # fmt: skip
    return function


# -- parameter blocks ------------------------------------------------------------------------------

_SLOT: Final = 8
_FORMATS: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
}


def _slot_format(argument: Argument) -> str:
    """How one argument is packed, padded to whole slots, which aligns the next."""
    if argument.kind == "box":
        return f"{BOXES_BYTES}s"
    letter = "Q" if argument.kind == "pointer" else _FORMATS[argument.type.name]
    return f"{letter}{_SLOT - struct.calcsize('=' + letter)}x"


class ParameterBlock:
    """Memory for a kernel's arguments, and the array of pointers to them that drivers take.

    Attributes
    ----------
    pointers : int
        Address of the array of pointers.
    """

    def __init__(self, arguments: Sequence[Argument]) -> None:
        formats = ["=" + _slot_format(a) for a in arguments]
        layout = struct.Struct("=" + "".join(text[1:] for text in formats))
        self._memory = ctypes.create_string_buffer(max(layout.size, _SLOT))
        base = ctypes.addressof(self._memory)
        places = list(accumulate(map(struct.calcsize, formats), initial=base))[:-1]
        self._table = (ctypes.c_void_p * max(len(places), 1))(*places)
        self.pointers = ctypes.addressof(self._table)
        self._pack_into = layout.pack_into

    def fill(self, values: Sequence[Any]) -> None:
        """Convert `values` to the arguments' types and store them."""
        self._pack_into(self._memory, 0, *values)

    def content(self) -> bytes:
        """The packed bytes."""
        return self._memory.raw
