"""Where NumPy's arrays lie.

An array's own attributes make an object each, which takes ten times as long as to look where all of
them have the address.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np

from portable.errors import ShapeError

HostArray = np.ndarray[Any, Any]

WORD_BYTES: Final = ctypes.sizeof(ctypes.c_size_t)
DATA: Final = object.__basicsize__
"""Where NumPy's arrays have the address of their elements, by its stable ABI."""


def _memory_in_words() -> Any:
    """All memory as words, by their numbers; None where arrays are not laid out as expected."""
    if WORD_BYTES != 8:
        return None
    words = (ctypes.c_size_t * (2**59)).from_address(0)
    samples = np.zeros(3, np.int16), np.zeros((2, 2)), np.frombuffer(b"abcd", np.uint8)
    for x in samples:
        if words[(id(x) + DATA) >> 3] != x.__array_interface__["data"][0]:
            return None
    return words


WORDS: Final = _memory_in_words()


def address_of(array: HostArray) -> int:
    """Where an array's first element is."""
    if WORDS is None:
        return int(array.__array_interface__["data"][0])
    return WORDS[(id(array) + DATA) >> 3]  # type: ignore[no-any-return]


def refuse_unaligned(array: HostArray) -> None:
    """Kernels cannot read an array between two of its elements' places."""
    raise ShapeError(
        f"a {array.dtype} array whose memory is not aligned to its elements cannot be passed "
        "to a kernel; pass a copy (x.copy())"
    )
