"""Arguments of an adjoint: what they must be, and whether the same ones came before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final
from weakref import ref

import numpy as np

from portable import registry
from portable.backend import ArrayView, Device
from portable.dtypes import dtype
from portable.errors import LaunchError
from portable.gradients.memory_of import memory_of
from portable.lang.arguments.arguments import constant_key, is_array
from portable.lang.arguments.structs import is_composite, items_of, label
from portable.namespace import view_on


def overlaps(arrays: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """The pairs of arrays that share memory, by their numbers; None stands for no array."""
    memories = [None if x is None else memory_of(x) for x in arrays]
    for (i, x), (j, y) in combinations(enumerate(memories), 2):
        if x is not None and y is not None and x.overlaps(y):
            yield i, j


_KINDS: Final = {float: "f", complex: "c"}
"""Python's numbers that may have gradients, as `DType.kind` calls them."""


def pairs_of(names: Sequence[str], given: Sequence[Any], gradients: Sequence[Any]) -> Iterator[Any]:
    """The arrays, numbers and constants among arguments, each with its name and its gradient."""
    for name, x, gradient in zip(names, given, gradients, strict=True):
        if is_composite(type(x)):
            items = items_of(x)
            inner = [name + label(type(x), i) for i in range(len(items))]
            if gradient is not None and not is_composite(type(gradient)):
                raise LaunchError(
                    f"the gradient of {name} is a {type(gradient).__name__}; it must be a tuple or "
                    f"struct of {len(items)} items, or None"
                )
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
        kind = dtype(x.dtype).kind if hasattr(x, "dtype") else _KINDS.get(type(x), "")
        if kind == "c" and not is_array(x):
            raise LaunchError(f"{name} is a complex number, which has no gradient: pass None")
        if kind not in ("f", "c"):
            raise LaunchError(
                f"{name} holds no real or complex numbers and has no gradient: pass None"
            )
        if not dtype(gradient.dtype).real.is_float:
            raise LaunchError(
                f"the gradient of {name} is an array of {gradient.dtype}; it must be one of "
                "floating-point numbers"
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
    return [view_on(device, x) if is_array(x) else None for x in leaves]


@dataclass(frozen=True)
class SeenArguments:
    """Arguments that were looked at: recognised where the very same arrays come again.

    Attributes
    ----------
    device : Device
        The one in use.
    arrays : tuple
        Their numbers among all arguments, weak references and shapes.
    others : tuple
        The numbers of what is no array, and its kind.
    constants : tuple
    """

    device: Device
    arrays: tuple[Any, ...]
    others: tuple[Any, ...]
    constants: tuple[Any, ...]

    @staticmethod
    def of(leaves: Sequence[Any], constants: Mapping[str, Any]) -> SeenArguments | None:
        """What recognises them; None for arrays that nothing can remember without keeping them."""
        try:
            arrays = tuple((i, ref(x), x.shape) for i, x in enumerate(leaves) if is_array(x))
        except TypeError:
            return None
        others = tuple((i, _kind(x)) for i, x in enumerate(leaves) if not is_array(x))
        keys = tuple(map(constant_key, constants.items()))
        return SeenArguments(registry.device(), arrays, others, keys)

    def recognises(self, leaves: Sequence[Any], constants: Mapping[str, Any]) -> bool:
        """Whether they are the same arrays, and numbers like those."""
        if len(leaves) != len(self.arrays) + len(self.others):
            return False
        if registry.device() is not self.device:  # which NumPy's arrays may go by
            return False
        for i, known, shape in self.arrays:
            x = leaves[i]
            if known() is not x or x.shape != shape:
                return False
        if any(_kind(leaves[i]) != kind for i, kind in self.others):
            return False
        return tuple(map(constant_key, constants.items())) == self.constants


def _kind(x: Any) -> Any:
    """What a plan depends on in an argument that is no array."""
    return type(x) if isinstance(x, bool | int | float | complex | np.generic) else x


def signature(leaves: Sequence[Any]) -> Any:
    """What a plan depends on in arguments: dtypes and dimensions of arrays, and all numbers."""
    return tuple((x.dtype, len(x.shape)) if is_array(x) else _kind(x) for x in leaves)
