"""Signatures of kernels as text, such as ``"float, Points(f32[:], f32[:, ::1])"``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from portable.dtypes import DType, named_in_kernels
from portable.errors import DTypeError, LaunchError
from portable.lang.arguments.arguments import (
    MOST_BOXED,
    ArraySpec,
    CompositeSpec,
    ParameterSpec,
    ScalarSpec,
    StaticSpec,
)
from portable.lang.arguments.structs import field_names, is_composite
from portable.lang.ir.types import StrideClass

_PYTHON: Final[dict[str, ParameterSpec]] = {
    "bool": ScalarSpec("bool"),
    "int": ScalarSpec("int"),
    "float": ScalarSpec("float"),
    "complex": ScalarSpec("complex"),
    "None": StaticSpec(None),
}
Scope = Mapping[str, Any]
_COMPOSITE: Final = re.compile(r"([\w.]*)\((.*)\)", re.DOTALL)
_ARRAY: Final = re.compile(r"(\w+)\[([^\]]*)\]")


def specs_from(text: str, scope: Scope, *, fast: bool) -> tuple[ParameterSpec, ...]:
    """What launches of a signature specialise on.

    Parameters
    ----------
    text : str
        The signature.
    scope : mapping
        Where the classes of structs are looked up by name.
    fast : bool
        Whether arrays are aligned and contiguous; else they are anywhere in memory, with any
        strides but those said to be contiguous.

    Raises
    ------
    LaunchError
        For text that is no signature.
    """
    return tuple(_parameter(part, scope, fast=fast) for part in _parts(text))


def _parts(text: str) -> list[str]:
    """The parameters, split at commas outside of brackets and parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    if depth:
        raise _strange(text)
    stripped = [part.strip() for part in parts]
    return stripped if stripped[-1] else stripped[:-1]  # as in (f32[:],)


def _parameter(text: str, scope: Scope, *, fast: bool) -> ParameterSpec:
    if text in _PYTHON:
        return _PYTHON[text]
    composite = _COMPOSITE.fullmatch(text)
    if composite is not None:
        items = tuple(_parameter(part, scope, fast=fast) for part in _parts(composite[2]))
        return CompositeSpec(_class_of(composite[1], len(items), scope), items)
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
    boxed = fast and len(dims) <= MOST_BOXED
    return ArraySpec(kind, tuple(strides), aligned=fast, boxed=boxed)


def _class_of(name: str, count: int, scope: Scope) -> Any:
    """The class of a struct with so many fields; without a name a tuple."""
    if not name:
        return tuple
    attribute: Any = scope.get(name.partition(".")[0])
    for part in name.split(".")[1:]:
        attribute = getattr(attribute, part, None)
    if not (isinstance(attribute, type) and is_composite(attribute)):
        raise LaunchError(
            f"{name}(...) in a signature: the kernel's module has no struct of that name, a "
            "NamedTuple or a frozen dataclass"
        )
    fields = field_names(attribute)
    if len(fields) != count:
        raise LaunchError(
            f"{name} has {len(fields)} fields ({', '.join(fields)}); the signature gives {count}"
        )
    return attribute


def _dtype(name: str, text: str) -> DType:
    try:
        return named_in_kernels(name)
    except DTypeError:
        raise _strange(text) from None


def _strange(text: str) -> LaunchError:
    return LaunchError(
        f"{text!r} in a signature: write int, float, bool or complex for Python's numbers, a dtype "
        "such as f32 for NumPy's, f32[:] for an array of one dimension, f32[:, :] of two, "
        "f32[:, ::1] for one whose rows are contiguous, None for None, (f32[:], int) for a tuple, "
        "Name(f32[:], int) for a struct"
    )
