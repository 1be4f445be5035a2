"""Type promotion, by the Array API's table and, between kinds, by NumPy's.

The standard leaves open what bools, integers and floats give together. Here they give what NumPy's
arrays give, so that code means the same on every device: int32 and float32 give float64, and single
precision where a device has no double. Only int64 with uint64, of which NumPy makes lossy floats,
is refused.
"""

from __future__ import annotations

from functools import cache
from math import inf
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from portable import dtypes
from portable import lang as kl
from portable.dtypes import DType, complex64, complex128, float16, float32, float64, int64, uint64
from portable.errors import DTypeError

if TYPE_CHECKING:
    from portable.backend import Device

# Python numbers as kernels take them, and the ends of the dtypes' ranges.

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


# NumPy's ufuncs as operations: each stands for the function of kernels that does the same.

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


# Type promotion, by the Array API's table and, between kinds, by NumPy's.

KINDS: Final[dict[str, str]] = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}
"""The kinds that `isdtype` knows, as the letters of `portable.dtypes.DType.kind`."""


@cache
def promoted(*kinds: DType) -> DType:
    """The dtype that arrays of these dtypes give together.

    Raises
    ------
    DTypeError
        For signed integers with uint64.
    """
    result = kinds[0]
    for kind in kinds[1:]:
        result = _pair(result, kind)
    return result


def _pair(x: DType, y: DType) -> DType:
    if x is y:
        return x
    if x.kind in "fc" and y.kind in "fc":
        return _floating(x, y)
    if x.kind == y.kind:
        return max(x, y, key=lambda d: d.itemsize)
    if not (x.is_integer and y.is_integer):
        return dtypes.dtype(np.promote_types(x.numpy, y.numpy))
    signed, unsigned = (x, y) if x.kind == "i" else (y, x)
    if signed.itemsize > unsigned.itemsize:
        return signed
    if unsigned.itemsize < 8:
        return dtypes.dtype(f"int{2 * unsigned.bits}")
    raise DTypeError(f"{x.name} and {y.name} have no common dtype; convert one of them with astype")


def _floating(x: DType, y: DType) -> DType:
    real = max(x.real, y.real, key=lambda d: d.itemsize)
    if x.kind == "f" and y.kind == "f":
        return real
    return complex128 if real is float64 else complex64


def kind_of(scalar: object) -> str:
    """The kind letter of a Python number."""
    if isinstance(scalar, bool):
        return "b"
    if isinstance(scalar, int):
        return "i"
    return "f" if isinstance(scalar, float) else "c"


@cache
def with_scalar(kind: DType, letter: str) -> DType:
    """The dtype that an array and a Python number of a kind give together.

    That of the array, unless the number is of a higher kind.
    """
    if kind.kind in {"b": "biufc", "i": "iufc", "f": "fc", "c": "c"}[letter]:
        return kind
    if letter == "c" and kind.kind == "f":
        return complex128 if kind is float64 else complex64
    return {"i": int64, "f": float64, "c": complex128}[letter]


def promoted_on(device: Device, *kinds: DType) -> DType:
    """The dtype that arrays of these dtypes give together on a device.

    Raises
    ------
    DTypeError
        As `promoted`.
    """
    common = promoted(*kinds)
    return common if device.capabilities.float64 else in_single(common)


def in_single(kind: DType) -> DType:
    """What stands for a dtype on devices without double precision."""
    return {float64: float32, complex128: complex64}.get(kind, kind)


def accumulator(kind: DType) -> DType:
    """The dtype that totals of numbers of a dtype are kept in, in registers and in memory."""
    if kind.kind in "fc":
        return float32 if kind is float16 else kind
    return int64 if kind.kind == "i" else uint64
