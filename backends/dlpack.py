"""Other libraries' arrays, by the DLPack protocol."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["device_type", "to_numpy_view"]


def device_type(array: Any) -> int:
    """DLPack's number for the kind of memory that `array` lies in; 0 if it does not say."""
    ask = getattr(array, "__dlpack_device__", None)
    return int(ask()[0]) if ask is not None else 0


def to_numpy_view(array: Any) -> np.ndarray[Any, Any]:
    """A NumPy array over the same host memory, read-only where the producer says so.

    NumPy takes memory described by the protocol's first version, which cannot say so, for
    read-only. PyTorch's tensors are always writable.
    """
    shared = np.from_dlpack(array)
    if shared.flags.writeable or not _always_writable(array):
        return shared
    return np.asarray(_Writable(shared))


def _always_writable(array: Any) -> bool:
    return type(array).__module__.partition(".")[0] == "torch"


class _Writable:
    """Tells NumPy that an array's memory may be written, keeping it alive."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface
        self._array = array
