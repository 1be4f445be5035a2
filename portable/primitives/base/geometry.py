"""Shapes and strides brought to the fewest dimensions that a kernel has to count through."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

from portable.errors import BadIndexError, ShapeError

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
