"""What launches of the same types, shapes and strides share: a program and packed arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import combinations
from operator import attrgetter
from typing import Any, cast

from portable.backend import Argument, ArrayView, Device, Executable, Program
from portable.lang.arguments.arguments import (
    LeafSpec,
    ParameterSpec,
    ScalarSpec,
    StaticSpec,
    byte_range,
    element_strides,
    leaf_specs,
)
from portable.lang.launch.geometry import (
    Three,
)
from portable.lang.launch.relaunch import Bound, Pair, Relaunch, relaunch_of

# Packs the arguments of a launch into the argument list of its program.
#
# Arguments go by their numbers: tuples and structs are flattened first, so that each array, scalar
# and constant has one. What runs at every launch is a function compiled from generated Python text.


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
        Where descriptions of boxes go, and what makes them of handles.
    """

    template: list[Any]
    pointers: list[tuple[int, int]] = field(default_factory=list)
    offsets: list[tuple[int, int, int]] = field(default_factory=list)
    scalars: list[tuple[int, int, Callable[[Any], Any] | None]] = field(default_factory=list)
    boxes: list[tuple[int, int, Callable[[Any], Any]]] = field(default_factory=list)

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
            texts[position] = f"{words.named(made)}({words.handle(arg)})"
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


@dataclass(frozen=True, slots=True)
class Lowered:
    """What a launch hands to a device.

    Attributes
    ----------
    program : Program or None
        The generated program; None where the device runs the IR itself.
    executable : Executable
        What the device made of it.
    groups : (int, int, int)
        Workgroups along each dimension.
    arguments : list
        One per argument of the program, as `portable.backend.Executable` takes them.
    """

    program: Program | None
    executable: Executable
    groups: Three
    arguments: list[Any]


@dataclass(slots=True)
class BoundProgram:
    """A compiled program with what is known of its arguments before the pointers are."""

    executable: Executable
    program: Program | None
    packing: Packing
    disjoint: bool
    uses: int = 0
    relaunch: Relaunch | None = None


@dataclass(slots=True)
class Plan:
    """What launches of the same types, shapes and strides share.

    `pairs` are those of which an array is written, `written` the numbers of these.
    """

    device: Device
    groups: Three
    pairs: list[Pair]
    written: frozenset[int]
    variants: dict[bool, BoundProgram]
    build: Callable[[bool], BoundProgram]

    def bound(self, disjoint: bool) -> BoundProgram:
        """The variant for arguments that do, or do not, overlap."""
        variant = self.variants.get(disjoint)
        if variant is None:
            variant = self.variants[disjoint] = self.build(disjoint)
        return variant


@dataclass(frozen=True, slots=True)
class Repeatable:
    """A launch to be repeated with other arrays of the same dtypes, shapes, strides and alignment.

    Its arguments are those of the kernel, with the items of tuples and structs in their place.

    For libraries that know this of their arrays and keep it as a key of their own; nothing is
    checked.
    """

    groups: Three
    bound: BoundProgram

    @property
    def parts(self) -> Bound:
        """What it hands to the device."""
        return Bound(self.bound.executable.launch, self.groups, self.bound.packing)

    def __call__(self, handles: Sequence[Any], offsets: Sequence[int], args: Sequence[Any]) -> None:
        """Launches it; each sequence has one item per launch argument.

        Parameters
        ----------
        handles, offsets : sequence
            Of arrays: what `ArrayView` calls handle and offset.
        args : sequence
            Of numbers: the numbers.
        """
        bound = self.bound
        bound.executable.launch(self.groups, bound.packing.pack(handles, offsets, args))


def relaunch_for(
    plan: Plan,
    bound: BoundProgram,
    args: tuple[Any, ...],
    constants: dict[str, Any],
    views: list[ArrayView | None],
) -> Relaunch | None:
    """A function that launches this again for like arguments, where there can be one."""
    launch = Bound(bound.executable.launch, plan.groups, bound.packing)
    return relaunch_of(plan.device, args, constants, views, plan.pairs, bound.disjoint, launch)


def overlap_pairs(views: Sequence[ArrayView | None], written: frozenset[int]) -> list[Pair]:
    """The pairs of arrays that are not empty, of which one is written."""
    arrays = [(i, *byte_range(v)) for i, v in enumerate(views) if v is not None]
    return [
        Pair(i, low, high, j, other_low, other_high)
        for (i, low, high), (j, other_low, other_high) in combinations(arrays, 2)
        if (i in written or j in written) and low < high and other_low < other_high
    ]


def disjoint_by(pairs: list[Pair], views: list[ArrayView | None]) -> bool:
    """Whether no array that is written shares bytes with another."""
    arrays = cast(list[ArrayView], views)
    for i, low, high, j, other_low, other_high in pairs:
        x, y = arrays[i], arrays[j]
        # By position, which is faster than by name: owner is 6, address is 4.
        if x[6] != y[6]:
            continue
        if x[4] + low < y[4] + other_high and y[4] + other_low < x[4] + high:
            return False
    return True
