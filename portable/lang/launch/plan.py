"""What launches of the same types, shapes and strides share: a program and packed arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, cast

from portable.backend import ArrayView, Device, Executable, Program
from portable.lang.arguments.arguments import (
    byte_range,
)
from portable.lang.launch.geometry import (
    Three,
)
from portable.lang.launch.packing import Packing
from portable.lang.launch.relaunch import Bound, Pair, Relaunch, relaunch_of


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
