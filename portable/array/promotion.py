"""Type promotion, by the Array API's table."""

from __future__ import annotations

from functools import cache
from typing import Final

from portable import dtypes
from portable.dtypes import DType, complex64, complex128, float64
from portable.errors import DTypeError

__all__ = [
    "KINDS",
    "kind_of",
    "promoted",
    "with_scalar",
]

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
        Where the standard forbids it: between bool, integers and floats, and i64 with u64.
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
    if x.is_integer and y.is_integer:
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

    Raises
    ------
    DTypeError
        If the number is of a higher kind than the array can hold.
    """
    if letter == "c" and kind.kind == "f":
        return complex128 if kind is float64 else complex64
    allowed = {"b": "b", "i": "iufc", "f": "fc", "c": "c"}[letter]
    if kind.kind in allowed:
        return kind
    word = {"b": "bool", "i": "int", "f": "float", "c": "complex"}[letter]
    raise DTypeError(
        f"a Python {word} does not combine with a {kind.name} array; convert one of them first"
    )
