"""Arguments of a launch, packed as drivers of GPUs take them."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

from portable.backend.program import Argument
from portable_backends.common.tensor_maps import BOXES_BYTES

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
