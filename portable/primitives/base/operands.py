"""What operands come to: as few dimensions as kernels can count through, and one type."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from math import inf, prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from portable import dtypes
from portable.dtypes import DType, complex64, complex128, float16, float32, float64, int64, uint64
from portable.errors import BadIndexError, DTypeError, ShapeError
from portable.lang.namesakes import namesake

if TYPE_CHECKING:
    from portable.backend import Device

# Shapes and strides brought to the fewest dimensions that a kernel has to count through.

Shape = tuple[int, ...]


def broadcast_shapes(shapes: Sequence[Shape]) -> Shape:
    """The shape that shapes broadcast to.

    Raises
    ------
    ShapeError
        If they do not.
    """
    first = shapes[0]
    if all(shape == first for shape in shapes):
        return first
    ndim = max(map(len, shapes))
    result = [1] * ndim
    for shape in shapes:
        for i, extent in enumerate(shape, ndim - len(shape)):
            if extent != 1 and result[i] not in (1, extent):
                listed = " and ".join(map(str, shapes))
                raise ShapeError(f"shapes {listed} cannot be broadcast together")
            if extent != 1:
                result[i] = extent
    return tuple(result)


def broadcast_strides(shape: Shape, strides: Shape, to: Shape) -> Shape:
    """The strides by which an array of `shape` counts through the shape that it broadcasts to.

    Parameters
    ----------
    shape, strides : tuple of int
        The array's, strides in bytes.
    to : tuple of int
        The shape that it broadcasts to.
    """
    lead = len(to) - len(shape)
    steps_of_array = [
        0 if extent == 1 else stride for extent, stride in zip(shape, strides, strict=True)
    ]
    return (0,) * lead + tuple(steps_of_array)


def collapsed(shape: Shape, strides: Sequence[Shape]) -> tuple[Shape, list[Shape]]:
    """Extents of 1 dropped and neighbouring dimensions merged where every array allows it."""
    extents: list[int] = []
    steps: list[list[int]] = []
    for dim, extent in enumerate(shape):
        if extent == 1:
            continue
        here = [s[dim] for s in strides]
        if extents and all(
            before == step * extent for before, step in zip(steps[-1], here, strict=True)
        ):
            extents[-1] *= extent
            steps[-1] = here
        else:
            extents.append(extent)
            steps.append(here)
    if not extents:
        extents, steps = [1], [[0] * len(strides)]
    return tuple(extents), [tuple(column) for column in zip(*steps, strict=True)]


def normalized_axis(axis: int, ndim: int) -> int:
    """An axis counted from the front.

    Raises
    ------
    ShapeError
        If there is no such axis.
    """
    try:
        position = axis.__index__()
    except AttributeError:
        raise TypeError(f"an axis is an integer, not {type(axis).__name__}") from None
    if not -ndim <= position < ndim:
        raise BadIndexError(f"axis {axis} of an array with {ndim} dimensions")
    return position % ndim


def normalized_axes(axes: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Axes counted from the front, None meaning all of them.

    Raises
    ------
    ShapeError
        If one does not exist or comes twice.
    """
    if axes is None:
        return tuple(range(ndim))
    items = tuple(axes) if isinstance(axes, tuple | list) else (axes,)
    dims = tuple(normalized_axis(a, ndim) for a in items)
    if len(set(dims)) < len(dims):
        raise ShapeError(f"an axis comes twice in {axes}")
    return dims


def reduced_shape(shape: Shape, axes: Shape, keepdims: bool = False) -> Shape:
    """The shape without some axes, counted from the front; with `keepdims` they have extent 1.

    Parameters
    ----------
    shape : tuple of int
        The extents.
    axes : tuple of int
        Which go, counted from the front.
    keepdims : bool
        Whether they stay with extent 1.
    """
    return tuple(1 if a in axes else n for a, n in enumerate(shape) if keepdims or a not in axes)


def power_of_two(n: int) -> int:
    """The least power of two that is `n` or more, for an `n` of at least 1."""
    return 1 << (n - 1).bit_length()


def whole_numbers(given: Any) -> tuple[int, ...]:
    """A shape, or other counts for dimensions, as Python integers.

    Raises
    ------
    TypeError
        If it is neither an integer nor a sequence of them.
    """
    items = (given,) if hasattr(given, "__index__") else given
    try:
        return tuple(int(n.__index__()) for n in items)
    except (TypeError, AttributeError):
        raise TypeError(f"expected an integer or a tuple of integers, not {given!r}") from None


def reshaped_strides(shape: Shape, strides: Shape, to: Shape) -> Shape | None:
    """The strides of a view in another shape `to`; None if there is no such view.

    Pairs runs of old dimensions with runs of new ones of the same size, each run contiguous.

    Parameters
    ----------
    shape, strides : tuple of int
        The array's, strides in bytes.
    to : tuple of int
        The shape wanted, of as many elements.
    """
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    result: list[int] = []
    i = 0
    todo = list(to)
    while todo:
        run = [todo.pop(0)]
        if run[0] == 1:
            result.append(0)
            continue
        first = i
        size_old, i = old[i][0], i + 1
        size_new = run[0]
        while size_old != size_new:
            if size_new < size_old:
                run.append(todo.pop(0))
                size_new *= run[-1]
            else:
                size_old *= old[i][0]
                i += 1
        group = old[first:i]
        if any(a[1] != b[1] * b[0] for a, b in pairwise(group)):
            return None
        step = group[-1][1]
        inner = [step * prod(run[d + 1 :]) for d in range(len(run))]
        result.extend(inner)
    return tuple(result)


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


def operation(x: Any) -> Any:
    """The function of kernels that one of NumPy's or Python's stands for; others as they are.

    Raises
    ------
    TypeError
        For what is no function.
    DTypeError
        For ufuncs that kernels have not.
    """
    word = namesake(x)
    if isinstance(x, np.ufunc) and word is None:
        raise DTypeError(
            f"kernels have no numpy.{x.__name__}; give a function of your own that they can call"
        )
    if x is not None and not callable(x):
        raise TypeError(f"{x!r} is no function; give one that kernels can call, such as kl.add")
    return word or x


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
