"""Python numbers as kernels take them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from portable.dtypes import DType

__all__ = ["number_for"]

_WIDE_ENOUGH: Final = 4


def number_for(x: Any, kind: DType) -> Any:
    """A Python number as a kernel's argument: rounded to `kind`, in its register type."""
    if kind.kind == "f" and not isinstance(x, float):
        x = float(x)
    with np.errstate(over="ignore"):
        try:
            stored = kind.numpy.type(x)
        except OverflowError:
            raise OverflowError(f"the Python integer {x} is out of range for {kind.name}") from None
        if kind.itemsize >= _WIDE_ENOUGH or kind.kind == "b":
            return stored
        return kind.register.numpy.type(stored)
