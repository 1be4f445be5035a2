"""From the arguments of a launch to those of its program.

An argument is meant here by its number among all arrays, numbers and constants, those in tuples and
structs in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from portable.backend import Argument, ArrayView, Executable
from portable.lang.arguments import element_strides
from portable.lang.signature import LeafSpec, ParameterSpec, ScalarSpec, StaticSpec, leaf_specs

__all__ = ["Filling", "filling_of", "owners_of"]


@dataclass(frozen=True, slots=True)
class Filling:
    """Where the arguments of a launch go in those of its program.

    Attributes
    ----------
    template : list
        The program's arguments, with every extent and stride filled in.
    pointers : list of (position, argument)
        Where handles go.
    offsets : list of (position, argument, itemsize)
        Where offsets in elements go.
    scalars : list of (position, argument, function or None)
        Where numbers go, and what is made of them first.
    boxes : list of (position, argument, function)
        Where descriptions of boxes go, and what makes them of handles.
    """

    template: list[Any]
    pointers: list[tuple[int, int]] = field(default_factory=list)
    offsets: list[tuple[int, int, int]] = field(default_factory=list)
    scalars: list[tuple[int, int, Callable[[Any], Any] | None]] = field(default_factory=list)
    boxes: list[tuple[int, int, Callable[[Any], Any]]] = field(default_factory=list)

    def fill(
        self, handles: Sequence[Any], offsets: Sequence[int], args: Sequence[Any]
    ) -> list[Any]:
        """The program's arguments; each sequence has one item per launch argument."""
        out = self.template.copy()
        for position, arg in self.pointers:
            out[position] = handles[arg]
        for position, arg, size in self.offsets:
            out[position] = offsets[arg] // size
        for position, arg, take in self.scalars:
            out[position] = take(args[arg]) if take else args[arg]
        for position, arg, made in self.boxes:
            out[position] = made(handles[arg])
        return out

    def fill_views(self, views: Sequence[ArrayView | None], args: Sequence[Any]) -> list[Any]:
        """The same from views of the arrays."""
        handles = [None if v is None else v.handle for v in views]
        return self.fill(handles, [0 if v is None else v.offset for v in views], args)


def filling_of(
    arguments: Sequence[Argument],
    specs: tuple[ParameterSpec, ...],
    views: Sequence[ArrayView | None],
    executable: Executable,
) -> Filling:
    """The filling for a program's arguments and a launch's."""
    owners, leaves = owners_of(specs), leaf_specs(specs)
    made = Filling([None] * len(arguments))
    for position, argument in enumerate(arguments):
        arg, part = owners[argument.parameter]
        view = views[arg]
        if argument.kind == "scalar":
            made.scalars.append((position, arg, _taker(leaves[arg], part)))
            continue
        assert view is not None
        match argument.kind:
            case "pointer":
                made.pointers.append((position, arg))
            case "offset":
                made.offsets.append((position, arg, view.dtype.itemsize))
            case "extent":
                made.template[position] = view.shape[argument.dim]
            case "stride":
                made.template[position] = element_strides(view)[argument.dim]
            case "box":
                boxes = executable.boxes(argument, view.shape, view.strides)
                made.boxes.append((position, arg, boxes))
    return made


def _taker(spec: LeafSpec, part: str) -> Callable[[Any], Any] | None:
    """How a scalar is made of its argument; None where it is the argument itself."""
    if isinstance(spec, ScalarSpec) and spec.dtype is not None:
        return lambda x: getattr(x.item(), part) if part else x.item()
    return attrgetter(part) if part else None


def owners_of(specs: tuple[ParameterSpec, ...]) -> list[tuple[int, str]]:
    """Per parameter of the IR: the launch argument and the part of it."""
    owners: list[tuple[int, str]] = []
    for i, spec in enumerate(leaf_specs(specs)):
        if isinstance(spec, StaticSpec):
            continue
        if isinstance(spec, ScalarSpec) and spec.kind == "complex":
            owners += [(i, "real"), (i, "imag")]
        else:
            owners.append((i, ""))
    return owners
