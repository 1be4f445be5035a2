"""Other libraries' arrays, by the DLPack protocol."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable.interchange.tensors import is_tensor, place_of


def device_type(array: Any) -> int:
    """DLPack's number for the kind of memory that `array` lies in; 0 if it does not say."""
    if is_tensor(array):
        return (place_of(array) or (0, 0))[0]
    ask = getattr(array, "__dlpack_device__", None)
    return int(ask()[0]) if ask is not None else 0


def to_numpy_view(array: Any) -> np.ndarray[Any, Any]:
    """A NumPy array over the same host memory, read-only where the producer says so.

    NumPy takes memory described by the protocol's first version, which cannot say so, for
    read-only. PyTorch's tensors are always writable.
    """
    if type(array).__module__.partition(".")[0] == "torch":
        return array.numpy()  # type: ignore[no-any-return]
    return np.from_dlpack(array)
