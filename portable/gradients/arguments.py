"""What the arguments of an adjoint must be for its gradients to be right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from portable.backend import ArrayView, Device
from portable.dtypes import dtype
from portable.errors import LaunchError
from portable.lang.arguments.arguments import byte_range, is_array
from portable.lang.arguments.structs import is_composite, items_of, label
from portable.namespace import on_device

_Range = tuple[Any, int, int]
"""An owner of memory, the first byte and the one after the last."""


def overlaps(device: Device, arrays: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """The pairs of arrays that share memory, by their numbers; None stands for no array."""
    ranges = [None if x is None else _range(device, x) for x in arrays]
    for (i, x), (j, y) in combinations(enumerate(ranges), 2):
        if x is not None and y is not None and x[0] == y[0] and x[1] < y[2] and y[1] < x[2]:
            yield i, j


def _range(device: Device, x: Any) -> _Range | None:
    if isinstance(x, np.ndarray):
        low, high = np.lib.array_utils.byte_bounds(x)
        return ("host", low, high) if x.size else None
    view = device.view(on_device(device, x))
    low, high = byte_range(view)
    return (view.owner, view.address + low, view.address + high) if low < high else None


def pairs_of(names: Sequence[str], given: Sequence[Any], gradients: Sequence[Any]) -> Iterator[Any]:
    """The arrays, numbers and constants among arguments, each with its name and its gradient."""
    for name, x, gradient in zip(names, given, gradients, strict=True):
        if is_composite(type(x)):
            items = items_of(x)
            inner = [name + label(type(x), i) for i in range(len(items))]
            parts = [None] * len(items) if gradient is None else items_of(gradient)
            if len(parts) != len(items):
                raise LaunchError(
                    f"the gradient of {name} has {len(parts)} items; it must have {len(items)}, or "
                    "be None"
                )
            yield from pairs_of(inner, items, parts)
        else:
            yield name, x, gradient


def check_gradients(names: Sequence[str], given: Sequence[Any], gradients: Sequence[Any]) -> None:
    """Refuses gradients of other shapes than what they are the gradients of.

    Raises
    ------
    LaunchError
        Naming the first.
    """
    for name, x, gradient in pairs_of(names, given, gradients):
        if gradient is None:
            continue
        if not is_array(gradient):
            raise LaunchError(
                f"the gradient of {name} is {gradient!r}; it must be an array"
                f"{'' if is_array(x) else ' of shape (1,)'}, or None for none"
            )
        shape = tuple(gradient.shape)
        wanted = _wanted(x, gradient)
        if shape not in wanted:
            raise LaunchError(
                f"the gradient of {name} is an array of shape {shape}; it must be of shape "
                f"{wanted[0]}"
            )


def _wanted(x: Any, gradient: Any) -> list[tuple[int, ...]]:
    if not is_array(x):
        return [(1,), ()]
    shape = tuple(x.shape)
    if dtype(x.dtype).is_complex and not dtype(gradient.dtype).is_complex:
        return [(*shape, 2)]
    return [shape]


def views_of(device: Device, leaves: Sequence[Any]) -> list[ArrayView | None]:
    """How a device sees arguments; NumPy's arrays that are to be copied there as they are."""
    return [_view(device, x) if is_array(x) else None for x in leaves]


def _view(device: Device, x: Any) -> ArrayView:
    if isinstance(x, np.ndarray) and not device.owns(x):
        address = x.__array_interface__["data"][0]
        return ArrayView(x.dtype, x.shape, x.strides, None, address, writable=x.flags.writeable)
    return device.view(on_device(device, x))
