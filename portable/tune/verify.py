"""Compares results with references."""

from __future__ import annotations

from math import inf, isnan
from typing import Any, Final

import numpy as np

from portable.dtypes import DType

_DIGITS: Final = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def unit_roundoff(dtype: DType) -> float:
    """Half the distance from 1 to the next number."""
    return 2.0 ** -_DIGITS[dtype.name]


def worst_error(result: np.ndarray[Any, Any], exact: Any, allowed: Any) -> float:
    """The largest error in units of what is allowed; infinite for NaN where a number should be.

    Parameters
    ----------
    result : ndarray
        A result.
    exact : array_like
        What it should be.
    allowed : array_like
        By how much it may differ.
    """
    with np.errstate(all="ignore"):
        ratios = np.abs(result - exact) / allowed
    same = (result == exact) | (np.isnan(result) & np.isnan(exact))
    worst = float(np.max(np.where(same, 0, ratios), initial=0))
    return inf if isnan(worst) else worst
