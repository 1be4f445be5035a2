"""What a specialisation of a kernel is made for: the types and layouts of its arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from portable.dtypes import DType
from portable.lang.ir.kernel import Options
from portable.lang.ir.types import StrideClass

__all__ = [
    "ArraySpec",
    "ParameterSpec",
    "ScalarSpec",
    "Specialisation",
    "StaticSpec",
    "constant_key",
]


def constant_key(x: Any) -> Any:
    """Equal where two constants mean the same to a kernel; 1, 1.0 and True do not."""
    if isinstance(x, tuple):
        return (tuple, *map(constant_key, x))
    if isinstance(x, float | complex | np.generic):
        return type(x), repr(x)
    return type(x), x


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """An array argument.

    Attributes
    ----------
    dtype : DType
        Element type in memory.
    strides : tuple of StrideClass
        Per dimension: one element ("unit"), none ("zero"), or known at launch ("any").
    aligned : bool
        First element and "any" strides are multiples of 16 bytes.
    boxed : bool
        Boxes of it can be described to a copy engine.
    writable : bool
        Whether the kernel may write it.
    """

    dtype: DType
    strides: tuple[StrideClass, ...]
    aligned: bool = False
    writable: bool = True
    boxed: bool = False


@dataclass(frozen=True, slots=True)
class ScalarSpec:
    """A number argument: of a fixed dtype, or a Python number that adapts (`weak`)."""

    kind: Literal["bool", "int", "float", "complex"]
    dtype: DType | None = None


@dataclass(frozen=True, slots=True)
class StaticSpec:
    """An argument known at compile time: None, a dtype or a helper function."""

    value: Any = field(compare=False)
    key: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", constant_key(self.value))


ParameterSpec = ArraySpec | ScalarSpec | StaticSpec


@dataclass(frozen=True, slots=True)
class Specialisation:
    """Everything that the generated program depends on, beside the kernel's text and the device.

    Attributes
    ----------
    parameters : tuple of ParameterSpec
        One per positional parameter of the kernel.
    constants : tuple of (str, object)
        The keyword-only arguments.
    workgroup : (int, int, int)
        The local size.
    index64 : bool
        Whether indices are 64-bit.
    restrict : bool
        Whether no array that is written overlaps another.
    options : Options
        What the kernel was declared with.
    """

    parameters: tuple[ParameterSpec, ...]
    constants: tuple[tuple[str, Any], ...] = field(compare=False)
    workgroup: tuple[int, int, int]
    index64: bool
    restrict: bool
    options: Options
    key: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", constant_key(self.constants))
