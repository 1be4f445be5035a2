"""What launches of the same types, shapes and strides share: a program and packed arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from types import FunctionType
from typing import Any, Final, NamedTuple, cast

import numpy as np

from portable.backend import ArrayView, Device, Executable, Program, ViewCode
from portable.dtypes import DType
from portable.interchange.jax_arrays import is_recognised
from portable.lang.arguments.arguments import ALIGNMENT, byte_range, constant_key, scalar_key
from portable.lang.arguments.structs import field_names, flattened, is_composite, items_of
from portable.lang.function import Function
from portable.lang.launch.geometry import Three
from portable.lang.launch.packing import ArgumentText, Names, Packing
from portable.registry import registry

# Compiled functions that repeat a launch for arguments like those of the first.
#
# A launch describes each of its arguments, makes a key of the descriptions and finds its plan by
# it; an operation checks its arguments, finds its way and makes some launches. What is compiled
# here compares the arguments with earlier ones in straight-line Python instead and hands the
# device what it needs. Whatever differs, or is not certain to be the same, is left to the general
# way.


Relaunch = Callable[[tuple[Any, ...], dict[str, Any]], bool]
"""Launches for arguments and constants that are alike; gives False, nothing done, for others."""

_PARTS: Final = ("handle", "address", "offset", "owner")
_NUMBERS: Final = (bool, int, float, complex, np.generic)
_CONSTANTS: Final = (str, type(None), type, np.dtype, DType, Function)
_UNCHANGING: Final = (*_NUMBERS, *_CONSTANTS)
_SOURCE: Final = """\
def make({names}):
    def again(args, constants):
        if len(args) != {arity}:
            return False
        {unpacked}, = args
        try:
            if constants is not known and not ({constants}):
                return False
            {taken}
            if not ({same}):
                return False
            {parts}
        except Exception:
            return False
        if {unlike}:
            return False
        {launches}
        return True
    return again
"""
_NEW_LINE: Final = "\n            "


class Pair(NamedTuple):
    """Two arrays of a launch, one of them written, and their bytes relative to their addresses."""

    first: int
    low: int
    high: int
    second: int
    other_low: int
    other_high: int


class Bound(NamedTuple):
    """What a launch hands to the device: how, over which workgroups, and filled in how."""

    launch: Callable[..., None]
    groups: Three
    packing: Packing


def relaunch_of(
    device: Device,
    args: tuple[Any, ...],
    constants: Mapping[str, Any],
    views: Sequence[ArrayView | None],
    pairs: Sequence[Pair],
    disjoint: bool,
    bound: Bound,
) -> Relaunch | None:
    """A function that makes launches like this one again; None where only the general way can.

    Parameters
    ----------
    device : Device
        Where the launch runs.
    args, constants, views
        Its arguments, its constants, and the views of those arguments that are arrays.
    pairs : sequence of Pair
        The arrays whose overlap matters.
    disjoint : bool
        Whether none of the pairs overlaps.
    bound : Bound
        The launch.
    """
    text = text_for(device, args, constants, views)
    if text is None:
        return None
    text.require_distances(pairs, disjoint)
    words = ArgumentText("a{}_handle".format, "a{}_offset".format, "a{}".format, text.named)
    text.launch(bound, words)
    return text.compiled(len(args))


def text_for(
    device: Device,
    args: tuple[Any, ...],
    constants: Mapping[str, Any],
    views: Sequence[ArrayView | None],
    made: int = 0,
) -> Text | None:
    """What tells arguments and constants alike from others, as of `relaunch_of`.

    The last `made` arguments are arrays that are made to be alike.
    """
    arrays = {i: view for i, view in enumerate(views) if view is not None}
    leaves = flattened(args)
    codes = {i: _code(device, leaves[i]) for i in arrays}
    fixed = [x for i, x in enumerate(leaves) if i not in arrays]
    if not arrays or any(codes.get(i) is None for i in arrays):
        return None
    others = (*fixed, *constants.values())
    if not all(isinstance(x, FunctionType) or _unchanging(x) for x in others):
        return None
    text = Text()
    text.unpack(args)
    for i, x in enumerate(leaves):
        code = codes.get(i)
        if code is None:
            text.require_fixed(f"a{i}", x)
        else:
            text.require_array(f"a{i}", code, arrays[i], alike=i >= len(leaves) - made)
    text.require_constants(constants)
    return text


def _code(device: Device, x: Any) -> ViewCode | None:
    """How compiled code sees an array, or another library's in the memory of a GPU."""
    return device.view_code(x) if device.owns(x) or is_recognised(x) else None


