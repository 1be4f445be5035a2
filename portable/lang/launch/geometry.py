"""The ndrange and workgroup of a launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from portable.backend import Capabilities
from portable.errors import LaunchError

Three = tuple[int, int, int]

_DEFAULTS: Final[dict[int, Three]] = {1: (256, 1, 1), 2: (16, 16, 1), 3: (8, 8, 4)}


@dataclass(frozen=True, slots=True)
class Groups:
    """An ndrange given in workgroups."""

    counts: tuple[int, ...]


def groups(*counts: int) -> Groups:
    """An ndrange in workgroups rather than work-items: ``kernel[pt.groups(4, 2), (16, 16)](...)``.

    Raises
    ------
    LaunchError
        Unless there are one to three positive counts.
    """
    sizes(counts, "the number of workgroups")
    return Groups(counts)


def sizes(given: Any, what: str) -> Three:
    """One to three positive integers, filled up with ones.

    Raises
    ------
    LaunchError
        For anything else.
    """
    items = given if isinstance(given, tuple | list) else (given,)
    try:
        extents = tuple(int(x.__index__()) for x in items)
    except (AttributeError, TypeError):
        extents = ()
    if not 1 <= len(extents) <= 3 or any(x < 1 for x in extents):
        raise LaunchError(
            f"{what} is {given!r}; it takes one to three positive integers, dimension 0 (the "
            "fastest) first. Skip the launch where there is nothing to do"
        )
    return (*extents, 1, 1)[:3]  # type: ignore[return-value]


def default_workgroup(ndim: int, capabilities: Capabilities) -> Three:
    """A workgroup for users who name none."""
    wanted = list(_DEFAULTS[ndim])
    while wanted[0] * wanted[1] * wanted[2] > capabilities.max_workgroup:
        widest = wanted.index(max(wanted))
        wanted[widest] //= 2
    return tuple(wanted)  # type: ignore[return-value]


def check_workgroup(workgroup: Three, capabilities: Capabilities) -> None:
    """Refuses workgroups larger than the device allows.

    Raises
    ------
    LaunchError
        Saying what the device allows.
    """
    total = workgroup[0] * workgroup[1] * workgroup[2]
    too_wide = any(
        size > most for size, most in zip(workgroup, capabilities.max_workgroup_shape, strict=True)
    )
    if total > capabilities.max_workgroup or too_wide:
        raise LaunchError(
            f"a workgroup of {workgroup} has {total} work-items; {capabilities.name} allows at "
            f"most {capabilities.max_workgroup}, and {capabilities.max_workgroup_shape} along the "
            "dimensions"
        )


def group_counts(ndrange: Three | Groups, workgroup: Three, capabilities: Capabilities) -> Three:
    """How many workgroups cover an ndrange.

    Parameters
    ----------
    ndrange : (int, int, int) or Groups
        In work-items, or in workgroups.
    workgroup : (int, int, int)
    capabilities : Capabilities
        Of the device.

    Raises
    ------
    LaunchError
        If the device does not launch so many along one of the dimensions.
    """
    if isinstance(ndrange, Groups):
        counts = sizes(ndrange.counts, "the number of workgroups")
    else:
        first, second, third = (-(-n // m) for n, m in zip(ndrange, workgroup, strict=True))
        counts = first, second, third
    if any(count > most for count, most in zip(counts, capabilities.max_groups, strict=True)):
        raise LaunchError(
            f"{counts} workgroups; {capabilities.name} launches at most {capabilities.max_groups} "
            "along the dimensions: let dimension 0 be the longest, or make workgroups larger"
        )
    return counts


def asked_sizes(ndrange: Three | Groups, workgroup: Three) -> Three:
    """An ndrange in work-items."""
    if not isinstance(ndrange, Groups):
        return ndrange
    x, y, z = sizes(ndrange.counts, "the number of workgroups")
    return x * workgroup[0], y * workgroup[1], z * workgroup[2]


def ragged_dims(ndrange: Three | Groups, workgroup: Three) -> tuple[int, ...]:
    """The dimensions along which an ndrange ends within a workgroup."""
    if isinstance(ndrange, Groups):
        return ()
    pairs = enumerate(zip(ndrange, workgroup, strict=True))
    return tuple(dim for dim, (n, items) in pairs if n % items)
