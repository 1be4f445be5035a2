"""The Array API, version 2025.12, built from the kernel language.

Arrays of any device that runs kernels and has no array library of its own; `portable.xp` gives this
namespace with creation functions bound to a device. Beyond the standard there are ``float16``,
NumPy's methods (``x.sum(axis=0)``, ``x.reshape(2, -1)``), and NumPy's promotion between kinds:
int32 with float32 gives float64, ``x / 2`` of integers gives floats, bools count as 0 and 1. Where
a device has no double precision, single stands for it. Only int64 with uint64 is refused.

Functions whose result's shape depends on the elements (`nonzero`, `unique_values` and its kin,
`repeat` by an array, boolean masks) wait for the device, and so does indexing by arrays of
integers, to learn whether all are in range. `linalg.eig` and `linalg.eigvals` go through the host.
"""

# ruff: noqa: A004, F403, N811  (the standard names functions as Python names its own; the
# modules say in their __all__ which of theirs these are)

import math
import sys
from types import ModuleType
from typing import Any

from portable import dtypes as _dtypes
from portable.absent_names import absent
from portable.array import creation, data_types, fft, linalg, sets
from portable.array.array import Array
from portable.array.base.conversion import VERSION as __array_api_version__
from portable.array.creation import *
from portable.array.data_types import *
from portable.array.functions import (
    elementwise,
    joining,
    manipulation,
    products,
    running_totals,
    searching,
    statistics,
)
from portable.array.functions.elementwise import *
from portable.array.functions.joining import *
from portable.array.functions.manipulation import *
from portable.array.functions.products import *
from portable.array.functions.running_totals import *
from portable.array.functions.searching import *
from portable.array.functions.statistics import *
from portable.array.methods.numpy_methods import implements
from portable.array.sets import *
from portable.dtypes import *
from portable.dtypes import bool_ as bool

e = math.e
inf = math.inf
nan = math.nan
pi = math.pi
newaxis = None

__all__ = [
    "Array",
    "__array_api_version__",
    "bool",
    "e",
    "fft",
    "implements",
    "inf",
    "linalg",
    "nan",
    "newaxis",
    "pi",
]
__all__ += _dtypes.__all__ + creation.__all__ + data_types.__all__ + sets.__all__
__all__ += elementwise.__all__ + joining.__all__ + manipulation.__all__ + products.__all__
__all__ += running_totals.__all__ + searching.__all__ + statistics.__all__


def __getattr__(name: str) -> Any:
    """What is not there is looked for by its NumPy name, to say what it is called here."""
    if name.startswith("_"):
        raise AttributeError(f"module 'portable.array' has no attribute {name!r}")
    raise absent(sys.modules[__name__], name)


class _Namespace(ModuleType):
    """A module that is often taken for NumPy's function."""

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Says what makes an array."""
        raise TypeError(
            "portable.array is a namespace; portable.asarray(x), or portable.xp().asarray(x) of "
            "the device in use, makes an array"
        )


sys.modules[__name__].__class__ = _Namespace


# Imports find the module of arrays all the same; the error for NumPy's `array` names `asarray`.
globals().pop("array")
