"""Into how many parts reductions are cut; what ``portable tune reduce`` and its like search."""

from __future__ import annotations

from typing import Final, NamedTuple

from portable.backend import Capabilities
from portable.dtypes import DType
from portable.tune.in_use import InUse
from portable.tune.space import Parameters, Space


def suits(choice: Parameters, dtype: DType, capabilities: Capabilities) -> bool:
    """Whether a choice leaves work-items to themselves just where they are best used so.

    Parameters
    ----------
    choice : mapping
        Parameters, ``GROUP`` among them.
    dtype : DType
        Does not matter.
    capabilities : Capabilities
        The device's.
    """
    del dtype
    return bool((choice["GROUP"] == 1) == capabilities.lone_work_items)


class Shares(NamedTuple):
    """How a device's workgroups share a reduction.

    Attributes
    ----------
    group : int
        Work-items of a workgroup at most.
    groups : int
        Workgroups wanted for each compute unit where each leaves its total for a second launch.
    at_once : int
        The same where the last of them combines all totals.
    ahead : int
        Vectors that a work-item reads before it combines them.
    vectors : int
        Vectors of a section at least.
    """

    group: int
    groups: int
    at_once: int
    ahead: int
    vectors: int


SPACE: Final = Space(
    "reduce",
    {
        "GROUP": (1, 64, 128, 256, 512),
        "GROUPS": (4, 8, 16, 32, 64),
        "AT_ONCE": (1, 2, 4, 8, 16),
        "AHEAD": (2, 4, 8, 16),
        "VECTORS": (1024, 4096, 16384),
    },
    suits,
)


def _shares(choice: Parameters, capabilities: Capabilities) -> Shares:
    group = min(choice["GROUP"], capabilities.max_workgroup)
    return Shares(group, choice["GROUPS"], choice["AT_ONCE"], choice["AHEAD"], choice["VECTORS"])


shares_for: Final = InUse(SPACE, _shares)
"""How a device shares a reduction along neighbours."""


class Columns(NamedTuple):
    """How a device's work-items share a reduction whose neighbours lie along another axis.

    Attributes
    ----------
    group : int
        Work-items of a workgroup at most.
    width : int
        Work-items along neighbours, or vectors of a work-item that is alone.
    depth : int
        Elements of the axis for each work-item: at least so many, or if it is alone at most.
    groups : int
        Workgroups wanted for each compute unit.
    """

    group: int
    width: int
    depth: int
    groups: int


COLUMNS: Final = Space(
    "reduce_columns",
    {
        "GROUP": (1, 128, 256, 512),
        "WIDTH": (16, 32, 64, 128, 256, 512, 1024),
        "DEPTH": (4, 8, 16, 64, 128, 256, 512),
        "GROUPS": (2, 4, 8),
    },
    suits,
)


def _columns(choice: Parameters, capabilities: Capabilities) -> Columns:
    group = min(choice["GROUP"], capabilities.max_workgroup)
    return Columns(group, choice["WIDTH"], choice["DEPTH"], choice["GROUPS"])


columns_for: Final = InUse(COLUMNS, _columns)
"""How a device shares a reduction of columns."""


def _stateful(kernel: str) -> Space:
    """Of reductions of columns that remember more than a number, a vector for each work-item."""
    return Space(
        kernel,
        {
            "GROUP": (1, 64, 128, 256),
            "WIDTH": (1, 64, 128, 256, 512),
            "DEPTH": (32, 64, 128, 256, 512, 1024, 2048),
            "GROUPS": (4, 8, 16),
        },
        lambda choice, dtype, capabilities: (
            suits(choice, dtype, capabilities) and (choice["GROUP"] == 1 or choice["WIDTH"] == 1)
        ),
    )


MOMENTS: Final = _stateful("variance_columns")
moments_for: Final = InUse(MOMENTS, _columns)
"""How a device shares variances of columns."""
BEST: Final = _stateful("argmax_columns")
best_for: Final = InUse(BEST, _columns)
"""How a device shares a search for the greatest elements of columns."""
