"""JAX's arrays by its functions in C++, several times faster than by those in Python.

Nothing here imports JAX: where there is an array of it, it has been imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from portable.interchange.tensors import is_tensor

_UNCHANGED: Final = frozenset({"float32", "float16", "int32", "uint32", "complex64", "bool"})
"""Dtypes that JAX has whether or not it is told to keep 64 bits."""


def function_of(array: Any, name: str) -> Callable[..., Any] | None:
    """What JAX's functions for DLPack come to in C++; None for arrays of others."""
    kind = type(array)
    if kind.__name__ != "ArrayImpl":
        return None
    return getattr(sys.modules[kind.__module__], name, None)


def is_recognised(x: Any) -> bool:
    """Whether compiled code sees it in the memory of a GPU: one of PyTorch's tensors, or JAX's."""
    if is_tensor(x):
        return bool(x.is_cuda)
    kind = type(x)
    return kind.__name__ == "ArrayImpl" and hasattr(x, "platform") and x.platform() == "gpu"


def giver_like(sample: Any, dtype: str) -> Callable[[Any], Any] | None:
    """What makes arrays like one of JAX's of a GPU's arrays of a dtype; None for others.

    They are not to be read before what was enqueued on the GPU library's own queue is done.
    """
    take = function_of(sample, "dlpack_managed_tensor_to_buffer")
    if take is None or dtype not in _UNCHANGED or sample.platform() != "gpu":
        return None
    (device,) = sample.devices()
    return partial(_given, take, device)


def _given(take: Callable[..., Any], device: Any, array: Any) -> Any:
    stream = device.get_stream_for_external_ready_events()
    return take(array.__dlpack__(stream=stream), device, stream)
