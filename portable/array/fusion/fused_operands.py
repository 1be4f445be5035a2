"""Arguments of fused functions as kernels take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy.lib.stride_tricks import as_strided

from portable.array.fusion.traced import Traced
from portable.backend import ArrayView
from portable.dtypes import DType
from portable.primitives.base.numbers import number_for
from portable.primitives.maps.elementwise_kernel import FULL, NUMBER, ROW

Shape = tuple[int, ...]

Bound = tuple[Any, int, Any]
"""An argument of one launch: the handle and the offset of an array, or a number."""


class Operand(NamedTuple):
    """An input as the kernel takes it.

    Attributes
    ----------
    how : str
        FULL, ROW or NUMBER of `portable.primitives.maps.elementwise_kernel`.
    given : ArrayView or number
        What it is like.
    layout : tuple or None
        Its shape and strides as the kernel counts them; None for numbers.
    number : DType or None
        The dtype of a number; None for arrays.
    """

    how: str
    given: Any
    layout: tuple[Shape, Shape] | None
    number: DType | None


def number_operand(x: Traced) -> Operand:
    """A Python number."""
    return Operand(NUMBER, number_for(1, x.dtype), None, x.dtype)


def array_operand(view: ArrayView, counted: Shape, step: Shape) -> Operand:
    """An array of which a kernel counts the extents so, with these strides.

    Parameters
    ----------
    view : ArrayView
        The array.
    counted : tuple of int
        The extents.
    step : tuple of int
        The strides, in bytes.
    """
    row = step[-1] == 0
    layout = (counted[:-1], step[:-1]) if row else (counted, step)
    given = view._replace(shape=layout[0], strides=layout[1], layout=None)
    return Operand(ROW if row else FULL, given, layout, None)


def handle_of(view: ArrayView, layout: tuple[Shape, Shape] | None, interpreted: bool) -> Any:
    """What the kernel takes; where it is run itself, the array as the kernel counts it.

    Parameters
    ----------
    view : ArrayView
        The array.
    layout : tuple or None
        Its shape and strides as the kernel counts them.
    interpreted : bool
        Whether the device runs kernels itself.
    """
    if not interpreted or layout is None:
        return view.handle
    return as_strided(view.handle, *layout)


def bound(
    operands: Sequence[Operand],
    args: Sequence[Any],
    views: Sequence[ArrayView | None],
    interpreted: bool,
) -> list[Bound]:
    """The inputs of one launch.

    Parameters
    ----------
    operands : sequence of Operand
        The inputs as the plan has them.
    args : sequence
        What the function was called with.
    views : sequence of (ArrayView or None)
        The arrays among them.
    interpreted : bool
        Whether the device runs kernels itself.
    """
    bound_operands: list[Bound] = []
    for operand, x, view in zip(operands, args, views, strict=True):
        if view is None or operand.number is not None:
            bound_operands.append((None, 0, number_for(x, operand.number)))  # type: ignore[arg-type]
        else:
            bound_operands.append((handle_of(view, operand.layout, interpreted), view.offset, None))
    return bound_operands