def _unchanging(x: Any) -> bool:
    """Whether the same object means the same to a kernel for good."""
    if is_composite(type(x)):
        return all(map(_unchanging, items_of(x)))
    return isinstance(x, _UNCHANGING)


class Text(Names):
    """Such a function in the making: its conditions and launches, and what names in it stand for.

    Values go by names, so that plans which differ in values alone share one compiled text.
    """

    def __init__(self) -> None:
        super().__init__()
        self._same: list[str] = []
        self._for_all: list[str] = []
        self._constants: list[str] = []
        self._parts: list[str] = []
        self._unlike: list[str] = ["False"]
        self._unpacked: list[str] = []
        self._taken: list[str] = []
        self._launches: list[str] = []
        self._leaves = 0
        self.queue = ""

    def unpack(self, args: tuple[Any, ...]) -> None:
        """Names the arguments: arrays, numbers and constants ``a0``, ``a1``, ... throughout."""
        self._unpacked = [self._named_part(x) for x in args]

    def _named_part(self, x: Any) -> str:
        """The name of an argument, or of an item in it; a tuple or struct is taken apart first."""
        kind = type(x)
        if not is_composite(kind):
            self._leaves += 1
            return f"a{self._leaves - 1}"
        at, name = len(self._taken), f"s{len(self._taken)}"
        self._taken.append("")
        items = items_of(x)
        names = [self._named_part(item) for item in items]
        self.values[f"{name}_kind"] = kind
        differs = f"type({name}) is not {name}_kind"
        if kind is tuple:
            differs += f" or len({name}) != {len(items)}"
        lines = [f"if {differs}: return False"]
        if names:
            is_tuple = issubclass(kind, tuple)
            fields_text = name if is_tuple else "".join(f"{name}.{n}, " for n in field_names(kind))
            lines.append(f"{', '.join(names)}, = {fields_text}")
        self._taken[at] = _NEW_LINE.join(lines)
        return name

    def require_fixed(self, x: str, given: Any) -> None:
        """A number of the same type, or the same constant."""
        kind = type(given)
        if kind is int:
            narrow = f"-(2**31) <= {x} < 2**31"
            wide = f"-(2**63) <= {x} < 2**63 and not {narrow}"
            fits = wide if scalar_key(given) == "wide" else narrow
            self._same.append(f"type({x}) is int and {fits}")
        elif kind in (bool, float, complex) or isinstance(given, np.generic):
            self.values[f"{x}_kind"] = kind
            self._same.append(f"type({x}) is {x}_kind")
        elif isinstance(given, FunctionType):
            self._same.append(self._does_the_same(x, x, given))
        else:
            self.values[f"{x}_same"] = given
            self._same.append(f"{x} is {x}_same")

    def require_equal(self, x: str, given: Any) -> None:
        """The same number."""
        self._same.append(f"{x} == {self.named(given)}")

    def _does_the_same(self, x: str, text: str, given: object) -> str:
        """A constant of the same key: a function may find something else in its names by now."""
        self.values |= {"key_of": constant_key, f"{x}_key": constant_key(given)}
        return f"key_of({text}) == {x}_key"

    def require_array(
        self, x: str, code: ViewCode, view: ArrayView, *, alike: bool = False
    ) -> None:
        """An array of the same type, layout, writability and alignment.

        One that is `alike` is made so, but for its address; where parts of arrays get their names
        as they are compared it is compared nevertheless.
        """
        self.values |= {name.format(x=x): value for name, value in code.names.items()}
        self.values |= {
            f"{x}_kind": code.kind,
            f"{x}_dtype": view.dtype,
            f"{x}_shape": view.shape,
            f"{x}_strides": view.strides,
            f"{x}_element_strides": tuple(s // view.dtype.itemsize for s in view.strides),
            f"{x}_layout": view.layout,
            f"{x}_phase": view.address % ALIGNMENT,
        }
        if code.kind is np.ndarray and "before" not in self.values:
            # Several devices take NumPy's arrays; the one that was chosen decides.
            self.values |= {"chosen": registry.chosen_device, "before": registry.chosen_device()}
            self._same.append("chosen() is before")
        if not alike or ":=" in code.same:
            self._same += [f"type({x}) is {x}_kind", code.same.format(x=x)]
        if code.for_all and code.for_all not in self._for_all:
            self._for_all.append(code.for_all)
        self.queue = code.queue or self.queue
        self._parts += [f"{x}_{part} = {getattr(code, part).format(x=x)}" for part in _PARTS]
        self._unlike.append(f"{x}_address % {ALIGNMENT} != {x}_phase")

    def require_constants(self, given: Mapping[str, Any]) -> None:
        """The same constants under the same names, not looked at in the very same mapping."""
        self.values["known"] = given
        self._constants = [f"len(constants) == {len(given)}"]
        for i, (name, x) in enumerate(given.items()):
            self._constants.append(self._constant(f"c{i}", name, x))

    def _constant(self, x: str, name: str, given: Any) -> str:
        text = f"constants.get({name!r}, constants)"
        if isinstance(given, FunctionType):
            return self._does_the_same(x, text, given)
        self.values[x] = given
        if is_composite(type(given)):  # operations make structs of plans anew in each call
            return f"({text} is {x} or {self._does_the_same(x, text, given)})"
        if type(given) is not int:
            return f"{text} is {x}"
        return f"(({x}_now := {text}) is {x} or type({x}_now) is int and {x}_now == {x})"

    def require_distances(self, pairs: Sequence[Pair], disjoint: bool) -> None:
        """No pair that meets, or at least one."""
        meetings = []
        for i, (first, low, high, second, other_low, other_high) in enumerate(pairs):
            x, y = f"a{first}", f"a{second}"
            self.values |= {f"near{i}": other_low - high, f"far{i}": other_high - low}
            meetings.append(
                f"({x}_owner == {y}_owner and near{i} < {x}_address - {y}_address < far{i})"
            )
        if disjoint:
            self._unlike += meetings
        else:
            self._unlike.append(f"not ({' or '.join(meetings)})")

    def launch(self, bound: Bound, words: ArgumentText) -> None:
        """One more launch."""
        launch, groups = self.named(bound.launch), self.named(bound.groups)
        on_queue = f", {self.queue}" if self.queue else ""
        self._launches.append(f"{launch}({groups}, {bound.packing.text(words)}{on_queue})")

    def compiled(self, arity: int) -> Relaunch:
        """The function."""
        made: Relaunch = self.function(
            _SOURCE,
            arity=arity,
            constants=" and ".join(self._constants),
            launches="\n        ".join(self._launches),
            parts="; ".join(self._parts),
            same=" and ".join(self._same + self._for_all),
            taken=_NEW_LINE.join(self._taken) or "pass",
            unlike=" or ".join(self._unlike),
            unpacked=", ".join(self._unpacked),
        )
        return made


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
    """A compiled program with what is known of its arguments before the pointers are.

    `uses` counts launches, and `relaunches` recognise more of them, by the types of arguments.
    """

    executable: Executable
    program: Program | None
    packing: Packing
    disjoint: bool
    uses: dict[tuple[type, ...], int] = field(default_factory=dict)
    relaunches: dict[tuple[type, ...], Relaunch | None] = field(default_factory=dict)


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
