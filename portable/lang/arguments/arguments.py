"""What a launch's arguments are, and the specialisation that they ask for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import count
from typing import Any, Final

import numpy as np

from portable.backend import ArrayView
from portable.dtypes import dtype
from portable.errors import LaunchError
from portable.lang.arguments.signature import (
    ArraySpec,
    CompositeSpec,
    ParameterSpec,
    ScalarSpec,
    StaticSpec,
    constant_key,
)
from portable.lang.arguments.structs import is_composite, items_of
from portable.lang.ir.intervals import INDEX_MARGIN
from portable.lang.ir.types import StrideClass

_LIMIT: Final = 2**31 - INDEX_MARGIN
ALIGNMENT: Final = 16
"""Bytes to which the address of an array is a multiple or not, which programs depend on."""

_MOST_BOXED: Final = 5
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
    writable: bool = True,
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
    writable : bool
    """
    key = (dtype, shape, strides, not address % ALIGNMENT, writable)
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
    apart = [bytes_ for bytes_, kind in zip(view.strides, classes, strict=True) if kind == "any"]
    aligned = not view.address % ALIGNMENT and not any(b % ALIGNMENT for b in apart)
    boxed = aligned and _boxed(view.shape, apart)
    return ArraySpec(dtype(view.dtype), classes, aligned, view.writable, boxed)


def _boxed(shape: tuple[int, ...], apart: Sequence[int]) -> bool:
    """Whether TMA takes an array of this shape, as NVIDIA's ``cuTensorMapEncodeTiled``.

    `apart` are the strides in bytes, but for the dimension along which elements are neighbours.
    """
    plain = len(apart) + 1 == len(shape) <= _MOST_BOXED
    return plain and all(0 < n < 2**31 for n in shape) and all(0 < b < 2**40 for b in apart)


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
