"""What a specialisation of a kernel is made for: the types and layouts of its arguments."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, Literal

import numpy as np

from portable.dtypes import DType
from portable.lang.arguments.structs import is_composite, items_of, label
from portable.lang.ir.kernel import Options
from portable.lang.ir.types import StrideClass

_LIBRARIES: Final = ("portable.", "portable_", "numpy")
"""Beginnings of names of modules whose names always stand for the same."""


def constant_key(x: Any) -> Any:
    """Equal where two constants mean the same to a kernel; 1, 1.0 and True do not."""
    if is_composite(type(x)):
        return (type(x), *map(constant_key, items_of(x)))
    if isinstance(x, float | complex | np.generic):
        return type(x), repr(x)
    if isinstance(x, FunctionType) and not hasattr(x, "__wrapped__"):
        return _function_key(x)
    if isinstance(x, MethodType):
        return MethodType, constant_key(x.__func__), constant_key(x.__self__)
    return type(x), x


def named_key(x: Any) -> Any:
    """Equal as long as all that a function names, and functions that it names, stand unchanged.

    Of lists, dicts and sets what is in them counts, of arrays and other objects which they are.
    """
    return _function_key(x) if isinstance(x, FunctionType) else _Same(x)


def _function_key(x: FunctionType, known: dict[int, int] | None = None) -> Any:
    """Equal where a ``def`` or a lambda was run again and found all that it names unchanged.

    A function that is named again stands as the number that it had in `known`: keys are as long as
    all that is named, in however many places.
    """
    if _is_pythons(str(x.__module__)):
        return FunctionType, x
    inner = {} if known is None else known
    if id(x) in inner:
        return FunctionType, inner[id(x)]
    inner[id(x)] = len(inner)
    try:
        held = [cell.cell_contents for cell in x.__closure__ or ()]
        defaults = (x.__defaults__, *(x.__kwdefaults__ or {}).items())
        parts = [*_named_by(x), *held, defaults]
        key = (x.__code__, id(x.__globals__), *[_held_key(value, inner) for value in parts])
        if known is None:
            hash(key)
    except (RecursionError, TypeError, ValueError):  # ValueError: of a name without a value yet
        return FunctionType, x
    return FunctionType, key


def _named_by(x: FunctionType) -> list[Any]:
    """What a function's global names stand for, and names of modules that it names."""
    space, names = x.__globals__, _names_in(x.__code__)
    named = [space[name] for name in names if name in space]
    for module in named:
        if type(module) is ModuleType and not _is_settled(module.__name__):
            space_here = vars(module)
            named += [space_here[name] for name in names if name in space_here]
    return [value for value in named if type(value) is not ModuleType]


def _is_settled(module: str) -> bool:
    """Whether what a module's functions name is no user's to change: of libraries and Python."""
    return module.startswith(_LIBRARIES) or _is_pythons(module)


def _is_pythons(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


@lru_cache(maxsize=4096)
def _names_in(code: CodeType) -> tuple[str, ...]:
    """What a function's instructions name, and those of comprehensions and lambdas in it."""
    inner = [x for x in code.co_consts if isinstance(x, CodeType)]
    return (*code.co_names, *(name for x in inner for name in _names_in(x)))


def _held_key(x: Any, known: dict[int, int]) -> Any:
    """As `constant_key`, with functions that may name one another, and with what may change."""
    if isinstance(x, FunctionType):
        settled = _is_settled(str(x.__module__)) or hasattr(x, "__wrapped__")
        return x if settled else _function_key(x, known)
    if isinstance(getattr(x, "python", None), FunctionType):  # marked
        return type(x), _held_key(x.python, known)
    if isinstance(x, list | set):
        return type(x), *(_held_key(item, known) for item in x)
    if isinstance(x, dict):
        return dict, *((key, _held_key(item, known)) for key, item in x.items())
    result = constant_key(x)
    try:
        hash(result)
    except TypeError:
        return _Same(x)
    return result


class _Same:
    """An object that equals itself alone; held, so that no other one takes its place."""

    def __init__(self, x: Any) -> None:
        self._x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other._x is self._x

    def __hash__(self) -> int:
        return id(self._x)


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
        Boxes of it can be described to TMA.
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


@dataclass(frozen=True, slots=True)
class CompositeSpec:
    """A tuple or struct argument, whose items are arguments of their own.

    Attributes
    ----------
    kind : type
        ``tuple``, or the class of the struct.
    items : tuple of ParameterSpec
        Per item or field.
    """

    kind: Any
    items: tuple[ParameterSpec, ...]


ParameterSpec = ArraySpec | ScalarSpec | StaticSpec | CompositeSpec
LeafSpec = ArraySpec | ScalarSpec | StaticSpec


def leaf_specs(specs: tuple[ParameterSpec, ...]) -> list[LeafSpec]:
    """Those of the arrays, numbers and constants in all tuples and structs, in order."""
    out: list[LeafSpec] = []
    for spec in specs:
        out += leaf_specs(spec.items) if isinstance(spec, CompositeSpec) else [spec]
    return out


def leaf_names(names: Sequence[str], specs: Sequence[ParameterSpec]) -> list[str]:
    """How a user writes each of `leaf_specs`, such as ``x``, ``points.x`` or ``arrays[0]``."""
    out: list[str] = []
    for name, spec in zip(names, specs, strict=True):
        if isinstance(spec, CompositeSpec):
            inner = [name + label(spec.kind, i) for i in range(len(spec.items))]
            out += leaf_names(inner, spec.items)
        else:
            out.append(name)
    return out


@dataclass(frozen=True, slots=True)
class Specialisation:
    """Everything that the generated program depends on, beside the kernel's text and the device.

    Attributes
    ----------
    parameters : tuple of ParameterSpec
        One per positional parameter of the kernel; of ``*arrays`` one for them all.
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
    ragged : tuple of int
        As `portable.lang.ir.kernel.Kernel` has it.
    """

    parameters: tuple[ParameterSpec, ...]
    constants: tuple[tuple[str, Any], ...] = field(compare=False)
    workgroup: tuple[int, int, int]
    index64: bool
    restrict: bool
    options: Options
    ragged: tuple[int, ...] = ()
    key: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", constant_key(self.constants))
