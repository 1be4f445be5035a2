"""Signatures of kernels as text, such as ``"float, f32[:], f32[:, ::1]"``."""

from __future__ import annotations

import re
from typing import Final

from portable.dtypes import DType, dtype
from portable.errors import DTypeError, LaunchError
from portable.lang.arguments.signature import ArraySpec, ParameterSpec, ScalarSpec, StaticSpec
from portable.lang.ir.types import StrideClass

__all__ = ["fastest", "general"]

_PYTHON: Final[dict[str, ParameterSpec]] = {
    "bool": ScalarSpec("bool"),
    "int": ScalarSpec("int"),
    "float": ScalarSpec("float"),
    "complex": ScalarSpec("complex"),
    "None": StaticSpec(None),
}
_ARRAY: Final = re.compile(r"(\w+)\[([^\]]*)\]")
_MOST_BOXED: Final = 5


def fastest(text: str) -> tuple[ParameterSpec, ...]:
    """What launches with aligned, contiguous arrays specialise on.

    Raises
    ------
    LaunchError
        For text that is no signature.
    """
    return tuple(_parameter(part, fast=True) for part in _parts(text))


def general(text: str) -> tuple[ParameterSpec, ...]:
    """What serves arrays anywhere in memory, with any strides but those said to be contiguous.

    Raises
    ------
    LaunchError
        For text that is no signature.
    """
    return tuple(_parameter(part, fast=False) for part in _parts(text))


def _parts(text: str) -> list[str]:
    """The parameters, split at commas outside of brackets."""
    parts = [part.strip() for part in re.split(r",(?![^\[]*\])", text)]
    return parts if text.strip() else []


def _parameter(text: str, *, fast: bool) -> ParameterSpec:
    if text in _PYTHON:
        return _PYTHON[text]
    array = _ARRAY.fullmatch(text)
    if array is None:
        kind = _dtype(text, text)
        return ScalarSpec("complex" if kind.is_complex else "float", kind)
    kind, dims = _dtype(array[1], text), [x.strip() for x in array[2].split(",")]
    if any(x not in (":", "::1") for x in dims) or "::1" in dims[:-1]:
        raise _strange(text)
    strides: list[StrideClass] = ["any"] * len(dims)
    if fast or dims[-1] == "::1":
        strides[-1] = "unit"
    boxed = fast and len(dims) <= _MOST_BOXED
    return ArraySpec(kind, tuple(strides), aligned=fast, boxed=boxed)


def _dtype(name: str, text: str) -> DType:
    try:
        return dtype(name)
    except DTypeError:
        raise _strange(text) from None


def _strange(text: str) -> LaunchError:
    return LaunchError(
        f"{text!r} in a signature: write int, float, bool or complex for Python's numbers, a dtype "
        "such as f32 for NumPy's, f32[:] for an array of one dimension, f32[:, :] of two, "
        "f32[:, ::1] for one whose rows are contiguous, None for None"
    )
