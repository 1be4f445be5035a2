"""What sparse matrices ask of the library that their arrays are of."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace
from array_api_compat import device as device_of_library

__all__ = ["ascends", "like", "namespace_of"]


def namespace_of(*arrays: Any) -> Any:
    """The namespace of arrays; TypeError where there are two."""
    return array_namespace(*arrays)


def like(xp: Any, x: Any, values: Any, dtype: Any) -> Any:
    """A host's values as an array of the library, on the device of `x`."""
    return xp.asarray(values, dtype=dtype, device=device_of_library(x))


def ascends(xp: Any, x: Any) -> bool:
    """Whether no element is less than the one before it; waits for the device."""
    return bool(xp.all(x[1:] >= x[:-1]))
