"""NumPy's ufuncs as operations: each stands for the function of kernels that does the same."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from portable import lang as kl
from portable.errors import DTypeError

_OTHER_NAMES: Final = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "conjugate": "conj",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "power": "pow",
    "right_shift": "bitwise_right_shift",
    "true_divide": "divide",
}
"""Of ufuncs that kernels call otherwise, and as the Array API does."""


def operation(x: Any) -> Any:
    """The function of kernels that a NumPy ufunc stands for; anything else as it is.

    Raises
    ------
    DTypeError
        For ufuncs that kernels have not.
    """
    if not isinstance(x, np.ufunc):
        return x
    word = getattr(kl, _OTHER_NAMES.get(x.__name__, x.__name__), None)
    if word is None:
        raise DTypeError(
            f"kernels have no numpy.{x.__name__}; give a function of your own that they can call"
        )
    return word
