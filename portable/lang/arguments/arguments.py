"""What a launch's arguments are, and the specialisation that they ask for."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, Literal

import numpy as np

from portable.backend import ArrayView
from portable.dtypes import DType, dtype
from portable.errors import LaunchError
from portable.lang.arguments.structs import is_composite, items_of, label
from portable.lang.ir.facts import INDEX_MARGIN
from portable.lang.ir.kernel import Options
from portable.lang.ir.types import StrideClass

# What a specialisation of a kernel is made for: the types and layouts of its arguments.

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


# -- arguments -------------------------------------------------------------------------------------

_LIMIT: Final = 2**31 - INDEX_MARGIN
ALIGNMENT: Final = 16
"""Bytes to which the address of an array is a multiple or not, which programs depend on."""

MOST_BOXED: Final = 5
"""Dimensions of an array that TMA takes."""

_INT64: Final = -(2**63), 2**63 - 1
_NOT_ARRAYS: Final = (int, float, bool, complex, type(None), np.generic, np.dtype, str, type)
_MOST_LAYOUTS: Final = 1 << 16
_layouts: dict[Any, int] = {}
_numbers: Final = count(-1, -1)


def layout_number(
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    address: int,
) -> int:
    """A number that stands for all that a launch specialises on in an array; negative.

    The same layout has another number once very many others were asked for.

    Parameters
    ----------
    dtype : numpy.dtype
    shape, strides : tuple of int
        In elements, and in bytes.
    address : int
        Of the first element; what counts is its alignment.
    """
    key = (dtype, shape, strides, not address % ALIGNMENT)
    if len(_layouts) >= _MOST_LAYOUTS:
        _layouts.clear()
    return _layouts.setdefault(key, next(_numbers))


def is_array(x: object) -> bool:
    """Whether an argument is an array of some library, rather than a number or a constant."""
    return not isinstance(x, _NOT_ARRAYS) and hasattr(x, "shape")


def scalar_key(x: Any) -> Any:
    """What a plan depends on in an argument that is no array; equal keys share a plan.

    Raises
    ------
    LaunchError
        For integers that 64 bits do not hold.
    """
    kind = type(x)
    if kind is float:
        return float
    if kind is int:
        return int if -(2**31) <= x < 2**31 else _wide(x)
    if kind is bool or kind is complex:
        return kind
    if isinstance(x, np.generic):
        return x.dtype
    return ("static", constant_key(x))


def _wide(x: int) -> str:
    """The key of integers that need 64 bits."""
    if not _INT64[0] <= x <= _INT64[1]:
        raise LaunchError(
            f"an argument is {x}, and 64 bits hold {_INT64[0]} to {_INT64[1]}; pass float(x), or "
            "numpy.uint64(x) if it fits that"
        )
    return "wide"


def scalar_spec(x: Any) -> ParameterSpec:
    """The specialisation for an argument that is no array."""
    if isinstance(x, bool):
        return ScalarSpec("bool")
    if isinstance(x, np.generic):
        kind = dtype(x.dtype)
        return ScalarSpec("complex" if kind.is_complex else "float", kind)
    if isinstance(x, int):
        return ScalarSpec("int")
    if isinstance(x, float):
        return ScalarSpec("float")
    if isinstance(x, complex):
        return ScalarSpec("complex")
    return StaticSpec(x)


def _stride_class(extent: int, stride: int, last: bool) -> StrideClass:
    if stride == 1 or (last and extent == 1):
        return "unit"
    return "zero" if stride == 0 else "any"


def element_strides(view: ArrayView) -> tuple[int, ...]:
    """Strides in elements.

    Raises
    ------
    LaunchError
        If a stride is no whole number of elements, as in fields of structured arrays.
    """
    size = view.dtype.itemsize
    if any(stride % size for stride in view.strides):
        raise LaunchError(
            f"an array of {view.dtype} has strides of {view.strides} bytes, which are no whole "
            "elements; make a contiguous copy of it first"
        )
    return tuple(stride // size for stride in view.strides)


def array_spec(view: ArrayView) -> ArraySpec:
    """The specialisation for an array argument."""
    strides = element_strides(view)
    last = len(strides) - 1
    classes = tuple(
        _stride_class(extent, stride, i == last)
        for i, (extent, stride) in enumerate(zip(view.shape, strides, strict=True))
    )
    outer_strides = [
        bytes_ for bytes_, kind in zip(view.strides, classes, strict=True) if kind == "any"
    ]
    aligned = not view.address % ALIGNMENT and not any(b % ALIGNMENT for b in outer_strides)
    boxed = aligned and _boxed(view.shape, outer_strides)
    return ArraySpec(dtype(view.dtype), classes, aligned, view.writable, boxed)


def _boxed(shape: tuple[int, ...], outer_strides: Sequence[int]) -> bool:
    """Whether TMA takes an array of this shape, as NVIDIA's ``cuTensorMapEncodeTiled``.

    `outer_strides` are those in bytes, but for the dimension along which elements are neighbours.
    """
    plain = len(outer_strides) + 1 == len(shape) <= MOST_BOXED
    return plain and all(0 < n < 2**31 for n in shape) and all(0 < b < 2**40 for b in outer_strides)


def byte_range(view: ArrayView) -> tuple[int, int]:
    """First and last-plus-one byte of an array, relative to its address; (0, 0) if it is empty."""
    return _byte_range(view.shape, view.strides, view.dtype.itemsize)


@lru_cache(maxsize=4096)
def _byte_range(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    if 0 in shape:
        return 0, 0
    reach = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    low = sum(r for r in reach if r < 0)
    high = sum(r for r in reach if r > 0)
    return low, high + itemsize


def needs_index64(views: Sequence[ArrayView], keys: Sequence[Any], work_items: int) -> bool:
    """Whether any index could come near 2^31.

    Parameters
    ----------
    views : sequence of ArrayView
        The arrays of a launch.
    keys : sequence
        What a launch specialises on in its arguments, as of `scalar_key`.
    work_items : int
        Of the padded ndrange.
    """
    if work_items >= _LIMIT or "wide" in keys:
        return True
    return any(_far(view) for view in views)


def _far(view: ArrayView) -> bool:
    if max(view.shape, default=0) >= _LIMIT:
        return True
    size = view.dtype.itemsize
    reach = (
        (extent - 1) * abs(stride) // size
        for extent, stride in zip(view.shape, view.strides, strict=True)
    )
    return sum(reach) >= _LIMIT


def specs_of(args: Iterable[Any], views: Iterator[ArrayView | None]) -> tuple[ParameterSpec, ...]:
    """The specialisations for arguments; the views are of the leaves of all tuples and structs."""
    return tuple(_spec(x, views) for x in args)


def _spec(x: Any, views: Iterator[ArrayView | None]) -> ParameterSpec:
    if is_composite(type(x)):
        return CompositeSpec(type(x), specs_of(items_of(x), views))
    view = next(views)
    return scalar_spec(x) if view is None else array_spec(view)
