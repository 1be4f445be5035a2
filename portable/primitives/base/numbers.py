"""Python numbers as kernels take them, and the ends of the dtypes' ranges."""

from __future__ import annotations

from math import inf
from typing import Any, Final

import numpy as np

from portable.dtypes import DType

_WIDE_ENOUGH: Final = 4
_SMALL: Final = 6e4
"""No float overflows below."""


def number_for(x: Any, kind: DType) -> Any:
    """A Python number as a kernel's argument: rounded to `kind`, in its register type."""
    if kind.kind == "f" and not isinstance(x, float):
        x = float(x)
    if abs(x) < _SMALL:
        stored = _rounded(x, kind)
    else:
        with np.errstate(over="ignore"):
            stored = _rounded(x, kind)
    if kind.itemsize >= _WIDE_ENOUGH or kind.kind == "b":
        return stored
    return kind.register.numpy.type(stored)


def _rounded(x: Any, kind: DType) -> Any:
    try:
        return kind.numpy.type(x)
    except OverflowError:
        raise OverflowError(f"the Python integer {x} is out of range for {kind.name}") from None


def lowest(kind: DType) -> float:
    """The number of a real dtype that is below all others: of floats -inf."""
    return -inf if kind.is_float else int(np.iinfo(kind.numpy).min)


def highest(kind: DType) -> float:
    """The number of a real dtype that is above all others: of floats inf."""
    return inf if kind.is_float else int(np.iinfo(kind.numpy).max)
