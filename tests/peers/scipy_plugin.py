"""A plugin of pytest that gives SciPy's own tests the arrays of `portable.array`.

They take the place of array-api-strict, since SciPy's tests have a list of the libraries that they
know. As with that library ``np.asarray(x)`` copies to the host here, for assertions and for what
SciPy has compiled for the processor.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import numpy as np
import numpy.testing

import portable.array as arrays
from portable import to_numpy
from portable.array import Array
from portable.array.data_types import Information

_ASSERTIONS: Final = (
    "assert_allclose",
    "assert_almost_equal",
    "assert_array_almost_equal",
    "assert_array_equal",
    "assert_array_less",
    "assert_equal",
)


def _on_host(x: Any) -> Any:
    if isinstance(x, tuple | list):
        return type(x)(map(_on_host, x)) if type(x) in (tuple, list) else x
    return to_numpy(x) if isinstance(x, Array) else x


def _of_host(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        return function(*map(_on_host, args), **{k: _on_host(v) for k, v in kwargs.items()})

    return checked


def _stand_in() -> None:
    """`portable.array` under the name that SciPy's tests know, with what they set of it."""
    arrays.__version__ = "2.3.1"  # type: ignore[attr-defined]  (of array-api-strict)
    arrays.set_array_api_strict_flags = lambda **_: None  # type: ignore[attr-defined]
    given = Information.devices  # SciPy 1.17 asks for a list, which versions before 2025.12 give
    Information.devices = lambda self: list(given(self))  # type: ignore[method-assign]
    Array.__array__ = lambda x, dtype=None, copy=None: to_numpy(x).astype(dtype or x.dtype.numpy)  # type: ignore[method-assign,assignment]
    arrays.Device = lambda _: None  # type: ignore[attr-defined]
    sys.modules["array_api_strict"] = arrays


def pytest_configure() -> None:
    """Before SciPy's tests are imported."""
    for name in _ASSERTIONS:
        setattr(np.testing, name, _of_host(getattr(np.testing, name)))
    from scipy._lib import _array_api

    copy = _array_api._xp_copy_to_numpy
    _array_api._xp_copy_to_numpy = lambda x: to_numpy(x) if isinstance(x, Array) else copy(x)


_stand_in()  # SciPy looks for the library when it is imported
