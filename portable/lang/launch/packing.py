"""Packs the arguments of a launch into the argument list of its program.

Arguments go by their numbers: tuples and structs are flattened first, so that each array, scalar
and constant has one. What runs at every launch is a function compiled from generated Python text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any

from portable.backend import Argument, ArrayView, Executable
from portable.lang.arguments.arguments import (
    LeafSpec,
    ParameterSpec,
    ScalarSpec,
    StaticSpec,
    element_strides,
    leaf_specs,
)


class Names:
    """Names for values in functions that are made of Python text, for what runs at every launch.

    Texts that differ in values alone are compiled once.

    Attributes
    ----------
    values : dict
        What stands by which name.
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def named(self, value: Any) -> str:
        """A name that stands for a value."""
        name = f"v{len(self.values)}"
        self.values[name] = value
        return name

    def function(self, source: str, **parts: Any) -> Any:
        """What a text defines, whose braces hold `parts` and, as ``names``, all names."""
        text = source.format(names=", ".join(self.values), **parts)
        return _maker_of(text)(**self.values)


@lru_cache(maxsize=512)
def _maker_of(text: str) -> Callable[..., Any]:
    """The function ``make`` that a text defines, which takes the values of its names."""
    namespace: dict[str, Any] = {}
    exec(text, namespace)  # noqa: S102  (it is made of literals of this package and of backends')
    made: Callable[..., Any] = namespace["make"]
    return made


@dataclass(frozen=True, slots=True)
class ArgumentText:
    """How a text that fills in arguments says what they are made of.

    Attributes
    ----------
    handle, offset, number : callable
        The expression for the handle or offset of an array, or for a number, by argument.
    named : callable
        A name that stands for a value.
    known : callable
        The value that the text for a number always has, in a tuple; an empty one by default.
    """

    handle: Callable[[int], str]
    offset: Callable[[int], str]
    number: Callable[[int], str]
    named: Callable[[Any], str]
    known: Callable[[str], tuple[Any, ...]] = lambda _: ()

    def taken(self, take: Callable[[Any], Any] | None, arg: int) -> str:
        """What a program gets for a number, worked out now where it is known."""
        number = self.number(arg)
        if take is None:
            return number
        known = self.known(number)
        return self.named(take(*known)) if known else f"{self.named(take)}({number})"


@dataclass(frozen=True)
class Packing:
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
        Where descriptions of boxes go, and what makes them of handles and offsets.
    """

    template: list[Any]
    pointers: list[tuple[int, int]] = field(default_factory=list)
    offsets: list[tuple[int, int, int]] = field(default_factory=list)
    scalars: list[tuple[int, int, Callable[[Any], Any] | None]] = field(default_factory=list)
    boxes: list[tuple[int, int, Callable[[Any, int], Any]]] = field(default_factory=list)

    def text(self, words: ArgumentText) -> str:
        """The program's arguments as a list in Python text; whoever fills them in goes by it."""
        texts: dict[int, str] = {}
        for position, arg in self.pointers:
            texts[position] = words.handle(arg)
        for position, arg, size in self.offsets:
            texts[position] = f"({words.offset(arg)}) // {size}"
        for position, arg, take in self.scalars:
            texts[position] = words.taken(take, arg)
        for position, arg, made in self.boxes:
            texts[position] = f"{words.named(made)}({words.handle(arg)}, {words.offset(arg)})"
        for position, value in enumerate(self.template):
            if position not in texts:
                texts[position] = words.named(value)
        return f"[{', '.join(texts[position] for position in range(len(self.template)))}]"

    @cached_property
    def pack(self) -> Callable[[Sequence[Any], Sequence[int], Sequence[Any]], list[Any]]:
        """Gives the program's arguments for handles, offsets and numbers by launch argument."""
        return self._function("handles, offsets, numbers", "handles[{}]", "offsets[{}]")

    @cached_property
    def pack_views(self) -> Callable[[Sequence[ArrayView | None], Sequence[Any]], list[Any]]:
        """The same for views of the arrays, and numbers."""
        return self._function("views, numbers", "views[{}].handle", "views[{}].offset")

    def _function(self, given: str, handle: str, offset: str) -> Callable[..., list[Any]]:
        names = Names()
        words = ArgumentText(handle.format, offset.format, "numbers[{}]".format, names.named)
        source = "def make({names}):\n    return lambda {given}: {text}\n"
        made: Callable[..., list[Any]] = names.function(source, given=given, text=self.text(words))
        return made


def packing_of(
    arguments: Sequence[Argument],
    specs: tuple[ParameterSpec, ...],
    views: Sequence[ArrayView | None],
    executable: Executable,
    asked: Sequence[int] = (),
) -> Packing:
    """How the arguments of a launch are packed for a program.

    Parameters
    ----------
    arguments : sequence of Argument
        Of the program.
    specs : tuple of ParameterSpec
        Of the launch's arguments, in order.
    views : sequence of ArrayView or None
        The same as arrays; None for numbers.
    executable : Executable
        What takes them.
    asked : sequence of int
        The ndrange in work-items, for programs that ask for it.
    """
    owners, leaves = owners_of(specs), leaf_specs(specs)
    made = Packing([None] * len(arguments))
    for position, argument in enumerate(arguments):
        if argument.kind == "size":
            made.template[position] = asked[argument.dim]
            continue
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
