"""NumPy arrays as kernel arguments by their addresses."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from portable.backend import ArrayView, ViewCode
from portable.errors import ShapeError

__all__ = ["AddressedMemory"]

_HostArray = np.ndarray[Any, Any]
_new_view: Callable[..., ArrayView] = tuple.__new__
_WORD: Final = ctypes.sizeof(ctypes.c_size_t)
_DATA: Final = object.__basicsize__
"""Where NumPy's arrays have the address of their elements, by its stable ABI."""


def _memory_in_words() -> Any:
    """All memory as words, by their numbers; None where arrays are not laid out as expected.

    An array's own attributes make an object each, which takes ten times as long.
    """
    if _WORD != 8:
        return None
    words = (ctypes.c_size_t * (2**59)).from_address(0)
    samples = np.zeros(3, np.int16), np.zeros((2, 2)), np.frombuffer(b"abcd", np.uint8)
    for x in samples:
        if words[(id(x) + _DATA) >> 3] != _asked(x):
            return None
    return words


def _asked(array: _HostArray) -> int:
    return int(array.__array_interface__["data"][0])


class AddressedMemory:
    """For devices whose kernels take addresses of the host's memory."""

    def __init__(self) -> None:
        self._words = _memory_in_words()
        self._code = self._code_of_views()

    def view(self, array: _HostArray) -> ArrayView:
        """Describe `array`; its handle is the address of its first element."""
        flags = array.flags
        if not flags.aligned:
            raise ShapeError(
                f"a {array.dtype} array whose memory is not aligned to its elements cannot be "
                "passed to a kernel; pass a copy (x.copy())"
            )
        words = self._words
        at = words[(id(array) + _DATA) >> 3] if words is not None else _asked(array)
        # Past the constructor, which would be a third of the time that this takes.
        return _new_view(
            ArrayView,
            (array.dtype, array.shape, array.strides, at, at, 0, None, flags.writeable, None),
        )

    def behind(self, handle: Any, by: int) -> Any:
        """A later address."""
        return handle + by

    def view_code(self, array: _HostArray) -> ViewCode | None:
        """How compiled code sees arrays like this one, if it can be written to."""
        flags = array.flags
        if type(array) is not np.ndarray or not (flags.aligned and flags.writeable):
            return None
        return self._code

    def _code_of_views(self) -> ViewCode:
        # Launches compare where arrays begin modulo 16, by which they are aligned as the first was.
        same = (
            "{x}.dtype is {x}_dtype and {x}.shape == {x}_shape and {x}.strides == {x}_strides "
            "and {x}.flags.writeable"
        )
        handle = "asked({x})"
        if self._words is not None:
            handle = f"words[(id({{x}}) + {_DATA}) >> 3]"
        return ViewCode(
            np.ndarray,
            same=same,
            handle=handle,
            address="{x}_handle",
            offset="0",
            owner="None",
            names={"words": self._words, "asked": _asked},
        )
